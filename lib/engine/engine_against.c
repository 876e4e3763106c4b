/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compares one strategy's step with another's.
 *
 * The second engine takes over the first one's states before the step, from whole units (the
 * ranks' G shards, exchanged by MPI): both then begin with the same parameters, and the
 * micro-batches' gradients g_i are the same bits under both.  Only the order of the additions
 * can differ.  With u half the distance from 1 to the next number of the coarser of the types
 * on the wire and of accumulation, every path from the g_i to the sum has at most n + s
 * additions and two casts, each wrong by at most u of its result, which is at most S = sum
 * |g_i| but for (1 + u)^k.  Hence under either strategy
 *
 *     |g - sum g_i| <= f S,   f = 1.1 (n + s + 2) u      (1.1 > (1 + u)^k for k u < 0.09)
 *     |g_first - g_second| <= D = 2 f S <= 2 f S' / (1 - f)
 *
 * where S' is S as the second engine sums it, from absolute values, the same way.  Norms then
 * differ by at most |D|.  The first's clipping factor c comes from its own norm, which is
 * compared with the second's; from c [g - D, g + D] interval arithmetic gives the intervals in
 * which AdamW must have put moments and master (the moments are treated as independent: the
 * true interval is narrower), widened by the rounding of f32: ROUNDINGS of 2^-24 of the terms'
 * sum.
 *
 * Where sums are exact, D and all widths are 0: both agree bit for bit.  If a step has a
 * gradient that is not finite, the comparison only checks that both have it.
 */
#include "engine/engine_inside.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* AdamW rounds each of its at most seven operations once, and its six factors. */
enum { ROUNDINGS = 16, STATES = ENGINE_STATES, FIRST_MOMENT = 1 };

static const char *const names[] = {"master", "exp_avg", "exp_avg_sq", "params"};

struct engine_against {
    struct engine *first, *second; /* borrowed */
    char strategy[2][4];
    int begun;
    int64_t steps, compared;
    double largest;        /* this rank's part of engine_against_report.largest */
    double share;          /* D = share S' */
    float *magnitude;      /* S' for this rank's G shards, unit after unit */
    int64_t *at;           /* [units] where a unit's magnitudes begin */
    double magnitude_norm; /* norm of S' over all ranks */
    struct range *ranges;  /* [layout_ranges_max] */
};

int engine_against_open(struct engine_against **out, struct engine *first,
                        struct engine *second, struct err *err)
{
    const struct plan *a = first->plan, *b = second->plan;
    struct engine_against *g;
    int64_t shard = 0;

    if (engine_coded(first) || engine_coded(second))
        return err_set(err, ERR_INPUT,
                       "the plan rounds data between groups: no bound holds against "
                       "another strategy, expected 'same'");
    if (!first->exact && (a->moments || b->moments))
        return err_set(
            err, ERR_INPUT,
            "the plan stores moments in %s: no bound holds against another strategy, "
            "expected f32, or exact sums",
            moments_name(a->moments ? a->moments : b->moments));
    if (first->exact != second->exact || !first->step.space.apart || !second->step.space.apart)
        return err_set(err, ERR_MISMATCH, "two modes of sums, expected both exact or neither");
    if (a->seq != b->seq || a->micro_batch != b->micro_batch || a->accum != b->accum ||
        a->global_batch != b->global_batch || !a->counts != !b->counts ||
        (a->counts &&
         memcmp(a->counts, b->counts, (size_t)a->groups.ranks * sizeof *a->counts)))
        return err_set(err, ERR_MISMATCH, "plans of different batches, expected the same");
    g = mem_new(1, sizeof *g);
    *g = (struct engine_against){.first = first, .second = second};
    strcpy(g->strategy[0], plan_strategy_name(a->strategy));
    strcpy(g->strategy[1], plan_strategy_name(b->strategy));
    int coarse = first->reduce_type == DTYPE_BF16 || first->grad_type == DTYPE_BF16;
    double f = 1.1 * (a->groups.ranks + a->accum + 2) * (coarse ? 0x1p-8 : 0x1p-24);
    g->share = first->exact ? 0 : f < 1 ? 2 * f / (1 - f) : INFINITY;
    g->at = mem_new((size_t)first->model->units, sizeof *g->at);
    for (int i = 0; i < first->model->units; i++) {
        g->at[i] = shard;
        shard +=
            layout_elems(&first->layout, LETTER_G, first->world->rank, first->unit[i].trained);
    }
    g->magnitude = mem_new((size_t)shard + 1, sizeof(float));
    g->ranges = mem_new((size_t)layout_ranges_max(&first->layout), sizeof *g->ranges);
    *out = g;
    return 0;
}

