/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds which strategies other tools can run, which of them replaces the planned one, and how
 * much that costs.  Leaves the names of their options to plan_emit_targets.c.
 *
 * DeepSpeed: ZeRO stages 0 to 3, and MiCS: stage 3 inside groups, gradients summed across them
 * at the boundary.
 *
 * FSDP2: a mesh of one dimension partitions over all ranks, one of two inside the rows;
 * gradients can be kept whole until the last micro-step (set_requires_gradient_sync), and
 * parameters from the first gather to the last backward (set_reshard_after_backward).
 * Gradients that are partitioned are never partitioned coarser than the optimizer.
 *
 * Megatron-LM 0.19.2: the distributed optimizer (over instances of it: inside groups), and
 * Megatron-FSDP.  Its flags partition nothing across groups, or only the optimizer state if all
 * three states are partitioned inside (IIG).  Version 2 of Megatron-FSDP, for which 0.19.2 has
 * no flag, partitions each state per axis in its code, gradients across too (IGG), but only
 * above full partitioning inside: NIG has no flags there either.
 */
#include "plan/plan_emit.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "value/value_json_out.h"
#include "base/mem.h"
#include "base/units.h"
#include "plan/plan_traffic.h"

static const struct {
    const char *name, *title;
    const char *runs;
    void (*put)(struct plan_emission *e, FILE *out);
} targets[PLAN_TARGETS] = {
    {"deepspeed", "DeepSpeed", "NNN NNG NGG GGG III", plan_emit_deepspeed},
    {"fsdp", "FSDP2", "NNN NNG NGG GNG GGG NNI NII INI III", plan_emit_fsdp},
    {"megatron", "Megatron-LM 0.19.2", "NNN NNG NGG GGG NNI NII III IIG", plan_emit_megatron},
};

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

static enum letter emit_plain(enum letter l, const struct groups *g)
{
    if (l != LETTER_I)
        return l;
    return g->count == 1 ? LETTER_G : groups_largest(g) == 1 ? LETTER_N : LETTER_I;
}

/* Returns the strategy's name, with I replaced by its equal if there is one group, or one rank
   in each. */
static const char *emit_plain_name(struct plan_strategy s, const struct groups *g)
{
    struct plan_strategy p = {emit_plain(s.params, g), emit_plain(s.grads, g),
                              emit_plain(s.optimizer, g)};

    return plan_strategy_name(p);
}

/* Returns whether the target can run s; I needs equal groups of consecutive ranks. */
static int can_run(enum plan_target target, struct plan_strategy s, const struct groups *groups)
{
    const char *name = emit_plain_name(s, groups);

    return strstr(targets[target].runs, name) && (!strchr(name, 'I') || is_mesh(groups));
}

/* Counts the steps between two strategies: per state, N to I and I to G are one each. */
static int steps_between(struct plan_strategy a, struct plan_strategy b)
{
    return abs((int)a.params - (int)b.params) + abs((int)a.grads - (int)b.grads) +
           abs((int)a.optimizer - (int)b.optimizer);
}

static int is_closer(const struct plan_search *s, const struct plan_price *a,
                     const struct plan_price *b)
{
    int mine = steps_between(a->strategy, s->list[s->best].strategy);
    int its = steps_between(b->strategy, s->list[s->best].strategy);

    if (a->feasible != b->feasible)
        return a->feasible;
    if (!a->feasible)
        return a->memory.total < b->memory.total;
    return mine != its ? mine < its : plan_price_better(a, b);
}

int plan_emit_closest(const struct plan_search *s, enum plan_target target)
{
    int best = -1;

    for (int i = 0; i < PLAN_STRATEGIES; i++)
        if (can_run(target, s->list[i].strategy, &s->at.topo->groups) &&
            (best < 0 || is_closer(s, &s->list[i], &s->list[best])))
            best = i;
    return best;
}

void plan_emit_remark(struct plan_emission *e, const char *fmt, ...)
{
    va_list args;

    assert(e->remarks < PLAN_REMARKS);
    va_start(args, fmt);
    vsnprintf(e->remark[e->remarks++], sizeof e->remark[0], fmt, args);
    va_end(args);
}

