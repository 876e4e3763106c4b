/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads NCCL's topology XML, version 1, which NCCL_TOPO_DUMP_FILE writes and NCCL_TOPO_FILE
 * names.
 *
 *     system > cpu > pci (a switch) > pci > gpu > nvlink, c2c
 *                                     pci > nic > net
 *
 * A cloud's template has neither gpu nor net, only the classes of PCI devices.  The rate of a
 * link is not stated but derived with the tables of NCCL 2.27, src/graph/topo.h and topo.cc;
 * these are below a link's raw rate since they count payload.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/num.h"
#include "topo/topo_machine.h"

/* A second exceeds any device's own latency. */
static const double LATENCY_MAX_US = 1e6;

struct gpu {
    const struct xml_node *node, *pci; /* node: the gpu, or in a template the pci */
    const char *host;
    int64_t rank, dev, sm; /* -1: not stated */
    int sharers;           /* GPUs on this pci, including itself */
};

struct net {
    const struct xml_node *node, *pci; /* pci NULL: directly below a cpu */
    const char *host;
    int64_t dev; /* -1: not stated */
    int local;   /* it is close to a processor that has a GPU */
    double Bps, latency_s;
};

struct nccl {
    const struct xml *x;
    struct topo_machine *m;
    struct gpu *gpu; /* owned */
    struct net *net; /* owned */
    size_t gpu_space, net_space;
    int gpus, nets;
    struct err *err;
};

static const struct xml_node *ancestor(const struct xml_node *n, const char *name)
{
    while (n && !xml_is(n, name))
        n = n->parent;
    return n;
}

static int has_class(const struct xml_node *n, const char *class)
{
    return xml_is(n, "pci") && strncasecmp(xml_word(n, "class"), class, strlen(class)) == 0;
}

/* Reads an optional whole number >= -1; -1 means none. */
static int read_optional(const struct nccl *c, const struct xml_node *n, const char *attr,
                         int64_t *out)
{
    *out = -1;
    return xml_find(n, attr) ? xml_i64(c->x, n, attr, -1, INT32_MAX, out, c->err) : 0;
}

/* ---- GPUs ---- */

static int nccl_add_gpu(struct nccl *c, const struct xml_node *n)
{
    const struct xml_node *pci = xml_is(n, "gpu") ? n->parent : n, *cpu = ancestor(n, "cpu");
    struct gpu g = {.node = n, .pci = pci, .host = xml_word(cpu, "host_hash"), .sharers = 1};

    if (!xml_is(pci, "pci"))
        return xml_fail(c->x, n, NULL, c->err, "stands outside of 'pci', expected it inside");
    if (!cpu)
        return xml_fail(c->x, n, NULL, c->err, "stands outside of 'cpu', expected it inside");
    if (read_optional(c, n, "rank", &g.rank) || read_optional(c, n, "dev", &g.dev) ||
        read_optional(c, n, "sm", &g.sm))
        return -1;
    if (c->gpus == TOPO_MACHINE_RANKS)
        return xml_fail(c->x, n, NULL, c->err, "is one of more than %d GPUs",
                        TOPO_MACHINE_RANKS);
    const char *busid = xml_find(pci, "busid");
    for (int i = 0; i < c->gpus; i++) {
        const char *other = xml_find(c->gpu[i].pci, "busid");
        if (c->gpu[i].pci == pci)
            g.sharers = ++c->gpu[i].sharers;
        else if (busid && other && strcasecmp(busid, other) == 0 &&
                 strcmp(c->gpu[i].host, g.host) == 0)
            return xml_fail(c->x, pci, "busid", c->err,
                            "is '%.40s' as on line %d, expected each GPU once", busid,
                            c->gpu[i].pci->line);
    }
    c->gpu = mem_grow(c->gpu, &c->gpu_space, (size_t)c->gpus + 1, sizeof *c->gpu);
    c->gpu[c->gpus++] = g;
    return 0;
}

