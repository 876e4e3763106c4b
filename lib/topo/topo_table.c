/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints a fabric as tables for people: its levels, its groups, and for few ranks each pair. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/units.h"
#include "topo/topo_print.h"

/* Limit of a line's width: a pair takes three characters. */
enum { MATRIX_RANKS = 32 };

/* One unit for all rates of the table: the largest in which the lowest rate is at least 1. */
static const char *pick_unit(const struct topo *t, double *unit_Bps)
{
    static const struct {
        const char *name;
        double Bps;
    } units[] = {{"GB/s", 1e9}, {"MB/s", 1e6}, {"kB/s", 1e3}};
    double least = topo_slowest_port_Bps(t);
    int i = 0;

    for (int l = 0; l < t->levels; l++)
        least = fmin(least, t->level[l].member_Bps);
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

struct cell {
    char text[40];
};

/* "59.80", or "59.80 +-0.12" with half the width of its interval, if known. */
static const char *table_print_cell(struct cell *c, double v, double err, double unit)
{
    int used = snprintf(c->text, sizeof c->text, "%.2f", v / unit);

    if (err > 0)
        snprintf(c->text + used, sizeof c->text - (size_t)used, " +-%.2g", err / unit);
    return c->text;
}

struct seen { /* columns that the table shows and the legend explains */
    int slow, left, errors, devices;
};

static struct seen table_see(const struct topo *t)
{
    struct seen seen = {0};

    for (int l = 0; l < t->levels; l++) {
        const struct topo_level *v = &t->level[l];
        seen.errors |= v->latency_err_s > 0 || v->port_err_Bps > 0 || v->flow_err_Bps > 0 ||
                       v->member_err_Bps > 0;
        seen.left |= v->rate_left > 0 || v->compute_left > 0 || v->use_lost_s > 0 ||
                     v->latency_busy_s > 0;
    }
    for (int k = 0; k < t->groups.count; k++) {
        const struct topo_devices *d = &t->devices[k];
        seen.devices |= d->numa_nodes || d->gpus || d->nics;
    }
    return seen;
}

static void put_levels(const struct topo *t, const struct seen *seen, FILE *out)
{
    double unit = 1;
    const char *name = pick_unit(t, &unit);
    int wide = seen->errors ? 18 : 14, first = seen->errors ? 18 : 12;
    char port[24], flow[24], member[24];

    snprintf(port, sizeof port, "PORT %s", name);
    snprintf(flow, sizeof flow, "FLOW %s", name);
    snprintf(member, sizeof member, "MEMBER %s", name);
    fprintf(out, "%-16s %*s %*s %*s %*s\n", "LEVEL", first, "LATENCY us", wide, port, wide,
            flow, wide, member);
    for (int l = 0; l < t->levels; l++) {
        const struct topo_level *v = &t->level[l];
        struct cell c[4];
        fprintf(out, "%-16s %*s %*s %*s %*s\n", v->name, first,
                table_print_cell(&c[0], v->latency_s, v->latency_err_s, 1e-6), wide,
                table_print_cell(&c[1], v->port_Bps, v->port_err_Bps, unit), wide,
                table_print_cell(&c[2], v->flow_Bps, v->flow_err_Bps, unit), wide,
                table_print_cell(&c[3], v->member_Bps, v->member_err_Bps, unit));
    }
}

/* v as a whole number of units; "-": unknown. */
static const char *print_whole(struct cell *c, double v, double unit)
{
    if (v > 0)
        snprintf(c->text, sizeof c->text, "%.0f", v / unit);
    else
        snprintf(c->text, sizeof c->text, "-");
    return c->text;
}

/* Prints the fractions of rates that remain when ranks transfer and compute at the same
   time. */
static void put_left(const struct topo *t, FILE *out)
{
    fprintf(out, "\n%-16s %12s %14s %12s %16s\n", "LEVEL", "RATE LEFT %", "COMPUTE LEFT %",
            "USE LOST us", "BUSY LATENCY us");
    for (int l = 0; l < t->levels; l++) {
        struct cell c[4];
        fprintf(out, "%-16s %12s %14s %12s %16s\n", t->level[l].name,
                print_whole(&c[0], t->level[l].rate_left, 0.01),
                print_whole(&c[1], t->level[l].compute_left, 0.01),
                print_whole(&c[2], t->level[l].use_lost_s, 1e-6),
                print_whole(&c[3], t->level[l].latency_busy_s, 1e-6));
    }
}

static void put_groups(const struct topo *t, struct seen *seen, FILE *out)
{
    double unit = 1, usual_Bps = topo_usual_port_Bps(t);
    int width = 16;
    const char *name = pick_unit(t, &unit);
    char head_out[24], head_in[24];

    for (int k = 0; k < t->groups.count; k++)
        if ((int)strlen(t->host[k]) > width)
            width = (int)strlen(t->host[k]);
    snprintf(head_out, sizeof head_out, "OUT %s", name);
    snprintf(head_in, sizeof head_in, "IN %s", name);
    fprintf(out, "%5s  %-*s %14s %14s  %s%sRANKS\n", "GROUP", width, "HOST", head_out, head_in,
            seen->devices ? "NUMA GPUS NICS  " : "", t->levels > 2 ? "BLOCKS  " : "");
    for (int k = 0; k < t->groups.count; k++) {
        char *ranks = topo_ranks_text(t, k);
        const struct topo_port *p = &t->port[k];
        const int count[3] = {t->devices[k].numa_nodes, t->devices[k].gpus, t->devices[k].nics};
        double slow_Bps = topo_slow_Bps(t, k, usual_Bps);
        struct cell c;
        fprintf(out, "%5d  %-*s %14.2f%c%14.2f%c ", k, width, t->host[k][0] ? t->host[k] : "-",
                p->out_Bps / unit, p->out_Bps < slow_Bps ? '*' : ' ', p->in_Bps / unit,
                p->in_Bps < slow_Bps ? '*' : ' ');
        seen->slow |= topo_port_Bps(t, k) < slow_Bps;
        for (int i = 0; seen->devices && i < 3; i++)
            fprintf(out, "%4s%s", print_whole(&c, count[i], 1), i < 2 ? " " : "  ");
        int used = 0;
        for (int l = 2; l < t->levels; l++)
            used += fprintf(out, "%s%d", l > 2 ? "/" : "", topo_unit(t, l, k));
        if (t->levels > 2)
            fprintf(out, "%*s", used < 8 ? 8 - used : 1, "");
        fprintf(out, "%s\n", ranks);
        mem_free(ranks);
    }
}

/* Prints the level that joins each pair of ranks, like the pairs of `nvidia-smi topo -m`. */
static void put_matrix(const struct topo *t, FILE *out)
{
    int ranks = t->groups.ranks;

    fputs("\nRANK ", out);
    for (int b = 0; b < ranks; b++)
        fprintf(out, " %2d", b);
    for (int a = 0; a < ranks; a++) {
        fprintf(out, "\n%4d ", a);
        for (int b = 0; b < ranks; b++)
            fprintf(out, a == b ? "  X" : " L%d", topo_pair_level(t, a, b));
    }
    putc('\n', out);
}

static void put_legend(const struct topo *t, const struct seen *seen, FILE *out)
{
    fprintf(out,
            "\nRates are payload, each way; 1 GB/s is 1e9 bytes per second.\n"
            "PORT    all ranks that share a port, together (%s: one rank; %s: one group)\n"
            "FLOW    one flow alone\n"
            "MEMBER  one rank's share while all ranks of the port send at once\n"
            "OUT IN  this group's own port at level %s\n",
            t->level[0].name, t->level[1].name, t->level[1].name);
    if (seen->errors)
        fputs("+-      half the interval that holds the value in 95 of 100 measurements\n",
              out);
    if (seen->left)
        fputs(
            "LEFT    share of MEMBER while all ranks compute, of compute while all ranks send\n"
            "LOST    compute time lost per overlapped exchange that is waited for\n"
            "BUSY    one message while all ranks compute\n",
            out);
    if (seen->devices)
        fputs("NUMA GPUS NICS  of the group's host\n", out);
    if (seen->slow)
        fputs("*       slow: 5 % and more below the median of all ports\n", out);
    if (t->levels > 2)
        fprintf(out, "BLOCKS  the group's block at %s and above\n", t->level[2].name);
    if (t->groups.ranks <= MATRIX_RANKS) {
        fputs("X       the rank itself\n", out);
        for (int l = 0; l < t->levels; l++)
            fprintf(out, "L%d      two ranks connected at level %s\n", l, t->level[l].name);
    }
}

static void table_put_rank(const struct topo *t, FILE *out)
{
    struct units u;

    fprintf(out, "each rank: %s%smemory %s", t->device == TOPO_CUDA ? "on a GPU, " : "",
            t->transport == TOPO_OVER_NCCL ? "over NCCL, " : "",
            t->memory_bytes ? units_bytes(&u, (double)t->memory_bytes) : "unknown");
    fprintf(out, ", compute %s", t->flops > 0 ? units_count(&u, t->flops) : "unknown");
    if (t->flops > 0)
        fprintf(out, "FLOP/s%s", t->compute_type == DTYPE_F32 ? "" : " in bf16");
    if (t->other_flops > 0)
        fprintf(out, ", %sFLOP/s in %s", units_count(&u, t->other_flops),
                dtype_name(topo_other_type(t)));
    if (t->memory_Bps > 0)
        fprintf(out, ", memory rate %s", units_rate(&u, t->memory_Bps));
    fputs("\n\n", out);
}

void topo_print_table(const struct topo *t, FILE *out)
{
    char *shape = topo_shape_text(t);
    struct seen seen = table_see(t);

    fprintf(out, "%s\n", shape);
    mem_free(shape);
    table_put_rank(t, out);
    if (t->doubt[0])
        fprintf(out, "doubt: %s\n\n", t->doubt);
    put_levels(t, &seen, out);
    if (seen.left)
        put_left(t, out);
    putc('\n', out);
    put_groups(t, &seen, out);
    if (t->groups.ranks <= MATRIX_RANKS)
        put_matrix(t, out);
    put_legend(t, &seen, out);
    if (t->groups.ring)
        fputs("cabled in a ring: half of a port's rate goes to either neighbour\n", out);
    for (int l = 0; l < t->levels; l++) {
        const struct topo_level *v = &t->level[l];
        if (v->ring_loss > 0)
            fprintf(out, "%s: each rank of a ring beyond two adds %g %% to its time\n", v->name,
                    100 * v->ring_loss);
        if (v->rate_source[0])
            fprintf(out, "%s: rates: %s\n", v->name, v->rate_source);
        if (v->latency_source[0])
            fprintf(out, "%s: latency: %s\n", v->name, v->latency_source);
    }
}
