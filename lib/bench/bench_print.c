/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how rows look: as text, as CSV, as JSON Lines.  A text row ends as those of nccl-tests
 * do, so that what reads theirs from the end of the line reads ours; a row is written in one
 * piece (flushed), so that an interrupt leaves whole rows.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/units.h"
#include "bench/bench_parts.h"

static const char *const mark_names[BENCH_MARKS] = {"min", "p10", "p25", "median",
                                                    "p75", "p90", "p99", "max"};

const char *bench_mark_name(int mark)
{
    return mark_names[mark];
}

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

static const char *redop_name(const struct bench_row *r)
{
    return r->redop == DTYPE_OPS ? "none" : dtype_op_name(r->redop);
}

const char *bench_label(const struct bench_row *r, char *text, int room)
{
    const char *more = r->setting;

    if (r->chosen != SCHEDULE_AUTO)
        more = schedule_algo_name(r->chosen);
    snprintf(text, (size_t)room, "%s%s%s", bench_algo_name(r->algo), more[0] ? ":" : "", more);
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

/* A number with a space before it, or '-' where it is not known. */
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

static void print_text(const struct bench_options *o, const struct bench_row *r, FILE *out)
{
    char label[96];

    fprintf(out, "%12" PRId64 " %12" PRId64 " %14s %10s", r->bytes, r->elems,
            schedule_phases_name(r->op), bench_label(r, label, sizeof label));
    text_int(out, 12, r->slow_bytes);
    text_num(out, 6, 3, bench_limit_fraction(r));
    text_num(out, 12, 1, r->predicted_s * 1e6);
    for (int i = 0; i < PERCENTILES && o->percentiles; i++)
        text_num(out, 11, 1, r->time_s[percentiles[i]] * 1e6);
    fprintf(out, " %5s %6s %4d", dtype_name(r->type), redop_name(r), r->root);
    text_num(out, 11, 1, r->time_s[BENCH_MEDIAN] * 1e6);
    text_num(out, 8, 4, bench_algbw_Bps(r) / 1e9);
    text_num(out, 8, 4, bench_busbw_Bps(r) / 1e9);
    text_int(out, 6, r->wrong);
    putc('\n', out);
}

/* ---- rows for programs ---- */

void bench_cells_open(struct bench_cells *c, enum bench_format format, int head, FILE *out)
{
    *c = (struct bench_cells){.j = {.file = out}, .csv = format == BENCH_CSV, .head = head};
    if (!c->csv)
        jout_open(&c->j, NULL, '{');
}

void bench_cells_close(struct bench_cells *c)
{
    if (c->csv)
        putc('\n', c->j.file);
    else
        jout_close(&c->j, '}');
}

void bench_cells_group(struct bench_cells *c, const char *key, int known)
{
    c->absent = !c->csv && !known;
    if (c->absent)
        jout_null(&c->j, key);
    else if (!c->csv)
        jout_open(&c->j, key, '{');
}

void bench_cells_group_end(struct bench_cells *c)
{
    if (!c->csv && !c->absent)
        jout_close(&c->j, '}');
    c->absent = 0;
}

/* The key of JSON, where the value is to be written so; else NULL, after the comma of CSV and,
 * in a header, the name.  *csv: whether the value is to follow there. */
static const char *next_cell(struct bench_cells *c, const char *key, char name[32], int *csv)
{
    const char *bar = strchr(key, '|');

    *csv = c->csv && !c->head;
    snprintf(name, 32, "%.*s", (int)strcspn(key, "|"), key);
    if (!c->csv)
        return c->absent ? NULL : name;
    if (c->cells++)
        putc(',', c->j.file);
    if (c->head)
        fputs(bar ? bar + 1 : name, c->j.file);
    return NULL;
}

void bench_cell_text(struct bench_cells *c, const char *key, const char *text)
{
    char name[32];
    int csv;

    if (next_cell(c, key, name, &csv))
        jout_text(&c->j, name, text && *text ? text : NULL);
    else if (csv)
        fputs(text ? text : "", c->j.file);
}

void bench_cell_int(struct bench_cells *c, const char *key, int64_t v)
{
    char name[32];
    int csv;

    if (next_cell(c, key, name, &csv))
        jout_known(&c->j, name, v);
    else if (csv && v >= 0)
        fprintf(c->j.file, "%" PRId64, v);
}

void bench_cell_num(struct bench_cells *c, const char *key, double v)
{
    char name[32];
    int csv;

    if (next_cell(c, key, name, &csv))
        jout_num(&c->j, name, v);
    else if (csv && isfinite(v))
        fprintf(c->j.file, "%.9g", v);
}

/* RFC 4180: of all texts only a shape, as [3,2], has a comma, and none a quote. */
static void put_cells(struct bench_cells *c, const struct bench_row *r)
{
    int was_auto = r->chosen != SCHEDULE_AUTO;
    char text[272];

    bench_cell_text(c, "op", schedule_phases_name(r->op));
    bench_cell_text(c, "algo", bench_algo_name(r->algo));
    bench_cells_group(c, "chosen", was_auto);
    bench_cell_text(c, "algo|chosen", was_auto ? schedule_algo_name(r->chosen) : NULL);
    bench_cell_int(c, "chunk_bytes", was_auto ? r->chosen_chunk_bytes : -1);
    bench_cells_group_end(c);
    bench_cell_text(c, "setting", r->setting);
    snprintf(text, sizeof text, c->csv && strchr(r->shape, ',') ? "\"%s\"" : "%s", r->shape);
    bench_cell_text(c, "groups", text);
    bench_cell_int(c, "ranks", r->ranks);
    bench_cell_int(c, "bytes", r->bytes);
    bench_cell_int(c, "count", r->elems);
    bench_cell_text(c, "type", dtype_name(r->type));
    bench_cell_text(c, "redop", redop_name(r));
    bench_cell_int(c, "root", r->root);
    if (c->csv)
        bench_cell_int(c, "simulated", r->simulated);
    else
        jout_bool(&c->j, "simulated", r->simulated);
    bench_cell_int(c, "launches", r->launches);
    bench_cells_group(c, "time_s", 1);
    for (int m = 0; m < BENCH_MARKS; m++) {
        snprintf(text, sizeof text, "%s|%s_s", mark_names[m], mark_names[m]);
        bench_cell_num(c, text, r->time_s[m]);
    }
    bench_cells_group_end(c);
    bench_cells_group(c, "ratio_mpi", isfinite(r->ratio_mid));
    bench_cell_num(c, "p25|ratio_mpi_p25", r->ratio_p25);
    bench_cell_num(c, "median|ratio_mpi_median", r->ratio_mid);
    bench_cell_num(c, "p75|ratio_mpi_p75", r->ratio_p75);
    bench_cells_group_end(c);
    bench_cell_num(c, "algbw_Bps", bench_algbw_Bps(r));
    bench_cell_num(c, "busbw_Bps", bench_busbw_Bps(r));
    bench_cell_int(c, "slow_bytes", r->slow_bytes);
    bench_cell_num(c, "limit_s", r->limit_s);
    bench_cell_num(c, "limit_fraction", bench_limit_fraction(r));
    bench_cell_num(c, "predicted_s", r->predicted_s);
    bench_cell_int(c, "wrong", r->wrong);
    bench_cell_num(c, "loadavg", r->load);
    bench_cell_text(c, "library", r->library);
    bench_cell_text(c, "host", r->host);
    bench_cell_text(c, "when", r->when);
}

void bench_print_row(const struct bench_options *o, const struct bench_row *r, int first,
                     FILE *out)
{
    struct bench_cells c;

    if (o->format == BENCH_TEXT)
        print_text(o, r, out);
    if (o->format == BENCH_JSON || o->format == BENCH_CSV)
        for (int head = first && o->format == BENCH_CSV; head >= 0; head--) {
            bench_cells_open(&c, o->format, head, out);
            put_cells(&c, r);
            bench_cells_close(&c);
        }
    fflush(out);
}
