/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies the buffers of a GPU through the host's while rows run.  Both are cut into cells;
 * those of `in` are copied in the order in which rows need them, those of `out` when the last
 * row has written there:
 *
 *     GPU to host    0 1 2 3        cells of in, a few copies issued ahead
 *     ranks            0 1 2 3      rows that read cell 0 run while 1 and 2 are copied
 *     host to GPU        0 1 2 3    cells of out
 *
 * A GPU that fails copies nothing more: the contents of the host buffers are sent to the other
 * ranks, which wait for them, and the device keeps the error.
 */
#include <string.h>

#include "dev/dev.h"
#include "exec/exec_mpi_inside.h"

enum {
    CELL = 256 << 10, /* 10 us of a bus of 25 GB/s, of which issuing takes 2 or 3 */
    AHEAD = 16        /* 160 us: a polling thread returns earlier */
};

struct way {                           /* in: to the host; out: to the GPU */
    struct device_queue *queue;        /* borrowed */
    struct device_event *there[AHEAD]; /* owned: recorded after each issued copy */
    int64_t bytes;                     /* up to the last byte that rows read, or write */
    int cells, *cell;                  /* cells that may be copied, in this order; owned */
    int requested, came;               /* copies issued, copies done */
    int64_t came_bytes;
};

struct exec_stage {
    struct way in, out;
    int *wants;               /* [rows] number of cells of in that must have come; owned */
    int outs, *writes, *left; /* [outs] writes to a cell of out; those still to come; owned */
    const char *from, *next_from; /* on the GPU; NULL: in is already on the host */
    char *to, *next_to;           /* NULL: out stays on the host */
};

static int64_t cells(int64_t bytes)
{
    return (bytes + CELL - 1) / CELL;
}

