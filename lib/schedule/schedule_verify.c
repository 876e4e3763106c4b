/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Proves that rows have the effect that a collective must have.  Every rank's copy of a chunk,
 * and of each of its scratch chunks, is represented by the SET of ranks whose contribution it
 * holds; a copy replaces the set, an add unites two disjoint sets.  The proof is independent of
 * rings, rails and how the rows were made.
 *
 * Rejected: sending an empty chunk; adding a contribution that is already there, or adding onto
 * an empty chunk; two rows of one step on one chunk of a rank where one writes (the rule of
 * execution has no order for them); a rank that ends without its part; rows out of step order.
 * A row waits only for rows of earlier steps, so that no cycle of waits is possible.
 */
#include "schedule/schedule.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/*
 * Bound on the sets of the places that one chunk's rows name.  2^17 ranks that all take part
 * need that much; no text of readable size needs more otherwise.
 */
#define SETS_BYTES_MAX ((int64_t)1 << 31)

struct proof {
    const struct schedule *s;
    int words;      /* 64-bit words per set */
    int64_t *order; /* row numbers, chunk by chunk, in row order */
    int64_t *first; /* [chunks+1] index into order */
    /*
     * Places of the chunk under proof: plane * ranks + rank, ascending; plane 0 is the chunk
     * itself.  Only places that its rows name are kept, however many ranks and planes there
     * are.
     */
    int places;
    int *place;
    int *read_step; /* [places] last step that read (wrote) the chunk there; -1: none */
    int *write_step;
    uint64_t *set; /* [places][words] */
    int64_t set_words;
};

/* The contributions to a chunk that a rank holds or must hold; each contains the previous
   one. */
enum share { NOTHING, OWN, GROUP, ALL };

static uint64_t *verify_set_of(struct proof *p, int at)
{
    return p->set + (int64_t)at * p->words;
}

/* Returns the place of a chunk number on a rank; only its plane matters. */
static int verify_place_of(const struct proof *p, int rank, int chunk)
{
    return chunk / p->s->chunks * p->s->groups.ranks + rank;
}

