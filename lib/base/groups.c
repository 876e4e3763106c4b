/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes, parses and prints groups of ranks.  Leaves links, hosts and rates to topo. */
#include "base/groups.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static void groups_space(struct groups *g, int ranks, int count)
{
    *g = (struct groups){.ranks = ranks, .count = count};
    g->members = mem_new((size_t)count, sizeof(int));
    g->first = mem_new((size_t)count + 1, sizeof(int));
    g->rank = mem_new((size_t)ranks, sizeof(int));
    g->group_of = mem_new((size_t)ranks, sizeof(int));
    g->local_of = mem_new((size_t)ranks, sizeof(int));
    g->cell_of = mem_new((size_t)ranks, sizeof(int));
    g->cell = mem_new((size_t)count + 1, sizeof(int));
    g->cell_at = mem_new((size_t)ranks + 1, sizeof(int));
    g->in_cell = mem_new((size_t)ranks, sizeof(int));
}

/* Fills the remaining cell fields from cell_of[] and the groups. */
static void index_cells(struct groups *g)
{
    int at = 0;

    for (int k = 0; k < g->count; k++) {
        const int *rank = g->rank + g->first[k];
        int cells = 0, c = g->cell[k];
        for (int i = 0; i < g->members[k]; i++)
            cells = g->cell_of[rank[i]] >= cells ? g->cell_of[rank[i]] + 1 : cells;
        g->cell[k + 1] = c + cells;
        for (int own = 0; own < cells; own++) {
            g->cell_at[c + own] = at;
            for (int i = 0; i < g->members[k]; i++)
                if (g->cell_of[rank[i]] == own)
                    g->in_cell[at++] = rank[i];
            assert(at > g->cell_at[c + own]);
        }
    }
    g->cell_at[g->cell[g->count]] = at;
}

/* Fills the remaining fields from members[] and group_of[]. */
static void groups_index(struct groups *g)
{
    int *at = mem_new((size_t)g->count, sizeof(int));

    for (int k = 0; k < g->count; k++)
        g->first[k + 1] = g->first[k] + g->members[k];
    for (int r = 0; r < g->ranks; r++) {
        int k = g->group_of[r];
        g->local_of[r] = at[k]++;
        g->rank[g->first[k] + g->local_of[r]] = r;
    }
    mem_free(at);
    index_cells(g);
}

void groups_set_cells(struct groups *g, const int *cell_of)
{
    memcpy(g->cell_of, cell_of, (size_t)g->ranks * sizeof(int));
    index_cells(g);
}

void groups_init(struct groups *g, int count, const int *members)
{
    int ranks = 0;

    for (int k = 0; k < count; k++) {
        assert(members[k] > 0);
        ranks += members[k];
    }
    groups_space(g, ranks, count);
    for (int k = 0, r = 0; k < count; k++) {
        g->members[k] = members[k];
        for (int j = 0; j < members[k]; j++)
            g->group_of[r++] = k;
    }
    groups_index(g);
}

int groups_init_of(struct groups *g, int ranks, const int *group_of, struct err *err)
{
    int count = 0;

    if (ranks < 1 || ranks > GROUPS_RANKS_MAX)
        return err_set(err, ERR_INPUT, "%d ranks, expected 1 to %d", ranks, GROUPS_RANKS_MAX);
    for (int r = 0; r < ranks; r++) {
        if (group_of[r] < 0 || group_of[r] >= ranks)
            return err_set(err, ERR_INPUT, "rank %d is in group %d, expected 0 to %d", r,
                           group_of[r], ranks - 1);
        if (group_of[r] >= count)
            count = group_of[r] + 1;
    }
    struct groups new;
    groups_space(&new, ranks, count);
    for (int r = 0; r < ranks; r++) {
        new.group_of[r] = group_of[r];
        new.members[group_of[r]]++;
    }
    for (int k = 0; k < count; k++) {
        if (new.members[k] == 0) {
            groups_release(&new);
            return err_set(err, ERR_INPUT, "group %d has no rank, expected at least one", k);
        }
    }
    groups_index(&new);
    *g = new;
    return 0;
}

/* Reads a count within bounds at *p; advances *p past it. */
static int parse_count(const char **p, int *out)
{
    char *end = NULL;

    if (**p < '1' || **p > '9')
        return -1;
    long v = strtol(*p, &end, 10);
    if (v < 1 || v > GROUPS_RANKS_MAX)
        return -1;
    *p = end;
    *out = (int)v;
    return 0;
}

/* Reads the number of ranks of each cell; negative for a further cell of the same group. */
static int groups_parse_list(const char *p, int **cell, int *cells)
{
    size_t space = 0;
    int n = 0;

    do {
        int joined = *p == '+';
        p++; /* skips the bracket, comma or plus */
        *cell = mem_grow(*cell, &space, (size_t)n + 1, sizeof(int));
        if (n == GROUPS_RANKS_MAX || parse_count(&p, &(*cell)[n]))
            return -1;
        (*cell)[n] *= joined ? -1 : 1;
        n++;
    } while (*p == ',' || *p == '+');
    *cells = n;
    return p[0] == ']' && p[1] == 0 ? 0 : -1;
}

static int parse_product(const char *p, int **cell, int *cells)
{
    int a = 1, b = 0;

    if (parse_count(&p, &b))
        return -1;
    if (*p == 'x') {
        p++;
        a = b;
        if (parse_count(&p, &b))
            return -1;
    }
    *cell = mem_new((size_t)a, sizeof(int));
    for (int k = 0; k < a; k++)
        (*cell)[k] = b;
    *cells = a;
    return *p == 0 ? 0 : -1;
}

