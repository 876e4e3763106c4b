/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_VERDICT_H
#define HEALTH_HEALTH_VERDICT_H

#include "base/units.h"
#include "health/health_baseline.h"
#include "health/health_checks.h"
#include "health/health_data.h"

/* Derives a verdict from the measurements; deterministic: equal data give equal bytes. */
enum health_state { HEALTH_OK, HEALTH_WARNING, HEALTH_CRITICAL, HEALTH_UNKNOWN };
const char *health_state_name(enum health_state s); /* "OK", "WARNING", ... */
int health_state_rank(enum health_state s);         /* OK < UNKNOWN < WARNING < CRITICAL */
enum health_state health_worse(enum health_state a, enum health_state b);

/*
 * A range in the monitoring plugins' grammar, "[@]start:end": it alerts outside start..end
 * (both ends belong to it), with "@" inside.  "10" is 0:10, "10:" has no end, "~:10" no start.
 */
struct health_range {
    double start, end; /* infinite if open */
    int inside;
};
int health_range_parse(const char *text, struct health_range *out, struct err *err);
int health_range_alerts(const struct health_range *r, double v);
/* Checks the texts of two ranges; NULL: not given, not checked.  ERR_INPUT: `crit` alerts at
   some value >= 0 at which `warn` does not. */
int health_range_check(const char *warn, const char *crit, struct err *err);
/* Parses a range for rates in percent of the expected one.  ERR_INPUT also: it alerts at 100,
   or not at 0. */
int health_range_parse_rate(const char *text, struct health_range *out, struct err *err);

struct health_rules {
    struct health_range warn, crit;           /* percent of a rate's expectation */
    struct health_range late_warn, late_crit; /* percent of the expected latency */
    const struct health_baseline *baseline;   /* NULL: hosts are compared with each other */
};
/* Sets defaults: 96: and 75:, latency ~:200 and ~:500, no baseline. */
void health_rules_init(struct health_rules *r);
/* Returns the state of a rate's percentage: OK, which is 0, inside both ranges; either may be
   the narrower. */
enum health_state health_rules_state(const struct health_rules *r, double percent);
/*
 * Returns the fewest decimals, `least` or more, with which v prints differently from every end
 * of the two ranges, times `unit`: the printed value is then on v's side of a threshold.
 */
int health_rules_decimals(const struct health_rules *r, double v, double unit, int least);
/* Writes "95 %", or "95.6 %" where "96 %" would be the threshold. */
const char *health_percent(struct units *u, const struct health_rules *r, double percent);

struct health_port {
    int samples;          /* samples judged; 0: unknown */
    double Bps, want_Bps; /* measured, expected */
    double percent;       /* median percentage of its streams' expectation */
    double z;             /* standard errors of that median below the expectation */
    enum health_state state;
    const char *pardon; /* static: why it is OK outside a range; NULL: it is inside */
};

/* A finding with its evidence: unknown numbers are NaN, counts -1. */
struct health_finding {
    enum health_state state;
    int code; /* 301 */
    enum health_action action;
    int host, other;                  /* -1: none; other: second host of a pair */
    int rank, way;                    /* -1: none; HEALTH_OUT, HEALTH_IN; both directions: -1 */
    char link[HEALTH_LINK_NAME];      /* "": none */
    double measured, expected, peers; /* Bps or s: this one, expected, peers' median */
    double percent, z;
    int confirmed;              /* 1: counted, or measured again with the same result */
    int samples, partners, saw; /* partners measured with, and those that saw it */
    char text[256];             /* one line, no full stop */
};

struct health_verdict {
    int hosts;
    struct health_port (*port)[2]; /* [hosts], owned */
    int findings;
    struct health_finding *finding; /* owned; in fixed order: by code, host, other, ... */
    size_t space;
    enum health_state state; /* the worst finding's */
    int by_baseline;
    int percent_only; /* 1: fewer than HEALTH_PEERS_LEAST peers: no z among them */
};

/*
 * Judges the data.  A port is slow if its median is outside the range AND deviates by more
 * standard errors than chance explains for this number of ports AND most of its partners see it
 * AND the confirmation sees it again; streams of a slow port do not count for their other ends.
 * The derivations are in health_ends.c.  ERR_INPUT: nothing to compare with;
 * ERR_MISMATCH: another fabric's baseline.
 */
int health_judge(const struct health_data *d, const struct health_rules *rules,
                 struct health_verdict *out, struct err *err);
void health_verdict_release(struct health_verdict *v);
void health_verdict_add(struct health_verdict *v, const struct health_finding *f);
/* Adds a finding about this host (-1: none); the result, for setting its numbers, is valid
   until the next is added. */
struct health_finding *health_verdict_addf(struct health_verdict *v, enum health_state state,
                                           int code, int host, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* Sorts into the fixed order; health_judge has done so. */
void health_verdict_sort(struct health_verdict *v);
/* Returns a finding about no host, without numbers, with its code's action. */
struct health_finding health_finding_new(enum health_state state, int code);

/*
 * The next measurements: rounds in which every host sends to one other and receives from one.
 * First the rounds of the level; then, as long as there are suspicions, rounds that confirm or
 * clear them (with all hosts loaded as before); none when nothing is left.  It depends on the
 * data alone, so a replay gives the same plan.  Results of a round are recorded with stage =
 * plan.stage and round = the number of rounds run before it.
 */
struct health_plan {
    int rounds, hosts;
    enum health_stage stage;
    int *dst; /* [rounds * hosts], owned: receiver of each host, -1: none */
};
int health_plan(const struct health_data *d, const struct health_rules *rules,
                struct health_plan *out, struct err *err);
void health_plan_release(struct health_plan *p);
/*
 * Returns the partner of k in round r of n - 1 of the circle method among n, an even number: n
 * - 1 stays and the others rotate.
 */
int health_plan_circle(int k, int r, int n);
enum { HEALTH_HOSTS_ALONE = 3, HEALTH_PEERS_LEAST = 5, HEALTH_SAMPLES_LEAST = 15 };

#endif
