/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_BASELINE_H
#define HEALTH_HEALTH_BASELINE_H

#include "health/health_data.h"

/* What is expected of a fabric: paro-baseline(5). */
struct health_baseline {
    int hosts;
    int64_t when_s;       /* when it was measured */
    int gpu;              /* from GPU to GPU, not between the hosts' memories */
    char **host;          /* owned */
    int *ranks;           /* [hosts], owned */
    double (*Bps)[2];     /* [hosts], owned; HEALTH_OUT, HEALTH_IN, on the commonest path */
    double (*spread)[2];  /* [hosts], owned: robust deviation of one sample, as a part of Bps */
    double *latency_s;    /* [hosts], owned; 0: not measured */
    double path_ratio[4]; /* of the rates on paths of a class, to the commonest's; 0: not met */
};
int health_baseline_read(struct health_baseline *b, const char *path, struct err *err);
/* What health_baseline_read does, of a text that is there; name is for messages. */
int health_baseline_parse(struct health_baseline *b, const char *name, const char *text,
                          int64_t bytes, struct err *err);
void health_baseline_release(struct health_baseline *b);
int health_baseline_find(const struct health_baseline *b, const char *host); /* -1: absent */
/* The same of all hosts of the data; owned by the caller. */
int *health_baseline_places(const struct health_baseline *b, const struct health_data *d);
/*
 * ERR_MISMATCH: it is of GPUs and the data are not, or the other way round; not all hosts of
 * the data are in it with as many ranks; names the first.
 */
int health_baseline_check(const struct health_baseline *b, const struct health_data *d,
                          struct err *err);

/* From samples, as YAML. */
void health_baseline_print(const struct health_data *d, FILE *out);
/*
 * The same into a file.  A file that is there is replaced only with `accept`: the level of a
 * fabric shifts by a decision, never by a run (ERR_MISMATCH names what would change).
 */
int health_baseline_write(const struct health_data *d, const char *path, int accept,
                          struct err *err);

#endif
