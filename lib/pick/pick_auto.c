/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Searches for the best choice: bounds first, then simulated time.  Leaves the simulation to
 * sim, and storing the choice to pick_table.
 */
#include "pick/pick_auto.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "sim/sim.h"

/*
 * A time summed in another order differs by some 2^-53 for each of its terms, of which there
 * are no more than steps: 1e-9 covers ten million.
 */
static const double SAME = 1e-9;

const int64_t pick_chunk_at[PICK_CHUNKS] = {
    4 << 10,   8 << 10,   16 << 10, 32 << 10, PICK_CHUNK_USUAL, 128 << 10,
    256 << 10, 512 << 10, 1 << 20,  2 << 20,  4 << 20,          PICK_CHUNK_WHOLE};
enum { USUAL = 4 };

struct search {
    const struct topo *topo;
    struct layout layout;
    unsigned phases;
    int64_t bytes;
    int alike; /* 1: one group represents all */
};

struct contender {            /* one algorithm */
    int there;                /* 1: it can do the operation */
    double bound_s;           /* lower bound of its time for any cut */
    struct pick_choice best;  /* time_s < 0: not timed */
    struct pick_choice usual; /* with the usual chunk, if slower than best; time_s < 0:
                                 unused */
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

/* Returns the bytes of each chunk, cut as a collective cuts them (coll_rows); owned by the
   caller. */
static int64_t *chunk_bytes_of(const struct search *s, enum schedule_algo algo, int subchunks)
{
    const struct layout *l = &s->layout;
    int even = layout_even(s->phases, algo);
    int chunks = l->segments * l->groups.count * subchunks;
    int64_t *bytes = mem_new((size_t)chunks, sizeof *bytes);

    for (int c = 0; c < chunks; c++) {
        struct range r = layout_chunk(l, s->bytes, even, subchunks, c);
        bytes[c] = r.hi - r.lo;
    }
    return bytes;
}

static int auto_subchunks_of(const struct search *s, enum schedule_algo algo,
                             int64_t chunk_bytes)
{
    return layout_subchunks(&s->layout, s->phases, algo, s->bytes, 1, chunk_bytes);
}

/* Estimates the rows that a simulation reads. */
static double auto_work_of(const struct search *s, int subchunks)
{
    const struct groups *g = &s->layout.groups;
    int reduces = (s->phases & SCHEDULE_REDUCE_SCATTER) != 0;
    int passes = reduces + ((s->phases & ~(unsigned)SCHEDULE_REDUCE_SCATTER) != 0);
    double chunks = (double)s->layout.segments * g->count * subchunks;

    return chunks * passes * (g->ranks - 1) / (s->alike ? g->count : 1);
}

static int too_much(const struct search *s, int subchunks)
{
    return subchunks > PICK_FILLED && auto_work_of(s, subchunks) > PICK_WORK;
}

/* Simulates a cut into `subchunks`, each of which represents `times` messages. */
static int simulate(const struct search *s, enum schedule_algo algo, int subchunks,
                    double times, double *time_s, struct err *err)
{
    struct schedule_spec spec =
        layout_spec(&s->layout, s->topo->levels, s->topo->block, s->phases, algo, subchunks);
    int64_t *bytes = chunk_bytes_of(s, algo, subchunks);
    struct topo_level level[TOPO_LEVELS_MAX];
    struct topo topo = *s->topo;

    memcpy(level, topo.level, (size_t)topo.levels * sizeof *level);
    topo.level = level;
    for (int l = 0; l < topo.levels; l++)
        level[l].message_s *= times;
    struct sim_times out;
    int rc = sim_spec(&spec, &topo, bytes, &out, err);
    mem_free(bytes);
    if (rc == 0)
        *time_s = out.time_s;
    return rc;
}

/*
 * Times a cut into n.  If that is too much work, by T(n) = a + F/n (the fill is one chunk's)
 * from the finest affordable cut and the one half as fine, whose messages cost as much as all n
 * do.
 */
static int time_one(const struct search *s, struct contender *c, int64_t chunk_bytes,
                    double *time_s, struct err *err)
{
    enum schedule_algo algo = c->best.algo;
    int n = auto_subchunks_of(s, algo, chunk_bytes), fine = PICK_FILLED;
    double fine_s = 0, half_s = 0;

    if (!too_much(s, n))
        return simulate(s, algo, n, 1, time_s, err);
    while (!too_much(s, 2 * fine))
        fine *= 2;
    if (simulate(s, algo, fine, (double)n / fine, &fine_s, err) ||
        simulate(s, algo, fine / 2, 2.0 * n / fine, &half_s, err))
        return -1;
    *time_s = fmax(fine_s - fmax(half_s - fine_s, 0) * (1 - (double)fine / n), c->bound_s);
    return 0;
}

/* Lower bound: the bytes of all rows through a port at the port's rate. */
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

/*
 * Fills in whether the algorithm is a candidate, and its bound: from all rows, or, if these are
 * many, from those of one rank (the root), the bound then being that of any algorithm.
 */
static void auto_add_candidate(const struct search *s, enum schedule_algo algo,
                               struct contender *out, struct err *why)
{
    struct schedule_spec spec =
        layout_spec(&s->layout, s->topo->levels, s->topo->block, s->phases, algo, 1);
    int all = auto_work_of(s, 1) * (s->alike ? s->layout.groups.count : 1) <= PICK_WORK;
    struct schedule rows = {0};

