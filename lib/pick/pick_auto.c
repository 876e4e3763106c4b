/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how a choice is searched for: bounds first, then simulated time.  Does not know how
 * time is simulated (sim), nor what a choice is kept in (pick_table).
 */
#include "pick/pick_auto.h"

#include <math.h>

#include "base/mem.h"
#include "sim/sim.h"

/*
 * The same time summed in another order differs by some 2^-53 for each of its terms, of which
 * there are no more than steps: 1e-9 covers ten million.
 */
static const double SAME = 1e-9;

static const int64_t chunk_of[] = {4 << 10,          8 << 10,   16 << 10,  32 << 10,
                                   PICK_CHUNK_USUAL, 128 << 10, 256 << 10, 512 << 10,
                                   1 << 20,          2 << 20,   4 << 20,   PICK_CHUNK_WHOLE};
enum { CHUNKS = sizeof chunk_of / sizeof *chunk_of, USUAL = 4 };

struct search {
    const struct topo *topo;
    struct layout layout;
    unsigned phases;
    int64_t bytes;
    int alike; /* one group stands for all */
};

struct contender { /* an algorithm */
    int there;     /* it can do the operation */
    double bound_s;
    struct pick_choice best; /* time_s < 0: not timed */
};

static void search_init(struct search *s, const struct topo *t, unsigned phases, int64_t bytes)
{
    const struct groups *g = &t->groups;

    *s = (struct search){.topo = t, .phases = phases, .bytes = bytes};
    layout_init(&s->layout, g);
    s->alike = !(phases & SCHEDULE_BROADCAST);
    for (int k = 1; k < g->count; k++)
        s->alike &= g->members[k] == g->members[0] &&
                    t->port[k].out_Bps == t->port[0].out_Bps &&
                    t->port[k].in_Bps == t->port[0].in_Bps;
}

static struct schedule_spec spec_of(const struct search *s, enum schedule_algo algo,
                                    int subchunks)
{
    return (struct schedule_spec){.algo = algo,
                                  .phases = s->phases,
                                  .groups = &s->layout.groups,
                                  .segments = s->layout.segments,
                                  .holder = s->layout.holder,
                                  .subchunks = subchunks,
                                  .levels = s->topo->levels,
                                  .block = s->topo->block};
}

/* Bytes of each chunk, cut as a collective cuts them (coll_places), in whole bytes; owned. */
static int64_t *chunk_bytes_of(const struct search *s, enum schedule_algo algo, int64_t whole,
                               int subchunks)
{
    const struct layout *l = &s->layout;
    int g = l->groups.count, even = pick_even_slices(s->phases, algo);
    int64_t *bytes =
        mem_new((size_t)l->segments * (size_t)g * (size_t)subchunks, sizeof *bytes);

    for (int at = 0; at < l->segments * g; at++) {
        int64_t n = layout_cut(l, whole, at / g, at % g + 1, even) -
                    layout_cut(l, whole, at / g, at % g, even);
        for (int c = 0; c < subchunks; c++)
            bytes[(int64_t)at * subchunks + c] = n * (c + 1) / subchunks - n * c / subchunks;
    }
    return bytes;
}

static int subchunks_of(const struct search *s, enum schedule_algo algo, int64_t whole,
                        int64_t chunk_bytes)
{
    return pick_subchunks(&s->layout, pick_even_slices(s->phases, algo), whole, 1, chunk_bytes);
}

/* About how many rows a simulation looks at. */
static double work_of(const struct search *s, int subchunks)
{
    const struct groups *g = &s->layout.groups;
    int reduces = (s->phases & SCHEDULE_REDUCE_SCATTER) != 0;
    int passes = reduces + ((s->phases & ~(unsigned)SCHEDULE_REDUCE_SCATTER) != 0);
    double chunks = (double)s->layout.segments * g->count * subchunks;

    return chunks * passes * (g->ranks - 1) / (s->alike ? g->count : 1);
}

static int too_much(const struct search *s, int subchunks)
{
    return subchunks > PICK_FILLED && work_of(s, subchunks) > PICK_WORK;
}

