/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Publishes the record of a step to monitoring: a file for Prometheus that is replaced after
 * each step (value/value_prom.h), and events for TensorBoard (train_events.h), a new file each
 * time that the run starts.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "value/value_prom.h"
#include "plan/plan_price.h"
#include "train/train_events.h"
#include "train/train_inside.h"

#define PREFIX "paro_train_"

/* Totals over the steps of this process. */
static const struct total {
    enum train_metric metric;
    const char *name, *help;
} totals[] = {
    {TRAIN_METRIC_tokens, "tokens_total", "Tokens trained on, since this process started"},
    {TRAIN_METRIC_slow_bytes, "slow_bytes_total",
     "Bytes through the busiest group port, since this process started"},
    {TRAIN_METRIC_fast_bytes, "fast_bytes_total",
     "Bytes inside its group by the rank that sends most, since this process started"},
    {TRAIN_METRIC_skipped, "skipped_steps_total", "Steps skipped since this process started"},
};
enum { TOTALS = sizeof totals / sizeof *totals };

struct train_metrics {
    /* owned: the run's folder, an absolute path, since two runs may write on one host */
    char *label;
    double total[TOTALS];
    int prom; /* it is being written: no write has failed */
    FILE *events;
};

static double wall_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void metrics_put(FILE *f, const struct train_metrics *m, const char *name,
                        const char *type, double value, const char *help)
{
    prom_head(f, PREFIX, name, type, help);
    fprintf(f, PREFIX "%s", name);
    prom_label(f, "{", "run", m->label);
    putc('}', f);
    prom_value(f, value);
}

/* When the newest checkpoint in the folder was made, also by an earlier process; 0: none. */
static double checkpoint_s(const struct train *t)
{
    struct stat st;
    char name[40];

    if (t->saved < 0)
        return 0;
    train_folder_name(t->saved, name);
    char *path = io_join(t->home, name);
    int rc = stat(path, &st);
    mem_free(path);
    return rc ? 0 : (double)st.st_mtim.tv_sec;
}

static void put_run(FILE *f, const struct train *t)
{
    const struct train_metrics *m = t->metrics;
    double saved_s = checkpoint_s(t);

    prom_head(f, PREFIX, "info", "gauge", "The run");
    fputs(PREFIX "info", f);
    prom_label(f, "{", "run", m->label);
    prom_label(f, ",", "strategy", plan_strategy_name(t->plan.strategy));
    fprintf(f, ",ranks=\"%d\"} 1\n", t->world->ranks);
    metrics_put(f, m, "steps", "gauge", t->settings.steps, "Steps that the run is to do");
    metrics_put(f, m, "last_write_timestamp_seconds", "gauge", wall_s(),
                "When this file was written");
    if (t->plan.price.step_s > 0)
        metrics_put(f, m, "predicted_step_seconds", "gauge", t->plan.price.step_s,
                    "Time of a step that the plan predicts");
    if (saved_s > 0) {
        metrics_put(f, m, "last_checkpoint_step", "gauge", (double)t->saved,
                    "Step of the newest checkpoint");
        metrics_put(f, m, "last_checkpoint_timestamp_seconds", "gauge", saved_s,
                    "When the newest checkpoint was written");
    }
}

/* Does not sync: training would wait for the disk in each step. */
static int write_prom(const struct train *t, struct err *err)
{
    const struct train_metrics *m = t->metrics;
    const struct train_record *r = &t->record;
    struct io_out out;

    if (io_create(&out, t->run->prom, 1, err))
        return -1;
    out.unsynced = 1;
    put_run(out.file, t);
    for (int i = 0; i < TRAIN_METRICS_COUNT; i++)
        if (r->ever[i])
            metrics_put(out.file, m, train_metrics[i].prom, "gauge",
                        r->value[i] * train_metrics[i].scale, train_metrics[i].help);
    for (int i = 0; i < TOTALS; i++)
        metrics_put(out.file, m, totals[i].name, "counter", m->total[i], totals[i].help);
    return io_commit(&out, err);
}

static int write_events(const struct train *t, struct err *err)
{
    FILE *f = t->metrics->events;
    const struct train_record *r = &t->record;
    struct events_scalar scalar[TRAIN_METRICS_COUNT];
    int count = 0;

    for (int i = 0; i < TRAIN_METRICS_COUNT; i++) {
        const struct train_metric_row *row = &train_metrics[i];
        if (!r->now[i] || i == TRAIN_METRIC_step)
            continue;
        snprintf(scalar[count].tag, EVENTS_TAG_MAX, "%s/%s", row->group, row->key);
        scalar[count++].value = (float)r->value[i];
    }
    events_put_scalars(f, wall_s(), t->step, scalar, count);
    return fflush(f) || ferror(f)
               ? err_sys(err, "cannot write events to '%s'", t->run->tensorboard)
               : 0;
}

/* TensorBoard reads the files of a folder in the order of their names. */
static int open_events(struct train *t, struct err *err)
{
    const char *dir = t->run->tensorboard;
    char host[64] = "", name[160];
    double now = wall_s();

    gethostname(host, sizeof host - 1);
    snprintf(name, sizeof name, "events.out.tfevents.%010lld.%s.%d", (long long)now, host,
             (int)getpid());
    if (io_mkdir(dir, NULL, err))
        return -1;
    char *path = io_join(dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w");
    int rc = f ? 0 : err_sys(err, "cannot create '%s'", path);
    mem_free(path);
    if (rc)
        return -1;
    t->metrics->events = f;
    events_put_version(f, now);
    if (t->step > 0)
        events_put_start(f, now, t->step + 1);
    return fflush(f) || ferror(f) ? err_sys(err, "cannot write events to '%s'", dir) : 0;
}

int train_metrics_open(struct train *t, struct err *err)
{
    const struct train_run *run = t->run;

    if (!run->prom && !run->tensorboard)
        return 0;
    t->metrics = mem_new(1, sizeof *t->metrics);
    char *whole = realpath(run->out, NULL);
    t->metrics->label = mem_dup(whole ? whole : run->out);
    free(whole);
    t->metrics->prom = run->prom != NULL;
    return (run->prom && write_prom(t, err)) || (run->tensorboard && open_events(t, err)) ? -1
                                                                                          : 0;
}

/* A run of days must not end because a shared disk is full. */
static void warn(struct train *t, const char *option, const struct err *err)
{
    train_progress_clear(t);
    train_print(t, "%s: no more is written after step %" PRId64 " to --%s", err->text, t->step,
                option);
}

void train_metrics_step(struct train *t)
{
    struct train_metrics *m = t->metrics;
    struct err err = {0};

    if (!m)
        return;
    for (int i = 0; i < TOTALS; i++)
        m->total[i] += t->record.value[totals[i].metric];
    if (m->prom && write_prom(t, &err)) {
        warn(t, "prom", &err);
        m->prom = 0;
    }
    if (m->events && write_events(t, &err)) {
        warn(t, "tensorboard", &err);
        fclose(m->events);
        m->events = NULL;
    }
}

/* The checkpoint of the last step is complete now. */
void train_metrics_close(struct train *t)
{
    struct train_metrics *m = t->metrics;
    struct err err = {0};

    if (!m)
        return;
    if (m->prom && t->record.ever[TRAIN_METRIC_step] && write_prom(t, &err))
        warn(t, "prom", &err);
    if (m->events)
        fclose(m->events);
    mem_free(m->label);
    mem_free(m);
    t->metrics = NULL;
}
