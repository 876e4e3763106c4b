/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes a fabric of several machines from the description of one, and derives the ranks' rates
 * from its links.  Leaves file formats to the readers.
 *
 *     one domain:         intra (NVLink, or PCIe)                   inter (network)
 *     several domains:    intra (NVLink)       inter (PCIe)         level2 (network)
 */
#include "topo/topo_machine.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"

/* ---- local links ---- */

void topo_machine_gpus(struct topo_machine *m, int gpus, enum topo_device device)
{
    m->ranks = gpus;
    m->own_ranks = 1;
    m->device = device;
    m->direct = mem_new((size_t)gpus * (size_t)gpus, sizeof *m->direct);
    m->to_switch = mem_new((size_t)gpus, sizeof *m->to_switch);
    m->domain = mem_new((size_t)gpus, sizeof *m->domain);
    m->domains = 1;
}

/* Puts all ranks that are joined to `first`, directly or through others, into domain d. */
static void spread_domain(struct topo_machine *m, int first, int d)
{
    m->domain[first] = d;
    for (int r = 0; r < m->ranks; r++)
        if (m->domain[r] < 0 &&
            (m->direct[first * m->ranks + r] > 0 || m->direct[r * m->ranks + first] > 0 ||
             (m->to_switch[first] > 0 && m->to_switch[r] > 0)))
            spread_domain(m, r, d);
}

void topo_machine_linked(struct topo_machine *m)
{
    for (int r = 0; r < m->ranks; r++) {
        /* The sum of a rank's link rates, and the rate to the peer to which it has the most. */
        double all = m->to_switch[r], most = all;
        for (int other = 0; other < m->ranks; other++) {
            all += m->direct[r * m->ranks + other];
            most = fmax(most, m->direct[r * m->ranks + other]);
        }
        if (all <= 0)
            continue;
        m->links = m->linked ? fmin(m->links, all) : all;
        m->links_flow = m->linked ? fmin(m->links_flow, most) : most;
        m->linked = 1;
    }
    if (!m->linked)
        return;
    topo_model_latency(&m->inside, TOPO_NVLINK_S, "NVLink");
    m->domains = 0;
    for (int r = 0; r < m->ranks; r++)
        m->domain[r] = -1;
    for (int r = 0; r < m->ranks; r++)
        if (m->domain[r] < 0)
            spread_domain(m, r, m->domains++);
}

void topo_machine_links(struct topo_machine *m, double each_Bps)
{
    m->inside.port_Bps = m->inside.member_Bps = m->links * each_Bps;
    m->inside.flow_Bps = m->links_flow * each_Bps;
}

/* ---- PCIe ---- */

int topo_pcie_add(struct topo_pcie *p, int parent, double Bps)
{
    p->link = mem_grow(p->link, &p->space, (size_t)p->count + 1, sizeof *p->link);
    p->link[p->count] = (struct topo_pcie_link){.parent = parent, .Bps = Bps};
    return p->count++;
}

void topo_pcie_rank(struct topo_pcie *p, int link)
{
    double Bps = p->link[link].Bps;

    p->unknown += Bps <= 0;
    p->least_Bps = p->ranks ? fmin(p->least_Bps, Bps) : Bps;
    p->ranks++;
    for (; link >= 0; link = p->link[link].parent) {
        struct topo_pcie_link *l = &p->link[link];
        l->own_Bps = l->ranks++ ? fmin(l->own_Bps, Bps) : Bps;
    }
}

void topo_pcie_release(struct topo_pcie *p)
{
    mem_free(p->link);
    mem_free(p->of);
    *p = (struct topo_pcie){0};
}

/* Finds the link above an element, or adds it. */
static int find_link(struct topo_pcie *p, const struct xml_node *n, topo_machine_link link,
                     void *reader, int *out)
{
    const struct xml_node *above = NULL;
    int parent = -1;
    double Bps = 0;

    assert(n->index < XML_NODES_MAX);
    p->of = p->of ? p->of : mem_new(XML_NODES_MAX, sizeof *p->of);
    if (!p->of[n->index]) {
        if (link(reader, n, &above, &Bps) ||
            (above && find_link(p, above, link, reader, &parent)))
            return -1;
        p->of[n->index] = topo_pcie_add(p, parent, Bps) + 1;
    }
    *out = p->of[n->index] - 1;
    return 0;
}