static int nccl_find_gpus(struct nccl *c)
{
    int named = 0;

    for (const struct xml_node *n = c->x->root; n; n = xml_after(n))
        named |= xml_is(n, "gpu");
    c->m->linked_unknown = !named;
    for (const struct xml_node *n = c->x->root; n; n = xml_after(n)) {
        if ((named ? xml_is(n, "gpu") : has_class(n, "0x03")) && nccl_add_gpu(c, n))
            return -1;
    }
    return c->gpus ? 0
                   : xml_fail(c->x, c->x->root, NULL, c->err,
                              "has no GPU in it, expected a 'gpu' or a 'pci' of class 0x03...");
}

/* Sorts by rank, or without ranks by host and device. */
static int nccl_by_place(const void *a, const void *b)
{
    const struct gpu *x = a, *y = b;
    int hosts = x->rank < 0 ? strcmp(x->host, y->host) : 0;
    int64_t differ = x->rank < 0 ? x->dev - y->dev : x->rank - y->rank;

    return hosts    ? hosts
           : differ ? (differ > 0) - (differ < 0)
                    : x->node->index - y->node->index;
}

/* Sorts by rank if every GPU states its own, else by device, else keeps the file's order. */
static int sort_gpus(struct nccl *c)
{
    int ranks = 0, devs = 0;

    for (int i = 0; i < c->gpus; i++) {
        ranks += c->gpu[i].rank >= 0;
        devs += c->gpu[i].dev >= 0;
    }
    if (ranks < c->gpus && devs < c->gpus)
        return 0;
    int use_rank = ranks == c->gpus;
    for (int i = 0; !use_rank && i < c->gpus; i++)
        c->gpu[i].rank = -1;
    qsort(c->gpu, (size_t)c->gpus, sizeof *c->gpu, nccl_by_place);
    for (int i = 1; i < c->gpus; i++) {
        const struct gpu *g = &c->gpu[i], *before = g - 1;
        int64_t at = use_rank ? g->rank : g->dev;
        if (at == (use_rank ? before->rank : before->dev) &&
            (use_rank || strcmp(g->host, before->host) == 0))
            return xml_fail(c->x, g->node, use_rank ? "rank" : "dev", c->err,
                            "is %lld as on line %d, expected each once", (long long)at,
                            before->node->line);
    }
    return 0;
}

/* ---- PCIe ---- */

/* Payload rate of a lane by gigatransfers: 0.75 GB/s for generation 3; 0: unknown text. */
static double lane_Bps(const char *text)
{
    static const double speed[] = {2.5, 5, 8, 16, 32, 64};
    static const double gigabits[] = {1.5, 3, 6, 12, 24, 48};
    char number[16] = "";
    struct err ignored;
    double v = 0;
    size_t n = strcspn(text, " ");

    if (n >= sizeof number || (strcmp(text + n, " GT/s") && strcmp(text + n, " GT/s PCIe")))
        return 0;
    memcpy(number, text, n);
    if (num_f64(number, 0, 1000, &v, &ignored))
        return 0;
    for (int i = 0; i < 6; i++)
        if (v == speed[i])
            return gigabits[i] * 1e9 / 8;
    return 0;
}

/* 0: the machine states no rate, as a virtual one. */
static int link_Bps(const struct nccl *c, const struct xml_node *pci, double *Bps)
{
    const char *speed = xml_find(pci, "link_speed"), *width = xml_find(pci, "link_width");
    int64_t lanes = 0;

    *Bps = 0;
    if (!speed || !*speed || strncmp(speed, "Unknown", 7) == 0 || !width || !*width)
        return 0;
    double lane = lane_Bps(speed);
    if (lane <= 0)
        return xml_fail(c->x, pci, "link_speed", c->err,
                        "is '%.40s', expected 2.5, 5, 8, 16, 32 or 64 GT/s", speed);
    if (xml_i64(c->x, pci, "link_width", 0, 32, &lanes, c->err))
        return -1;
    *Bps = lane * (double)lanes;
    return 0;
}