int plan_emit_is(const struct plan_emission *e, const char *pattern)
{
    const char *name = emit_plain_name(e->runs->strategy, &e->search->at.topo->groups);

    for (int i = 0; i < 3; i++)
        if (pattern[i] != '?' && pattern[i] != name[i])
            return 0;
    return 1;
}

static void remark_strategy(struct plan_emission *e, const char *title)
{
    const struct plan_price *best = &e->search->list[e->search->best];
    const char *runs = plan_strategy_name(e->runs->strategy);
    struct units a, b;
    char shape[64];

    groups_print(&e->search->at.topo->groups, shape, sizeof shape);
    if (best == e->runs) {
        plan_emit_remark(e, "%s on %s ranks, as planned by paro-plan", runs, shape);
        return;
    }
    plan_emit_remark(e, "%s on %s ranks: paro-plan chose %s, which %s cannot run", runs, shape,
                     plan_strategy_name(best->strategy), title);
    plan_emit_remark(e, "predicted: %s per step instead of %s", units_time(&a, e->runs->step_s),
                     units_time(&b, best->step_s));
    plan_emit_remark(
        e, "predicted: %s per rank instead of %s%s", units_bytes(&a, e->runs->memory.total),
        units_bytes(&b, best->memory.total), e->runs->feasible ? "" : ": DOES NOT FIT");
}

static struct plan_emission emit_begin(const struct plan_search *s, enum plan_target target)
{
    struct plan_emission e = {.search = s};
    const struct plan_case *c = &s->at;
    const int ranks = c->topo->groups.ranks;

    assert(s->best >= 0);
    e.runs = &s->list[plan_emit_closest(s, target)];
    remark_strategy(&e, targets[target].title);
    if (c->topo->groups.count > 1)
        plan_emit_remark(&e, "not expressed: %s collectives; NCCL chooses its own algorithms%s",
                         schedule_algo_name(s->list[s->best].algo),
                         target == PLAN_FSDP ? ", the backend \"paro\" runs them" : "");
    if (c->slow_params || c->slow_grads)
        plan_emit_remark(&e, "not expressed: int8 between groups");
    if (plan_apart(&c->settings, &c->topo->groups))
        plan_emit_remark(&e, "not expressed: groups that train apart for %d steps",
                         c->sync_every);
    if (c->moments)
        plan_emit_remark(&e, "not expressed: moments in %s", moments_name(c->moments));
    if (c->model->unit && c->param_type == DTYPE_BF16 && c->compute_type == DTYPE_F32)
        plan_emit_remark(&e, "not expressed: products with weights in f32; they are in bf16");
    if (c->model->sparse.share > 0)
        plan_emit_remark(&e, "not expressed: sparse matrices (%s)", c->model->partial);
    else if (c->trainable < c->model->params)
        plan_emit_remark(&e, "not expressed: which parameters are frozen (requires_grad)");
    if (c->global_batch && c->global_batch % ((int64_t)ranks * c->accum * c->micro_batch))
        plan_emit_remark(&e,
                         "not expressed: a global batch of %" PRId64
                         " sequences; micro-batches are full",
                         c->global_batch);
    if (c->buckets != PLAN_BUCKETS)
        plan_emit_remark(&e, "not expressed: buckets, %d", c->buckets);
    return e;
}

void plan_emit(const struct plan_search *s, enum plan_target target, FILE *out)
{
    struct plan_emission e = emit_begin(s, target);

    targets[target].put(&e, out);
}

void plan_emit_json(const struct plan_search *s, enum plan_target target, FILE *out)
{
    struct plan_emission e = emit_begin(s, target);
    struct jout j = jout_begin(out, "paro.plan.emit/1");
    char *text = NULL;
    size_t bytes;
    FILE *f = mem_stream(&text, &bytes);

    targets[target].put(&e, f);
    fclose(f);
    jout_text(&j, "target", targets[target].name);
    jout_text(&j, "planned", plan_strategy_name(s->list[s->best].strategy));
    jout_text(&j, "runs", plan_strategy_name(e.runs->strategy));
    jout_bool(&j, "feasible", e.runs->feasible);
    jout_num(&j, "step_s", e.runs->step_s);
    jout_open(&j, "comments", '[');
    for (int i = 0; i < e.remarks; i++)
        jout_text(&j, NULL, e.remark[i]);
    jout_close(&j, ']');
    jout_text(&j, "text", text);
    jout_close(&j, '}');
    mem_free(text);
}
