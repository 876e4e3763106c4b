/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows what a kernel writes of its network ports into sysfs (Linux'
 * Documentation/ABI/testing/sysfs-class-net, -net-statistics, stable/sysfs-class-infiniband).
 * Does not know what is well and what is not.
 */
#include "health/health_nics.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

enum { PATH = 600, IFF_UP_BIT = 1, IFF_LOOPBACK_BIT = 8 };

/*
 * What a healthy link may count is left out: dropped (protocols that nobody listens to),
 * multicast, VL15_dropped.  InfiniBand's classic counters stop at their end (IBTA,
 * PortCounters: 16 and 8 bits) until somebody resets them.
 */
static const struct health_counter net_counters[HEALTH_COUNTERS] = {
    {"rx_crc_errors", "statistics/rx_crc_errors", 0},
    {"rx_errors", "statistics/rx_errors", 0},
    {"rx_missed_errors", "statistics/rx_missed_errors", 0},
    {"tx_carrier_errors", "statistics/tx_carrier_errors", 0},
    {"tx_errors", "statistics/tx_errors", 0},
    {NULL, NULL, 0},
};
static const struct health_counter ib_counters[HEALTH_COUNTERS] = {
    {"symbol_error", "counters/symbol_error", 65535},
    {"port_rcv_errors", "counters/port_rcv_errors", 65535},
    {"link_error_recovery", "counters/link_error_recovery", 255},
    {"port_xmit_discards", "counters/port_xmit_discards", 65535},
    {"local_link_integrity_errors", "counters/local_link_integrity_errors", 15},
    {"excessive_buffer_overrun_errors", "counters/excessive_buffer_overrun_errors", 15},
    {NULL, NULL, 0},
};

const struct health_counter *health_counters(int ib)
{
    return ib ? ib_counters : net_counters;
}

/* The first line of dir/file; -1 when there is none. */
static int read_line(const char *dir, const char *file, char *text, int room)
{
    char path[PATH];

    if (snprintf(path, sizeof path, "%s/%s", dir, file) >= (int)sizeof path)
        return -1;
    /* Not to wait for a writer: what stands there may be no file of the kernel's. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -1;
    ssize_t got = read(fd, text, (size_t)room - 1);
    close(fd);
    if (got < 0)
        return -1;
    text[got] = 0;
    text[strcspn(text, "\n")] = 0;
    return 0;
}

/*
 * Whether the file is there and does not open: nothing is known then, which is not the same as
 * what its absence says.  To read a port's that is down may fail, and says that it is down.
 */
static int is_shut(const char *dir, const char *file)
{
    char path[PATH];

    if (snprintf(path, sizeof path, "%s/%s", dir, file) >= (int)sizeof path)
        return 1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0)
        close(fd);
    return fd < 0 && errno != ENOENT && errno != ENOTDIR && errno != ENODEV;
}

static int64_t read_number(const char *dir, const char *file, int base)
{
    char text[40], *end;

    if (read_line(dir, file, text, sizeof text))
        return -1;
    long long v = strtoll(text, &end, base);
    return end == text || *end || v < 0 ? -1 : v;
}

static int is_there(const char *dir, const char *file)
{
    char path[PATH];

    return snprintf(path, sizeof path, "%s/%s", dir, file) < (int)sizeof path &&
           access(path, F_OK) == 0;
}

static int64_t sum_of(int64_t a, int64_t b)
{
    return a < 0 && b < 0 ? -1 : (a > 0 ? a : 0) + (b > 0 ? b : 0);
}

static void read_counters(const char *dir, struct health_nic *n)
{
    const struct health_counter *c = health_counters(n->ib);

    for (int i = 0; i < HEALTH_COUNTERS; i++)
        n->counter[i] = i && !c[i - 1].name ? -1
                        : c[i].name         ? read_number(dir, c[i].path, 10)
                                            : -1;
}

/* A name is a word of the state file and of messages. */
static int set_name(struct health_nic *n, const char *name)
{
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c <= ' ' || *c == 0x7f)
            return -1;
    return snprintf(n->name, sizeof n->name, "%s", name) < (int)sizeof n->name ? 0 : -1;
}

static int add(struct health_nics *all, const struct health_nic *n)
{
    if (all->count == HEALTH_NICS_MOST)
        return -1;
    all->nic = mem_grow(all->nic, &all->room, (size_t)all->count + 1, sizeof *all->nic);
    all->nic[all->count++] = *n;
    return 0;
}