/* The link above a pci element; a cpu is a root. */
static int nccl_link_above(void *reader, const struct xml_node *n,
                           const struct xml_node **above, double *Bps)
{
    const struct nccl *c = reader;

    if (!xml_is(n, "pci"))
        return 0;
    *above = n->parent;
    if (!xml_is(n->parent, "pci") && !xml_is(n->parent, "cpu"))
        return xml_fail(c->x, n, NULL, c->err, "stands in '%s', expected it in 'cpu' or 'pci'",
                        n->parent ? n->parent->name : "nothing");
    return link_Bps(c, n, Bps);
}

static int64_t nccl_number_of(const struct xml_node *n, const char *attr)
{
    struct err ignored;
    int64_t v = -1;

    return num_i64(xml_word(n, attr), 0, INT32_MAX, &v, &ignored) == 0 ? v : -1;
}

/* The rate between processors by vendor: NCCL's *_QPI_BW and similar; 0: unknown. */
static double between_Bps(const struct xml_node *cpu)
{
    const char *vendor = xml_word(cpu, "vendor");
    int64_t family = nccl_number_of(cpu, "familyid"), model = nccl_number_of(cpu, "modelid");

    if (xml_has(cpu, "arch", "ppc64"))
        return 32e9;
    if (xml_has(cpu, "arch", "arm64"))
        return 6e9;
    if (!xml_has(cpu, "arch", "x86_64"))
        return 0;
    if (strcmp(vendor, "AuthenticAMD") == 0)
        return family == 26 || family == 0xbf   ? 32e9
               : family == 25 || family == 0xaf ? 24e9
                                                : 16e9;
    if (strcmp(vendor, "GenuineIntel") || family != 6)
        return 0;
    if (model >= 0xcf || (model >= 0xad && model <= 0xaf))
        return 40e9;
    return model >= 0x8f ? 22e9 : model >= 0x55 ? 10e9 : 6e9;
}

/* ---- NVLink ---- */

static int is_target(const struct nccl *c, int from, int to, const char *busid)
{
    const char *its = xml_find(c->gpu[to].pci, "busid");

    return its && strcasecmp(its, busid) == 0 &&
           strcmp(c->gpu[from].host, c->gpu[to].host) == 0;
}

/* Links to a GPU that is not in the file (NCCL leaves out those of other jobs) are skipped. */
static int read_nvlink(const struct nccl *c, int i, const struct xml_node *n)
{
    const char *target = xml_find(n, "target"), *class = xml_find(n, "tclass");
    int64_t count = 0;

    if (xml_i64(c->x, n, "count", 0, 1000, &count, c->err))
        return -1;
    if (!target)
        return xml_fail(c->x, n, "target", c->err, "is missing, expected a bus id");
    if (class && strncasecmp(class, "0x0680", 6) == 0) {
        if (strcasecmp(class, "0x068001")) /* the class of a POWER processor */
            c->m->to_switch[i] += (double)count / c->gpu[i].sharers;
        return 0;
    }
    /* A link to itself is invalid, and a file that lists one does not show the other links. */
    c->m->linked_unknown |= is_target(c, i, i, target);
    for (int j = 0; j < c->gpus; j++)
        if (j != i && is_target(c, i, j, target))
            c->m->direct[i * c->gpus + j] +=
                (double)count / c->gpu[i].sharers / c->gpu[j].sharers;
    return 0;
}

