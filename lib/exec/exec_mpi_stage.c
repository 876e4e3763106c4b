/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how the buffers of a GPU pass through the host's while rows go on.  Both are cut into
 * cells; those of `in` come in the order in which rows want them, those of `out` go when the
 * last row has written there:
 *
 *     GPU to host    0 1 2 3        cells of in, a few asked for ahead
 *     ranks            0 1 2 3      rows that read cell 0 go while 1 and 2 are copied
 *     host to GPU        0 1 2 3    cells of out
 *
 * A GPU that fails copies nothing more: what is in the host's buffers goes to the other ranks,
 * who wait for it, and the device keeps the error.
 */
#include <string.h>

#include "dev/device.h"
#include "exec/exec_mpi_inside.h"

enum {
    CELL = 256 << 10, /* 10 us of a bus of 25 GB/s, of which the asking is 2 or 3 */
    AHEAD = 16        /* 160 us: a thread that polls is back before */
};

struct exec_stage {
    struct device_queue *in, *out;     /* borrowed */
    struct device_event *there[AHEAD]; /* owned: of the cells of in that were asked for */
    struct device_event *landed;       /* owned: all of out is there */
    int64_t in_bytes, out_bytes;       /* as far as rows read, write */
    int cells, *cell;                  /* of in, as they are wanted; owned */
    int *wants;                        /* [rows] so many of them; owned */
    int outs, *writes, *left; /* [outs] what writes to a cell of out; and still has to; owned */
    const char *from, *next_from; /* on the GPU; NULL: in is there as it is */
    char *to, *next_to;           /* NULL: out stays here */
    int asked, came;              /* cells of in */
    int ending;                   /* landed was recorded */
};

static int64_t cells(int64_t bytes)
{
    return (bytes + CELL - 1) / CELL;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Where a row reads. */
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

static void measure(struct exec_stage *s, const struct exec_rows *r)
{
    struct exec_spot spot[2];

    for (int i = 0; i < r->rows; i++) {
        const struct exec_row *row = &r->row[i];
        for (int n = reads_of(row, spot); n-- > 0;)
            if (spot[n].where == EXEC_IN)
                s->in_bytes = later(s->in_bytes, spot[n].at + row->bytes);
        if (writes_out(row))
            s->out_bytes = later(s->out_bytes, row->to.at + row->bytes);
    }
    for (int i = 0; i < r->selves; i++) {
        s->in_bytes = later(s->in_bytes, r->self[i].from + r->self[i].bytes);
        s->out_bytes = later(s->out_bytes, r->self[i].to + r->self[i].bytes);
    }
    s->outs = (int)cells(s->out_bytes);
}

/* How many cells are there when those of [at, at + bytes) are: new ones are put behind. */
static int want(struct exec_stage *s, int *place, int64_t at, int64_t bytes)
{
    int most = 0;

    for (int64_t c = at / CELL; c * CELL < at + bytes; c++) {
        if (place[c] == 0) {
            s->cell[s->cells++] = (int)c;
            place[c] = s->cells;
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

static void lay_out(struct exec_stage *s, const struct exec_rows *r)
{
    size_t ins = (size_t)cells(s->in_bytes);
    int *place = mem_new(ins + 1, sizeof *place);
    struct exec_spot spot[2];

    s->cell = mem_new(ins + 1, sizeof *s->cell);
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
}

int exec_mpi_stage(struct exec_mpi_handle *h, struct device_queue *in, struct device_queue *out,
                   struct err *err)
{
    struct exec_stage *s = h->stage = mem_new(1, sizeof *s);

    s->in = in;
    s->out = out;
    measure(s, &h->rows);
    lay_out(s, &h->rows);
    for (int i = 0; i < AHEAD; i++)
        if (device_event_open(device_of(in), &s->there[i], err))
            return -1;
    return device_event_open(device_of(out), &s->landed, err);
}

void exec_stage_free(struct exec_mpi_handle *h)
{
    struct exec_stage *s = h->stage;

    if (!s)
        return;
    for (int i = 0; i < AHEAD; i++)
        device_event_close(s->there[i]);
    device_event_close(s->landed);
    mem_free(s->cell);
    mem_free(s->wants);
    mem_free(s->writes);
    mem_free(s->left);
    mem_free(s);
}

void exec_mpi_set_gpu(struct exec_mpi_handle *h, const void *in, void *out)
{
    h->stage->next_from = in;
    h->stage->next_to = out;
}

/* ---- a run ---- */

static void copy_cell(struct device_queue *q, char *to, const char *from, int64_t c,
                      int64_t bytes)
{
    int64_t at = c * CELL, end = at + CELL < bytes ? at + CELL : bytes;

    device_copy(q, to + at, from + at, end - at);
}

/* What failed on the device has ended, too. */
static int has_ended(const struct device_event *e)
{
    struct err kept; /* by the device */

    return device_done(e, &kept) != 0;
}

void exec_stage_start(struct exec_mpi_handle *h)
{
    struct exec_stage *s = h->stage;

    if (!s)
        return;
    s->from = s->next_from;
    s->to = s->next_to;
    s->asked = s->came = s->from ? 0 : s->cells;
    s->ending = 0;
    memcpy(s->left, s->writes, (size_t)s->outs * sizeof *s->left);
    exec_stage_poll(h);
}

int exec_stage_poll(struct exec_mpi_handle *h)
{
    struct exec_stage *s = h->stage;
    int came = s ? s->came : 0;

    if (!s || came == s->cells)
        return 0;
    while (s->came < s->asked && has_ended(s->there[s->came % AHEAD]))
        s->came++;
    for (; s->asked < s->cells && s->asked - s->came < AHEAD; s->asked++) {
        copy_cell(s->in, h->base[EXEC_IN], s->from, s->cell[s->asked], s->in_bytes);
        device_record(s->in, s->there[s->asked % AHEAD]);
    }
    return s->came > came;
}

int exec_stage_has(const struct exec_mpi_handle *h, const struct exec_row *row)
{
    return !h->stage || h->stage->came >= h->stage->wants[row - h->rows.row];
}

int exec_stage_has_all(const struct exec_mpi_handle *h)
{
    return !h->stage || h->stage->came == h->stage->cells;
}

void exec_stage_wrote(struct exec_mpi_handle *h, struct exec_spot at, int64_t bytes)
{
    struct exec_stage *s = h->stage;

    if (!s || !s->to || at.where != EXEC_OUT)
        return;
    for (int64_t c = at.at / CELL; c * CELL < at.at + bytes; c++)
        if (--s->left[c] == 0)
            copy_cell(s->out, s->to, h->base[EXEC_OUT], c, s->out_bytes);
}

int exec_stage_ends(struct exec_mpi_handle *h)
{
    struct exec_stage *s = h->stage;

    if (!s || !s->to)
        return 1;
    if (!s->ending)
        device_record(s->out, s->landed);
    s->ending = 1;
    return has_ended(s->landed);
}
