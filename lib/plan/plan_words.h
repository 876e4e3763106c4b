/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_PLAN_WORDS_H
#define PLAN_PLAN_WORDS_H

#include "base/err.h"
#include "dev/device.h"
#include "layout/layout.h"
#include "schedule/schedule.h"

/* The words of plans and of the options of the same names. */

/* A PaRO strategy: how each state is partitioned. */
struct plan_strategy {
    enum letter params, grads, optimizer;
};

/* Wire type between groups: as inside them, or int8 blocks (block8.h). */
enum plan_slow { PLAN_SLOW_SAME, PLAN_SLOW_INT8 };

/* "IIG" and aliases (ddp zero1 zero2 zero3 fsdp hsdp mics hfsdp), either case. */
int plan_strategy_parse(const char *text, struct plan_strategy *out, struct err *err);
const char *plan_strategy_name(struct plan_strategy s, char text[4]); /* returns text */
struct plan_strategy plan_strategy_at(int index); /* 0 .. 26, the order of the list */
/* A number of uses (struct plan), or "all". */
int plan_keep_parse(const char *text, int *out, struct err *err);
/* "same", "int8". */
int plan_slow_parse(const char *text, enum plan_slow *out, struct err *err);
const char *plan_slow_name(enum plan_slow slow);
/* "cpu", "cuda". */
int plan_device_parse(const char *text, enum device_kind *out, struct err *err);
const char *plan_device_name(enum device_kind device);
/* The algorithms that plans are priced for: ring, two-level, ho-ring; and auto. */
int plan_algo_parse(const char *text, enum schedule_algo *out, struct err *err);

#endif
