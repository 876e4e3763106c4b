/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups one rank's rows into queues, and the rows of a queue into messages.  Both ends make
 * the same messages of the same rows: by step, and by size.
 *
 *   rows of queue (lane 0, to 3)    step 0: c0 c1    step 1: c4    step 2: c0 c1 c2 c3
 *   messages                        [c0 c1]          [c4]          [c0 c1 c2 c3]
 */
#include "exec/exec_code.h"
#include "exec/exec_mpi_inside.h"

enum {
    WINDOW_LEAST = 4,
    WINDOW_MOST = 256,
    MESSAGE_BYTES_MAX = 1 << 30 /* an int counts a message's bytes */
};

const struct exec_row *exec_queue_row(const struct exec_mpi_handle *h,
                                      const struct exec_queue *q, int at)
{
    return &h->rows.row[h->order[q->first + at]];
}

static int belongs(const struct exec_queue *q, const struct exec_row *row)
{
    return q->lane == row->lane && q->peer == row->peer && q->kind == row->kind;
}

void exec_queues_make(struct exec_mpi_handle *h)
{
    const struct exec_rows *r = &h->rows;
    int *queue_of = mem_new((size_t)r->rows, sizeof(int));
    size_t space = 0;

    for (int i = 0; i < r->rows; i++) {
        const struct exec_row *row = &r->row[i];
        int q = i ? queue_of[i - 1] : 0, n = 0;
        /* neighbours in row order often share a queue: look there first */
        for (; n < h->queues && !belongs(&h->queue[q], row); n++)
            q = (q + 1) % h->queues;
        if (n == h->queues) {
            q = h->queues++;
            h->queue = mem_grow(h->queue, &space, (size_t)h->queues, sizeof *h->queue);
            h->queue[q] =
                (struct exec_queue){.kind = row->kind, .lane = row->lane, .peer = row->peer};
        }
        h->queue[q].count++;
        h->queue[q].coded |= row->coded;
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

/* The local end of a row. */
static struct exec_spot local_end(const struct exec_row *row)
{
    return row->kind == EXEC_SEND ? row->from : row->to;
}

static void mpi_queues_make_messages(struct exec_mpi_handle *h, struct exec_queue *q)
{
    struct exec_message *m = NULL;

    q->message = mem_new((size_t)q->count, sizeof *q->message);
    for (int i = 0; i < q->count; i++) {
        const struct exec_row *row = exec_queue_row(h, q, i);
        const struct exec_row *last = i ? exec_queue_row(h, q, i - 1) : NULL;
        if (!m || row->step != last->step || m->bytes + row->wire_bytes > MESSAGE_BYTES_MAX) {
            m = &q->message[q->messages++];
            *m = (struct exec_message){.first = i};
        } else {
            struct exec_spot a = local_end(last), b = local_end(row);
            m->packed |= a.where != b.where || a.at + last->bytes != b.at;
        }
        m->packed |= row->coded || (q->kind == EXEC_RECV && row->op == SCHEDULE_ADD);
        m->rows++;
        m->bytes += row->wire_bytes;
        if (m->bytes > q->slot_bytes)
            q->slot_bytes = m->bytes;
    }
}

/*
 * Sizes a window in messages of the largest chunk.  So queues of smaller chunks have fewer
 * bytes in flight, in proportion to their share of a port: when narrow rails got as many bytes
 * as wide ones they finished early, and the wide ones then sent alone and finished late
 * (all-reduce on [4,4,3]).
 */
static int mpi_queues_window_of(const struct exec_mpi_handle *h, const struct exec_queue *q)
{
    int64_t chunk = h->rows.most_bytes;

    if (q->coded)
        chunk = exec_code_bytes(h->rows.code, chunk / dtype_bytes(h->rows.type));
    int64_t most = q->slot_bytes > chunk ? q->slot_bytes : chunk;
    int64_t n = h->x->window_bytes / (most ? most : 1);

    n = n < WINDOW_LEAST ? WINDOW_LEAST : n > WINDOW_MOST ? WINDOW_MOST : n;
    return n < q->messages ? (int)n : q->messages;
}

static int make_window(struct exec_mpi_handle *h, struct exec_queue *q, int at, struct err *err)
{
    /* A receive may arrive before its destination is free: it always has a slot; a send only if
       packed. */
    int slots = q->kind == EXEC_RECV;
    void *slot = NULL;

    if (q->slot_bytes > MESSAGE_BYTES_MAX)
        return err_set(err, ERR_INPUT, "a chunk of %lld bytes, expected at most 1 GiB",
                       (long long)q->slot_bytes);
    q->tag = h->tag + q->lane;
    q->request = h->request + at;
    q->done = h->done + at;
    q->where = mem_new((size_t)q->window, sizeof *q->where);
    for (int i = 0; i < q->messages; i++)
        slots |= q->message[i].packed;
    if (slots && mem_data(q->window * q->slot_bytes, "messages in flight", &slot, err))
        return -1;
    q->slot = slot;
    return 0;
}

int exec_queues_windows(struct exec_mpi_handle *h, struct err *err)
{
    for (int i = 0; i < h->queues; i++) {
        struct exec_queue *q = &h->queue[i];
        if (q->pair || q->kind == EXEC_LOCAL)
            continue;
        mpi_queues_make_messages(h, q);
        q->window = mpi_queues_window_of(h, q);
        h->requests += q->window;
    }
    h->request = mem_new((size_t)h->requests, sizeof *h->request);
    h->done = mem_new((size_t)h->requests, 1);
    h->some = mem_new((size_t)h->requests, sizeof *h->some);
    for (int i = 0; i < h->requests; i++)
        h->request[i] = MPI_REQUEST_NULL;
    for (int i = 0, at = 0; i < h->queues; i++) {
        struct exec_queue *q = &h->queue[i];
        if (q->window == 0)
            continue;
        if (make_window(h, q, at, err))
            return -1;
        at += q->window;
    }
    return 0;
}

void exec_queues_release(struct exec_mpi_handle *h)
{
    for (int i = 0; i < h->queues; i++) {
        MEM_FREE(h->queue[i].message, h->queue[i].where, h->queue[i].slot);
    }
    MEM_FREE(h->request, h->done, h->some, h->queue, h->order);
}
