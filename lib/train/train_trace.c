/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Traces a step: gathers the ranks' events on rank 0 and prints them as a line and as JSON.
 * Leaves the drawing to train_trace_draw.c.
 *
 * Hosts have no common clock: each rank counts from its own beginning of the step.
 */
#include "train/train_trace.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "value/value_json_out.h"
#include "base/mem.h"
#include "train/train_inside.h"

/* Fields of a line of text, in this order; times are ns. */
enum { NODE, ISSUED, START, END, SLOW, FAST, FIELDS };

static int64_t ns_of(double seconds)
{
    return (int64_t)llround(seconds * 1e9);
}

char *train_trace_text(const struct step *rows, const struct step_time *time, double start_s,
                       double end_s)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = mem_stream(&text, &bytes);

    fprintf(f, "%" PRId64 "\n", ns_of(end_s - start_s));
    for (int i = 0; i < 2 * rows->rows; i++) {
        const struct step_time *v = &time[i];
        if (!v->ran || v->end_s <= start_s || v->start_s >= end_s)
            continue;
        const int64_t field[FIELDS] = {i,
                                       ns_of(v->issued_s - start_s),
                                       ns_of(v->start_s - start_s),
                                       ns_of(v->end_s - start_s),
                                       v->slow_bytes,
                                       v->fast_bytes};
        for (int k = 0; k < FIELDS; k++)
            fprintf(f, "%" PRId64 "%c", field[k], k + 1 < FIELDS ? ' ' : '\n');
    }
    fclose(f);
    return text;
}

static int64_t next_number(const char **text)
{
    char *end = NULL;
    int64_t v = strtoll(*text, &end, 10);

    assert(end != *text); /* another rank of this program wrote it */
    *text = end + 1;
    return v;
}

static void read_times(struct train_trace_rank *r, const char *text)
{
    r->step_s = (double)next_number(&text) * 1e-9;
    while (*text) {
        int64_t field[FIELDS];
        for (int k = 0; k < FIELDS; k++)
            field[k] = next_number(&text);
        r->time[field[NODE]] = (struct step_time){.ran = 1,
                                                  .issued_s = (double)field[ISSUED] * 1e-9,
                                                  .start_s = (double)field[START] * 1e-9,
                                                  .end_s = (double)field[END] * 1e-9,
                                                  .slow_bytes = field[SLOW],
                                                  .fast_bytes = field[FAST]};
    }
}

const struct step_row *train_trace_row(const struct train_trace *t, int node)
{
    return &t->rows->row[node % t->rows->rows];
}

static void add_bar(struct train_trace_rank *r, struct train_trace_bar bar)
{
    bar.start_s = fmax(bar.start_s, 0);
    bar.end_s = fmin(bar.end_s, r->step_s);
    if (ns_of(bar.end_s) > ns_of(bar.start_s))
        r->bar[r->bars++] = bar;
}

/* The row that ended last among those that a row names; -1: none was recorded. */
static int waited_for(const struct train_trace *t, const struct train_trace_rank *r, int node)
{
    int last = -1;

    for (int k = 0; k < STEP_AFTERS; k++) {
        int at = step_after(t->rows, node, k);
        if (at >= 0 && r->time[at].ran && (last < 0 || r->time[at].end_s > r->time[last].end_s))
            last = at;
    }
    return last;
}

static void trace_add_bars(const struct train_trace *t, struct train_trace_rank *r)
{
    r->bar = mem_new(4 * (size_t)t->rows->rows + 1, sizeof *r->bar);
    for (int i = 0; i < 2 * t->rows->rows; i++) {
        const struct step_time *v = &r->time[i];
        if (!v->ran)
            continue;
        if (train_trace_row(t, i)->lane == STEP_COMPUTE) {
            add_bar(r, (struct train_trace_bar){i, waited_for(t, r, i), 1, v->issued_s,
                                                v->start_s});
            r->exposed_s += v->start_s - v->issued_s;
            *(train_trace_row(t, i)->kind == STEP_AGREE ? &r->idle_s : &r->compute_s) +=
                v->end_s - v->start_s;
        }
        add_bar(r, (struct train_trace_bar){i, -1, 0, v->start_s, v->end_s});
    }
}

