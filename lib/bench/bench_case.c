/* SPDX-License-Identifier: BSD-3-Clause */
/* Measures one operation at one size by several algorithms, and fills the row of each. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/stats.h"
#include "bench/bench_parts.h"

/* Computes quartiles of the ratio of our times to mpi's, paired by iteration, so that both had
   the same load. */
static void make_ratio(const struct bench *b, const double *ours, const double *mpi,
                       struct bench_row *row)
{
    int n = b->o->iters;
    double *ratio = mem_new((size_t)n, sizeof *ratio);

    for (int i = 0; i < n; i++)
        ratio[i] = ours[i] / mpi[i];
    row->ratio_mid = stats_median(ratio, n);
    row->ratio_p25 = stats_percentile(ratio, n, 25);
    row->ratio_p75 = stats_percentile(ratio, n, 75);
    mem_free(ratio);
}

/* NAN if the simulation fails: the row remains valid. */
static double predicted_s(const struct bench *b, const struct bench_move *m, int64_t bytes)
{
    int64_t chunk = m->ours.spec.chunk_bytes;
    struct pick_choice c = {.algo = m->ours.spec.algo,
                            .chunk_bytes = chunk ? chunk : PICK_CHUNK_USUAL};
    struct err ignored;

    return bench_predict(&b->topo, m->spec.op, bytes, &c, &ignored) ? NAN : c.time_s;
}

const struct bench_row bench_unknown_row = {.chosen = SCHEDULE_AUTO,
                                            .redop = DTYPE_OPS,
                                            .root = -1,
                                            .launches = 1,
                                            .wrong = -1,
                                            .time_s = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN},
                                            .ratio_p25 = NAN,
                                            .ratio_mid = NAN,
                                            .ratio_p75 = NAN,
                                            .slow_bytes = -1,
                                            .limit_s = NAN,
                                            .predicted_s = NAN,
                                            .load = NAN};
_Static_assert(BENCH_MARKS == 8, "each mark is unknown");

struct bench_row bench_row_of(const struct bench_options *o, const struct topo *t, unsigned op,
                              int algo, int64_t elems)
{
    struct bench_row row = bench_unknown_row;

    row.op = op;
    row.algo = algo;
    row.ranks = t->groups.ranks;
    row.root = op == SCHEDULE_BROADCAST ? o->root : -1;
    row.type = o->type;
    row.elems = elems;
    row.bytes = elems * dtype_bytes(o->type);
    groups_print(&t->groups, row.shape, sizeof row.shape);
    if (t->groups.count > 1)
        row.limit_s = sim_cut_bound_s(t, op, row.root < 0 ? 0 : row.root, (double)row.bytes);
    return row;
}

/* Makes a row on rank 0, without times. */
static void case_make_row(const struct bench *b, const struct bench_contest *c,
                          struct bench_row *row)
{
    const struct bench_move *m = &c->move[0];
    const struct bench_move_spec *spec = &m->spec;
    int ours = spec->algo >= 0;
    char host[BENCH_FACT_SPACE];
    time_t now = time(NULL);
    struct err ignored;
    struct tm utc;

    *row = bench_row_of(b->o, b->o->topo ? &b->topo : &b->ports, spec->op, spec->algo,
                        spec->elems);
    row->redop = spec->redop;
    row->wrong = c->wrong;
    if (ours)
        row->slow_bytes = m->ours.slow_bytes;
    const char *setting = spec->algo == BENCH_NCCL ? b->o->nccl_setting : b->o->setting;
    if (!ours && setting)
        snprintf(row->setting, sizeof row->setting, "%s", setting);
    if (spec->algo == SCHEDULE_AUTO) {
        row->chosen = m->ours.spec.algo;
        row->chosen_chunk_bytes = bench_chunk_bytes(m->ours.spec.chunk_bytes, row->bytes);
    }
    if (b->topo.levels && ours)
        row->predicted_s = predicted_s(b, m, row->bytes);
    getloadavg(&row->load, 1);
    /* Record place and time, which later readers could not know otherwise. */
    snprintf(host, sizeof host, "%s", b->world->host[0]);
    if (bench_check_fact(host, &ignored) == 0)
        memcpy(row->host, host, sizeof host);
    if (gmtime_r(&now, &utc))
        strftime(row->when, sizeof row->when, "%Y-%m-%dT%H:%M:%SZ", &utc);
    if (row->algo == BENCH_MPI)
        exec_native_library(row->library, sizeof row->library);
}

static void case_report(struct bench *b, struct bench_contest *c)
{
    int n = b->o->algos, mpi = -1;
    struct bench_row *row = mem_new((size_t)n, sizeof *row);

    for (int a = 0; a < n; a++) {
        case_make_row(b, &c[a], &row[a]);
        if (b->o->algo[a] == BENCH_MPI)
            mpi = a;
    }
    for (int a = 0; a < n; a++) /* before bench_marks sorts the times */
        if (mpi >= 0 && a != mpi)
            make_ratio(b, c[a].seconds, c[mpi].seconds, &row[a]);
    for (int a = 0; a < n; a++) {
        bench_marks(c[a].seconds, b->o->iters, row[a].time_s);
        bench_sink_row(&b->sink, &row[a]);
    }
    mem_free(row);
}

int bench_case(struct bench *b, unsigned op, int64_t elems, struct err *err)
{
    struct bench_contest c[BENCH_ALGOS_MAX] = {0};
    int rc = 0;

    for (int a = 0; a < b->o->algos && rc == 0; a++)
        rc = bench_contest_open(b, op, b->o->algo[a], elems, b->o->chunk_bytes, &c[a], err);
    if (rc == 0)
        rc = bench_rounds(b, c, b->o->algos, err);
    if (rc == 0 && b->world->rank == 0)
        case_report(b, c);
    for (int a = 0; a < b->o->algos; a++)
        bench_contest_close(&c[a], rc == 0 || err->code != ERR_PEER);
    return rc;
}
