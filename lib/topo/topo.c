/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes and releases fabrics, derives their ports, and calls the printer of a format.  Leaves
 * the text to the printers and the choice of a reader to topo_import.c.
 */
#include "topo/topo.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"
#include "topo/topo_print.h"

void topo_init(struct topo *t, int levels, const struct groups *groups)
{
    size_t count = (size_t)groups->count;

    assert(levels >= 2 && levels <= TOPO_LEVELS_MAX);
    *t = (struct topo){.levels = levels};
    groups_copy(&t->groups, groups);
    t->level = mem_new((size_t)levels, sizeof *t->level);
    t->port = mem_new(count, sizeof *t->port);
    t->devices = mem_new(count, sizeof *t->devices);
    t->host = mem_new(count, sizeof *t->host);
    for (size_t k = 0; k < count; k++)
        t->host[k] = mem_dup("");
    if (levels > 2)
        t->block = mem_new((size_t)(levels - 2) * count, sizeof *t->block);
}

void topo_init_rateless(struct topo *t, const struct groups *groups)
{
    topo_init(t, 2, groups);
    for (int i = 0; i < 2; i++)
        t->level[i].port_Bps = t->level[i].flow_Bps = t->level[i].member_Bps = 1;
    for (int k = 0; k < groups->count; k++)
        t->port[k].out_Bps = t->port[k].in_Bps = 1;
}

void topo_release(struct topo *t)
{
    for (int k = 0; t->host && k < t->groups.count; k++)
        mem_free(t->host[k]);
    MEM_FREE(t->host, t->port, t->devices, t->level, t->block, t->rank_flops);
    groups_release(&t->groups);
    *t = (struct topo){0};
}

enum dtype topo_other_type(const struct topo *t)
{
    return t->compute_type == DTYPE_F32 ? DTYPE_BF16 : DTYPE_F32;
}

double topo_rank_flops(const struct topo *t, int r)
{
    return t->rank_flops ? t->rank_flops[r] : t->flops;
}

void topo_set_rank_flops(struct topo *t, int r, double flops)
{
    int ranks = t->groups.ranks;

    if (flops == topo_rank_flops(t, r))
        return;
    if (!t->rank_flops) {
        t->rank_flops = mem_new((size_t)ranks, sizeof *t->rank_flops);
        for (int i = 0; i < ranks; i++)
            t->rank_flops[i] = t->flops;
    }
    t->rank_flops[r] = flops;
}

double topo_flops_in(const struct topo *t, enum dtype type)
{
    return type == t->compute_type ? t->flops : t->other_flops;
}

void topo_name_levels(struct topo *t)
{
    for (int l = 0; l < t->levels; l++)
        snprintf(t->level[l].name, sizeof t->level[l].name,
                 l > 1 ? "level%d"
                 : l   ? "inter"
                       : "intra",
                 l);
}

void topo_set_host(struct topo *t, int k, const char *host)
{
    mem_free(t->host[k]);
    t->host[k] = mem_dup(host);
}

const char *const topo_cablings[] = {"switch", "ring", NULL};

const char *topo_device_name(enum topo_device device)
{
    return device == TOPO_CUDA ? "cuda" : "cpu";
}

int topo_device_parse(const char *text, enum topo_device *out, struct err *err)
{
    *out = strcmp(text, "cuda") == 0 ? TOPO_CUDA : TOPO_CPU;
    if (strcmp(text, topo_device_name(*out)))
        return err_set(err, ERR_INPUT, "'%s', expected cpu or cuda", text);
    return 0;
}

const char *topo_transport_name(enum topo_transport transport)
{
    return transport == TOPO_OVER_NCCL ? "nccl" : "mpi";
}

int topo_print(const struct topo *t, enum topo_format format, FILE *out, struct err *err)
{
    static void (*const print[TOPO_FORMATS])(const struct topo *, FILE *) = {
        [TOPO_YAML] = topo_print_yaml,         [TOPO_JSON] = topo_print_json,
        [TOPO_TABLE] = topo_print_table,       [TOPO_SVG] = topo_print_svg,
        [TOPO_HOSTFILE] = topo_print_hostfile, [TOPO_RANKFILE] = topo_print_rankfile,
    };

    if (format == TOPO_NCCL)
        return err_set(err, ERR_ABSENT, "the fabric has no list of PCI devices for NCCL's XML");
    for (int k = 0; format >= TOPO_HOSTFILE && k < t->groups.count; k++)
        if (!t->host[k][0])
            return err_set(err, ERR_ABSENT,
                           "group %d has no host name, expected one for each group (--hosts"
                           " names them)",
                           k);
    print[format](t, out);
    return 0;
}

double topo_ring_left(const struct topo_level *level, int ranks)
{
    return ranks > 2 ? 1 / (1 + level->ring_loss * (ranks - 2)) : 1;
}

double topo_port_Bps(const struct topo *t, int k)
{
    return fmin(t->port[k].out_Bps, t->port[k].in_Bps);
}

double topo_slowest_port_Bps(const struct topo *t)
{
    double least = topo_port_Bps(t, 0);

    for (int k = 1; k < t->groups.count; k++)
        least = fmin(least, topo_port_Bps(t, k));
    return least;
}

double topo_usual_port_Bps(const struct topo *t)
{
    double *both = mem_new((size_t)t->groups.count * 2, sizeof *both), usual;

    for (int k = 0; k < t->groups.count; k++) {
        both[2 * k] = t->port[k].out_Bps;
        both[2 * k + 1] = t->port[k].in_Bps;
    }
    usual = stats_median(both, t->groups.count * 2);
    mem_free(both);
    return usual;
}

double topo_slow_Bps(const struct topo *t, int k, double usual_Bps)
{
    const struct topo_level *v = &t->level[1];
    double ranks_Bps = fmax(v->member_Bps * t->groups.members[k], v->flow_Bps);

    return TOPO_SLOW_SHARE * fmin(usual_Bps, ranks_Bps);
}

int topo_unit(const struct topo *t, int l, int k)
{
    return l < 2 ? k : l < t->levels ? t->block[(l - 2) * t->groups.count + k] : 0;
}

int topo_pair_level(const struct topo *t, int a, int b)
{
    int l = 0;

    a = t->groups.group_of[a];
    b = t->groups.group_of[b];
    while (topo_unit(t, l + 1, a) != topo_unit(t, l + 1, b))
        l++;
    return l;
}

char *topo_ranks_text(const struct topo *t, int k)
{
    const struct groups *g = &t->groups;
    int m = g->members[k];
    /* A rank has 7 digits at most (GROUPS_RANKS_MAX), and "," or "-" before it. */
    char *text = mem_new((size_t)m * 8 + 1, 1);
    size_t used = 0;

    for (int j = 0; j < m;) {
        int end = j;
        while (end + 1 < m && groups_rank(g, k, end + 1) == groups_rank(g, k, end) + 1)
            end++;
        used += (size_t)sprintf(text + used, "%s%d", j ? "," : "", groups_rank(g, k, j));
        if (end > j)
            used += (size_t)sprintf(text + used, "%c%d", end > j + 1 ? '-' : ',',
                                    groups_rank(g, k, end));
        j = end + 1;
    }
    return text;
}
