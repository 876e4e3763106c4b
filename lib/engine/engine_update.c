/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ends a step: agrees on one norm and one decision for all ranks, applies AdamW to this rank's
 * shard, and converts the new parameters to their layout.
 *
 * The norm counts each element once: a rank sums its G shard, which lies inside its optimizer
 * shard whatever the letter.  All ranks add the same numbers in the same order, so they all
 * come to the same decision.
 */
#include "engine/engine_inside.h"

#include <assert.h>
#include <math.h>

#include "base/tick.h"

/* Address of the gradient of element `at` of the packed optimizer shard. */
static const void *gradient_at(const struct engine *e, const struct engine_unit *u, int64_t at)
{
    return (const char *)u->grads + at * dtype_bytes(e->grad_type);
}

/* Adds squares in fixed point, on the CPU, piece by piece. */
static void add_fixed(struct engine *e, const void *grads, int64_t n)
{
    int size = dtype_bytes(e->grad_type);

    for (int64_t at = 0, part; at < n; at += part) {
        part = n - at < ENGINE_PIECE ? n - at : ENGINE_PIECE;
        dtype_convert(e->piece, DTYPE_F32, (const char *)grads + at * size, e->grad_type, part);
        for (int64_t x = 0; x < part; x++)
            fixed_add(&e->word.fixed_sumsq, (double)e->piece[x] * (double)e->piece[x]);
    }
}

/* Sums the words of all ranks, or of a group's, in rank order. */
static struct engine_word total_of(struct engine *e, int group)
{
    const struct groups *g = &e->plan->groups;
    struct engine_word all = {0};

    for (int r = 0; r < e->world->ranks; r++) {
        const struct engine_word *w = &e->words[r];
        if (group >= 0 && g->group_of[r] != group)
            continue;
        all.loss += w->loss;
        all.sumsq += w->sumsq;
        fixed_join(&all.fixed_loss, &w->fixed_loss);
        fixed_join(&all.fixed_sumsq, &w->fixed_sumsq);
        all.over |= w->over;
        all.failed |= w->failed;
        all.counted += w->counted;
        all.flags |= w->flags;
        e->traffic[r] = w->sent;
    }
    if (e->exact) {
        all.loss = fixed_value(&all.fixed_loss);
        all.sumsq = all.over ? NAN : fixed_value(&all.fixed_sumsq);
    }
    return all;
}

/* Exchanges the words of all ranks, or inside a period those of the group. */
static int exchange_words(struct engine *e, int inside, struct err *err)
{
    const struct groups *g = &e->plan->groups;
    struct engine_word *some = e->words + e->world->ranks;

    if (!inside)
        return world_allgather(e->world, &e->word, sizeof e->word, e->words, err);
    if (world_peers_allgather(&e->group, &e->word, sizeof e->word, some, err))
        return -1;
    memset(e->traffic, 0, (size_t)e->world->ranks * sizeof *e->traffic);
    for (int i = 0; i < e->group.ranks; i++)
        e->words[groups_rank(g, g->group_of[e->world->rank], i)] = some[i];
    return 0;
}

/* Fills this rank's word; its norm covers its shards of the gradient, which is summed over all
   ranks (G), or inside a period over the group (I). */
int engine_norm(struct engine *e, struct engine_run *run, const struct step_row *r,
                struct err *err)
{
    struct kern *k = &e->device.kern;

    (void)r;
    (void)err;
    engine_end_micro(e, run);
    e->word.loss = run->loss;
    for (int i = 0; i < e->model->units; i++) {
        const struct engine_unit *u = &e->unit[i];
        const struct engine_share *s = &u->share[ENGINE_OPTIM];
        int n = layout_ranges(&e->layout, e->periods ? LETTER_I : LETTER_G, e->world->rank,
                              u->trained, e->ranges);
        for (int g = 0; g < n; g++) {
            int64_t at = layout_offset(s->range, s->ranges, e->ranges[g].lo);
            int64_t elems = e->ranges[g].hi - e->ranges[g].lo;
            assert(at >= 0);
            k->op->sumsq(k, gradient_at(e, u, at), e->grad_type, elems);
            if (e->exact)
                add_fixed(e, gradient_at(e, u, at), elems);
        }
    }
    e->word.flags = run->optim && run->optim->flags ? *run->optim->flags : 0;
    e->word.over |= atomic_load(&e->beyond);
    int rc = k->op->sumsq_take(k, &e->word.sumsq, &run->why);
    if (rc == 0) /* failures of other threads' work */
        rc = engine_device_state(e, &run->why);
    e->word.failed = rc != 0;
    return 0;
}

