/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_CAMPAIGN_H
#define HEALTH_HEALTH_CAMPAIGN_H

#include "health/health_data.h"
#include "health/health_verdict.h"
#include "probe/probe_gpu.h"
#include "world/world.h"

/*
 * Reads what this host's kernel reports of its network interfaces, in the network namespace
 * that the process is in (rtnetlink, reading only: no privilege needed).
 */
enum { HEALTH_LINKS_MOST = 32 };

struct health_kernel {
    int fd;    /* -1: the kernel does not answer */
    int looks; /* at the queues */
    int links; /* that had a carrier at the start */
    struct health_queue {
        int index;
        char name[16];
        uint64_t sent; /* bytes that had left its queue, at the last look */
        double at_s;   /* when that was */
        int waits;     /* bytes waited then */
        double drained,
            drained_s; /* bytes that left while others waited, and how long it took */
        int64_t downs; /* how often its carrier had gone, at the start; -1: unknown */
    } link[HEALTH_LINKS_MOST];
};

void health_kernel_open(struct health_kernel *k);
void health_kernel_close(struct health_kernel *k);
/* Looks at the queues; some 20 us. */
void health_kernel_look(void *kernel);
void health_kernel_forget(struct health_kernel *k); /* the changes seen so far */
/*
 * Bytes per second (headers included) that leave the busiest link's queue while others wait in
 * it; 0 when nothing ever waits; -1 when nothing can be seen.
 */
double health_kernel_drain(const struct health_kernel *k);

/* The change of the link to which most has happened, among those with a carrier at the
   start. */
struct health_change {
    char name[16]; /* "": nothing has */
    int lost;      /* it has no carrier now */
    int64_t downs; /* how often the carrier went since; -1: unknown */
};
void health_kernel_change(struct health_kernel *k, struct health_change *out);

/*
 * A measurement campaign: the hosts send to each other as a plan says, and what every rank saw
 * goes into the data of all.
 */
struct health_campaign {
    /* Set by the caller, borrowed. */
    struct world *world;
    const char *volatile *where; /* the current stage, for a watchdog */
    struct health_data *data;
    struct device *device; /* whose memory messages are of; NULL: the hosts' */
    double end_s;          /* tick_now_s when all is to be reported: measuring ends before */
    /* Inside. */
    struct probe probe;
    int opened;               /* the probe is */
    int64_t bytes;            /* through each port in a round */
    int64_t left;             /* that each port may still carry in rounds */
    int64_t ring_bytes;       /* that it may in one of all at once; 0: not known yet */
    double until_s;           /* no round begins later */
    double start_s, before_s; /* when it began; the deadline that the world had before */
    struct health_kernel kernel;
    int rounds;
    size_t space;
    struct health_round *round; /* [rounds], owned: made ready, for a round comes again */
    int ran;                    /* rounds that were entered */
    int over;    /* the time is, the bytes, or some did not come: all ranks know */
    int stalled; /* bytes did not come: nothing is asked of peers any more */
    int missing; /* the host whose bytes did not come to this rank, or -1 */
};

/*
 * Collective.  Each port is asked to carry at most cap_bytes (0: no cap), whatever is measured;
 * ERR_INPUT where that is too little for `rounds` rounds.
 */
int health_campaign_open(struct health_campaign *t, int rounds, int64_t cap_bytes,
                         struct err *err);
/*
 * Collective: the rounds of a plan, which all ranks have alike.  Ends early, with t->over, when
 * the time is over or bytes did not come.
 */
int health_campaign_rounds(struct health_campaign *t, const struct health_plan *plan,
                           struct err *err);
/* Collective: every host with up to `most` others, pair by pair at once.  A second call, with
 * the same `most`, keeps the smaller latency of each pair. */
int health_campaign_latency(struct health_campaign *t, int most, struct err *err);
/* Collective: a ring all-gather of the hosts; how long it should take follows from the data. */
int health_campaign_collective(struct health_campaign *t, int first, int count,
                               struct err *err);
/* Collective, last: what every host's kernel saw; and who is silent where bytes did not come.
 */
void health_campaign_reports(struct health_campaign *t);
void health_campaign_close(struct health_campaign *t);

#endif
