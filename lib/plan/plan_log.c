/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads a run's log (JSON Lines of paro-train(1)) line by line, because it has a line per step;
 * a line's length is bounded.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "value/value_tree.h"
#include "plan/plan_log.h"

/* Largest number of steps that a run accepts. */
static const double STEP_MAX = 1e12;

static const char *const keys[PLAN_LOG_COLUMNS] = {
    "step_s",     "compute_s",     "exposed_comm_s", "tokens_per_s",
    "slow_bytes", "fast_bytes",    "state_bytes",    "idle_s",
    "update_s",   "gather_wait_s", "grads_wait_s",   "sync_wait_s",
    "save_s",     "loss",          "eval_loss",      "step"};

const char *plan_measure_key(enum plan_measure measure)
{
    return keys[measure];
}

static int log_read_numbers(const struct plan_log *l, const struct tree *t,
                            double v[PLAN_LOG_COLUMNS], struct err *err)
{
    double last = l->steps ? l->v[PLAN_STEP][l->steps - 1] : 0;

    for (int i = 0; i < PLAN_LOG_COLUMNS; i++) {
        double least = i < PLAN_LOSS ? 0 : i == PLAN_STEP ? 1 : -DBL_MAX;
        v[i] = NAN;
        if (tree_once(t, t->root, keys[i], err) ||
            tree_f64(t, tree_get(t->root, keys[i]), least, i == PLAN_STEP ? STEP_MAX : DBL_MAX,
                     &v[i], err))
            return -1;
        if (isnan(v[i]) && (i < PLAN_MEASURES || i == PLAN_STEP))
            return tree_fail(t, t->root, keys[i], err, "is missing, expected a number");
    }
    if (v[PLAN_STEP] != floor(v[PLAN_STEP]) || v[PLAN_STEP] <= last)
        return tree_fail(t, t->root, keys[PLAN_STEP], err,
                         "is %g after step %.0f, expected a later one, a whole number from 1"
                         " on",
                         v[PLAN_STEP], last);
    return 0;
}

static int read_step(struct plan_log *l, const struct tree *t, struct err *err)
{
    double v[PLAN_LOG_COLUMNS];
    size_t n = (size_t)l->steps;
    int skipped = 0;

    if (t->root->kind != TREE_MAP)
        return tree_fail(t, t->root, NULL, err,
                         "is not an object, expected a step of a run's log");
    if (l->steps == PLAN_LOG_STEPS_MAX)
        return tree_fail(t, t->root, NULL, err, "has more than %d steps, expected fewer",
                         PLAN_LOG_STEPS_MAX);
    if (log_read_numbers(l, t, v, err) ||
        tree_bool(t, tree_get(t->root, "skipped"), &skipped, err))
        return -1;
    for (int i = 0; i < PLAN_LOG_COLUMNS; i++) {
        l->v[i] = mem_grow(l->v[i], &l->space[i], n + 1, sizeof *l->v[i]);
        l->v[i][n] = v[i];
    }
    l->skipped = mem_grow(l->skipped, &l->space[PLAN_LOG_COLUMNS], n + 1, 1);
    l->skipped[n] = (char)skipped;
    l->exact |= tree_get(t->root, "state_hash") != NULL;
    l->steps++;
    return 0;
}

/* Reads a line, its end included, but at most `most` bytes of it. */
static size_t log_next_line(FILE *f, char *text, size_t most)
{
    size_t n = 0;

    for (int c; n < most && (c = getc(f)) != EOF;) {
        text[n++] = (char)c;
        if (c == '\n')
            break;
    }
    return n;
}

static int log_read_line(struct plan_log *l, const char *text, size_t bytes, const char *name,
                         int line, struct err *err)
{
    struct tree t;

    if (tree_parse_json(&t, name, line, text, (int64_t)bytes, err))
        return -1;
    int rc = read_step(l, &t, err);
    tree_release(&t);
    return rc;
}

int plan_log_read_stream(struct plan_log *l, FILE *f, const char *name, struct err *err)
{
    size_t most = PLAN_LOG_LINE_MAX + 1; /* one more byte shows that it is too long */
    char *text = mem_new(most, 1);
    struct plan_log new = {0};
    int rc = 0, line = 0;

    for (size_t n; rc == 0 && (n = log_next_line(f, text, most)) > 0;) {
        line++;
        if (n == most)
            rc = err_at(err, name, line, NULL, "has more than %d bytes, expected a step",
                        PLAN_LOG_LINE_MAX);
        else if (text[n - 1] == '\n')
            rc = log_read_line(&new, text, n - 1, name, line, err);
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
    int rc = plan_log_read_stream(l, f, path, err);
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
