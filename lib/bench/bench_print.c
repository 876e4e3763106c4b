/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how rows look: as text, as CSV, as JSON Lines.  A text row ends as those of nccl-tests
 * do, so that what reads theirs from the end of the line reads ours; a row is written in one
 * piece (flushed), so that an interrupt leaves whole rows.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/jout.h"
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

static void json_int(struct jout *j, const char *key, int64_t v)
{
    if (v >= 0)
        jout_int(j, key, v);
    else
        jout_null(j, key);
}

static void json_chosen(struct jout *j, const struct bench_row *r)
{
    if (r->chosen == SCHEDULE_AUTO) {
        jout_null(j, "chosen");
        return;
    }
    jout_open(j, "chosen", '{');
    jout_text(j, "algo", schedule_algo_name(r->chosen));
    jout_int(j, "chunk_bytes", r->chosen_chunk_bytes);
    jout_close(j, '}');
}

static void json_ratio(struct jout *j, const struct bench_row *r)
{
    if (!isfinite(r->ratio_mid)) {
        jout_null(j, "ratio_mpi");
        return;
    }
    jout_open(j, "ratio_mpi", '{');
    jout_num(j, "p25", r->ratio_p25);
    jout_num(j, "median", r->ratio_mid);
    jout_num(j, "p75", r->ratio_p75);
    jout_close(j, '}');
}

static void json_fact(struct jout *j, const char *key, const char *text)
{
    jout_text(j, key, text[0] ? text : NULL);
}

static void print_json(const struct bench_row *r, FILE *out)
{
    struct jout j = {.file = out};

    jout_open(&j, NULL, '{');
    jout_text(&j, "op", schedule_phases_name(r->op));
    jout_text(&j, "algo", bench_algo_name(r->algo));
    json_chosen(&j, r);
    jout_text(&j, "setting", r->setting[0] ? r->setting : NULL);
    jout_text(&j, "groups", r->shape);
    jout_int(&j, "ranks", r->ranks);
    jout_int(&j, "bytes", r->bytes);
    jout_int(&j, "count", r->elems);
    jout_text(&j, "type", dtype_name(r->type));
    jout_text(&j, "redop", redop_name(r));
    json_int(&j, "root", r->root);
    jout_bool(&j, "simulated", r->simulated);
    jout_int(&j, "launches", r->launches);
    jout_open(&j, "time_s", '{');
    for (int m = 0; m < BENCH_MARKS; m++)
        jout_num(&j, mark_names[m], r->time_s[m]);
    jout_close(&j, '}');
    json_ratio(&j, r);
    jout_num(&j, "algbw_Bps", bench_algbw_Bps(r));
    jout_num(&j, "busbw_Bps", bench_busbw_Bps(r));
    json_int(&j, "slow_bytes", r->slow_bytes);
    jout_num(&j, "limit_s", r->limit_s);
    jout_num(&j, "limit_fraction", bench_limit_fraction(r));
    jout_num(&j, "predicted_s", r->predicted_s);
    json_int(&j, "wrong", r->wrong);
    jout_num(&j, "loadavg", r->load);
    json_fact(&j, "library", r->library);
    json_fact(&j, "host", r->host);
    json_fact(&j, "when", r->when);
    jout_close(&j, '}');
}

void bench_print_csv_head(FILE *out)
{
    fputs("op,algo,chosen,chunk_bytes,setting,groups,ranks,bytes,count,type,redop,root,"
          "simulated,launches",
          out);
    for (int m = 0; m < BENCH_MARKS; m++)
        fprintf(out, ",%s_s", mark_names[m]);
    fputs(",ratio_mpi_p25,ratio_mpi_median,ratio_mpi_p75,algbw_Bps,busbw_Bps,slow_bytes,"
          "limit_s,limit_fraction,predicted_s,wrong,loadavg,library,host,when\n",
          out);
}

/* What is not known is empty. */
static void csv_num(FILE *out, double v)
{
    if (isfinite(v))
        fprintf(out, ",%.9g", v);
    else
        putc(',', out);
}

static void csv_int(FILE *out, int64_t v)
{
    if (v >= 0)
        fprintf(out, ",%" PRId64, v);
    else
        putc(',', out);
}

/* RFC 4180: of all texts only a shape, as [3,2], has a comma, and none a quote. */
static void print_csv(const struct bench_row *r, FILE *out)
{
    const char *quote = strchr(r->shape, ',') ? "\"" : "";
    int was_auto = r->chosen != SCHEDULE_AUTO;

    fprintf(out, "%s,%s,%s", schedule_phases_name(r->op), bench_algo_name(r->algo),
            was_auto ? schedule_algo_name(r->chosen) : "");
    csv_int(out, was_auto ? r->chosen_chunk_bytes : -1);
    fprintf(out, ",%s,%s%s%s,%d,%" PRId64 ",%" PRId64 ",%s,%s", r->setting, quote, r->shape,
            quote, r->ranks, r->bytes, r->elems, dtype_name(r->type), redop_name(r));
    csv_int(out, r->root);
    fprintf(out, ",%d,%d", r->simulated, r->launches);
    for (int m = 0; m < BENCH_MARKS; m++)
        csv_num(out, r->time_s[m]);
    csv_num(out, r->ratio_p25);
    csv_num(out, r->ratio_mid);
    csv_num(out, r->ratio_p75);
    csv_num(out, bench_algbw_Bps(r));
    csv_num(out, bench_busbw_Bps(r));
    csv_int(out, r->slow_bytes);
    csv_num(out, r->limit_s);
    csv_num(out, bench_limit_fraction(r));
    csv_num(out, r->predicted_s);
    csv_int(out, r->wrong);
    csv_num(out, r->load);
    fprintf(out, ",%s,%s,%s\n", r->library, r->host, r->when);
}

void bench_print_row(const struct bench_options *o, const struct bench_row *r, FILE *out)
{
    if (o->format == BENCH_JSON)
        print_json(r, out);
    else if (o->format == BENCH_CSV)
        print_csv(r, out);
    else if (o->format == BENCH_TEXT)
        print_text(o, r, out);
    fflush(out);
}
