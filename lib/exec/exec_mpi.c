/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Executes prepared rows over MPI and shared memory.  Each (lane, peer, direction) is a queue
 * in row order; its HEAD is its first row or message that has not begun:
 *
 *   message, send   the head is sent once the rule of execution (may_go) lets it be read; up to
 *                   `window` messages are in flight
 *   message, recv   posted early, up to `window`: a copy whose destination is free is received
 *                   there, anything else in a slot, to be copied or added when the rule permits
 *   shared, send    the head is announced by raising `ready`; it was read when `done` rises.
 *                   In a small queue it is copied into the pair first, and needs no waiting
 *   shared, recv    the head is copied or added from the sender's buffer when it is announced
 *                   and the rule permits it, then `done` is raised
 *
 * No deadlock for any window >= 1: among all heads, the least unfinished row is the head of its
 * queue on both ends. exec_mpi_inside.h draws the layout of the shared part of a handle.
 */
#include "exec/exec_mpi_inside.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/tick.h"

enum {
    POLLS_PER_YIELD = 16,
    WINDOW_BYTES = 2 << 20,
    SHARED_BYTES = 128 << 10 /* read from peers of this host between two polls of the network */
};

static char *mpi_spot(const struct exec_mpi_handle *h, struct exec_spot s)
{
    return h->base[s.where] + s.at;
}

/* The rule of execution: whether all earlier accesses to a row's slots that it depends on are
   done. */
static int may_go(const struct exec_mpi_handle *h, const struct exec_row *row)
{
    if (h->finished < row->after || h->writes[row->slot] != row->wrote ||
        !exec_stage_has(h, row))
        return 0;
    if (row->kind == EXEC_LOCAL && h->writes[row->source] != row->source_wrote)
        return 0;
    return row->kind == EXEC_SEND || h->reads[row->slot] == row->read;
}

static int message_may_go(const struct exec_mpi_handle *h, const struct exec_queue *q,
                          const struct exec_message *m)
{
    for (int i = 0; i < m->rows; i++)
        if (!may_go(h, exec_queue_row(h, q, m->first + i)))
            return 0;
    return 1;
}

static void mpi_finish(struct exec_mpi_handle *h, const struct exec_row *row)
{
    if (row->kind != EXEC_SEND) {
        exec_stage_wrote(h, row->to, row->bytes);
        h->writes[row->slot]++;
        h->arrived_bytes += row->wire_bytes;
    }
    if (row->kind != EXEC_RECV)
        h->reads[row->source]++; /* a send's slot is also its source */
    h->finished++;
}

static void mpi_land(struct exec_mpi_handle *h, const struct exec_row *row, const void *arrived)
{
    exec_row_land(&h->rows, row, mpi_spot(h, row->to), mpi_spot(h, row->base), arrived,
                  h->residual);
    mpi_finish(h, row);
}

static int mpi_failed(struct err *err, int rc, int peer)
{
    if (peer < 0)
        return err_set(err, ERR_PEER, "MPI reports error %d", rc);
    return err_set(err, ERR_PEER, "MPI reports error %d with rank %d", rc, peer);
}

/* Returns the bytes of a message to be sent: in place, or packed or coded into a slot. */
static const char *mpi_gather(struct exec_mpi_handle *h, struct exec_queue *q,
                              const struct exec_message *m, char *slot)
{
    char *to = slot;

    if (!m->packed)
        return mpi_spot(h, exec_queue_row(h, q, m->first)->from);
    for (int i = 0; i < m->rows; i++) {
        const struct exec_row *row = exec_queue_row(h, q, m->first + i);
        if (row->coded)
            exec_row_code(&h->rows, row, to, mpi_spot(h, row->from), h->residual);
        else
            memcpy(to, mpi_spot(h, row->from), (size_t)row->bytes);
        to += row->wire_bytes;
    }
    return slot;
}

static void mpi_scatter(struct exec_mpi_handle *h, struct exec_queue *q,
                        const struct exec_message *m, const char *arrived)
{
    for (int i = 0; i < m->rows; i++) {
        const struct exec_row *row = exec_queue_row(h, q, m->first + i);
        mpi_land(h, row, arrived);
        arrived += row->wire_bytes;
    }
}

