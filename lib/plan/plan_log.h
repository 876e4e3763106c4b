/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_PLAN_LOG_H
#define PLAN_PLAN_LOG_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

/*
 * A run's log (paro-train(1)): JSON Lines, an object per step, steps ascending.  Other numbers
 * in it are ignored.
 */
enum plan_measure {
    PLAN_STEP_S, /* rank 0's */
    PLAN_COMPUTE_S,
    PLAN_EXPOSED_S, /* step less compute, as predicted */
    PLAN_TOKENS_PER_S,
    PLAN_SLOW_BYTES,
    PLAN_FAST_BYTES,
    PLAN_STATE_BYTES,            /* rank 0's */
    PLAN_MEASURES,               /* every step has the ones so far */
    PLAN_IDLE_S = PLAN_MEASURES, /* from here on NAN if null or absent, but for PLAN_STEP */
    PLAN_UPDATE_S,
    PLAN_GATHER_S, /* waits for gathers, for gradients, for parameter syncs */
    PLAN_GRADS_S,
    PLAN_SYNC_S,
    PLAN_SAVE_S, /* if the step begins a checkpoint */
    PLAN_LOSS,   /* numbers so far are 0 or more */
    PLAN_EVAL_LOSS,
    PLAN_STEP,
    PLAN_LOG_COLUMNS
};

enum { PLAN_LOG_LINE_MAX = 1 << 16, PLAN_LOG_STEPS_MAX = 1 << 24 };

struct plan_log {
    double *v[PLAN_LOG_COLUMNS]; /* [steps], owned */
    char *skipped;               /* [steps], owned: 1 if no rank updated */
    size_t space[PLAN_LOG_COLUMNS + 1];
    int steps;
    int exact; /* 1: a hash accompanies a step, so its sums were exact */
};

/* Reads a log.  An unterminated last line is ignored: the run may still be writing it. */
int plan_log_read(struct plan_log *l, const char *path, struct err *err);
int plan_log_read_stream(struct plan_log *l, FILE *f, const char *name, struct err *err);
void plan_log_release(struct plan_log *l);
const char *plan_measure_key(enum plan_measure measure); /* key in the log: "step_s" */

#endif
