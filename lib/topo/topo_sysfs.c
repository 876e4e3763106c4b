/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads PCI devices, processors and RDMA ports from the kernel's files in sysfs and proc, as in
 * Documentation/ABI.  A missing file, as in a container, leaves the value unknown; nothing here
 * fails.
 *
 * NCCL's tree has one node for a switch, to the kernel it is two ports.  Going up from a
 * device, every second port counts as a switch; the last one is the root port.
 *
 *     /sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:04.0/0000:05:00.0
 *                             root port    switch: up   switch: down  device
 */
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "topo/topo_parts.h"

/* Enough for /proc/cpuinfo of 500 processors; longer files are cut */
enum { FILE_BYTES = 1 << 20 };

/* The first line of a small file; "": there is none. */
static void sysfs_read_line(char *line, size_t space, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void sysfs_read_line(char *line, size_t space, const char *fmt, ...)
{
    char path[PATH_MAX];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(path, sizeof path, fmt, ap);
    va_end(ap);
    io_line(path, line, space);
}

/* "0000:1b:00.0", also with a domain of more digits. */
static int is_busid(const char *text, size_t n)
{
    size_t domain = strspn(text, "0123456789abcdefABCDEF");
    const char *p = text + domain;

    return domain >= 4 && n == domain + 8 && n < 20 && p[0] == ':' && p[3] == ':' &&
           p[6] == '.' && strspn(p + 1, "0123456789abcdefABCDEF") == 2 &&
           strspn(p + 4, "0123456789abcdefABCDEF") == 2;
}

int topo_sysfs_path(const char *root, const char *busid, char step[2 * TOPO_SYSFS_DEPTH][20])
{
    char path[PATH_MAX], real[PATH_MAX];
    int steps = 0;

    snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s", root, busid);
    if (!busid[0] || !realpath(path, real))
        return -1;
    for (char *at = real; (at = strchr(at, '/'));) {
        size_t n = strcspn(++at, "/");
        if (!is_busid(at, n))
            continue;
        if (steps == 2 * TOPO_SYSFS_DEPTH)
            return -1;
        snprintf(step[steps++], 20, "%.*s", (int)n, at);
    }
    return steps;
}

int topo_sysfs_above(const char *root, const char *busid, char above[TOPO_SYSFS_DEPTH][20])
{
    char step[2 * TOPO_SYSFS_DEPTH][20];
    int steps = topo_sysfs_path(root, busid, step), n = 0;

    if (steps <= 0)
        return -1;
    for (int i = (steps - 1) % 2; i < steps - 1; i += 2)
        memcpy(above[n++], step[i], sizeof step[i]);
    return n;
}

int topo_sysfs_device(const char *root, const char *of, char busid[20])
{
    char path[PATH_MAX], real[PATH_MAX];

    snprintf(path, sizeof path, "%s/sys/%s/device", root, of);
    const char *last = realpath(path, real) ? strrchr(real, '/') : NULL;
    int found = last && is_busid(last + 1, strlen(last + 1));
    snprintf(busid, 20, "%.19s", found ? last + 1 : "");
    return found;
}

void topo_sysfs_link(const char *root, const char *busid, const char *which, double *GTps,
                     int *lanes)
{
    char line[64];

    sysfs_read_line(line, sizeof line, "%s/sys/bus/pci/devices/%s/%s_link_speed", root, busid,
                    which);
    *GTps = strtod(line, NULL); /* "Unknown" is 0 */
    sysfs_read_line(line, sizeof line, "%s/sys/bus/pci/devices/%s/%s_link_width", root, busid,
                    which);
    *lanes = (int)strtol(line, NULL, 10);
    if (*GTps > 1000 || *lanes < 0 || *lanes > 32)
        *GTps = *lanes = 0;
}

void topo_sysfs_pci(const char *root, struct topo_pci *pci)
{
    static const char *const ids[] = {"class", "vendor", "device", "subsystem_vendor",
                                      "subsystem_device"};
    char line[64];

    for (int i = 0; i < 5; i++) {
        unsigned *to = i ? &pci->id[i - 1] : &pci->class;
        sysfs_read_line(line, sizeof line, "%s/sys/bus/pci/devices/%s/%s", root, pci->busid,
                        ids[i]);
        unsigned id = (unsigned)strtoul(line, NULL, 16);
        *to = id ? id : *to;
    }
    if (!(pci->GTps > 0))
        topo_sysfs_link(root, pci->busid, "max", &pci->GTps, &pci->lanes);
}

int topo_sysfs_numa(const char *root, const char *busid)
{
    struct err ignored;
    int64_t node = -1;
    char line[64];

    sysfs_read_line(line, sizeof line, "%s/sys/bus/pci/devices/%s/numa_node", root, busid);
    return num_i64(line, 0, 4095, &node, &ignored) ? -1 : (int)node;
}

void topo_sysfs_host(const char *root, char *host, size_t space)
{
    sysfs_read_line(host, space, "%s/proc/sys/kernel/hostname", root);
    for (const char *p = host; *p; p++)
        if ((unsigned char)*p <= 0x20 || *p == 0x7f)
            host[0] = 0;
}

/* ---- processors ---- */

int topo_sysfs_list(const char *line, unsigned char in[TOPO_SYSFS_CPUS])
{
    int count = 0;

    memset(in, 0, TOPO_SYSFS_CPUS);
    for (const char *at = line; *at;) {
        char *end;
        long from = strtol(at, &end, 10), to = *end == '-' ? strtol(end + 1, &end, 10) : from;
        if (end == at || from < 0 || to < from || to >= TOPO_SYSFS_CPUS ||
            (*end && *end != ','))
            return 0;
        count += (int)(to - from) + 1;
        memset(in + from, 1, (size_t)(to - from) + 1);
        at = end + (*end == ',');
    }
    return count;
}

int topo_sysfs_nodes(const char *root)
{
    unsigned char in[TOPO_SYSFS_CPUS];
    char line[256];

    sysfs_read_line(line, sizeof line, "%s/sys/devices/system/node/online", root);
    return topo_sysfs_list(line, in);
}

/* The value after "NAME\t: " at the beginning of a line; "": there is none. */
static void find_value(const char *text, const char *name, char *value, size_t space)
{
    size_t n = strlen(name);

    value[0] = 0;
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, n))
            continue;
        const char *p = line + n + strspn(line + n, " \t");
        if (*p != ':')
            continue;
        p += 1 + strspn(p + 1, " \t");
        snprintf(value, space, "%.*s", (int)strcspn(p, "\n"), p);
        return;
    }
}

