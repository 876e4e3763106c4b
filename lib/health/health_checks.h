/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_CHECKS_H
#define HEALTH_HEALTH_CHECKS_H

#include <stdint.h>

#include "health/health_data.h"
#include "health/health_nics.h"

/* What to do about a finding, the mildest first. */
enum health_action { HEALTH_MONITOR, HEALTH_RETEST, HEALTH_OPERATOR, HEALTH_ISOLATE };
const char *health_action_name(enum health_action a);

/* What the quick level knows of a port that is to have a link. */
struct health_seen {
    const struct health_nic *nic;
    int64_t losses_in_day; /* of the link; -1: nothing is remembered of the port */
};

/*
 * All checks, one row each.  The codes keep their meaning for ever: 1xx configuration, 2xx
 * link, 3xx rate, 4xx latency, 5xx data, 9xx the check itself.
 *
 * A row with `measure` is a whole check of the quick level: WARNING from `warn` on, CRITICAL
 * from `crit` on (0: never), in the words "HOST port 'NAME' SAYS 3 WHAT".  The findings of
 * other rows are made by the functions in health_judge.c's table and in health_quick.c.
 */
struct health_check {
    int code;         /* 301 is HC-301 */
    const char *name; /* the word for --disable; NULL: it cannot be disabled */
    enum health_action action;
    const char *text; /* "a port is slow" */
    unsigned levels;  /* bits of enum health_level that have nothing to do without this one */
    int read_twice;   /* the quick level reads the ports once more before it reports this */
    double (*measure)(const struct health_seen *s); /* NaN: unknown */
    double warn, crit;
    const char *says, *what;
};
extern const struct health_check health_checks[];       /* the last has code 0 */
const struct health_check *health_check_find(int code); /* NULL: there is none */
/* Whether a word, "errors" or "HC-203", means this code. */
int health_check_means(const char *word, int code);

/* Whether so many errors are a fault; packets -1 or 0: their number is unknown. */
int health_errors_are_many(int64_t errors, int64_t packets);

#endif