int topo_machine_hang(struct topo_machine *m, const struct xml_node *n, topo_machine_link link,
                      void *reader)
{
    int at = -1;

    if (find_link(&m->pcie, n, link, reader, &at))
        return -1;
    topo_pcie_rank(&m->pcie, at);
    if (m->pcie.link[at].Bps <= 0 && !m->unknown_line)
        m->unknown_line = n->line;
    return 0;
}

double topo_pcie_ring_Bps(const struct topo_pcie *p, int rails)
{
    double least = INFINITY;
    int processors = 0;

    if (p->unknown)
        return 0;
    for (int i = 0; i < p->count; i++) {
        const struct topo_pcie_link *link = &p->link[i];
        processors += link->parent < 0 && link->ranks > 0;
        /* Skips a switch above all ranks, since nothing leaves it; a single rank has its own
           link. */
        if (link->ranks == 0 || link->Bps <= 0 || (link->ranks == p->ranks && p->ranks > 1))
            continue;
        least = fmin(least, link->Bps / (link->ranks < rails ? link->ranks : rails));
    }
    if (processors > 1 && p->between_Bps > 0)
        least = fmin(least, p->between_Bps / rails);
    return isfinite(least) ? least : 0;
}

void topo_machine_pcie(struct topo_machine *m, const char *source)
{
    const struct topo_pcie *p = &m->pcie;
    int *size = mem_new((size_t)m->domains, sizeof *size), several = m->domains > 1, rails = 1;
    struct topo_level *level = several ? &m->across : &m->inside;

    for (int r = 0; several && r < m->ranks; r++) /* the largest domain's number of ranks */
        rails = ++size[m->domain[r]] > rails ? size[m->domain[r]] : rails;
    mem_free(size);
    double ring = topo_pcie_ring_Bps(p, rails);

    if ((m->linked && !several) || ring <= 0)
        return;
    for (int i = 0; i < p->count; i++)
        if (p->link[i].Bps > 0 && p->link[i].Bps < p->link[i].own_Bps)
            m->slow_Bps = m->slow_Bps > 0 ? fmin(m->slow_Bps, p->link[i].Bps) : p->link[i].Bps;
    level->member_Bps = ring;
    level->flow_Bps = topo_pcie_ring_Bps(p, 1);
    level->port_Bps = several ? ring * rails : p->least_Bps;
    snprintf(level->rate_source, sizeof level->rate_source, "%s%s", source,
             m->linked                         ? ""
             : m->linked_unknown               ? "; the file does not describe NVLink"
             : m->ranks > 1 && m->counts_links ? "; the file lists no NVLink"
                                               : "");
}

/* ---- a machine ---- */

void topo_model_latency(struct topo_level *level, double seconds, const char *hop)
{
    level->latency_s = seconds;
    snprintf(level->latency_source, sizeof level->latency_source,
             "%s hop in NCCL's model (tuning.cc)", hop);
}

void topo_machine_init(struct topo_machine *m, const char *file)
{
    *m = (struct topo_machine){.file = file};
    topo_model_latency(&m->inside, TOPO_PCIE_S, "PCIe");
    topo_model_latency(&m->across, TOPO_PCIE_S, "PCIe");
    topo_model_latency(&m->net, TOPO_NET_S, "network");
}

void topo_machine_release(struct topo_machine *m)
{
    MEM_FREE(m->domain, m->direct, m->to_switch);
    topo_pcie_release(&m->pcie);
    *m = (struct topo_machine){0};
}