void train_trace_init(struct train_trace *t, const struct plan *plan, const struct step *rows,
                      int64_t step, char *const *texts, const char *const *hosts)
{
    *t = (struct train_trace){
        .step = step, .plan = plan, .rows = rows, .ranks = plan->groups.ranks};
    t->rank = mem_new((size_t)t->ranks, sizeof *t->rank);
    for (int i = 0; i < t->ranks; i++) {
        struct train_trace_rank *r = &t->rank[i];
        r->host = hosts[i];
        r->time = mem_new(2 * (size_t)rows->rows, sizeof *r->time);
        read_times(r, texts[i]);
        trace_add_bars(t, r);
        step_path_init(&r->path, rows, r->time, 0, r->step_s);
        if (r->step_s > t->rank[t->slowest].step_s)
            t->slowest = i;
    }
}

void train_trace_release(struct train_trace *t)
{
    for (int r = 0; r < t->ranks; r++) {
        mem_free(t->rank[r].time);
        mem_free(t->rank[r].bar);
        step_path_release(&t->rank[r].path);
    }
    mem_free(t->rank);
    *t = (struct train_trace){0};
}

void train_trace_name(const struct train_trace *t, int node, int micro, char text[96])
{
    const struct step_row *row = train_trace_row(t, node);
    const char *unit = row->unit < 0 ? "" : t->plan->model.unit[row->unit].name;
    char at[24] = "";

    if (micro && row->micro >= 0)
        snprintf(at, sizeof at, ", micro-step %d", row->micro);
    snprintf(text, 96, "%s%s%s%s", step_kind_name(row), unit[0] ? " " : "", unit, at);
}

/* Three digits: a step takes from less than a millisecond to minutes. */
static void put_seconds(FILE *out, double seconds)
{
    fprintf(out, seconds < 1 ? "%.3g s" : "%.3f s", seconds);
}

void train_trace_line(const struct train_trace *t, FILE *out)
{
    const struct train_trace_rank *r = &t->rank[t->slowest];

    fprintf(out, "critical path of step %" PRId64 ": ", t->step);
    put_seconds(out, r->path.longest_s);
    fprintf(out, " of ");
    put_seconds(out, r->step_s);
    fprintf(out, " (%.2f): ", r->step_s / r->path.longest_s);
    for (int s = 0; s < STEP_PATH_SUMS; s++)
        fprintf(out, "%s%s %.0f %%", s ? ", " : "", step_path_name((enum step_path_sum)s),
                100 * r->path.sum_s[s] / r->step_s);
    if (t->ranks > 1)
        fprintf(out, "; rank %d (%s), the slowest", t->slowest, r->host);
}

static void put_name(struct jout *j, const char *what, int pid, int tid, const char *name)
{
    jout_open(j, NULL, '{');
    jout_text(j, "name", what);
    jout_text(j, "ph", "M");
    jout_int(j, "pid", pid);
    if (tid >= 0)
        jout_int(j, "tid", tid);
    jout_open(j, "args", '{');
    jout_text(j, "name", name);
    jout_close(j, '}');
    jout_close(j, '}');
}

/* Shows the compute lane first. */
static int tid_of(int lane)
{
    return (lane + 1) % STEP_LANES;
}

/* Microseconds, from whole nanoseconds: adjacent intervals have equal bounds in the text,
   too. */
static double us_of(double seconds)
{
    return (double)ns_of(seconds) / 1000;
}

static void put_node(struct jout *j, const struct train_trace *t, const char *key, int node)
{
    char name[96];

    if (node < 0)
        return;
    train_trace_name(t, node, 1, name);
    jout_text(j, key, name);
}

/* The computation after which a transfer was issued, and the transfer that it had to wait
 * for. */
static void put_causes(struct jout *j, const struct train_trace *t, int node)
{
    int issuer = node - 1;

    while (issuer >= 0 && train_trace_row(t, issuer)->lane != STEP_COMPUTE)
        issuer--;
    put_node(j, t, "cause", issuer);
    for (int k = 0; k < STEP_AFTERS; k++) {
        int after = step_after(t->rows, node, k);
        if (after >= 0 && train_trace_row(t, after)->lane != STEP_COMPUTE)
            put_node(j, t, "behind", after);
    }
}