static int simulate(const struct search *s, enum schedule_algo algo, int64_t whole,
                    int subchunks, double *time_s, struct err *err)
{
    struct schedule_spec spec = spec_of(s, algo, subchunks);
    int64_t *bytes = chunk_bytes_of(s, algo, whole, subchunks);
    int rc = sim_spec(&spec, s->topo, bytes, time_s, err);

    mem_free(bytes);
    return rc;
}

/* Where the chunks are too many, the line through two smaller vectors. */
static int time_one(const struct search *s, enum schedule_algo algo, int64_t chunk_bytes,
                    double *time_s, struct err *err)
{
    int64_t whole = s->bytes;
    int n = subchunks_of(s, algo, whole, chunk_bytes);
    double most = 0, half = 0;

    while (too_much(s, n)) {
        whole /= 2;
        n = subchunks_of(s, algo, whole, chunk_bytes);
    }
    if (simulate(s, algo, whole, n, &most, err))
        return -1;
    *time_s = most;
    if (whole == s->bytes)
        return 0;
    n = subchunks_of(s, algo, whole / 2, chunk_bytes);
    if (simulate(s, algo, whole / 2, n, &half, err))
        return -1;
    double more = (double)(s->bytes - whole) / (double)(whole - whole / 2);
    *time_s += (most - half) * more;
    return 0;
}

/* No time is below what the bytes through a port take at the port's rate: of all rows. */
static double ports_s(const struct search *s, const struct schedule *all, const int64_t *bytes)
{
    const struct groups *g = &s->layout.groups;
    double *out = mem_new((size_t)g->count, sizeof *out), longest = 0;
    double *in = mem_new((size_t)g->count, sizeof *in);

    for (int64_t i = 0; i < all->rows; i++) {
        const struct schedule_row *r = &all->row[i];
        int from = g->group_of[r->src], to = g->group_of[r->dst];
        if (from == to)
            continue;
        out[from] += (double)bytes[r->chunk % all->chunks];
        in[to] += (double)bytes[r->chunk % all->chunks];
    }
    for (int k = 0; k < g->count; k++) {
        double a = out[k] / s->topo->port[k].out_Bps, b = in[k] / s->topo->port[k].in_Bps;
        longest = a > longest ? a : longest;
        longest = b > longest ? b : longest;
    }
    mem_free(out);
    mem_free(in);
    return longest * (1 - SAME);
}

/* Whether the algorithm is a candidate, and its bound (0 where that would cost too much). */
static void meet(const struct search *s, enum schedule_algo algo, struct contender *out,
                 struct err *why)
{
    struct schedule_spec spec = spec_of(s, algo, 1);
    struct schedule all = {0};

    *out = (struct contender){.best = {.algo = algo, .time_s = -1}};
    out->there = pick_check(&s->layout, s->phases, algo, why) == 0;
    double rows = work_of(s, 1) * (s->alike ? s->layout.groups.count : 1);
    if (!out->there || rows > PICK_WORK || schedule_gen(&spec, -1, &all, why))
        return;
    int64_t *bytes = chunk_bytes_of(s, algo, s->bytes, 1);
    out->bound_s = ports_s(s, &all, bytes);
    mem_free(bytes);
    schedule_release(&all);
}

/*
 * One algorithm's chunks: tried[i] with chunk[i], NAN where it was not timed or would cut as a
 * neighbour does.
 */
struct climb {
    const struct search *s;
    enum schedule_algo algo;
    double least, tried[CHUNKS];
    int cut; /* sub-chunks of the last one timed */
};

static int try_chunk(struct climb *c, int i, struct err *err)
{
    int cut = subchunks_of(c->s, c->algo, c->s->bytes, chunk_of[i]);

    if (cut == c->cut)
        return 0;
    c->cut = cut;
    if (time_one(c->s, c->algo, chunk_of[i], &c->tried[i], err))
        return -1;
    c->least = fmin(c->least, c->tried[i]);
    return 0;
}

/* From the usual chunk on in steps of `by`, as long as it may help. */
static int walk(struct climb *c, int by, struct err *err)
{
    int at = USUAL + by, idle = 0;

    c->cut = subchunks_of(c->s, c->algo, c->s->bytes, chunk_of[USUAL]);
    for (; idle < 2 && at >= 0 && at < CHUNKS; at += by) {
        double before = c->least;
        if (try_chunk(c, at, err))
            return -1;
        if (!isnan(c->tried[at]))
            idle = c->tried[at] < before * (1 - SAME) ? 0 : idle + 1;
    }
    return 0;
}

