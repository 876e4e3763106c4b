/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds settings of a machine that make fabrics slow, in files of the kernel
 * (Documentation/ABI, and the PCI Express Base Specification for configuration space).  Leaves
 * faults of a port itself to the quick level.
 */
#include "health/health_doctor.h"

#include <ctype.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "value/value_json_out.h"
#include "base/mem.h"
#include "base/num.h"
#include "health/health_nics.h"
#include "health/health_verdict.h"
#include "topo/topo_parts.h"

/* Ports from this speed on belong to the fabric; slower ones are for administration. */
static const int64_t fast_mbit = 10000;

struct device {
    char name[HEALTH_NIC_NAME]; /* name of a port, or bus id of a GPU */
    char busid[20];
    int gpu, ib, ethernet, numa;
    int64_t mbit;
    int steps; /* from the root port to the device */
    char step[2 * TOPO_SYSFS_DEPTH][20];
};

struct note {
    enum health_state state;
    int code, devices;
    char (*device)[HEALTH_NIC_NAME]; /* devices that it applies to, or none; owned */
    size_t space;
    char text[200], path[PATH_MAX], value[100]; /* evidence from the first device */
};

struct doctor {
    const char *root;
    struct device *dev;
    int count, gpus, nvidia, rdma, notes;
    size_t space, note_space;
    struct note *note;
    char path[PATH_MAX], value[4096]; /* the file read last: the evidence */
};

/* ---- evidence and findings ---- */

static void set_path(struct doctor *d, const char *fmt, va_list ap)
{
    size_t n = (size_t)snprintf(d->path, sizeof d->path, "%s/", d->root);

    n = n < sizeof d->path ? n : sizeof d->path - 1;
    vsnprintf(d->path + n, sizeof d->path - n, fmt, ap);
    d->value[0] = 0;
}

static void __attribute__((format(printf, 2, 3)))
point_at(struct doctor *d, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    set_path(d, fmt, ap);
    va_end(ap);
}

/* Reads the file into d->value. */
static enum io_answer __attribute__((format(printf, 2, 3)))
doctor_look(struct doctor *d, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    set_path(d, fmt, ap);
    va_end(ap);
    enum io_answer why = io_line(d->path, d->value, sizeof d->value);
    for (char *c = d->value; *c; c++)
        *c = isprint((unsigned char)*c) ? *c : ' ';
    return why;
}

/* Reports a finding with the file read last as evidence; one that applies to several devices is
   reported once.  fmt NULL: the text of the code; device "": none. */
static void __attribute__((format(printf, 5, 6)))
doctor_report(struct doctor *d, enum health_state state, int code, const char *device,
              const char *fmt, ...)
{
    struct note new = {.state = state, .code = code}, *n = NULL;
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(new.text, sizeof new.text, fmt ? fmt : health_check_find(code)->text, ap);
    va_end(ap);
    snprintf(new.path, sizeof new.path, "%s", d->path);
    snprintf(new.value, sizeof new.value, "%.99s", d->value);
    for (int i = 0; i < d->notes && !n; i++)
        if (d->note[i].code == code && strcmp(d->note[i].text, new.text) == 0 &&
            strcmp(d->note[i].value, new.value) == 0)
            n = &d->note[i];
    if (!n) {
        d->note = mem_grow(d->note, &d->note_space, (size_t)d->notes + 1, sizeof *d->note);
        n = &d->note[d->notes++];
        *n = new;
    }
    if (!device[0])
        return;
    n->device = mem_grow(n->device, &n->space, (size_t)n->devices + 1, sizeof *n->device);
    snprintf(n->device[n->devices++], sizeof *n->device, "%s", device);
}

static void report_unread(struct doctor *d, int code, const char *device)
{
    d->value[0] = 0;
    doctor_report(d, HEALTH_UNKNOWN, code, device, "cannot be read, perhaps without root");
}

/* ---- devices ---- */

static struct device *add_device(struct doctor *d, const char *busid)
{
    d->dev = mem_grow(d->dev, &d->space, (size_t)d->count + 1, sizeof *d->dev);
    struct device *v = &d->dev[d->count++];
    *v = (struct device){.numa = -1};
    snprintf(v->busid, sizeof v->busid, "%s", busid);
    v->steps = topo_sysfs_path(d->root, busid, v->step);
    v->numa = topo_sysfs_numa(d->root, busid);
    return v;
}

