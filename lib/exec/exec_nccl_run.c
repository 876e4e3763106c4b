/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Puts turns into the queues of a GPU, and detects their end:
 *
 *     moves   waits   ncclGroupStart  ncclSend, ncclRecv ...  ncclGroupEnd   event
 *     lands   waits   a kernel or a copy for each row                        event
 *
 * A run of many turns is issued at the pace of the GPU (EXEC_AHEAD), runs one after the other.
 */
#include "exec/exec_nccl_inside.h"

#include <stdio.h>
#include <string.h>

#include "base/tick.h"
#include "dev/dev_inside.h"
#include "exec/exec_cuda_land.h"

static char *nccl_run_spot(const struct exec_nccl_handle *h, struct exec_spot s)
{
    return h->base[s.where] + s.at;
}

static int adds(const struct exec_row *row)
{
    return row->kind == EXEC_RECV && row->op == SCHEDULE_ADD;
}

static const struct exec_row *nccl_run_row_of(const struct exec_nccl_handle *h, int at)
{
    return &h->rows.row[h->turns.order[at]];
}

static void nccl_run_wait_for(const struct exec_nccl_handle *h, struct device_queue *queue,
                              const struct turn_point *p)
{
    for (int i = p->wait; i < p->wait + p->waits; i++)
        device_wait(queue, h->done[h->turns.wait[i]]);
}

static int nccl_run_move(struct exec_nccl_handle *h, int turn, struct err *err)
{
    const struct turn *t = &h->turns.turn[turn];
    struct exec_nccl *x = h->x;
    ncclComm_t comm = x->track[t->track].comm;
    struct device_queue *queue = x->track[t->track].queue[TURN_MOVES];
    cudaStream_t stream = device_stream(queue);
    const char *call = "ncclGroupStart";
    int peer = -1;

    nccl_run_wait_for(h, queue, &t->point[TURN_MOVES]);
    ncclResult_t rc = ncclGroupStart(), end;
    for (int i = t->first; rc == ncclSuccess && i < t->first + t->count; i++) {
        const struct exec_row *row = nccl_run_row_of(h, i);
        size_t bytes = (size_t)row->bytes;
        peer = row->peer;
        if (row->kind == EXEC_SEND) {
            call = "ncclSend";
            rc = ncclSend(nccl_run_spot(h, row->from), bytes, ncclUint8, peer, comm, stream);
        } else if (row->kind == EXEC_RECV) {
            char *to = adds(row) ? h->base[EXEC_SCRATCH] + h->turns.slot_at[h->turns.order[i]]
                                 : nccl_run_spot(h, row->to);
            call = "ncclRecv";
            rc = ncclRecv(to, bytes, ncclUint8, peer, comm, stream);
        }
    }
    /* A group that was started must be ended, even after an error inside. */
    end = ncclGroupEnd();
    if (rc == ncclSuccess) {
        call = "ncclGroupEnd";
        rc = end;
    }
    if (exec_nccl_drain(x, comm, rc, call, err, "in step %d, track %d, with rank %d", t->step,
                        t->track, peer))
        return -1;
    device_record(queue, h->done[2 * turn + TURN_MOVES]);
    return 0;
}

static int land_row(struct exec_nccl_handle *h, struct device_queue *queue, int at,
                    struct err *err)
{
    const struct exec_row *row = nccl_run_row_of(h, at);
    const struct exec_rows *r = &h->rows;
    int64_t n = row->bytes / dtype_bytes(r->type);
    char where[48];
    const char *arrived = row->kind == EXEC_LOCAL
                              ? nccl_run_spot(h, row->from)
                              : h->base[EXEC_SCRATCH] + h->turns.slot_at[h->turns.order[at]];

