/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_H
#define HEALTH_HEALTH_H

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "world/world.h"

/*
 * Is the network of these hosts as it should be?  Streams between hosts are measured in rounds
 * in which no port is shared (probe/probe.h), compared with a baseline or with each other, and
 * a verdict is spoken as the monitoring plugins do.
 */
enum health_state { HEALTH_OK, HEALTH_WARNING, HEALTH_CRITICAL, HEALTH_UNKNOWN };
const char *health_state_name(enum health_state s); /* "OK", "WARNING", ... */

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

/* ---- what was measured ---- */

struct health_sample {
    int src, dst; /* hosts */
    double Bps;
};

struct health_data {
    int hosts;
    const char *const *host; /* borrowed */
    int samples;
    struct health_sample *sample; /* owned */
    size_t room;
    double *drain_Bps; /* [hosts], owned: how fast the host's own queue towards the network
                          empties while bytes wait in it (headers included); 0: none ever wait;
                          -1: the kernel does not tell */
    char (*lost)[16];  /* [hosts], owned: a link that was up at the start and is not, or "" */
    int *silent;       /* [hosts], owned: does not answer */
    int stalled;       /* the rounds ended because bytes did not come */
    int64_t wrong;     /* words that arrived and are not what was sent */
    int wrong_src, wrong_dst;
    int rounds, wanted; /* done, and to do */
    double seconds;
};
void health_data_init(struct health_data *d, int hosts, const char *const *host);
void health_data_release(struct health_data *d);
void health_data_add(struct health_data *d, int src, int dst, double Bps);

/* ---- what is expected: paro-baseline(5) ---- */

enum { HEALTH_OUT, HEALTH_IN };

struct health_baseline {
    int hosts;
    char **host;         /* owned */
    double (*Bps)[2];    /* [hosts], owned; HEALTH_OUT, HEALTH_IN */
    double (*spread)[2]; /* [hosts], owned: robust deviation of one sample, as a part of Bps */
};
int health_baseline_read(struct health_baseline *b, const char *path, struct err *err);
void health_baseline_release(struct health_baseline *b);
/* From samples; as YAML. */
void health_baseline_print(const struct health_data *d, FILE *out);
int health_baseline_find(const struct health_baseline *b, const char *host); /* -1: absent */

/* ---- the verdict ---- */

struct health_port {
    int samples;          /* that were judged; 0: nothing is known */
    double Bps, want_Bps; /* measured, expected */
    double percent;       /* of what was expected of its streams, the median */
    double z;             /* how many standard deviations of that median from 100 % */
    enum health_state state;
};

struct health_finding {
    enum health_state state;
    const char *code, *action; /* HC-..., and what to do: retest, operator, isolate */
    int host, other;           /* other: the second host of a pair, or -1 */
    char text[256];
};

struct health_verdict {
    int hosts;
    struct health_port (*port)[2]; /* [hosts], owned */
    int findings;
    struct health_finding *finding; /* owned */
    size_t room;
    enum health_state state; /* the worst: CRITICAL, WARNING, UNKNOWN, OK */
    int by_baseline;
};

struct health_rules {
    struct health_range warn, crit;         /* of percent */
    const struct health_baseline *baseline; /* NULL: hosts are compared with each other */
};

/*
 * A port is slow when its median is outside the range AND more than HEALTH_Z standard
 * deviations away AND most of its partners see it (health.md, rule D); streams of a port that
 * is slow say nothing of their other ends.  Deterministic.  ERR_INPUT: a host is not in the
 * baseline, or there are too few hosts to compare.
 */
int health_judge(const struct health_data *d, const struct health_rules *rules,
                 struct health_verdict *out, struct err *err);
void health_verdict_release(struct health_verdict *v);
void health_verdict_add(struct health_verdict *v, const struct health_finding *f);
/* Takes out of v what `again`, a second look, does not confirm. */
void health_confirm(struct health_verdict *v, const struct health_verdict *again);

enum { HEALTH_HOSTS_ALONE = 3, HEALTH_PEERS_LEAST = 5 };
#define HEALTH_Z 5.0

/* ---- the check ---- */

enum health_level { HEALTH_QUICK, HEALTH_NORMAL, HEALTH_DEEP };
int health_level_parse(const char *text, enum health_level *out, struct err *err);

struct health_options {
    struct health_range warn, crit;
    double deadline_s; /* from start_s (tick_now_s) */
    double start_s;
    enum health_level level;
    const char *baseline; /* file or NULL */
    const char *prom;     /* file or NULL */
    int learn, json;
};
void health_options_init(struct health_options *o);

/*
 * Collective.  Measures, judges and prints on `out` (rank 0).  *state is right on rank 0 alone.
 * *gone: some host does not answer, so that world_close would wait in vain.  `where` is told
 * what goes on, for whoever watches the clock.
 */
int health_check(struct world *w, const struct health_options *o, const char *volatile *where,
                 FILE *out, enum health_state *state, int *gone, struct err *err);

/* One host, without MPI: links and their error counters under `sys`, "/sys/class/net". */
int health_quick(const struct health_options *o, const char *sys, FILE *out,
                 enum health_state *state, struct err *err);

#endif
