/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads a configuration of another tool: which strategy it is, by the table of plan_settings.c,
 * its batch and types, and what of it a price does not have.  A key that is in no list is
 * reported and has no effect.
 */
#include "plan/plan_review.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/io.h"
#include "base/mem.h"
#include "value/value_flat.h"

/* The meaning of a key; numbers of plan_review.h come first. */
enum {
    USE_ONE = PLAN_REVIEW_NUMBERS, /* only 1 is priced */
    USE_RECOMPUTE,
    USE_DIFFERS, /* changes costs in a way that is not priced */
    USE_FILE,    /* the settings are in another file */
    USE_NOTHING,
    USE_UNKNOWN,
    USE_TYPE, /* + the type's index */
    USE_SUMS = USE_TYPE + PLAN_REVIEW_TYPES,
    USE_KEY /* + the index of a tool's key */
};

#define ZERO "zero_optimization."

/* Patterns of keys; the first that matches counts. */
static const struct {
    int use;
    const char *keys, *why;
} words[] = {
    {PLAN_REVIEW_MICRO,
     "train_micro_batch_size_per_gpu --micro-batch-size training.batch_size"
     " training.local_batch_size",
     NULL},
    {PLAN_REVIEW_ACCUM,
     "gradient_accumulation_steps deepspeed_config.gradient_accumulation_steps", NULL},
    {PLAN_REVIEW_GLOBAL, "train_batch_size --global-batch-size training.global_batch_size",
     NULL},
    {PLAN_REVIEW_SEQ, "--seq-length training.seq_len", NULL},
    {PLAN_REVIEW_RANKS, "num_processes", NULL},
    {USE_TYPE + PLAN_REVIEW_PARAM,
     "bf16.enabled fp16.enabled --bf16 --fp16 mixed_precision"
     " training.mixed_precision_param",
     NULL},
    {USE_TYPE + PLAN_REVIEW_WIRE,
     "communication_data_type --megatron-fsdp-grad-comm-dtype"
     " training.mixed_precision_reduce",
     NULL},
    {USE_TYPE + PLAN_REVIEW_GRAD,
     "data_types.grad_accum_dtype --megatron-fsdp-main-grads-dtype", NULL},
    {USE_SUMS, "--grad-reduce-in-bf16", NULL},
    {USE_RECOMPUTE,
     "--recompute-granularity fsdp_config.fsdp_activation_checkpointing"
     " activation_checkpoint.mode",
     NULL},
    {USE_ONE,
     "tensor_parallel.autotp_size sequence_parallel_size --*-model-parallel-size"
     " --context-parallel-size parallelism_config.parallelism_config_[cst]p_size"
     " parallelism.[!d]*_parallel_degree",
     NULL},
    {USE_FILE, "deepspeed_config.deepspeed_config_file", NULL},
    {USE_KEY + 1, "--use-custom-fsdp", NULL},
    {USE_KEY + 3, "fsdp_config.fsdp_sharding_strategy", NULL},
    {USE_DIFFERS,
     ZERO "offload_*.device " ZERO "cpu_offload --optimizer-cpu-offload"
          " deepspeed_config.offload_*_device fsdp_config.fsdp_offload_params"
          " training.enable_cpu_offload",
     "less device memory, other times"},
    {USE_DIFFERS, ZERO "zero_quantized_* quantize.*.enable_fsdp_float8_all_gather --fp8-format",
     "fewer bytes are sent"},
    {USE_DIFFERS, "optimizer.type optimizer.name --optimizer --use-precision-aware-optimizer",
     "optimizer state is counted for AdamW in f32"},
    {USE_NOTHING,
     "_comment optimizer.* scheduler.* bf16.* fp16.* gradient_clipping dump_state"
     " steps_per_print wall_clock_breakdown memory_breakdown prescale_gradients"
     " gradient_predivide_factor zero_allow_untested_optimizer aio.* checkpoint.*"
     " zero_force_ds_cpu_optimizer flops_profiler.* comms_logger.* tensorboard.*"
     " wandb.* csv_monitor.* activation_checkpointing.*",
     NULL},
    {USE_NOTHING,
     ZERO "stage " ZERO "overlap_comm " ZERO "contiguous_gradients " ZERO "reduce_scatter " ZERO
          "*_bucket_size " ZERO "stage3_* " ZERO "offload_* " ZERO "sub_group_size " ZERO
          "round_robin_gradients " ZERO "allgather_partitions " ZERO
          "mics_hierarchical_params_gather " ZERO "load_from_fp32_weights " ZERO
          "ignore_unused_parameters " ZERO "memory_efficient_linear",
     NULL},
    {USE_NOTHING,
     "--num-layers --hidden-* --ffn-hidden-size --num-attention-heads --kv-channels"
     " --num-query-groups --group-query-attention --max-position-embeddings"
     " --position-embedding-type --rotary-* --use-rotary-* --swiglu --normalization"
     " --norm-epsilon --disable-bias-linear --untie-* --init-method-std --attention-*"
     " --use-flash-attn --use-mcore-models --transformer-impl --train-* --eval-* --lr*"
     " --min-lr --weight-decay --adam-* --clip-grad --seed --data-path --split"
     " --data-cache-path --vocab-* --merge-file --tokenizer-* --save* --load --log-*"
     " --tensorboard-* --wandb-* --ckpt-* --exit-* --distributed-* --overlap-*"
     " --recompute-* --num-workers --mock-data --no-* --sequence-parallel"
     " --accumulate-allreduce-grads-in-fp32 --megatron-fsdp-main-params-dtype",
     NULL},
    {USE_NOTHING,
     "compute_environment debug downcast_bf16 enable_cpu_affinity machine_rank"
     " num_machines main_* rdzv_* same_network tpu_* use_cpu gpu_ids dynamo_config.*"
     " fsdp_config.fsdp_*prefetch* fsdp_config.fsdp_*wrap* fsdp_config.fsdp_state_*"
     " fsdp_config.fsdp_cpu_ram_efficient_loading fsdp_config.fsdp_use_orig_params"
     " fsdp_config.fsdp_sync_module_states fsdp_config.fsdp_min_num_params"
     " deepspeed_config.gradient_clipping deepspeed_config.*zero3_*"
     " deepspeed_config.deepspeed_*",
     NULL},
    {USE_NOTHING,
     "job.* profiling.* metrics.* model.* lr_scheduler.* compile.* comm.* debug.*"
     " validation.* experimental.* memory_estimation.* activation_checkpoint.*"
     " training.dataset* training.steps training.max_norm training.gc_*"
     " training.seed parallelism.*_parallel* quantize.*",
     NULL}};

