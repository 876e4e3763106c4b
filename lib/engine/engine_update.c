/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows the end of a step: one norm and one decision for all ranks, AdamW on this rank's shard,
 * and the way of the new parameters back to their layout.
 *
 * The norm counts each element once: a rank sums its G shard, which lies inside its optimizer
 * shard whatever the letter.  All ranks add the same numbers in the same order, so that no two
 * of them can come to different decisions.
 */
#include "engine/engine_inside.h"

#include <assert.h>
#include <math.h>

#include "base/tick.h"

/* Where a unit's gradient has element `at` of the packed optimizer shard. */
static const void *gradient_at(const struct engine *e, const struct engine_unit *u, int64_t at)
{
    return (const char *)u->grads + at * dtype_bytes(e->grad_type);
}

/* In fixed point: the processor's, piece by piece. */
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

/* Adds the squares of the unit's G shard. */
static void add_squares(struct engine *e, const struct engine_unit *u)
{
    int n = layout_ranges(&e->layout, LETTER_G, e->world->rank, u->trained, e->ranges);
    struct kern *k = &e->device.kern;

    for (int i = 0; i < n; i++) {
        int64_t at = layout_offset(u->optim_range, u->optim_ranges, e->ranges[i].lo);
        int64_t elems = e->ranges[i].hi - e->ranges[i].lo;
        assert(at >= 0);
        k->op->sumsq(k, gradient_at(e, u, at), e->grad_type, elems);
        if (e->exact)
            add_fixed(e, gradient_at(e, u, at), elems);
    }
}

/* This rank's own word, but for what it found before. */
static int own_word(struct engine *e, const struct engine_optim *optim, struct err *err)
{
    struct kern *k = &e->device.kern;

    for (int i = 0; i < e->model->units; i++)
        add_squares(e, &e->unit[i]);
    int rc = k->op->sumsq_take(k, &e->word.sumsq, err);
    if (rc == 0)
        rc = engine_device_state(e, err); /* what other threads asked for */
    e->word.failed = rc != 0;
    e->word.flags = optim && optim->flags ? *optim->flags : 0;
    return rc;
}

/* What all ranks said, added up in the order of the ranks. */
static struct engine_word total_of(struct engine *e)
{
    struct engine_word all = {0};

    for (int r = 0; r < e->world->ranks; r++) {
        const struct engine_word *w = &e->words[r];
        all.loss += w->loss;
        all.sumsq += w->sumsq;
        fixed_join(&all.fixed_loss, &w->fixed_loss);
        fixed_join(&all.fixed_sumsq, &w->fixed_sumsq);
        all.over |= w->over;
        all.failed |= w->failed;
        all.flags |= w->flags;
        e->traffic[r] = w->sent;
    }
    if (e->exact) {
        all.loss = fixed_value(&all.fixed_loss);
        all.sumsq = all.over ? NAN : fixed_value(&all.fixed_sumsq);
    }
    return all;
}

/* Loss, norm and bytes of all ranks: every rank gets the same bits. */
static int sum_up(struct engine *e, const struct engine_optim *optim, int at_once,
                  struct engine_report *report, struct err *err)
{
    const struct plan *p = e->plan;

    int rc = own_word(e, optim, err);
    engine_trace_compute(e, ENGINE_UPDATE, -1, -1);
    double start = tick_now_s();
    struct err why = rc ? *err : (struct err){0};
    if (world_allgather(e->world, &e->word, sizeof e->word, e->words, err))
        return -1;
    e->idle_s += tick_now_s() - start;
    engine_trace_compute(e, ENGINE_AGREE, -1, -1);
    struct engine_word all = total_of(e);
    if (all.failed) {
        *err = why;
        return world_agree(e->world, rc, err);
    }
    report->tokens = (int64_t)e->world->ranks * p->accum * p->micro_batch * p->seq;
    report->flags = all.flags;
    report->loss = all.loss / (double)report->tokens;
    report->grad_norm = sqrt(all.sumsq);
    report->skipped =
        optim && !optim->take_all && (!isfinite(report->grad_norm) || !isfinite(report->loss));
    if (optim && !at_once && !report->skipped) /* still to come */
        for (int r = 0; r < e->world->ranks; r++)
            coll_traffic_add(&e->traffic[r], &e->sync_traffic[r], 1);
    coll_traffic_busiest(&p->groups, e->traffic, &report->slow_bytes, &report->fast_bytes);
    engine_trace_compute(e, ENGINE_UPDATE, -1, -1);
    return 0;
}

/* AdamW on n elements of one tensor, at `at` in the unit's shard. */
static void update_range(struct engine *e, struct engine_unit *u, const struct kern_optim *o,
                         int64_t at, int64_t n)
{
    struct kern *k = &e->device.kern;

    k->op->adamw(k, u->master + at, u->m + at, u->v + at, gradient_at(e, u, at), e->grad_type,
                 n, o);
}