    if (row->op == SCHEDULE_COPY) {
        if (nccl_run_spot(h, row->to) != arrived)
            device_copy(queue, nccl_run_spot(h, row->to), arrived, row->bytes);
        return 0;
    }
    int ranks = row->complete && r->redop == DTYPE_AVG ? r->ranks : 0;
    int rc = exec_cuda_land(device_stream(queue), nccl_run_spot(h, row->to),
                            nccl_run_spot(h, row->base), arrived, r->type, r->redop, ranks, n);
    if (rc == 0)
        return 0;
    snprintf(where, sizeof where, "the kernel that adds in step %d", row->step);
    device_fail(h->x->device, where, cudaGetErrorString((cudaError_t)rc));
    (void)device_check(h->x->device, err);
    return exec_nccl_fail(h->x, err);
}

static int nccl_run_land(struct exec_nccl_handle *h, int turn, struct err *err)
{
    const struct turn *t = &h->turns.turn[turn];
    struct device_queue *queue = h->x->track[t->track].queue[TURN_LANDS];

    nccl_run_wait_for(h, queue, &t->point[TURN_LANDS]);
    for (int i = t->first; i < t->first + t->count; i++) {
        const struct exec_row *row = nccl_run_row_of(h, i);
        if ((turn_lands(row)) && land_row(h, queue, i, err))
            return -1;
    }
    device_record(queue, h->done[2 * turn + TURN_LANDS]);
    return 0;
}

/* The device has failed: names the place where this was detected. */
static int nccl_run_lost(struct exec_nccl_handle *h, int turn, struct err *err)
{
    const struct turn *t = &h->turns.turn[turn];

    err_prefix(err, "in step %d of a collective, track %d: ", t->step, t->track);
    return exec_nccl_fail(h->x, err);
}

/* 1: the GPU has finished the turn; 0: not yet. */
static int through(const struct exec_nccl_handle *h, int turn, struct err *err)
{
    for (int i = 2 * turn; i < 2 * turn + 2; i++) {
        int done = h->done[i] ? device_done(h->done[i], err) : 1;
        if (done != 1)
            return done;
    }
    return 1;
}

/* Issues as many turns as the queues may hold now.  1: progress; -1: failed. */
static int issue(struct exec_nccl_handle *h, struct err *err)
{
    struct exec_nccl *x = h->x;
    int moved = 0;

    if (h->ended || h->ticket != x->served)
        return 0;
    if (!h->opened) {
        /* The queues of this run begin after the door; chunks that no row writes are copied
           there. */
        h->base[EXEC_IN] = (char *)(uintptr_t)h->next_in;
        h->base[EXEC_OUT] = h->next_out;
        h->base[EXEC_SCRATCH] = x->scratch;
        if (h->after)
            device_wait(x->door, h->after);
        device_record(x->door, x->begin);
        for (int q = 0; q < 2 * x->tracks; q++)
            if (h->turns.first[q] >= 0)
                device_wait(x->track[q / 2].queue[q % 2], x->begin);
        for (int i = 0; i < h->rows.selves; i++) {
            const struct exec_self *self = &h->rows.self[i];
            char *from = h->base[EXEC_IN] + self->from, *to = h->base[EXEC_OUT] + self->to;
            if (from != to)
                device_copy(x->door, to, from, self->bytes);
        }
        h->opened = moved = 1;
    }
    for (; h->issued < h->turns.turns; h->issued++, moved = 1) {
        const struct turn *t = &h->turns.turn[h->issued];
        if (h->issued >= EXEC_AHEAD) {
            int rc = through(h, h->issued - EXEC_AHEAD, err);
            if (rc < 0)
                return nccl_run_lost(h, h->issued - EXEC_AHEAD, err);
            if (rc == 0)
                return moved;
        }
        if ((t->point[TURN_MOVES].there && nccl_run_move(h, h->issued, err)) ||
            (t->point[TURN_LANDS].there && nccl_run_land(h, h->issued, err)))
            return -1;
    }
    for (int q = 0; q < 2 * x->tracks; q++)
        if (h->turns.last[q] >= 0)
            device_wait(x->door, h->done[h->turns.last[q]]);
    device_record(x->door, h->end);
    if (h->then)
        device_record(x->door, h->then);
    x->served++;
    h->ended = 1;
    return 1;
}

void exec_nccl_set(struct exec_nccl_handle *h, const void *in, void *out,
                   const struct device_event *after, struct device_event *then)
{
    h->next_in = in;
    h->next_out = out;
    h->after = after;
    h->then = then;
}

