/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receives rows: prints them at once, and keeps them for the plot and for the floor.
 * Independent of their source: a measurement, a simulation, files.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "bench/bench_parts.h"

double bench_algbw_Bps(const struct bench_row *r)
{
    return r->bytes ? (double)r->bytes / r->time_s[BENCH_MEDIAN] : 0;
}

double bench_busbw_Bps(const struct bench_row *r)
{
    double algbw = bench_algbw_Bps(r);

    if (r->op == SCHEDULE_BROADCAST)
        return algbw;
    return algbw * (r->op == SCHEDULE_ALL_REDUCE ? 2 : 1) * (r->ranks - 1) / r->ranks;
}

/* Without bytes to transfer, limit and simulated time are 0: there is no fraction. */
double bench_limit_fraction(const struct bench_row *r)
{
    return r->bytes ? r->limit_s / r->time_s[BENCH_MEDIAN] : NAN;
}

void bench_result_release(struct bench_result *r)
{
    mem_free(r->row);
    *r = (struct bench_result){0};
}

int bench_sink_open(struct bench_sink *s, const struct bench_options *o, FILE *file,
                    struct bench_result *result, struct err *err)
{
    *s = (struct bench_sink){.o = o, .file = file, .result = result};
    return o->plot && o->format != BENCH_SVG ? io_create(&s->plot, o->plot, o->force, err) : 0;
}

void bench_sink_row(struct bench_sink *s, const struct bench_row *r)
{
    struct bench_result *to = s->result;

    bench_print_row(s->o, r, to->rows == 0, s->file);
    to->row = mem_grow(to->row, &s->space, (size_t)to->rows + 1, sizeof *to->row);
    to->row[to->rows++] = *r;
}

static int sink_judge(const struct bench_sink *s, struct err *err)
{
    struct bench_result *res = s->result;
    const struct bench_row *worst = NULL;
    int below = 0, judged = 0;
    char label[96];

    for (int i = 0; i < res->rows; i++) {
        const struct bench_row *r = &res->row[i];
        if (r->algo < 0 || !isfinite(bench_limit_fraction(r)))
            continue; /* the floor applies to our algorithms, where there is a bound */
        judged++;
        below += bench_limit_fraction(r) < s->o->floor;
        if (!worst || bench_limit_fraction(r) < bench_limit_fraction(worst))
            worst = r;
    }
    if (!judged)
        return err_set(
            err, ERR_MISMATCH,
            "--floor of %g, but no row has a bound: expected two or more groups and sizes"
            " above 0",
            s->o->floor);
    if (below)
        snprintf(res->below, sizeof res->below,
                 "%d of %d rows are below --floor %g; the worst is %s by %s, %" PRId64
                 " bytes on %s, at %.3f of the bound",
                 below, judged, s->o->floor, schedule_phases_name(worst->op),
                 bench_label(worst, label, sizeof label), worst->bytes, worst->shape,
                 bench_limit_fraction(worst));
    return 0;
}

int bench_sink_close(struct bench_sink *s, int rc, struct err *err)
{
    if (rc == 0 && s->o->floor >= 0)
        rc = sink_judge(s, err);
    FILE *to = s->plot.path ? s->plot.file : s->o->format == BENCH_SVG ? s->file : NULL;
    if (rc == 0 && to)
        bench_plot(s->result->row, s->result->rows, "Collectives over groups of ranks", to);
    if (rc == 0 && s->plot.path)
        return io_commit(&s->plot, err);
    if (s->plot.path)
        io_abandon(&s->plot);
    return rc;
}
