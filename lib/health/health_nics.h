/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_NICS_H
#define HEALTH_HEALTH_NICS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/*
 * Reads the ports of this host as its kernel shows them: interfaces under SYS/class/net,
 * InfiniBand ports under SYS/class/infiniband.  Reads a few small files each; starts no
 * process.
 */
enum {
    HEALTH_NIC_NAME = 64,
    HEALTH_BOOT_NAME = 40,
    HEALTH_COUNTERS = 8,
    HEALTH_NICS_MOST = 4096
};

struct health_nic {
    char name[HEALTH_NIC_NAME]; /* "eth0", "mlx5_0/1"; converted by health_name_make */
    /* Existing files that cannot be read or parsed: one without which nothing is known of the
       port, or NULL; the number of others, and the first of them. */
    const char *unread, *broken_file;
    int broken;
    int ib;              /* 1: InfiniBand, or a RoCE port of it */
    int real;            /* 1: hardware of this host: no bridge, bond, tunnel, virtual
                            function */
    int up, carrier;     /* administratively up; has a link */
    int waits;           /* 1: link not in use yet: dormant, or no subnet manager */
    int half;            /* half duplex */
    int64_t mbit;        /* 0: unknown */
    int width;           /* lanes; 0: unknown */
    int64_t ups, losses; /* carrier changes since the driver's counter began; -1 */
    int64_t packets;     /* both ways; -1 */
    int64_t counter[HEALTH_COUNTERS]; /* errors, named by health_counters; -1: absent */
};

/* The error counters: of interfaces, of InfiniBand ports. */
struct health_counter {
    const char *name, *path;
    int64_t end; /* the counter stops at this value; 0: never */
};
const struct health_counter *
health_counters(int ib); /* [HEALTH_COUNTERS], name NULL: end of the list */

struct health_nics {
    int count;
    struct health_nic *nic; /* owned; sorted by name */
    size_t space;
    int left, left_others;       /* ports beyond HEALTH_NICS_MOST: hardware, others */
    char boot[HEALTH_BOOT_NAME]; /* id of this boot, or "" */
};
/* ERR_ABSENT or ERR_SYS: sys/class/net, or an existing InfiniBand folder, cannot be read. */
int health_nics_read(struct health_nics *out, const char *sys, const char *proc,
                     struct err *err);
void health_nics_release(struct health_nics *n);

#endif
