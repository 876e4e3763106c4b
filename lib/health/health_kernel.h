/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_KERNEL_H
#define HEALTH_HEALTH_KERNEL_H

#include <stdint.h>

/*
 * What this host's kernel tells of its network interfaces, in the network namespace that the
 * process is in (rtnetlink, reading only: no privilege needed).
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
        int64_t downs; /* how often its carrier had gone, at the start; -1: not told */
    } link[HEALTH_LINKS_MOST];
};

void health_kernel_open(struct health_kernel *k);
void health_kernel_close(struct health_kernel *k);
/* Looks at the queues; some 20 us. */
void health_kernel_look(void *kernel);
void health_kernel_forget(struct health_kernel *k); /* what was looked at so far */
/*
 * Bytes per second (headers included) that leave the busiest link's queue while others wait in
 * it; 0 when nothing ever waits; -1 when nothing can be seen.
 */
double health_kernel_drain(const struct health_kernel *k);

/* Of the links that had a carrier at the start, the one with which most has happened since. */
struct health_change {
    char name[16]; /* "": nothing has */
    int lost;      /* it has no carrier now */
    int64_t downs; /* how often the carrier went since; -1: not told */
};
void health_kernel_change(struct health_kernel *k, struct health_change *out);

#endif
