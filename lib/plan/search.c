/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chooses: the fastest strategy that fits, over the batch sizes left open.  Exhaustive: 27
 * strategies, three algorithms, and powers of two for what is `auto`.
 */
#include "plan/plan.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/units.h"
#include "plan/tally.h"

void plan_case_init(struct plan_case *c, const struct topo *topo, const struct model *model)
{
    int short_model = model->unit && model->max_seq < PLAN_SEQ;

    *c = (struct plan_case){
        .topo = topo,
        .model = model,
        .trainable = model->params,
        .micro_batch = 1,
        .accum = 1,
        .seq = short_model ? (int)model->max_seq : PLAN_SEQ,
        .algo = SCHEDULE_AUTO,
        .param_type = DTYPE_BF16,
        .wire_type = DTYPE_BF16,
        .grad_type = DTYPE_F32,
        .prefetch = PLAN_PREFETCH,
        .buckets = PLAN_BUCKETS,
        .chunk_bytes = PLAN_CHUNK_BYTES,
        .memory_bytes = (double)topo->memory_bytes,
        .slow_rate = 1,
    };
}

static int allowed(const struct plan_search *s, int i)
{
    struct plan_strategy a = plan_strategy_at(i), b = s->strategy;

    return !s->fixed ||
           (a.params == b.params && a.grads == b.grads && a.optimizer == b.optimizer);
}

static unsigned all_allowed(const struct plan_search *s)
{
    unsigned of = 0;

    for (int i = 0; i < PLAN_STRATEGIES; i++)
        of |= (unsigned)allowed(s, i) << i;
    return of;
}

static int differ(double a, double b)
{
    return plan_price_less(a, b) || plan_price_less(b, a);
}

int plan_price_better(const struct plan_price *a, const struct plan_price *b)
{
    const double mine[] = {a->step_s, a->memory.total, a->slow_bytes};
    const double its[] = {b->step_s, b->memory.total, b->slow_bytes};

    for (int i = 0; i < 3; i++) {
        if (plan_price_less(mine[i], its[i]))
            return 1;
        if (plan_price_less(its[i], mine[i]))
            return 0;
    }
    return 0;
}

/* Bytes are asked for where times and memory do not tell: they cost the most to count. */
static int is_better(struct plan_search *s, const struct plan_tally *t, int i, int j)
{
    struct plan_price *a = &s->list[i], *b = &s->list[j];

    if (!differ(a->step_s, b->step_s) && !differ(a->memory.total, b->memory.total)) {
        plan_price_bytes(&s->at, t, a);
        plan_price_bytes(&s->at, t, b);
    }
    return plan_price_better(a, b);
}

static void choose(struct plan_search *s, const struct plan_tally *t)
{
    s->best = s->closest = -1;
    for (int i = 0; i < PLAN_STRATEGIES; i++) {
        const struct plan_price *p = &s->list[i];
        if (!allowed(s, i))
            continue;
        if (s->closest < 0 || p->memory.total < s->list[s->closest].memory.total)
            s->closest = i;
        if (p->feasible && (s->best < 0 || is_better(s, t, i, s->best)))
            s->best = i;
    }
}

/* Step time per sample of one rank: what compares batches of different sizes. */
static double sample_s(const struct plan_search *s)
{
    return s->list[s->best].step_s / s->at.micro_batch / s->at.accum;
}

/* Is `now` to replace `kept`?  Where nothing fits, what needs least is kept. */
static int is_ahead(const struct plan_search *now, const struct plan_search *kept)
{
    if (now->best < 0 || kept->best < 0)
        return now->best >= 0 || (kept->best < 0 && now->list[now->closest].memory.total <
                                                        kept->list[kept->closest].memory.total);
    return plan_price_less(sample_s(now), sample_s(kept));
}

int plan_search_keeps(const struct plan_search *s, int keep[PLAN_KEEPS])
{
    int n = 0;

    if (!s->auto_keep) {
        keep[0] = s->at.keep;
        return 1;
    }
    keep[n++] = 0;
    for (int uses = 1; uses < s->at.model->visits && n < PLAN_KEEPS - 1; uses *= 2)
        keep[n++] = uses;
    keep[n++] = PLAN_KEEP_ALL;
    return n;
}

