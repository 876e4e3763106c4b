/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads a kernel's network ports from sysfs (Linux' Documentation/ABI/testing/sysfs-class-net,
 * -net-statistics, stable/sysfs-class-infiniband).
 */
#include "health/health_nics.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "health/health_data.h"

enum { SYS = 3000, PATH = 4096, IFF_UP_BIT = 1, IFF_LOOPBACK_BIT = 8 };

/*
 * Omits counters that rise on a healthy link: dropped (protocols without listeners), multicast,
 * VL15_dropped.  InfiniBand's classic counters stop at their maximum (IBTA, PortCounters: 16
 * and 8 bits) until they are reset.
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

static int make_path(char path[PATH], const char *dir, const char *file)
{
    return snprintf(path, PATH, "%s/%s", dir, file) < PATH;
}

/* Reads the first line of dir/file, which must not be empty. */
static enum io_answer nics_read_line(const char *dir, const char *file, char *text, int space)
{
    char path[PATH];

    text[0] = 0;
    return make_path(path, dir, file) ? io_line(path, text, (size_t)space) : IO_BROKEN;
}

/* Reads a number with `stop` after it; -1 if there is none. */
static enum io_answer nics_read_value(const char *dir, const char *file, int base, char stop,
                                      int64_t *out)
{
    char text[40], *end;
    enum io_answer why = nics_read_line(dir, file, text, sizeof text);

    *out = -1;
    if (why != IO_THERE)
        return why;
    /* InfiniBand's text for a missing counter. */
    if (strncmp(file, "counters/", 9) == 0 && strncmp(text, "N/A", 3) == 0)
        return IO_ABSENT;
    errno = 0;
    int64_t v = strtoll(text, &end, base);
    if (end == text || *end != stop || errno)
        return IO_BROKEN;
    *out = v;
    return IO_THERE;
}

/* Notes a file that could not be read; the first one is named. */
static void note(struct health_nic *n, const char *file)
{
    if (n->broken++ == 0)
        n->broken_file = file;
}

/* Reads a word of the port's, "" if it has none. */
static void nics_read_word(struct health_nic *n, const char *dir, const char *file, char *text,
                           int space)
{
    if (nics_read_line(dir, file, text, space) == IO_BROKEN)
        note(n, file);
}

/* Reads a count or a speed; -1: unknown. */
static int64_t nics_read_number(struct health_nic *n, const char *dir, const char *file,
                                int least)
{
    int64_t v;
    enum io_answer why = nics_read_value(dir, file, 10, 0, &v);

    if (why == IO_BROKEN || (why == IO_THERE && v < least))
        note(n, file);
    return v >= least ? v : -1;
}

/* Returns whether dir/file exists; `unknown` if that cannot be determined. */
static int nics_is_there(const char *dir, const char *file, int unknown)
{
    char path[PATH];

    if (!make_path(path, dir, file))
        return unknown;
    return access(path, F_OK) == 0 || (io_why_not(errno) == IO_BROKEN && unknown);
}

static void nics_add(struct health_nics *all, const struct health_nic *n)
{
    all->nic = mem_grow(all->nic, &all->space, (size_t)all->count + 1, sizeof *all->nic);
    all->nic[all->count++] = *n;
}

/* Adds a port with its counters of errors and packets. */
static void add_counted(struct health_nics *all, const char *dir, struct health_nic *n)
{
    static const char *const packets[2][2] = {
        {"statistics/rx_packets", "statistics/tx_packets"},
        {"counters/port_rcv_packets", "counters/port_xmit_packets"}};
    const struct health_counter *c = health_counters(n->ib);

    n->packets = -1;
    for (int way = 0; way < 2; way++) {
        int64_t more = nics_read_number(n, dir, packets[n->ib][way], 0);
        more = more > INT64_MAX / 2 ? INT64_MAX / 2 : more;
        if (more >= 0)
            n->packets = more + (n->packets > 0 ? n->packets : 0);
    }
    for (int i = 0; i < HEALTH_COUNTERS; i++)
        n->counter[i] = -1;
    for (int i = 0; i < HEALTH_COUNTERS && c[i].name; i++)
        n->counter[i] = nics_read_number(n, dir, c[i].path, 0);
    nics_add(all, n);
}

static void read_net(struct health_nics *all, const char *dir, const char *name)
{
    struct health_nic n = {0};
    char text[40];
    int64_t flags, carrier;
    enum io_answer why = nics_read_value(dir, "flags", 16, 0, &flags);

    if (why == IO_ABSENT || (why == IO_THERE && (flags & IFF_LOOPBACK_BIT)))
        return;
    health_name_make(name, n.name, sizeof n.name);
    n.real = nics_is_there(dir, "device", 1) && !nics_is_there(dir, "device/physfn", 0);
    n.up = (flags & IFF_UP_BIT) != 0;
    n.unread = nics_read_value(dir, "carrier", 10, 0, &carrier) == IO_BROKEN ? "carrier" : NULL;
    if (why == IO_BROKEN)
        n.unread = "flags";
    n.carrier = carrier == 1;
    nics_read_word(&n, dir, "operstate", text, sizeof text);
    n.waits = strcmp(text, "dormant") == 0;
    nics_read_word(&n, dir, "duplex", text, sizeof text);
    n.half = n.carrier && strcmp(text, "half") == 0;
    n.mbit = nics_read_number(&n, dir, "speed", -1);
    n.mbit = n.mbit > 0 && n.mbit < INT32_MAX ? n.mbit : 0; /* all ones: unknown */
    int64_t changes = nics_read_number(&n, dir, "carrier_changes", 0);
    n.ups = nics_read_number(&n, dir, "carrier_up_count", 0);
    n.losses = nics_read_number(&n, dir, "carrier_down_count", 0);
    /* Older kernels have one counter of changes: up, down, up, ... from a link that was
       down. */
    if (n.losses < 0 && changes >= 0)
        n.losses = changes / 2;
    if (n.ups < 0 && changes >= 0)
        n.ups = (changes + 1) / 2;
    add_counted(all, dir, &n);
}

