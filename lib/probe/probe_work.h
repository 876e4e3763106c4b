/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PROBE_PROBE_WORK_H
#define PROBE_PROBE_WORK_H

#include "kern/kern_product.h"
#include "probe/probe.h"

/* Inside probe/: matrix products to time, as the ranks of a training compute them. */
struct probe_product {
    struct kern_product *run; /* owned */
    double flops;             /* of one run */
    double times;             /* as often in a step, in proportion */
};

struct probe_work {
    struct probe_product *product; /* [products], owned */
    int products;
    float *a, *b, *c; /* operands and result of the largest; owned, one allocation from a on */
};

/* What is asked for, else one product that a second-level cache holds; each has been run once.
 */
int probe_work_open(struct probe_work *w, const struct probe_ask *ask, struct err *err);
void probe_work_close(struct probe_work *w);
void probe_work_run(const struct probe_work *w, int product);

/* Collective: all sleep for a moment: what a scheduler owes to one that waited it owes to all.
 */
int probe_rest(struct world *world, struct err *err);
/*
 * Collective: whether another turn like those since start_s would end after budget_s; the same
 * on every rank.
 */
int probe_late(struct world *world, double start_s, int turns, double budget_s, int *late,
               struct err *err);

/*
 * Collective: what ranks keep of either when they move bytes and compute at the same time:
 * rate_left and compute_left of the levels that bytes pass, from the rates that are in t
 * already.  p has room for probe_left_room().
 */
int probe_left(struct probe *p, const struct probe_views *views, const struct probe_work *work,
               struct topo *t, struct err *err);
int64_t probe_left_room(const struct groups *g);
/* Collective: use_lost_s of the levels that bytes pass.  p has the room of probe_topo. */
int probe_uses(struct probe *p, const struct probe_views *views, const struct probe_work *work,
               struct topo *t, struct err *err);

#endif
