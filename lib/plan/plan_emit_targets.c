/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prints the options of other tools: DeepSpeed's JSON (deepspeed/runtime/zero/config.py),
 * PyTorch's fully_shard, Megatron-LM's command line.
 */
#include <inttypes.h>

#include "value/value_json_out.h"
#include "plan/plan_emit.h"

static int64_t global_batch(const struct plan_case *c)
{
    return (int64_t)c->micro_batch * c->accum * c->topo->groups.ranks;
}

static void put_comments(const struct plan_emission *e, FILE *out)
{
    for (int i = 0; i < e->remarks; i++)
        fprintf(out, "# %s\n", e->remark[i]);
}

/* ---- DeepSpeed ---- */

/* zero_optimization rejects unknown keys, so comments are at the top level only. */
static void put_zero(const struct plan_emission *e, struct jout *j)
{
    const struct plan_case *c = &e->search->at;
    int64_t unit = (c->model->unit ? model_largest_unit(c->model) : 0);
    int stage = plan_emit_is(e, "NNN")   ? 0
                : plan_emit_is(e, "NN?") ? 1
                : plan_emit_is(e, "N??") ? 2
                                         : 3;

    jout_open(j, "zero_optimization", '{');
    jout_int(j, "stage", stage);
    jout_bool(j, "overlap_comm", 1);
    jout_bool(j, "contiguous_gradients", 1);
    if (unit > 0)
        jout_int(j, "reduce_bucket_size", unit);
    if (stage == 3) {
        jout_int(j, "stage3_param_persistence_threshold", 0);
        if (unit > 0) {
            jout_int(j, "stage3_prefetch_bucket_size", unit * c->prefetch);
            jout_int(j, "stage3_max_live_parameters", unit * (c->prefetch + 1));
        }
    }
    if (plan_emit_is(e, "III")) {
        jout_int(j, "mics_shard_size", c->topo->groups.members[0]);
        jout_bool(j, "mics_hierarchical_params_gather", 0);
    }
    jout_close(j, '}');
}

static void remark_layered(struct plan_emission *e)
{
    int layered = plan_layered(&e->search->at.settings);

    if (layered > 1)
        plan_emit_remark(e, "not expressed: %d micro-batches layer by layer", layered);
}

void plan_emit_deepspeed(struct plan_emission *e, FILE *out)
{
    const struct plan_case *c = &e->search->at;
    struct jout j = {.file = out, .pretty = 1};

    if (c->recompute)
        plan_emit_remark(e, "not expressed: recompute; call the model's own checkpointing");
    remark_layered(e);
    if (c->keep)
        plan_emit_remark(e, "not expressed: parameters kept from forward to backward");
    if (plan_emit_is(e, "III"))
        plan_emit_remark(e, "build the model under deepspeed.zero.MiCS_Init");
    jout_open(&j, NULL, '{');
    jout_open(&j, "_comment", '[');
    for (int i = 0; i < e->remarks; i++)
        jout_text(&j, NULL, e->remark[i]);
    jout_close(&j, ']');
    jout_int(&j, "train_batch_size", global_batch(c));
    jout_int(&j, "train_micro_batch_size_per_gpu", c->micro_batch);
    jout_int(&j, "gradient_accumulation_steps", c->accum);
    jout_open(&j, "bf16", '{');
    jout_bool(&j, "enabled", c->param_type == DTYPE_BF16);
    jout_close(&j, '}');
    jout_text(&j, "communication_data_type", c->wire_type == DTYPE_BF16 ? "bf16" : "fp32");
    jout_open(&j, "data_types", '{');
    jout_text(&j, "grad_accum_dtype", c->grad_type == DTYPE_BF16 ? "bf16" : "fp32");
    jout_close(&j, '}');
    put_zero(e, &j);
    jout_close(&j, '}');
}

/* ---- FSDP2 ---- */

static const char *torch_type(enum dtype type)
{
    return type == DTYPE_BF16 ? "torch.bfloat16" : "torch.float32";
}

/* Prints the comments, the module's imports and its constants. */
static void put_head(const struct plan_emission *e, const char *imports, FILE *out)
{
    const struct plan_case *c = &e->search->at;

    put_comments(e, out);
    fprintf(out,
            "#\n"
            "# Import this module after init_process_group(), with \"nccl\" on GPUs.\n"
            "# On processors start with mpirun, import paro.torch and name the backend\n"
            "# \"paro\", see paro-torch(7), or \"gloo\".\n"
            "%s"
            "ACCUM, MICRO_BATCH, SEQ = %d, %d, %d\n"
            "DEVICE = \"cuda\" if \"nccl\" in dist.get_backend_config() else \"cpu\"\n",
            imports, c->accum, c->micro_batch, c->seq);
}

