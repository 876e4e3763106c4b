/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures how far the work inside the groups overlaps with the work across them.  The parts of
 * an operation are themselves conversions (paro-method(7), TRAFFIC) that have exactly its rows
 * inside or across, and their data can be checked:
 *
 *     all-gather        across G -> I                    inside I -> N
 *     reduce-scatter    inside N -> I, of its group      across I -> G
 *     all-reduce        inside N -> I and then I -> N    across I -> I
 *
 * inside + across is the time of a serial algorithm, max(inside, across) that of full overlap.
 */
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/stats.h"
#include "bench/bench_parts.h"

enum { INSIDE, ACROSS, WHOLE, CONTESTS_MAX = WHOLE + BENCH_ALGOS_MAX };

struct overlap_row {
    const char *op, *algo, *groups, *type, *redop;
    int ranks;
    int64_t elems, bytes, wrong;
    double inside_s, across_s, both_s, load;
    double efficiency; /* NAN: only one part, so nothing can overlap */
};

static int overlap_add_part(struct bench *b, struct bench_contest *c,
                            struct bench_move_spec *spec, int inside, struct err *err)
{
    const struct groups *g = &b->groups;
    int rank = b->world->rank, k = g->group_of[rank];

    spec->giver = inside ? g->local_of[rank] : k;
    spec->givers = inside ? g->members[k] : g->count;
    /* A part of an average is a part of its sum. */
    if (!(spec->phases & SCHEDULE_REDUCE_SCATTER))
        spec->redop = DTYPE_OPS;
    else
        spec->redop = b->o->redop == DTYPE_AVG ? DTYPE_SUM : b->o->redop;
    return bench_move_open(b, spec, &c->move[c->moves++], err);
}

static int overlap_open_parts(struct bench *b, unsigned op, int64_t elems,
                              struct bench_contest *c, struct err *err)
{
    struct bench_move_spec in = {
        .algo = SCHEDULE_HO_RING, .op = op, .elems = elems, .chunk_bytes = b->o->chunk_bytes};
    int reduces = op & SCHEDULE_REDUCE_SCATTER, gathers = op & SCHEDULE_ALL_GATHER;
    struct bench_move_spec out = in, across = in;

    in.from = LETTER_N, in.to = LETTER_I, in.phases = SCHEDULE_REDUCE_INSIDE;
    out.from = LETTER_I, out.to = LETTER_N, out.phases = SCHEDULE_GATHER_INSIDE;
    across.from = reduces ? LETTER_I : LETTER_G;
    across.to = gathers ? LETTER_I : LETTER_G;
    across.phases = op & (SCHEDULE_REDUCE_ACROSS | SCHEDULE_GATHER_ACROSS);
    if ((reduces && overlap_add_part(b, &c[INSIDE], &in, 1, err)) ||
        (gathers && overlap_add_part(b, &c[INSIDE], &out, 1, err)))
        return -1;
    return overlap_add_part(b, &c[ACROSS], &across, 0, err);
}

void bench_overlap_head(FILE *out)
{
    fprintf(out,
            "# %10s %12s %14s %22s %5s %6s %11s %11s %11s %10s %6s\n"
            "# %10s %12s %14s %22s %5s %6s %11s %11s %11s %10s %6s\n",
            "size", "count", "op", "algo", "type", "redop", "intra", "inter", "both",
            "efficiency", "wrong", "(B)", "(elements)", "", "", "", "", "(us)", "(us)", "(us)",
            "(1)", "");
}

static const char *as_text(const void *value)
{
    return *(const char *const *)value;
}

#define O                struct overlap_row
#define TEXT(member)     RECORD(WORD, O, member, #member, .name = as_text)
#define NUM(member, key) RECORD_NUM(O, member, key, 0, DBL_MAX, .flags = RECORD_NULLABLE)
static const struct record overlap[] = {NUM(inside_s, "intra_s"),
                                        NUM(across_s, "inter_s"),
                                        NUM(both_s, "both_s"),
                                        NUM(efficiency, "efficiency"),
                                        {0}};