    *out = (struct contender){.best = {.algo = algo, .time_s = -1},
                              .usual = {.algo = algo, .time_s = -1}};
    out->there = schedule_gen(&spec, all ? -1 : 0, &rows, why) == 0;
    if (!out->there)
        return;
    int64_t *bytes = chunk_bytes_of(s, algo, 1);
    out->bound_s = all ? ports_s(s, &rows, bytes) : 0;
    if (schedule_phases_name(s->phases))
        out->bound_s =
            fmax(out->bound_s,
                 sim_cut_bound_s(s->topo, s->phases, 0, (double)s->bytes) * (1 - SAME));
    mem_free(bytes);
    schedule_release(&rows);
}

/*
 * One algorithm's chunks: tried[i] is the time with chunk i, NAN if it was not timed or would
 * cut as a neighbour does.
 */
struct climb {
    const struct search *s;
    int first; /* index of the smallest chunk to try */
    struct contender *of;
    double least, tried[PICK_CHUNKS];
    int cut; /* sub-chunks of the last chunk timed */
};

static int try_chunk(struct climb *c, int i, struct err *err)
{
    int cut = auto_subchunks_of(c->s, c->of->best.algo, pick_chunk_at[i]);

    if (cut == c->cut)
        return 0;
    c->cut = cut;
    if (time_one(c->s, c->of, pick_chunk_at[i], &c->tried[i], err))
        return -1;
    c->least = fmin(c->least, c->tried[i]);
    return 0;
}

/* Tries chunks from the usual one on in steps of `by`, as long as that may help. */
static int auto_walk(struct climb *c, int by, struct err *err)
{
    int at = USUAL + by, idle = 0;

    c->cut = auto_subchunks_of(c->s, c->of->best.algo, pick_chunk_at[USUAL]);
    for (; idle < 2 && at >= c->first && at < PICK_CHUNKS; at += by) {
        double before = c->least;
        if (try_chunk(c, at, err))
            return -1;
        if (!isnan(c->tried[at]))
            idle = c->tried[at] < before * (1 - SAME) ? 0 : idle + 1;
    }
    return 0;
}

/* Returns whether messages have a known cost; if not, fewer messages are never worse. */
int pick_messages_cost(const struct topo *t)
{
    return t->level[0].message_s > 0 || t->level[t->levels > 1].message_s > 0;
}

/*
 * Chooses among the chunks as good as the best: the usual one, otherwise the nearest below it,
 * otherwise above.  If messages are free, the largest.  A chunk below the usual one must gain
 * twice the tolerance, because a message's cost to ranks that share processors with its rank is
 * unknown.
 */
int pick_best_chunk(const double tried[PICK_CHUNKS], int messages_cost)
{
    int first = messages_cost ? 0 : USUAL, at = messages_cost ? USUAL : PICK_CHUNKS - 1;
    double good_s = INFINITY;

    for (int i = first; i < PICK_CHUNKS; i++)
        good_s = fmin(good_s, tried[i] * (1 + PICK_GAIN) * (i < USUAL ? 1 + PICK_GAIN : 1));
    for (int i = at; i >= first; i--)
        if (tried[i] <= good_s)
            return i;
    while (!(tried[at] <= good_s))
        at++;
    return at;
}

static int take_chunk(const struct search *s, struct contender *out, struct err *err)
{
    struct climb c = {
        .s = s, .first = pick_messages_cost(s->topo) ? 0 : USUAL, .of = out, .least = INFINITY};

    for (int i = 0; i < PICK_CHUNKS; i++)
        c.tried[i] = NAN;
    if (try_chunk(&c, USUAL, err) || auto_walk(&c, 1, err) || auto_walk(&c, -1, err))
        return -1;
    int at = pick_best_chunk(c.tried, pick_messages_cost(s->topo));
    out->best.chunk_bytes = pick_chunk_at[at];
    out->best.time_s = c.tried[at];
    out->usual.chunk_bytes = pick_chunk_at[USUAL];
    if (c.tried[at] < c.tried[USUAL])
        out->usual.time_s = c.tried[USUAL];
    return 0;
}

double pick_weigh(enum schedule_algo algo, double time_s)
{
    int ring = algo <= SCHEDULE_HO_RING;
    int meets = schedule_algo_flat(algo) || algo == SCHEDULE_TWO_LEVEL_DIRECT;

    return time_s * (ring ? 1 : meets ? 1.1 : 1.05);
}

static double weighed_s(const struct pick_choice *c)
{
    return pick_weigh(c->algo, c->time_s);
}

static int is_faster(const struct pick_choice *a, const struct pick_choice *b)
{
    return b->time_s < 0 || weighed_s(a) < weighed_s(b) * (1 - SAME);
}

/* Finds the two fastest so far; ties go to the first. */
static void rank_them(const struct contender *all, struct pick_answer *out)
{
    const struct pick_choice none = {.algo = SCHEDULE_AUTO, .time_s = -1};

    out->best = out->second = none;
    for (int i = 0; i < SCHEDULE_ALGOS; i++) {
        const struct pick_choice *c = &all[i].best;
        if (!all[i].there || c->time_s < 0)
            continue;
        if (is_faster(c, &out->best)) {
            out->second = out->best;
            out->best = *c;
        } else if (is_faster(c, &out->second)) {
            out->second = *c;
        }
    }
}

/* Returns the candidate not yet timed with the least bound, or -1. */
static int most_promising(const struct contender *all)
{
    int at = -1;

    for (int i = 0; i < SCHEDULE_ALGOS; i++)
        if (all[i].there && all[i].best.time_s < 0 &&
            (at < 0 || pick_weigh(all[i].best.algo, all[i].bound_s) <
                           pick_weigh(all[at].best.algo, all[at].bound_s)))
            at = i;
    return at;
}

static void auto_add_candidates(const struct search *s, struct contender *all, struct err *why)
{
    for (int i = 0; i < SCHEDULE_ALGOS; i++)
        auto_add_candidate(s, (enum schedule_algo)i, &all[i], why);
}

/* Times a candidate; one that cannot be timed is dropped. */
static void time_contender(const struct search *s, struct contender *c, struct err *why)
{
    if (take_chunk(s, c, why))
        c->there = 0;
}

int pick_auto(const struct topo *t, unsigned phases, int64_t bytes, struct pick_answer *out,
              struct err *err)
{
    struct contender all[SCHEDULE_ALGOS];
    struct pick_answer a = {.phases = phases, .bytes = bytes};
    struct search s;
    struct err why = {0};
    int at;