/* Reads a whole file; "": there is none.  Owned by the caller. */
static char *sysfs_read_text(const char *root, const char *file)
{
    char path[PATH_MAX], *text = mem_new(FILE_BYTES + 1, 1);

    snprintf(path, sizeof path, "%s/%s", root, file);
    FILE *f = fopen(path, "re");
    if (f) {
        text[fread(text, 1, FILE_BYTES, f)] = 0;
        fclose(f);
    }
    return text;
}

void topo_sysfs_allowed(const char *root, char *list, size_t space)
{
    char *text = sysfs_read_text(root, "proc/self/status");

    find_value(text, "Cpus_allowed_list", list, space);
    mem_free(text);
}

/*
 * NCCL puts CPUID's extended family above the four bits of the family instead of adding them:
 * Zen 3, the kernel's family 25 = 15 + 10, is 15 + (10 << 4) = 175.
 */
int topo_nccl_family(int family)
{
    return family < 15 ? family : 15 + ((family - 15) << 4);
}

void topo_sysfs_cpu(const char *root, struct topo_cpu *cpu)
{
    char *text = sysfs_read_text(root, "proc/cpuinfo"), value[64];

    cpu->family = cpu->model = -1;
    find_value(text, "vendor_id", cpu->vendor, sizeof cpu->vendor);
    if (cpu->vendor[0]) {
        snprintf(cpu->arch, sizeof cpu->arch, "x86_64");
        find_value(text, "cpu family", value, sizeof value);
        if (value[0])
            cpu->family = topo_nccl_family((int)strtol(value, NULL, 10));
        find_value(text, "model", value, sizeof value);
        if (value[0])
            cpu->model = (int)strtol(value, NULL, 10);
    }
    find_value(text, "CPU implementer", value, sizeof value);
    if (value[0])
        snprintf(cpu->arch, sizeof cpu->arch, "arm64");
    find_value(text, "cpu", value, sizeof value);
    if (strncmp(value, "POWER", 5) == 0)
        snprintf(cpu->arch, sizeof cpu->arch, "ppc64");
    mem_free(text);
}

/* ---- RDMA ---- */

static int sysfs_by_name(const void *a, const void *b)
{
    const struct topo_sysfs_port *x = a, *y = b;
    int names = strcmp(x->name, y->name);

    return names ? names : x->port - y->port;
}