static void doctor_find_gpus(struct doctor *d)
{
    char path[PATH_MAX];
    struct io_names all;
    struct err none;

    snprintf(path, sizeof path, "%s/sys/bus/pci/devices", d->root);
    io_names_read(&all, -1, path, &none);
    for (int i = 0; i < all.count; i++) {
        struct topo_pci p = {0};
        snprintf(p.busid, sizeof p.busid, "%.19s", all.entry[i]->d_name);
        topo_sysfs_pci(d->root, &p);
        /* 3D controllers, other display controllers, accelerators; of two vendors also VGA */
        unsigned kind = p.class >> 8, maker = p.id[0];
        if (kind != 0x0302 && kind != 0x0380 && kind != 0x1200 &&
            (kind != 0x0300 || (maker != 0x10de && maker != 0x1002)))
            continue;
        struct device *v = add_device(d, p.busid);
        v->gpu = 1;
        d->nvidia += maker == 0x10de;
        snprintf(v->name, sizeof v->name, "%s", p.busid);
    }
    io_names_free(&all);
    d->gpus = d->count;
}

/* Reports a port without a link if another function of its card is a port of the fabric. */
static void check_spare(struct doctor *d, const struct health_nic *n)
{
    char of[PATH_MAX], busid[20];
    int idle = n->real && !n->ib && !n->carrier, same = 0;

    snprintf(of, sizeof of, "class/net/%s", n->name);
    topo_sysfs_device(d->root, of, busid);
    for (int i = 0; idle && busid[0] && i < d->count; i++)
        same |= strcmp(d->dev[i].busid, busid) &&
                strncmp(d->dev[i].busid, busid, strcspn(busid, ".")) == 0;
    if (same && doctor_look(d, "sys/class/net/%s/operstate", n->name) == IO_THERE)
        doctor_report(d, HEALTH_WARNING, HC_SPARE, n->name, NULL);
}

/* Finds the ports of the fabric: RDMA ports, and fast Ethernet ports with a link. */
static int find_ports(struct doctor *d, struct err *err)
{
    char sys[PATH_MAX], proc[PATH_MAX], of[PATH_MAX], busid[20];
    struct health_nics nics;

    snprintf(sys, sizeof sys, "%s/sys", d->root);
    snprintf(proc, sizeof proc, "%s/proc", d->root);
    if (health_nics_read(&nics, sys, proc, err))
        return -1;
    for (int i = 0; i < nics.count; i++) {
        const struct health_nic *n = &nics.nic[i];
        int type =
            doctor_look(d, "sys/class/net/%s/type", n->name) == IO_THERE ? atoi(d->value) : 1;
        /* ARPHRD_ETHER; an interface over InfiniBand has a port in sys/class/infiniband. */
        if (!n->carrier || (!n->ib && (!n->real || type != 1 || n->mbit < fast_mbit)))
            continue;
        snprintf(of, sizeof of, "class/%s/%.*s", n->ib ? "infiniband" : "net",
                 n->ib ? (int)strcspn(n->name, "/") : HEALTH_NIC_NAME, n->name);
        topo_sysfs_device(d->root, of, busid);
        struct device *v = add_device(d, busid);
        v->ib = n->ib;
        d->rdma += n->ib;
        v->ethernet = !n->ib;
        v->mbit = n->mbit;
        snprintf(v->name, sizeof v->name, "%s", n->name);
    }
    for (int i = 0; i < nics.count; i++)
        check_spare(d, &nics.nic[i]);
    health_nics_release(&nics);
    return 0;
}

static int by_bus(const void *a, const void *b)
{
    const struct device *x = a, *y = b;
    int kind = y->gpu - x->gpu, bus = strcmp(x->busid, y->busid);

    return kind ? kind : bus ? bus : strcmp(x->name, y->name);
}

/* ---- checks: PCIe ---- */