    search_init(&s, t, phases, bytes);
    auto_add_candidates(&s, all, &why);
    rank_them(all, &a);
    while ((at = most_promising(all)) >= 0) {
        /* In order of their bounds: no later one is better. */
        if (a.second.time_s >= 0 && pick_weigh(all[at].best.algo, all[at].bound_s) >
                                        pick_weigh(a.second.algo, a.second.time_s))
            break;
        time_contender(&s, &all[at], &why);
        rank_them(all, &a);
    }
    layout_release(&s.layout);
    if (a.best.time_s < 0)
        return err_set(err, ERR_INPUT, "no algorithm can be timed: %s", why.text);
    *out = a;
    return 0;
}

/* Inserts into `list` after equally fast ones; drops the slowest if the list is full. */
static void insert(struct pick_choice *list, int *count, const struct pick_choice *c)
{
    int at = *count;

    while (at && is_faster(c, &list[at - 1]))
        at--;
    if (at == PICK_SHORT_MAX)
        return;
    *count += *count < PICK_SHORT_MAX;
    memmove(&list[at + 1], &list[at], (size_t)(*count - 1 - at) * sizeof *list);
    list[at] = *c;
}

static int make_shortlist(const struct contender *all, struct pick_choice *list)
{
    const struct contender *ho = &all[SCHEDULE_HO_RING];
    int count = 0, listed = 0;

    for (int i = 0; i < SCHEDULE_ALGOS; i++) {
        if (all[i].there && all[i].best.time_s >= 0)
            insert(list, &count, &all[i].best);
        if (all[i].there && all[i].usual.time_s >= 0)
            insert(list, &count, &all[i].usual);
    }
    while (count && weighed_s(&list[count - 1]) > PICK_TRUST * weighed_s(&list[0]))
        count--;
    for (int i = 0; i < count; i++)
        listed |= list[i].algo == SCHEDULE_HO_RING;
    if (ho->there && !listed) {
        count -= count == PICK_SHORT_MAX;
        list[count++] = ho->best;
    }
    return count;
}

int pick_shortlist(const struct topo *t, unsigned phases, int64_t bytes,
                   struct pick_choice out[PICK_SHORT_MAX], int *count, struct err *err)
{
    struct contender all[SCHEDULE_ALGOS];
    struct search s;
    struct err why = {0};
    double least = INFINITY;
    int at;