/* Reads one port; 0: it is not active, or has no rate like "400 Gb/sec (4X NDR)". */
static int sysfs_read_port(const char *root, struct topo_sysfs_port *p)
{
    char line[64], path[PATH_MAX];

    sysfs_read_line(line, sizeof line, "%s/sys/class/infiniband/%s/ports/%d/state", root,
                    p->name, p->port);
    if (strncmp(line, "4:", 2)) /* ACTIVE */
        return 0;
    sysfs_read_line(line, sizeof line, "%s/sys/class/infiniband/%s/ports/%d/rate", root,
                    p->name, p->port);
    double Gbit = strtod(line, NULL);
    if (!strstr(line, "Gb/sec") || !(Gbit > 0 && Gbit < 1e5))
        return 0;
    p->mbit = (int64_t)(Gbit * 1000 + 0.5);
    snprintf(path, sizeof path, "class/infiniband/%s", p->name);
    return topo_sysfs_device(root, path, p->busid);
}

int topo_sysfs_ports(const char *root, struct topo_sysfs_port **ports)
{
    enum { PORTS_OF_ONE = 4, MOST = 1024 };
    char path[PATH_MAX];
    struct io_names all;
    struct err none;
    size_t space = 0;
    int count = 0;

    *ports = NULL;
    snprintf(path, sizeof path, "%s/sys/class/infiniband", root);
    io_names_read(&all, -1, path, &none);
    for (int i = 0; i < all.count * PORTS_OF_ONE; i++) {
        const char *name = all.entry[i / PORTS_OF_ONE]->d_name;
        struct topo_sysfs_port p = {.port = 1 + i % PORTS_OF_ONE};
        snprintf(p.name, sizeof p.name, "%.63s", name);
        if (name[0] == '.' || count == MOST || !sysfs_read_port(root, &p))
            continue;
        *ports = mem_grow(*ports, &space, (size_t)count + 1, sizeof **ports);
        (*ports)[count++] = p;
    }
    io_names_free(&all);
    if (count)
        qsort(*ports, (size_t)count, sizeof **ports, sysfs_by_name);
    return count;
}

/* ---- configuration space ---- */

/*
 * The configuration space lists a device's capabilities (PCI Express Base Specification,
 * chapter 7): those of PCI from the pointer at 0x34, a byte each for id and next; extended ones
 * from 0x100, 16 bits of id, 4 of version, 12 of next.
 *
 *     0x000  header    0x040  capabilities    0x100  extended capabilities    0x1000
 *     anyone may read  root may                root may
 */
enum { HEADER = 0x40, PCI = 0x100, EXPRESS = 0x1000 };

static int sysfs_read_config(const char *root, const char *busid, unsigned char config[EXPRESS])
{
    char path[PATH_MAX];
    ssize_t bytes = 0, n;

    snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s/config", root, busid);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return 0;
    while (bytes < EXPRESS && (n = read(fd, config + bytes, (size_t)(EXPRESS - bytes))) > 0)
        bytes += n;
    close(fd);
    return (int)bytes;
}

static unsigned word_at(const unsigned char *config, int at)
{
    return config[at] | (unsigned)config[at + 1] << 8;
}

enum io_answer topo_sysfs_word(const char *root, const char *busid, unsigned capability,
                               int offset, int *at, unsigned *word)
{
    const int extended = (capability & TOPO_EXTENDED) != 0, from = extended ? PCI : HEADER;
    const unsigned id = capability & ~(unsigned)TOPO_EXTENDED;
    unsigned char config[EXPRESS];
    int bytes = sysfs_read_config(root, busid, config);

    if (bytes <= HEADER)
        return IO_BROKEN;
    int here = extended ? PCI : config[0x34] & ~3;
    /* At most as many as fit: a broken list may be circular. */
    for (int n = 0; n < (EXPRESS - PCI) / 4 && here >= from; n++) {
        if (here + offset + 2 > bytes)
            return here >= PCI && bytes == PCI ? IO_ABSENT : IO_BROKEN;
        if ((extended ? word_at(config, here) : config[here]) == id) {
            *at = here + offset;
            *word = word_at(config, *at);
            return IO_THERE;
        }
        here = (extended ? (int)word_at(config, here + 2) >> 4 : config[here + 1]) & ~3;
    }
    return IO_ABSENT;
}