static void remark(struct plan_review *r, enum plan_remark_kind kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void remark(struct plan_review *r, enum plan_remark_kind kind, const char *fmt, ...)
{
    va_list args;

    r->remark = mem_grow(r->remark, &r->space, r->remarks + 1, sizeof *r->remark);
    va_start(args, fmt);
    vsnprintf(r->remark[r->remarks].text, sizeof r->remark->text, fmt, args);
    va_end(args);
    r->remark[r->remarks++].kind = kind;
}

/* Whether a text is one of several words. */
static int among(const char *list, const char *text)
{
    size_t n = strlen(text);

    for (const char *p = list; n && (p = strcasestr(p, text)); p++)
        if ((p == list || p[-1] == ' ') && strchr(" ", p[n]))
            return 1;
    return 0;
}

static int meaning_of(const struct plan_review *r, const char *path, const char **why)
{
    char pattern[96];

    for (int i = 0; i < PLAN_KEYS && plan_tool(r->target)->key[i].path; i++)
        if (strcmp(path, plan_tool(r->target)->key[i].path) == 0)
            return USE_KEY + i;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (const char *p = words[i].keys; *p; p += strcspn(p, " "), p += strspn(p, " ")) {
            snprintf(pattern, sizeof pattern, "%.*s", (int)strcspn(p, " "), p);
            *why = words[i].why;
            if (fnmatch(pattern, path, 0) == 0)
                return words[i].use;
        }
    return USE_UNKNOWN;
}

/* Sets a type; "true" is that of the key's name. */
static void set_type(struct plan_review *r, const struct tree_node *n, const char *path,
                     int use)
{
    int known = among("bf16 bfloat16 true", n->text);
    int f32 = among("fp32 float32 no", n->text);

    if (among("auto", n->text))
        remark(r, PLAN_REMARK_UNSTATED, "%s (line %d) is auto, taken as absent", path, n->line);
    if (among("false auto", n->text))
        return;
    if ((!known && !f32) || strstr(path, "fp16"))
        remark(r, PLAN_REMARK_DIFFERS, "%s (line %d) is %.20s: priced as bf16", path, n->line,
               n->text);
    for (int i = 0; i < PLAN_REVIEW_TYPES; i++)
        if (use == USE_TYPE + i || (use == USE_SUMS && i != PLAN_REVIEW_PARAM))
            r->type[i] = f32 ? DTYPE_F32 : DTYPE_BF16;
}

static int set_number(struct plan_review *r, const struct tree_node *n, int use,
                      struct err *err)
{
    if (strcmp(n->text, "auto") == 0 || strcmp(n->text, "-1") == 0)
        return 0;
    if (r->at[use])
        return tree_fail(&r->tree, n, NULL, err,
                         "states what line %d does, expected one of them", r->at[use]->line);
    r->at[use] = n;
    return tree_i64(&r->tree, n, 1, PLAN_BATCH_MAX, &r->number[use], err);
}

/* Takes a key that is no mapping. */
static int take(struct plan_review *r, const char *path, const struct tree_node *n,
                struct err *err)
{
    const char *why = NULL;
    int use = meaning_of(r, path, &why), known = use != USE_UNKNOWN && use != USE_NOTHING;
    int64_t one = 1;

    r->known += known;
    if (use == USE_UNKNOWN)
        remark(r, PLAN_REMARK_UNKNOWN, "%.150s (line %d)", path, n->line);
    if (!known || n->kind == TREE_NULL)
        return 0;
    if (n->kind != TREE_SCALAR)
        return tree_fail(&r->tree, n, NULL, err, "is a list, expected one value");
    if (use < PLAN_REVIEW_NUMBERS)
        return set_number(r, n, use, err);
    if (use >= USE_KEY && r->key[use - USE_KEY])
        return tree_fail(&r->tree, n, NULL, err,
                         "states what line %d does, expected one of them",
                         r->key[use - USE_KEY]->line);
    if (use >= USE_KEY)
        r->key[use - USE_KEY] = n;
    else if (use >= USE_TYPE)
        set_type(r, n, path, use);
    else if (use == USE_FILE)
        return tree_fail(&r->tree, n, NULL, err, "is '%.80s', expected --review of that file",
                         n->text);
    else if (use == USE_ONE && tree_i64(&r->tree, n, 1, INT32_MAX, &one, err))
        return -1;
    else if (one > 1)
        return tree_fail(&r->tree, n, NULL, err,
                         "is %s, expected 1: only data parallelism is priced", n->text);
    else if (use == USE_RECOMPUTE && among("full true", n->text))
        r->recompute = 1;
    else if (use >= USE_RECOMPUTE && !among("none false no auto adam adamw", n->text))
        remark(r, PLAN_REMARK_DIFFERS, "%s (line %d) is %.30s: %s", path, n->line, n->text,
               use == USE_RECOMPUTE ? "priced with all activations kept" : why);
    return 0;
}

static int walk(struct plan_review *r, const struct tree_node *map, const char *above,
                struct err *err)
{
    char path[256];

    for (const struct tree_node *n = map->child; n; n = n->next) {
        int inner = n->kind == TREE_MAP;
        snprintf(path, sizeof path, "%s%s%s", above, n->key, inner ? "." : "");
        if (tree_once(&r->tree, map, n->key, err) ||
            (inner ? walk(r, n, path, err) : take(r, path, n, err)))
            return -1;
    }
    return 0;
}

int plan_review_read(struct plan_review *r, const char *path, struct err *err)
{
    const char *name = strcmp(path, "-") ? path : "stdin";
    char *text = NULL;
    int64_t bytes = 0;

    *r = (struct plan_review){.type = {-1, -1, -1}};
    if (io_read_text(path, 16 << 20, &text, &bytes, err))
        return -1;
    const char *p = text; /* the first line that is neither empty nor a comment */
    while (*p && strchr(" \t\r\n#", *p))
        p += *p == '#' ? strcspn(p, "\n") : 1;
    int line = (int)strcspn(p, "\r\n"), toml = (int)strcspn(p, "=:\n");
    r->target = *p == '{'                                      ? PLAN_DEEPSPEED
                : strncmp(p, "--", 2) == 0 && p[2] > '-'       ? PLAN_MEGATRON
                : *p == '[' || (toml < line && p[toml] == '=') ? PLAN_TORCHTITAN
                                                               : PLAN_ACCELERATE;
    int rc = r->target == PLAN_DEEPSPEED  ? tree_parse_json(&r->tree, name, 1, text, bytes, err)
             : r->target == PLAN_MEGATRON ? flat_parse_flags(&r->tree, name, text, err)
             : r->target == PLAN_TORCHTITAN ? flat_parse_toml(&r->tree, name, text, err)
                                            : tree_parse(&r->tree, name, text, bytes, err);
    const struct tree_node *root = r->tree.root;
    int typed = r->target != PLAN_ACCELERATE || strstr(text, "distributed_type") != NULL;
    if (tree_get(tree_get(root, "zero_optimization"), "paro_strategy"))
        r->target = PLAN_DEEPSPEED_PARO;
    if (rc == 0 && typed && root->kind == TREE_MAP)
        rc = walk(r, root, "", err);
    if (!typed || (rc == 0 && !r->known))
        rc = err_at(
            err, name, 0, NULL,
            "begins with '%.*s', expected DeepSpeed's JSON, accelerate's YAML"
            " (distributed_type), torchtitan's TOML ([parallelism]) or Megatron-LM's flags",
            line < 40 ? line : 40, p);
    mem_free(text);
    if (rc)
        plan_review_release(r);
    return rc;
}

void plan_review_release(struct plan_review *r)
{
    tree_release(&r->tree);
    mem_free(r->remark);
    *r = (struct plan_review){0};
}

/* ---- the strategy ---- */

int plan_review_has(const struct plan_review *r, const struct plan_row *row, int key,
                    const struct groups *g)
{
    const char *absent = plan_tool(r->target)->key[key].absent;
    const char *has = r->key[key] ? r->key[key]->text : absent;
    char text[PLAN_VALUE];

    for (int i = 0; row->value[key] && i < 4; i++) /* there are no more alternatives */
        if (plan_row_value(row, key, i, g, text) && strcasecmp(has, text) == 0)
            return 1;
    return !row->value[key] && strcasecmp(has, absent) == 0;
}

/* Returns the number of the row's first keys that the file has. */
static int agreed(const struct plan_review *r, const struct plan_row *row,
                  const struct groups *g)
{
    int n = 0;

    while (n < PLAN_KEYS && plan_tool(r->target)->key[n].path && plan_review_has(r, row, n, g))
        n++;
    return n;
}

/* Finds the row, or reports the first key that none has after the keys before it. */
static int find_settings(struct plan_review *r, const struct groups *g, struct err *err)
{
    const struct plan_tool *tool = plan_tool(r->target);
    char text[PLAN_VALUE], list[240] = "";
    const struct plan_row *row = NULL;
    int most = 0;

    while ((row = plan_row_next(r->target, row)) && !r->row) {
        int n = agreed(r, row, g);
        most = n > most ? n : most;
        r->row = n == PLAN_KEYS || !tool->key[n].path ? row : NULL;
    }
    if (r->row)
        return 0;
    while ((row = plan_row_next(r->target, row))) {
        size_t used = strlen(list);
        const char *value = tool->key[most].absent;
        if (row->value[most])
            value = plan_row_value(row, most, 0, g, text);
        if (agreed(r, row, g) == most && value && *value && !strstr(list, value))
            snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", value);
    }
    const struct tree_node *n = r->key[most], *with = NULL;
    for (int i = 0; i < most; i++)
        with = r->key[i] ? r->key[i] : with;
    return err_at(err, r->tree.name, n ? n->line : 0, tool->key[most].path,
                  "is %.40s, expected %s%s%s%s%.40s on %dx%d ranks", n ? n->text : "absent",
                  list, with ? " with " : "", with ? with->key : "", with ? " " : "",
                  with ? with->text : "", g->count, groups_largest(g));
}

/* ---- batch and types ---- */

/* Derives the open numbers: the batch is that of a micro-step times their number and ranks. */
static int set_batch_of(struct plan_review *r, int64_t ranks, struct err *err)
{
    int64_t *micro = &r->number[PLAN_REVIEW_MICRO], *accum = &r->number[PLAN_REVIEW_ACCUM];
    int64_t all = r->number[PLAN_REVIEW_GLOBAL], stated = r->number[PLAN_REVIEW_RANKS];

    if (stated && stated != ranks)
        return tree_fail(&r->tree, r->at[PLAN_REVIEW_RANKS], NULL, err,
                         "is %" PRId64 ", expected the fabric's %" PRId64, stated, ranks);
    if (r->target == PLAN_TORCHTITAN) { /* its defaults */
        *micro = *micro ? *micro : 8;
        *accum = all ? 0 : 1;
        if (!r->number[PLAN_REVIEW_SEQ])
            r->number[PLAN_REVIEW_SEQ] = 2048;
    }
    int64_t known = ranks * (*micro ? *micro : 1) * (*accum ? *accum : 1);
    if (all % known || (all && *micro && *accum && all != known))
        return tree_fail(&r->tree, r->at[PLAN_REVIEW_GLOBAL], NULL, err,
                         "is %" PRId64 ", expected %s%" PRId64 ": %" PRId64
                         " ranks x micro-batch"
                         " x accumulation",
                         all, *micro && *accum ? "" : "a multiple of ", known, ranks);
    if (all && !*micro)
        *micro = all / known;
    if (all && !*accum)
        *accum = all / ranks / *micro;
    return 0;
}

/* Sets the types, as the tools do where one is not stated. */
static void set_types(struct plan_review *r, struct plan_settings *s)
{
    int fsdp = r->row->flags & PLAN_ROW_MASTER, ddp = strcmp(r->row->strategy, "NNN") == 0;
    int zero = !fsdp && r->target != PLAN_MEGATRON, titan = r->target == PLAN_TORCHTITAN;
    int *type = r->type, f32 = fsdp && ddp;

    if (type[PLAN_REVIEW_PARAM] < 0 || f32)
        type[PLAN_REVIEW_PARAM] = titan && !f32 ? DTYPE_BF16 : DTYPE_F32;
    if (type[PLAN_REVIEW_GRAD] < 0 || f32)
        type[PLAN_REVIEW_GRAD] = zero && !ddp ? type[PLAN_REVIEW_PARAM] : DTYPE_F32;
    if (type[PLAN_REVIEW_WIRE] < 0 || f32)
        type[PLAN_REVIEW_WIRE] = zero || r->target == PLAN_ACCELERATE ? type[PLAN_REVIEW_PARAM]
                                                                      : type[PLAN_REVIEW_GRAD];
    s->param_type = (enum dtype)type[PLAN_REVIEW_PARAM];
    s->grad_type = (enum dtype)type[PLAN_REVIEW_GRAD];
    s->wire_type = (enum dtype)type[PLAN_REVIEW_WIRE];
}

/* Takes a stated number for a setting that no option gave. */
static int merge(struct plan_review *r, int which, const char *option, int open, int *setting,
                 struct err *err)
{
    int64_t stated = r->number[which];

    if (stated && *setting != open && *setting != stated)
        return err_set(err, ERR_INPUT,
                       "--%s %d, but '%s' has %" PRId64 ", expected one of them", option,
                       *setting, r->tree.name, stated);
    if (!stated && *setting == open)
        remark(r, PLAN_REMARK_UNSTATED, "--%s, its default is taken", option);
    *setting = stated ? (int)stated : *setting;
    return 0;
}

static void remark_row(struct plan_review *r, int accum)
{
    unsigned flags = r->row->flags;

    if (flags & PLAN_ROW_HPZ)
        remark(
            r, PLAN_REMARK_DIFFERS,
            "a second copy of the parameters in each group, for the backward: memory is more by"
            " that of I parameters, slow bytes are between those of IGG and GGG");
    if (flags & PLAN_ROW_EACH && accum > 1)
        remark(r, PLAN_REMARK_DIFFERS,
               "gradients are summed across groups in each micro-step: their slow bytes are %d"
               " times as many",
               accum);
    if (flags & PLAN_ROW_WHOLE && accum > 1)
        remark(r, PLAN_REMARK_DIFFERS,
               "accumulate() leaves gradients whole until the last micro-step, unless"
               " sync_each_batch is set");
    if (flags & PLAN_ROW_MASTER)
        remark(r, PLAN_REMARK_DIFFERS,
               "parameters at rest are the optimizer's f32 copy: memory is less by that of"
               " parameters");
}

int plan_review_apply(struct plan_review *r, const struct topo *topo, const struct model *model,
                      struct plan_settings *s, struct plan_strategy *strategy, int *level,
                      struct err *err)
{
    struct plan_boundaries b;
    struct err other;

    if (plan_boundaries_init(&b, topo, *level, err))
        return -1;
    int rc = find_settings(r, &b.topo[0].groups, err), at = 0;
    while (rc && ++at < b.count)
        rc = find_settings(r, &b.topo[at].groups, &other);
    if (rc == 0 && (strchr(r->row->strategy, 'I') || r->row->flags & PLAN_ROW_HPZ))
        *level = b.level[at];
    plan_boundaries_release(&b);
    if (rc || set_batch_of(r, topo->groups.ranks, err) ||
        merge(r, PLAN_REVIEW_MICRO, "micro-batch", -1, &s->micro_batch, err) ||
        merge(r, PLAN_REVIEW_ACCUM, "accum", -1, &s->accum, err) ||
        merge(r, PLAN_REVIEW_SEQ, "seq", 0, &s->seq, err))
        return -1;
    *strategy = plan_row_strategy(r->row, s->accum);
    set_types(r, s);
    s->recompute |= r->recompute && model->unit;
    s->keep = r->row->flags & PLAN_ROW_KEEPS ? PLAN_KEEP_ALL : 0;
    remark_row(r, s->accum);
    return 0;
}
