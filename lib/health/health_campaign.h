/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_CAMPAIGN_H
#define HEALTH_HEALTH_CAMPAIGN_H

#include "health/health_data.h"
#include "health/health_verdict.h"
#include "probe/probe_gpu.h"
#include "world/world.h"

/*
 * Reads the kernel's reports on this host's network interfaces, in the process's network
 * namespace (rtnetlink, reading only: no privilege needed).
 */
enum { HEALTH_LINKS_MOST = 32 };

struct health_kernel {
    int fd;    /* -1: the kernel does not answer */
    int looks; /* number of queue samples */
    int links; /* links with a carrier at the start */
    struct health_queue {
        int index;
        char name[16];
        uint64_t sent; /* bytes that had left its queue at the last sample */
        double at_s;   /* time of that sample */
        int waits;     /* 1: bytes were waiting then */
        double drained,
            drained_s; /* bytes that left while others waited, and the time that took */
        int64_t downs; /* carrier losses before the start; -1: unknown */
    } link[HEALTH_LINKS_MOST];
};

void health_kernel_open(struct health_kernel *k);
void health_kernel_close(struct health_kernel *k);
/* Samples the queues; takes some 20 us. */
void health_kernel_look(void *kernel);
void health_kernel_forget(struct health_kernel *k); /* discards the samples so far */
/*
 * Returns the bytes per second, headers included, that leave the busiest link's queue while
 * others wait in it; 0 if none ever wait; -1 if unknown.
 */
double health_kernel_drain(const struct health_kernel *k);

/* The change of the link with the worst change, among those with a carrier at the start. */
struct health_change {
    char name[16]; /* "": no change */
    int lost;      /* 1: it has no carrier now */
    int64_t downs; /* carrier losses since; -1: unknown */
};
void health_kernel_change(struct health_kernel *k, struct health_change *out);

/*
 * A measurement campaign: hosts send to each other according to a plan, and the observations of
 * all ranks are entered into `data`.
 */
struct health_campaign {
    /* Set by the caller, borrowed. */
    struct world *world;
    const char *volatile *where; /* the current stage, for a watchdog */
    struct health_data *data;
    struct device *device; /* messages are in its memory; NULL: the hosts' */
    double end_s;          /* tick_now_s by which everything is reported; measuring ends
                              before */
    /* Internal. */
    struct probe probe;
    int opened;               /* 1: probe is open */
    int64_t bytes;            /* through each port in a round */
    int64_t left;             /* that each port may still carry in rounds */
    int64_t ring_bytes;       /* that each port may carry in a run of all at once; 0: not known
                                 yet */
    double until_s;           /* no round begins later */
    double start_s, before_s; /* start; the world's deadline before it */
    struct health_kernel kernel;
    int rounds;
    size_t space;
    struct health_round *round; /* [rounds], owned: kept prepared, because rounds repeat */
    int ran;                    /* rounds recorded */
    int over;    /* 1: time or bytes are used up, or bytes did not arrive; equal on all ranks */
    int stalled; /* 1: bytes did not arrive; peers receive no more requests */
    int missing; /* host whose bytes did not reach this rank, or -1 */
};

/*
 * Collective.  Each port carries at most cap_bytes in the campaign (0: no cap); ERR_INPUT if
 * that is too little for `rounds` rounds.
 */
int health_campaign_open(struct health_campaign *t, int rounds, int64_t cap_bytes,
                         struct err *err);
/*
 * Collective: runs the rounds of a plan, which is equal on all ranks.  Ends early, and sets
 * t->over, when time is up or bytes did not arrive.
 */
int health_campaign_rounds(struct health_campaign *t, const struct health_plan *plan,
                           struct err *err);
/* Collective: measures the latency of every host with up to `most` others, disjoint pairs at
   once.  A second call with the same `most` keeps the smaller latency of each pair. */
int health_campaign_latency(struct health_campaign *t, int most, struct err *err);
/* Collective: runs a ring all-gather of the hosts; the expected time is computed from the
   data. */
int health_campaign_collective(struct health_campaign *t, int first, int count,
                               struct err *err);
/* Collective, last: gathers the kernels' reports of all hosts, and finds silent hosts if bytes
   did not arrive. */
void health_campaign_reports(struct health_campaign *t);
void health_campaign_close(struct health_campaign *t);

#endif
