/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PROBE_PROBE_WORK_H
#define PROBE_PROBE_WORK_H

#include "kern/kern.h"
#include "probe/probe.h"

/*
 * Inside probe/: matrix products to time, as the ranks of a training compute them, by the
 * kernels of their device.  A device that fails is told where the ranks agree
 * (probe_work_check); until then what it computes takes any time, or none.
 */
struct probe_product {
    struct kern_product *run; /* owned */
    double flops;             /* of one run */
    double times;             /* as often in a step, in proportion */
    int queued;               /* by probe_work_some, at the next call */
};

struct probe_work {
    struct device_queue *queue;    /* owned */
    struct kern kern;              /* owned, on queue */
    struct probe_product *product; /* [products], owned */
    int products;
    enum dtype type; /* of operands */
    /* Each product of a step reads what the one before has just written, a weight or an
       activation that has left the cache, and writes another: a is one, of b and c there are
       sets, of which each product takes the next. */
    void *a, *b;        /* [most], [sets * most], owned */
    float *c;           /* [sets * most], in any type, owned */
    int64_t most, sets; /* elements of the largest matrix */
    int64_t set;        /* of the next product */
};

/*
 * Collective: what is asked for, else one product, the same on all ranks, that shows the full
 * rate of a processor or a GPU.  Each has been run.
 */
int probe_work_open(struct probe_work *w, struct world *world,
                    const struct probe_settings *settings, struct err *err);
void probe_work_close(struct probe_work *w);
/* A product so many times, until the last is done. */
void probe_work_run(struct probe_work *w, int product, int times);
/* As often as takes about a millisecond, at least once, until the last is done; how often. */
int probe_work_some(struct probe_work *w, int product);
/* Collective: whether all devices are well. */
int probe_work_check(const struct probe_work *w, struct world *world, struct err *err);

/* Collective: all sleep for a moment: what a scheduler owes to one that waited it owes to all.
 */
int probe_rest(struct world *world, struct err *err);
/*
 * Collective: whether another round like those since start_s would end after budget_s; the same
 * on every rank.
 */
int probe_late(struct world *world, double start_s, int rounds, double budget_s, int *late,
               struct err *err);

/*
 * Collective: what ranks keep of either when they move bytes and compute at the same time:
 * rate_left and compute_left of the levels that bytes pass, from the rates that are in t
 * already.  p has room for probe_left_space().
 */
int probe_left(struct probe *p, const struct probe_views *views, struct probe_work *work,
               struct topo *t, struct err *err);
int64_t probe_left_space(const struct groups *g);
/* Collective: use_lost_s of the levels that bytes pass.  p has the room of probe_topo. */
int probe_uses(struct probe *p, const struct probe_views *views, struct probe_work *work,
               struct topo *t, struct err *err);

#endif
