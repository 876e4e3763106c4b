/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes a fabric of an InfiniBand subnet: hosts are groups, and the switches that stand
 * together below the next tier are blocks.
 *
 *     tier 3             core                      level 3: a pod's links to the core
 *     tier 2     spine         spine               level 2: a leaf's links to its spines
 *     tier 1  leaf leaf       leaf leaf            level 1: a host's adapters
 *             h h  h h        h h  h h             level 0: inside a host, not stated
 *
 * A host with several adapters joins its leaves into one unit.  Each step only joins units, so
 * levels nest for any cabling.
 */
#include "topo/topo_ib.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"

enum { TIERS_MAX = 64, BLOCKS_MAX = TOPO_LEVELS_MAX - 2 };

struct host {
    /* The adapter's description; the host is its first word, if that is a name */
    const char *words;
    int name_bytes;        /* 0: unknown */
    int node;              /* its first adapter */
    double Bps, least_Bps; /* sum over its links; rate of its slowest link */
    int stated;
    int unit[BLOCKS_MAX]; /* by step, from the inside out: the first node of the host's unit */
};

struct step {                              /* one level of blocks */
    double port_Bps, member_Bps, link_Bps; /* the lowest of its units, of its links */
    int units, stated;
};

struct fabric {
    struct ib *ib;
    struct topo *t;
    const struct topo_settings *settings;
    int ranks;         /* per host */
    struct host *host; /* [hosts], owned */
    int hosts;
    int *host_of; /* [nodes]: the host of an adapter, or -1 */
    int *root;    /* [nodes]: towards the first node of its unit */
    struct step step[BLOCKS_MAX];
    int steps;
    struct err *err;
};

/* ---- hosts ---- */

/* The length of the host's name: "node018 HCA-1" belongs to node018; "MT23108 InfiniHost
   Mellanox Technologies" names no host. */
static int name_bytes(const char *words)
{
    size_t n = strspn(words, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                             "-_.");

    return n > 255 || (words[n] && words[n] != ' ') || strstr(words, "Technologies") ||
                   strstr(words, "Voltaire") || strstr(words, "InfiniHost")
               ? 0
               : (int)n;
}

static int ib_by_name(const void *a, const void *b)
{
    const struct host *x = a, *y = b;
    int most = x->name_bytes < y->name_bytes ? x->name_bytes : y->name_bytes;
    int differ = strncmp(x->words, y->words, (size_t)most);

    if (differ)
        return differ;
    if (x->name_bytes != y->name_bytes)
        return x->name_bytes - y->name_bytes;
    return x->node - y->node;
}

/* Adapters with the same name belong to one host. */
static int ib_find_hosts(struct fabric *f)
{
    const struct ib *ib = f->ib;
    int adapters = 0;

    f->host = mem_new((size_t)ib->nodes, sizeof *f->host);
    for (int i = 0; i < ib->nodes; i++) {
        const struct ib_node *n = &ib->node[i];
        f->host_of[i] = -1;
        if (n->is_switch || n->is_ignored || n->links == 0)
            continue;
        f->host[adapters++] = (struct host){
            .words = n->words, .name_bytes = name_bytes(n->words), .node = i, .stated = 1};
    }
    qsort(f->host, (size_t)adapters, sizeof *f->host, ib_by_name);
    for (int i = 0; i < adapters; i++) {
        const struct ib_node *n = &ib->node[f->host[i].node];
        struct host *h = i ? &f->host[f->hosts - 1] : NULL, *next = &f->host[i];
        if (i == 0 || !next->name_bytes || next->name_bytes != h->name_bytes ||
            strncmp(next->words, h->words, (size_t)h->name_bytes)) {
            h = &f->host[f->hosts++];
            *h = *next;
        }
        f->host_of[n - ib->node] = f->hosts - 1;
        for (int l = n->first; l < n->first + n->links; l++) {
            double Bps = ib->link[l].Bps;
            h->stated &= Bps > 0;
            h->least_Bps = h->Bps > 0 ? fmin(h->least_Bps, Bps) : Bps;
            h->Bps += Bps;
        }
    }
    if (f->hosts == 0)
        return err_at(f->err, ib->file, 0, NULL,
                      "describes no adapter ('Ca') with a link, expected hosts");
    if ((int64_t)f->hosts * f->ranks > GROUPS_RANKS_MAX)
        return err_at(f->err, ib->file, 0, NULL,
                      "describes %d hosts, of %d ranks each, expected %d ranks at most",
                      f->hosts, f->ranks, GROUPS_RANKS_MAX);
    return 0;
}

