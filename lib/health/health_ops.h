/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_OPS_H
#define HEALTH_HEALTH_OPS_H

#include "health/health_config.h"
#include "health/health_memory.h"

/* How a check lives beside others of its kind: what it knows of itself, and who is told. */
struct health_ops {
    char host[HEALTH_HOST_NAME];  /* this one */
    int64_t now_s;                /* since 1970; of a run that was measured, its own counts */
    const char *state;            /* folder; NULL: nothing is remembered */
    struct health_memory *memory; /* borrowed; opened by who checks, where there is a folder */
    int notify;                   /* only what is new is printed */
    double remind_s;              /* and what is not, so often; 0: never */
    int verbose;                  /* 0 to 3 */
    int suggest;                  /* the scheduler's line is printed, and nothing done */
    int accept;                   /* as things are now they should be */
    int force;                    /* beside a job, and under any load */
    double max_load;              /* per core, of the last minute; 0: any */
    const char *jobs;             /* our own job's number (Slurm's), or NULL */
    const char *svg;              /* file, "-": instead of the line, or NULL */
    const char *sys, *proc;       /* "/sys", "/proc" */
    struct health_config config;
};
void health_ops_init(struct health_ops *o);
/* "change", "change,remind=12h" */
int health_ops_parse_notify(struct health_ops *o, const char *text, struct err *err);
/* Opens o->memory where o->state names a folder: a file for quick checks of a host, one for
 * rounds and one for those of GPUs.  Of d only what it is of counts.  Errors are
 * health_memory_open's. */
int health_ops_open(const struct health_ops *o, const struct health_data *d, struct err *err);

/*
 * Whether this host does something else: another job of Slurm's runs on it (its cgroups under
 * SYS/fs/cgroup), or PROC/loadavg is above the limit.  "" when it does not, or with o->force.
 */
void health_ops_busy(const struct health_ops *o, char why[96]);

struct health_word {
    char text[400];
};

/* What is new since the last time that something was said. */
struct health_news {
    int changed, due; /* something is; nothing is, and it is time to say it again */
    HEALTH_LIST(struct health_word, fresh); /* owned: "WARNING HC-204 ...", new or changed */
    HEALTH_LIST(struct health_word, clear); /* owned: "HC-201 ... (since ..., 25 min)" */
};
void health_news_release(struct health_news *n);

/* A CRITICAL that no second look confirmed needs two runs; nothing is cleared sooner. */
enum { HEALTH_STICKY_S = 600 };

/*
 * What is said of a run in the light of those before it: v's findings get their spoken states,
 * what was spoken and is not seen any more is added for HEALTH_STICKY_S.  `measured` 0: the run
 * says nothing of what it did not find.
 */
void health_settle(struct health_memory *m, const struct health_data *d,
                   struct health_verdict *v, const struct health_ops *o, int measured,
                   struct health_news *news);
/* It has been printed. */
void health_settle_told(struct health_memory *m, const struct health_verdict *v, int64_t now_s);

/* Takes out what is switched off or known noise; how many of each. */
void health_filter(const struct health_data *d, struct health_verdict *v,
                   const struct health_ops *o, int *ignored);

/* "scontrol update NodeName=..."; -1 where nobody should be drained for this. */
int health_suggest(const struct health_data *d, const struct health_finding *f, char *to,
                   size_t room);

#endif