void engine_against_close(struct engine_against *a)
{
    if (!a)
        return;
    MEM_FREE(a->magnitude, a->at, a->ranges, a);
}

int engine_against_begin(struct engine_against *a, struct err *err)
{
    struct engine *e = a->second;
    struct engine_whole w;
    int64_t elems = 0;

    if (e->exact && a->begun)
        return 0; /* they run side by side */
    a->begun = 1;
    for (int i = 0; i < e->model->units; i++)
        elems = e->unit[i].elems > elems ? e->unit[i].elems : elems;
    int rc = world_agree(e->world, engine_whole_open(e, STATES, elems, &w, err), err);
    for (int i = 0; rc == 0 && i < e->model->units; i++)
        rc = engine_whole_gather(a->first, i, &w, err) || engine_whole_load(e, i, &w, err) ? -1
                                                                                           : 0;
    mem_free(w.memory);
    return rc;
}

/* Computes S', then the gradient, with the second engine, which updates nothing. */
static int second_gradient(struct engine_against *a, engine_batch batch, void *arg,
                           struct engine_report *report, struct err *err)
{
    struct engine *e = a->second;

    engine_magnitudes(e, 1);
    int rc = engine_step(e, batch, arg, NULL, report, err);
    engine_magnitudes(e, 0);
    if (rc)
        return -1;
    a->magnitude_norm = report->grad_norm;
    for (int i = 0; rc == 0 && i < e->model->units; i++) {
        int n =
            layout_ranges(&e->layout, LETTER_G, e->world->rank, e->unit[i].trained, a->ranges);
        float *to = a->magnitude + a->at[i];
        for (int k = 0; rc == 0 && k < n; to += a->ranges[k].hi - a->ranges[k].lo, k++)
            rc = engine_gradient(e, i, a->ranges[k], to, err);
    }
    if (world_agree(e->world, rc, err))
        return -1;
    return engine_step(e, batch, arg, NULL, report, err);
}

struct span { /* interval of permitted values */
    double lo, hi;
};

/* The intervals of AdamW's results for all gradients in g. */
struct allowed {
    struct span state[STATES];
};

static struct span widened(double lo, double hi, double terms)
{
    double by = ROUNDINGS * 0x1p-24 * terms;

    return (struct span){lo - by, hi + by};
}

/* torch.optim.AdamW over an interval: w, m, v before, gradient in [g.lo, g.hi]. */
static struct allowed against_adamw(const struct engine_optim *o, double decay, double w,
                                    double m, double v, struct span g)
{
    double far = fabs(g.lo) > fabs(g.hi) ? fabs(g.lo) : fabs(g.hi);
    double host_kern = g.lo <= 0 && g.hi >= 0    ? 0
                       : fabs(g.lo) < fabs(g.hi) ? fabs(g.lo)
                                                 : fabs(g.hi);
    double rest1 = 1 - o->beta1, rest2 = 1 - o->beta2;
    double rate = o->lr / (1 - pow(o->beta1, (double)o->step));
    double root = 1 / sqrt(1 - pow(o->beta2, (double)o->step));
    struct allowed a;

    a.state[1] = widened(o->beta1 * m + rest1 * g.lo, o->beta1 * m + rest1 * g.hi,
                         o->beta1 * fabs(m) + rest1 * far);
    a.state[2] =
        widened(o->beta2 * v + rest2 * host_kern * host_kern, o->beta2 * v + rest2 * far * far,
                o->beta2 * v + rest2 * far * far + 0x1p-126);
    struct span t = a.state[1];
    double least = sqrt(a.state[2].lo > 0 ? a.state[2].lo : 0) * root + o->eps;
    double most = sqrt(a.state[2].hi) * root + o->eps;
    double down = rate * t.hi / (t.hi >= 0 ? least : most);
    double up = rate * t.lo / (t.lo >= 0 ? most : least);
    double keep = (1 - o->lr * decay) * w;
    double terms = fabs(keep) + fmax(fabs(down), fabs(up));
    a.state[0] = widened(keep - down, keep - up, terms);
    return a;
}

/* The first run of elements that differ, and the number of all that do. */
struct finding {
    int state, unit;
    struct range at;
    double found;
    struct span expected;
    int64_t count;
};

