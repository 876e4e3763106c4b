/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Holds the settings by which other tools express strategies.  plan_emit.c takes from it what a
 * tool can run, plan_review.c what a file says; plan_emit_targets.c writes files without it.
 *
 * DeepSpeed: ZeRO stages 0 to 3; MiCS: stage 3 inside groups, gradients summed across them at
 * the boundary; hpZ: stage 3 with a second copy of the parameters in each group.  The authors'
 * DeepSpeed names the letters (its pull request 5588).
 *
 * FSDP2: a mesh of one dimension partitions over all ranks, one of two inside the rows;
 * gradients can be kept whole until the last micro-step (set_requires_gradient_sync), and
 * parameters from the first gather to the last backward (set_reshard_after_backward).
 * Gradients that are partitioned are never partitioned coarser than the optimizer.
 *
 * accelerate drives FSDP, DDP and DeepSpeed.  Its accumulate() leaves gradients of FSDP whole
 * until the last micro-step.  torchtitan, while it was configured by TOML (to February 2026),
 * reduced them in each micro-step, over the groups too.  The DDP of both is f32.
 *
 * Megatron-LM 0.19.2: the distributed optimizer (over instances of it: inside groups), and
 * Megatron-FSDP.  Its flags partition nothing across groups, or only the optimizer state if all
 * three states are partitioned inside (IIG).  Version 2 of Megatron-FSDP, for which 0.19.2 has
 * no flag, partitions each state per axis in its code, gradients across too (IGG), but only
 * above full partitioning inside: NIG has no flags there either.
 */
#include "plan/plan_settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ZERO   "zero_optimization."
#define DEGREE "parallelism.data_parallel_"
#define SIZE   "parallelism_config.parallelism_config_dp_"
#define FSDP   PLAN_ROW_MASTER | PLAN_ROW_WHOLE
#define HYBRID PLAN_ROW_MASTER | PLAN_ROW_EACH
#define KEEPS  PLAN_ROW_KEEPS
#define DDP    "MULTI_GPU|MULTI_CPU|MULTI_XPU|MULTI_NPU|MULTI_HPU"
/* clang-format off */
#define BARE(name) {PLAN_FSDP, name, 0, {0}}
#define PARO(name) {PLAN_DEEPSPEED_PARO, name, 0, {name}}

static const struct plan_tool tools[PLAN_TOOLS] = {
    {"deepspeed", "DeepSpeed", ": ", 3,
     {{ZERO "stage", "0"}, {ZERO "mics_shard_size", "-1"},
      {ZERO "zero_hpz_partition_size", "1"}}},
    {"fsdp", "FSDP2", "", 0, {{0}}},
    {"megatron", "Megatron-LM 0.19.2", " ", 6,
     {{"--use-distributed-optimizer", "false"}, {"--use-megatron-fsdp", "false"},
      {"--data-parallel-sharding-strategy", "no_shard"},
      {"--num-distributed-optimizer-instances", "1"},
      {"--outer-dp-sharding-strategy", "no_shard"}, {"--use-torch-fsdp2", "false"}}},
    {"torchtitan", "torchtitan", " = ", 3,
     {{DEGREE "replicate_degree", "1"}, {DEGREE "shard_degree", "-1"},
      {"parallelism.fsdp_reshard_after_forward", "default"}}},
    {"deepspeed-paro", "PaRO's DeepSpeed", ": ", 1, {{ZERO "paro_strategy", ""}}},
    {"accelerate", "accelerate", ": ", 6,
     {{"distributed_type", "NO"}, {"deepspeed_config.zero_stage", "2"},
      {"fsdp_config.fsdp_version", "1"}, {"fsdp_config.fsdp_reshard_after_forward", ""},
      {SIZE "replicate_size", "1"}, {SIZE "shard_size", "1"}}},
};

