/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_NICS_H
#define HEALTH_HEALTH_NICS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/*
 * Reads the ports of this host as its kernel shows them: interfaces under SYS/class/net,
 * InfiniBand ports under SYS/class/infiniband.  A few small files each; starts nothing.
 */
enum {
    HEALTH_NIC_NAME = 64,
    HEALTH_BOOT_NAME = 40,
    HEALTH_COUNTERS = 8,
    HEALTH_NICS_MOST = 4096
};

struct health_nic {
    char name[HEALTH_NIC_NAME]; /* "eth0", "mlx5_0/1"; clean (health_data.h) */
    /* Files that are there and cannot be read, or hold what they cannot: one without which
     * nothing is known of the port, or NULL; and how many others, the first of them. */
    const char *unread, *broken_file;
    int broken;
    int ib;              /* InfiniBand, or RoCE's port of it */
    int real;            /* hardware of this host: no bridge, bond, tunnel, virtual function */
    int up, carrier;     /* asked to be up; has a link */
    int waits;           /* a link that is not in use yet: dormant, or no subnet manager */
    int half;            /* half duplex */
    int64_t mbit;        /* 0: not known */
    int width;           /* lanes; 0: not known */
    int64_t ups, losses; /* of the carrier, since the driver's counter began; -1 */
    int64_t packets;     /* both ways; -1 */
    int64_t counter[HEALTH_COUNTERS]; /* of errors, as health_counters names them; -1: absent */
};

/* Errors that are counted: those of interfaces, those of InfiniBand ports. */
struct health_counter {
    const char *name, *path;
    int64_t end; /* a counter stops here; 0: never */
};
const struct health_counter *
health_counters(int ib); /* [HEALTH_COUNTERS], name NULL: no more */

struct health_nics {
    int count;
    struct health_nic *nic; /* owned; by name */
    size_t space;
    int left, left_others;       /* beyond HEALTH_NICS_MOST: of hardware, and not */
    char boot[HEALTH_BOOT_NAME]; /* this start of the kernel, or "" */
};
/* ERR_ABSENT or ERR_SYS: sys/class/net, or what of InfiniBand is there, cannot be read. */
int health_nics_read(struct health_nics *out, const char *sys, const char *proc,
                     struct err *err);
void health_nics_release(struct health_nics *n);

#endif
