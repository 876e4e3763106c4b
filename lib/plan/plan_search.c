/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chooses the fastest strategy that fits, over the batch sizes left open.  Exhaustive: 27
 * strategies, three algorithms, and powers of two for each `auto`.
 */
#include "plan/plan.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "plan/plan_cost.h"
#include "plan/plan_deal.h"

void plan_case_init(struct plan_case *c, const struct topo *topo, const struct model *model)
{
    int short_model = model->unit && model->max_seq < PLAN_SEQ;

    *c = (struct plan_case){
        .topo = topo,
        .model = model,
        .trainable = model->trained,
        .micro_batch = 1,
        .accum = 1,
        .layered = 1,
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

static void add_boundary(struct plan_boundaries *b, int level)
{
    b->level[b->count] = level;
    topo_at_boundary(b->whole, level, &b->topo[b->count++]);
}

int plan_boundaries_init(struct plan_boundaries *b, const struct topo *whole, int requested,
                         struct err *err)
{
    int all = whole->levels - 1;

    if (requested >= all)
        return err_set(err, ERR_MISMATCH,
                       "--group-level: %d, expected 0 to %d or auto: the fabric has %d levels",
                       requested, all - 1, whole->levels);
    *b = (struct plan_boundaries){.whole = whole, .requested = requested};
    if (requested >= 0)
        add_boundary(b, requested);
    for (int level = 0; requested < 0 && level < all; level++)
        if (topo_boundary_is_new(whole, level))
            add_boundary(b, level);
    if (b->count == 0)
        add_boundary(b, 0);
    return 0;
}

void plan_boundaries_release(struct plan_boundaries *b)
{
    for (int i = 0; i < b->count; i++)
        topo_release(&b->topo[i]);
    *b = (struct plan_boundaries){0};
}

int plan_search_allows(const struct plan_search *s, int i)
{
    struct plan_strategy a = plan_strategy_at(i), b = s->strategy;

    return !s->fixed ||
           (a.params == b.params && a.grads == b.grads && a.optimizer == b.optimizer);
}

static int search_differ(double a, double b)
{
    return plan_price_less(a, b) || plan_price_less(b, a);
}

int plan_price_better(const struct plan_price *a, const struct plan_price *b)
{
    const double mine[] = {plan_price_gross_s(a), a->memory.total, a->slow_bytes};
    const double its[] = {plan_price_gross_s(b), b->memory.total, b->slow_bytes};

    for (int i = 0; i < 3; i++) {
        if (plan_price_less(mine[i], its[i]))
            return 1;
        if (plan_price_less(its[i], mine[i]))
            return 0;
    }
    return 0;
}

/* Computes bytes only if times and memory are equal: they take longest to compute. */
static int is_better(struct plan_search *s, const struct plan_traffic *t, int i, int j)
{
    struct plan_price *a = &s->list[i], *b = &s->list[j];

    if (!search_differ(plan_price_gross_s(a), plan_price_gross_s(b)) &&
        !search_differ(a->memory.total, b->memory.total)) {
        plan_price_bytes(&s->at, t, a);
        plan_price_bytes(&s->at, t, b);
    }
    return plan_price_better(a, b);
}

static void search_choose(struct plan_search *s, const struct plan_traffic *t)
{
    s->best = s->closest = -1;
    for (int i = 0; i < PLAN_STRATEGIES; i++) {
        const struct plan_price *p = &s->list[i];
        if (!plan_search_allows(s, i))
            continue;
        if (s->closest < 0 || p->memory.total < s->list[s->closest].memory.total)
            s->closest = i;
        if (p->feasible && (s->best < 0 || is_better(s, t, i, s->best)))
            s->best = i;
    }
}

int plan_fastest(const struct plan_search *s)
{
    int best = -1;

    for (int i = 0; i < PLAN_STRATEGIES; i++)
        if (plan_search_allows(s, i) && s->list[i].feasible &&
            (best < 0 || plan_price_better(&s->list[i], &s->list[best])))
            best = i;
    return best;
}

/*
 * Prefers the strategy with least memory among those whose predictions are as good as the
 * fastest's.  Excludes those that send more across the groups: they lose most if the network is
 * slower than measured.
 */
static void prefer_less_memory(struct plan_search *s)
{
    int fastest = plan_fastest(s);

    s->best = fastest;
    for (int i = 0; fastest >= 0 && i < PLAN_STRATEGIES; i++) {
        const struct plan_price *p = &s->list[i], *top = &s->list[fastest];
        const struct plan_price *best = &s->list[s->best];
        int tied = plan_price_gross_s(p) <= plan_price_gross_s(top) * (1 + PLAN_TIE);
        int less = p->memory.total * (1 + PLAN_TIE) < top->memory.total;
        if (plan_search_allows(s, i) && p->feasible && tied && less &&
            !plan_price_less(top->slow_bytes, p->slow_bytes) &&
            (plan_price_less(p->memory.total, best->memory.total) ||
             (!search_differ(p->memory.total, best->memory.total) &&
              plan_price_better(p, best))))
            s->best = i;
    }
}

double plan_sample_s(const struct plan_found *f)
{
    return f->gross_s / (double)f->sequences;
}

int plan_found_ahead(const struct plan_found *now, const struct plan_found *kept)
{
    if (now->best < 0 || kept->best < 0)
        return now->best >= 0 || (kept->best < 0 && now->total_bytes < kept->total_bytes);
    return plan_price_less(plan_sample_s(now), plan_sample_s(kept));
}

static struct plan_found found_of(const struct plan_search *s)
{
    const struct plan_price *p = &s->list[s->best >= 0 ? s->best : s->closest];

    return (struct plan_found){
        .best = s->best,
        .closest = s->closest,
        .micro_batch = s->at.micro_batch,
        .accum = s->at.accum,
        .layered = plan_layered(&s->at.settings),
        .sequences = plan_sequences(&s->at.settings, s->at.topo->groups.ranks),
        .step_s = p->step_s,
        .gross_s = plan_price_gross_s(p),
        .tokens_per_s = p->tokens_per_s,
        .total_bytes = p->memory.total,
    };
}

/* Returns whether `now` replaces `kept`. */
static int is_ahead(const struct plan_search *now, const struct plan_search *kept)
{
    struct plan_found a = found_of(now), b = found_of(kept);

    return plan_found_ahead(&a, &b);
}

/* Lists the values of keep that the search tries; returns their number. */
static int keeps_of(const struct plan_search *s, int keep[PLAN_KEEPS])
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

static int boundaries_of(const struct plan_search *s)
{
    return s->groups ? s->groups->count : 1;
}

static const struct topo *topo_of(const struct plan_search *s, int boundary)
{
    return s->groups ? &s->groups->topo[boundary] : s->at.topo;
}

static struct plan_traffic *traffic_at(const struct plan_search *s, const int *boundary, int n)
{
    const struct plan_case *c = &s->at;
    int keep[PLAN_KEEPS], keeps = keeps_of(s, keep);
    struct plan_traffic *t = mem_new((size_t)(n * keeps), sizeof *t);
    struct plan_settings settings = c->settings;

    for (int i = 0; i < n * keeps; i++) {
        settings.keep = keep[i % keeps];
        plan_traffic_init(&t[i], topo_of(s, boundary[i / keeps]), c->model, &settings);
    }
    return t;
}

static void search_drop(struct plan_traffic *t, int n)
{
    for (int i = 0; i < n; i++)
        plan_traffic_release(&t[i]);
    mem_free(t);
}

struct plan_traffic *plan_search_traffic(const struct plan_search *s)
{
    int all[PLAN_BOUNDARIES];

    for (int i = 0; i < PLAN_BOUNDARIES; i++)
        all[i] = i;
    return traffic_at(s, all, boundaries_of(s));
}

void plan_search_drop(const struct plan_search *s, struct plan_traffic *t)
{
    int keep[PLAN_KEEPS];

    search_drop(t, boundaries_of(s) * keeps_of(s, keep));
}

/* Returns the longest step of `now` that still beats `kept`, in seconds. */
static double limit_s(const struct plan_search *now, const struct plan_search *kept, int found)
{
    if (!found || kept->best < 0)
        return INFINITY;
    int ranks = now->at.topo->groups.ranks;
    return plan_price_gross_s(&kept->list[kept->best]) *
           ((double)plan_sequences(&now->at.settings, ranks) /
            (double)plan_sequences(&kept->at.settings, ranks));
}

/* Returns a rank's largest part of the global batch. */
static int search_part_of(const struct plan_search *s, int ranks)
{
    return (int)((s->at.global_batch + ranks - 1) / ranks);
}

/*
 * Sets the next batch of a rank after `c`'s, or the first if c->micro_batch is 0; returns 0 if
 * there is none.  If only one of micro-batch and accum is given, the other is the least that
 * suffices.
 */
static int pick_batch(const struct plan_search *s, struct plan_case *c)
{
    int b = c->micro_batch, part = search_part_of(s, c->topo->groups.ranks);

    if (!s->auto_batch && !(s->auto_accum && s->at.global_batch)) {
        c->micro_batch = s->at.micro_batch;
        return b == 0;
    }
    if (!s->at.global_batch) {
        c->micro_batch = b ? 2 * b : 1;
        return c->micro_batch <= PLAN_SEARCH_MAX;
    }
    if (!s->auto_batch || !s->auto_accum) {
        int given = s->auto_batch ? s->at.accum : s->at.micro_batch;
        int other = part / given + (part % given > 0);
        c->micro_batch = s->auto_batch ? other : given;
        c->accum = s->auto_batch ? given : other;
        return b == 0;
    }
    do
        b++;
    while (b <= part && part % b);
    c->micro_batch = b;
    c->accum = part / b;
    return b <= part;
}

/* As pick_batch; deals the micro-batches to the ranks. */
static int next_batch(const struct plan_search *s, struct plan_case *c)
{
    c->accum = s->at.accum;
    c->global_batch = s->at.global_batch;
    if (!pick_batch(s, c))
        return 0;
    plan_case_deal(c);
    return 1;
}

/* Sets the next power of two, up to all; returns 0, and sets the first again, after the
   last. */
static int next_layered(const struct plan_search *s, struct plan_case *c)
{
    int more = s->auto_layered && c->layered < c->accum;

    c->layered = !more ? s->at.layered : 2 * c->layered < c->accum ? 2 * c->layered : c->accum;
    return more;
}

/* Tries all batches for `now`, whose other settings are fixed. */
static void try_batches(struct plan_search *now, const struct plan_traffic *t,
                        struct plan_search *kept, int *found)
{
    struct plan_search requested = *now;
    unsigned allowed = 0;

    for (int i = 0; i < PLAN_STRATEGIES; i++)
        allowed |= (unsigned)plan_search_allows(now, i) << i;
    if (requested.auto_layered) /* otherwise it is the chosen one */
        requested.at.layered = now->at.layered = 1;
    now->at.micro_batch = 0;
    while (next_batch(&requested, &now->at))
        do {
            plan_price_fastest(&now->at, t, allowed, limit_s(now, kept, *found), now->list);
            search_choose(now, t);
            if (!(*found)++ || is_ahead(now, kept))
                *kept = *now;
        } while (next_layered(&requested, &now->at));
    now->at = requested.at;
}

double plan_search_storage(const struct plan_search *s)
{
    return s->storage_all ? s->storage_Bps / plan_hosts_of(plan_search_whole(s)).count
                          : s->storage_Bps;
}

/* Ties go to the first: the fabric's type, no recomputing, fewer kept units, smaller batches,
   fewer layered. */
static void search_at(struct plan_search *s, int boundary, const struct plan_traffic *t)
{
    struct plan_search now = *s;
    int keep[PLAN_KEEPS], keeps = keeps_of(s, keep), found = 0;

    now.boundary = boundary;
    now.at.topo = topo_of(s, boundary);
    int budget = now.at.budget.tokens > 0 || now.at.budget.price > 0;
    if (budget || now.at.failures.mtbf_s > 0) {
        struct plan_hosts hosts = plan_hosts_of(plan_search_whole(s));
        now.at.budget.hosts = budget ? hosts.count : 0;
        now.at.failures.nodes = hosts.count;
        now.at.failures.node_ranks = hosts.most;
        if (s->storage_Bps > 0)
            now.at.failures.storage_Bps = plan_search_storage(s);
    }
    plan_choose_chunk(&now.at, t);
    int types = s->auto_type && now.at.topo->other_flops > 0 ? 2 : 1,
        agains = s->auto_recompute + 1;
    for (int n = 0; n < types * agains * keeps; n++) {
        int other = n / keeps / agains;
        if (s->auto_type)
            now.at.compute_type =
                other ? topo_other_type(now.at.topo) : now.at.topo->compute_type;
        if (s->auto_recompute)
            now.at.recompute = n / keeps % agains;
        now.at.keep = keep[n % keeps];
        try_batches(&now, &t[n % keeps], s, &found);
    }
}

/* Searches one boundary after the other into s: keeps the first result, or one that is ahead of
   it. */
static void take_boundary(struct plan_search *s, const struct plan_search *requested,
                          int boundary, const struct plan_traffic *t, int list)
{
    struct plan_search now = *requested;
    int keep[PLAN_KEEPS], at = 0;

    search_at(&now, boundary, t);
    keeps_of(&now, keep);
    while (keep[at] != now.at.keep)
        at++;
    plan_price_with(&now.at, &t[at], now.list); /* all strategies at the chosen settings */
    prefer_less_memory(&now);
    struct plan_found found = found_of(&now);
    memcpy(now.found, s->found, sizeof now.found);
    now.found[boundary] = s->found[boundary] = found;
    if (boundary > 0 && !is_ahead(&now, s))
        return;
    if (list)
        now.checkpoint = plan_checkpoint(&now, &t[at]);
    *s = now;
}

void plan_search_choose(struct plan_search *s, const struct plan_traffic *t)
{
    const struct plan_search requested = *s;
    int keep[PLAN_KEEPS], keeps = keeps_of(s, keep);

    for (int i = 0; i < boundaries_of(&requested); i++)
        take_boundary(s, &requested, i, t + i * keeps, 0);
}

/* Holds the traffic of one boundary at a time: with many ranks it is large. */
int plan_search(struct plan_search *s, struct err *err)
{
    const struct plan_search requested = *s;
    int keep[PLAN_KEEPS], keeps = keeps_of(s, keep), ranks = topo_of(s, 0)->groups.ranks;
    int64_t largest_batch = !s->auto_batch        ? s->at.micro_batch
                            : !s->at.global_batch ? PLAN_SEARCH_MAX
                                                  : search_part_of(s, ranks);
    int layered = s->auto_layered ? s->at.accum : plan_layered(&s->at.settings);

    if (s->auto_batch && !s->at.model->unit)
        return err_set(err, ERR_INPUT,
                       "a search for the micro-batch needs a model's config.json: "
                       "'params=' has no activations");
    if (s->at.global_batch && s->at.global_batch < ranks)
        return err_set(err, ERR_INPUT,
                       "a global batch of %" PRId64 " sequences, expected at least one for each"
                       " of %d ranks",
                       s->at.global_batch, ranks);
    if (plan_check_bytes(s->at.model, largest_batch * layered, s->at.seq, err))
        return -1;
    for (int i = 0; i < boundaries_of(s); i++)
        if (s->at.failures.copies > 0 && s->at.failures.copies >= topo_of(s, i)->groups.count)
            return err_set(
                err, ERR_MISMATCH,
                "--copies: %d, expected fewer than the groups, of which there are %d",
                s->at.failures.copies, topo_of(s, i)->groups.count);
    for (int i = 0; i < boundaries_of(&requested); i++) {
        struct plan_traffic *t = traffic_at(&requested, &i, 1);
        take_boundary(s, &requested, i, t, 1);
        search_drop(t, keeps);
    }
    return 0;
}

const struct topo *plan_search_whole(const struct plan_search *s)
{
    return s->groups ? s->groups->whole : s->at.topo;
}

int plan_search_level(const struct plan_search *s)
{
    return s->groups && s->groups->whole->levels > 2 ? s->groups->level[s->boundary] : -1;
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
