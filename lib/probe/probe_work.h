/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PROBE_PROBE_WORK_H
#define PROBE_PROBE_WORK_H

#include "kern/kern.h"
#include "probe/probe.h"

/*
 * Internal to probe/: matrix products to time, as the ranks of a training compute them, by the
 * kernels of their device.  A device failure is reported when the ranks agree
 * (probe_work_check); until then its timings are meaningless.
 */
struct probe_product {
    struct kern_product *run; /* owned */
    double flops;             /* per run */
    double times;             /* relative number of runs in a step */
    int queued;               /* runs queued in the next call of probe_work_some */
};

struct probe_work {
    struct device_queue *queue;    /* owned */
    struct kern kern;              /* owned, on queue */
    struct probe_product *product; /* [products], owned */
    int products;
    enum dtype type; /* operand type */
    /* In a step each product reads a fresh result of the previous one, and a weight or an
       activation that has left the cache, and writes elsewhere.  So there is one a, but several
       sets of b and c, of which each product takes the next. */
    void *a, *b;        /* [most], [sets * most], owned */
    float *c;           /* [sets * most], any type, owned */
    int64_t most, sets; /* most: elements of the largest matrix */
    int64_t set;        /* set for the next product */
};

/*
 * Collective: opens the requested products, or one product, equal on all ranks, that shows the
 * full rate of a processor or a GPU.  Each has been run once.
 */
int probe_work_open(struct probe_work *w, struct world *world,
                    const struct probe_settings *settings, struct err *err);
void probe_work_close(struct probe_work *w);
/* Runs a product `times` times, and waits for the last one. */
void probe_work_run(struct probe_work *w, int product, int times);
/* Runs it for about a millisecond, at least once, and waits; returns how often. */
int probe_work_some(struct probe_work *w, int product);
/* Collective: fails if a device has failed. */
int probe_work_check(const struct probe_work *w, struct world *world, struct err *err);

/* Collective: all sleep for a moment, so that the scheduler owes no rank more than the
   others. */
int probe_rest(struct world *world, struct err *err);
/*
 * Collective: sets *late, equal on every rank, if another round like those since start_s would
 * end after budget_s.
 */
int probe_late(struct world *world, double start_s, int rounds, double budget_s, int *late,
               struct err *err);

/*
 * Collective: measures the shares that ranks keep of both rates when they transfer and compute
 * at the same time: rate_left and compute_left of the levels that streams pass, given the rates
 * in t.  p has the space probe_left_space().
 */
int probe_left(struct probe *p, const struct probe_views *views, struct probe_work *work,
               struct topo *t, struct err *err);
int64_t probe_left_space(const struct groups *g);
/* Collective: measures use_lost_s of the levels that streams pass.  p has the space of
   probe_topo. */
int probe_uses(struct probe *p, const struct probe_views *views, struct probe_work *work,
               struct topo *t, struct err *err);

#endif