struct plan_tally *plan_search_tallies(const struct plan_search *s)
{
    const struct plan_case *c = &s->at;
    int keep[PLAN_KEEPS], n = plan_search_keeps(s, keep);
    struct plan_tally *t = mem_new((size_t)n, sizeof *t);

    for (int i = 0; i < n; i++)
        plan_tally_init(&t[i], c->topo, c->model, c->trainable, keep[i]);
    return t;
}

void plan_search_drop(const struct plan_search *s, struct plan_tally *t)
{
    int keep[PLAN_KEEPS], n = plan_search_keeps(s, keep);

    for (int i = 0; i < n; i++)
        plan_tally_release(&t[i]);
    mem_free(t);
}

/* What a step of `now` may take and still be ahead of `kept`. */
static double limit_s(const struct plan_search *now, const struct plan_search *kept, int found)
{
    if (!found || kept->best < 0)
        return INFINITY;
    return sample_s(kept) * now->at.micro_batch * now->at.accum;
}

/* All batches for `now`, whose other choices are made. */
static void try_batches(struct plan_search *now, const struct plan_tally *t,
                        struct plan_search *kept, int *found)
{
    for (int b = 0; b == 0 || (now->auto_batch && 1 << b <= PLAN_SEARCH_MAX); b++) {
        for (int a = 0; a == 0 || (now->auto_accum && 1 << a <= PLAN_SEARCH_MAX); a++) {
            now->at.micro_batch = now->auto_batch ? 1 << b : now->at.micro_batch;
            now->at.accum = now->auto_accum ? 1 << a : now->at.accum;
            plan_price_fastest(&now->at, t, all_allowed(now), limit_s(now, kept, *found),
                               now->list);
            choose(now, t);
            if (!(*found)++ || is_ahead(now, kept))
                *kept = *now;
        }
    }
}

/* Of equal ones the first: without recomputing, few kept, small batches. */
void plan_search_choose(struct plan_search *s, const struct plan_tally *t)
{
    struct plan_search now = *s;
    int keep[PLAN_KEEPS], keeps = plan_search_keeps(s, keep), found = 0;

    for (int again = 0; again <= s->auto_recompute; again++)
        for (int i = 0; i < keeps; i++) {
            now.at.recompute = s->auto_recompute ? again : now.at.recompute;
            now.at.keep = keep[i];
            try_batches(&now, &t[i], s, &found);
        }
}

void plan_search_with(struct plan_search *s, const struct plan_tally *t)
{
    int keep[PLAN_KEEPS], at = 0;

    plan_search_keeps(s, keep);
    plan_search_choose(s, t);
    while (keep[at] != s->at.keep)
        at++;
    plan_price_with(&s->at, &t[at], s->list);
}

int plan_search(struct plan_search *s, struct err *err)
{
    if (s->auto_batch && !s->at.model->unit)
        return err_set(err, ERR_INPUT,
                       "a search for the micro-batch needs a model's config.json: "
                       "'params=' has no activations to weigh");
    struct plan_tally *t = plan_search_tallies(s);
    plan_search_with(s, t);
    plan_search_drop(s, t);
    return 0;
}

const char *plan_memory_heaviest(const struct plan_memory *m, double *bytes)
{
    static const char *const names[] = {"parameters", "gradients", "optimizer state",
                                        "activations", "buffers"};
    const double parts[] = {m->params, m->grads, m->optimizer, m->activations, m->buffers};
    int top = 0;

    for (int i = 1; i < 5; i++)
        top = parts[i] > parts[top] ? i : top;
    *bytes = parts[top];
    return names[top];
}

int plan_search_refuse(const struct plan_search *s, struct err *err)
{
    const struct plan_price *p = &s->list[s->closest];
    struct units need, most, have;
    double bytes;
    char name[4];
    const char *what = plan_memory_heaviest(&p->memory, &bytes);

    plan_strategy_name(p->strategy, name);
    return err_set(err, ERR_MISMATCH,
                   "no feasible plan: %s%s needs %s per rank (%s of it %s), has %s", name,
                   s->fixed ? "" : ", the smallest,", units_bytes(&need, p->memory.total),
                   units_bytes(&most, bytes), what, units_bytes(&have, s->at.memory_bytes));
}
