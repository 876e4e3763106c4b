/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how prepared rows travel.  Each (lane, peer, direction) is a queue in row order:
 *
 *   message, send   the head goes out once the rule of execution lets it be read; up to
 *                   `window` of them in flight
 *   message, recv   posted early, up to `window`: a copy whose place is free lands there at
 *                   once, anything else in a slot, to be copied or added when the rule says so
 *   shared, send    the head is announced by raising `ready`; it was read when `done` rises
 *   shared, recv    the head is copied or added from the sender's buffer when it is announced
 *                   and the rule lets it land, then `done` is raised
 *
 * No deadlock for any window >= 1: of all heads, the least unfinished row has its queue's two
 * ends before it.
 * The layout of the shared part of a handle is exec_mpi_inside.h's.
 */
#include "exec/exec_mpi_inside.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "base/tick.h"

enum {
    WINDOW_BYTES = 1 << 20,
    WINDOW_LEAST = 4,
    WINDOW_MOST = 256,
    SHARED_BYTES =
        128 << 10 /* taken from peers of this host between two looks at the network */
};

static char *spot(const struct exec_mpi_handle *h, struct exec_spot s)
{
    return h->base[s.where] + s.at;
}

/* The rule of execution: what must have happened before a row may touch its chunk. */
static int may_go(const struct exec_mpi_handle *h, const struct exec_row *row)
{
    return h->finished >= row->after && h->writes[row->chunk] == row->wrote &&
           (row->send || h->reads[row->chunk] == row->read);
}

static void finish(struct exec_mpi_handle *h, const struct exec_row *row)
{
    *(row->send ? &h->reads[row->chunk] : &h->writes[row->chunk]) += 1;
    h->arrived_bytes += row->send ? 0 : row->bytes;
    h->finished++;
}

static void land(struct exec_mpi_handle *h, const struct exec_row *row, const void *arrived)
{
    char *to = spot(h, row->to);

    if (row->op == SCHEDULE_ADD)
        dtype_add(to, spot(h, row->from), arrived, h->type, row->bytes / dtype_bytes(h->type));
    else if (to != arrived)
        memcpy(to, arrived, (size_t)row->bytes);
    finish(h, row);
}

static const struct exec_row *row_at(const struct exec_mpi_handle *h,
                                     const struct exec_queue *q, int at)
{
    return &h->rows.row[h->order[q->first + at]];
}

static int mpi_failed(struct err *err, int rc, int peer)
{
    if (peer < 0)
        return err_set(err, ERR_PEER, "MPI reports error %d", rc);
    return err_set(err, ERR_PEER, "MPI reports error %d with rank %d", rc, peer);
}

/* What may begin: sends that the rule allows, receives ahead of time.  1: something did. */
static int post_send(struct exec_mpi_handle *h, struct exec_queue *q, struct err *err)
{
    int moved = 0;

    while (q->posted < q->count && q->posted - q->passed < q->window) {
        const struct exec_row *row = row_at(h, q, q->posted);
        if (!may_go(h, row))
            break;
        int at = q->posted % q->window;
        int rc = MPI_Isend(spot(h, row->from), (int)row->bytes, MPI_BYTE, q->peer, q->tag,
                           h->comm, &q->request[at]);
        if (rc != MPI_SUCCESS)
            return mpi_failed(err, rc, q->peer);
        q->done[at] = 0;
        q->posted++;
        moved = 1;
    }
    return moved;
}

static int post_recv(struct exec_mpi_handle *h, struct exec_queue *q, struct err *err)
{
    int moved = 0;

    while (q->posted < q->count && q->posted - q->passed < q->window) {
        const struct exec_row *row = row_at(h, q, q->posted);
        int at = q->posted % q->window;
        int direct = row->op == SCHEDULE_COPY && may_go(h, row);
        char *to = direct ? spot(h, row->to) : q->slot + at * h->rows.most_bytes;
        int rc =
            MPI_Irecv(to, (int)row->bytes, MPI_BYTE, q->peer, q->tag, h->comm, &q->request[at]);
        if (rc != MPI_SUCCESS)
            return mpi_failed(err, rc, q->peer);
        q->where[at] = to;
        q->done[at] = 0;
        q->posted++;
        moved = 1;
    }
    return moved;
}

/* Rows whose message is through, in row order. */
static int pass_messages(struct exec_mpi_handle *h, struct exec_queue *q)
{
    int moved = 0;

    while (q->passed < q->posted && q->done[q->passed % q->window]) {
        const struct exec_row *row = row_at(h, q, q->passed);
        if (q->send)
            finish(h, row);
        else if (may_go(h, row))
            land(h, row, q->where[q->passed % q->window]);
        else
            break;
        q->passed++;
        moved = 1;
    }
    return moved;
}

