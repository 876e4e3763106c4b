/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_BASELINE_H
#define HEALTH_HEALTH_BASELINE_H

#include "health/health_data.h"
#include "health/health_store.h"

/* Describes the rates expected of a fabric: paro-baseline(5). */
struct health_ratio { /* of the rates on paths of a class to those on the most common class */
    int path;         /* health_path */
    double ratio;
};
struct health_baseline {
    int64_t when_s; /* when it was measured */
    int gpu;        /* from GPU to GPU, not between the hosts' memories */
    int hosts;
    struct health_expected { /* of a host's port, on the most common class of paths */
        char host[HEALTH_NAME];
        int ranks;
        double Bps[2];    /* HEALTH_OUT, HEALTH_IN */
        double spread[2]; /* robust deviation of one sample, as a part of Bps */
        double latency_s; /* 0: not measured */
    } * port;             /* [hosts], owned */
    size_t space;
    HEALTH_LIST(struct health_ratio, paths); /* owned */
    double path_ratio[HEALTH_PATHS];         /* the same by class; 0: none was measured */
};

extern const struct health_store health_baseline_store; /* its file */

void health_baseline_release(struct health_baseline *b);
/* For each host of the data its place in b->port, or -1; owned by the caller. */
int *health_baseline_places(const struct health_baseline *b, const struct health_data *d);
/*
 * ERR_MISMATCH: it is of GPUs and the data are not, or the other way round; not all hosts of
 * the data are in it with as many ranks; names the first.
 */
int health_baseline_check(const struct health_baseline *b, const struct health_data *d,
                          struct err *err);
/* From samples; released by the caller. */
struct health_baseline health_baseline_learn(const struct health_data *d);
/* From samples, as text. */
void health_baseline_print(const struct health_data *d, FILE *out);
/*
 * From samples, into a file.  An existing file is replaced only with `accept`: the level of a
 * fabric shifts by a decision, never by a run (ERR_MISMATCH names the largest change).
 */
int health_baseline_write(const struct health_data *d, const char *path, int accept,
                          struct err *err);

#endif