static int64_t length(const struct way *w, int64_t cell)
{
    int64_t left = w->bytes - cell * CELL;

    return left < CELL ? left : CELL;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The spots that a row reads. */
static int reads_of(const struct exec_row *row, struct exec_spot spot[2])
{
    int n = 0;

    if (row->kind != EXEC_RECV)
        spot[n++] = row->from;
    if (row->kind != EXEC_SEND && row->op == SCHEDULE_ADD)
        spot[n++] = row->base;
    return n;
}

static int writes_out(const struct exec_row *row)
{
    return row->kind != EXEC_SEND && row->to.where == EXEC_OUT;
}

/* Appends new cells of [at, at + bytes) to the order; returns how many must have come for
   it. */
static int want(struct exec_stage *s, int *place, int64_t at, int64_t bytes)
{
    int most = 0;

    for (int64_t c = at / CELL; c * CELL < at + bytes; c++) {
        if (place[c] == 0) {
            s->in.cell[s->in.cells++] = (int)c;
            place[c] = s->in.cells;
        }
        most = place[c] > most ? place[c] : most;
    }
    return most;
}

static void count_writes(struct exec_stage *s, int64_t at, int64_t bytes)
{
    for (int64_t c = at / CELL; c * CELL < at + bytes; c++)
        s->writes[c]++;
}

static int open_way(struct way *w, struct device_queue *queue, struct err *err)
{
    w->queue = queue;
    for (int i = 0; i < AHEAD; i++)
        if (device_event_open(device_of(queue), &w->there[i], err))
            return -1;
    return 0;
}

static void close_way(struct way *w)
{
    for (int i = 0; i < AHEAD; i++)
        device_event_close(w->there[i]);
    mem_free(w->cell);
}

int exec_mpi_stage(struct exec_mpi_handle *h, struct device_queue *in, struct device_queue *out,
                   struct err *err)
{
    struct exec_stage *s = h->stage = mem_new(1, sizeof *s);
    const struct exec_rows *r = &h->rows;
    struct exec_spot spot[2];

    for (int i = 0; i < r->rows; i++) {
        const struct exec_row *row = &r->row[i];
        for (int n = reads_of(row, spot); n-- > 0;)
            if (spot[n].where == EXEC_IN)
                s->in.bytes = later(s->in.bytes, spot[n].at + row->bytes);
        if (writes_out(row))
            s->out.bytes = later(s->out.bytes, row->to.at + row->bytes);
    }
    for (int i = 0; i < r->selves; i++) {
        s->in.bytes = later(s->in.bytes, r->self[i].from + r->self[i].bytes);
        s->out.bytes = later(s->out.bytes, r->self[i].to + r->self[i].bytes);
    }
    s->outs = (int)cells(s->out.bytes);
    size_t ins = (size_t)cells(s->in.bytes);
    int *place = mem_new(ins + 1, sizeof *place);
    s->in.cell = mem_new(ins + 1, sizeof *s->in.cell);
    s->out.cell = mem_new((size_t)s->outs + 1, sizeof *s->out.cell);
    s->wants = mem_new((size_t)r->rows + 1, sizeof *s->wants);
    s->writes = mem_new((size_t)s->outs + 1, sizeof *s->writes);
    s->left = mem_new((size_t)s->outs + 1, sizeof *s->left);
    for (int i = 0; i < r->rows; i++) {
        const struct exec_row *row = &r->row[i];
        for (int n = reads_of(row, spot); n-- > 0;)
            if (spot[n].where == EXEC_IN)
                s->wants[i] = (int)later(s->wants[i], want(s, place, spot[n].at, row->bytes));
        if (writes_out(row))
            count_writes(s, row->to.at, row->bytes);
    }
    for (int i = 0; i < r->selves; i++) {
        want(s, place, r->self[i].from, r->self[i].bytes);
        count_writes(s, r->self[i].to, r->self[i].bytes);
    }
    mem_free(place);
    return open_way(&s->in, in, err) || open_way(&s->out, out, err) ? -1 : 0;
}

void exec_stage_free(struct exec_mpi_handle *h)
{
    struct exec_stage *s = h->stage;

    if (!s)
        return;
    close_way(&s->in);
    close_way(&s->out);
    MEM_FREE(s->wants, s->writes, s->left, s);
}

void exec_mpi_set_gpu(struct exec_mpi_handle *h, const void *in, void *out)
{
    h->stage->next_from = in;
    h->stage->next_to = out;
}

/* ---- a run ---- */

/* Issues and counts copies.  1: some have completed. */
static int go_on(struct way *w, char *to, const char *from)
{
    struct err kept; /* the device keeps the error; failed copies count as done */
    int came = w->came;

    for (; w->came < w->requested && device_done(w->there[w->came % AHEAD], &kept); w->came++)
        w->came_bytes += length(w, w->cell[w->came]);
    for (; w->requested < w->cells && w->requested - w->came < AHEAD; w->requested++) {
        int64_t c = w->cell[w->requested];
        device_copy(w->queue, to + c * CELL, from + c * CELL, length(w, c));
        device_record(w->queue, w->there[w->requested % AHEAD]);
    }
    return w->came > came;
}

int exec_stage_poll(struct exec_mpi_handle *h)
{
    struct exec_stage *s = h->stage;

    return s && (go_on(&s->in, h->base[EXEC_IN], s->from) |
                 go_on(&s->out, s->to, h->base[EXEC_OUT]));
}

void exec_stage_start(struct exec_mpi_handle *h)
{
    struct exec_stage *s = h->stage;

    if (!s)
        return;
    s->from = s->next_from;
    s->to = s->next_to;
    s->in.requested = s->in.came = s->from ? 0 : s->in.cells;
    s->out.cells = s->out.requested = s->out.came = 0;
    s->out.came_bytes = 0;
    memcpy(s->left, s->writes, (size_t)s->outs * sizeof *s->left);
    exec_stage_poll(h);
}

int exec_stage_has(const struct exec_mpi_handle *h, const struct exec_row *row)
{
    return !h->stage || h->stage->in.came >= h->stage->wants[row - h->rows.row];
}

int exec_stage_has_all(const struct exec_mpi_handle *h)
{
    return !h->stage || h->stage->in.came == h->stage->in.cells;
}

void exec_stage_wrote(struct exec_mpi_handle *h, struct exec_spot at, int64_t bytes)
{
    struct exec_stage *s = h->stage;

    if (!s || !s->to || at.where != EXEC_OUT)
        return;
    for (int64_t c = at.at / CELL; c * CELL < at.at + bytes; c++)
        if (--s->left[c] == 0)
            s->out.cell[s->out.cells++] = (int)c;
}

int exec_stage_ended(const struct exec_mpi_handle *h)
{
    return !h->stage || h->stage->out.came == h->stage->out.cells;
}

int64_t exec_mpi_arrived(const struct exec_mpi_handle *h)
{
    return h->stage && h->stage->to ? h->stage->out.came_bytes : h->arrived_bytes;
}
