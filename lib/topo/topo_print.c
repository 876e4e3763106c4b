/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows a fabric as JSON for programs and as a table for people.  YAML is topo_yaml.c's. */
#include "topo/topo.h"

#include <string.h>

#include "base/jout.h"
#include "base/mem.h"
#include "base/units.h"

/* ---- JSON ---- */

static void json_level(struct jout *j, const struct topo_level *level)
{
    jout_open(j, NULL, '{');
    jout_text(j, "name", level->name);
    jout_num(j, "latency_s", level->latency_s);
    jout_num(j, "port_Bps", level->port_Bps);
    jout_num(j, "flow_Bps", level->flow_Bps);
    jout_num(j, "member_Bps", level->member_Bps);
    if (level->message_s > 0)
        jout_num(j, "message_s", level->message_s);
    jout_close(j, '}');
}

static void json_group(struct jout *j, const struct topo *t, int k)
{
    const struct groups *g = &t->groups;

    jout_open(j, NULL, '{');
    jout_int(j, "group", k);
    jout_text(j, "host", t->host[k][0] ? t->host[k] : NULL);
    jout_open(j, "ranks", '[');
    for (int i = 0; i < g->members[k]; i++)
        jout_int(j, NULL, groups_rank(g, k, i));
    jout_close(j, ']');
    jout_num(j, "port_out_Bps", t->port[k].out_Bps);
    jout_num(j, "port_in_Bps", t->port[k].in_Bps);
    jout_open(j, "blocks", '[');
    for (int l = 0; l < t->levels - 2; l++)
        jout_int(j, NULL, t->block[l * g->count + k]);
    jout_close(j, ']');
    jout_close(j, '}');
}

void topo_print_json(const struct topo *t, FILE *out)
{
    struct jout j = {.file = out};

    jout_open(&j, NULL, '{');
    jout_text(&j, "schema", "paro.topo/1");
    jout_int(&j, "ranks", t->groups.ranks);
    if (t->memory_bytes)
        jout_int(&j, "memory_bytes", t->memory_bytes);
    else
        jout_null(&j, "memory_bytes");
    if (t->flops > 0)
        jout_num(&j, "flops", t->flops);
    else
        jout_null(&j, "flops");
    jout_open(&j, "levels", '[');
    for (int l = 0; l < t->levels; l++)
        json_level(&j, &t->level[l]);
    jout_close(&j, ']');
    jout_open(&j, "groups", '[');
    for (int k = 0; k < t->groups.count; k++)
        json_group(&j, t, k);
    jout_close(&j, ']');
    jout_close(&j, '}');
}

/* ---- the table ---- */

/* One unit for all rates of the table: the largest in which the slowest is at least 1. */
static const char *pick_unit(const struct topo *t, double *unit_Bps)
{
    static const struct {
        const char *name;
        double Bps;
    } units[] = {{"GB/s", 1e9}, {"MB/s", 1e6}, {"kB/s", 1e3}};
    double least = topo_slowest_port_Bps(t);
    int i = 0;

    for (int l = 0; l < t->levels; l++)
        if (t->level[l].member_Bps < least)
            least = t->level[l].member_Bps;
    while (i < 2 && least < units[i].Bps)
        i++;
    *unit_Bps = units[i].Bps;
    return units[i].name;
}

/* "4 groups of 8", "3 groups of 7 to 8". */
static void put_shape(const struct topo *t, FILE *out)
{
    const struct groups *g = &t->groups;
    int most = groups_largest(g), least = most;

    for (int k = 0; k < g->count; k++)
        if (g->members[k] < least)
            least = g->members[k];
    fprintf(out, "%d rank%s in %d group%s of %d", g->ranks, g->ranks == 1 ? "" : "s", g->count,
            g->count == 1 ? "" : "s", least);
    if (most > least)
        fprintf(out, " to %d", most);
    fprintf(out, ", %d levels", t->levels);
}

static void put_levels(const struct topo *t, FILE *out)
{
    double unit = 1;
    const char *name = pick_unit(t, &unit);
    char port[24], flow[24], member[24];

    snprintf(port, sizeof port, "PORT %s", name);
    snprintf(flow, sizeof flow, "FLOW %s", name);
    snprintf(member, sizeof member, "MEMBER %s", name);
    fprintf(out, "%-16s %12s %14s %14s %14s\n", "LEVEL", "LATENCY us", port, flow, member);
    for (int l = 0; l < t->levels; l++) {
        const struct topo_level *v = &t->level[l];
        fprintf(out, "%-16s %12.2f %14.2f %14.2f %14.2f\n", v->name, v->latency_s * 1e6,
                v->port_Bps / unit, v->flow_Bps / unit, v->member_Bps / unit);
    }
}

static void put_groups(const struct topo *t, FILE *out)
{
    double unit = 1;
    const char *name = pick_unit(t, &unit);
    char head_out[24], head_in[24];
    int width = 16;

    for (int k = 0; k < t->groups.count; k++)
        if ((int)strlen(t->host[k]) > width)
            width = (int)strlen(t->host[k]);
    snprintf(head_out, sizeof head_out, "OUT %s", name);
    snprintf(head_in, sizeof head_in, "IN %s", name);
    fprintf(out, "%5s  %-*s %14s %14s  %s%s\n", "GROUP", width, "HOST", head_out, head_in,
            t->levels > 2 ? "BLOCKS  " : "", "RANKS");
    for (int k = 0; k < t->groups.count; k++) {
        char *ranks = topo_ranks_text(t, k);
        fprintf(out, "%5d  %-*s %14.2f %14.2f  ", k, width, t->host[k][0] ? t->host[k] : "-",
                t->port[k].out_Bps / unit, t->port[k].in_Bps / unit);
        int used = 0;
        for (int l = 0; l < t->levels - 2; l++)
            used += fprintf(out, "%s%d", l ? "/" : "", t->block[l * t->groups.count + k]);
        if (t->levels > 2)
            fprintf(out, "%*s", used < 8 ? 8 - used : 1, "");
        fprintf(out, "%s\n", ranks);
        mem_free(ranks);
    }
}

void topo_print_table(const struct topo *t, FILE *out)
{
    struct units u;

    put_shape(t, out);
    fputs("\neach rank: memory ", out);
    fputs(t->memory_bytes ? units_bytes(&u, (double)t->memory_bytes) : "unknown", out);
    fprintf(out, ", compute %s%s\n\n", t->flops > 0 ? units_count(&u, t->flops) : "unknown",
            t->flops > 0 ? "FLOP/s" : "");
    put_levels(t, out);
    putc('\n', out);
    put_groups(t, out);
    fprintf(out,
            "\nRates are payload, each way; 1 GB/s is 1e9 bytes per second.\n"
            "PORT    all ranks behind one port together (%s: one rank; %s: one group)\n"
            "FLOW    one flow alone\n"
            "MEMBER  one rank's share when all ranks behind the port send at once\n"
            "OUT IN  this group's own port at level %s\n",
            t->level[0].name, t->level[1].name, t->level[1].name);
    if (t->levels > 2)
        fprintf(out, "BLOCKS  the group's block at %s and further out\n", t->level[2].name);
}