static const struct record columns[] = {
    TEXT(op),
    TEXT(algo),
    TEXT(groups),
    RECORD_INT(O, ranks, "ranks", 1, INT32_MAX),
    RECORD_INT(O, bytes, "bytes", 0, INT64_MAX),
    RECORD_INT(O, elems, "count", 0, INT64_MAX),
    TEXT(type),
    TEXT(redop),
    RECORD_PART("overlap", overlap),
    RECORD_INT(O, wrong, "wrong", 0, INT64_MAX, .flags = RECORD_NULLABLE),
    NUM(load, "loadavg"),
    {0}};

static void print_row(struct bench_sink *s, const struct overlap_row *r)
{
    char share[16] = "-";

    if (isfinite(r->efficiency))
        snprintf(share, sizeof share, "%.3f", r->efficiency);
    if (s->o->format == BENCH_TEXT)
        fprintf(s->file,
                "%12" PRId64 " %12" PRId64 " %14s %22s %5s %6s %11.1f %11.1f %11.1f %10s"
                " %6" PRId64 "\n",
                r->bytes, r->elems, r->op, r->algo, r->type, r->redop, r->inside_s * 1e6,
                r->across_s * 1e6, r->both_s * 1e6, share, r->wrong);
    else
        bench_put_line(s->o->format, columns, r, !s->headed++, s->file);
    fflush(s->file);
}

static void overlap_report(struct bench *b, unsigned op, int64_t elems, struct bench_contest *c)
{
    int iters = b->o->iters, reduces = op & SCHEDULE_REDUCE_SCATTER;
    struct overlap_row r = {.op = schedule_phases_name(op),
                            .groups = b->shape,
                            .type = dtype_name(b->o->type),
                            .ranks = b->groups.ranks,
                            .redop = reduces ? dtype_op_name(b->o->redop) : "none",
                            .elems = elems,
                            .bytes = elems * dtype_bytes(b->o->type),
                            .inside_s = stats_median(c[INSIDE].seconds, iters),
                            .across_s = stats_median(c[ACROSS].seconds, iters),
                            .load = NAN};

    getloadavg(&r.load, 1);
    for (int a = 0; a < b->o->algos; a++) {
        struct bench_row name = {.algo = b->o->algo[a], .chosen = SCHEDULE_AUTO};
        char label[96];
        if (name.algo == SCHEDULE_AUTO)
            name.chosen = c[WHOLE + a].move[0].ours.spec.algo;
        r.algo = bench_label(&name, label, sizeof label);
        r.both_s = stats_median(c[WHOLE + a].seconds, iters);
        r.efficiency = (r.inside_s > r.across_s ? r.inside_s : r.across_s) / r.both_s;
        if (!elems || b->groups.count < 2 || groups_largest(&b->groups) < 2)
            r.efficiency = NAN;
        r.wrong = c[INSIDE].wrong + c[ACROSS].wrong + c[WHOLE + a].wrong;
        print_row(&b->sink, &r);
    }
}

int bench_overlap_case(struct bench *b, unsigned op, int64_t elems, struct err *err)
{
    struct bench_contest c[CONTESTS_MAX] = {0};
    int contests = WHOLE + b->o->algos;
    int rc = overlap_open_parts(b, op, elems, c, err);

    for (int a = 0; a < b->o->algos && rc == 0; a++)
        rc = bench_contest_open(b, op, b->o->algo[a], elems, b->o->chunk_bytes, &c[WHOLE + a],
                                err);
    if (rc == 0)
        rc = bench_rounds(b, c, contests, err);
    if (rc == 0 && b->world->rank == 0)
        overlap_report(b, op, elems, c);
    for (int i = 0; i < contests; i++)
        bench_contest_close(&c[i], rc == 0 || err->code != ERR_PEER);
    return rc;
}