/* Begins sends that the rule allows, and receives ahead of time.  1: progress. */
static int post(struct exec_mpi_handle *h, struct exec_queue *q, struct err *err)
{
    int moved = 0, rc;

    while (q->posted < q->messages && q->posted - q->passed < q->window) {
        const struct exec_message *m = &q->message[q->posted];
        int at = q->posted % q->window;
        char *slot = q->slot ? q->slot + at * q->slot_bytes : NULL;
        if (q->kind == EXEC_SEND) {
            if (!message_may_go(h, q, m))
                break;
            rc = MPI_Isend(mpi_gather(h, q, m, slot), (int)m->bytes, MPI_BYTE, q->peer, q->tag,
                           h->comm, &q->request[at]);
        } else {
            int direct = !m->packed && message_may_go(h, q, m);
            q->where[at] = direct ? mpi_spot(h, exec_queue_row(h, q, m->first)->to) : slot;
            rc = MPI_Irecv(q->where[at], (int)m->bytes, MPI_BYTE, q->peer, q->tag, h->comm,
                           &q->request[at]);
        }
        if (rc != MPI_SUCCESS)
            return mpi_failed(err, rc, q->peer);
        q->done[at] = 0;
        q->posted++;
        moved = 1;
    }
    return moved;
}

/* Finishes completed messages, in row order. */
static int pass_messages(struct exec_mpi_handle *h, struct exec_queue *q)
{
    int moved = 0;

    while (q->passed < q->posted && q->done[q->passed % q->window]) {
        const struct exec_message *m = &q->message[q->passed];
        if (q->kind == EXEC_SEND)
            for (int i = 0; i < m->rows; i++)
                mpi_finish(h, exec_queue_row(h, q, m->first + i));
        else if (message_may_go(h, q, m))
            mpi_scatter(h, q, m, q->where[q->passed % q->window]);
        else
            break;
        q->passed++;
        moved = 1;
    }
    return moved;
}

/*
 * Tests all messages in flight at once.  MPI_Testsome enters the progress engine once; a test
 * of each message would poll the sockets each time.
 */
static int test_messages(struct exec_mpi_handle *h, struct err *err)
{
    int n = 0;

    if (h->requests == 0)
        return 0;
    int rc = MPI_Testsome(h->requests, h->request, &n, h->some, MPI_STATUSES_IGNORE);
    if (rc != MPI_SUCCESS)
        return mpi_failed(err, rc, -1);
    for (int i = 0; n != MPI_UNDEFINED && i < n; i++)
        h->done[h->some[i]] = 1;
    return 0;
}

static int poll_messages(struct exec_mpi_handle *h, struct err *err)
{
    int moved = 0;

    for (int i = 0; i < h->queues; i++) {
        struct exec_queue *q = &h->queue[i];
        int rc = q->window ? post(h, q, err) : 0;
        if (rc < 0)
            return -1;
        moved |= rc;
    }
    if (test_messages(h, err))
        return -1;
    for (int i = 0; i < h->queues; i++)
        if (h->queue[i].window)
            moved |= pass_messages(h, &h->queue[i]);
    return moved;
}

/* Copies into the pair's own slots, which are free again when the receiver has read the start
   before the last. */
static int poll_eager_send(struct exec_mpi_handle *h, struct exec_queue *q)
{
    struct exec_pair *pair = q->pair;
    int64_t start = h->starts * q->count;

    if (atomic_load_explicit(&pair->done, memory_order_acquire) < start - q->count)
        return 0;
    int first = q->passed;
    while (q->passed < q->count && may_go(h, exec_queue_row(h, q, q->passed))) {
        const struct exec_row *row = exec_queue_row(h, q, q->passed);
        memcpy(exec_shared_space(h, q, q->passed), mpi_spot(h, row->from), (size_t)row->bytes);
        mpi_finish(h, row);
        q->passed++;
    }
    if (q->passed > first)
        atomic_store_explicit(&pair->ready, start + q->passed, memory_order_release);
    return q->passed > first;
}

static int poll_shared_send(struct exec_mpi_handle *h, struct exec_queue *q)
{
    struct exec_pair *pair = q->pair;
    int moved = 0;
    int64_t start = h->starts * q->count;

    if (pair->eager_bytes)
        return poll_eager_send(h, q);
    while (q->posted < q->count && may_go(h, exec_queue_row(h, q, q->posted))) {
        q->posted++;
        moved = 1;
    }
    if (moved)
        atomic_store_explicit(&pair->ready, start + q->posted, memory_order_release);
    int64_t done = atomic_load_explicit(&pair->done, memory_order_acquire) - start;
    while (q->passed < done) {
        mpi_finish(h, exec_queue_row(h, q, q->passed));
        q->passed++;
        moved = 1;
    }
    return moved;
}