enum { IB_ACTIVE = 4, IB_LINK_UP = 5, IB_DISABLED = 3 };

static void nics_read_port(struct health_nics *all, const char *dir, const char *name)
{
    struct health_nic n = {.ib = 1};
    char text[64], *end;
    int64_t state, phys; /* "4: ACTIVE", "5: LinkUp" */
    enum io_answer why = nics_read_value(dir, "state", 10, ':', &state),
                   why_phys = nics_read_value(dir, "phys_state", 10, ':', &phys);

    if (why == IO_ABSENT)
        return;
    health_name_make(name, n.name, sizeof n.name);
    n.unread = why == IO_BROKEN ? "state" : why_phys == IO_BROKEN ? "phys_state" : NULL;
    /* RoCE's link is checked as an interface; here are its counters. */
    nics_read_word(&n, dir, "link_layer", text, sizeof text);
    n.real = strcmp(text, "Ethernet") != 0;
    n.up = phys != IB_DISABLED;
    n.carrier = phys < 0 ? state == IB_ACTIVE : phys == IB_LINK_UP;
    n.waits = n.carrier && state != IB_ACTIVE;
    n.losses = nics_read_number(&n, dir, "counters/link_downed", 0);
    n.ups = -1;
    /* "100 Gb/sec (4X EDR)"; without a link the last rate, or the lowest */
    nics_read_word(&n, dir, "rate", text, sizeof text);
    double gbit = strtod(text, &end);
    if (text[0] && end == text)
        note(&n, "rate");
    const char *open = strchr(end, '(');
    long width = open ? strtol(open + 1, NULL, 10) : 0;
    if (n.carrier && gbit > 0 && gbit < 1e6)
        n.mbit = (int64_t)(gbit * 1000 + 0.5);
    if (n.carrier && width > 0 && width < 1000)
        n.width = (int)width;
    add_counted(all, dir, &n);
}

/* Calls `each` for every entry of dir; -1 if reading it fails. */
static int nics_walk(struct health_nics *all, const char *dir, const char *below,
                     void (*each)(struct health_nics *, const char *, const char *))
{
    char path[PATH], name[2 * NAME_MAX + 2];
    struct io_names in;
    struct err none;
    int rc = io_names_read(&in, -1, dir, &none), why = errno;

    for (int i = 0; i < in.count; i++) {
        make_path(path, dir, in.entry[i]->d_name);
        snprintf(name, sizeof name, "%s%s%s", below ? below : "", below ? "/" : "",
                 in.entry[i]->d_name);
        each(all, path, name);
    }
    io_names_free(&in);
    errno = why;
    return rc;
}

static void read_device(struct health_nics *all, const char *dir, const char *name)
{
    struct health_nic n = {.ib = 1, .unread = "ports"};
    char ports[PATH];

    if (make_path(ports, dir, "ports") &&
        (nics_walk(all, ports, name, nics_read_port) == 0 || io_why_not(errno) == IO_ABSENT))
        return;
    health_name_make(name, n.name, sizeof n.name);
    nics_add(all, &n);
}

static int nics_by_name(const void *a, const void *b)
{
    return strcmp(((const struct health_nic *)a)->name, ((const struct health_nic *)b)->name);
}

static int hardware_first(const void *a, const void *b)
{
    const struct health_nic *p = a, *q = b;
    int p_is = p->real || p->ib, q_is = q->real || q->ib;

    return p_is != q_is ? q_is - p_is : nics_by_name(a, b);
}

int health_nics_read(struct health_nics *out, const char *sys, const char *proc,
                     struct err *err)
{
    struct health_nics all = {0};
    char path[PATH];

    if (strlen(sys) > SYS)
        return err_set(err, ERR_INPUT, "a folder's name of %zu bytes, expected %d at most",
                       strlen(sys), SYS);
    make_path(path, sys, "class/net");
    int rc = nics_walk(&all, path, NULL, read_net);
    if (rc == 0) {
        make_path(path, sys, "class/infiniband");
        rc = nics_walk(&all, path, NULL, read_device) && errno != ENOENT;
    }
    if (rc) {
        err_sys(err, "cannot read '%s'", path);
        health_nics_release(&all);
        return -1;
    }
    nics_read_line(proc, "sys/kernel/random/boot_id", all.boot, sizeof all.boot);
    for (char *c = all.boot; *c; c++)
        if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 0x7f)
            *c = '_';
    if (all.count)
        qsort(all.nic, (size_t)all.count, sizeof *all.nic, hardware_first);
    for (; all.count > HEALTH_NICS_MOST; all.count--) {
        const struct health_nic *last = &all.nic[all.count - 1];
        *(last->real || last->ib ? &all.left : &all.left_others) += 1;
    }
    if (all.count)
        qsort(all.nic, (size_t)all.count, sizeof *all.nic, nics_by_name);
    *out = all;
    return 0;
}

void health_nics_release(struct health_nics *n)
{
    mem_free(n->nic);
    *n = (struct health_nics){0};
}
