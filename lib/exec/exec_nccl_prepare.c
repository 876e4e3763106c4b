/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prepares a handle once: makes turns and scratch, and connects the ranks that will exchange
 * data, so that no connection is made within a run.
 */
#include "exec/exec_nccl_inside.h"

/* For each pair of peers not yet connected on a track: one byte each way, in one group. */
static int nccl_open_track(struct exec_nccl_handle *h, int track, struct err *err)
{
    struct exec_nccl *x = h->x;
    struct exec_track *t = &x->track[track];
    cudaStream_t stream = device_stream(t->queue[TURN_MOVES]);
    ncclResult_t rc = ncclGroupStart(), end;
    int peer = -1;

    for (int i = 0; rc == ncclSuccess && i < h->rows.rows; i++) {
        const struct exec_row *row = &h->rows.row[i];
        char *met = &t->met[(row->kind == EXEC_RECV ? x->ranks : 0) + row->peer];
        if (row->kind == EXEC_LOCAL || turns_track(&h->rows, row, x->tracks) != track || *met)
            continue;
        *met = 1;
        peer = row->peer;
        if (row->kind == EXEC_SEND)
            rc = ncclSend(x->touch, 1, ncclUint8, peer, t->comm, stream);
        else
            rc = ncclRecv(x->touch + 64 + peer, 1, ncclUint8, peer, t->comm, stream);
    }
    end = ncclGroupEnd();
    rc = rc == ncclSuccess ? end : rc;
    if (peer < 0)
        return 0;
    return exec_nccl_drain(x, t->comm, rc, "ncclGroupEnd", err,
                           "at the first message on track %d, with rank %d", track, peer);
}

static int nccl_open_tracks(struct exec_nccl_handle *h, struct err *err)
{
    struct exec_nccl *x = h->x;

    /* Issues on all tracks before waiting for one: the other ranks reach each track in this
       order. */
    for (int t = 0; t < x->tracks; t++)
        if (nccl_open_track(h, t, err))
            return -1;
    for (int t = 0; t < x->tracks; t++) {
        device_record(x->track[t].queue[TURN_MOVES], x->met);
        if (exec_nccl_wait(x, x->met, "the first messages of ranks", err))
            return -1;
    }
    return 0;
}

/* Runs execute one after the other, so all handles share one scratch of the largest size. */
static int make_scratch(struct exec_nccl *x, int64_t bytes, struct err *err)
{
    void *p = NULL;

    if (bytes <= x->scratch_bytes)
        return 0;
    device_record(x->door, x->met); /* after the runs that use the old one */
    if (exec_nccl_wait(x, x->met, "runs before a new scratch", err))
        return -1;
    device_free(x->device, x->scratch);
    x->scratch = NULL;
    x->scratch_bytes = 0;
    if (device_alloc(x->device, bytes, "scratch of collectives", &p, err))
        return exec_nccl_fail(x, err);
    x->scratch = p;
    x->scratch_bytes = bytes;
    return 0;
}

static int make_events(struct exec_nccl_handle *h, struct err *err)
{
    const struct turns *t = &h->turns;

    h->done = mem_new(2 * (size_t)t->turns, sizeof(struct device_event *));
    for (int i = 0; i < 2 * t->turns; i++)
        if (t->turn[i / 2].point[i % 2].there &&
            device_event_open(h->x->device, &h->done[i], err))
            return -1;
    return device_event_open(h->x->device, &h->end, err);
}

static int nccl_prepare(struct exec_nccl_handle *h, struct err *err)
{
    struct exec_nccl *x = h->x;

    if (exec_nccl_check(x, err))
        return -1;
    if (x->served != x->tickets) /* a bug of the caller: the scratch is in use */
        return err_set(err, ERR_INPUT, "a collective is prepared while another one begins");
    if (h->rows.residual_elems || h->rows.spans)
        return err_set(err, ERR_INPUT,
                       "coded data between groups over NCCL, expected the MPI executor");
    turns_init(&h->turns, &h->rows, x->tracks);
    if (make_events(h, err))
        return exec_nccl_fail(x, err);
    return make_scratch(x, h->turns.scratch_bytes, err) || nccl_open_tracks(h, err) ? -1 : 0;
}

int exec_nccl_prepare(struct exec_nccl *x, struct exec_rows *rows,
                      struct exec_nccl_handle **out, struct err *err)
{
    struct exec_nccl_handle *h = mem_new(1, sizeof *h);

    h->x = x;
    h->rows = *rows;
    *rows = (struct exec_rows){0};
    if (nccl_prepare(h, err)) {
        exec_nccl_free(h);
        return -1;
    }
    *out = h;
    return 0;
}

void exec_nccl_free(struct exec_nccl_handle *h)
{
    struct err ignored;

    if (!h)
        return;
    if (h->started && !h->x->failed && exec_nccl_put_in(h, &ignored) == 0)
        (void)exec_nccl_wait(h->x, h->end, "a run whose handle is freed", &ignored);
    for (int i = 0; h->done && i < 2 * h->turns.turns; i++)
        device_event_close(h->done[i]);
    mem_free(h->done);
    turns_release(&h->turns);
    device_event_close(h->end);
    exec_rows_release(&h->rows);
    mem_free(h);
}
