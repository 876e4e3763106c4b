/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows membership.  Does not know links, hosts or rates. */
#include "base/groups.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static void groups_room(struct groups *g, int ranks, int count)
{
    *g = (struct groups){.ranks = ranks, .count = count};
    g->members = mem_new((size_t)count, sizeof(int));
    g->first = mem_new((size_t)count + 1, sizeof(int));
    g->rank = mem_new((size_t)ranks, sizeof(int));
    g->group_of = mem_new((size_t)ranks, sizeof(int));
    g->local_of = mem_new((size_t)ranks, sizeof(int));
}

/* members[] and group_of[] are there: the rest follows. */
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
}

void groups_init(struct groups *g, int count, const int *members)
{
    int ranks = 0;

    for (int k = 0; k < count; k++) {
        assert(members[k] > 0);
        ranks += members[k];
    }
    groups_room(g, ranks, count);
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
    groups_room(&new, ranks, count);
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

/* A count within bounds at *p, which moves behind it. */
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

static int parse_list(const char *p, int **members, int *count)
{
    size_t room = 0;
    int n = 0;

    do {
        p++; /* the bracket, or a comma */
        *members = mem_grow(*members, &room, (size_t)n + 1, sizeof(int));
        if (n == GROUPS_RANKS_MAX || parse_count(&p, &(*members)[n++]))
            return -1;
    } while (*p == ',');
    *count = n;
    return p[0] == ']' && p[1] == 0 ? 0 : -1;
}

static int parse_product(const char *p, int **members, int *count)
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
    *members = mem_new((size_t)a, sizeof(int));
    for (int k = 0; k < a; k++)
        (*members)[k] = b;
    *count = a;
    return *p == 0 ? 0 : -1;
}

int groups_parse(struct groups *g, const char *text, struct err *err)
{
    int *members = NULL, count = 0, rc = -1;
    int64_t ranks = 0;

    if (text[0] == '[' ? parse_list(text, &members, &count)
                       : parse_product(text, &members, &count)) {
        err_set(err, ERR_INPUT,
                "shape '%s', expected GROUPSxMEMBERS as 4x8, or a list as [8,8,7]", text);
        goto done;
    }
    for (int k = 0; k < count; k++)
        ranks += members[k];
    if (ranks > GROUPS_RANKS_MAX) {
        err_set(err, ERR_INPUT, "shape '%s' has more than %d ranks", text, GROUPS_RANKS_MAX);
        goto done;
    }
    groups_init(g, count, members);
    rc = 0;
done:
    mem_free(members);
    return rc;
}

void groups_copy(struct groups *to, const struct groups *from)
{
    groups_room(to, from->ranks, from->count);
    memcpy(to->members, from->members, (size_t)from->count * sizeof(int));
    memcpy(to->group_of, from->group_of, (size_t)from->ranks * sizeof(int));
    groups_index(to);
}

void groups_release(struct groups *g)
{
    mem_free(g->members);
    mem_free(g->first);
    mem_free(g->rank);
    mem_free(g->group_of);
    mem_free(g->local_of);
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

int groups_equal(const struct groups *a, const struct groups *b)
{
    return a->ranks == b->ranks && a->count == b->count &&
           memcmp(a->group_of, b->group_of, (size_t)a->ranks * sizeof(int)) == 0;
}

void groups_print(const struct groups *g, char *text, int room)
{
    int even = 1, used = 0;

    for (int k = 1; k < g->count; k++)
        even = even && g->members[k] == g->members[0];
    if (even) {
        snprintf(text, (size_t)room, "%dx%d", g->count, g->members[0]);
        return;
    }
    for (int k = 0; k < g->count && used < room; k++)
        used +=
            snprintf(text + used, (size_t)(room - used), "%c%d", k ? ',' : '[', g->members[k]);
    if (used < room)
        snprintf(text + used, (size_t)(room - used), "]");
}