/*
 * One look at all messages in flight.  MPI_Testsome enters the progress engine once, where a
 * test of each would poll the sockets again and again.
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
        int rc = q->pair ? 0 : q->send ? post_send(h, q, err) : post_recv(h, q, err);
        if (rc < 0)
            return -1;
        moved |= rc;
    }
    if (test_messages(h, err))
        return -1;
    for (int i = 0; i < h->queues; i++)
        if (!h->queue[i].pair)
            moved |= pass_messages(h, &h->queue[i]);
    return moved;
}

static int poll_shared_send(struct exec_mpi_handle *h, struct exec_queue *q)
{
    struct exec_pair *pair = q->pair;
    int moved = 0;
    int64_t start = h->starts * q->count;

    while (q->posted < q->count && may_go(h, row_at(h, q, q->posted))) {
        q->posted++;
        moved = 1;
    }
    if (moved)
        atomic_store_explicit(&pair->ready, start + q->posted, memory_order_release);
    int64_t done = atomic_load_explicit(&pair->done, memory_order_acquire) - start;
    while (q->passed < done) {
        finish(h, row_at(h, q, q->passed));
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

    while (q->passed < ready && (*budget) > 0) {
        const struct exec_row *row = row_at(h, q, q->passed);
        if (!may_go(h, row))
            break;
        *budget -= row->bytes;
        land(h, row, exec_shared_source(h, q, q->passed));
        q->passed++;
        atomic_store_explicit(&pair->done, start + q->passed, memory_order_release);
        moved = 1;
    }
    return moved;
}

/*
 * The queues of this host, a little at a time: what waits for the network is looked after in
 * between, for the ports are what a collective waits for in the end.  The queues take turns.
 */
static int poll_shared(struct exec_mpi_handle *h)
{
    int64_t budget = SHARED_BYTES;
    int moved = 0;

    for (int n = 0; n < h->queues; n++) {
        struct exec_queue *q = &h->queue[(h->turn + n) % h->queues];
        if (!q->pair || q->passed == q->count)
            continue;
        moved |= q->send ? poll_shared_send(h, q) : poll_shared_recv(h, q, &budget);
    }
    h->turn = h->queues ? (h->turn + 1) % h->queues : 0;
    return moved;
}

void exec_mpi_set(struct exec_mpi_handle *h, const void *in, void *out)
{
    h->next_in = in;
    h->next_out = out;
}

int exec_mpi_start(void *handle, struct err *err)
{
    struct exec_mpi_handle *h = handle;

    h->base[EXEC_IN] = (char *)(uintptr_t)h->next_in;
    h->base[EXEC_OUT] = h->next_out;
    if (exec_shared_publish(h, err))
        return -1;
    memset(h->writes, 0, (size_t)h->rows.chunks * sizeof(int));
    memset(h->reads, 0, (size_t)h->rows.chunks * sizeof(int));
    h->finished = 0;
    h->arrived_bytes = 0;
    for (int i = 0; i < h->queues; i++)
        h->queue[i].posted = h->queue[i].passed = 0;
    h->selves_left = h->rows.selves;
    h->moved_s = tick_now_s();
    return 0;
}

/* The local copies, a few at a time between the rows. */
static int poll_selves(struct exec_mpi_handle *h)
{
    if (h->selves_left == 0)
        return 0;
    const struct exec_self *self = &h->rows.self[--h->selves_left];
    char *from = h->base[EXEC_IN] + self->from, *to = h->base[EXEC_OUT] + self->to;
    if (from != to)
        memmove(to, from, (size_t)self->bytes);
    return 1;
}

enum stream_state exec_mpi_poll(void *handle, struct err *err)
{
    struct exec_mpi_handle *h = handle;
    int moved = 0;

    if (h->requests) {
        world_enter(h->x->world);
        moved = poll_messages(h, err);
        world_leave(h->x->world);
        if (moved < 0)
            return STREAM_FAILED;
    }
    moved |= poll_shared(h);
    moved |= poll_selves(h);
    if (h->finished == h->rows.rows && h->selves_left == 0) {
        h->starts++;
        return STREAM_DONE;
    }
    double now = tick_now_s();
    if (moved) {
        h->moved_s = now;
        return STREAM_MOVED;
    }
    if (now - h->moved_s > h->x->world->deadline_s) {
        err_set(err, ERR_PEER, "no data from other ranks for %g s (%d of %d rows done)",
                h->x->world->deadline_s, h->finished, h->rows.rows);
        return STREAM_FAILED;
    }
    return STREAM_IDLE;
}

int64_t exec_mpi_arrived(const struct exec_mpi_handle *h)
{
    return h->arrived_bytes;
}

