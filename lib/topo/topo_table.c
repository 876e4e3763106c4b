/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows a fabric as tables for people: its levels, its groups, and of few ranks each pair. */
#include <string.h>

#include "base/mem.h"
#include "base/units.h"
#include "topo/topo_print.h"

/* As wide as a line may be: a pair is three characters. */
enum { MATRIX_RANKS = 32 };

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

char *topo_shape_text(const struct topo *t)
{
    const struct groups *g = &t->groups;
    int most = groups_largest(g), least = most, used;
    char *text = mem_new(128, 1);

    for (int k = 0; k < g->count; k++)
        if (g->members[k] < least)
            least = g->members[k];
    used = snprintf(text, 128, "%d rank%s in %d group%s of %d", g->ranks,
                    g->ranks == 1 ? "" : "s", g->count, g->count == 1 ? "" : "s", least);
    if (most > least)
        used += snprintf(text + used, 128 - (size_t)used, " to %d", most);
    snprintf(text + used, 128 - (size_t)used, ", %d levels", t->levels);
    return text;
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

/* Returns whether a port is marked as slow. */
static int put_groups(const struct topo *t, FILE *out)
{
    double unit = 1, usual_Bps = topo_usual_port_Bps(t);
    int slow = 0;
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
        const struct topo_port *p = &t->port[k];
        double slow_Bps = topo_slow_Bps(t, k, usual_Bps);
        fprintf(out, "%5d  %-*s %14.2f%c%14.2f%c ", k, width, t->host[k][0] ? t->host[k] : "-",
                p->out_Bps / unit, p->out_Bps < slow_Bps ? '*' : ' ', p->in_Bps / unit,
                p->in_Bps < slow_Bps ? '*' : ' ');
        slow |= p->out_Bps < slow_Bps || p->in_Bps < slow_Bps;
        int used = 0;
        for (int l = 0; l < t->levels - 2; l++)
            used += fprintf(out, "%s%d", l ? "/" : "", t->block[l * t->groups.count + k]);
        if (t->levels > 2)
            fprintf(out, "%*s", used < 8 ? 8 - used : 1, "");
        fprintf(out, "%s\n", ranks);
        mem_free(ranks);
    }
    return slow;
}

/* Who meets whom at which level, as `nvidia-smi topo -m` shows its pairs. */
static void put_matrix(const struct topo *t, FILE *out)
{
    int ranks = t->groups.ranks;

    fputs("\nRANK ", out);
    for (int b = 0; b < ranks; b++)
        fprintf(out, " %2d", b);
    for (int a = 0; a < ranks; a++) {
        fprintf(out, "\n%4d ", a);
        for (int b = 0; b < ranks; b++) {
            if (a == b)
                fputs("  X", out);
            else
                fprintf(out, " L%d", topo_pair_level(t, a, b));
        }
    }
    putc('\n', out);
}

static void put_sources(const struct topo *t, FILE *out)
{
    for (int l = 0; l < t->levels; l++) {
        const struct topo_level *v = &t->level[l];
        if (v->rate_source[0])
            fprintf(out, "%s: rates: %s\n", v->name, v->rate_source);
        if (v->latency_source[0])
            fprintf(out, "%s: latency: %s\n", v->name, v->latency_source);
    }
}

static void put_legend(const struct topo *t, int slow, FILE *out)
{
    fprintf(out,
            "\nRates are payload, each way; 1 GB/s is 1e9 bytes per second.\n"
            "PORT    all ranks behind one port together (%s: one rank; %s: one group)\n"
            "FLOW    one flow alone\n"
            "MEMBER  one rank's share when all ranks behind the port send at once\n"
            "OUT IN  this group's own port at level %s\n",
            t->level[0].name, t->level[1].name, t->level[1].name);
    if (slow)
        fputs("*       slow: 5 % and more below the median of all ports\n", out);
    if (t->levels > 2)
        fprintf(out, "BLOCKS  the group's block at %s and further out\n", t->level[2].name);
    if (t->groups.ranks <= MATRIX_RANKS) {
        fputs("X       a rank itself\n", out);
        for (int l = 0; l < t->levels; l++)
            fprintf(out, "L%d      two ranks that meet at level %s\n", l, t->level[l].name);
    }
}

void topo_print_table(const struct topo *t, FILE *out)
{
    char *shape = topo_shape_text(t);
    struct units u;

    fprintf(out, "%s\neach rank: memory ", shape);
    mem_free(shape);
    fputs(t->memory_bytes ? units_bytes(&u, (double)t->memory_bytes) : "unknown", out);
    fprintf(out, ", compute %s%s\n\n", t->flops > 0 ? units_count(&u, t->flops) : "unknown",
            t->flops > 0 ? "FLOP/s" : "");
    put_levels(t, out);
    putc('\n', out);
    int slow = put_groups(t, out);
    if (t->groups.ranks <= MATRIX_RANKS)
        put_matrix(t, out);
    put_legend(t, slow, out);
    put_sources(t, out);
}
