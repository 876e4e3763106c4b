/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows what a collective must achieve, and proves that rows achieve it.  Every rank's copy of
 * a chunk, and of each of its scratch chunks, is the SET of ranks whose contribution it holds;
 * a copy replaces the set, an add unites two disjoint sets.  It knows nothing of rings, rails
 * or how the rows came about.
 *
 * Rejected: a send of what is not there, an add of a contribution that is there already or onto
 * an empty place, two rows of one step on one place where one writes (the rule of execution has
 * no order for them), a rank that ends without its part, rows out of step order.  A row waits
 * only for rows of earlier steps, so that no cycle of waits is possible.
 */
#include "schedule/schedule.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct proof {
    const struct schedule *s;
    int words;      /* of one set */
    int places;     /* ranks * (1 + planes): plane 0 is the chunk itself */
    uint64_t *set;  /* [places][words] of the chunk under proof */
    int *read_step; /* [places] last step that read, wrote the chunk there; -1: none */
    int *write_step;
    int64_t *order; /* row numbers, chunk by chunk, in row order */
    int64_t *first; /* [chunks+1] into order */
};

static uint64_t *set_of(struct proof *p, int place)
{
    return p->set + (int64_t)place * p->words;
}

/* Where a chunk number lies on a rank: the plane decides, the chunk under proof is one. */
static int place_of(const struct proof *p, int rank, int chunk)
{
    return chunk / p->s->chunks * p->s->groups.ranks + rank;
}

static void set_put(uint64_t *set, int member)
{
    set[member / 64] |= (uint64_t)1 << member % 64;
}

static int set_count(const uint64_t *set, int words)
{
    int n = 0;

    for (int i = 0; i < words; i++)
        n += __builtin_popcountll(set[i]);
    return n;
}

static void set_group(struct proof *p, uint64_t *set, int k)
{
    const struct groups *g = &p->s->groups;

    for (int j = 0; j < g->members[k]; j++)
        set_put(set, groups_rank(g, k, j));
}

static void set_full(struct proof *p, uint64_t *set)
{
    for (int k = 0; k < p->s->groups.count; k++)
        set_group(p, set, k);
}

/* What each rank holds of the chunk before the first row. */
static void begin(struct proof *p, int chunk)
{
    const struct schedule *s = p->s;
    int place = chunk / s->subchunks, segment = place / s->groups.count;
    const int *holder = s->holder + (int64_t)segment * s->groups.count;
    int n = s->groups.ranks;

    memset(p->set, 0, (size_t)p->places * (size_t)p->words * 8);
    for (int i = 0; i < p->places; i++)
        p->read_step[i] = p->write_step[i] = -1;
    if (s->phases & SCHEDULE_BROADCAST) {
        set_full(p, set_of(p, s->root));
    } else if (s->phases & SCHEDULE_REDUCE_INSIDE) {
        for (int r = 0; r < n; r++)
            set_put(set_of(p, r), r);
    } else if (s->phases & SCHEDULE_REDUCE_ACROSS) {
        for (int k = 0; k < s->groups.count; k++)
            set_group(p, set_of(p, holder[k]), k);
    } else if (s->phases & SCHEDULE_GATHER_ACROSS) {
        set_full(p, set_of(p, holder[place % s->groups.count]));
    } else {
        for (int k = 0; k < s->groups.count; k++)
            set_full(p, set_of(p, holder[k]));
    }
}

/* How many contributions rank must hold at the end; 0: it may hold anything. */
static int due(const struct proof *p, int chunk, int rank)
{
    const struct schedule *s = p->s;
    int place = chunk / s->subchunks, count = s->groups.count, k = s->groups.group_of[rank];
    int holds = s->holder[(int64_t)(place / count) * count + k] == rank;
    int owns = holds && place % count == k;

    if (s->phases & (SCHEDULE_GATHER_INSIDE | SCHEDULE_BROADCAST))
        return s->groups.ranks;
    if (s->phases & SCHEDULE_GATHER_ACROSS)
        return holds ? s->groups.ranks : 0;
    if (s->phases & SCHEDULE_REDUCE_ACROSS)
        return owns ? s->groups.ranks : 0;
    return holds ? s->groups.members[k] : 0;
}

static int wrong(struct err *err, int64_t at, const struct schedule_row *row, const char *why)
{
    char into[32] = "";

    if (row->into != row->chunk)
        snprintf(into, sizeof into, " into %d", row->into);
    return err_set(err, ERR_MISMATCH,
                   "row %lld (lane %d step %d, %d -> %d, chunk %d%s, %s): %s", (long long)at,
                   row->lane, row->step, row->src, row->dst, row->chunk, into,
                   row->op == SCHEDULE_ADD ? "add" : "copy", why);
}

static int take_row(struct proof *p, int64_t at, struct err *err)
{
    const struct schedule_row *row = &p->s->row[at];
    int src = place_of(p, row->src, row->chunk), dst = place_of(p, row->dst, row->into);
    uint64_t *from = set_of(p, src), *to = set_of(p, dst);

    if (p->write_step[src] == row->step || p->write_step[dst] == row->step ||
        p->read_step[dst] == row->step)
        return wrong(err, at, row, "another row of this step touches the same place");
    if (set_count(from, p->words) == 0)
        return wrong(err, at, row, "sends what is not there");
    if (row->op == SCHEDULE_COPY) {
        memcpy(to, from, (size_t)p->words * 8);
    } else {
        if (set_count(to, p->words) == 0)
            return wrong(err, at, row, "adds onto an empty place");
        for (int w = 0; w < p->words; w++) {
            if (from[w] & to[w])
                return wrong(err, at, row, "adds a contribution that is there already");
            to[w] |= from[w];
        }
    }
    p->read_step[src] = row->step;
    p->write_step[dst] = row->step;
    return 0;
}

