/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how rows look.  A text row ends as those of nccl-tests do, so that what reads theirs
 * from the end of the line reads ours; a row is written in one piece (flushed), so that an
 * interrupt leaves whole rows.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/jout.h"
#include "base/units.h"
#include "bench/bench_parts.h"

double bench_algbw_Bps(const struct bench_row *r)
{
    return (double)r->bytes / r->median_s;
}

double bench_busbw_Bps(const struct bench_row *r)
{
    double passes = r->op == SCHEDULE_ALL_REDUCE ? 2 : 1;

    return bench_algbw_Bps(r) * passes * (r->ranks - 1) / r->ranks;
}

static const char *redop_name(unsigned op)
{
    return op == SCHEDULE_ALL_GATHER ? "none" : "sum";
}

static void print_ports(const struct bench *b)
{
    fprintf(b->file, "# port rates (%s):", b->o->topo ? b->o->topo : "measured");
    for (int k = 0; k < b->groups.count; k++) {
        struct units u;
        if (k == 8 && b->groups.count > 9) {
            fprintf(b->file, ", ... (%d groups)", b->groups.count);
            break;
        }
        fprintf(b->file, "%s %s", k ? "," : "", units_rate(&u, b->port_Bps[k]));
    }
    putc('\n', b->file);
}

static const struct {
    int width;
    const char *head[2];
} columns[] = {{12, {"size", "(B)"}},
               {12, {"count", "(elements)"}},
               {14, {"op", ""}},
               {10, {"algo", ""}},
               {12, {"slow-bytes", "(B)"}},
               {6, {"limit", "(1)"}},
               {12, {"predicted", "(us)"}},
               {5, {"type", ""}},
               {6, {"redop", ""}},
               {4, {"root", ""}},
               {11, {"time", "(us)"}},
               {8, {"algbw", "(GB/s)"}},
               {8, {"busbw", "(GB/s)"}},
               {6, {"wrong", ""}}};

void bench_print_head(const struct bench *b)
{
    double load = NAN;

    getloadavg(&load, 1);
    fprintf(b->file, "# %s: %d ranks in %d groups; %d iterations after %d; load average %.2f\n",
            b->shape, b->groups.ranks, b->groups.count, b->o->iters, b->o->warmup, load);
    if (b->groups.count > 1)
        print_ports(b);
    for (int line = 0; line < 2; line++) {
        for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
            fprintf(b->file, "%s%*s", i ? " " : "# ", i ? columns[i].width : 10,
                    columns[i].head[line]);
        putc('\n', b->file);
    }
    fflush(b->file);
}

static void print_text(const struct bench_row *r, FILE *out)
{
    fprintf(out, "%12" PRId64 " %12" PRId64 " %14s %10s", r->bytes, r->elems,
            schedule_phases_name(r->op), bench_algo_name(r->algo));
    if (r->slow_bytes >= 0)
        fprintf(out, " %12" PRId64, r->slow_bytes);
    else
        fprintf(out, " %12s", "-");
    if (isfinite(r->limit_s))
        fprintf(out, " %6.3f", r->limit_s / r->median_s);
    else
        fprintf(out, " %6s", "-");
    if (isfinite(r->predicted_s))
        fprintf(out, " %12.1f", r->predicted_s * 1e6);
    else
        fprintf(out, " %12s", "-");
    fprintf(out, " %5s %6s %4d %11.1f %8.4f %8.4f %6" PRId64 "\n", dtype_name(r->type),
            redop_name(r->op), -1, r->median_s * 1e6, bench_algbw_Bps(r) / 1e9,
            bench_busbw_Bps(r) / 1e9, r->wrong);
}

static void print_json(const struct bench_row *r, FILE *out)
{
    struct jout j = {.file = out};

    jout_open(&j, NULL, '{');
    jout_text(&j, "op", schedule_phases_name(r->op));
    jout_text(&j, "algo", bench_algo_name(r->algo));
    jout_text(&j, "groups", r->shape);
    jout_int(&j, "ranks", r->ranks);
    jout_int(&j, "bytes", r->bytes);
    jout_int(&j, "count", r->elems);
    jout_text(&j, "type", dtype_name(r->type));
    jout_text(&j, "redop", redop_name(r->op));
    jout_open(&j, "time_s", '{');
    jout_num(&j, "min", r->min_s);
    jout_num(&j, "median", r->median_s);
    jout_num(&j, "max", r->max_s);
    jout_close(&j, '}');
    jout_num(&j, "algbw_Bps", bench_algbw_Bps(r));
    jout_num(&j, "busbw_Bps", bench_busbw_Bps(r));
    if (r->slow_bytes >= 0)
        jout_int(&j, "slow_bytes", r->slow_bytes);
    else
        jout_null(&j, "slow_bytes");
    jout_num(&j, "limit_s", r->limit_s);
    jout_num(&j, "limit_fraction", r->limit_s / r->median_s);
    jout_num(&j, "predicted_s", r->predicted_s);
    jout_int(&j, "wrong", r->wrong);
    jout_num(&j, "loadavg", r->load);
    jout_close(&j, '}');
}

void bench_print_row(const struct bench *b, const struct bench_row *r)
{
    if (b->o->json)
        print_json(r, b->file);
    else
        print_text(r, b->file);
    fflush(b->file);
}