/* Prints the training step up to its loop over micro-batches. */
static void put_loop(FILE *out)
{
    fputs("\n"
          "\n"
          "def train_step(model, optimizer, batches):\n"
          "    \"\"\"batches: ACCUM of MICRO_BATCH x SEQ tokens.  Returns their loss.\"\"\"\n"
          "    total = 0.0\n"
          "    for i, batch in enumerate(batches):\n",
          out);
}

static void put_loop_end(FILE *out)
{
    fputs("        total += loss.detach()\n"
          "    optimizer.step()\n"
          "    optimizer.zero_grad()\n"
          "    return total\n",
          out);
}

static void put_ddp(const struct plan_emission *e, FILE *out)
{
    put_head(e,
             "import contextlib\n"
             "\n"
             "import torch\n"
             "import torch.distributed as dist\n"
             "from torch.nn.parallel import DistributedDataParallel\n"
             "\n",
             out);
    fputs("\n"
          "\n"
          "def shard(model):\n"
          "    return DistributedDataParallel(model, gradient_as_bucket_view=True)\n",
          out);
    put_loop(out);
    fprintf(out,
            "        last = i == ACCUM - 1\n"
            "        with contextlib.nullcontext() if last else model.no_sync():\n"
            "            with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=%s):\n"
            "                loss = model(**batch).loss / ACCUM\n"
            "            loss.backward()\n",
            e->search->at.wire_type == DTYPE_BF16 ? "True" : "False");
    put_loop_end(out);
}

static void put_mesh(const struct plan_emission *e, FILE *out)
{
    const struct plan_case *c = &e->search->at;
    const struct groups *g = &c->topo->groups;

    put_head(e,
             "import torch\n"
             "import torch.distributed as dist\n"
             "from torch.distributed.device_mesh import init_device_mesh\n"
             "from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard\n"
             "\n",
             out);
    if (c->prefetch)
        fprintf(out, "PREFETCH = %d\n", c->prefetch);
    if (plan_emit_is(e, "??I"))
        fprintf(out,
                "mesh = init_device_mesh(DEVICE, (%d, %d), "
                "mesh_dim_names=(\"replicate\", \"shard\"))\n",
                g->count, g->members[0]);
    else
        fprintf(out, "mesh = init_device_mesh(DEVICE, (%d,), mesh_dim_names=(\"shard\",))\n",
                g->ranks);
    fprintf(out, "policy = MixedPrecisionPolicy(param_dtype=%s, reduce_dtype=%s)\n",
            torch_type(c->wire_type), torch_type(c->wire_type));
}

static void put_shard(const struct plan_emission *e, FILE *out)
{
    const struct plan_case *c = &e->search->at;
    int stays = plan_emit_is(e, "N??") || (c->keep && c->keep >= c->model->visits);

    fprintf(
        out,
        "\n"
        "\n"
        "def shard(model):\n"
        "    \"\"\"Each layer is a unit; the embedding and the head belong to the root.\"\"\"\n"
        "    options = dict(mesh=mesh, mp_policy=policy, reshard_after_forward=%s)\n"
        "    for layer in model.model.layers:\n"
        "        fully_shard(layer, **options)\n"
        "    fully_shard(model, **options)\n",
        stays ? "False" : "True");
    if (c->prefetch)
        fputs("    forward = [model, *model.model.layers]\n"
              "    backward = [model, *reversed(model.model.layers)]\n"
              "    for i in range(len(forward)):\n"
              "        ahead = slice(i + 1, i + 1 + PREFETCH)\n"
              "        forward[i].set_modules_to_forward_prefetch(forward[ahead])\n"
              "        backward[i].set_modules_to_backward_prefetch(backward[ahead])\n",
              out);
    fputs("    return model\n", out);
}

static void remark_fsdp(struct plan_emission *e)
{
    const struct plan_case *c = &e->search->at;

    remark_layered(e);
    if (c->param_type == DTYPE_BF16)
        plan_emit_remark(e, "parameters at rest are the optimizer's f32 master: load the "
                            "model in f32");
    if (c->grad_type == DTYPE_BF16)
        plan_emit_remark(e, "not expressed: gradients summed in bf16; they are f32 as the "
                            "parameters");
    if (c->keep && c->keep < c->model->visits)
        plan_emit_remark(e, "not expressed: the last %d uses kept; all or none are", c->keep);
    if (c->recompute)
        plan_emit_remark(e,
                         "recompute: wrap the layers with checkpoint_wrapper before shard()");
    if (plan_emit_is(e, "NNN"))
        return;
    if (c->prefetch)
        plan_emit_remark(e, "prefetch on processors also needs "
                            "model._set_unshard_async_op(True), not public in PyTorch");
    else
        plan_emit_remark(e, "not expressed: prefetch 0; on GPUs FSDP2 gathers one unit ahead");
}