static int place_compare(const void *a, const void *b)
{
    const int *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* Returns the place's index among those of the chunk under proof. */
static int place_find(const struct proof *p, int rank, int chunk)
{
    int place = verify_place_of(p, rank, chunk);
    const int *at = bsearch(&place, p->place, (size_t)p->places, sizeof *at, place_compare);

    assert(at);
    return (int)(at - p->place);
}

static int set_count(const uint64_t *set, int words)
{
    int n = 0;

    for (int i = 0; i < words; i++)
        n += __builtin_popcountll(set[i]);
    return n;
}

/* Writes a rank's share to an empty set. */
static void set_share(const struct proof *p, uint64_t *set, enum share share, int rank)
{
    const struct groups *g = &p->s->groups;
    int k = g->group_of[rank];

    switch (share) {
    case NOTHING:
        break;
    case OWN:
        set[rank / 64] |= (uint64_t)1 << rank % 64;
        break;
    case GROUP:
        for (int j = 0; j < g->members[k]; j++)
            set[groups_rank(g, k, j) / 64] |= (uint64_t)1 << groups_rank(g, k, j) % 64;
        break;
    case ALL:
        memset(set, 0xff, (size_t)p->words * 8);
        set[p->words - 1] >>= 64 * p->words - g->ranks;
        break;
    }
}

static int share_size(const struct proof *p, enum share share, int rank)
{
    const struct groups *g = &p->s->groups;

    return (int[]){0, 1, g->members[g->group_of[rank]], g->ranks}[share];
}

static int verify_holds(const struct schedule *s, int chunk, int rank)
{
    int count = s->groups.count, segment = chunk / s->subchunks / count;

    return s->holder[(int64_t)segment * count + s->groups.group_of[rank]] == rank;
}

static int owns(const struct schedule *s, int chunk, int rank)
{
    return verify_holds(s, chunk, rank) &&
           chunk / s->subchunks % s->groups.count == s->groups.group_of[rank];
}

/* Returns the share of the chunk that a rank holds before the first row. */
static enum share initial(const struct schedule *s, int chunk, int rank)
{
    if (s->phases & SCHEDULE_BROADCAST)
        return rank == s->root ? ALL : NOTHING;
    if (s->phases & SCHEDULE_REDUCE_INSIDE)
        return OWN;
    if (s->phases & SCHEDULE_REDUCE_ACROSS)
        return verify_holds(s, chunk, rank) ? GROUP : NOTHING;
    if (s->phases & SCHEDULE_GATHER_ACROSS)
        return owns(s, chunk, rank) ? ALL : NOTHING;
    return verify_holds(s, chunk, rank) ? ALL : NOTHING;
}

/* Returns the share that a rank must hold at the end; NOTHING: it may hold anything. */
static enum share due(const struct schedule *s, int chunk, int rank)
{
    if (s->phases & (SCHEDULE_GATHER_INSIDE | SCHEDULE_BROADCAST))
        return ALL;
    if (s->phases & SCHEDULE_GATHER_ACROSS)
        return verify_holds(s, chunk, rank) ? ALL : NOTHING;
    if (s->phases & SCHEDULE_REDUCE_ACROSS)
        return owns(s, chunk, rank) ? ALL : NOTHING;
    return verify_holds(s, chunk, rank) ? GROUP : NOTHING;
}

/* Lists the places that the chunk's rows name and sets their state before the first row. */
static int verify_begin(struct proof *p, int chunk, struct err *err)
{
    const struct schedule *s = p->s;
    int64_t named = 0;

    for (int64_t i = p->first[chunk]; i < p->first[chunk + 1]; i++) {
        const struct schedule_row *row = &s->row[p->order[i]];
        p->place[named++] = verify_place_of(p, row->src, row->chunk);
        p->place[named++] = verify_place_of(p, row->dst, row->into);
    }
    p->places = 0;
    if (named == 0)
        return 0;
    qsort(p->place, (size_t)named, sizeof *p->place, place_compare);
    for (int64_t i = 0; i < named; i++)
        if (i == 0 || p->place[i] != p->place[p->places - 1])
            p->place[p->places++] = p->place[i];
    int64_t words = (int64_t)p->places * p->words;
    if (words > SETS_BYTES_MAX / 8)
        return err_set(err, ERR_INPUT,
                       "chunk %d has %d slots on %d ranks: its proof needs %" PRId64
                       " MiB, expected at most %" PRId64,
                       chunk, p->places, s->groups.ranks, words >> 17, SETS_BYTES_MAX >> 20);
    if (words > p->set_words) {
        mem_free(p->set);
        p->set = mem_new((size_t)words, 8);
        p->set_words = words;
    }
    memset(p->set, 0, (size_t)words * 8);
    for (int i = 0; i < p->places; i++) {
        p->read_step[i] = p->write_step[i] = -1;
        if (p->place[i] < s->groups.ranks)
            set_share(p, verify_set_of(p, i), initial(s, chunk, p->place[i]), p->place[i]);
    }
    return 0;
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
    int src = place_find(p, row->src, row->chunk), dst = place_find(p, row->dst, row->into);
    uint64_t *from = verify_set_of(p, src), *to = verify_set_of(p, dst);

    if (p->write_step[src] == row->step || p->write_step[dst] == row->step ||
        p->read_step[dst] == row->step)
        return wrong(err, at, row, "another row of this step uses the same slot");
    if (set_count(from, p->words) == 0)
        return wrong(err, at, row, "sends from an empty slot");
    if (row->op == SCHEDULE_COPY) {
        memcpy(to, from, (size_t)p->words * 8);
    } else {
        if (set_count(to, p->words) == 0)
            return wrong(err, at, row, "adds to an empty slot");
        for (int w = 0; w < p->words; w++) {
            if (from[w] & to[w])
                return wrong(err, at, row, "adds a contribution twice");
            to[w] |= from[w];
        }
    }
    p->read_step[src] = row->step;
    p->write_step[dst] = row->step;
    return 0;
}

/* Checks a rank's own copy of the chunk at the end; at: its place's index, -1 if no row names
   it. */
static int verify_check_end(struct proof *p, int chunk, int rank, int at, struct err *err)
{
    const struct groups *g = &p->s->groups;
    enum share want = due(p->s, chunk, rank);
    int k = g->group_of[rank], expected = share_size(p, want, rank);
    int have = at < 0 ? share_size(p, initial(p->s, chunk, rank), rank)
                      : set_count(verify_set_of(p, at), p->words);

    if (want != NOTHING && have != expected)
        return err_set(err, ERR_MISMATCH,
                       "rank %d ends with %d contributions of chunk %d, expected %d", rank,
                       have, chunk, expected);
    for (int j = 0; want == GROUP && at >= 0 && j < g->members[k]; j++) {
        int member = groups_rank(g, k, j);
        if (!(verify_set_of(p, at)[member / 64] >> member % 64 & 1))
            return err_set(err, ERR_MISMATCH,
                           "rank %d ends with chunk %d without the contribution of rank %d, "
                           "expected those of its group",
                           rank, chunk, member);
    }
    return 0;
}

static int prove_chunk(struct proof *p, int chunk, struct err *err)
{
    if (verify_begin(p, chunk, err))
        return -1;
    for (int64_t i = p->first[chunk]; i < p->first[chunk + 1]; i++)
        if (take_row(p, p->order[i], err))
            return -1;
    for (int r = 0, at = 0; r < p->s->groups.ranks; r++) {
        int named = at < p->places && p->place[at] == r;
        if (verify_check_end(p, chunk, r, named ? at : -1, err))
            return -1;
        at += named;
    }
    return 0;
}

static int verify_check_row(const struct schedule *s, int64_t at, struct err *err)
{
    const struct schedule_row *row = &s->row[at];
    int n = s->groups.ranks, slots = s->chunks * (1 + s->planes);

    if (row->src < 0 || row->src >= n || row->dst < 0 || row->dst >= n)
        return wrong(err, at, row, "source and destination must be ranks of the shape");
    if (row->chunk < 0 || row->chunk >= slots || row->into < 0 || row->into >= slots)
        return wrong(err, at, row, "the chunk is out of range");
    if (row->chunk % s->chunks != row->into % s->chunks)
        return wrong(err, at, row, "source and destination must be slots of one chunk");
    if (row->src == row->dst && row->chunk == row->into)
        return wrong(err, at, row, "source and destination must differ");
    if (row->lane < 0 || row->lane >= s->lanes || row->step < 0 || row->step >= s->steps)
        return wrong(err, at, row, "the lane or the step is out of range");
    if (at && row->step < row[-1].step)
        return wrong(err, at, row, "rows are not in order of step");
    return 0;
}

/* Sorts the row numbers by chunk with a counting sort, which keeps the order within a chunk. */
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
    struct proof p = {.s = s, .words = (s->groups.ranks + 63) / 64};
    int64_t most = 0;
    int rc = 0, idle = -1;

    for (int64_t i = 0; i < s->rows; i++)
        if (verify_check_row(s, i, err))
            return -1;
    p.order = mem_new((size_t)s->rows, sizeof *p.order);
    p.first = mem_new((size_t)s->chunks + 1, sizeof *p.first);
    index_rows(&p);
    for (int c = 0; c < s->chunks; c++)
        if (p.first[c + 1] - p.first[c] > most)
            most = p.first[c + 1] - p.first[c];
    p.place = mem_new(2 * (size_t)most, sizeof(int));
    p.read_step = mem_new(2 * (size_t)most, sizeof(int));
    p.write_step = mem_new(2 * (size_t)most, sizeof(int));
    for (int c = 0; rc == 0 && c < s->chunks; c++) {
        /* Sub-chunks of one part that no row names are all alike: check one of them. */
        int is_idle = p.first[c] == p.first[c + 1], part = c / s->subchunks;
        if (!is_idle || part != idle)
            rc = prove_chunk(&p, c, err);
        idle = is_idle ? part : idle;
    }
    MEM_FREE(p.set, p.place, p.read_step, p.write_step, p.order, p.first);
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