/* Reports a word of configuration space whose bits under `mask` are not `fine`. */
static void doctor_check_word(struct doctor *d, int code, const struct device *v,
                              const char *busid, unsigned capability, int offset, unsigned mask,
                              unsigned fine)
{
    unsigned word;
    int at;
    enum io_answer why = topo_sysfs_word(d->root, busid, capability, offset, &at, &word);

    point_at(d, "sys/bus/pci/devices/%s/config", busid);
    if (why == IO_BROKEN)
        report_unread(d, code, v ? v->name : busid);
    if (why != IO_THERE || (word & mask) == fine)
        return;
    point_at(d, "sys/bus/pci/devices/%s/config+0x%x", busid, (unsigned)at);
    snprintf(d->value, sizeof d->value, "0x%04x", word);
    doctor_report(d, HEALTH_WARNING, code, v ? v->name : busid, NULL);
}

/*
 * Access Control Services, control at 6: P2P request redirect 0x4, completion redirect 0x8 and
 * upstream forwarding 0x10 send traffic between devices below a switch up to the root complex
 * and down again.  Source validation, 0x1, alone does not.
 */
static void check_acs(struct doctor *d)
{
    char(*seen)[20] = NULL;
    size_t space = 0;
    int count = 0;

    for (int i = 0; d->gpus > 0 && d->count > 1 && i < d->count; i++)
        for (int s = 0; s < d->dev[i].steps - 1; s++) {
            const char *busid = d->dev[i].step[s];
            int known = 0;
            for (int k = 0; k < count && !known; k++)
                known = strcmp(seen[k], busid) == 0;
            if (known)
                continue;
            seen = mem_grow(seen, &space, (size_t)count + 1, sizeof *seen);
            memcpy(seen[count++], busid, sizeof *seen);
            doctor_check_word(d, HC_ACS, NULL, busid, TOPO_CAP_ACS, 6, 0x1c, 0);
        }
    mem_free(seen);
}

static int is_booted_with(struct doctor *d, const char *a, const char *b)
{
    return doctor_look(d, "proc/cmdline") == IO_THERE &&
           (strstr(d->value, a) || strstr(d->value, b));
}

/* Devices in a group of type DMA or DMA-FQ have their addresses translated. */
static void check_iommu(struct doctor *d, const struct device *v)
{
    enum io_answer why = doctor_look(d, "sys/bus/pci/devices/%s/iommu_group/type", v->busid);

    if (why == IO_THERE && strncmp(d->value, "DMA", 3) == 0)
        doctor_report(d, HEALTH_WARNING, HC_IOMMU, v->name, NULL);
    else if (why == IO_BROKEN)
        report_unread(d, HC_IOMMU, v->name);
    if (why != IO_ABSENT ||
        doctor_look(d, "sys/bus/pci/devices/%s/iommu_group/reserved_regions", v->busid) ==
            IO_ABSENT)
        return; /* no group: no IOMMU */
    /* Before Linux 5.11 the command line or the built-in default decides. */
    if (is_booted_with(d, "iommu=pt", "iommu.passthrough=1"))
        return;
    if (is_booted_with(d, "intel_iommu=on", "amd_iommu=on"))
        doctor_report(d, HEALTH_WARNING, HC_IOMMU, v->name, NULL);
    else
        report_unread(d, HC_IOMMU, v->name);
}

/*
 * A GPU's link may be slow because the GPU is idle.  The speed of a port's link, and the width
 * of both, are as negotiated.
 */
static void doctor_check_link(struct doctor *d, const struct device *v)
{
    double GTps, most_GTps;
    int lanes, most_lanes;

    topo_sysfs_link(d->root, v->busid, "current", &GTps, &lanes);
    topo_sysfs_link(d->root, v->busid, "max", &most_GTps, &most_lanes);
    if (lanes > 0 && lanes < most_lanes) {
        doctor_look(d, "sys/bus/pci/devices/%s/current_link_width", v->busid);
        doctor_report(d, HEALTH_WARNING, HC_PCIE, v->name, "the PCIe link has %d of %d lanes",
                      lanes, most_lanes);
    }
    if (GTps > 0 && GTps < most_GTps) {
        doctor_look(d, "sys/bus/pci/devices/%s/current_link_speed", v->busid);
        doctor_report(d, v->gpu ? HEALTH_UNKNOWN : HEALTH_WARNING, HC_PCIE, v->name,
                      "the PCIe link runs at %.3g of %.3g GT/s%s", GTps, most_GTps,
                      v->gpu ? ", as of an idle GPU: repeat this while it works" : "");
    }
}

