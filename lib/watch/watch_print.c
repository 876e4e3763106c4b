/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prints a verdict as a monitoring plugin's line and table, as the document paro.watch/1, or
 * for node_exporter.
 */
#include <math.h>
#include <stdlib.h>

#include "value/value_json_out.h"
#include "base/mem.h"
#include "value/value_prom.h"
#include "watch/watch_parts.h"

/* The rank with the largest lateness; -1: lateness was not judged. */
static int latest(const struct watch_report *r)
{
    int found = -1;

    for (int p = 0; p < r->w->processes && !r->v->why; p++)
        if (found < 0 || r->v->late[p].percent > r->v->late[found].percent)
            found = p;
    return found;
}

static double print_above_0(double percent)
{
    return fmax(percent, 0);
}

/* For the line and its perfdata: percent of the rank that the line names, or of the latest
   rank; NAN: not judged. */
static double late_percent(const struct watch_report *r)
{
    const struct watch_finding *f = r->v->finding;
    int p = latest(r);

    if (r->v->findings && f->kind != WATCH_LINK && !isnan(f->percent))
        return f->percent;
    return p < 0 ? NAN : print_above_0(r->v->late[p].percent);
}

static void print_healthy(const struct watch_report *r, FILE *out)
{
    int p = latest(r);
    const struct watch_late *x = &r->v->late[p];
    double percent = print_above_0(x->percent);
    char name[160];

    watch_name(r->w, p, name, sizeof name);
    if (percent <= x->chance)
        fprintf(out, "healthy; no rank is late beyond chance (latest: %s, %.1f %% +- %.*f)",
                name, percent, x->chance < 9.5, x->chance);
    else if (watch_rules_state(r->rules, percent) == HEALTH_OK)
        fprintf(out, "healthy; %s is latest, by %.1f %%", name, percent);
    else
        fprintf(out, "healthy; %s is late by %.1f %% at times, not throughout", name, percent);
}

static void print_table(const struct watch_report *r, FILE *out)
{
    const struct watch *w = r->w;
    char name[160];
    struct units u;

    for (int i = 0; i < r->v->findings; i++)
        fprintf(out, "%s %s: %s\n", health_state_name(r->v->finding[i].state),
                watch_kind_names[r->v->finding[i].kind], r->v->finding[i].text);
    for (int h = 1; h < w->hosts && w->times == WATCH_TIMES && watch_host_name(w, 0); h++) {
        const struct watch_host *host = &w->host[h];
        if (host->error_s < 0)
            fprintf(out, "clock of %s: unknown\n", host->name);
        else
            fprintf(out, "clock of %s: %.6f s from that of %s, to %s\n", host->name,
                    host->offset_s, w->host[0].name, units_time(&u, host->error_s));
    }
    for (int p = 0; p < w->processes && !r->v->why; p++) {
        const struct watch_late *x = &r->v->late[p];
        if (r->verbose < 2 &&
            health_range_alerts(&r->rules->warn, print_above_0(x->percent)) == 0)
            continue;
        fprintf(out,
                "%s: %.1f %% late, z %.1f, by blocks:", watch_name(w, p, name, sizeof name),
                x->percent, x->z);
        for (int b = 0; b < WATCH_BLOCKS; b++)
            fprintf(out, isnan(x->block[b]) ? " -" : " %.0f", x->block[b]);
        fputc('\n', out);
    }
}

void watch_print_line(const struct watch_report *r, FILE *out)
{
    const struct watch *w = r->w;
    const struct watch_verdict *v = r->v;
    double percent = late_percent(r);
    char none[128];
    struct units u;
    int one;

    fprintf(out, "WATCH %s - ", health_state_name(v->state));
    if (v->findings)
        fputs(v->finding[0].text, out);
    else
        fprintf(out, "%d ranks on %d host%s, %lld calls in %s: ", w->processes, w->hosts,
                w->hosts == 1 ? "" : "s", (long long)w->calls,
                units_time(&u, fmax(w->end_s - w->start_s, 0)));
    if (v->findings > 1)
        fprintf(out, " (and %d more)", v->findings - 1);
    else if (v->findings == 0 && v->why)
        fprintf(out, "lateness unknown, %s", v->why);
    else if (v->findings == 0)
        print_healthy(r, out);
    if (v->findings == 0 && watch_absent_text(w, NULL, none, sizeof none, &one))
        fprintf(out, "; %s", none);
    if (w->other_runs)
        fprintf(out, " (%d files of other runs left out)", w->other_runs);
    fputs("|late=", out);
    fprintf(out, isnan(percent) ? "U" : "%.1f%%", percent);
    fprintf(out, " ranks=%d calls=%lld", w->processes, (long long)w->calls);
    if (!isnan(v->lost))
        fprintf(out, " lost=%.1f%%", 100 * v->lost);
    fputc('\n', out);
    if (r->verbose)
        print_table(r, out);
}

/* ---- JSON ---- */

static void print_put_finding(struct jout *j, const struct watch_report *r,
                              const struct watch_finding *f)
{
    const struct watch *w = r->w;

    jout_open(j, NULL, '{');
    jout_text(j, "state", health_state_name(f->state));
    jout_text(j, "kind", watch_kind_names[f->kind]);
    jout_known(j, "rank", f->rank);
    jout_text(j, "host", watch_host_name(w, f->host));
    jout_num(j, "late_percent", f->percent);
    jout_num(j, "z", f->z);
    jout_num(j, "share_of_calls", f->share);
    jout_num(j, f->kind == WATCH_PERIODIC ? "every_steps" : "every_s", f->period);
    jout_text(j, "text", f->text);
    jout_close(j, '}');
}