    search_init(&s, t, phases, bytes);
    auto_add_candidates(&s, all, &why);
    if (all[SCHEDULE_HO_RING].there)
        time_contender(&s, &all[SCHEDULE_HO_RING], &why);
    if (all[SCHEDULE_HO_RING].there)
        least = weighed_s(&all[SCHEDULE_HO_RING].best);
    /* in order of their bounds, as above */
    while ((at = most_promising(all)) >= 0 &&
           pick_weigh(all[at].best.algo, all[at].bound_s) <= PICK_TRUST * least) {
        time_contender(&s, &all[at], &why);
        if (all[at].there)
            least = fmin(least, weighed_s(&all[at].best));
    }
    layout_release(&s.layout);
    if (isinf(least))
        return err_set(err, ERR_INPUT, "no algorithm can be timed: %s", why.text);
    *count = make_shortlist(all, out);
    return 0;
}

int pick_time(const struct topo *t, unsigned phases, int64_t bytes, enum schedule_algo algo,
              int64_t chunk_bytes, double *time_s, struct err *err)
{
    struct search s;
    struct contender c;

    search_init(&s, t, phases, bytes);
    auto_add_candidate(&s, algo, &c, err);
    int rc = c.there ? time_one(&s, &c, chunk_bytes, time_s, err) : -1;
    layout_release(&s.layout);
    return rc;
}

int pick_check(const struct layout *l, unsigned phases, enum schedule_algo algo,
               struct err *err)
{
    struct schedule_spec spec = layout_spec(l, 0, NULL, phases, algo, 1);

    return schedule_check(&spec, err);
}