/* ---- checks: GPUs and ports together ---- */

/*
 * Checks that a GPU shares a switch with a port.  A common root port means a common switch:
 * without a switch it has one device.  A hypervisor shows a GPU with no port above it.
 */
static void check_distance(struct doctor *d, const struct device *gpu)
{
    const struct device *closest = NULL;
    int joined = 0;

    for (int i = 0; i < d->count; i++) {
        const struct device *v = &d->dev[i];
        /* GPUs send through RDMA ports if there are any. */
        if (v->gpu || v->steps == 0 || (d->rdma && !v->ib))
            continue;
        joined |= v->steps > 1 && gpu->steps > 1 && strcmp(v->step[0], gpu->step[0]) == 0;
        if (!closest || (closest->numa != gpu->numa && v->numa == gpu->numa))
            closest = v;
    }
    doctor_look(d, "sys/bus/pci/devices/%s/numa_node", gpu->busid);
    if (!closest || joined)
        return;
    if (closest->numa != gpu->numa && (closest->numa < 0 || gpu->numa < 0))
        doctor_report(d, HEALTH_UNKNOWN, HC_DISTANCE, gpu->name,
                      "the firmware does not name the NUMA node of the %s",
                      gpu->numa < 0 ? "GPU" : "port");
    else if (closest->numa != gpu->numa)
        doctor_report(d, HEALTH_WARNING, HC_DISTANCE, gpu->name,
                      "no port is on the GPU's NUMA node; %s is on node %d", closest->name,
                      closest->numa);
    else if (gpu->steps < 2)
        doctor_report(d, HEALTH_UNKNOWN, HC_DISTANCE, gpu->name,
                      "the PCIe switches are not shown");
    else
        doctor_report(d, HEALTH_WARNING, HC_DISTANCE, gpu->name,
                      "no port shares a PCIe switch with the GPU; %s is on the same NUMA node",
                      closest->name);
}

/* Compares with the processors that this process may run on, as its children and its shell's
   may. */
static void check_numa(struct doctor *d, const struct device *v)
{
    unsigned char closest[TOPO_SYSFS_CPUS], mine[TOPO_SYSFS_CPUS];
    char allowed[4096];

    if (topo_sysfs_nodes(d->root) < 2)
        return;
    if (v->numa < 0) {
        doctor_look(d, "sys/bus/pci/devices/%s/numa_node", v->busid);
        doctor_report(d, HEALTH_UNKNOWN, HC_NUMA, v->name,
                      "the firmware does not name a NUMA node");
        return;
    }
    doctor_look(d, "sys/devices/system/node/node%d/cpulist", v->numa);
    int known = topo_sysfs_list(d->value, closest), common = 0;
    topo_sysfs_allowed(d->root, allowed, sizeof allowed);
    if (known)
        point_at(d, "proc/self/status");
    if (!known || !topo_sysfs_list(allowed, mine)) {
        report_unread(d, HC_NUMA, v->name);
        return;
    }
    for (int i = 0; i < TOPO_SYSFS_CPUS; i++)
        common |= closest[i] & mine[i];
    snprintf(d->value, sizeof d->value, "%s", allowed);
    if (!common)
        doctor_report(d, HEALTH_WARNING, HC_NUMA, v->name,
                      "this process may not run on the port's NUMA node, %d", v->numa);
}

/* Either module lets ports access GPU memory; so does dma-buf, in the open kernel module. */
static void check_gpudirect(struct doctor *d)
{
    if (!d->nvidia || !d->rdma ||
        (doctor_look(d, "proc/driver/nvidia/version") == IO_THERE &&
         strstr(d->value, "Open Kernel")) ||
        doctor_look(d, "sys/module/nv_peer_mem/initstate") != IO_ABSENT ||
        doctor_look(d, "sys/module/nvidia_peermem/initstate") != IO_ABSENT)
        return;
    snprintf(d->value, sizeof d->value, "absent");
    doctor_report(d, HEALTH_WARNING, HC_GPUDIRECT, "", NULL);
}