/* Queues by first appearance of (lane, peer, direction); the rows of each in row order. */
static void make_queues(struct exec_mpi_handle *h)
{
    const struct exec_rows *r = &h->rows;
    int *queue_of = mem_new((size_t)r->rows, sizeof(int));
    size_t room = 0;

    for (int i = 0; i < r->rows; i++) {
        const struct exec_row *row = &r->row[i];
        int q = i ? queue_of[i - 1] : 0;
        /* neighbours in row order are often of one queue: look there first */
        for (int n = 0; n < h->queues; n++, q = (q + 1) % h->queues) {
            const struct exec_queue *have = &h->queue[q];
            if (have->lane == row->lane && have->peer == row->peer && have->send == row->send)
                break;
        }
        if (h->queues == 0 || h->queue[q].lane != row->lane || h->queue[q].peer != row->peer ||
            h->queue[q].send != row->send) {
            q = h->queues++;
            h->queue = mem_grow(h->queue, &room, (size_t)h->queues, sizeof *h->queue);
            h->queue[q] =
                (struct exec_queue){.lane = row->lane, .peer = row->peer, .send = row->send};
        }
        h->queue[q].count++;
        queue_of[i] = q;
    }
    h->order = mem_new((size_t)r->rows, sizeof(int));
    for (int q = 0, first = 0; q < h->queues; q++) {
        h->queue[q].first = first;
        first += h->queue[q].count;
        h->queue[q].count = 0;
    }
    for (int i = 0; i < r->rows; i++) {
        struct exec_queue *q = &h->queue[queue_of[i]];
        h->order[q->first + q->count++] = i;
    }
    mem_free(queue_of);
}

static int window_of(const struct exec_mpi_handle *h, const struct exec_queue *q)
{
    int64_t n = h->x->window_bytes / (h->rows.most_bytes ? h->rows.most_bytes : 1);

    n = n < WINDOW_LEAST ? WINDOW_LEAST : n > WINDOW_MOST ? WINDOW_MOST : n;
    return n < q->count ? (int)n : q->count;
}

/* Requests and slots of the queues that go by message; all requests in one array. */
static int make_windows(struct exec_mpi_handle *h, struct err *err)
{
    for (int i = 0; i < h->queues; i++)
        if (!h->queue[i].pair) {
            h->queue[i].window = window_of(h, &h->queue[i]);
            h->requests += h->queue[i].window;
        }
    h->request = mem_new((size_t)h->requests, sizeof *h->request);
    h->done = mem_new((size_t)h->requests, 1);
    h->some = mem_new((size_t)h->requests, sizeof *h->some);
    for (int i = 0; i < h->requests; i++)
        h->request[i] = MPI_REQUEST_NULL;
    for (int i = 0, at = 0; i < h->queues; i++) {
        struct exec_queue *q = &h->queue[i];
        if (q->pair)
            continue;
        q->tag = h->tag + q->lane;
        q->request = h->request + at;
        q->done = h->done + at;
        at += q->window;
        q->where = mem_new((size_t)q->window, sizeof *q->where);
        void *slot = NULL;
        if (!q->send &&
            mem_data(q->window * h->rows.most_bytes, "messages in flight", &slot, err))
            return -1;
        q->slot = slot;
    }
    return 0;
}

int exec_mpi_prepare(struct exec_mpi *x, struct exec_rows *rows, enum dtype type,
                     struct exec_mpi_handle **out, struct err *err)
{
    struct exec_mpi_handle *h = mem_new(1, sizeof *h);
    int rc = 0;

    h->x = x;
    h->rows = *rows;
    *rows = (struct exec_rows){0};
    h->type = type;
    h->comm = x->world->mpi->data;
    h->writes = mem_new((size_t)h->rows.chunks, sizeof(int));
    h->reads = mem_new((size_t)h->rows.chunks, sizeof(int));
    if (h->rows.most_bytes > INT32_MAX)
        rc = err_set(err, ERR_INPUT, "a chunk of %lld bytes, expected less than 2 GiB",
                     (long long)h->rows.most_bytes);
    make_queues(h);
    /* What failed on one rank is agreed once: agreeing again would name another rank for it. */
    rc = world_agree(x->world, rc, err);
    if (rc == 0)
        rc = exec_shared_open(h, err);
    if (rc == 0) {
        rc = exec_shared_find(h, err);
        if (rc == 0)
            rc = make_windows(h, err);
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
    for (int i = 0; i < h->queues; i++) {
        mem_free(h->queue[i].where);
        mem_free(h->queue[i].slot);
    }
    world_share_close(&h->share);
    exec_rows_release(&h->rows);
    mem_free(h->request);
    mem_free(h->done);
    mem_free(h->some);
    mem_free(h->queue);
    mem_free(h->order);
    mem_free(h->writes);
    mem_free(h->reads);
    mem_free(h);
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
    if (!x)
        return;
    world_share_close(&x->share);
    mem_free(x);
}

void *exec_mpi_take(struct exec_mpi *x, int64_t bytes)
{
    return arena_take(&x->arena, bytes);
}
