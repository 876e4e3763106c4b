/* SPDX-License-Identifier: BSD-3-Clause */
/* Computes the elements of a schedule's chunks from the layouts.  Independent of transport and
   time. */
#include "pick/pick.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

/*
 * A vector so long that rounding to whole elements is negligible: 2^-44 of it, and every
 * product with a share (at most 2^20 ranks or sub-chunks) still fits 64 bits.
 */
#define LONG_VECTOR (INT64_C(1) << 42)

/*
 * Estimates the rows of all ranks before they are made: each chunk goes to every rank, and in a
 * reduction it also comes from each.  Recursive doubling instead sends all chunks in each
 * round, and adds them where they have arrived.
 */
static double rows_about(const struct schedule_spec *spec)
{
    double chunks = (double)spec->segments * spec->groups->count * spec->subchunks;
    int reduces = (spec->phases & SCHEDULE_REDUCE_SCATTER) != 0;
    int gathers = (spec->phases & SCHEDULE_ALL_GATHER) != 0, n = spec->groups->ranks;
    double rows = (reduces && gathers ? 2 : 1) * chunks * (n - 1);

    if (reduces && gathers &&
        (spec->algo == SCHEDULE_DOUBLING || spec->algo == SCHEDULE_TWO_LEVEL_DOUBLING))
        rows +=
            2 * chunks * log2(n) * (schedule_algo_flat(spec->algo) ? n : spec->groups->count);
    return rows;
}

int pick_schedule_on(const struct schedule_spec *how, const struct topo *t, const char *what,
                     int most, struct schedule *out, struct err *err)
{
    struct layout l;
    int rc = 0;

    if (pick_check_root(how->root, t->groups.ranks, err))
        return -1;
    layout_init(&l, &t->groups);
    struct schedule_spec spec =
        layout_spec(&l, t->levels, t->block, how->phases, how->algo, how->subchunks);
    spec.root = how->root;
    if (rows_about(&spec) > most)
        rc = err_set(err, ERR_INPUT,
                     "a %s of %d ranks in %d sub-chunk%s, about %.0f rows, expected %d at most",
                     what, t->groups.ranks, how->subchunks, how->subchunks == 1 ? "" : "s",
                     rows_about(&spec), most);
    if (rc == 0)
        rc = schedule_gen(&spec, -1, out, err);
    layout_release(&l);
    return rc;
}

int pick_chunk_elems(const struct schedule *s, int64_t elems, int64_t *out)
{
    struct layout l;
    int even = layout_even(s->phases, s->algo), pieces = s->chunks / s->subchunks;

    layout_init(&l, &s->groups);
    int ours = l.segments == s->segments &&
               memcmp(l.holder, s->holder,
                      (size_t)s->segments * (size_t)s->groups.count * sizeof(int)) == 0;
    for (int c = 0; c < s->chunks; c++) {
        struct range r = range_part((struct range){0, elems}, c / s->subchunks, pieces);
        r = ours ? layout_chunk(&l, elems, even, s->subchunks, c)
                 : range_part(r, c % s->subchunks, s->subchunks);
        out[c] = r.hi - r.lo;
    }
    layout_release(&l);
    return ours;
}

void pick_traffic(const struct schedule *s, struct pick_traffic *out)
{
    int64_t *elems = mem_new((size_t)s->chunks, sizeof *elems);
    struct schedule_traffic t;
    double whole = (double)LONG_VECTOR;

    out->by_layout = pick_chunk_elems(s, LONG_VECTOR, elems);
    schedule_traffic(s, elems, &t);
    out->slow_out = (double)t.slow_out_max / whole;
    out->slow_in = (double)t.slow_in_max / whole;
    out->fast_rank = (double)t.fast_rank_max / whole;
    mem_free(elems);
}

int pick_parse(const char *op, const char *algo, unsigned *phases, enum schedule_algo *out,
               struct err *err)
{
    if (schedule_phases_parse(op, phases, err) || schedule_algo_parse(algo, out, err))
        return -1;
    if (*out == SCHEDULE_AUTO)
        return err_set(err, ERR_INPUT, "algorithm 'auto', expected one that ls lists");
    return 0;
}

int pick_check_root(int root, int ranks, struct err *err)
{
    if (root < ranks)
        return 0;
    return err_set(err, ERR_INPUT, "--root: %d, expected a rank from 0 to %d", root, ranks - 1);
}
