/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows what is told of a step that is traced: how the ranks' events come to rank 0, and what
 * is said of them in a line and as JSON.  Does not know how they are drawn
 * (train_trace_draw.c).
 *
 * There is no clock that all hosts share: each rank counts from its own beginning of the step.
 */
#include "train/train_trace.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/jout.h"
#include "base/mem.h"
#include "train/train_inside.h"
#include "train/train_save.h"

/* What a line of the text has, in this order; times are ns. */
enum { KIND, LANE, UNIT, MICRO, CAUSE, BEHIND, START, END, PUSHED, SLOW, FAST, FIELDS };

static int64_t ns_of(double seconds)
{
    return (int64_t)llround(seconds * 1e9);
}

/* What the compute thread did is its step's alone; a conversion may reach across the edges. */
static int is_inside(const struct engine_event *v, double start_s, double end_s)
{
    if (v->lane == ENGINE_LANE_COMPUTE)
        return v->start_s >= start_s && v->end_s <= end_s;
    return v->end_s > start_s && v->start_s < end_s;
}

char *train_trace_text(const struct engine_event *event, int count, double start_s,
                       double end_s)
{
    int *new = mem_new((size_t)count + 1, sizeof *new), kept = 0;
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = mem_stream(&text, &bytes);

    fprintf(f, "%" PRId64 "\n", ns_of(end_s - start_s));
    for (int i = 0; i < count; i++) {
        const struct engine_event *v = &event[i];
        new[i] = is_inside(v, start_s, end_s) ? kept++ : -1;
        if (new[i] < 0)
            continue;
        const int64_t field[FIELDS] = {[KIND] = v->kind,
                                       [LANE] = v->lane,
                                       [UNIT] = v->unit,
                                       [MICRO] = v->micro,
                                       [CAUSE] = v->cause < 0 ? -1 : new[v->cause],
                                       [BEHIND] = v->behind < 0 ? -1 : new[v->behind],
                                       [START] = ns_of(v->start_s - start_s),
                                       [END] = ns_of(v->end_s - start_s),
                                       [PUSHED] = ns_of(v->pushed_s - start_s),
                                       [SLOW] = v->slow_bytes,
                                       [FAST] = v->fast_bytes};
        for (int k = 0; k < FIELDS; k++)
            fprintf(f, "%" PRId64 "%c", field[k], k + 1 < FIELDS ? ' ' : '\n');
    }
    fclose(f);
    mem_free(new);
    return text;
}

static int64_t next(const char **text)
{
    char *end = NULL;
    int64_t v = strtoll(*text, &end, 10);

    assert(end != *text); /* another rank of this program wrote it */
    *text = end + 1;
    return v;
}

static void read_event(struct engine_event *v, const char **text)
{
    int64_t field[FIELDS];

    for (int k = 0; k < FIELDS; k++)
        field[k] = next(text);
    *v = (struct engine_event){.kind = (enum engine_event_kind)field[KIND],
                               .lane = (int)field[LANE],
                               .unit = (int)field[UNIT],
                               .micro = (int)field[MICRO],
                               .cause = (int)field[CAUSE],
                               .behind = (int)field[BEHIND],
                               .start_s = (double)field[START] * 1e-9,
                               .end_s = (double)field[END] * 1e-9,
                               .pushed_s = (double)field[PUSHED] * 1e-9,
                               .slow_bytes = field[SLOW],
                               .fast_bytes = field[FAST]};
}

static void read_rank(struct train_trace_rank *r, const char *text)
{
    size_t room = 0;

    r->step_s = (double)next(&text) * 1e-9;
    while (*text) {
        r->event = mem_grow(r->event, &room, (size_t)r->count + 1, sizeof *r->event);
        read_event(&r->event[r->count++], &text);
    }
    for (int i = 0; i < r->count; i++) {
        const struct engine_event *v = &r->event[i];
        double took_s = v->end_s - v->start_s;
        if (v->lane != ENGINE_LANE_COMPUTE)
            continue;
        if (v->kind == ENGINE_WAITED)
            r->exposed_s += took_s;
        else if (v->kind == ENGINE_AGREE)
            r->idle_s += took_s;
        else
            r->compute_s += took_s;
    }
    engine_path_init(&r->path, r->event, r->count, 0, r->step_s);
}