/* ---- units ---- */

static int root_of(struct fabric *f, int node)
{
    while (f->root[node] != node)
        node = f->root[node] = f->root[f->root[node]];
    return node;
}

/* Joins two units; the first of their nodes represents both. */
static void join_nodes(struct fabric *f, int a, int b)
{
    a = root_of(f, a);
    b = root_of(f, b);
    f->root[a > b ? a : b] = a > b ? b : a;
}

static int is_switch(const struct fabric *f, int node)
{
    return node >= 0 && f->ib->node[node].is_switch;
}

/* Finds tiers by breadth-first search from the switches that have adapters. */
static int find_tiers(struct fabric *f)
{
    struct ib *ib = f->ib;
    int *queue = mem_new((size_t)ib->nodes, sizeof *queue), from = 0, to = 0, tiers = 0;

    for (int i = 0; i < ib->links; i++) {
        const struct ib_link *l = &ib->link[i];
        if (f->host_of[l->from] < 0 || !is_switch(f, l->to) || ib->node[l->to].tier)
            continue;
        ib->node[l->to].tier = 1;
        queue[to++] = l->to;
    }
    while (from < to) {
        const struct ib_node *n = &ib->node[queue[from++]];
        tiers = n->tier;
        for (int i = n->first; i < n->first + n->links; i++) {
            int next = ib->link[i].to;
            if (!is_switch(f, next) || ib->node[next].tier)
                continue;
            ib->node[next].tier = n->tier + 1;
            queue[to++] = next;
        }
    }
    mem_free(queue);
    return tiers;
}

/* Measures the rates that the units pass to others, and whether the step differs from the
   previous one. */
static void measure_step(struct fabric *f, struct step *s)
{
    const struct ib *ib = f->ib;
    double *Bps = mem_new((size_t)ib->nodes, sizeof *Bps);
    int *hosts = mem_new((size_t)ib->nodes, sizeof *hosts);

    *s = (struct step){INFINITY, INFINITY, INFINITY, 0, 1};
    for (int h = 0; h < f->hosts; h++)
        s->units += hosts[root_of(f, f->host[h].node)]++ == 0;
    for (int i = 0; i < ib->links; i++) {
        const struct ib_link *l = &ib->link[i];
        if (!is_switch(f, l->from) || !is_switch(f, l->to) ||
            root_of(f, l->from) == root_of(f, l->to) || !hosts[root_of(f, l->from)])
            continue;
        Bps[root_of(f, l->from)] += l->Bps;
        s->link_Bps = fmin(s->link_Bps, l->Bps);
        s->stated &= l->Bps > 0;
    }
    for (int i = 0; i < ib->nodes; i++) {
        if (!hosts[i])
            continue;
        s->port_Bps = fmin(s->port_Bps, Bps[i]);
        s->member_Bps = fmin(s->member_Bps, Bps[i] / ((double)hosts[i] * f->ranks));
    }
    mem_free(Bps);
    mem_free(hosts);
}

/* A step that joins nothing replaces no units; it only lowers the rates of the previous
   step. */