/* Combines loss, norm and bytes of all ranks: every rank gets the same bits.  With periods the
   norm, and so the decision, is the group's. */
int engine_agree(struct engine *e, struct engine_run *run, const struct step_row *r,
                 struct err *err)
{
    const struct plan *p = e->plan;
    const struct engine_optim *optim = run->optim;
    struct engine_report *report = run->report;
    int inside = e->periods && !(optim && (optim->agrees || optim->ends));
    double start = tick_now_s();

    (void)r;
    if (exchange_words(e, inside, err))
        return -1;
    e->idle_s += tick_now_s() - start;
    e->coll.waited_s += e->idle_s; /* once a step */
    int group = e->periods ? p->groups.group_of[e->world->rank] : -1;
    struct engine_word own = total_of(e, group), all = inside ? own : total_of(e, -1);
    if (all.failed && !inside) { /* a device that has failed stays so */
        *err = run->why;
        return world_agree(e->world, e->word.failed ? -1 : 0, err);
    }
    report->tokens = plan_sequences(&p->settings, p->groups.ranks) * p->seq;
    report->agreed = !inside;
    report->flags = inside ? 0 : all.flags;
    report->counted = all.counted;
    e->mean = own.counted ? (double)report->tokens / (double)own.counted : 0;
    report->loss = all.counted ? all.loss / (double)all.counted : NAN;
    report->grad_norm = sqrt(own.sumsq) * e->mean;
    report->skipped =
        optim && (!own.counted || own.failed ||
                  (!optim->take_all && (!isfinite(report->grad_norm) || !isfinite(own.loss))));
    int ends = optim && e->running->ends;
    int updates = optim && (e->periods || !report->skipped) && !e->running->early;
    if (updates) /* the parameter sync is still to come */
        for (int i = 0; i < e->world->ranks; i++)
            coll_traffic_add(&e->traffic[i], &e->sync_traffic[ends * e->world->ranks + i], 1);
    coll_traffic_busiest(&p->groups, e->traffic, &report->slow_bytes, &report->fast_bytes);
    if (report->skipped) /* its gradient leaves no useful residual */
        engine_residuals_clear(e);
    run->ends = !updates;
    run->skips = report->skipped;
    if (updates)
        run->update = engine_clip(optim, report->grad_norm) * e->mean;
    return 0;
}

/*
 * Updates elements r of a unit, which begin at `packed` of the shard; their moments at m and v.
 * Works tensor by tensor, since only matrices are decayed.
 */
static void update_range(struct engine *e, int unit, struct range r, int64_t packed, float *m,
                         float *v, const struct engine_run *run)
{
    const struct engine_optim *o = run->optim;
    struct engine_unit *u = &e->unit[unit];
    const struct model_unit *mu = &e->model->unit[unit];
    struct kern *k = &e->device.kern;
    struct kern_optim how = {.scale = run->update,
                             .lr = o->lr,
                             .beta1 = o->beta1,
                             .beta2 = o->beta2,
                             .eps = o->eps,
                             .step = o->step};

    for (int t = mu->first; t < mu->first + mu->trained_tensors; t++) {
        const struct model_tensor *tensor = &e->model->tensor[t];
        int64_t lo = tensor->offset, hi = tensor->offset + tensor->elems;
        int64_t a = lo > r.lo ? lo : r.lo, b = hi < r.hi ? hi : r.hi, at = a - r.lo;
        how.decay = tensor->kind == MODEL_VECTOR ? 0 : o->decay;
        if (a < b)
            k->op->adamw(k, u->master + packed + at, m + at, v + at,
                         gradient_at(e, u, packed + at), e->grad_type, b - a, &how);
    }
}

