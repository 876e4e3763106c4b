/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows what a fabric is: room for it, its ports, which reader or printer a name asks for.
 * Does not know how any text is written: topo_yaml.c, topo_synth.c and topo_print.c do.
 */
#include "topo/topo.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "base/yaml.h"

void topo_init(struct topo *t, int levels, const struct groups *groups)
{
    size_t count = (size_t)groups->count;

    assert(levels >= 2 && levels <= TOPO_LEVELS_MAX);
    *t = (struct topo){.levels = levels};
    groups_copy(&t->groups, groups);
    t->level = mem_new((size_t)levels, sizeof *t->level);
    t->port = mem_new(count, sizeof *t->port);
    t->host = mem_new(count, sizeof *t->host);
    for (size_t k = 0; k < count; k++)
        t->host[k] = mem_dup("");
    if (levels > 2)
        t->block = mem_new((size_t)(levels - 2) * count, sizeof *t->block);
}

void topo_release(struct topo *t)
{
    for (int k = 0; t->host && k < t->groups.count; k++)
        mem_free(t->host[k]);
    mem_free(t->host);
    mem_free(t->port);
    mem_free(t->level);
    mem_free(t->block);
    groups_release(&t->groups);
    *t = (struct topo){0};
}

void topo_set_host(struct topo *t, int k, const char *host)
{
    mem_free(t->host[k]);
    t->host[k] = mem_dup(host);
}

int topo_read(struct topo *t, const char *what, struct err *err)
{
    struct yaml y;

    if (strncmp(what, "synth:", 6) == 0)
        return topo_parse_synth(t, what + 6, err);
    if (yaml_read(&y, what, err))
        return -1;
    int rc = topo_parse_yaml(t, &y, err);
    yaml_release(&y);
    return rc;
}

int topo_parse_format(const char *text, enum topo_format *format, struct err *err)
{
    static const char *const names[] = {
        [TOPO_YAML] = "yaml", [TOPO_JSON] = "json", [TOPO_TABLE] = "table"};

    for (int i = 0; i < 3; i++) {
        if (strcmp(text, names[i]))
            continue;
        *format = (enum topo_format)i;
        return 0;
    }
    return err_set(err, ERR_INPUT, "'%s', expected yaml, json or table", text);
}

void topo_print(const struct topo *t, enum topo_format format, FILE *out)
{
    static void (*const print[])(const struct topo *, FILE *) = {
        [TOPO_YAML] = topo_print_yaml,
        [TOPO_JSON] = topo_print_json,
        [TOPO_TABLE] = topo_print_table,
    };

    print[format](t, out);
}

double topo_port_Bps(const struct topo *t, int k)
{
    const struct topo_port *p = &t->port[k];

    return p->out_Bps < p->in_Bps ? p->out_Bps : p->in_Bps;
}

double topo_slowest_port_Bps(const struct topo *t)
{
    double least = topo_port_Bps(t, 0);

    for (int k = 1; k < t->groups.count; k++)
        if (topo_port_Bps(t, k) < least)
            least = topo_port_Bps(t, k);
    return least;
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
