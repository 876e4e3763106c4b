/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_PLAN_GOODPUT_H
#define PLAN_PLAN_GOODPUT_H

#include <stdint.h>

/*
 * The share of a run's time that saves and failures leave (paro-method(7), FAILURES).  Any of
 * the nodes fails at any moment, independently of the others and of how long it has run; what
 * it stored is lost, a spare replaces it, and all ranks restart: from the newest local save
 * that is complete on the nodes that remain, or where a piece and all of its copies are lost,
 * from the newest save in the shared folder.
 */
struct plan_failures {             /* as asked */
    double mtbf_s;                 /* mean time between failures of a node; 0: not priced */
    double restart_s;              /* of a failure, until ranks read states */
    double storage_Bps, local_Bps; /* of a node, to the shared folder, to storage of its own */
    int copies;                    /* of a local save, 0: none is made; or AUTO */
    int nodes, node_ranks;         /* hosts, and ranks on the one that has most */
};

enum {
    PLAN_COPIES_AUTO = -1,
    PLAN_COPIES_TRIED = 3, /* more gain nothing where one and two do not */
    PLAN_COPIES_MAX = 64,  /* as ckpt has it */
    PLAN_EVERY_MAX = 1 << 24,
    PLAN_FAILED_MAX = 64 /* nodes, until a local save is complete again */
};

#define PLAN_STORAGE_BPS 1e9 /* where --storage and --local-storage do not state them */
#define PLAN_LOCAL_BPS   2e9
#define PLAN_RESTART_S   60.0

struct plan_survival { /* of one strategy; all 0 where failures are not priced */
    double mtbf_s;     /* of a node */
    int nodes, ring;   /* ring: nodes, of which each has copies of the one before it */
    double goodput;    /* the share of time in which steps are made that stay; 0: none */
    double lost_share; /* of failures, those that need the shared folder */
    int copies, local_every, save_every; /* steps; local_every 0: nothing is saved locally */
    double local_pause_s, pause_s;       /* time that a save costs the run */
    /* From a failure to where the newest save, local or shared, was complete. */
    double local_restart_s, restart_s;
    double copy_bytes, copy_slow_bytes; /* stored by a rank; through the busiest port, a save */
    double copy_memory; /* bytes of a rank, from which saves are written; of a GPU's none */
};

/*
 * l[k], 0 .. most: the probability that of `nodes` in rings of `ring` (each holds copies of the
 * `copies` before it) the loss of k loses something for good.  copies < ring.
 */
void plan_losses(int nodes, int ring, int copies, int most, double *l);
/*
 * Sets goodput and lost_share of a run that saves every `every` steps locally, and each
 * `saves`-th time in the shared folder too; without copies there alone, saves 1.
 */
void plan_goodput(struct plan_survival *s, double step_s, int64_t every, int64_t saves);
/* The intervals with the largest goodput, in whole steps, from these numbers on. */
void plan_intervals(struct plan_survival *s, double step_s, int64_t least_local,
                    int64_t least_shared);

/* Fills p->survival of a price whose times are known, where failures are priced; what local
   saves take is then in p->memory. */
struct plan_case;
struct plan_traffic;
struct plan_price;
void plan_survive(const struct plan_case *c, const struct plan_traffic *t,
                  struct plan_price *p);

#endif
