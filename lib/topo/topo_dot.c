/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows a fabric in the language of graphviz: a box for each group, a switch for what joins
 * groups or blocks, and edges that carry the ports' rates.
 *
 *     group 0   group 1   group 2   group 3
 *        \       /           \       /          level 1: the groups' ports
 *         block 0             block 1
 *              \               /                level 2: the blocks' ports
 *                   level2
 */
#include <string.h>

#include "base/mem.h"
#include "base/units.h"
#include "topo/topo_print.h"

/* In a quoted string only the quote and the backslash mean anything; labels also know "\n". */
static void put_words(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            putc('\\', out);
        putc((unsigned char)*text < 0x20 ? ' ' : *text, out);
    }
}

static void put_group(FILE *out, const struct topo *t, int k)
{
    char *ranks = topo_ranks_text(t, k);
    struct units u;

    fprintf(out, "  g%d [label=\"group %d", k, k);
    if (t->host[k][0]) {
        fputs("\\n", out);
        put_words(out, t->host[k]);
    }
    /* Ranks by node are a list of all of them: a label holds some. */
    fprintf(out, "\\nrank%s %.60s%s", t->groups.members[k] == 1 ? "" : "s", ranks,
            strlen(ranks) > 60 ? "..." : "");
    if (t->groups.members[k] > 1)
        fprintf(out, "\\n%s each", units_rate(&u, t->level[0].member_Bps));
    fputs("\"];\n", out);
    mem_free(ranks);
}

static void put_joint(FILE *out, const struct topo *t, int l, int block)
{
    struct units latency;

    fprintf(out, "  l%d_%d [shape=ellipse,label=\"", l, block);
    put_words(out, t->level[l].name);
    if (l + 1 < t->levels)
        fprintf(out, " in block %d", block);
    fprintf(out, "\\n%s\"];\n", units_time(&latency, t->level[l].latency_s));
}

/* What joins the units of level l, and the edges from the units below it. */
static void put_level(FILE *out, const struct topo *t, int l)
{
    int count = t->groups.count;
    char *seen = mem_new((size_t)count * 2, 1), *seen_below = seen + count;
    double usual_Bps = topo_usual_port_Bps(t);
    struct units rate;

    for (int k = 0; k < count; k++) {
        int block = topo_unit(t, l + 1, k), below = topo_unit(t, l, k);
        if (!seen[block])
            put_joint(out, t, l, block);
        seen[block] = 1;
        if (seen_below[below])
            continue;
        seen_below[below] = 1;
        struct topo_port p = {t->level[l].port_Bps, t->level[l].port_Bps};
        int slow = l == 1 && topo_port_Bps(t, k) < topo_slow_Bps(t, k, usual_Bps);
        if (l == 1) {
            p = t->port[k];
            fprintf(out, "  g%d -- l1_%d [label=\"", k, block);
        } else {
            fprintf(out, "  l%d_%d -- l%d_%d [label=\"", l - 1, below, l, block);
        }
        fputs(units_rate(&rate, p.out_Bps), out);
        if (p.out_Bps != p.in_Bps)
            fprintf(out, " out\\n%s in", units_rate(&rate, p.in_Bps));
        fputs(slow ? "\\nslow\",color=\"#d55e00\",fontcolor=\"#d55e00\",penwidth=3];\n"
                   : "\"];\n",
              out);
    }
    mem_free(seen);
}

void topo_print_dot(const struct topo *t, FILE *out)
{
    char *shape = topo_shape_text(t);

    fprintf(out,
            "graph fabric {\n"
            "  graph [label=\"%s\",fontname=\"sans-serif\",rankdir=BT,ranksep=0.8];\n"
            "  node [shape=box,style=filled,fillcolor=\"#eef4f8\",fontname=\"sans-serif\"];\n"
            "  edge [fontname=\"sans-serif\",fontsize=11];\n",
            shape);
    mem_free(shape);
    for (int k = 0; k < t->groups.count; k++)
        put_group(out, t, k);
    for (int l = 1; l < t->levels; l++)
        put_level(out, t, l);
    fputs("}\n", out);
}