/* ---- checks: ports, TCP, processors ---- */

static int64_t mtu_of(struct doctor *d, const struct device *v)
{
    struct err ignored;
    int64_t mtu = -1;

    if (doctor_look(d, "sys/class/net/%s/mtu", v->name) == IO_THERE)
        num_i64(d->value, 1, 1 << 20, &mtu, &ignored);
    return mtu;
}

static void check_mtu(struct doctor *d, const struct device *v)
{
    int64_t most = 0;

    for (int i = 0; i < d->count; i++)
        if (d->dev[i].ethernet && d->dev[i].mbit == v->mbit) {
            int64_t mtu = mtu_of(d, &d->dev[i]);
            most = mtu > most ? mtu : most;
        }
    int64_t mtu = mtu_of(d, v);
    if (mtu < 0)
        report_unread(d, HC_MTU, v->name);
    else if (mtu <= 1500)
        doctor_report(d, HEALTH_WARNING, HC_MTU, v->name,
                      "frames are small for %.4g Gbit/s: each costs processor time",
                      (double)v->mbit / 1e3);
    else if (mtu < most)
        doctor_report(d, HEALTH_WARNING, HC_MTU, v->name,
                      "the MTU is below that of another port of its rate, %d", (int)most);
}

/*
 * A connection carries one window per round trip.  A round trip takes 0.05 ms when idle, and
 * 0.4 ms more in a queue of 5 MB, a usual share of a switch's buffer, at 100 Gbit/s.  Half of a
 * socket buffer is window, the other half the kernel's own.
 */
static const double round_trip_s = 0.5e-3;

/* Checks the limit of a connection's automatic buffer size: the last of three numbers. */
static void check_tcp(struct doctor *d, const char *which, const struct device *fastest)
{
    double need = 2 * (double)fastest->mbit * 1e6 / 8 * round_trip_s;
    long long least, usual, most;

    if (doctor_look(d, "proc/sys/net/ipv4/tcp_%s", which) != IO_THERE ||
        sscanf(d->value, "%lld %lld %lld", &least, &usual, &most) != 3)
        report_unread(d, HC_TCP, fastest->name);
    else if ((double)most < need)
        doctor_report(d, HEALTH_WARNING, HC_TCP, fastest->name,
                      "a connection at %.4g Gbit/s needs buffers of %.0f bytes",
                      (double)fastest->mbit / 1e3, need);
}

static void check_ethernet(struct doctor *d)
{
    const struct device *fastest = NULL;

    for (int i = 0; i < d->count; i++)
        if (d->dev[i].ethernet && (!fastest || d->dev[i].mbit > fastest->mbit))
            fastest = &d->dev[i];
    if (!fastest)
        return;
    check_tcp(d, "rmem", fastest);
    check_tcp(d, "wmem", fastest);
    /* The others grow their window independently of the round trip. */
    if (doctor_look(d, "proc/sys/net/ipv4/tcp_congestion_control") != IO_THERE)
        report_unread(d, HC_CONGESTION, fastest->name);
    else if (strcmp(d->value, "reno") == 0)
        doctor_report(d, HEALTH_WARNING, HC_CONGESTION, fastest->name, NULL);
}

/* Without cpufreq the kernel does not choose the clock. */
static void check_governors(struct doctor *d)
{
    unsigned char online[TOPO_SYSFS_CPUS];

    if (doctor_look(d, "sys/devices/system/cpu/online") != IO_THERE ||
        !topo_sysfs_list(d->value, online)) {
        report_unread(d, HC_GOVERNOR, "");
        return;
    }
    for (int i = 0; i < TOPO_SYSFS_CPUS; i++) {
        enum io_answer why = IO_ABSENT;
        char name[24];
        if (online[i])
            why = doctor_look(d, "sys/devices/system/cpu/cpu%d/cpufreq/scaling_governor", i);
        snprintf(name, sizeof name, "cpu%d", i);
        if (why == IO_BROKEN)
            report_unread(d, HC_GOVERNOR, name);
        else if (why == IO_THERE && strcmp(d->value, "performance"))
            doctor_report(d, HEALTH_WARNING, HC_GOVERNOR, name, NULL);
    }
}