int exec_nccl_start(void *handle, struct err *err)
{
    struct exec_nccl_handle *h = handle;

    if (exec_nccl_check(h->x, err))
        return -1;
    h->ticket = h->x->tickets++;
    h->started = 1;
    h->opened = h->issued = h->ended = 0;
    h->arrived_bytes = 0;
    memcpy(h->watch, h->turns.first, sizeof h->watch);
    h->moved_s = tick_now_s();
    return issue(h, err) < 0 ? -1 : 0;
}

/* Checks for work that has finished since the last call.  1: some has; -1: failed. */
static int watch(struct exec_nccl_handle *h, struct err *err)
{
    int moved = 0;

    for (int q = 0; q < 2 * h->x->tracks; q++)
        while (h->watch[q] >= 0 && h->watch[q] / 2 < h->issued) {
            const struct turn *t = &h->turns.turn[h->watch[q] / 2];
            int done = device_done(h->done[h->watch[q]], err);
            if (done < 0)
                return nccl_run_lost(h, h->watch[q] / 2, err);
            if (done == 0)
                break;
            h->arrived_bytes += q % 2 == TURN_MOVES ? t->in_bytes : 0;
            h->watch[q] = t->point[q % 2].next;
            moved = 1;
        }
    return moved;
}

/* Fails after a deadline without arrivals, naming the place where the run waits. */
static int overdue(struct exec_nccl_handle *h, int moved, struct err *err)
{
    double now = tick_now_s();
    int least = -1; /* the first unfinished point of a queue */

    if (moved)
        h->moved_s = now;
    if (now - h->moved_s <= h->x->deadline_s)
        return 0;
    for (int q = 0; q < 2 * h->x->tracks; q++)
        if (h->watch[q] >= 0 && (least < 0 || h->watch[q] < least))
            least = h->watch[q];
    err_set(err, ERR_PEER, "ncclGroupEnd in step %d: no data from other ranks for %g s",
            least < 0 ? -1 : h->turns.turn[least / 2].step, h->x->deadline_s);
    return exec_nccl_fail(h->x, err);
}

int exec_nccl_put_in(struct exec_nccl_handle *h, struct err *err)
{
    int turn = 0;

    if (!h->ended && h->ticket != h->x->served) {
        err_set(err, ERR_INPUT, "a run behind another one that is not queued completely");
        return exec_nccl_fail(h->x, err);
    }
    while (!h->ended) {
        int rc = issue(h, err);
        int came = rc == 0 ? watch(h, err) : rc;
        if (came < 0 || exec_nccl_healthy(h->x, err) || overdue(h, came, err))
            return -1;
        if (rc == 0)
            exec_nccl_nap(&turn);
        else
            turn = 0;
    }
    return 0;
}

int exec_nccl_issue(struct exec_nccl_handle *h, struct err *err)
{
    return exec_nccl_start(h, err) || exec_nccl_put_in(h, err) ? -1 : 0;
}

enum stream_state exec_nccl_poll(void *handle, struct err *err)
{
    struct exec_nccl_handle *h = handle;
    struct exec_nccl *x = h->x;

    if (exec_nccl_check(x, err))
        return STREAM_FAILED;
    int went = issue(h, err), came = went < 0 ? -1 : watch(h, err);
    if (came < 0 || exec_nccl_healthy(x, err))
        return STREAM_FAILED;
    int done = h->ended ? device_done(h->end, err) : 0;
    if (done < 0) {
        exec_nccl_fail(x, err);
        return STREAM_FAILED;
    }
    if (done)
        return watch(h, err) < 0 ? STREAM_FAILED : STREAM_DONE;
    int queued = !h->ended && h->ticket != x->served; /* queued after a run in progress */
    if (overdue(h, went || came || queued, err))
        return STREAM_FAILED;
    return went || came ? STREAM_MOVED : STREAM_IDLE;
}

int64_t exec_nccl_arrived(const struct exec_nccl_handle *h)
{
    return h->arrived_bytes;
}
