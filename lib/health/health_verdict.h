/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_VERDICT_H
#define HEALTH_HEALTH_VERDICT_H

#include "base/units.h"
#include "health/health_baseline.h"
#include "health/health_checks.h"
#include "health/health_data.h"

/* Concludes a verdict from the measurements; deterministic: the same data, the same bytes. */
enum health_state { HEALTH_OK, HEALTH_WARNING, HEALTH_CRITICAL, HEALTH_UNKNOWN };
const char *health_state_name(enum health_state s); /* "OK", "WARNING", ... */
int health_state_rank(enum health_state s);         /* OK < UNKNOWN < WARNING < CRITICAL */
enum health_state health_worse(enum health_state a, enum health_state b);

/*
 * A range of the monitoring plugins' grammar, "[@]start:end": it alerts outside start..end
 * (both ends belong to it), with "@" inside.  "10" is 0:10, "10:" has no end, "~:10" no start.
 */
struct health_range {
    double start, end; /* infinite where open */
    int inside;
};
int health_range_parse(const char *text, struct health_range *out, struct err *err);
int health_range_alerts(const struct health_range *r, double v);
/* ERR_INPUT: `crit` alerts at some value from 0 on where `warn` does not.  The texts of both;
 * NULL: not given, and not judged. */
int health_range_check(const char *warn, const char *crit, struct err *err);
/* For rates in percent of the expected one.  ERR_INPUT also: it alerts at 100, or not at 0. */
int health_range_parse_rate(const char *text, struct health_range *out, struct err *err);

struct health_rules {
    struct health_range warn, crit;           /* of percent of what is expected of a rate */
    struct health_range late_warn, late_crit; /* of percent of the expected latency */
    const struct health_baseline *baseline;   /* NULL: hosts are compared with each other */
};
/* 96: and 75:, latency ~:200 and ~:500, no baseline. */
void health_rules_init(struct health_rules *r);
/* For a rate's percentage: OK, which is 0, inside both ranges; either may be the narrower. */
enum health_state health_rules_state(const struct health_rules *r, double percent);
/*
 * The fewest decimals, `least` or more, with which v prints otherwise than every end of the two
 * ranges, times `unit`: what is printed is then on the side of a threshold that v is on.
 */
int health_rules_decimals(const struct health_rules *r, double v, double unit, int least);
/* "95 %", "95.6 %" where "96 %" would be the threshold. */
const char *health_percent(struct units *u, const struct health_rules *r, double percent);

struct health_port {
    int samples;          /* that were judged; 0: nothing is known */
    double Bps, want_Bps; /* measured, expected */
    double percent;       /* of what was expected of its streams, the median */
    double z;             /* how many standard errors of that median below what is expected */
    enum health_state state;
    const char *pardon; /* static: why it is OK outside a range; NULL: it is not */
};

/* Evidence: numbers that are not known are NaN, counts -1. */
struct health_finding {
    enum health_state state;
    int code; /* 301 */
    enum health_action action;
    int host, other;                  /* -1: none; other: the second host of a pair */
    int rank, way;                    /* -1: none; HEALTH_OUT, HEALTH_IN; both ways: -1 */
    char link[HEALTH_LINK_NAME];      /* "" none */
    double measured, expected, peers; /* Bps or s: this one, what it should, peers' median */
    double percent, z;
    int confirmed;              /* counted, or measured again with the same result */
    int samples, partners, saw; /* partners met, and those that saw it */
    char text[256];             /* one line, no full stop */
};

struct health_verdict {
    int hosts;
    struct health_port (*port)[2]; /* [hosts], owned */
    int findings;
    struct health_finding *finding; /* owned; in a fixed order: by code, host, other, ... */
    size_t space;
    enum health_state state; /* the worst finding's */
    int by_baseline;
    int percent_only; /* fewer than HEALTH_PEERS_LEAST peers: no z among them */
};

/*
 * A port is slow when its median is outside the range AND lies more standard errors off than
 * chance explains in so many ports AND most of its partners see it AND the confirmation sees it
 * again; streams of a port that is slow do not count for their other ends.  The derivations
 * are in health_ends.c.  ERR_INPUT: nothing to compare with; another fabric's baseline.
 */
int health_judge(const struct health_data *d, const struct health_rules *rules,
                 struct health_verdict *out, struct err *err);
void health_verdict_release(struct health_verdict *v);
void health_verdict_add(struct health_verdict *v, const struct health_finding *f);
/* A new one about this host (-1: none); returned for its numbers, until the next is added. */
struct health_finding *health_verdict_addf(struct health_verdict *v, enum health_state state,
                                           int code, int host, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
/* Into the fixed order; health_judge has done so. */
void health_verdict_sort(struct health_verdict *v);
/* A finding about nobody, whose numbers are not known, with its code's action. */
struct health_finding health_finding_new(enum health_state state, int code);

/*
 * The next measurements: rounds in which every host sends to one other and receives from
 * one.  First the rounds of the level; then, as long as there are suspicions, rounds that
 * confirm or clear them (all hosts are loaded in these too, as they were); none when all is
 * known.  A function of the data alone: a replay comes to the same.  What a round gives is
 * entered with stage = plan.stage and round = the number of rounds run before it.
 */
struct health_plan {
    int rounds, hosts;
    enum health_stage stage;
    int *dst; /* [rounds * hosts], owned: to whom the host sends, -1 to nobody */
};
int health_plan(const struct health_data *d, const struct health_rules *rules,
                struct health_plan *out, struct err *err);
void health_plan_release(struct health_plan *p);
/*
 * The partner of k in round r of n - 1 of the circle method among n, an even number: n - 1
 * stays and the others go round it.
 */
int health_plan_circle(int k, int r, int n);
enum { HEALTH_HOSTS_ALONE = 3, HEALTH_PEERS_LEAST = 5, HEALTH_SAMPLES_LEAST = 15 };

#endif
