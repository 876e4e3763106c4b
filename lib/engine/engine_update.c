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
    const char *from = (const char *)u->grads + at * dtype_bytes(e->plan->grad_type);

    if (e->plan->grad_type == DTYPE_F32)
        return (const float *)(const void *)from;
    dtype_convert(e->piece, DTYPE_F32, from, e->plan->grad_type, n);
    return e->piece;
}

static double unit_sumsq(struct engine *e, const struct engine_unit *u)
{
    int n = layout_ranges(&e->layout, LETTER_G, e->world->rank, u->elems, e->ranges);
    double sum = 0;

    for (int i = 0; i < n; i++) {
        int64_t at = layout_offset(u->optim_range, u->optim_ranges, e->ranges[i].lo);
        int64_t left = e->ranges[i].hi - e->ranges[i].lo;
        assert(at >= 0);
        for (int64_t part; left > 0; left -= part, at += part) {
            part = left < ENGINE_PIECE ? left : ENGINE_PIECE;
            sum += kern_sumsq(gradient_piece(e, u, at, part), part);
        }
    }
    return sum;
}

/* Loss and norm of all ranks: every rank gets the same bits. */
static int sum_up(struct engine *e, double loss_sum, struct engine_report *report,
                  struct err *err)
{
    const struct plan *p = e->plan;
    double mine[2] = {loss_sum, 0};

    for (int i = 0; i < e->model->units; i++)
        mine[1] += unit_sumsq(e, &e->unit[i]);
    double wait = tick_now_s();
    int rc = world_allgather(e->world, mine, sizeof mine, e->sums, err);
    e->exposed_s += tick_now_s() - wait;
    double loss = 0, sumsq = 0;
    for (int r = 0; rc == 0 && r < e->world->ranks; r++) {
        loss += e->sums[r][0];
        sumsq += e->sums[r][1];
    }
    report->tokens = (int64_t)e->world->ranks * p->accum * p->micro_batch * p->seq;
    report->loss = loss / (double)report->tokens;
    report->grad_norm = sqrt(sumsq);
    report->skipped = !isfinite(report->grad_norm) || !isfinite(report->loss);
    return rc;
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

    for (int t = mu->first; t < mu->first + mu->count; t++) {
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
static void sync_unit(struct engine *e, struct engine_unit *u)
{
    const struct plan *p = e->plan;
    int convert = p->param_type != p->wire_type;
    char *to = u->params;

    if (e->there[ENGINE_SYNC]) {
        u->sync = (struct engine_move){
            .call = {&u->size->handle[ENGINE_SYNC], e->sync_send,
                     convert ? e->sync_recv : u->params},
            .wire = p->wire_type,
            .src = u->master,
            .src_type = DTYPE_F32,
            .src_elems = u->optim_elems,
            .dst = u->params,
            .dst_type = p->param_type,
            .dst_elems = convert ? u->params_elems : 0,
        };
        u->synced = engine_move_push(e->gathers, &u->sync);
        return;
    }
    for (int i = 0; i < u->params_ranges; i++) {
        struct range r = u->params_range[i];
        engine_copy(to, p->param_type, u->master, DTYPE_F32, u->optim_range, u->optim_ranges,
                    r);
        to += (r.hi - r.lo) * dtype_bytes(p->param_type);
    }
}

int engine_update(struct engine *e, const struct engine_optim *optim, double loss_sum,
                  struct engine_report *report, struct err *err)
{
    if (sum_up(e, loss_sum, report, err))
        return -1;
    if (report->skipped)
        return 0;
    /* As torch.nn.utils.clip_grad_norm_ has it. */
    double scale = optim->clip > 0 ? optim->clip / (report->grad_norm + 1e-6) : 1;
    scale = scale < 1 ? scale : 1;
    for (int i = 0; i < e->model->units; i++) {
        update_unit(e, i, optim, scale);
        sync_unit(e, &e->unit[i]);
    }
    return 0;
}

int engine_load(struct engine *e, engine_source source, void *arg, int moments, struct err *err)
{
    for (int i = 0; i < e->model->units; i++) {
        struct engine_unit *u = &e->unit[i];
        float *state[3] = {u->master, u->m, u->v};
        for (int s = 0; s < (moments ? 3 : 1); s++)
            if (source(arg, i, s, u->optim_range, u->optim_ranges, state[s], err))
                return -1;
        /* The parameters' own ranges, a few elements at a time: they may be more than the
         * master. */
        char *to = u->params;
        for (int n = 0; n < u->params_ranges; n++)
            for (struct range r = u->params_range[n]; r.lo < r.hi;) {
                struct range part = {r.lo,
                                     r.hi - r.lo < ENGINE_PIECE ? r.hi : r.lo + ENGINE_PIECE};
                if (source(arg, i, 0, &part, 1, e->piece, err))
                    return -1;
                dtype_convert(to, e->plan->param_type, e->piece, DTYPE_F32, part.hi - part.lo);
                to += (part.hi - part.lo) * dtype_bytes(e->plan->param_type);
                r.lo = part.hi;
            }
    }
    return 0;
}

void engine_values(const struct engine *e, int unit, int state, struct range at,
                   enum dtype type, void *out)
{
    const struct engine_unit *u = &e->unit[unit];
    const float *from[3] = {u->master, u->m, u->v};

    engine_copy(out, type, from[state], DTYPE_F32, u->optim_range, u->optim_ranges, at);
}

void engine_gradient(const struct engine *e, int unit, struct range at, float *out)
{
    const struct engine_unit *u = &e->unit[unit];

    engine_copy(out, DTYPE_F32, u->grads, e->plan->grad_type, u->optim_range, u->optim_ranges,
                at);
}