static void note_difference(struct finding *f, int state, int unit, int64_t x, double found,
                            struct span expected)
{
    if (f->count++ == 0)
        *f = (struct finding){state, unit, {x, x + 1}, found, expected, 1};
    else if (state == f->state && unit == f->unit && x == f->at.hi)
        f->at.hi++;
}

struct where { /* the compared part: a range of one tensor, inside one range of a G shard */
    int unit;
    struct range at;
    double decay;
    const float *magnitude;
};

enum { PART = 256 };

/* The first engine's values now and before the step, and the gradient. */
struct values {
    float now[STATES + 1][PART], before[STATES][PART], gradient[PART];
};

static int load_values(const struct engine_against *a, const struct where *w, struct values *v,
                       struct err *err)
{
    const struct engine *e = a->first;
    const struct engine_unit *u = &e->unit[w->unit];
    struct engine_shard params = {
        u->params, e->plan->param_type, &u->share[ENGINE_PARAMS], {0}};

    for (int s = 0; s < STATES; s++)
        if (engine_values(e, w->unit, s, w->at, DTYPE_F32, v->now[s], err) ||
            engine_values(a->second, w->unit, s, w->at, DTYPE_F32, v->before[s], err))
            return -1;
    if (engine_copy(e, v->now[STATES], DTYPE_F32, params, w->at, err))
        return -1;
    return engine_gradient(a->second, w->unit, w->at, v->gradient, err);
}

static int compare_part(struct engine_against *a, const struct where *w,
                        const struct engine_optim *o, double scale, int updated,
                        struct finding *f, struct err *err)
{
    struct values v;
    struct kern host_kern = a->first->device.host_kern;
    float seen[PART];
    int64_t n = w->at.hi - w->at.lo;
    enum dtype type = a->first->plan->param_type;
    uint16_t half[PART];

    if (load_values(a, w, &v, err))
        return -1;
    /* Parameters must be the rounded master. */
    host_kern.op->round(&host_kern, type == DTYPE_F32 ? (void *)seen : half, type, v.now[0],
                        a->first->seen_type, n);
    if (type != DTYPE_F32)
        dtype_convert(seen, DTYPE_F32, half, type, n);
    for (int64_t x = 0; x < n; x++) {
        double by = a->share * (double)w->magnitude[x], g = (double)v.gradient[x];
        struct allowed ok;
        if (updated && !a->first->exact)
            ok = against_adamw(o, w->decay, v.before[0][x], v.before[1][x], v.before[2][x],
                               (struct span){scale * (g - by), scale * (g + by)});
        for (int s = 0; s < STATES; s++) {
            double before = (double)v.before[s][x], now = (double)v.now[s][x];
            if (!updated || a->first->exact) /* exact: the second was updated too */
                ok.state[s] = (struct span){before, before};
            /* An interval without width is compared bit by bit. */
            double half_width = 0.5 * (ok.state[s].hi - ok.state[s].lo);
            if (s == FIRST_MOMENT && half_width > 0 && isfinite(half_width))
                a->largest =
                    fmax(a->largest, fabs(now - (ok.state[s].lo + half_width)) / half_width);
            if (!(now >= ok.state[s].lo && now <= ok.state[s].hi))
                note_difference(f, s, w->unit, w->at.lo + x, now, ok.state[s]);
        }
        if (memcmp(&seen[x], &v.now[STATES][x], sizeof seen[x]))
            note_difference(f, STATES, w->unit, w->at.lo + x, (double)v.now[STATES][x],
                            (struct span){(double)seen[x], (double)seen[x]});
    }
    return 0;
}

static int compare_range(struct engine_against *a, int unit, struct range r,
                         const float *magnitude, const struct engine_optim *o, double scale,
                         int updated, struct finding *f, struct err *err)
{
    const struct model *m = a->first->model;

    for (int t = m->unit[unit].first; t < m->unit[unit].first + m->unit[unit].count; t++) {
        const struct model_tensor *tensor = &m->tensor[t];
        int64_t lo = tensor->offset > r.lo ? tensor->offset : r.lo;
        int64_t end = tensor->offset + tensor->elems, hi = end < r.hi ? end : r.hi;
        for (; lo < hi; lo += PART) {
            struct where w = {unit,
                              {lo, hi - lo < PART ? hi : lo + PART},
                              tensor->kind == MODEL_VECTOR ? 0 : o->decay,
                              magnitude + lo - r.lo};
            if (compare_part(a, &w, o, scale, updated, f, err))
                return -1;
        }
    }
    return 0;
}

