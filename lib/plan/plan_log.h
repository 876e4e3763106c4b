/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_PLAN_LOG_H
#define PLAN_PLAN_LOG_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

/*
 * A run's log (paro-train(1)): JSON Lines, an object a step, steps ascending.  Numbers that
 * nobody asks for are not kept.
 */
enum plan_measure {
    PLAN_STEP_S, /* rank 0's */
    PLAN_COMPUTE_S,
    PLAN_EXPOSED_S, /* step less compute, as predicted */
    PLAN_TOKENS_PER_S,
    PLAN_SLOW_BYTES,
    PLAN_FAST_BYTES,
    PLAN_STATE_BYTES,            /* rank 0's */
    PLAN_MEASURES,               /* up to here every step has them */
    PLAN_IDLE_S = PLAN_MEASURES, /* NAN where it is null or absent, as all before PLAN_STEP */
    PLAN_UPDATE_S,
    PLAN_GATHER_S, /* waited for gathers, for gradients, for parameter syncs */
    PLAN_GRADS_S,
    PLAN_SYNC_S,
    PLAN_SAVE_S, /* where a checkpoint was begun */
    PLAN_LOSS,   /* up to here numbers from 0 on */
    PLAN_EVAL_LOSS,
    PLAN_STEP,
    PLAN_LOG_COLUMNS
};

enum { PLAN_LOG_LINE_MAX = 1 << 16, PLAN_LOG_STEPS_MAX = 1 << 24 };

struct plan_log {
    double *v[PLAN_LOG_COLUMNS]; /* [steps], owned */
    char *skipped;               /* [steps], owned: whether no rank updated */
    size_t space[PLAN_LOG_COLUMNS + 1];
    int steps;
    int exact; /* a hash stands beside a step: its sums were exact */
};

/* A last line without its end is left out: the run may go on. */
int plan_log_read(struct plan_log *l, const char *path, struct err *err);
int plan_log_read_stream(struct plan_log *l, FILE *f, const char *name, struct err *err);
void plan_log_release(struct plan_log *l);
const char *plan_measure_key(enum plan_measure measure); /* "step_s": in a log */

#endif