static int ib_add_step(struct fabric *f)
{
    struct step s, *last = f->steps ? &f->step[f->steps - 1] : NULL;

    measure_step(f, &s);
    if (s.units == 1)
        return 0;
    if (last && s.units == last->units) {
        last->port_Bps = fmin(last->port_Bps, s.port_Bps);
        last->member_Bps = fmin(last->member_Bps, s.member_Bps);
        last->link_Bps = fmin(last->link_Bps, s.link_Bps);
        last->stated &= s.stated;
        return 0;
    }
    if (f->steps == BLOCKS_MAX)
        return err_at(f->err, f->ib->file, 0, NULL,
                      "has switches on more levels than a fabric may have, %d",
                      TOPO_LEVELS_MAX);
    for (int h = 0; h < f->hosts; h++)
        f->host[h].unit[f->steps] = root_of(f, f->host[h].node);
    f->step[f->steps++] = s;
    return 0;
}

static int find_steps(struct fabric *f)
{
    const struct ib *ib = f->ib;
    int tiers = find_tiers(f);

    if (tiers > TIERS_MAX)
        return err_at(f->err, ib->file, 0, NULL,
                      "has %d switches one behind another, expected %d at most", tiers,
                      TIERS_MAX);
    for (int i = 0; i < ib->nodes; i++) {
        f->root[i] = i;
        if (f->host_of[i] >= 0)
            join_nodes(f, i, f->host[f->host_of[i]].node);
    }
    for (int i = 0; i < ib->links; i++)
        if (ib->link[i].to >= 0 && (f->host_of[ib->link[i].from] >= 0))
            join_nodes(f, ib->link[i].from, ib->link[i].to);
    if (tiers && ib_add_step(f))
        return -1;
    for (int tier = 1; tier <= tiers; tier++) {
        for (int i = 0; i < ib->links; i++) {
            const struct ib_link *l = &ib->link[i];
            if (is_switch(f, l->from) && is_switch(f, l->to) &&
                ib->node[l->from].tier <= tier && ib->node[l->to].tier <= tier)
                join_nodes(f, l->from, l->to);
        }
        if (tier < tiers && ib_add_step(f))
            return -1;
    }
    /* Two separate subnets are not a fabric. */
    int first = f->host[0].node;
    for (int h = 1; h < f->hosts; h++) {
        const struct ib_node *n = &ib->node[f->host[h].node];
        if (root_of(f, f->host[h].node) != root_of(f, first))
            return err_at(f->err, ib->file, n->line, NULL,
                          "is '%s', which no link joins to the adapter on line %d, expected"
                          " one fabric",
                          n->id, ib->node[first].line);
    }
    return 0;
}

/* ---- the fabric ---- */

/* Groups hosts by unit, from the outermost units inwards, then by name: node9 before node10. */
static int by_unit(const void *a, const void *b)
{
    const struct host *x = a, *y = b;
    char one[256], other[256];

    for (int s = BLOCKS_MAX - 1; s >= 0; s--)
        if (x->unit[s] != y->unit[s])
            return x->unit[s] - y->unit[s];
    snprintf(one, sizeof one, "%.*s", x->name_bytes, x->words);
    snprintf(other, sizeof other, "%.*s", y->name_bytes, y->words);
    int differ = strverscmp(one, other);
    return differ ? differ : x->node - y->node;
}

static void ib_build_groups(struct fabric *f)
{
    struct topo *t = f->t;
    int *members = mem_new((size_t)f->hosts, sizeof *members);
    struct groups groups;
    char name[256];
    int unnamed = 0;

    for (int k = 0; k < f->hosts; k++)
        members[k] = f->ranks;
    groups_init(&groups, f->hosts, members);
    topo_init(t, 2 + f->steps, &groups);
    groups_release(&groups);
    mem_free(members);
    for (int k = 0; k < f->hosts; k++) {
        const struct host *h = &f->host[k];
        unnamed += h->name_bytes == 0;
        snprintf(name, sizeof name, "%.*s", h->name_bytes, h->words);
        topo_set_host(t, k, name);
        double Bps = h->stated ? h->Bps : 0;
        t->port[k] = (struct topo_port){.out_Bps = Bps, .in_Bps = Bps};
        /* Hosts are sorted: a unit that differs from the previous host's starts a new block. */
        for (int s = 0; s < f->steps; s++) {
            int *block = &t->block[s * f->hosts + k];
            *block = k ? block[-1] + (h->unit[s] != h[-1].unit[s]) : 0;
        }
    }
    /* Adapters named after their product may belong to one host. */
    if (unnamed && !f->settings->hosts)
        snprintf(t->open, sizeof t->open,
                 "%.64s: %d adapter%s no host, each counts as one: see 'ibnetdiscover"
                 " --node-name-map'",
                 f->ib->file, unnamed, unnamed == 1 ? " names" : "s name");
}