static int poll_shared_recv(struct exec_mpi_handle *h, struct exec_queue *q, int64_t *budget)
{
    struct exec_pair *pair = q->pair;
    int64_t start = h->starts * q->count;
    int64_t ready = atomic_load_explicit(&pair->ready, memory_order_acquire) - start;
    int moved = 0;

    /* A sender that copied may already be in its next start. */
    ready = ready < q->count ? ready : q->count;
    while (*budget > 0 && q->passed < ready) {
        const struct exec_row *row = exec_queue_row(h, q, q->passed);
        if (!may_go(h, row))
            break;
        *budget -= row->bytes;
        mpi_land(h, row, exec_shared_source(h, q, q->passed));
        q->passed++;
        atomic_store_explicit(&pair->done, start + q->passed, memory_order_release);
        moved = 1;
    }
    return moved;
}

static int poll_local(struct exec_mpi_handle *h, struct exec_queue *q)
{
    int moved = 0;

    while (q->passed < q->count && may_go(h, exec_queue_row(h, q, q->passed))) {
        const struct exec_row *row = exec_queue_row(h, q, q->passed++);
        mpi_land(h, row, mpi_spot(h, row->from));
        moved = 1;
    }
    return moved;
}

/*
 * Serves the queues of this host, a limited number of bytes at a time, so that the network is
 * polled in between: the ports are what a collective finally waits for.  The queues take turns.
 */
static int poll_shared(struct exec_mpi_handle *h)
{
    int64_t budget = SHARED_BYTES;
    int moved = 0;

    for (int n = 0; n < h->queues; n++) {
        struct exec_queue *q = &h->queue[(h->turn + n) % h->queues];
        if (q->window || q->passed == q->count)
            continue;
        moved |= q->kind == EXEC_LOCAL  ? poll_local(h, q)
                 : q->kind == EXEC_SEND ? poll_shared_send(h, q)
                                        : poll_shared_recv(h, q, &budget);
    }
    h->turn = h->queues ? (h->turn + 1) % h->queues : 0;
    return moved;
}

void exec_mpi_set(struct exec_mpi_handle *h, const void *in, void *out, float *residual)
{
    h->next_in = in;
    h->next_out = out;
    h->next_residual = residual;
}

int exec_mpi_start(void *handle, struct err *err)
{
    struct exec_mpi_handle *h = handle;

    h->base[EXEC_IN] = (char *)(uintptr_t)h->next_in;
    h->base[EXEC_OUT] = h->next_out;
    h->residual = h->next_residual;
    if (exec_shared_publish(h, err))
        return -1;
    memset(h->writes, 0, (size_t)h->rows.slots * sizeof(int));
    memset(h->reads, 0, (size_t)h->rows.slots * sizeof(int));
    h->finished = 0;
    h->arrived_bytes = 0;
    for (int i = 0; i < h->queues; i++)
        h->queue[i].posted = h->queue[i].passed = 0;
    h->selves_left = h->rows.selves;
    h->moved_s = tick_now_s();
    exec_stage_start(h);
    return 0;
}

/* Does a few local copies at a time, between the rows. */
static int poll_selves(struct exec_mpi_handle *h)
{
    if (h->selves_left == 0 || !exec_stage_has_all(h))
        return 0;
    const struct exec_self *self = &h->rows.self[--h->selves_left];
    char *from = h->base[EXEC_IN] + self->from, *to = h->base[EXEC_OUT] + self->to;
    if (from != to)
        memmove(to, from, (size_t)self->bytes);
    exec_stage_wrote(h, (struct exec_spot){EXEC_OUT, self->to}, self->bytes);
    return 1;
}

/* Whether MPI may still read or write buffers of this handle's messages. */
static int in_flight(const struct exec_mpi_handle *h)
{
    for (int i = 0; i < h->requests; i++)
        if (h->request && h->request[i] != MPI_REQUEST_NULL)
            return 1;
    return 0;
}

/*
 * Follows a poll without progress.  Open MPI's MPI_Testsome does not return the messages that
 * its progress completed, the next call does: a yield in between delays each message by a
 * scheduling round of all ranks (eight on two cores: 10 to 20 % of a small collective).  Where
 * ranks share cores Open MPI's progress yields by itself; if it does not detect that they
 * do, every 16th poll, some 80 us apart, is idle.
 *
 * A rank that waits only for its own host enters MPI seldom, since a call polls all sockets.
 * It must enter sometimes, because others may wait for a message that the program began before.
 */
static enum stream_state progress_idle(struct exec_mpi_handle *h, double now)
{
    const double seldom_s = 50e-6; /* about the latency of a small message */

    if (!in_flight(h)) {
        if (now - h->progressed_s < seldom_s)
            return STREAM_IDLE;
        h->progressed_s = now;
        world_progress(h->x->world);
    }
    return ++h->polls % POLLS_PER_YIELD ? STREAM_AGAIN : STREAM_IDLE;
}