/* ---- the report ---- */

static int by_code(const void *a, const void *b)
{
    const struct note *x = a, *y = b;
    int code = x->code - y->code;

    return code ? code : strcmp(x->path, y->path);
}

static void doctor_print_json(const struct doctor *d, const char *host, FILE *out)
{
    struct jout j = jout_begin(out, "paro.topo.doctor/1");
    char code[16];

    jout_text(&j, "host", host);
    jout_int(&j, "gpus", d->gpus);
    jout_int(&j, "ports", d->count - d->gpus);
    jout_open(&j, "findings", '[');
    for (const struct note *n = d->note; n < d->note + d->notes; n++) {
        snprintf(code, sizeof code, "HC-%03d", n->code);
        jout_open(&j, NULL, '{');
        jout_text(&j, "state", health_state_name(n->state));
        jout_text(&j, "code", code);
        jout_open(&j, "devices", '[');
        for (int i = 0; i < n->devices; i++)
            jout_text(&j, NULL, n->device[i]);
        jout_close(&j, ']');
        jout_text(&j, "text", n->text);
        jout_text(&j, "path", n->path);
        jout_text(&j, "value", n->value[0] ? n->value : NULL);
        jout_text(&j, "cure",
                  n->state == HEALTH_UNKNOWN ? NULL : health_check_find(n->code)->cure);
        jout_close(&j, '}');
    }
    jout_end(&j);
}

static void doctor_print_text(const struct doctor *d, const char *host, int found, FILE *out)
{
    for (const struct note *n = d->note; n < d->note + d->notes; n++) {
        fprintf(out, "%s HC-%03d ", health_state_name(n->state), n->code);
        if (n->devices)
            fprintf(out, "%s", n->device[0]);
        if (n->devices > 1)
            fprintf(out, " and %d more", n->devices - 1);
        fprintf(out, "%s%s: %s%s%s", n->devices ? ": " : "", n->text, n->path,
                n->value[0] ? " = " : "", n->value);
        if (n->state != HEALTH_UNKNOWN)
            fprintf(out, "; %s", health_check_find(n->code)->cure);
        fputc('\n', out);
    }
    fprintf(out, "%s%s%d found, %d unknown; %d GPUs, %d ports\n", host, host[0] ? ": " : "",
            found, d->notes - found, d->gpus, d->count - d->gpus);
}

int health_doctor(const char *root, int json, FILE *out, int *found, struct err *err)
{
    struct doctor d = {.root = root};
    char host[256];

    doctor_find_gpus(&d);
    int rc = find_ports(&d, err);
    if (d.count)
        qsort(d.dev, (size_t)d.count, sizeof *d.dev, by_bus);
    check_acs(&d);
    for (int i = 0; i < d.count; i++) {
        const struct device *v = &d.dev[i];
        if (v->ethernet)
            check_mtu(&d, v);
        /* An earlier port may be the same PCI device, as RoCE's port and its interface are. */
        if (!v->busid[0] || (i > 0 && strcmp(v->busid, v[-1].busid) == 0))
            continue;
        check_iommu(&d, v);
        doctor_check_link(&d, v);
        if (v->gpu)
            check_distance(&d, v);
        else {
            /* Device control at 8: enable relaxed ordering. */
            doctor_check_word(&d, HC_ORDERING, v, v->busid, TOPO_CAP_EXPRESS, 8, 0x10, 0x10);
            check_numa(&d, v);
        }
    }
    check_gpudirect(&d);
    check_ethernet(&d);
    check_governors(&d);
    *found = 0;
    for (int i = 0; i < d.notes; i++)
        *found += d.note[i].state != HEALTH_UNKNOWN;
    if (d.notes)
        qsort(d.note, (size_t)d.notes, sizeof *d.note, by_code);
    topo_sysfs_host(root, host, sizeof host);
    if (rc == 0 && json)
        doctor_print_json(&d, host, out);
    else if (rc == 0)
        doctor_print_text(&d, host, *found, out);
    for (int i = 0; i < d.notes; i++)
        mem_free(d.note[i].device);
    mem_free(d.dev);
    mem_free(d.note);
    return rc;
}
