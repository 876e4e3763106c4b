/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds how few ranks can represent all.  If a rotation by p groups leaves the fabric
 * unchanged, and the rows too, every event at group k happens at group k + p at the same time.
 * So only the sends of the first p groups, a run, are simulated; a message that leaves the run
 * lands, within it, where its image arrives.  Partners at distances 1, 2, 4, ... are not
 * symmetric under rotation, but when runs are exchanged bitwise: run q becomes q ^ by instead
 * of q + by (with a power of two of runs).
 *
 *   p = 1, 3 groups of 2     (0,1) -> (1,1) chunk of part 0    lands on (0,1) as part 2,
 *                            (rotated back by one group), as (2,1) sends it to (0,1)
 *
 * Verified before any use: the rows that come into the run are those images, and the first rank
 * after the run has the first rank's rows, rotated.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "sim/sim_parts.h"

enum {
    /* Bytes of a row here, with its share of messages, edges and events: keeps within 2 GiB. */
    ROW_BYTES = 250,
    ROWS_MAX = INT32_MAX / ROW_BYTES,
    /*
     * Cuts of a vector are rounded down to elements, of 8 bytes at most, twice: parts and then
     * sub-chunks differ by one element each.
     */
    ROUNDING_BYTES = 16
};

/* Returns whether a rotation by p groups leaves the fabric unchanged. */
static int is_symmetric(const struct topo *t, int p)
{
    int g = t->groups.count;

    if (t->groups.ring) /* a message may pass the links of groups between its ends */
        return 0;
    for (int k = 0; k < g; k++) {
        int to = (k + p) % g, next = (k + 1) % g, to_next = (to + 1) % g;
        if (t->groups.members[k] != t->groups.members[to] ||
            t->port[k].out_Bps != t->port[to].out_Bps ||
            t->port[k].in_Bps != t->port[to].in_Bps)
            return 0;
        for (int l = 2; l < t->levels; l++) {
            const int *block = t->block + (l - 2) * g;
            if ((block[k] == block[next]) != (block[to] == block[to_next]))
                return 0;
        }
    }
    return 1;
}

/* Each block is one run of neighbours (also around the end), so that borders identify it. */
static int blocks_are_runs(const struct topo *t)
{
    int g = t->groups.count, runs = 1;
    int *seen = mem_new((size_t)g, sizeof *seen);

    for (int l = 2; l < t->levels; l++) {
        const int *block = t->block + (l - 2) * g;
        int borders = 0, blocks = 0;
        memset(seen, 0, (size_t)g * sizeof *seen);
        for (int k = 0; k < g; k++) {
            borders += block[k] != block[(k + 1) % g];
            blocks += !seen[block[k]]++;
        }
        runs &= borders == (blocks > 1 ? blocks : 0);
    }
    mem_free(seen);
    return runs;
}

struct turn {
    const struct schedule_spec *spec;
    int period, runs, chunks;
    int swap;            /* 1: runs are exchanged bitwise */
    struct sim_row *row; /* rows that the run sends; at, into: rotated back into the run */
    size_t row_space;
    int64_t rows;
    struct sim_row *come; /* rows that come into the run, rotated likewise: src in the run */
    size_t come_space;
    int64_t comes;
    struct schedule meta; /* without rows; owned */
};

/* Returns the image of group k `by` runs on. */
static int rotated_group(const struct turn *t, int k, int by)
{
    int run = k / t->period;

    run = t->swap ? run ^ by : (run + by) % t->runs;
    return run * t->period + k % t->period;
}

/* Returns the rotation, in runs, that brings a rank into the first run. */
static int way_home(const struct turn *t, int rank)
{
    int run = t->spec->groups->group_of[rank] / t->period;

    return t->swap ? run : (t->runs - run) % t->runs;
}

static int rotated_rank(const struct turn *t, int rank, int by)
{
    const struct groups *g = t->spec->groups;

    return groups_rank(g, rotated_group(t, g->group_of[rank], by), g->local_of[rank]);
}

static int rotated_chunk(const struct turn *t, int chunk, int by)
{
    int c = t->spec->subchunks, part = chunk / c % t->spec->groups->count;

    return chunk + (rotated_group(t, part, by) - part) * c;
}