static int nccl_read_linked(struct nccl *c)
{
    struct topo_machine *m = c->m;
    int64_t least = INT64_MAX;

    for (int i = 0; i < c->gpus; i++) {
        least = c->gpu[i].sm < least ? c->gpu[i].sm : least;
        for (const struct xml_node *n = c->gpu[i].node->child; n; n = n->next) {
            if (xml_is(n, "nvlink") && read_nvlink(c, i, n))
                return -1;
            if (xml_is(n, "c2c") && nccl_number_of(n, "count") > 0)
                m->c2c = (int)nccl_number_of(n, "count");
        }
    }
    /* A link has two ends. */
    const double *direct = c->m->direct;
    for (int i = 0; i < c->gpus; i++) {
        for (int j = 0; j < i; j++) {
            double out = direct[i * c->gpus + j], back = direct[j * c->gpus + i];
            if (out == back)
                continue;
            return xml_fail(c->x, c->gpu[i].node, NULL, c->err,
                            "has %g NVLinks to the GPU '%.40s', which has %g back, expected as"
                            " many",
                            out, xml_word(c->gpu[j].pci, "busid"), back);
        }
    }
    topo_machine_linked(m);
    /* The machines of one file share one NVLink domain (NVL72), or the file does not describe
       them. */
    for (int i = 1; i < c->gpus; i++)
        if (m->domains > 1 && strcmp(c->gpu[i].host, c->gpu[0].host))
            return xml_fail(c->x, c->gpu[i].node, NULL, c->err,
                            "is of another host than the GPU on line %d and shares no NVLink"
                            " with it, expected one host",
                            c->gpu[0].node->line);
    m->counts_links = 1;
    m->linked_unknown &= !m->linked;
    double Bps = least >= 100  ? 40.1e9
                 : least >= 90 ? 20.6e9
                 : least == 86 ? 12e9
                 : least >= 70 ? 20e9
                 : least >= 60 ? 18e9
                               : 0;
    if (!m->linked || Bps <= 0)
        return 0;
    topo_machine_links(m, Bps);
    snprintf(m->inside.rate_source, sizeof m->inside.rate_source,
             "%g NVLinks of %g GB/s, as NCCL counts those of sm %d (topo.h)", m->links,
             Bps / 1e9, (int)least);
    return 0;
}

/* ---- network ---- */

/* A network device that several processors reach is listed below each: detects repetitions. */
static int is_again(struct nccl *c, const struct net *net, int *again)
{
    *again = 0;
    for (int i = 0; net->dev >= 0 && i < c->nets; i++) {
        struct net *old = &c->net[i];
        if (old->dev != net->dev || strcmp(old->host, net->host))
            continue;
        if (strcmp(xml_word(old->node, "name"), xml_word(net->node, "name")) ||
            old->Bps != net->Bps)
            return xml_fail(c->x, net->node, "dev", c->err,
                            "is %lld as on line %d, where name or speed differ, expected each"
                            " device once",
                            (long long)net->dev, old->node->line);
        old->local |= net->local;
        *again = 1;
    }
    return 0;
}

static int add_net(struct nccl *c, const struct xml_node *n)
{
    const struct xml_node *cpu = ancestor(n, "cpu");
    struct net net = {.node = n, .pci = ancestor(n, "pci"), .host = xml_word(cpu, "host_hash")};
    int64_t mbit = -1;
    int again = 0;

    if (!xml_is(n->parent, "nic"))
        return xml_fail(c->x, n, NULL, c->err, "stands outside of 'nic', expected it inside");
    if (xml_has(n, "net", "0")) /* merged into another listed device */
        return 0;
    if (read_optional(c, n, "dev", &net.dev) || read_optional(c, n, "speed", &mbit))
        return -1;
    if (xml_find(n, "latency") &&
        xml_f64(c->x, n, "latency", 0, LATENCY_MAX_US, &net.latency_s, c->err))
        return -1;
    /* The processor has a GPU, or the node of one of the two is unknown. */
    net.local = strcmp(xml_word(cpu, "numaid"), "-1") == 0;
    for (int i = 0; i < c->gpus; i++) {
        const struct xml_node *its = ancestor(c->gpu[i].pci, "cpu");
        net.local |= its == cpu || xml_has(its, "numaid", "-1");
    }
    net.latency_s /= 1e6;
    net.Bps = mbit > 0 ? (double)mbit * 1e6 / 8 : 0;
    if (is_again(c, &net, &again))
        return -1;
    if (again)
        return 0;
    if (c->nets == TOPO_MACHINE_RANKS)
        return xml_fail(c->x, n, NULL, c->err, "is one of more than %d network devices",
                        TOPO_MACHINE_RANKS);
    c->net = mem_grow(c->net, &c->net_space, (size_t)c->nets + 1, sizeof *c->net);
    c->net[c->nets++] = net;
    return 0;
}

/* The rate of all ports of the PCI device of device i; 0 when an earlier one has counted
   them. */