/* Makes groups from the result of groups_parse_list, with consecutive ranks. */
static void init_cells(struct groups *g, int ranks, int cells, const int *cell)
{
    int *members = mem_new((size_t)cells, sizeof *members), count = 0, own = 0, r = 0;
    int *cell_of = mem_new((size_t)ranks, sizeof *cell_of);

    for (int i = 0; i < cells; i++) {
        count += cell[i] > 0;
        own = cell[i] > 0 ? 0 : own + 1;
        members[count - 1] += abs(cell[i]);
        for (int j = 0; j < abs(cell[i]); j++)
            cell_of[r++] = own;
    }
    groups_init(g, count, members);
    groups_set_cells(g, cell_of);
    mem_free(members);
    mem_free(cell_of);
}

int groups_parse(struct groups *g, const char *text, struct err *err)
{
    int *cell = NULL, cells = 0, rc = -1;
    int64_t ranks = 0;

    if (text[0] == '[' ? groups_parse_list(text, &cell, &cells)
                       : parse_product(text, &cell, &cells)) {
        err_set(err, ERR_INPUT,
                "shape '%s', expected GROUPSxMEMBERS as 4x8, or a list as [8,8,7] or [4+4,7]",
                text);
        goto done;
    }
    for (int i = 0; i < cells; i++)
        ranks += abs(cell[i]);
    if (ranks > GROUPS_RANKS_MAX) {
        err_set(err, ERR_INPUT, "shape '%s' has more than %d ranks", text, GROUPS_RANKS_MAX);
        goto done;
    }
    init_cells(g, (int)ranks, cells, cell);
    rc = 0;
done:
    mem_free(cell);
    return rc;
}

void groups_copy(struct groups *to, const struct groups *from)
{
    groups_space(to, from->ranks, from->count);
    memcpy(to->members, from->members, (size_t)from->count * sizeof(int));
    memcpy(to->group_of, from->group_of, (size_t)from->ranks * sizeof(int));
    memcpy(to->cell_of, from->cell_of, (size_t)from->ranks * sizeof(int));
    to->ring = from->ring;
    groups_index(to);
}

void groups_release(struct groups *g)
{
    MEM_FREE(g->members, g->first, g->rank, g->group_of, g->local_of, g->cell_of, g->cell,
             g->cell_at, g->in_cell);
    *g = (struct groups){0};
}

int groups_rank(const struct groups *g, int k, int j)
{
    assert(k >= 0 && k < g->count && j >= 0 && j < g->members[k]);
    return g->rank[g->first[k] + j];
}

int groups_largest(const struct groups *g)
{
    int most = 0;

    for (int k = 0; k < g->count; k++)
        if (g->members[k] > most)
            most = g->members[k];
    return most;
}

int groups_cells(const struct groups *g, int k)
{
    return g->cell[k + 1] - g->cell[k];
}

int groups_most_cells(const struct groups *g)
{
    int most = 0;

    for (int k = 0; k < g->count; k++)
        most = groups_cells(g, k) > most ? groups_cells(g, k) : most;
    return most;
}

static struct groups_cell cell(const struct groups *g, int c)
{
    return (struct groups_cell){g->in_cell + g->cell_at[c], g->cell_at[c + 1] - g->cell_at[c],
                                0};
}

struct groups_cell groups_cell_after(const struct groups *g, int src, int steps)
{
    int k = g->group_of[src], own = g->cell_of[src];
    struct groups_cell from = cell(g, g->cell[k] + own);
    struct groups_cell to = cell(g, g->cell[k] + (own + steps) % groups_cells(g, k));

    while (from.rank[from.carrier] != src)
        from.carrier++;
    to.carrier = from.carrier * to.ranks / from.ranks;
    return to;
}

int groups_equal(const struct groups *a, const struct groups *b)
{
    return a->ranks == b->ranks && a->count == b->count &&
           memcmp(a->group_of, b->group_of, (size_t)a->ranks * sizeof(int)) == 0;
}

void groups_print(const struct groups *g, char *text, int space)
{
    int even = 1, used = 0;

    for (int k = 1; k < g->count; k++)
        even = even && g->members[k] == g->members[0];
    if (even) {
        snprintf(text, (size_t)space, "%dx%d", g->count, g->members[0]);
        return;
    }
    for (int k = 0; k < g->count && used < space; k++)
        used +=
            snprintf(text + used, (size_t)(space - used), "%c%d", k ? ',' : '[', g->members[k]);
    if (used < space)
        snprintf(text + used, (size_t)(space - used), "]");
}

struct by_block {
    const int *block;
    int levels, count;
};

static int base_groups_by_block(const void *a, const void *b, void *of)
{
    const struct by_block *s = of;
    int x = *(const int *)a, y = *(const int *)b, differ = 0;

    for (int l = s->levels - 1; !differ && l >= 2; l--)
        differ = s->block[(l - 2) * s->count + x] - s->block[(l - 2) * s->count + y];
    return differ ? differ : x - y;
}

int *groups_by_block(const struct groups *g, int levels, const int *block)
{
    struct by_block s = {block, levels, g->count};
    int *order = mem_new((size_t)g->count, sizeof *order);

    for (int k = 0; k < g->count; k++)
        order[k] = k;
    qsort_r(order, (size_t)g->count, sizeof *order, base_groups_by_block, &s);
    return order;
}
