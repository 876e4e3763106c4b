/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds which strategy that another tool can run replaces the planned one, and how much that
 * costs.  Leaves which a tool can run to plan_settings.c, its options to plan_emit_targets.c.
 */
#include "plan/plan_emit.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "value/value_json_out.h"
#include "base/mem.h"
#include "base/units.h"
#include "plan/plan_traffic.h"

static void (*const put_target[PLAN_TARGETS])(struct plan_emission *e, FILE *out) = {
    plan_emit_deepspeed, plan_emit_fsdp, plan_emit_megatron};

static int is_closer(const struct plan_search *s, const struct plan_price *a,
                     const struct plan_price *b)
{
    int mine = plan_steps_between(a->strategy, s->list[s->best].strategy);
    int its = plan_steps_between(b->strategy, s->list[s->best].strategy);

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
        if (plan_can_run(target, s->list[i].strategy, &s->at.topo->groups) &&
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
    const char *name = plan_plain_name(e->runs->strategy, &e->search->at.topo->groups);

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
    remark_strategy(&e, plan_tool(target)->title);
    if (c->topo->groups.count > 1)
        plan_emit_remark(&e, "not expressed: %s collectives; NCCL chooses its own algorithms%s",
                         schedule_algo_name(s->list[s->best].algo),
                         target == PLAN_FSDP ? ", the backend \"paro\" runs them" : "");
    if (c->slow_params || c->slow_grads)
        plan_emit_remark(&e, "not expressed: slow_params %s, slow_grads %s",
                         exec_code_name(c->slow_params), exec_code_name(c->slow_grads));
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

    put_target[target](&e, out);
}

void plan_emit_json(const struct plan_search *s, enum plan_target target, FILE *out)
{
    struct plan_emission e = emit_begin(s, target);
    struct jout j = jout_begin(out, "paro.plan.emit/1");
    char *text = NULL;
    size_t bytes;
    FILE *f = mem_stream(&text, &bytes);

    put_target[target](&e, f);
    fclose(f);
    jout_text(&j, "target", plan_tool(target)->name);
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