/* As update_range, for moments that are stored in another type than f32: piece by piece, whole
   blocks each. */
static void update_stored(struct engine *e, int unit, struct range r, int64_t packed,
                          const struct engine_run *run)
{
    struct engine_unit *u = &e->unit[unit];
    int64_t elems = u->share[ENGINE_OPTIM].elems, most = e->step.space.piece;
    enum moments type = e->plan->moments;
    const struct kern_moment moment[] = {{type, 0, u->m, elems}, {type, 1, u->v, elems}};
    float *const *x = e->buffers.moment;
    struct kern *k = &e->device.kern;

    for (int64_t n; r.lo < r.hi; r.lo += n, packed += n) {
        n = r.hi - r.lo < most ? r.hi - r.lo : most;
        for (int i = 0; i < 2; i++)
            k->op->moment_get(k, x[i], &moment[i], packed, n);
        update_range(e, unit, (struct range){r.lo, r.lo + n}, packed, x[0], x[1], run);
        for (int i = 0; i < 2; i++) {
            struct kern_dither d = kern_dither_of(run->optim->step, unit, r.lo, i);
            k->op->moment_put(k, &moment[i], packed, x[i], n, &d);
        }
    }
}

static void update_unit(struct engine *e, int unit, const struct engine_run *run)
{
    struct engine_unit *u = &e->unit[unit];
    const struct engine_share *s = &u->share[ENGINE_OPTIM];
    float *m = u->m, *v = u->v;
    int64_t packed = 0;

    for (int i = 0; i < s->ranges; i++) {
        struct range r = s->range[i];
        if (e->plan->moments == MOMENTS_F32)
            update_range(e, unit, r, packed, m + packed, v + packed, run);
        else
            update_stored(e, unit, r, packed, run);
        packed += r.hi - r.lo;
    }
}

/* A range of the share lies inside one of the optimizer's, whose layout is no finer. */
static void slice_share(struct engine *e, int unit, int share, char *to, enum dtype type,
                        enum dtype seen)
{
    const struct engine_unit *u = &e->unit[unit];
    const struct engine_share *p = &u->share[share], *o = &u->share[ENGINE_OPTIM];
    struct kern *k = &e->device.kern;

    for (int i = 0; i < p->ranges; i++) {
        struct range r = p->range[i];
        int64_t at = layout_offset(o->range, o->ranges, r.lo);
        assert(at >= 0 && layout_offset(o->range, o->ranges, r.hi - 1) == at + r.hi - 1 - r.lo);
        k->op->round(k, to, type, u->master + at, seen, r.hi - r.lo);
        to += (r.hi - r.lo) * dtype_bytes(type);
    }
}

void engine_slice(struct engine *e, int unit)
{
    slice_share(e, unit, ENGINE_PARAMS, e->unit[unit].params, e->plan->param_type,
                e->seen_type);
}

void engine_set_anchor(struct engine *e, int unit)
{
    slice_share(e, unit, ENGINE_OUTER, (char *)e->unit[unit].anchor, DTYPE_F32, DTYPE_F32);
}

/* As in torch.nn.utils.clip_grad_norm_. */
double engine_clip(const struct engine_optim *optim, double grad_norm)
{
    double scale = optim->clip > 0 ? optim->clip / (grad_norm + 1e-6) : 1;

    return scale < 1 ? scale : 1;
}

int engine_update(struct engine *e, struct engine_run *run, const struct step_row *r,
                  struct err *err)
{
    (void)err;
    if (!run->skips)
        update_unit(e, r->unit, run);
    if (!e->step.shape.has[STEP_SYNC] && !e->running->ends)
        engine_slice(e, r->unit);
    return 0;
}

/* The master is what the groups have agreed on. */
int engine_adopt(struct engine *e, struct engine_run *run, const struct step_row *r,
                 struct err *err)
{
    (void)run;
    (void)err;
    engine_slice(e, r->unit);
    return 0;
}
