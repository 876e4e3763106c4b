/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Executes the rows of a step (step/step.h).  The compute lane's rows run here, one after the
 * other, each when the rows it names have ended.  A transfer is issued at its position in the
 * list: its stream starts it after the transfers before it, when the compute queue has reached
 * that position and the transfer that it names has ended.  No strategy has code of its own.
 */
#include "engine/engine_inside.h"

#include <assert.h>

#include "base/tick.h"

/* Returns the list of a kind for `micros` micro-batches, generated again if that number
 * changed. */
struct engine_list *engine_list(struct engine *e, enum engine_lists which, int micros)
{
    struct engine_list *l = &e->list[which];
    struct step_shape shape = e->step.shape;

    if (l->step.row && l->micros == micros)
        return l;
    shape.micros = micros;
    l->early = shape.early_update = which == ENGINE_EARLY || which == ENGINE_ENDS_EARLY;
    l->ends = which == ENGINE_ENDS || which == ENGINE_ENDS_EARLY;
    if (l->ends)
        shape.outer = STEP_OUTER_LAST;
    else if (shape.outer == STEP_OUTER_LAST)
        shape.outer = STEP_OUTER_NONE;
    if (which == ENGINE_EVALUATIONS) {
        shape.evaluate = 1;
        shape.first_trained = shape.visits;
        /* No unit is kept for a backward: all slots except the one in use may prefetch. */
        if (e->step.space.slots && shape.prefetch >= e->step.space.slots)
            shape.prefetch = e->step.space.slots - 1;
    }
    step_release(&l->step);
    mem_free(l->ticket);
    step_gen(&l->step, &shape);
    l->ticket = mem_new((size_t)l->step.rows + 1, sizeof *l->ticket);
    l->micros = micros;
    return l;
}

void engine_lists_release(struct engine *e)
{
    for (int i = 0; i < ENGINE_LISTS; i++) {
        step_release(&e->list[i].step);
        mem_free(e->list[i].ticket);
    }
    mem_free((void *)(uintptr_t)e->step.shape.trains);
}

int engine_drain(struct engine *e, struct err *err)
{
    for (int lane = 0; lane < STEP_COMPUTE; lane++)
        if (stream_wait_all(e->stream[lane], err))
            return -1;
    return 0;
}

/*
 * Returns the stream of the transfer that row i names as after[k], if it has not ended;
 * otherwise NULL.  after[k] >= i means that row of the previous step, whose ticket has not been
 * replaced yet.
 */
static struct stream *awaited_stream(const struct engine *e, const struct engine_list *l, int i,
                                     int k, int64_t *ticket)
{
    int after = l->step.row[i].after[k];

    if (after < 0 || l->step.row[after].lane == STEP_COMPUTE)
        return NULL;
    *ticket = l->ticket[after];
    struct stream *s = e->stream[l->step.row[after].lane];
    return stream_done(s, *ticket) ? NULL : s;
}

static void issue_transfer(struct engine *e, struct engine_list *l, int i)
{
    const struct step_row *r = &l->step.row[i];
    struct engine_issue how = {.time = engine_trace_row(e, i)};

    for (int k = 0; k < STEP_AFTERS; k++) {
        int64_t ticket = 0;
        struct stream *s = awaited_stream(e, l, i, k, &ticket);
        if (!s)
            continue;
        assert(!how.after); /* step_gen names one transfer at most */
        how.after = s;
        how.ticket = ticket;
    }
    l->ticket[i] = engine_move(e, (enum step_lane)r->lane, r->unit, r->buffer, &how);
}

/* A step has the outer rows of all units; those run whose turn it is. */
static int has_turn(const struct engine *e, const struct engine_list *l,
                    const struct step_row *r, const struct engine_run *run)
{
    return r->lane < STEP_OUTER_REDUCE || l->ends ||
           (run->optim && plan_turn(&e->plan->settings, r->unit, run->optim->step));
}

static int run_kernel(struct engine *e, struct engine_list *l, int i, struct engine_run *run,
                      struct err *err)
{
    static engine_kernel *const kernel[STEP_KINDS] = {
        [STEP_BEGIN] = engine_begin,       [STEP_FORWARD] = engine_forward,
        [STEP_BACKWARD] = engine_backward, [STEP_ACCUMULATE] = engine_accumulate,
        [STEP_NORM] = engine_norm,         [STEP_AGREE] = engine_agree,
        [STEP_UPDATE] = engine_update,     [STEP_ADOPT] = engine_adopt};
    const struct step_row *r = &l->step.row[i];
    struct step_time *t = engine_trace_row(e, i);

    if (t)
        t->issued_s = t->start_s = e->record.mark_s;
    for (int k = 0; k < STEP_AFTERS; k++) {
        int64_t ticket = 0;
        struct stream *s = awaited_stream(e, l, i, k, &ticket);
        if (!s)
            continue;
        double start = tick_now_s();
        if (stream_wait(s, ticket, err))
            return -1;
        double now = tick_now_s();
        e->wait_s[l->step.row[r->after[k]].lane] += now - start;
        e->coll.waited_s += now - start;
        if (t)
            t->start_s = now;
    }
    int updates = r->kind == STEP_NORM || r->kind == STEP_UPDATE;
    double start = updates ? tick_now_s() : 0;
    int rc = kernel[r->kind](e, run, r, err);
    if (updates)
        e->update_s += tick_now_s() - start;
    engine_trace_ended(e, t);
    return rc;
}

int engine_run(struct engine *e, struct engine_list *l, struct engine_run *run, struct err *err)
{
    /* Rows of two lists do not name each other.  An evaluation's list may be generated again
       while it is the running one, without a drain: each of its gathers was waited for by its
       forward. */
    if (e->running && e->running != l && engine_drain(e, err))
        return -1;
    e->running = l;
    for (int i = 0; i < l->step.rows && !run->ends; i++) {
        const struct step_row *r = &l->step.row[i];
        if (r->lane == STEP_COMPUTE) {
            if (run_kernel(e, l, i, run, err))
                return -1;
        } else if (has_turn(e, l, r, run)) {
            issue_transfer(e, l, i);
        }
    }
    return 0;
}