static void put_args(struct jout *j, const struct train_trace *t, int rank,
                     const struct train_trace_bar *b, double critical_s)
{
    const struct train_trace_rank *r = &t->rank[rank];
    const struct step_time *v = &r->time[b->node];
    const struct step_row *row = train_trace_row(t, b->node);

    jout_open(j, "args", '{');
    if (row->unit >= 0 && !b->waits)
        jout_text(j, "unit", t->plan->model.unit[row->unit].name);
    if (row->micro >= 0 && !b->waits)
        jout_int(j, "micro", row->micro);
    if (row->lane != STEP_COMPUTE) {
        jout_int(j, "slow_bytes", v->slow_bytes);
        jout_int(j, "fast_bytes", v->fast_bytes);
        put_causes(j, t, b->node);
    }
    put_node(j, t, "cause", b->wait);
    if (critical_s > 0 && !b->waits)
        jout_num(j, "critical_us", us_of(critical_s));
    if (!b->waits && (v->start_s < 0 || v->end_s > r->step_s))
        jout_bool(j, "clipped", 1); /* the bytes are the whole conversion's */
    jout_close(j, '}');
}

static void put_bar(struct jout *j, const struct train_trace *t, int rank,
                    const struct train_trace_bar *b, double critical_s)
{
    const struct step_row *row = train_trace_row(t, b->node);
    double start_us = us_of(b->start_s), end_us = us_of(b->end_s);
    char name[96] = "wait";

    if (!b->waits)
        train_trace_name(t, b->node, 0, name);
    jout_open(j, NULL, '{');
    jout_text(j, "name", name);
    jout_text(j, "cat", b->waits ? name : step_kind_name(row));
    jout_text(j, "ph", "X");
    jout_num(j, "ts", start_us);
    jout_num(j, "dur", (double)ns_of((end_us - start_us) * 1e-6) / 1000);
    jout_int(j, "pid", rank);
    jout_int(j, "tid", tid_of(row->lane));
    put_args(j, t, rank, b, critical_s);
    jout_close(j, '}');
}

static void put_events(struct jout *j, const struct train_trace *t, int rank)
{
    const struct train_trace_rank *r = &t->rank[rank];
    double *critical_s = mem_new(2 * (size_t)t->rows->rows, sizeof *critical_s);
    char name[300];

    snprintf(name, sizeof name, "rank %d (%s)", rank, r->host);
    put_name(j, "process_name", rank, -1, name);
    for (int lane = 0; lane < STEP_LANES; lane++)
        put_name(j, "thread_name", rank, tid_of(lane), step_lane_name((enum step_lane)lane));
    for (int i = 0; i < r->path.parts; i++)
        if (r->path.part[i].node >= 0)
            critical_s[r->path.part[i].node] += r->path.part[i].end_s - r->path.part[i].start_s;
    for (int i = 0; i < r->bars; i++)
        put_bar(j, t, rank, &r->bar[i], critical_s[r->bar[i].node]);
    mem_free(critical_s);
}

static void put_totals(struct jout *j, const struct train_trace *t, int rank)
{
    const struct train_trace_rank *r = &t->rank[rank];

    jout_open(j, NULL, '{');
    jout_int(j, "rank", rank);
    jout_text(j, "host", r->host);
    jout_num(j, "step_s", r->step_s);
    jout_num(j, "compute_s", r->compute_s);
    jout_num(j, "exposed_comm_s", r->exposed_s);
    jout_num(j, "idle_s", r->idle_s);
    jout_num(j, "critical_path_s", r->path.longest_s);
    jout_open(j, "critical_path", '{');
    for (int s = 0; s < STEP_PATH_SUMS; s++) {
        char key[32];
        snprintf(key, sizeof key, "%s_s", step_path_name((enum step_path_sum)s));
        jout_num(j, key, r->path.sum_s[s]);
    }
    jout_close(j, '}');
    jout_close(j, '}');
}

/* Prints the events first: some versions of Perfetto stop at an unknown key. */
void train_trace_json(const struct train_trace *t, FILE *out)
{
    struct jout j = {.file = out};
    const char *strategy = plan_strategy_name(t->plan->strategy);

    jout_open(&j, NULL, '{');
    jout_open(&j, "traceEvents", '[');
    for (int r = 0; r < t->ranks; r++)
        put_events(&j, t, r);
    jout_close(&j, ']');
    jout_text(&j, "displayTimeUnit", "ms");
    jout_open(&j, "otherData", '{');
    jout_text(&j, "schema", "paro.trace/1");
    jout_int(&j, "step", t->step);
    jout_text(&j, "strategy", strategy);
    jout_text(&j, "clock", "each rank's own, 0 at the start of its step");
    jout_open(&j, "ranks", '[');
    for (int r = 0; r < t->ranks; r++)
        put_totals(&j, t, r);
    jout_end(&j);
}

