/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Logs a step: a record, which becomes JSON Lines in the run's folder, metrics
 * (train_metrics.c), and a line for people.  The log of a resumed run keeps one line a step:
 * lines logged after the checkpoint, or cut short when a run was killed, are removed.
 */
#include "train/train_inside.h"

#include <inttypes.h>
#include <math.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "value/value_json_out.h"
#include "base/mem.h"

/* Finds where the lines of later steps begin, which are lost, or an incomplete line. */
static int find_end(struct train *t, FILE *f, const char *path, off_t *end, struct err *err)
{
    char *line = NULL;
    size_t space = 0;
    int rc = 0, at = 0;

    *end = 0;
    for (ssize_t n; (n = getline(&line, &space, f)) > 0 && line[n - 1] == '\n'; *end += n) {
        static const char first[] = "{\"step\":";
        char *after = NULL;
        at++;
        if (strncmp(line, first, sizeof first - 1) == 0) {
            int64_t step = strtoll(line + sizeof first - 1, &after, 10);
            if (*after == ',' && step > t->step) {
                t->lost = step - t->step;
                for (ssize_t more; (more = getline(&line, &space, f)) > 0;)
                    t->lost += line[more - 1] == '\n';
                break;
            }
        }
        if (!after || *after != ',') {
            rc =
                err_set(err, ERR_INPUT, "%s:%d: is not a line of a run's log, expected '%s...'",
                        path, at, first);
            break;
        }
    }
    if (ferror(f))
        rc = err_sys(err, "cannot read log '%s'", path);
    free(line);
    return rc;
}

int train_log_open(struct train *t, struct err *err)
{
    const struct train_run *run = t->run;
    struct stat st;
    off_t end = 0;
    int rc = 0;

    if (train_metrics_open(t, err))
        return -1;
    if (run->log && strcmp(run->log, "-") == 0) {
        train_progress_open(t);
        return 0;
    }
    char *path = run->log ? mem_dup(run->log) : io_join(t->home, "log.jsonl");
    if (io_open_log(path, run->log != NULL, &t->log, err))
        rc = -1;
    else if (fstat(fileno(t->log), &st) == 0 && S_ISREG(st.st_mode)) {
        if (run->log && st.st_size && !run->resume && !run->force)
            rc = err_set(err, ERR_INPUT, "log '%s' exists, expected a new name (or --force)",
                         path);
        /* Keeps the lines of the steps before the resumed checkpoint. */
        else if (run->resume && find_end(t, t->log, path, &end, err))
            rc = -1;
        else if (ftruncate(fileno(t->log), end) || fseeko(t->log, 0, SEEK_END))
            rc = err_sys(err, "cannot truncate log '%s'", path);
    }
    mem_free(path);
    if (rc == 0)
        train_progress_open(t);
    return rc;
}

double train_mfu(const struct train *t, const struct engine_report *r)
{
    return r->flops / r->step_s / t->run->peak;
}

#define X_ROW(key, kind, group, prom, scale, help) {#key, #kind[0], group, prom, scale, help},
const struct train_metric_row train_metrics[TRAIN_METRICS_COUNT] = {TRAIN_METRICS(X_ROW)};
#undef X_ROW

static void log_set(struct train_record *m, enum train_metric i, double value)
{
    m->value[i] = value;
    m->now[i] = m->ever[i] = 1;
}

#define SET(key, value) log_set(m, TRAIN_METRIC_##key, value)