static void read_net(struct health_nics *all, const char *dir, const char *name)
{
    struct health_nic n = {0};
    char text[40];
    int64_t flags = read_number(dir, "flags", 16),
            changes = read_number(dir, "carrier_changes", 10);

    if (set_name(&n, name) || (flags >= 0 && (flags & IFF_LOOPBACK_BIT)))
        return;
    n.unread = is_shut(dir, "flags") ? "flags" : is_shut(dir, "carrier") ? "carrier" : NULL;
    if (flags < 0 && !n.unread)
        return;
    n.real = is_there(dir, "device") && !is_there(dir, "device/physfn");
    n.up = (flags & IFF_UP_BIT) != 0;
    n.carrier = read_number(dir, "carrier", 10) == 1;
    n.waits = read_line(dir, "operstate", text, sizeof text) == 0 && !strcmp(text, "dormant");
    n.half =
        n.carrier && read_line(dir, "duplex", text, sizeof text) == 0 && !strcmp(text, "half");
    n.mbit = read_number(dir, "speed", 10);
    n.mbit = n.mbit > 0 && n.mbit < INT32_MAX ? n.mbit : 0; /* all ones: not known */
    n.ups = read_number(dir, "carrier_up_count", 10);
    n.losses = read_number(dir, "carrier_down_count", 10);
    /* Older kernels count both in one: up, down, up, ... from a link that was down. */
    if (n.losses < 0 && changes >= 0)
        n.losses = changes / 2;
    if (n.ups < 0 && changes >= 0)
        n.ups = (changes + 1) / 2;
    n.packets = sum_of(read_number(dir, "statistics/rx_packets", 10),
                       read_number(dir, "statistics/tx_packets", 10));
    read_counters(dir, &n);
    add(all, &n);
}

/* "4: ACTIVE" -> 4 */
static int64_t read_state(const char *dir, const char *file)
{
    char text[40];

    return read_line(dir, file, text, sizeof text) ? -1 : strtoll(text, NULL, 10);
}

/* "100 Gb/sec (4X EDR)", "2.5 Gb/sec (1X SDR)" */
static void read_rate(const char *dir, struct health_nic *n)
{
    char text[64], *end;

    if (read_line(dir, "rate", text, sizeof text))
        return;
    double gbit = strtod(text, &end);
    if (gbit > 0 && gbit < 1e6)
        n->mbit = (int64_t)(gbit * 1000 + 0.5);
    const char *open = strchr(end, '(');
    long width = open ? strtol(open + 1, NULL, 10) : 0;
    n->width = width > 0 && width < 1000 ? (int)width : 0;
}

enum { IB_ACTIVE = 4, IB_LINK_UP = 5, IB_DISABLED = 3 };

static void read_port(struct health_nics *all, const char *dir, const char *name)
{
    struct health_nic n = {.ib = 1};
    char text[40];
    int64_t state = read_state(dir, "state"), phys = read_state(dir, "phys_state");

    if (set_name(&n, name))
        return;
    n.unread = is_shut(dir, "state")        ? "state"
               : is_shut(dir, "phys_state") ? "phys_state"
                                            : NULL;
    if (state < 0 && !n.unread)
        return;
    /* RoCE's link is the interface's business; here are its counters. */
    n.real = read_line(dir, "link_layer", text, sizeof text) || strcmp(text, "Ethernet") != 0;
    n.up = phys != IB_DISABLED;
    n.carrier = phys < 0 ? state == IB_ACTIVE : phys == IB_LINK_UP;
    n.waits = n.carrier && state != IB_ACTIVE;
    n.losses = read_number(dir, "counters/link_downed", 10);
    n.ups = -1;
    read_rate(dir, &n);
    if (!n.carrier) /* what it had, or the least there is */
        n.mbit = n.width = 0;
    n.packets = sum_of(read_number(dir, "counters/port_rcv_packets", 10),
                       read_number(dir, "counters/port_xmit_packets", 10));
    read_counters(dir, &n);
    add(all, &n);
}

/* What `each` makes of every entry of dir; -1 when there is no dir. */
static int walk(struct health_nics *all, const char *dir, const char *below,
                void (*each)(struct health_nics *, const char *, const char *))
{
    DIR *d = opendir(dir);
    char path[PATH], name[HEALTH_NIC_NAME + 260];

    if (!d)
        return -1;
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.' || strlen(e->d_name) >= HEALTH_NIC_NAME ||
            snprintf(path, sizeof path, "%s/%s", dir, e->d_name) >= (int)sizeof path)
            continue;
        snprintf(name, sizeof name, "%s%s%s", below ? below : "", below ? "/" : "", e->d_name);
        each(all, path, name);
    }
    closedir(d);
    return 0;
}

static void read_device(struct health_nics *all, const char *dir, const char *name)
{
    char ports[PATH + 8];

    snprintf(ports, sizeof ports, "%s/ports", dir);
    walk(all, ports, name, read_port);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct health_nic *)a)->name, ((const struct health_nic *)b)->name);
}

int health_nics_read(struct health_nics *out, const char *sys, const char *proc,
                     struct err *err)
{
    struct health_nics all = {0};
    char path[PATH];

    snprintf(path, sizeof path, "%.500s/class/net", sys);
    if (walk(&all, path, NULL, read_net))
        return err_sys(err, "cannot read '%s'", path);
    snprintf(path, sizeof path, "%.500s/class/infiniband", sys);
    if (walk(&all, path, NULL, read_device) && errno != ENOENT) {
        err_sys(err, "cannot read '%s'", path);
        health_nics_release(&all);
        return -1;
    }
    if (read_line(proc, "sys/kernel/random/boot_id", all.boot, sizeof all.boot))
        all.boot[0] = 0;
    for (char *c = all.boot; *c; c++)
        if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 0x7f)
            *c = '_';
    if (all.count)
        qsort(all.nic, (size_t)all.count, sizeof *all.nic, by_name);
    *out = all;
    return 0;
}

void health_nics_release(struct health_nics *n)
{
    mem_free(n->nic);
    *n = (struct health_nics){0};
}