static void ib_build_levels(struct fabric *f)
{
    struct topo *t = f->t;
    struct topo_level *hosts = &t->level[1];
    double *Bps = mem_new((size_t)f->hosts, sizeof *Bps), least = INFINITY;
    int stated = 1;

    t->level[0].latency_s = -1;
    topo_name_levels(t);
    for (int k = 0; k < f->hosts; k++) {
        Bps[k] = f->host[k].Bps;
        least = fmin(least, f->host[k].least_Bps);
        stated &= f->host[k].stated;
    }
    topo_model_latency(hosts, TOPO_NET_S, "network");
    if (stated) {
        hosts->port_Bps = stats_median(Bps, f->hosts);
        hosts->member_Bps = hosts->port_Bps / f->ranks;
        hosts->flow_Bps = least;
        snprintf(hosts->rate_source, sizeof hosts->rate_source,
                 "data rate of the hosts' links, as the file states it");
    }
    mem_free(Bps);
    for (int s = 0; s < f->steps; s++) {
        struct topo_level *level = &t->level[2 + s];
        topo_model_latency(level, TOPO_NET_S, "network");
        if (!f->step[s].stated || f->step[s].port_Bps <= 0 || t->level[1].port_Bps <= 0)
            continue;
        level->port_Bps = f->step[s].port_Bps;
        level->member_Bps = f->step[s].member_Bps;
        level->flow_Bps = fmin(t->level[1].flow_Bps, f->step[s].link_Bps);
        snprintf(level->rate_source, sizeof level->rate_source,
                 "data rate of the links out of the narrowest of %d blocks, as the file states"
                 " it",
                 f->step[s].units);
    }
}

static int ib_build_fabric(struct fabric *f)
{
    const struct topo_settings *settings = f->settings;
    struct topo_words words[TOPO_LEVELS_MAX] = {{"inside a host", "", 0}, {"hosts", "", 0}};

    if (!settings->fill &&
        (settings->nodes || settings->given.nvlink_Bps > 0 || settings->given.nic_Bps > 0))
        return err_at(f->err, f->ib->file, 0, NULL,
                      "describes all hosts, expected neither --nodes nor nvlink= nor nic=");
    if (ib_find_hosts(f) || find_steps(f))
        return -1;
    qsort(f->host, (size_t)f->hosts, sizeof *f->host, by_unit);
    ib_build_groups(f);
    ib_build_levels(f);
    for (int l = 2; l < f->t->levels; l++)
        words[l] = (struct topo_words){"switches", "", 0};
    if (topo_given_apply(f->t, &settings->given, settings->fill, f->err))
        return -1;
    if (f->ranks == 1 && !settings->given.level[0].has_rate)
        topo_copy_level(f->t, 0, 1, "unused with one rank per group, copied from inter");
    return topo_check_stated(f->t, f->ib->file, words, f->err);
}

int topo_ib_read(struct topo *t, const char *file, char *text,
                 const struct topo_settings *settings, struct err *err)
{
    struct ib ib = {.file = file, .err = err};
    struct topo new = {0};
    struct fabric f = {.ib = &ib, .t = &new, .settings = settings, .err = err};
    int rc = topo_ib_parse(&ib, text);

    f.ranks = settings->ranks ? settings->ranks : 1;
    f.host_of = mem_new((size_t)ib.nodes, sizeof *f.host_of);
    f.root = mem_new((size_t)ib.nodes, sizeof *f.root);
    rc = rc ? rc : ib_build_fabric(&f);
    MEM_FREE(f.host, f.host_of, f.root);
    topo_ib_release(&ib);
    if (rc)
        topo_release(&new);
    else
        *t = new;
    return rc;
}