static int device_Bps(struct nccl *c, int i, double *Bps, int *cut)
{
    const struct net *net = &c->net[i];
    double pcie = 0;

    *Bps = net->Bps;
    if (!net->pci)
        return 0;
    for (int j = 0; j < c->nets; j++) {
        if (j == i || c->net[j].pci != net->pci)
            continue;
        *Bps = j < i ? 0 : *Bps + c->net[j].Bps;
        if (j < i)
            return 0;
    }
    if (link_Bps(c, net->pci, &pcie))
        return -1;
    if (pcie > 0 && pcie < *Bps) {
        *Bps = pcie;
        *cut = 1;
    }
    return 0;
}

static int read_nets(struct nccl *c)
{
    struct topo_level *net = &c->m->net;
    double all = 0, flow = 0, latency_s = 0, least = INFINITY, most = 0;
    char range[48];
    int cut = 0;

    for (const struct xml_node *n = c->x->root; n; n = xml_after(n))
        if (xml_is(n, "net") && add_net(c, n))
            return -1;
    c->m->nics = c->nets;
    for (const struct xml_node *n = c->x->root; c->nets == 0 && n; n = xml_after(n))
        c->m->nics += has_class(n, "0x02");
    for (int i = 0; i < c->nets; i++) {
        double Bps = 0;
        if (device_Bps(c, i, &Bps, &cut))
            return -1;
        if (!c->net[i].local)
            topo_machine_far(c->m, xml_word(c->net[i].node, "name"));
        all += Bps;
        if (Bps > 0)
            flow = fmax(flow, fmin(c->net[i].Bps, Bps));
        latency_s = fmax(latency_s, c->net[i].latency_s);
        least = fmin(least, c->net[i].Bps);
        most = fmax(most, c->net[i].Bps);
    }
    if (latency_s > 0) {
        net->latency_s = TOPO_NET_S + latency_s;
        snprintf(net->latency_source, sizeof net->latency_source,
                 "network hop in NCCL's model (tuning.cc) and %g us that the file states",
                 latency_s * 1e6);
    }
    if (c->nets == 0 || least <= 0)
        return 0;
    net->port_Bps = all;
    net->flow_Bps = flow;
    net->member_Bps = all / c->gpus;
    snprintf(range, sizeof range, most > least ? "%g to %g" : "%g", least * 8e-9, most * 8e-9);
    snprintf(net->rate_source, sizeof net->rate_source,
             "%d network device%s of %s Gbit/s, as the file states%s", c->nets,
             c->nets == 1 ? "" : "s", range, cut ? ", cut to what PCIe passes" : "");
    return 0;
}

/* ---- all ---- */

int topo_nccl_read(struct topo_machine *m, const struct xml *x, struct err *err)
{
    struct nccl c = {.x = x, .m = m, .err = err};
    int64_t version = 0;

    /* RCCL's files have AMD GPUs and XGMI links, in elements and a version of their own. */
    for (const struct xml_node *n = x->root; n; n = xml_after(n))
        if (xml_is(n, "xgmi") || (xml_is(n, "gpu") && xml_find(n, "gcn")))
            return xml_fail(x, n, NULL, err,
                            "was written by RCCL, expected XML of NCCL or hwloc (lstopo"
                            " FILE.xml)");
    int rc = err_any(xml_i64(x, x->root, "version", 1, 1, &version, err) ||
                     nccl_find_gpus(&c) || sort_gpus(&c));
    if (rc == 0) {
        topo_machine_gpus(m, c.gpus, TOPO_CUDA);
        rc = nccl_read_linked(&c);
        double between = INFINITY;
        for (int i = 0; rc == 0 && i < c.gpus; i++) {
            rc = topo_machine_hang(m, c.gpu[i].pci, nccl_link_above, &c);
            between = fmin(between, between_Bps(ancestor(c.gpu[i].pci, "cpu")));
        }
        m->pcie.between_Bps = isfinite(between) ? between : 0;
        if (rc == 0) {
            topo_machine_pcie(m, "PCIe generation and lanes as NCCL counts them (topo.cc)");
            rc = read_nets(&c);
        }
    }
    mem_free(c.gpu);
    mem_free(c.net);
    return rc;
}
