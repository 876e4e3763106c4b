/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_PLAN_GOODPUT_H
#define PLAN_PLAN_GOODPUT_H

#include <stdint.h>

/*
 * The share of a run's time that remains after saves and failures (paro-method(7), FAILURES).
 *
 * Each node fails with constant probability, independently of the others.  Its storage is then
 * lost, a spare replaces it, and all ranks restart: from the newest local save that is complete
 * on the remaining nodes, or, if a piece and all of its copies are lost, from the newest save
 * in the shared folder.
 */
struct plan_failures {             /* as requested */
    double mtbf_s;                 /* mean time between failures of one node; 0: not priced */
    double restart_s;              /* from a failure until ranks read states */
    double storage_Bps, local_Bps; /* rates of a node to the shared folder, to its own */
    int copies;                    /* copies of a local save; 0: no local saves; or
                                      PLAN_COPIES_AUTO */
    int nodes, node_ranks;         /* hosts, and ranks on the host that has most */
};

enum {
    PLAN_COPIES_AUTO = -1,
    PLAN_COPIES_TRIED = 3, /* if one and two copies gain nothing, more do not either */
    PLAN_COPIES_MAX = 64,  /* the limit of ckpt */
    PLAN_EVERY_MAX = 1 << 24,
    PLAN_FAILED_MAX = 64 /* nodes that fail until a local save is complete again */
};

#define PLAN_STORAGE_BPS 1e9 /* default of --storage and --local-storage */
#define PLAN_LOCAL_BPS   2e9
#define PLAN_RESTART_S   60.0

struct plan_survival { /* all 0: failures are not priced */
    double mtbf_s;     /* one node's */
    int nodes, ring;   /* ring: nodes in a ring, in which each has copies of the ones before
                          it */
    double goodput;    /* share of time spent on steps that are not lost; 0: none */
    double lost_share; /* share of failures that need the shared folder */
    int copies, local_every, save_every; /* intervals in steps; local_every 0: no local saves */
    double local_pause_s, pause_s;       /* time that a save takes from the run */
    /* From a failure back to the completion of the newest save, local or shared. */
    double local_restart_s, restart_s;
    double copy_bytes, copy_slow_bytes; /* per save: stored by a rank; through the busiest
                                           port */
    double copy_memory; /* bytes of a rank from which saves are written; 0 on a GPU */
};

/*
 * Computes l[k], k = 0 .. most: the probability that losing k of `nodes` nodes loses some data
 * for good.  Nodes form rings of `ring`, in which each holds copies of the `copies` nodes
 * before it.  copies < ring.
 */
void plan_losses(int nodes, int ring, int copies, int most, double *l);
/*
 * Sets goodput and lost_share of a run that saves locally every `every` steps, and each
 * `saves`-th time in the shared folder too.  Without copies it saves only there: saves is 1.
 */
void plan_goodput(struct plan_survival *s, double step_s, int64_t every, int64_t saves);
/* Sets the intervals with the largest goodput, in whole steps, none below the given ones. */
void plan_intervals(struct plan_survival *s, double step_s, int64_t least_local,
                    int64_t least_shared);

/* Fills p->survival of a price whose times are known if failures are priced, and adds the
   memory of local saves to p->memory. */
struct plan_case;
struct plan_traffic;
struct plan_price;
void plan_survive(const struct plan_case *c, const struct plan_traffic *t,
                  struct plan_price *p);

#endif