static const struct plan_row rows[] = {
    {PLAN_DEEPSPEED, "NNN", 0, {"0"}}, {PLAN_DEEPSPEED, "NNG", 0, {"1"}},
    {PLAN_DEEPSPEED, "NGG", 0, {"2"}}, {PLAN_DEEPSPEED, "GGG", 0, {"3"}},
    {PLAN_DEEPSPEED, "III", 0, {"3", "@m"}}, {PLAN_DEEPSPEED, "GGG", 0, {"3", "@n"}},
    {PLAN_DEEPSPEED, "GGG", PLAN_ROW_HPZ, {"3", NULL, "@m"}},
    BARE("NNN"), BARE("NNG"), BARE("NGG"), BARE("GNG"), BARE("GGG"), BARE("NNI"), BARE("NII"),
    BARE("INI"), BARE("III"),
    {PLAN_MEGATRON, "NNN", 0, {0}}, {PLAN_MEGATRON, "NNG", 0, {"true"}},
    {PLAN_MEGATRON, "NGG", 0, {"true|false", "true", "optim_grads"}},
    {PLAN_MEGATRON, "GGG", 0, {"true|false", "true", "optim_grads_params"}},
    {PLAN_MEGATRON, "NNI", 0, {"true", NULL, NULL, "@g"}},
    {PLAN_MEGATRON, "NII", 0, {"true|false", "true", "optim_grads", "@g", "no_shard"}},
    {PLAN_MEGATRON, "III", 0, {"true|false", "true", "optim_grads_params", "@g", "no_shard"}},
    {PLAN_MEGATRON, "IIG", 0, {"true|false", "true", "optim_grads_params", "@g", "optim"}},
    {PLAN_MEGATRON, "NNN", 0, {"true|false", "true", "no_shard"}},
    {PLAN_MEGATRON, "NNG", 0, {"true|false", "true", "optim"}},
    {PLAN_MEGATRON, "GGG", PLAN_ROW_MASTER, {NULL, NULL, NULL, NULL, NULL, "true"}},
    {PLAN_TORCHTITAN, "NNN", HYBRID, {"@n", "1|-1", "default|always|never"}},
    {PLAN_TORCHTITAN, "GGG", PLAN_ROW_MASTER, {"1", "-1|@n", "always|default"}},
    {PLAN_TORCHTITAN, "GGG", PLAN_ROW_MASTER | KEEPS, {"1", "-1|@n", "never"}},
    {PLAN_TORCHTITAN, "III", HYBRID, {"@g", "@m|-1", "always|default"}},
    {PLAN_TORCHTITAN, "III", HYBRID | KEEPS, {"@g", "@m|-1", "never"}},
    PARO("NNG"), PARO("NGG"), PARO("GGG"), PARO("NII"), PARO("NIG"), PARO("IIG"), PARO("IGG"),
    PARO("ING"),
    {PLAN_ACCELERATE, "NNN", PLAN_ROW_MASTER, {DDP}},
    {PLAN_ACCELERATE, "GGG", FSDP, {"FSDP", NULL, "2", "true|", "1", "@n|1|-1"}},
    {PLAN_ACCELERATE, "GGG", FSDP | KEEPS, {"FSDP", NULL, "2", "false", "1", "@n|1|-1"}},
    {PLAN_ACCELERATE, "III", FSDP, {"FSDP", NULL, "2", "true|", "@g", "@m"}},
    {PLAN_ACCELERATE, "III", FSDP | KEEPS, {"FSDP", NULL, "2", "false", "@g", "@m"}},
    {PLAN_ACCELERATE, "GGG", FSDP, {"FSDP", NULL, "1", "FULL_SHARD|1||true"}},
    {PLAN_ACCELERATE, "GGG", FSDP | KEEPS, {"FSDP", NULL, "1", "SHARD_GRAD_OP|2|false"}},
    {PLAN_ACCELERATE, "III", FSDP, {"FSDP", NULL, "1", "HYBRID_SHARD|4"}},
    {PLAN_ACCELERATE, "III", FSDP | KEEPS, {"FSDP", NULL, "1", "HYBRID_SHARD_ZERO2|5"}},
    {PLAN_ACCELERATE, "NNN", PLAN_ROW_MASTER, {"FSDP", NULL, "1", "NO_SHARD|3"}},
    {PLAN_ACCELERATE, "NNN", 0, {"DEEPSPEED", "0"}},
    {PLAN_ACCELERATE, "NNG", 0, {"DEEPSPEED", "1"}},
    {PLAN_ACCELERATE, "NGG", 0, {"DEEPSPEED", "2"}},
    {PLAN_ACCELERATE, "GGG", 0, {"DEEPSPEED", "3"}},
};
/* clang-format on */

const struct plan_tool *plan_tool(enum plan_target target)
{
    return &tools[target];
}

const struct plan_row *plan_row_next(enum plan_target target, const struct plan_row *row)
{
    const struct plan_row *end = rows + sizeof rows / sizeof *rows;

    for (row = row ? row + 1 : rows; row < end && row->target != target;)
        row++;
    return row < end ? row : NULL;
}

struct plan_strategy plan_row_strategy(const struct plan_row *row, int accum)
{
    struct plan_strategy s;
    struct err ignored;

    (void)plan_strategy_parse(row->strategy, &s, &ignored);
    if (row->flags & PLAN_ROW_WHOLE && accum > 1)
        s.grads = LETTER_N;
    return s;
}

/* Equal groups of consecutive ranks: a mesh of two dimensions can express them. */
static int is_mesh(const struct groups *g)
{
    for (int k = 0; k < g->count; k++) {
        if (g->members[k] != g->members[0])
            return 0;
        for (int j = 0; j < g->members[k]; j++)
            if (groups_rank(g, k, j) != k * g->members[0] + j)
                return 0;
    }
    return 1;
}

static enum letter plain(enum letter l, const struct groups *g)
{
    if (l != LETTER_I)
        return l;
    return g->count == 1 ? LETTER_G : groups_largest(g) == 1 ? LETTER_N : LETTER_I;
}

const char *plan_plain_name(struct plan_strategy s, const struct groups *g)
{
    struct plan_strategy p = {plain(s.params, g), plain(s.grads, g), plain(s.optimizer, g)};

    return plan_strategy_name(p);
}

int plan_can_run(enum plan_target target, struct plan_strategy s, const struct groups *groups)
{
    const char *name = plan_plain_name(s, groups);
    const struct plan_row *row = NULL;

    while ((row = plan_row_next(target, row)))
        if (strcmp(name, row->strategy) == 0)
            return !strchr(name, 'I') || is_mesh(groups);
    return 0;
}

const char *plan_row_value(const struct plan_row *row, int key, const struct groups *groups,
                           char text[PLAN_VALUE])
{
    const char *p = row->value[key];
    size_t n = 0;

    if (!p || ((strstr(p, "@m") || strstr(p, "@g")) && !is_mesh(groups)))
        return NULL;
    for (; *p; p++)
        if (*p == '@')
            n += (size_t)sprintf(text + n, "%d",
                                 *++p == 'm' ? groups->members[0]
                                 : *p == 'g' ? groups->count
                                             : groups->ranks);
        else
            text[n++] = *p;
    text[n] = 0;
    return text;
}

int plan_steps_between(struct plan_strategy a, struct plan_strategy b)
{
    return abs((int)a.params - (int)b.params) + abs((int)a.grads - (int)b.grads) +
           abs((int)a.optimizer - (int)b.optimizer);
}