/* Both files are complete before the first of them appears. */
static int write_files(struct train *t, const struct train_trace *trace, struct err *err)
{
    static const char *const kinds[] = {"json", "svg"};
    struct io_out out[2] = {{.fd = -1}, {.fd = -1}};
    int rc = 0;

    train_save_still(t);
    for (int i = 0; rc == 0 && i < 2; i++) {
        char name[40];
        snprintf(name, sizeof name, "trace-%08" PRId64 ".%s", trace->step, kinds[i]);
        char *path = io_join(t->home, name);
        rc = io_create(&out[i], path, 1, err);
        mem_free(path);
        if (rc)
            break;
        if (i == 0)
            train_trace_json(trace, out[i].file);
        else
            rc = train_trace_draw(trace, out[i].file, err);
        fflush(out[i].file);
    }
    for (int i = 0; rc == 0 && i < 2; i++)
        rc = ferror(out[i].file) ? io_commit(&out[i], err) : 0;
    for (int i = 0; i < 2; i++)
        if (rc == 0)
            rc = io_commit(&out[i], err);
        else
            io_abandon(&out[i]);
    return rc;
}

/* Predicts the step, if the plan's fabric has the rates for it. */
static int predict_step(const struct plan *p, struct plan_timeline *out)
{
    struct topo fabric = {0};
    struct err why;

    if (plan_fabric(p, &fabric, &why))
        return 0;
    int known = fabric.flops > 0;
    if (known)
        plan_timeline_of_plan(p, &fabric, out);
    topo_release(&fabric);
    return known;
}

/* Rank 0's part, with the texts of all ranks. */
static int show_trace(struct train *t, const struct step *rows, char *const *texts,
                      struct err *err)
{
    const struct world *w = t->world;
    const char **hosts = mem_new((size_t)w->ranks, sizeof *hosts);
    struct plan_timeline predicted = {.step_s = 0};
    struct train_trace trace;

    for (int r = 0; r < w->ranks; r++)
        hosts[r] = w->host[w->groups.group_of[r]];
    train_trace_init(&trace, &t->plan, rows, t->step + 1, texts, hosts);
    trace.predicted = predict_step(&t->plan, &predicted) ? &predicted : NULL;
    t->path_s = trace.rank[0].path.longest_s;
    int rc = write_files(t, &trace, err);
    if (rc == 0 && t->run->talk) {
        train_progress_clear(t);
        fprintf(t->run->talk, "paro-train: ");
        train_trace_line(&trace, t->run->talk);
        fprintf(t->run->talk, "\n");
    }
    train_trace_release(&trace);
    plan_timeline_release(&predicted);
    mem_free(hosts);
    return rc;
}

int train_trace_open(struct train *t, struct err *err)
{
    int rc = 0;

    if (!t->trace_step)
        return 0;
    if (t->trace_step <= t->step)
        rc = err_set(err, ERR_INPUT,
                     "--trace-step: step %" PRId64 " is already done, expected step %" PRId64
                     " or later",
                     t->trace_step, t->step + 1);
    else
        rc = engine_trace_open(t->engine, err);
    return world_agree(t->world, rc, err);
}

void train_trace_before(struct train *t)
{
    /* Also traces the previous step: its parameters are still being sent when this one
       begins. */
    if (t->trace_step && !t->tracing && t->step < t->trace_step &&
        t->step + 2 >= t->trace_step) {
        engine_trace(t->engine, 1);
        t->tracing = 1;
    }
}

int train_trace_after(struct train *t, struct err *err)
{
    const struct step *rows = NULL;
    const struct step_time *time = NULL;
    char *text = NULL, **texts = NULL;
    double start_s, end_s;

    if (t->step + 1 != t->trace_step)
        return 0;
    int rc = engine_trace_times(t->engine, &rows, &time, err);
    if (rc == 0) {
        engine_trace_window(t->engine, &start_s, &end_s);
        text = train_trace_text(rows, time, start_s, end_s);
        engine_trace(t->engine, 0);
    }
    rc = world_agree(t->world, rc, err);
    if (rc == 0)
        rc = world_gather_text(t->world, text, &texts, err);
    if (rc == 0)
        rc = world_agree(t->world, t->world->rank == 0 ? show_trace(t, rows, texts, err) : 0,
                         err);
    for (int r = 0; texts && r < t->world->ranks; r++)
        mem_free(texts[r]);
    mem_free(texts);
    free(text);
    return rc;
}
