/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prints rows as text, as CSV, as JSON Lines.  A text row ends like those of nccl-tests, so
 * that programs that parse theirs from the end of the line can parse ours.  A row is written at
 * once (flushed), so that an interrupt leaves complete rows.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/units.h"
#include "bench/bench_parts.h"

static const char *const mark_names[BENCH_MARKS] = {"min", "p10", "p25", "median",
                                                    "p75", "p90", "p99", "max"};

static const enum bench_mark percentiles[] = {BENCH_P10, BENCH_P25, BENCH_P75, BENCH_P90,
                                              BENCH_P99};

enum { PERCENTILES = sizeof percentiles / sizeof *percentiles };

static const struct column {
    int width;
    const char *head[2];
} before[] = {{12, {"size", "(B)"}},      {12, {"count", "(elements)"}}, {14, {"op", ""}},
              {10, {"algo", ""}},         {12, {"slow-bytes", "(B)"}},   {6, {"limit", "(1)"}},
              {12, {"predicted", "(us)"}}},
  after[] = {{5, {"type", ""}},      {6, {"redop", ""}},       {4, {"root", ""}},
             {11, {"time", "(us)"}}, {8, {"algbw", "(GB/s)"}}, {8, {"busbw", "(GB/s)"}},
             {6, {"wrong", ""}}};

enum { BEFORE = sizeof before / sizeof *before, AFTER = sizeof after / sizeof *after };

const char *bench_redop_name(enum dtype_op op)
{
    return op == DTYPE_OPS ? "none" : dtype_op_name(op);
}

const char *bench_label(const struct bench_row *r, char *text, int space)
{
    const char *more = r->setting;

    if (r->chosen != SCHEDULE_AUTO)
        more = schedule_algo_name(r->chosen);
    snprintf(text, (size_t)space, "%s%s%s", bench_algo_name(r->algo), more[0] ? ":" : "", more);
    return text;
}

void bench_print_columns(const struct bench_options *o, FILE *out)
{
    for (int line = 0; line < 2; line++) {
        fprintf(out, "# %*s", before[0].width - 2, before[0].head[line]);
        for (int i = 1; i < BEFORE; i++)
            fprintf(out, " %*s", before[i].width, before[i].head[line]);
        for (int i = 0; i < PERCENTILES && o->percentiles; i++)
            fprintf(out, " %11s", line ? "(us)" : mark_names[percentiles[i]]);
        for (int i = 0; i < AFTER; i++)
            fprintf(out, " %*s", after[i].width, after[i].head[line]);
        putc('\n', out);
    }
}

void bench_print_ports(const char *from, const struct topo *t, FILE *out)
{
    int count = t->groups.count;

    fprintf(out, "# port rates (%s):", from ? from : "measured");
    for (int k = 0; k < count; k++) {
        struct units u;
        if (k == 8 && count > 9) {
            fprintf(out, ", ... (%d groups)", count);
            break;
        }
        fprintf(out, "%s %s", k ? "," : "", units_rate(&u, topo_port_Bps(t, k)));
    }
    putc('\n', out);
}

/* Prints a number with a space before it, or '-' if it is unknown. */
static void text_num(FILE *out, int width, int digits, double v)
{
    if (isfinite(v))
        fprintf(out, " %*.*f", width, digits, v);
    else
        fprintf(out, " %*s", width, "-");
}

static void text_int(FILE *out, int width, int64_t v)
{
    if (v >= 0)
        fprintf(out, " %*" PRId64, width, v);
    else
        fprintf(out, " %*s", width, "-");
}

static void bench_print_text(const struct bench_options *o, const struct bench_row *r,
                             FILE *out)
{
    char label[96];

    fprintf(out, "%12" PRId64 " %12" PRId64 " %14s %10s", r->bytes, r->elems,
            schedule_phases_name(r->op), bench_label(r, label, sizeof label));
    text_int(out, 12, r->slow_bytes);
    text_num(out, 6, 3, bench_limit_fraction(r));
    text_num(out, 12, 1, r->predicted_s * 1e6);
    for (int i = 0; i < PERCENTILES && o->percentiles; i++)
        text_num(out, 11, 1, r->time_s[percentiles[i]] * 1e6);
    fprintf(out, " %5s %6s %4d", dtype_name(r->type), bench_redop_name(r->redop), r->root);
    text_num(out, 11, 1, r->time_s[BENCH_MEDIAN] * 1e6);
    text_num(out, 8, 4, bench_algbw_Bps(r) / 1e9);
    text_num(out, 8, 4, bench_busbw_Bps(r) / 1e9);
    text_int(out, 6, r->wrong);
    putc('\n', out);
}

void bench_print_row(const struct bench_options *o, const struct bench_row *r, int first,
                     FILE *out)
{
    const struct bench_line line = {*r, bench_algbw_Bps(r), bench_busbw_Bps(r),
                                    bench_limit_fraction(r)};

    if (o->format == BENCH_TEXT)
        bench_print_text(o, r, out);
    else
        bench_put_line(o->format, bench_line_record, &line, first, out);
    fflush(out);
}

void bench_put_line(enum bench_format format, const struct record *f, const void *line,
                    int first, FILE *out)
{
    if (format == BENCH_JSON)
        record_put_line(out, f, line);
    if (format == BENCH_CSV && first)
        record_put_csv(out, f, NULL);
    if (format == BENCH_CSV)
        record_put_csv(out, f, line);
}
