/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_BASELINE_H
#define HEALTH_HEALTH_BASELINE_H

#include "health/health_data.h"
#include "health/health_store.h"

/* A baseline: the rates expected of a fabric, paro-baseline(5). */
struct health_ratio { /* rates on paths of a class, relative to the most common class */
    int path;         /* health_path */
    double ratio;
};
struct health_baseline {
    int64_t when_s; /* time of the measurement */
    int gpu;        /* 1: from GPU to GPU; 0: between the hosts' memories */
    int hosts;
    struct health_expected { /* a host's port, on the most common class of paths */
        char host[HEALTH_NAME];
        int ranks;
        double Bps[2];    /* HEALTH_OUT, HEALTH_IN */
        double spread[2]; /* robust deviation of one sample, relative to Bps */
        double latency_s; /* 0: not measured */
    } * port;             /* [hosts], owned */
    size_t space;
    HEALTH_LIST(struct health_ratio, paths); /* owned */
    double path_ratio[HEALTH_PATHS];         /* paths by class; 0: not measured */
};

extern const struct health_store health_baseline_store; /* its file format */

void health_baseline_release(struct health_baseline *b);
/* Returns for each host of the data its index in b->port, or -1; owned by the caller. */
int *health_baseline_places(const struct health_baseline *b, const struct health_data *d);
/*
 * ERR_MISMATCH if baseline and data differ in being of GPUs, or if a host of the data is
 * missing or has another number of ranks; names the first.
 */
int health_baseline_check(const struct health_baseline *b, const struct health_data *d,
                          struct err *err);
/* Learns a baseline from samples; released by the caller. */
struct health_baseline health_baseline_learn(const struct health_data *d);
/* Prints the learned baseline. */
void health_baseline_print(const struct health_data *d, FILE *out);
/*
 * Writes the learned baseline to a file.  An existing file is replaced only with `accept`: the
 * expected level changes by a decision, never by a run (ERR_MISMATCH names the largest change).
 */
int health_baseline_write(const struct health_data *d, const char *path, int accept,
                          struct err *err);

#endif