void train_trace_init(struct train_trace *t, const struct plan *plan, int64_t step,
                      char *const *texts, const char *const *hosts)
{
    *t = (struct train_trace){.step = step, .plan = plan, .ranks = plan->groups.ranks};
    t->rank = mem_new((size_t)t->ranks, sizeof *t->rank);
    for (int r = 0; r < t->ranks; r++) {
        t->rank[r].host = hosts[r];
        read_rank(&t->rank[r], texts[r]);
        if (t->rank[r].step_s > t->rank[t->slowest].step_s)
            t->slowest = r;
    }
}

void train_trace_release(struct train_trace *t)
{
    for (int r = 0; r < t->ranks; r++) {
        mem_free(t->rank[r].event);
        engine_path_release(&t->rank[r].path);
    }
    mem_free(t->rank);
    *t = (struct train_trace){0};
}

void train_trace_name(const struct train_trace *t, const struct engine_event *v, int micro,
                      char text[96])
{
    const char *unit = v->unit < 0 ? "" : t->plan->model.unit[v->unit].name;
    char at[24] = "";

    if (micro && v->micro >= 0)
        snprintf(at, sizeof at, ", micro-step %d", v->micro);
    snprintf(text, 96, "%s%s%s%s", engine_event_name(v->kind), unit[0] ? " " : "", unit, at);
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
    for (int s = 0; s < ENGINE_PATH_SUMS; s++)
        fprintf(out, "%s%s %.0f %%", s ? ", " : "", engine_path_name((enum engine_path_sum)s),
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

static void put_names(struct jout *j, const struct train_trace *t, int rank)
{
    char name[300];

    snprintf(name, sizeof name, "rank %d (%s)", rank, t->rank[rank].host);
    put_name(j, "process_name", rank, -1, name);
    for (int lane = 0; lane < ENGINE_LANES; lane++)
        put_name(j, "thread_name", rank, lane, engine_lane_name(lane));
}

/* Microseconds, of whole nanoseconds: what ends where the next begins does so in text, too. */
static double us_of(double seconds)
{
    return (double)ns_of(seconds) / 1000;
}

static void put_args(struct jout *j, const struct train_trace *t, int rank, int i,
                     double critical_s)
{
    const struct train_trace_rank *r = &t->rank[rank];
    const struct engine_event *v = &r->event[i];
    char name[96];

    jout_open(j, "args", '{');
    if (v->unit >= 0)
        jout_text(j, "unit", t->plan->model.unit[v->unit].name);
    if (v->micro >= 0)
        jout_int(j, "micro", v->micro);
    if (v->lane != ENGINE_LANE_COMPUTE) {
        jout_int(j, "slow_bytes", v->slow_bytes);
        jout_int(j, "fast_bytes", v->fast_bytes);
    }
    if (v->cause >= 0) {
        train_trace_name(t, &r->event[v->cause], 1, name);
        jout_text(j, "cause", name);
    }
    if (v->behind >= 0) {
        train_trace_name(t, &r->event[v->behind], 1, name);
        jout_text(j, "behind", name);
    }
    if (critical_s > 0)
        jout_num(j, "critical_us", us_of(critical_s));
    if (v->start_s < 0 || v->end_s > r->step_s)
        jout_bool(j, "clipped", 1); /* bytes are the whole conversion's */
    jout_close(j, '}');
}

static void put_event(struct jout *j, const struct train_trace *t, int rank, int i,
                      double critical_s)
{
    const struct train_trace_rank *r = &t->rank[rank];
    const struct engine_event *v = &r->event[i];
    double start_us = us_of(fmax(v->start_s, 0)), end_us = us_of(fmin(v->end_s, r->step_s));
    char name[96];

    if (end_us <= start_us)
        return; /* what was waited for was there */
    train_trace_name(t, v, 0, name);
    jout_open(j, NULL, '{');
    jout_text(j, "name", name);
    jout_text(j, "cat", engine_event_name(v->kind));
    jout_text(j, "ph", "X");
    jout_num(j, "ts", start_us);
    jout_num(j, "dur", (double)ns_of((end_us - start_us) * 1e-6) / 1000);
    jout_int(j, "pid", rank);
    jout_int(j, "tid", v->lane);
    put_args(j, t, rank, i, critical_s);
    jout_close(j, '}');
}

static void put_events(struct jout *j, const struct train_trace *t, int rank)
{
    const struct train_trace_rank *r = &t->rank[rank];
    double *critical_s = mem_new((size_t)r->count + 1, sizeof *critical_s);

    for (int i = 0; i < r->path.parts; i++)
        if (r->path.part[i].event >= 0)
            critical_s[r->path.part[i].event] +=
                r->path.part[i].end_s - r->path.part[i].start_s;
    put_names(j, t, rank);
    for (int i = 0; i < r->count; i++)
        put_event(j, t, rank, i, critical_s[i]);
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
    for (int s = 0; s < ENGINE_PATH_SUMS; s++) {
        char key[32];
        snprintf(key, sizeof key, "%s_s", engine_path_name((enum engine_path_sum)s));
        jout_num(j, key, r->path.sum_s[s]);
    }
    jout_close(j, '}');
    jout_close(j, '}');
}

/* The events first: Perfetto has been known to stop at a key that it does not know. */
void train_trace_json(const struct train_trace *t, FILE *out)
{
    struct jout j = {.file = out};
    char strategy[4];

    plan_strategy_name(t->plan->strategy, strategy);
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
    jout_close(&j, ']');
    jout_close(&j, '}');
    jout_close(&j, '}');
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
        (i == 0 ? train_trace_json : train_trace_draw)(trace, out[i].file);
        fflush(out[i].file);
    }
    for (int i = 0; rc == 0 && i < 2; i++)
        rc = ferror(out[i].file) ? io_commit(&out[i], err) : 0;
    for (int i = 0; i < 2; i++) {
        if (rc == 0)
            rc = io_commit(&out[i], err);
        else
            io_abandon(&out[i]);
    }
    return rc;
}

/* Rank 0's part, with the texts of all. */
static int show(struct train *t, char *const *texts, struct err *err)
{
    const struct world *w = t->world;
    const char **hosts = mem_new((size_t)w->ranks, sizeof *hosts);
    struct train_trace trace;

    for (int r = 0; r < w->ranks; r++)
        hosts[r] = w->host[w->groups.group_of[r]];
    train_trace_init(&trace, &t->plan, t->step + 1, texts, hosts);
    t->path_s = trace.rank[0].path.longest_s;
    int rc = write_files(t, &trace, err);
    if (rc == 0 && t->run->talk) {
        train_progress_clear(t);
        fprintf(t->run->talk, "paro-train: ");
        train_trace_line(&trace, t->run->talk);
        fprintf(t->run->talk, "\n");
    }
    train_trace_release(&trace);
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
    /* The step before it, too: its parameters are on their way when this one begins. */
    if (t->trace_step && !t->tracing && t->step < t->trace_step &&
        t->step + 2 >= t->trace_step) {
        engine_trace(t->engine, 1);
        t->tracing = 1;
    }
}

int train_trace_after(struct train *t, struct err *err)
{
    const struct engine_event *event = NULL;
    char *text = NULL, **texts = NULL;
    double start_s, end_s;
    int count = 0;

    if (t->step + 1 != t->trace_step)
        return 0;
    int rc = engine_trace_events(t->engine, &event, &count, err);
    if (rc == 0) {
        engine_trace_window(t->engine, &start_s, &end_s);
        text = train_trace_text(event, count, start_s, end_s);
        engine_trace(t->engine, 0);
    }
    rc = world_agree(t->world, rc, err);
    if (rc == 0)
        rc = world_gather_text(t->world, text, &texts, err);
    if (rc == 0)
        rc = world_agree(t->world, t->world->rank == 0 ? show(t, texts, err) : 0, err);
    for (int r = 0; texts && r < t->world->ranks; r++)
        mem_free(texts[r]);
    mem_free(texts);
    free(text);
    return rc;
}
