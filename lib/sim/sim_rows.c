/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Converts rows to messages in queues, and the rule of execution to edges between them.  A half
 * of a row, reading at src or writing at dst, waits for the last write of its place; a writing
 * half also waits for the reads since then.  Earlier halves are implied.
 *
 *     place p of a rank, its halves in row order     w0  r1  r2  w3  r4
 *     edges                                          w0 -> r1, r2, w3;  r1, r2 -> w3;  w3 -> r4
 */
#include "sim/sim_parts.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"

/* Edges are numbered by int: three for a row, and two, at barriers, for a message. */
enum { ROWS_MAX = INT32_MAX / 5 };

static int by_queue(const void *a, const void *b, void *rows)
{
    const struct sim_row *row = rows, *x = &row[*(const int *)a], *y = &row[*(const int *)b];
    int c = x->src - y->src;

    c = c ? c : x->lane - y->lane;
    c = c ? c : x->dst - y->dst;
    return c ? c : (x > y) - (x < y);
}

static double row_bytes(const struct sim *x, const struct sim_row *row)
{
    return x->bytes[row->chunk % x->s->chunks];
}

static void rows_add_message(struct sim *x, const struct sim_row *row)
{
    struct sim_queue *q = x->queues ? &x->queue[x->queues - 1] : NULL;

    if (!q || q->lane != row->lane || q->src != row->src || q->dst != row->dst) {
        x->queue = mem_grow(x->queue, &x->queue_space, (size_t)x->queues + 1, sizeof *x->queue);
        q = &x->queue[x->queues++];
        *q = (struct sim_queue){.lane = row->lane,
                                .src = row->src,
                                .dst = row->dst,
                                .at = row->at,
                                .first = x->messages};
    }
    if (q->count && x->message[x->messages - 1].step == row->step)
        return;
    int phase = 0;
    while (phase < x->s->barriers && row->step >= x->s->barrier[phase])
        phase++;
    x->message =
        mem_grow(x->message, &x->message_space, (size_t)x->messages + 1, sizeof *x->message);
    x->message[x->messages++] = (struct sim_message){.queue = x->queues - 1,
                                                     .step = row->step,
                                                     .phase = phase,
                                                     .on_sent = -1,
                                                     .on_landed = -1};
    q->count++;
}

/* Directions of a lane's rows; NO_RING: a rank sends to more than one. */
enum { INSIDE = 1, ACROSS = 2, NO_RING = 4 };

/* A ring with rows both inside groups and across joins all ranks, one across only a rank of
   each group, one inside only a group. */
static double rows_ring_left(const struct sim *x, const struct sim_queue *q, int lane)
{
    const struct topo *t = x->t;
    int pair = topo_pair_level(t, q->src, q->dst), group = t->groups.group_of[q->src];
    int joined = lane & INSIDE ? t->groups.ranks : t->groups.count;
    double left = 1;

    if (lane & NO_RING)
        return 1;
    if (pair == 0)
        return topo_ring_left(&t->level[0], t->groups.members[group]);
    for (int l = 1; l <= pair; l++)
        left = fmin(left, topo_ring_left(&t->level[l], joined));
    return left;
}

/* Makes the messages, grouped by queue, in row order. */
static void rows_make_messages(struct sim *x)
{
    int *order = mem_new((size_t)x->rows, sizeof *order), n = 0;

    x->message_of = mem_new((size_t)x->rows, sizeof *x->message_of);
    for (int i = 0; i < x->rows; i++) {
        x->message_of[i] = -1;
        if (row_bytes(x, &x->row[i]) > 0)
            order[n++] = i;
    }
    qsort_r(order, (size_t)n, sizeof *order, by_queue, (void *)x->row);
    for (int i = 0; i < n; i++) {
        rows_add_message(x, &x->row[order[i]]);
        x->message[x->messages - 1].bytes += row_bytes(x, &x->row[order[i]]);
        x->message_of[order[i]] = x->messages - 1;
    }
    mem_free(order);
    /* In a ring with reduced rates messages are longer in proportion. */
    int lanes = 0;
    for (int i = 0; i < x->queues; i++)
        lanes = x->queue[i].lane >= lanes ? x->queue[i].lane + 1 : lanes;
    int *lane = mem_new((size_t)lanes, sizeof *lane);
    for (int i = 0; i < x->queues; i++) {
        const struct sim_queue *q = &x->queue[i];
        if (q->src != q->dst)
            lane[q->lane] |= topo_pair_level(x->t, q->src, q->dst) ? ACROSS : INSIDE;
        if (i > 0 && q[-1].src == q->src && q[-1].lane == q->lane)
            lane[q->lane] |= NO_RING;
    }
    for (int i = 0; i < x->queues; i++) {
        const struct sim_queue *q = &x->queue[i];
        double left = rows_ring_left(x, q, lane[q->lane]);
        for (int m = q->first; m < q->first + q->count; m++)
            x->message[m].bytes /= left;
    }
    mem_free(lane);
    for (int i = 0; i < x->queues; i++) {
        double bytes = 0;
        for (int m = 0; m < x->queue[i].count; m++)
            bytes += x->message[x->queue[i].first + m].bytes;
        sim_share_route(x, &x->queue[i], bytes);
    }
}