static int report_finding(const struct engine_against *a, const struct engine_optim *o,
                          const struct finding *f, struct err *err)
{
    const struct model *m = a->first->model;
    int t = m->unit[f->unit].first;

    while (f->at.lo >= m->tensor[t].offset + m->tensor[t].elems)
        t++;
    int64_t lo = f->at.lo - m->tensor[t].offset, hi = f->at.hi - m->tensor[t].offset;
    hi = hi < m->tensor[t].elems ? hi : m->tensor[t].elems;
    return err_set(err, ERR_MISMATCH,
                   "step %" PRId64 ": %s of '%s', elements %" PRId64 " to %" PRId64
                   ": %.9g under %s, expected %.9g to %.9g by %s (%" PRId64
                   " values of this rank differ)",
                   o->step, names[f->state], m->tensor[t].name, lo, hi, f->found,
                   a->strategy[0], f->expected.lo, f->expected.hi, a->strategy[1], f->count);
}

static int compare_states(struct engine_against *a, const struct engine_optim *o, double scale,
                          int updated, struct err *err)
{
    struct engine *e = a->first;
    struct finding f = {0};

    for (int i = 0; i < e->model->units; i++) {
        int n =
            layout_ranges(&e->layout, LETTER_G, e->world->rank, e->unit[i].trained, a->ranges);
        const float *magnitude = a->magnitude + a->at[i];
        for (int k = 0; k < n; k++) {
            struct range r = a->ranges[k];
            if (compare_range(a, i, r, magnitude, o, scale, updated, &f, err))
                return -1;
            magnitude += r.hi - r.lo;
        }
    }
    return f.count ? report_finding(a, o, &f, err) : 0;
}

static int is_finite(const struct engine_report *r)
{
    return isfinite(r->loss) && isfinite(r->grad_norm);
}

/* Losses are sums of the same numbers; norms differ by no more than the gradients do. */
static int compare_reports(const struct engine_against *a, const struct engine_optim *o,
                           const struct engine_report *one, const struct engine_report *two,
                           struct err *err)
{
    double by = a->share * a->magnitude_norm + 1e-12 * one->grad_norm;

    if (!is_finite(one) && !is_finite(two))
        return 0;
    if (!(fabs(one->loss - two->loss) <= 1e-12 * fabs(one->loss)))
        return err_set(err, ERR_MISMATCH,
                       "step %" PRId64 ": loss %.12g under %s, expected %.12g by %s", o->step,
                       one->loss, a->strategy[0], two->loss, a->strategy[1]);
    if (!(fabs(one->grad_norm - two->grad_norm) <= by))
        return err_set(
            err, ERR_MISMATCH,
            "step %" PRId64 ": gradient norm %.9g under %s, expected %.9g +- %.3g by %s",
            o->step, one->grad_norm, a->strategy[0], two->grad_norm, by, a->strategy[1]);
    return 0;
}

int engine_against_end(struct engine_against *a, engine_batch batch, void *arg,
                       const struct engine_optim *optim, const struct engine_report *first,
                       struct err *err)
{
    struct engine *e = a->first;
    struct engine_report second;
    uint64_t hash;
    int updated = !first->skipped;

    a->magnitude_norm = 0;
    int rc = e->exact ? engine_step(a->second, batch, arg, optim, &second, err)
                      : second_gradient(a, batch, arg, &second, err);
    if (rc || engine_hash(e, &hash, err)) /* copies of the first agree; syncs have ended */
        return -1;
    if (stream_wait_all(a->second->stream[STEP_SYNC], err))
        return -1;
    rc = compare_reports(a, optim, first, &second, err);
    a->steps++;
    a->compared += is_finite(first);
    /* A gradient that is not finite has no bounds; if the step is not skipped, the states
       become infinite or NaN too. */
    if (rc == 0 && (!updated || is_finite(first)))
        rc = compare_states(a, optim, engine_clip(optim, first->grad_norm), updated, err);
    return world_agree(e->world, rc, err);
}

int engine_against_report(struct engine_against *a, struct engine_against_report *out,
                          struct err *err)
{
    struct world *w = a->first->world;
    double *all = mem_new((size_t)w->ranks, sizeof *all), largest = 0;
    int rc = world_allgather(w, &a->largest, sizeof a->largest, all, err);

    for (int r = 0; r < w->ranks; r++)
        largest = fmax(largest, all[r]);
    mem_free(all);
    if (rc == 0)
        *out = (struct engine_against_report){a->steps, a->compared, largest};
    return rc;
}