static int spec_by_step(const void *a, const void *b)
{
    const struct sim_row *x = a, *y = b;
    const int left[] = {x->step, x->lane, x->src, x->dst, x->chunk, x->at, x->into};
    const int right[] = {y->step, y->lane, y->src, y->dst, y->chunk, y->at, y->into};

    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        if (left[i] != right[i])
            return left[i] < right[i] ? -1 : 1;
    return 0;
}

static void spec_sort(struct sim_row *row, int64_t rows)
{
    if (rows)
        qsort(row, (size_t)rows, sizeof *row, spec_by_step);
}

/* Returns whether the incoming rows are the rotated outgoing ones. */
static int comes_as_it_goes(struct turn *t)
{
    int64_t at = 0;

    spec_sort(t->row, t->rows);
    spec_sort(t->come, t->comes);
    for (int64_t i = 0; i < t->rows; i++) {
        if (t->row[i].dst == t->row[i].at)
            continue;
        if (at == t->comes || spec_by_step(&t->row[i], &t->come[at]))
            return 0;
        at++;
    }
    return at == t->comes;
}

/* 1: the rank after the run has the first rank's rows, rotated; 0: it has not; -1: error. */
static int next_is_like_first(struct turn *t, struct err *err)
{
    const struct groups *g = t->spec->groups;
    int first = groups_rank(g, 0, 0), next = groups_rank(g, t->period, 0);
    struct schedule a = {0}, b = {0};
    struct sim_row *x = NULL;

    if (schedule_gen(t->spec, first, &a, err))
        return -1;
    if (schedule_gen(t->spec, next, &b, err)) {
        schedule_release(&a);
        return -1;
    }
    int same = a.rows == b.rows;
    if (same) {
        x = mem_new(2 * (size_t)a.rows, sizeof *x);
        for (int64_t i = 0; i < 2 * a.rows; i++) {
            const struct schedule_row *r = i < a.rows ? &a.row[i] : &b.row[i - a.rows];
            int by = i < a.rows; /* rotate to the next run */
            x[i] = (struct sim_row){
                .lane = r->lane,
                .step = r->step,
                .src = rotated_rank(t, r->src, by),
                .dst = rotated_rank(t, r->dst, by),
                .chunk = rotated_chunk(t, r->chunk, by),
                .at = (int)r->op,
                .into = rotated_chunk(t, r->into, by),
            };
        }
        spec_sort(x, a.rows);
        spec_sort(x + a.rows, a.rows);
        for (int64_t i = 0; same && i < a.rows; i++)
            same = spec_by_step(&x[i], &x[a.rows + i]) == 0;
    }
    mem_free(x);
    schedule_release(&a);
    schedule_release(&b);
    return same;
}

/* Gathers the rows of the run.  1: they repeat; 0: they do not; -1: error. */
static int spec_gather(struct turn *t, struct err *err)
{
    const struct groups *g = t->spec->groups;
    int last = g->first[t->period];

    t->rows = t->comes = 0;
    for (int i = 0; i < last; i++) {
        int rank = g->rank[i];
        struct schedule s = {0};
        if (schedule_gen(t->spec, rank, &s, err))
            return -1;
        for (const struct schedule_row *r = s.row; r < s.row + s.rows; r++) {
            int home = way_home(t, r->dst), from = way_home(t, r->src);
            struct sim_row row = {.lane = r->lane,
                                  .step = r->step,
                                  .src = r->src,
                                  .dst = r->dst,
                                  .chunk = r->chunk,
                                  .at = rotated_rank(t, r->dst, home),
                                  .into = rotated_chunk(t, r->into, home)};
            if (r->src == rank) {
                t->row = mem_grow(t->row, &t->row_space, (size_t)t->rows + 1, sizeof row);
                t->row[t->rows++] = row;
            } else if (from) {
                /* As its image is sent from within the run. */
                row.src = rotated_rank(t, r->src, from);
                row.dst = rotated_rank(t, r->dst, from);
                row.chunk = rotated_chunk(t, r->chunk, from);
                t->come = mem_grow(t->come, &t->come_space, (size_t)t->comes + 1, sizeof row);
                t->come[t->comes++] = row;
            }
        }
        mem_free(s.row);
        s.row = NULL;
        s.rows = 0;
        schedule_release(&t->meta);
        t->meta = s;
        if (t->rows / (i + 1) * last > ROWS_MAX)
            return err_set(err, ERR_INPUT,
                           "%d representative ranks have about %lld rows, expected %d at "
                           "most",
                           last, (long long)(t->rows / (i + 1) * last), ROWS_MAX);
    }
    return comes_as_it_goes(t) ? next_is_like_first(t, err) : 0;
}