/* Adds `to` (2 * message, + 1: its landing) to the list at *first. */
static void add_edge(struct sim *x, int *first, int to)
{
    struct sim_message *m = &x->message[to / 2];

    x->edge = mem_grow(x->edge, &x->edge_space, (size_t)x->edges + 1, sizeof *x->edge);
    x->edge[x->edges] = (struct sim_edge){.to = to, .next = *first};
    *first = x->edges++;
    *(to % 2 ? &m->land_wait : &m->start_wait) += 1;
}

/* State of a place while a rank's halves are scanned. */
struct place {
    int writer, readers; /* message of the last write; list of reads since; -1: none */
};

struct reader {
    int message, next;
};

/* Rows of one message never wait for each other: they are sent and land in row order. */
static void rows_half(struct sim *x, struct place *p, struct reader *reader, int *readers,
                      int message, int writes)
{
    int to = 2 * message + writes;

    if (p->writer >= 0 && p->writer != message)
        add_edge(x, &x->message[p->writer].on_landed, to);
    if (!writes) {
        reader[*readers] = (struct reader){message, p->readers};
        p->readers = (*readers)++;
        return;
    }
    for (int i = p->readers; i >= 0; i = reader[i].next)
        if (reader[i].message != message)
            add_edge(x, &x->message[reader[i].message].on_sent, to);
    *p = (struct place){message, -1};
}

/* Lists the rows that name each rank, in row order, a local row once: those of rank r are at
   first[r] .. first[r + 1] - 1 of the list; *out is first. */
static int *rows_by_rank(const struct sim *x, int64_t **out)
{
    int n = x->s->groups.ranks;
    int64_t *first = mem_new((size_t)n + 2, sizeof *first);
    int *list = mem_new(2 * (size_t)x->rows, sizeof *list);

    for (int i = 0; i < x->rows; i++) {
        first[x->row[i].src + 2]++;
        if (x->row[i].at != x->row[i].src)
            first[x->row[i].at + 2]++;
    }
    for (int r = 2; r <= n + 1; r++)
        first[r] += first[r - 1];
    for (int i = 0; i < x->rows; i++) {
        list[first[x->row[i].src + 1]++] = i;
        if (x->row[i].at != x->row[i].src)
            list[first[x->row[i].at + 1]++] = i;
    }
    *out = first;
    return list;
}

static void make_edges(struct sim *x)
{
    int64_t *first = NULL;
    int *list = rows_by_rank(x, &first);
    size_t slots = (size_t)x->s->chunks * (size_t)(1 + x->s->planes);
    struct place *place = mem_new(slots, sizeof *place);
    struct reader *reader = mem_new((size_t)x->rows, sizeof *reader);

    for (int r = 0; r < x->s->groups.ranks; r++) {
        const int *mine = list + first[r];
        int64_t rows = first[r + 1] - first[r];
        int readers = 0;
        for (int64_t i = 0; i < rows; i++)
            place[x->row[mine[i]].chunk] = place[x->row[mine[i]].into] = (struct place){-1, -1};
        for (int64_t i = 0; i < rows; i++) {
            const struct sim_row *row = &x->row[mine[i]];
            int message = x->message_of[mine[i]];
            if (message >= 0 && row->src == r)
                rows_half(x, &place[row->chunk], reader, &readers, message, 0);
            if (message >= 0 && row->at == r)
                rows_half(x, &place[row->into], reader, &readers, message, 1);
        }
    }
    MEM_FREE(reader, place, list, first);
}

/* A half after several barriers waits for the last one, which waits for the earlier ones'
   rows. */
