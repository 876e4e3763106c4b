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
/* A link that had a carrier at the start and has none now, else "". */
void health_kernel_lost(struct health_kernel *k, char name[16]);

#endif