/* Norms are not decayed: tensor by tensor. */
static void update_unit(struct engine *e, int unit, const struct engine_optim *o, double scale)
{
    struct engine_unit *u = &e->unit[unit];
    const struct model_unit *mu = &e->model->unit[unit];
    struct kern_optim k = {.scale = scale,
                           .lr = o->lr,
                           .beta1 = o->beta1,
                           .beta2 = o->beta2,
                           .eps = o->eps,
                           .step = o->step};

    for (int t = mu->first; t < mu->first + mu->trained_tensors; t++) {
        const struct model_tensor *tensor = &e->model->tensor[t];
        int64_t packed = 0, lo = tensor->offset, hi = tensor->offset + tensor->elems;
        k.decay = tensor->kind == MODEL_VECTOR ? 0 : o->decay;
        for (int i = 0; i < u->optim_ranges; i++) {
            struct range r = u->optim_range[i];
            int64_t a = lo > r.lo ? lo : r.lo, b = hi < r.hi ? hi : r.hi;
            if (a < b)
                update_range(e, u, &k, packed + a - r.lo, b - a);
            packed += r.hi - r.lo;
        }
    }
}

/* New parameters from the master: by the wire, or, where they lie here, by slicing. */
void engine_sync(struct engine *e, int unit)
{
    struct engine_unit *u = &e->unit[unit];
    const struct plan *p = e->plan;
    int convert = p->param_type != p->wire_type;
    struct kern *k = &e->device.kern;
    char *to = u->params;

    if (!u->trained)
        return;
    if (e->there[ENGINE_SYNC]) {
        device_record(e->device.compute, u->updated);
        u->sync = (struct engine_move){
            .after = {u->updated},
            .call = {.handle = &u->size->handle[ENGINE_SYNC],
                     .in = e->sync_send,
                     .out = convert ? e->sync_recv : u->params,
                     .round = e->coded[ENGINE_SYNC]},
            .wire = p->wire_type,
            .src = u->master,
            .src_type = DTYPE_F32,
            .src_elems = u->optim_elems,
            .dst = u->params,
            .dst_type = p->param_type,
            .dst_elems = convert ? u->params_elems : 0,
        };
        u->synced_event =
            engine_trace_move(e, &u->sync, ENGINE_SYNCED, ENGINE_LANE_SYNCS, unit, -1);
        u->synced = engine_move_push(e, ENGINE_SYNC, &u->sync);
        return;
    }
    for (int i = 0; i < u->params_ranges; i++) {
        struct range r = u->params_range[i];
        int64_t at = layout_offset(u->optim_range, u->optim_ranges, r.lo);
        /* A range of the parameters lies inside one of the optimizer's: it is no coarser. */
        assert(at >= 0 && layout_offset(u->optim_range, u->optim_ranges, r.hi - 1) ==
                              at + r.hi - 1 - r.lo);
        k->op->round(k, to, p->param_type, u->master + at, e->seen_type, r.hi - r.lo);
        to += (r.hi - r.lo) * dtype_bytes(p->param_type);
    }
    device_record(e->device.compute, u->updated);
}

static void update_and_sync(struct engine *e, int unit, const struct engine_optim *optim,
                            double scale)
{
    update_unit(e, unit, optim, scale);
    engine_trace_compute(e, ENGINE_UPDATE, unit, -1);
    engine_sync(e, unit);
    engine_trace_more(e); /* where parameters are sliced and nothing travels */
}

static int wait_for_gradient(struct engine *e, int unit, struct err *err)
{
    const struct engine_unit *u = &e->unit[unit];

    return engine_wait(e, u->last, u->reduced, u->reduced_event, err);
}

/* As torch.nn.utils.clip_grad_norm_ has it. */
double engine_clip(const struct engine_optim *optim, double grad_norm)
{
    double scale = optim->clip > 0 ? optim->clip / (grad_norm + 1e-6) : 1;

    return scale < 1 ? scale : 1;
}

/* Nothing of the other ranks is waited for: each unit as soon as its own gradient is there. */
static int update_at_once(struct engine *e, const struct engine_optim *optim, struct err *err)
{
    for (int i = e->model->units - 1; i >= 0; i--) {
        if (wait_for_gradient(e, i, err))
            return -1;
        update_and_sync(e, i, optim, 1);
    }
    return 0;
}

int engine_update(struct engine *e, const struct engine_optim *optim,
                  struct engine_report *report, struct err *err)
{
    int at_once = optim && optim->clip <= 0 && optim->take_all, units = e->model->units;

    if (at_once && update_at_once(e, optim, err))
        return -1;
    for (int i = units - 1; i >= 0; i--)
        if (wait_for_gradient(e, i, err))
            return -1;
    if (sum_up(e, optim, at_once, report, err))
        return -1;
    if (report->skipped)
        engine_residuals_clear(e); /* what such a gradient lost is as useless as itself */
    if (!optim || at_once || report->skipped)
        return 0;
    double scale = engine_clip(optim, report->grad_norm);
    for (int i = 0; i < units; i++)
        update_and_sync(e, i, optim, scale);
    return 0;
}
