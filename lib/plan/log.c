/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how a run's log is read (JSON Lines of paro-train(1)): line by line, since a log has as
 * many as the run had steps, and none longer than a step can be.
 */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/jtree.h"
#include "base/mem.h"
#include "plan/log.h"

/* As many as a run may be asked for. */
static const double STEP_MAX = 1e12;

static const char *const keys[PLAN_LOG_COLUMNS] = {
    "step_s",     "compute_s",   "exposed_comm_s", "tokens_per_s", "slow_bytes",
    "fast_bytes", "state_bytes", "loss",           "eval_loss",    "step"};

const char *plan_measure_key(enum plan_measure measure)
{
    return keys[measure];
}

static int read_measure(json_t *v, double *out)
{
    *out = json_number_value(v);
    return json_is_number(v) && *out >= 0 ? 0 : -1;
}

static int read_loss(json_t *v, double *out)
{
    *out = json_is_number(v) ? json_number_value(v) : NAN;
    return !v || json_is_null(v) || json_is_number(v) ? 0 : -1;
}

static int read_step(const struct plan_log *l, json_t *v, const char *name, int line,
                     double *out, struct err *err)
{
    double last = l->steps ? l->v[PLAN_STEP][l->steps - 1] : 0;

    *out = json_number_value(v);
    if (!json_is_integer(v) || *out < 1 || *out > STEP_MAX)
        return err_at(err, name, line, keys[PLAN_STEP],
                      "is missing or not a whole number from 1 to 1e12");
    if (*out <= last)
        return err_at(err, name, line, keys[PLAN_STEP],
                      "is %.0f after step %.0f, expected a later step", *out, last);
    return 0;
}

static int read_numbers(const struct plan_log *l, json_t *o, const char *name, int line,
                        double v[PLAN_LOG_COLUMNS], struct err *err)
{
    for (int i = 0; i < PLAN_MEASURES; i++)
        if (read_measure(json_object_get(o, keys[i]), &v[i]))
            return err_at(err, name, line, keys[i], "is missing or not a number from 0 on");
    for (int i = PLAN_LOSS; i <= PLAN_EVAL_LOSS; i++)
        if (read_loss(json_object_get(o, keys[i]), &v[i]))
            return err_at(err, name, line, keys[i], "is neither a number nor null");
    return read_step(l, json_object_get(o, keys[PLAN_STEP]), name, line, &v[PLAN_STEP], err);
}

static int read_object(struct plan_log *l, json_t *o, const char *name, int line,
                       struct err *err)
{
    double v[PLAN_LOG_COLUMNS];
    size_t n = (size_t)l->steps;

    if (!json_is_object(o))
        return err_at(err, name, line, NULL,
                      "is not an object, expected a step of a run's log");
    if (l->steps == PLAN_LOG_STEPS_MAX)
        return err_at(err, name, line, NULL, "has more than %d steps, expected fewer",
                      PLAN_LOG_STEPS_MAX);
    if (read_numbers(l, o, name, line, v, err))
        return -1;
    for (int i = 0; i < PLAN_LOG_COLUMNS; i++) {
        l->v[i] = mem_grow(l->v[i], &l->room[i], n + 1, sizeof *l->v[i]);
        l->v[i][n] = v[i];
    }
    l->skipped = mem_grow(l->skipped, &l->room[PLAN_LOG_COLUMNS], n + 1, 1);
    l->skipped[n] = json_is_true(json_object_get(o, "skipped"));
    l->exact |= json_object_get(o, "state_hash") != NULL;
    l->steps++;
    return 0;
}

static int read_line(struct plan_log *l, const char *text, size_t bytes, const char *name,
                     int line, struct err *err)
{
    json_error_t why;
    json_t *o = jtree_load(text, (int64_t)bytes, &why);

    if (!o)
        return err_at(err, name, line, NULL, "is not JSON: %s", why.text);
    int rc = read_object(l, o, name, line, err);
    json_decref(o);
    return rc;
}

/* A line from the next byte on, its end included; at most `most` bytes of it. */
static size_t next_line(FILE *f, char *text, size_t most)
{
    size_t n = 0;

    for (int c; n < most && (c = getc(f)) != EOF;) {
        text[n++] = (char)c;
        if (c == '\n')
            break;
    }
    return n;
}

static int read_stream(struct plan_log *l, FILE *f, const char *name, struct err *err)
{
    size_t most = PLAN_LOG_LINE_MAX + 1; /* one more tells that it is too long */
    char *text = mem_new(most, 1);
    struct plan_log new = {0};
    int rc = 0, line = 0;

    for (size_t n; rc == 0 && (n = next_line(f, text, most)) > 0;) {
        line++;
        if (n == most)
            rc = err_at(err, name, line, NULL, "has more than %d bytes, expected a step",
                        PLAN_LOG_LINE_MAX);
        else if (text[n - 1] == '\n')
            rc = read_line(&new, text, n, name, line, err);
    }
    if (rc == 0 && ferror(f))
        rc = err_sys(err, "cannot read log '%s'", name);
    mem_free(text);
    if (rc)
        plan_log_release(&new);
    else
        *l = new;
    return rc;
}

int plan_log_read(struct plan_log *l, const char *path, struct err *err)
{
    FILE *f = fopen(path, "re");

    if (!f)
        return err_sys(err, "cannot open log '%s'", path);
    int rc = read_stream(l, f, path, err);
    fclose(f);
    return rc;
}

int plan_log_parse(struct plan_log *l, const char *name, const char *text, int64_t bytes,
                   struct err *err)
{
    /* A stream over no bytes at all is none to fmemopen. */
    FILE *f = bytes > 0 ? fmemopen((void *)(uintptr_t)text, (size_t)bytes, "re") : NULL;

    if (!f) {
        *l = (struct plan_log){0};
        return bytes > 0 ? err_sys(err, "cannot read log '%s'", name) : 0;
    }
    int rc = read_stream(l, f, name, err);
    fclose(f);
    return rc;
}

void plan_log_release(struct plan_log *l)
{
    for (int i = 0; i < PLAN_LOG_COLUMNS; i++)
        mem_free(l->v[i]);
    mem_free(l->skipped);
    *l = (struct plan_log){0};
}