/* A rank whose data alone are missing, or -1: this rank's own messages are not taken. */
static int waits_for(const struct exec_mpi_handle *h)
{
    for (int i = 0; i < h->queues; i++) {
        const struct exec_queue *q = &h->queue[i];
        int next = !q->window                ? q->passed
                   : q->passed < q->messages ? q->message[q->passed].first
                                             : q->count;
        if (q->kind == EXEC_RECV && next < q->count && may_go(h, exec_queue_row(h, q, next)))
            return q->peer;
    }
    return -1;
}

static void set_late(const struct exec_mpi_handle *h, struct err *err)
{
    const struct world *w = h->x->world;
    int peer = waits_for(h);
    char from[96] = "other ranks";

    if (peer >= 0)
        snprintf(from, sizeof from, "rank %d (%.64s)", peer, w->host[w->groups.group_of[peer]]);
    err_set(err, ERR_PEER, "no data from %s for %g s (%d of %d rows done)", from, w->deadline_s,
            h->finished, h->rows.rows);
}

enum stream_state exec_mpi_poll(void *handle, struct err *err)
{
    struct exec_mpi_handle *h = handle;
    int moved = exec_stage_poll(h), waits = !exec_stage_has_all(h), rc;

    if (h->requests) {
        world_enter(h->x->world);
        rc = poll_messages(h, err);
        world_leave(h->x->world);
        if (rc < 0)
            return STREAM_FAILED;
        moved |= rc;
    }
    moved |= poll_shared(h);
    moved |= poll_selves(h);
    if (h->finished == h->rows.rows && h->selves_left == 0) {
        moved |= exec_stage_poll(h);
        if (!exec_stage_ended(h))
            return moved ? STREAM_MOVED : STREAM_IDLE;
        h->starts++;
        return STREAM_DONE;
    }
    double now = tick_now_s();
    if (moved || waits) { /* waits for this rank's own GPU, not for another rank */
        h->moved_s = now;
        if (moved)
            return STREAM_MOVED;
    }
    enum stream_state idle = progress_idle(h, now);
    if (world_forsaken(h->x->world, err))
        return STREAM_FAILED;
    if (now - h->moved_s > h->x->world->deadline_s) {
        set_late(h, err);
        return STREAM_FAILED;
    }
    return idle;
}

void exec_mpi_excuse(struct exec_mpi_handle *h, double s)
{
    h->moved_s += s;
}

const struct exec_rows *exec_mpi_rows(const struct exec_mpi_handle *h)
{
    return &h->rows;
}

int exec_mpi_prepare(struct exec_mpi *x, struct exec_rows *rows, struct exec_mpi_handle **out,
                     struct err *err)
{
    struct exec_mpi_handle *h = mem_new(1, sizeof *h);
    int rc;

    h->x = x;
    h->rows = *rows;
    *rows = (struct exec_rows){0};
    h->comm = x->world->mpi->data;
    h->writes = mem_new((size_t)h->rows.slots, sizeof(int));
    h->reads = mem_new((size_t)h->rows.slots, sizeof(int));
    exec_queues_make(h);
    rc = exec_shared_open(h, err);
    if (rc == 0) {
        rc = exec_shared_find(h, err);
        if (rc == 0)
            rc = exec_queues_windows(h, err);
        rc = world_agree(x->world, rc, err);
    }
    if (rc) {
        exec_mpi_free(h);
        return -1;
    }
    *out = h;
    return 0;
}

void exec_mpi_free(struct exec_mpi_handle *h)
{
    if (!h)
        return;
    if (in_flight(h)) {
        h->x->left = 1;
        return;
    }
    exec_queues_release(h);
    exec_stage_free(h);
    world_share_close(&h->share);
    exec_rows_release(&h->rows);
    MEM_FREE(h->writes, h->reads, h);
}

int exec_mpi_open(struct exec_mpi **out, struct world *world,
                  const struct exec_mpi_options *options, struct err *err)
{
    struct exec_mpi *x = mem_new(1, sizeof *x);

    x->world = world;
    x->window_bytes = options->window_bytes ? options->window_bytes : WINDOW_BYTES;
    x->no_shared = options->no_shared;
    if (world_share_open(world, options->shared_bytes, &x->share, err)) {
        mem_free(x);
        return -1;
    }
    arena_borrow(&x->arena, x->share.base[world->node_rank], options->shared_bytes);
    *out = x;
    return 0;
}

void exec_mpi_close(struct exec_mpi *x)
{
    if (!x || x->left)
        return;
    world_share_close(&x->share);
    mem_free(x);
}

void *exec_mpi_take(struct exec_mpi *x, int64_t bytes)
{
    return arena_take(&x->arena, bytes);
}
