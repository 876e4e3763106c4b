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
#include "kern/kern_cpu.h"

/* The gradient's packed piece [at, at + n) of the optimizer shard, in f32. */
static const float *gradient_piece(struct engine *e, const struct engine_unit *u, int64_t at,
                                   int64_t n)
{
    const char *from = (const char *)u->grads + at * dtype_bytes(e->grad_type);

    if (e->grad_type == DTYPE_F32)
        return (const float *)(const void *)from;
    dtype_convert(e->piece, DTYPE_F32, from, e->grad_type, n);
    return e->piece;
}

/* Adds the squares of the unit's G shard to the word. */
static void add_squares(struct engine *e, const struct engine_unit *u)
{
    int n = layout_ranges(&e->layout, LETTER_G, e->world->rank, u->trained, e->ranges);

    for (int i = 0; i < n; i++) {
        int64_t at = layout_offset(u->optim_range, u->optim_ranges, e->ranges[i].lo);
        int64_t left = e->ranges[i].hi - e->ranges[i].lo;
        assert(at >= 0);
        for (int64_t part; left > 0; left -= part, at += part) {
            part = left < ENGINE_PIECE ? left : ENGINE_PIECE;
            const float *g = gradient_piece(e, u, at, part);
            e->word.sumsq += kern_sumsq(g, part);
            for (int64_t x = 0; e->exact && x < part; x++)
                fixed_add(&e->word.fixed_sumsq, (double)g[x] * (double)g[x]);
        }
    }
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

    for (int i = 0; i < e->model->units; i++)
        add_squares(e, &e->unit[i]);
    engine_trace_compute(e, ENGINE_UPDATE, -1, -1);
    e->word.flags = optim && optim->flags ? *optim->flags : 0;
    double start = tick_now_s();
    if (world_allgather(e->world, &e->word, sizeof e->word, e->words, err))
        return -1;
    e->idle_s += tick_now_s() - start;
    engine_trace_compute(e, ENGINE_AGREE, -1, -1);
    struct engine_word all = total_of(e);
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

/* AdamW on elements [lo, hi) of the unit, of one tensor, at `at` in the shard. */
static void update_range(struct engine *e, struct engine_unit *u, const struct engine_optim *o,
                         double scale, double decay, int64_t at, int64_t n)
{
    for (int64_t part; n > 0; n -= part, at += part) {
        part = n < ENGINE_PIECE ? n : ENGINE_PIECE;
        const float *g = gradient_piece(e, u, at, part);
        if (scale != 1) {
            if (g != e->piece)
                dtype_convert(e->piece, DTYPE_F32, g, DTYPE_F32, part);
            kern_scale(e->piece, (float)scale, part);
            g = e->piece;
        }
        kern_adamw(u->master + at, u->m + at, u->v + at, g, part, o->lr, o->beta1, o->beta2,
                   o->eps, decay, o->step);
    }
}

/* Norms are not decayed: tensor by tensor. */
static void update_unit(struct engine *e, int unit, const struct engine_optim *o, double scale)
{
    struct engine_unit *u = &e->unit[unit];
    const struct model_unit *mu = &e->model->unit[unit];

    for (int t = mu->first; t < mu->first + mu->trained_tensors; t++) {
        const struct model_tensor *tensor = &e->model->tensor[t];
        int64_t packed = 0, lo = tensor->offset, hi = tensor->offset + tensor->elems;
        for (int i = 0; i < u->optim_ranges; i++) {
            struct range r = u->optim_range[i];
            int64_t a = lo > r.lo ? lo : r.lo, b = hi < r.hi ? hi : r.hi;
            if (a < b)
                update_range(e, u, o, scale, tensor->kind == MODEL_VECTOR ? 0 : o->decay,
                             packed + a - r.lo, b - a);
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
    char *to = u->params;

    if (!u->trained)
        return;
    if (e->there[ENGINE_SYNC]) {
        u->sync = (struct engine_move){
            .call = {.handle = &u->size->handle[ENGINE_SYNC],
                     .in = e->sync_send,
                     .out = convert ? e->sync_recv : u->params},
            .wire = p->wire_type,
            .src = u->master,
            .src_type = DTYPE_F32,
            .src_elems = u->optim_elems,
            .dst = u->params,
            .dst_type = p->param_type,
            .dst_elems = convert ? u->params_elems : 0,
            .round = e->coded[ENGINE_SYNC],
        };
        u->synced_event =
            engine_trace_move(e, &u->sync, ENGINE_SYNCED, ENGINE_LANE_SYNCS, unit, -1);
        u->synced = engine_move_push(e, e->syncs, &u->sync);
        return;
    }
    for (int i = 0; i < u->params_ranges; i++) {
        struct range r = u->params_range[i];
        int64_t at = layout_offset(u->optim_range, u->optim_ranges, r.lo);
        /* A range of the parameters lies inside one of the optimizer's: it is no coarser. */
        assert(at >= 0 && layout_offset(u->optim_range, u->optim_ranges, r.hi - 1) ==
                              at + r.hi - 1 - r.lo);
        engine_round(to, p->param_type, u->master + at, e->seen_type, r.hi - r.lo);
        to += (r.hi - r.lo) * dtype_bytes(p->param_type);
    }
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

/* The parameters' own ranges, a few elements at a time: they may be more than the master. */
struct loader {
    struct engine *engine;
    int unit;
    enum dtype type, seen;
    engine_source source;
    void *arg;
};

static int load_ranges(const struct loader *l, const struct range *ranges, int count, char *to,
                       struct err *err)
{
    float *piece = l->engine->piece;

    for (int n = 0; n < count; n++)
        for (struct range r = ranges[n]; r.lo < r.hi;) {
            struct range part = {r.lo, r.hi - r.lo < ENGINE_PIECE ? r.hi : r.lo + ENGINE_PIECE};
            if (l->source(l->arg, l->unit, 0, &part, 1, piece, err))
                return -1;
            engine_round(to, l->type, piece, l->seen, part.hi - part.lo);
            to += (part.hi - part.lo) * dtype_bytes(l->type);
            r.lo = part.hi;
        }
    return 0;
}

/* As a coded sync would have left them, so that a run that goes on sees what it saw. */
static int load_coded(const struct loader *from, struct err *err)
{
    struct engine *e = from->engine;
    const struct plan *p = e->plan;
    struct engine_unit *u = &e->unit[from->unit];
    struct loader l = *from;
    int convert = p->param_type != p->wire_type;
    void *to = convert ? e->sync_recv : u->params;

    if (!u->size)
        return 0;
    l.type = l.seen = p->wire_type;
    if (load_ranges(&l, u->params_range, u->params_ranges, to, err))
        return -1;
    coll_round(&u->size->handle[ENGINE_SYNC], EXEC_OUT, to, NULL);
    if (convert)
        dtype_convert(u->params, p->param_type, to, p->wire_type, u->params_elems);
    return 0;
}

int engine_load(struct engine *e, engine_source source, void *arg, int moments, struct err *err)
{
    for (int i = 0; i < e->model->units; i++) {
        struct engine_unit *u = &e->unit[i];
        float *state[3] = {u->master, u->m, u->v};
        struct loader l = {e, i, e->plan->param_type, e->seen_type, source, arg};
        for (int s = 0; u->trained && s < (moments ? 3 : 1); s++)
            if (source(arg, i, s, u->optim_range, u->optim_ranges, state[s], err))
                return -1;
        int rc = e->coded[ENGINE_SYNC]
                     ? load_coded(&l, err)
                     : load_ranges(&l, u->params_range, u->params_ranges, u->params, err);
        if (rc || load_ranges(&l, u->frozen_range, u->frozen_ranges, engine_frozen(e, u), err))
            return -1;
    }
    engine_residuals_clear(e);
    return 0;
}

void engine_values(const struct engine *e, int unit, int state, struct range at,
                   enum dtype type, void *out)
{
    const struct engine_unit *u = &e->unit[unit];
    const float *from[3] = {u->master, u->m, u->v};

    if (at.lo >= u->trained) {
        assert(state == 0);
        engine_copy(out, type, engine_frozen(e, u), e->plan->param_type, u->frozen_range,
                    u->frozen_ranges, at);
        return;
    }
    engine_copy(out, type, from[state], DTYPE_F32, u->optim_range, u->optim_ranges, at);
}

void engine_gradient(const struct engine *e, int unit, struct range at, float *out)
{
    const struct engine_unit *u = &e->unit[unit];

    engine_copy(out, DTYPE_F32, u->grads, e->grad_type, u->optim_range, u->optim_ranges, at);
}