void watch_print_json(const struct watch_report *r, FILE *out)
{
    const struct watch *w = r->w;
    struct jout j = jout_begin(out, "paro.watch/1");
    int *rank = NULL, absent = watch_absent(w, NULL, &rank);

    jout_text(&j, "state", health_state_name(r->v->state));
    jout_int(&j, "calls", w->calls);
    jout_int(&j, "calls_judged", r->v->judged);
    jout_int(&j, "communicators", w->comms);
    jout_num(&j, "seconds", fmax(w->end_s - w->start_s, 0));
    jout_int(&j, "processes_ended", w->ended);
    jout_int(&j, "files_of_other_runs", w->other_runs);
    jout_num(&j, "lost_share", r->v->lost);
    jout_text(&j, "not_judged_because", r->v->why);
    jout_open(&j, "findings", '[');
    for (int i = 0; i < r->v->findings; i++)
        print_put_finding(&j, r, &r->v->finding[i]);
    jout_close(&j, ']');
    jout_open(&j, "ranks_without_records", '[');
    for (int i = 0; i < absent; i++)
        jout_int(&j, NULL, rank[i]);
    jout_close(&j, ']');
    mem_free(rank);
    jout_open(&j, "hosts", '[');
    for (int h = 0; h < w->hosts; h++) {
        int known = w->host[h].error_s >= 0;
        jout_open(&j, NULL, '{');
        jout_text(&j, "host", watch_host_name(w, h));
        jout_num(&j, "clock_offset_s", known ? w->host[h].offset_s : NAN);
        jout_num(&j, "clock_error_s", known ? w->host[h].error_s : NAN);
        jout_close(&j, '}');
    }
    jout_close(&j, ']');
    jout_open(&j, "ranks", '[');
    for (int p = 0; p < w->processes; p++) {
        const struct watch_late *x = &r->v->late[p];
        jout_open(&j, NULL, '{');
        jout_int(&j, "rank", w->process[p].rank);
        jout_text(&j, "host", watch_host_name(w, w->process[p].host));
        jout_int(&j, "calls", w->process[p].calls);
        jout_num(&j, "late_percent", x->percent);
        jout_num(&j, "z", x->z);
        jout_open(&j, "late_percent_by_block", '[');
        for (int b = 0; b < WATCH_BLOCKS && !r->v->why; b++)
            jout_num(&j, NULL, x->block[b]);
        jout_close(&j, ']');
        jout_close(&j, '}');
    }
    jout_end(&j);
}

/* ---- node_exporter ---- */

static void print_put_value(FILE *f, const char *name, const char *help, double v)
{
    prom_head(f, "horing_watch_", name, "gauge", help);
    fprintf(f, "horing_watch_%s", name);
    prom_value(f, v);
}

static void print_put_rank(FILE *f, const struct watch *w, int rank, int host,
                           const char *before)
{
    const char *name = watch_host_name(w, host);
    char number[16] = "";

    if (rank >= 0)
        snprintf(number, sizeof number, "%d", rank);
    prom_label(f, before, "rank", number);
    prom_label(f, ",", "host", name ? name : "");
    fputc('}', f);
}

static int by_series(const void *a, const void *b)
{
    const struct watch_process *p = *(const struct watch_process *const *)a,
                               *q = *(const struct watch_process *const *)b;

    return p->rank != q->rank   ? p->rank - q->rank
           : p->host != q->host ? p->host - q->host
                                : (p > q) - (p < q);
}

/* Prints a series once: two processes of a host may have the same rank in different
   communicators. */
static void put_late(FILE *f, const struct watch_report *r)
{
    int n = r->v->why ? 0 : r->w->processes;
    const struct watch_process **x = mem_new((size_t)n + 1, sizeof *x);

    prom_head(f, "horing_watch_", "late_ratio", "gauge",
              "By how much a rank makes the run longer");
    for (int p = 0; p < n; p++)
        x[p] = &r->w->process[p];
    if (n)
        qsort(x, (size_t)n, sizeof *x, by_series);
    for (int i = 0; i < n; i++) {
        if (i && x[i]->rank == x[i - 1]->rank && x[i]->host == x[i - 1]->host)
            continue;
        fputs("horing_watch_late_ratio", f);
        print_put_rank(f, r->w, x[i]->rank, x[i]->host, "{");
        prom_value(f, r->v->late[x[i] - r->w->process].percent / 100);
    }
    mem_free(x);
}

int watch_write_prom(const struct watch_report *r, const char *path, struct err *err)
{
    const struct watch *w = r->w;
    struct io_out out;

    if (io_create(&out, path, IO_FORCE | IO_CLOSED, err))
        return -1;
    FILE *f = out.file;
    print_put_value(f, "state", "Verdict: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN", r->v->state);
    print_put_value(f, "last_record_timestamp_seconds", "Time of the latest record", w->end_s);
    print_put_value(f, "calls", "Calls of collectives in the records", (double)w->calls);
    prom_head(f, "horing_watch_", "finding", "gauge", "Findings, by kind (horing-watch(1))");
    for (int i = 0; i < r->v->findings; i++) {
        const struct watch_finding *g = &r->v->finding[i];
        int again = 0; /* print a series once: links of one host differ only in the text */
        for (int k = 0; k < i; k++)
            again |= r->v->finding[k].kind == g->kind && r->v->finding[k].host == g->host &&
                     r->v->finding[k].rank == g->rank;
        if (again)
            continue;
        fputs("horing_watch_finding", f);
        prom_label(f, "{", "kind", watch_kind_names[g->kind]);
        print_put_rank(f, w, g->rank, g->host, ",");
        prom_value(f, 1);
    }
    put_late(f, r);
    return io_commit(&out, err);
}