void plan_emit_fsdp(struct plan_emission *e, FILE *out)
{
    remark_fsdp(e);
    if (plan_emit_is(e, "NNN")) {
        put_ddp(e, out);
        return;
    }
    put_mesh(e, out);
    put_shard(e, out);
    put_loop(out);
    /* Switches of a micro-step, for communication that waits until the last one. */
    if (plan_emit_is(e, "?N?") || plan_emit_is(e, "??I") || plan_emit_is(e, "N??"))
        fputs("        last = i == ACCUM - 1\n", out);
    if (plan_emit_is(e, "?N?"))
        fputs("        model.set_requires_gradient_sync(last)\n", out);
    else if (plan_emit_is(e, "??I"))
        fputs("        model.set_requires_all_reduce(last)\n", out);
    if (plan_emit_is(e, "N??"))
        fputs("        model.set_reshard_after_backward(last)\n", out);
    fputs("        loss = model(**batch).loss / ACCUM\n"
          "        loss.backward()\n",
          out);
    put_loop_end(out);
}

/* ---- Megatron ---- */

static void put_megatron_fsdp(const struct plan_emission *e, FILE *out)
{
    const struct plan_case *c = &e->search->at;

    fprintf(out,
            "--use-megatron-fsdp\n"
            "--data-parallel-sharding-strategy %s\n"
            "--ckpt-format fsdp_dtensor\n"
            "--no-gradient-accumulation-fusion\n",
            plan_emit_is(e, "N??") ? "optim_grads" : "optim_grads_params");
    if (plan_emit_is(e, "?I?"))
        fprintf(out,
                "--num-distributed-optimizer-instances %d\n"
                "--outer-dp-sharding-strategy %s\n",
                c->topo->groups.count, plan_emit_is(e, "IIG") ? "optim" : "no_shard");
    fprintf(out,
            "--megatron-fsdp-main-params-dtype fp32\n"
            "--megatron-fsdp-main-grads-dtype %s\n"
            "--megatron-fsdp-grad-comm-dtype %s\n",
            c->grad_type == DTYPE_BF16 ? "bf16" : "fp32",
            c->wire_type == DTYPE_BF16 ? "bf16" : "fp32");
}

void plan_emit_megatron(struct plan_emission *e, FILE *out)
{
    const struct plan_case *c = &e->search->at;
    int fsdp = !plan_emit_is(e, "NN?"), alone = plan_emit_is(e, "NNN");

    plan_emit_remark(
        e, "the model's own flags (--num-layers, ...) and the data's are not included");
    remark_layered(e);
    if (c->keep)
        plan_emit_remark(e, "not expressed: parameters kept from forward to backward");
    if (!fsdp && c->grad_type == DTYPE_F32 && c->wire_type == DTYPE_BF16)
        plan_emit_remark(e, "not expressed: f32 sums sent as bf16; they are sent as "
                            "f32");
    put_comments(e, out);
    fprintf(out,
            "--tensor-model-parallel-size 1\n"
            "--pipeline-model-parallel-size 1\n"
            "--micro-batch-size %d\n"
            "--global-batch-size %" PRId64 "\n",
            c->micro_batch, global_batch(c));
    if (c->model->unit)
        fprintf(out, "--seq-length %d\n", c->seq);
    if (c->param_type == DTYPE_BF16)
        fputs("--bf16\n", out);
    fputs("--overlap-grad-reduce\n", out);
    if (!alone)
        fputs("--use-distributed-optimizer\n--overlap-param-gather\n", out);
    if (fsdp)
        put_megatron_fsdp(e, out);
    else if (c->param_type == DTYPE_BF16)
        fprintf(out, "%s\n",
                c->grad_type == DTYPE_F32 ? "--accumulate-allreduce-grads-in-fp32"
                                          : "--grad-reduce-in-bf16");
    if (plan_emit_is(e, "NNI"))
        fprintf(out, "--num-distributed-optimizer-instances %d\n", c->topo->groups.count);
    if (c->recompute)
        fputs("--recompute-granularity full\n"
              "--recompute-method uniform\n"
              "--recompute-num-layers 1\n",
              out);
}