void topo_machine_far(struct topo_machine *m, const char *name)
{
    if (m->far_nics++)
        return;
    snprintf(m->far_nic, sizeof m->far_nic, "%s", name);
    for (char *p = m->far_nic; *p; p++)
        *p = (unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7f ? '?' : *p;
}

/* ---- a fabric of machines ---- */

struct build {
    struct topo *t;
    struct topo_machine *m;
    const struct topo_settings *settings;
    char **host; /* [hosts], owned */
    int hosts, nodes;
    struct err *err;
};

static int count_nodes(struct build *b)
{
    const struct topo_machine *m = b->m;
    const struct topo_settings *settings = b->settings;

    if (settings->ranks && m->own_ranks && !settings->fill)
        return err_at(b->err, m->file, 0, NULL,
                      "counts %d GPUs, a rank each: expected no"
                      " --ranks",
                      m->ranks);
    if (settings->hosts && topo_hosts_parse(settings->hosts, &b->host, &b->hosts, b->err))
        return err_prefix(b->err, "--hosts: ");
    b->nodes = settings->nodes ? settings->nodes : b->hosts ? b->hosts : 1;
    if (b->hosts && b->hosts != b->nodes)
        return err_set(b->err, ERR_INPUT, "--hosts names %d machines, expected %d as --nodes",
                       b->hosts, b->nodes);
    if ((int64_t)b->nodes * m->ranks > GROUPS_RANKS_MAX)
        return err_set(b->err, ERR_INPUT, "%d machines of %d ranks, expected %d ranks at most",
                       b->nodes, m->ranks, GROUPS_RANKS_MAX);
    return 0;
}

/* Numbers ranks machine by machine; in each, a domain is a group. */
static int machine_build_groups(struct build *b, int levels)
{
    const struct topo_machine *m = b->m;
    int ranks = b->nodes * m->ranks, *of = mem_new((size_t)ranks, sizeof *of);
    struct groups groups = {0};

    for (int r = 0; r < ranks; r++)
        of[r] = r / m->ranks * m->domains + m->domain[r % m->ranks];
    int rc = groups_init_of(&groups, ranks, of, b->err);
    mem_free(of);
    if (rc)
        return -1;
    topo_init(b->t, levels, &groups);
    groups_release(&groups);
    for (int k = 0; k < b->t->groups.count; k++) {
        int node = k / m->domains;
        topo_set_host(b->t, k, b->hosts ? b->host[node] : b->nodes == 1 ? m->host : "");
        b->t->devices[k] = m->devices;
        if (levels > 2)
            b->t->block[k] = node;
    }
    return 0;
}

static void machine_build_levels(struct build *b)
{
    struct topo *t = b->t;
    const struct topo_machine *m = b->m;
    int several = m->domains > 1;

    t->level[0] = m->inside;
    t->level[1] = several ? m->across : m->net;
    if (t->levels > 2)
        t->level[2] = m->net;
    size_t used = strlen(t->level[0].rate_source);
    if (m->c2c && used)
        snprintf(t->level[0].rate_source + used, sizeof t->level[0].rate_source - used,
                 "; %d NVLink-C2C links of a GPU to its processor join no GPUs", m->c2c);
    topo_name_levels(t);
    for (int k = 0; k < t->groups.count; k++) {
        double Bps = several ? m->across.member_Bps * t->groups.members[k] : m->net.port_Bps;
        t->port[k] = (struct topo_port){.out_Bps = Bps, .in_Bps = Bps};
    }
}

void topo_copy_level(struct topo *t, int to, int from, const char *why)
{
    struct topo_level *level = &t->level[to];

    *level = t->level[from];
    topo_name_levels(t);
    snprintf(level->rate_source, sizeof level->rate_source, "%s", why);
    snprintf(level->latency_source, sizeof level->latency_source, "%s", why);
    for (int k = 0; to == 1 && k < t->groups.count; k++)
        t->port[k] = (struct topo_port){.out_Bps = level->port_Bps, .in_Bps = level->port_Bps};
}

int topo_check_stated(const struct topo *t, const char *file, const struct topo_words *words,
                      struct err *err)
{
    char missing[64 * TOPO_LEVELS_MAX] = "", set[24 * TOPO_LEVELS_MAX] = "";
    const char *more = "";
    int line = 0, m = 0, n = 0;

    for (int l = 0; l < t->levels; l++) {
        int rate = t->level[l].port_Bps <= 0, latency = t->level[l].latency_s < 0;
        if (!rate && !latency)
            continue;
        const char *word = t->level[l].name;
        m += snprintf(missing + m, sizeof missing - (size_t)m, "%sno %s%s%s of %s (%s)",
                      m ? ", " : "", rate ? "rate" : "", rate && latency ? " or " : "",
                      latency ? "latency" : "", word, words[l].joined);
        n += snprintf(set + n, sizeof set - (size_t)n, "%s%s=%s%s", n ? "," : "", word,
                      rate ? "RATE" : "", latency ? ":LATENCY" : "");
        line = rate && !line ? words[l].line : line;
        more = rate && !*more ? words[l].more : more;
    }
    if (!m)
        return 0;
    return err_at(err, file, line, NULL, "states %s, expected 'paro-topo --set %s'%s", missing,
                  set, more);
}

static int check_machine(const struct build *b)
{
    const struct topo_machine *m = b->m;
    struct topo_words inside = {"inside the machine", "", 0}, net = {"between machines", "", 0};
    struct topo_words across = {"PCIe", "", m->unknown_line};

    if (m->own_ranks)
        inside = m->linked ? (struct topo_words){"NVLink", "", 0} : across;
    if (m->linked && m->counts_links)
        inside.more = " or '--set nvlink=RATE', of each link";
    if (m->nics)
        net.more = " or '--set nic=RATE', of each network device";
    struct topo_words words[3] = {inside, m->domains > 1 ? across : net, net};
    return topo_check_stated(b->t, m->file, words, b->err);
}

/* Notes doubts about links: a file that cannot show them, a GPU that has none, odd counts. */
static void note_links(const struct topo_machine *m, struct topo *t)
{
    const struct topo_level *pcie = m->domains > 1 ? &m->across : &m->inside;
    int without = 0, first = -1;

    for (int r = 0; m->linked && r < m->ranks; r++) {
        double links = m->to_switch[r];
        for (int other = 0; other < m->ranks; other++)
            links += m->direct[r * m->ranks + other];
        first = links <= 0 && first < 0 ? r : first;
        without += links <= 0;
    }
    if (m->linked_unknown && m->ranks > 1 && t->level[0].rate_source[0])
        snprintf(t->open, sizeof t->open,
                 "%.64s: does not describe NVLink; if there is any, set its rate with '--set"
                 " intra=RATE'",
                 m->file);
    else if (without)
        snprintf(t->open, sizeof t->open,
                 "%.48s: %d of %d GPUs, the first is GPU %d, have no NVLink and are groups of"
                 " their own",
                 m->file, without, m->ranks, first);
    if (m->far_nics)
        snprintf(t->doubt, sizeof t->doubt,
                 "%d of %d network devices (first %s) are at no GPU's processor and count as"
                 " ports",
                 m->far_nics, m->nics, m->far_nic);
    else if (m->slow_Bps > 0 && t->level[m->domains > 1].member_Bps == pcie->member_Bps)
        snprintf(t->doubt, sizeof t->doubt,
                 "a PCIe bridge with %.3g GB/s is slower than every GPU below it, as idle ones"
                 " report",
                 m->slow_Bps / 1e9);
}

static int machine_build_fabric(struct build *b)
{
    struct topo_machine *m = b->m;
    const struct topo_given *g = &b->settings->given;
    int levels = m->domains > 1 && b->nodes > 1 ? 3 : 2, fill = b->settings->fill;

    /* Applies rates given for one link. */
    if (g->nvlink_Bps > 0 && !(fill && m->inside.port_Bps > 0)) {
        if (!m->linked || !m->counts_links)
            return err_at(b->err, m->file, 0, NULL,
                          "counts no NVLinks, expected intra=RATE in the place of nvlink=RATE");
        topo_machine_links(m, g->nvlink_Bps);
        m->inside.rate_source[0] = 0;
    }
    if (g->nic_Bps > 0 && !(fill && m->net.port_Bps > 0)) {
        if (m->nics == 0)
            return err_at(b->err, m->file, 0, NULL,
                          "counts no network devices, expected inter=RATE in the place of"
                          " nic=RATE");
        m->net.port_Bps = m->nics * g->nic_Bps;
        m->net.flow_Bps = g->nic_Bps;
        m->net.member_Bps = m->net.port_Bps / m->ranks;
        m->net.rate_source[0] = 0;
    }
    if (machine_build_groups(b, levels))
        return -1;
    machine_build_levels(b);
    b->t->device = b->m->device;
    b->t->memory_bytes = b->m->memory_bytes;
    b->t->flops = b->m->flops;
    if (topo_given_apply(b->t, &b->settings->given, b->settings->fill, b->err))
        return -1;
    /* A level without traffic repeats the figures of the other, as in a measured fabric. */
    int has[2] = {b->t->level[0].port_Bps > 0, b->t->level[1].port_Bps > 0};
    if (b->t->groups.count == 1 && has[0] && !has[1])
        topo_copy_level(b->t, 1, 0, "unused with one group, copied from intra");
    else if (groups_largest(&b->t->groups) == 1 && has[1] && !has[0])
        topo_copy_level(b->t, 0, 1, "unused with one rank per group, copied from inter");
    note_links(b->m, b->t);
    return check_machine(b);
}

int topo_machine_build(struct topo *t, struct topo_machine *m,
                       const struct topo_settings *settings, struct err *err)
{
    struct topo new = {0};
    struct build b = {.t = &new, .m = m, .settings = settings, .err = err};
    int rc = count_nodes(&b);

    rc = rc ? rc : machine_build_fabric(&b);
    topo_hosts_free(b.host, b.hosts);
    if (rc == 0)
        *t = new;
    else
        topo_release(&new);
    return rc;
}