/* Fills the record of the finished step for the log, the metrics and the event file. */
static void fill_record(struct train *t, const struct engine_report *r, double lr)
{
    struct train_record *m = &t->record;

    memset(m->now, 0, sizeof m->now);
    SET(step, (double)t->step);
    SET(loss, r->loss);
    SET(grad_norm, r->grad_norm);
    SET(lr, lr);
    SET(tokens, (double)r->tokens);
    if (t->data.masked)
        SET(targets, (double)r->counted);
    SET(step_s, r->step_s);
    SET(tokens_per_s, (double)r->tokens / r->step_s);
    SET(compute_s, r->compute_s);
    SET(exposed_comm_s, r->exposed_s);
    SET(idle_s, r->idle_s);
    SET(update_s, r->update_s);
    SET(gather_wait_s, r->wait_s[STEP_GATHER]);
    SET(grads_wait_s, r->wait_s[STEP_REDUCE] + r->wait_s[STEP_CONVERT]);
    SET(sync_wait_s,
        r->wait_s[STEP_SYNC] + r->wait_s[STEP_OUTER_REDUCE] + r->wait_s[STEP_OUTER_GATHER]);
    if (t->plan.price.compute_s > 0)
        SET(bound_share, t->plan.price.bound_s / r->step_s);
    SET(slow_bytes, (double)r->slow_bytes);
    SET(fast_bytes, (double)r->fast_bytes);
    SET(state_bytes, (double)engine_state_bytes(t->engine));
    SET(buffer_bytes, (double)(engine_buffer_bytes(t->engine) + train_save_bytes(t)));
    SET(gflops, train_flops_per_s(t, r) * 1e-9);
    if (t->run->peak > 0)
        SET(mfu, train_mfu(t, r));
    SET(skipped, r->skipped);
    if (!isnan(t->save_s))
        SET(save_s, t->save_s);
    if (!isnan(t->eval_loss)) {
        SET(eval_loss, t->eval_loss);
        if (!isnan(t->eval_bits))
            SET(eval_bits_per_byte, t->eval_bits);
        SET(eval_s, t->eval_s);
    }
    if (t->trace_step && t->step == t->trace_step)
        SET(critical_path_s, t->path_s);
    if (t->step == t->resumed + 1)
        return;
    t->summed++;
    for (int i = 0; i < TRAIN_METRICS_COUNT; i++)
        t->sum[i] += m->now[i] ? m->value[i] : 0;
}

static void log_put_json(const struct train *t, FILE *out)
{
    const struct train_record *m = &t->record;
    struct jout j = {.file = out};

    jout_open(&j, NULL, '{');
    for (int i = 0; i < TRAIN_METRICS_COUNT; i++) {
        const struct train_metric_row *row = &train_metrics[i];
        if (!m->now[i])
            continue;
        if (row->kind == 'I')
            jout_int(&j, row->key, (int64_t)m->value[i]);
        else if (row->kind == 'B')
            jout_bool(&j, row->key, m->value[i] != 0);
        else
            jout_num(&j, row->key, m->value[i]);
    }
    if (t->run->exact && train_ends(t, t->step)) {
        char hash[17];
        snprintf(hash, sizeof hash, "%016" PRIx64, t->hash);
        jout_text(&j, "state_hash", hash);
    }
    jout_close(&j, '}');
}

static void put_line(struct train *t, FILE *out, const struct engine_report *r, double lr)
{
    double norm = isnan(r->grad_norm) ? NAN : r->grad_norm; /* not "-nan" */
    char eval[40] = "";

    if (t->lines++ == 0)
        fprintf(out,
                "#  step      loss  grad-norm        lr    step(s)  exposed(s)   tokens/s  "
                "GFLOP/s(rank 0)\n");
    if (!isnan(t->eval_loss))
        snprintf(eval, sizeof eval, "  evaluation %.5f", t->eval_loss);
    fprintf(out, "%7" PRId64 " %9.5f %10.4f %9.2e %10.4f %11.4f %10.0f %16.1f%s%s\n", t->step,
            r->loss, norm, lr, r->step_s, r->exposed_s, (double)r->tokens / r->step_s,
            train_flops_per_s(t, r) * 1e-9, eval,
            !r->skipped  ? ""
            : r->counted ? "  skipped: not finite"
                         : "  skipped: no target counts");
}

int train_log_step(struct train *t, const struct engine_report *r, double lr, struct err *err)
{
    int due = train_progress_step(t, r);

    fill_record(t, r, lr);
    train_metrics_step(t);
    if (t->log) {
        log_put_json(t, t->log);
        if (fflush(t->log) || ferror(t->log))
            return err_sys(err, "cannot write the log");
    }
    if (t->run->json || !t->log) {
        train_progress_clear(t);
        log_put_json(t, t->run->lines);
    } else if (due || r->skipped || !isnan(t->eval_loss) || !t->progress || !t->run->brief) {
        train_progress_clear(t);
        put_line(t, t->run->lines, r, lr);
    }
    if (fflush(t->run->lines) || ferror(t->run->lines)) {
        err_sys(err, "cannot write to standard output");
        __fpurge(t->run->lines); /* drop it, so that the error is not reported again at exit */
        clearerr(t->run->lines);
        return -1;
    }
    train_progress_show(t, r);
    return 0;
}

int train_log_close(struct train *t, struct err *err)
{
    FILE *log = t->log;

    train_progress_close(t);
    train_metrics_close(t);
    t->log = NULL;
    if (log && fclose(log))
        return err_sys(err, "cannot write the log");
    return 0;
}