/* Among those as good as any the usual chunk, else the nearest below it, else above. */
static int best_chunk(const struct climb *c)
{
    for (int i = USUAL; i >= 0; i--)
        if (c->tried[i] <= c->least * (1 + PICK_GAIN))
            return i;
    int at = USUAL + 1;
    while (!(c->tried[at] <= c->least * (1 + PICK_GAIN)))
        at++;
    return at;
}

static int take_chunk(const struct search *s, struct contender *out, struct err *err)
{
    struct climb c = {.s = s, .algo = out->best.algo, .least = INFINITY};

    for (int i = 0; i < CHUNKS; i++)
        c.tried[i] = NAN;
    if (try_chunk(&c, USUAL, err) || walk(&c, 1, err) || walk(&c, -1, err))
        return -1;
    int at = best_chunk(&c);
    out->best.chunk_bytes = chunk_of[at];
    out->best.time_s = c.tried[at];
    return 0;
}

/* The two fastest so far; ties go to what stands first. */
static void rank_them(const struct contender *all, struct pick_answer *out)
{
    const struct pick_choice none = {.algo = SCHEDULE_AUTO, .time_s = -1};

    out->best = out->second = none;
    for (int i = 0; i < SCHEDULE_ALGOS; i++) {
        const struct pick_choice *c = &all[i].best;
        if (!all[i].there || c->time_s < 0)
            continue;
        if (out->best.time_s < 0 || c->time_s < out->best.time_s * (1 - SAME)) {
            out->second = out->best;
            out->best = *c;
        } else if (out->second.time_s < 0 || c->time_s < out->second.time_s * (1 - SAME)) {
            out->second = *c;
        }
    }
}

/* The candidate not yet timed that promises most, or -1. */
static int most_promising(const struct contender *all)
{
    int at = -1;

    for (int i = 0; i < SCHEDULE_ALGOS; i++)
        if (all[i].there && all[i].best.time_s < 0 &&
            (at < 0 || all[i].bound_s < all[at].bound_s))
            at = i;
    return at;
}

int pick_auto(const struct topo *t, unsigned phases, int64_t bytes, struct pick_answer *out,
              struct err *err)
{
    struct contender all[SCHEDULE_ALGOS];
    struct pick_answer a = {.phases = phases, .bytes = bytes};
    struct search s;
    struct err why = {0};
    int rc = 0, at, met = 0;

    search_init(&s, t, phases, bytes);
    for (int i = 0; i < SCHEDULE_ALGOS; i++) {
        meet(&s, (enum schedule_algo)i, &all[i], &why);
        met += all[i].there;
    }
    if (!met)
        rc = err_set(err, ERR_INPUT, "no algorithm can do it: %s", why.text);
    rank_them(all, &a);
    while (rc == 0 && (at = most_promising(all)) >= 0) {
        /* They come in order of their bounds: none behind this one does better. */
        if (a.second.time_s >= 0 && all[at].bound_s > a.second.time_s)
            break;
        rc = take_chunk(&s, &all[at], err);
        rank_them(all, &a);
    }
    layout_release(&s.layout);
    if (rc == 0)
        *out = a;
    return rc;
}

int pick_time(const struct topo *t, unsigned phases, int64_t bytes, enum schedule_algo algo,
              int64_t chunk_bytes, double *time_s, struct err *err)
{
    struct search s;

    search_init(&s, t, phases, bytes);
    int rc = pick_check(&s.layout, phases, algo, err);
    if (rc == 0)
        rc = time_one(&s, algo, chunk_bytes, time_s, err);
    layout_release(&s.layout);
    return rc;
}

int pick_check(const struct layout *l, unsigned phases, enum schedule_algo algo,
               struct err *err)
{
    struct schedule mine = {0};
    struct schedule_spec spec = {.algo = algo,
                                 .phases = phases,
                                 .groups = &l->groups,
                                 .segments = l->segments,
                                 .holder = l->holder,
                                 .subchunks = 1};

    /* One rank's rows are few, and the generator knows what it cannot do. */
    int rc = schedule_gen(&spec, groups_rank(&l->groups, 0, 0), &mine, err);
    schedule_release(&mine);
    return rc;
}