static void wait_at_gate(struct sim *x, int rank, int phase, int to)
{
    if (phase == 0)
        return;
    struct sim_gate *gate = &x->gate[rank * x->s->barriers + phase - 1];
    if (gate->left)
        add_edge(x, &gate->first, to);
}

static void take_times(const struct sim *x, int every_row, struct sim_times *out)
{
    *out = (struct sim_times){0};
    for (int i = 0; i < x->messages; i++)
        out->time_s = fmax(out->time_s, x->message[i].end_s);
    for (int i = 0; out->time_s > 0 && i < x->resources; i++) {
        const struct sim_resource *r = &x->resource[i];
        double *busy = &out->busy[r->level];
        *busy = fmax(*busy, r->bytes / r->Bps / out->time_s);
    }
    if (!every_row)
        return;
    out->start_s = mem_new((size_t)x->rows, sizeof *out->start_s);
    out->end_s = mem_new((size_t)x->rows, sizeof *out->end_s);
    for (int i = 0; i < x->rows; i++) {
        if (x->message_of[i] < 0)
            continue;
        out->start_s[i] = x->message[x->message_of[i]].start_s;
        out->end_s[i] = x->message[x->message_of[i]].end_s;
    }
}

int sim_rows_run(const struct schedule *s, const struct topo *t, const double *bytes,
                 const struct sim_row *row, int64_t rows, int every_row, struct sim_times *out,
                 struct err *err)
{
    char have[64], want[64];

    if (!groups_equal(&s->groups, &t->groups)) {
        groups_print(&t->groups, have, sizeof have);
        groups_print(&s->groups, want, sizeof want);
        return err_set(err, ERR_MISMATCH,
                       "the fabric has groups %s, expected %s with the same ranks, as in the "
                       "schedule",
                       have, want);
    }
    if (rows > ROWS_MAX)
        return err_set(err, ERR_INPUT, "%lld rows, expected %d at most", (long long)rows,
                       ROWS_MAX);
    struct sim x = {.t = t, .s = s, .bytes = bytes, .row = row, .rows = (int)rows};
    sim_share_init(&x);
    rows_make_messages(&x);
    make_edges(&x);
    int barriers = s->barriers;
    size_t gates = (size_t)s->groups.ranks * (size_t)barriers;
    x.gate = mem_new(gates, sizeof *x.gate);
    x.free_s = mem_new((size_t)s->groups.ranks, sizeof *x.free_s);
    for (size_t i = 0; i < gates; i++)
        x.gate[i].first = -1;
    for (int i = 0; barriers && i < x.messages; i++) {
        const struct sim_queue *q = &x.queue[x.message[i].queue];
        for (int b = x.message[i].phase; b < barriers; b++) {
            x.gate[q->src * barriers + b].left++;
            x.gate[q->at * barriers + b].left++;
        }
    }
    for (int i = 0; barriers && i < x.messages; i++) {
        const struct sim_queue *q = &x.queue[x.message[i].queue];
        wait_at_gate(&x, q->src, x.message[i].phase, 2 * i);
        wait_at_gate(&x, q->at, x.message[i].phase, 2 * i + 1);
    }
    x.reached_queue = mem_new((size_t)x.queues, sizeof *x.reached_queue);
    int rc = sim_run(&x, err);
    if (rc == 0)
        take_times(&x, every_row, out);
    MEM_FREE(x.message_of, x.resource, x.slot, x.queue, x.message, x.edge, x.gate, x.free_s,
             x.event, x.todo, x.reached_queue, x.dirty, x.reached_resource);
    return rc;
}

int sim_rows(const struct schedule *s, const struct topo *t, const int64_t *bytes,
             int every_row, struct sim_times *out, struct err *err)
{
    struct sim_row *row = mem_new((size_t)s->rows, sizeof *row);
    double *size = mem_new((size_t)s->chunks, sizeof *size);

    for (int64_t i = 0; i < s->rows; i++) {
        const struct schedule_row *r = &s->row[i];
        row[i] = (struct sim_row){r->lane, r->step, r->src, r->dst, r->chunk, r->dst, r->into};
    }
    for (int c = 0; c < s->chunks; c++)
        size[c] = (double)bytes[c];
    int rc = sim_rows_run(s, t, size, row, s->rows, every_row, out, err);
    mem_free(row);
    mem_free(size);
    return rc;
}

void sim_times_release(struct sim_times *times)
{
    mem_free(times->start_s);
    mem_free(times->end_s);
    *times = (struct sim_times){0};
}