static int prove_chunk(struct proof *p, int chunk, struct err *err)
{
    begin(p, chunk);
    for (int64_t i = p->first[chunk]; i < p->first[chunk + 1]; i++)
        if (take_row(p, p->order[i], err))
            return -1;
    for (int r = 0; r < p->s->groups.ranks; r++) {
        int want = due(p, chunk, r), have = set_count(set_of(p, r), p->words);
        if (want && have != want)
            return err_set(err, ERR_MISMATCH,
                           "rank %d ends with %d contributions of chunk %d, expected %d", r,
                           have, chunk, want);
    }
    return 0;
}

static int check_row(const struct schedule *s, int64_t at, struct err *err)
{
    const struct schedule_row *row = &s->row[at];
    int n = s->groups.ranks, rooms = s->chunks * (1 + s->planes);

    if (row->src < 0 || row->src >= n || row->dst < 0 || row->dst >= n)
        return wrong(err, at, row, "the ends must be ranks of the shape");
    if (row->chunk < 0 || row->chunk >= rooms || row->into < 0 || row->into >= rooms)
        return wrong(err, at, row, "the chunk is out of range");
    if (row->chunk % s->chunks != row->into % s->chunks)
        return wrong(err, at, row, "both ends must be places of one chunk");
    if (row->src == row->dst && row->chunk == row->into)
        return wrong(err, at, row, "a row must move between two places");
    if (row->lane < 0 || row->lane >= s->lanes || row->step < 0 || row->step >= s->steps)
        return wrong(err, at, row, "the lane or the step is out of range");
    if (at && row->step < row[-1].step)
        return wrong(err, at, row, "rows are not in order of step");
    return 0;
}

/* Counting sort of the row numbers by chunk: order within a chunk stays. */
static void index_rows(struct proof *p)
{
    const struct schedule *s = p->s;

    for (int64_t i = 0; i < s->rows; i++)
        p->first[s->row[i].chunk % s->chunks + 1]++;
    for (int c = 0; c < s->chunks; c++)
        p->first[c + 1] += p->first[c];
    int64_t *at = mem_new((size_t)s->chunks + 1, sizeof *at);
    memcpy(at, p->first, (size_t)s->chunks * sizeof *at);
    for (int64_t i = 0; i < s->rows; i++)
        p->order[at[s->row[i].chunk % s->chunks]++] = i;
    mem_free(at);
}

int schedule_verify(const struct schedule *s, struct err *err)
{
    struct proof p = {.s = s,
                      .words = (s->groups.ranks + 63) / 64,
                      .places = s->groups.ranks * (1 + s->planes)};
    int rc = 0;

    for (int64_t i = 0; rc == 0 && i < s->rows; i++)
        rc = check_row(s, i, err);
    if (rc)
        return rc;
    p.set = mem_new((size_t)p.places * (size_t)p.words, 8);
    p.read_step = mem_new((size_t)p.places, sizeof(int));
    p.write_step = mem_new((size_t)p.places, sizeof(int));
    p.order = mem_new((size_t)s->rows, sizeof *p.order);
    p.first = mem_new((size_t)s->chunks + 1, sizeof *p.first);
    index_rows(&p);
    for (int c = 0; rc == 0 && c < s->chunks; c++)
        rc = prove_chunk(&p, c, err);
    mem_free(p.set);
    mem_free(p.read_step);
    mem_free(p.write_step);
    mem_free(p.order);
    mem_free(p.first);
    return rc;
}

void schedule_traffic(const struct schedule *s, const int64_t *elems,
                      struct schedule_traffic *out)
{
    const struct groups *g = &s->groups;
    int64_t *port = mem_new(2 * (size_t)g->count, sizeof *port);
    int64_t *sent = mem_new((size_t)g->ranks, sizeof *sent);

    *out = (struct schedule_traffic){0};
    for (int64_t i = 0; i < s->rows; i++) {
        const struct schedule_row *row = &s->row[i];
        int a = g->group_of[row->src], b = g->group_of[row->dst];
        int64_t n = elems[row->chunk % s->chunks];
        if (row->src == row->dst)
            continue;
        if (a == b) {
            out->fast_sum += n;
            sent[row->src] += n;
        } else {
            out->slow_sum += n;
            port[2 * a] += n;
            port[2 * b + 1] += n;
        }
    }
    for (int k = 0; k < g->count; k++) {
        if (port[2 * k] > out->slow_out_max)
            out->slow_out_max = port[2 * k];
        if (port[2 * k + 1] > out->slow_in_max)
            out->slow_in_max = port[2 * k + 1];
    }
    for (int r = 0; r < g->ranks; r++)
        if (sent[r] > out->fast_rank_max)
            out->fast_rank_max = sent[r];
    mem_free(port);
    mem_free(sent);
}