enum alike { UNLIKE, SOME_EMPTY, ALIKE };

/* Computes the mean of each chunk's images, which must be equal but for rounding. */
static enum alike mean_bytes(const struct turn *t, const int64_t *bytes, double *out)
{
    int g = t->spec->groups->count, p = t->period;
    enum alike alike = ALIKE;

    for (int c = 0; c < t->chunks; c++) {
        double sum = 0;
        int64_t least = bytes[c], most = bytes[c];
        if (c / t->spec->subchunks % g >= p)
            continue;
        for (int by = 0; by < t->runs; by++) {
            int64_t b = bytes[rotated_chunk(t, c, by)];
            sum += (double)b;
            least = b < least ? b : least;
            most = b > most ? b : most;
        }
        if (most - least > ROUNDING_BYTES)
            return UNLIKE;
        if (least == 0 && most > 0)
            alike = SOME_EMPTY;
        for (int by = 0; by < t->runs; by++)
            out[rotated_chunk(t, c, by)] = sum / t->runs;
    }
    return alike;
}

/*
 * Estimates the rows of all ranks from those of three; -1: error.  For a broadcast these are
 * unrepresentative (the root may send all rows), but each rank receives each chunk just once.
 */
static double guess_rows(const struct schedule_spec *spec, struct err *err)
{
    int n = spec->groups->ranks, looked = 0;
    double rows = 0;

    if (spec->phases == SCHEDULE_BROADCAST)
        return (double)spec->segments * spec->groups->count * spec->subchunks * (n - 1);
    for (; looked < 3; looked++) {
        struct schedule s = {0};
        if (schedule_gen(spec, (int)((int64_t)looked * (n - 1) / 2), &s, err))
            return -1;
        rows += (double)s.rows;
        schedule_release(&s);
    }
    return rows / looked * n / 2;
}

/* 1: done; 0: the schedule does not repeat; -1: error. */
static int try_turned(const struct schedule_spec *spec, const struct topo *topo,
                      const int64_t *bytes, double rows, struct sim_times *out, struct err *err)
{
    int g = spec->groups->count;
    struct turn t = {.spec = spec, .chunks = spec->segments * g * spec->subchunks};

    if (spec->phases == SCHEDULE_BROADCAST || !groups_equal(spec->groups, &topo->groups))
        return 0;
    /* The fewest groups after which the fabric repeats; all of them: it does not. */
    t.period = blocks_are_runs(topo) ? 1 : g;
    while (t.period < g && (g % t.period || !is_symmetric(topo, t.period)))
        t.period++;
    if (t.period == g)
        return 0;
    t.runs = g / t.period;
    double *mean = mem_new((size_t)t.chunks, sizeof *mean);
    enum alike like = mean_bytes(&t, bytes, mean);
    /* If all rows can be simulated, rows of empty chunks can be dropped one by one. */
    int alike = like == ALIKE || (like == SOME_EMPTY && rows > ROWS_MAX);
    int rc = alike ? spec_gather(&t, err) : 0;
    if (alike && rc == 0 && (t.runs & (t.runs - 1)) == 0) {
        t.swap = 1;
        rc = spec_gather(&t, err);
    }
    if (rc == 1)
        rc = sim_rows_run(&t.meta, topo, mean, t.row, t.rows, 0, out, err) ? -1 : 1;
    MEM_FREE(mean, t.row, t.come);
    schedule_release(&t.meta);
    return rc;
}

int sim_spec(const struct schedule_spec *spec, const struct topo *t, const int64_t *bytes,
             struct sim_times *out, struct err *err)
{
    struct schedule s = {0};
    double rows = guess_rows(spec, err);
    int rc = rows < 0 ? -1 : try_turned(spec, t, bytes, rows, out, err);

    if (rc)
        return rc < 0 ? -1 : 0;
    if (rows > ROWS_MAX)
        rc = err_set(err, ERR_INPUT,
                     "about %.2g rows, expected %d at most: fabric, schedule or chunks do not "
                     "repeat from group to group, so every rank is simulated",
                     rows, ROWS_MAX);
    if (rc == 0)
        rc = schedule_gen(spec, -1, &s, err);
    if (rc == 0)
        rc = sim_rows(&s, t, bytes, 0, out, err);
    schedule_release(&s);
    return rc;
}
