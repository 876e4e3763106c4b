/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows the one-line description of a fabric that does not exist: "16x8,inter=25GB/s:12us".
 *
 *     4x16x8     8 ranks in a group, 16 groups in a block, 4 blocks: three levels
 *     [8,8,7]    three ragged groups, two levels;  4x[8,8,7] is four blocks of them
 */
#include "topo/topo_given.h"

#include <string.h>

#include "base/mem.h"
#include "base/num.h"

/* NVLink and InfiniBand of a present-day node, as the man page's example. */
static const double INTRA_BPS = 200e9, INTRA_S = 3e-6;
static const double INTER_BPS = 25e9, INTER_S = 12e-6;

struct synth {
    int factor[TOPO_LEVELS_MAX]; /* [factors], outermost first, the groups' list apart */
    int factors;
    int *members; /* [listed], owned: the groups of one innermost block */
    int listed;
    struct topo_given given; /* by the words after the shape */
};

static int fail_shape(const char *shape, struct err *err)
{
    return err_set(err, ERR_INPUT,
                   "shape '%s', expected factors outermost first, as 16x8, 4x16x8, [8,8,7] or"
                   " 4x[8,8,7] (%d levels and %d ranks at most)",
                   shape, TOPO_LEVELS_MAX, GROUPS_RANKS_MAX);
}

/* "[8,8,7]" or the last factor "8": the groups' members. */
static int parse_members(struct synth *s, char *text, struct err *err)
{
    struct groups g;

    if (groups_parse(&g, text, err))
        return -1;
    s->listed = g.count;
    s->members = mem_new((size_t)g.count, sizeof *s->members);
    memcpy(s->members, g.members, (size_t)g.count * sizeof *s->members);
    groups_release(&g);
    return 0;
}

/* alone: "8", which is one group of a fabric, will do. */
static int parse_shape(struct synth *s, const char *shape, int alone, struct err *err)
{
    char *copy = mem_dup(shape), *at = copy;
    struct err why;
    int64_t groups = 1;
    int rc = -1;

    for (char *x; *at != '[' && (x = strchr(at, 'x')); at = x + 1) {
        int64_t factor = 0;
        *x = 0;
        if (s->factors == TOPO_LEVELS_MAX - 1 ||
            num_i64(at, 1, GROUPS_RANKS_MAX, &factor, &why))
            goto done;
        groups *= factor;
        if (groups > GROUPS_RANKS_MAX)
            goto done;
        s->factor[s->factors++] = (int)factor;
    }
    if (parse_members(s, at, &why))
        goto done;
    if (alone && s->factors == 0 && *at != '[')
        s->factor[s->factors++] = 1;
    int64_t ranks = 0;
    for (int k = 0; k < s->listed; k++)
        ranks += s->members[k];
    /* "8" alone has one level; "[8,8,7]" has two without a factor. */
    if (groups * ranks <= GROUPS_RANKS_MAX && (s->factors || *at == '['))
        rc = 0;
    /* A list is a level of its own, so that one factor fewer may stand before it. */
    if (*at == '[' && s->factors > TOPO_LEVELS_MAX - 2)
        rc = -1;
done:
    mem_free(copy);
    return rc ? fail_shape(shape, err) : 0;
}

/* A list is what the innermost factor and the members are otherwise. */
static int levels_of(const struct synth *s, int list)
{
    return s->factors + 1 + list;
}

/* ---- building ---- */

/* Blocks of each level from 2 up, from the innermost factor outwards. */
static void build_blocks(struct topo *t, const struct synth *s, int list)
{
    int groups = list ? s->listed : 1; /* in one unit of the level below */
    int factor = s->factors - 1;

    if (!list)
        groups = s->factor[factor--];
    for (int l = 2; l < t->levels; l++, groups *= s->factor[factor--])
        for (int k = 0; k < t->groups.count; k++)
            t->block[(l - 2) * t->groups.count + k] = k / groups;
}

/* What is given, else the defaults; a further level passes what its groups' ports do. */
static void build_level(struct topo *t, int l, const struct topo_given_level *given)
{
    struct topo_level *level = &t->level[l];
    struct topo_given_level g = *given;

    if (!g.has_latency)
        g.latency_s = l == 0 ? INTRA_S : l == 1 ? INTER_S : level[-1].latency_s;
    if (!g.has_rate)
        g.rate_Bps = l == 0 ? INTRA_BPS : l == 1 ? INTER_BPS : topo_largest_unit(t, l).port_Bps;
    g.has_rate = g.has_latency = 1;
    topo_given_level(t, l, &g);
    if (l >= 2 && !given->has_rate)
        level->flow_Bps = level[-1].flow_Bps;
}

static void build_fabric(struct topo *t, const struct synth *s, int levels)
{
    int count = s->listed;

    for (int i = 0; i < s->factors; i++)
        count *= s->factor[i];
    int *members = mem_new((size_t)count, sizeof *members);
    for (int k = 0; k < count; k++)
        members[k] = s->members[k % s->listed];
    struct groups groups;
    groups_init(&groups, count, members);
    topo_init(t, levels, &groups);
    groups_release(&groups);
    mem_free(members);
    build_blocks(t, s, levels == s->factors + 2);
    topo_name_levels(t);
    for (int l = 0; l < levels; l++)
        build_level(t, l, &s->given.level[l]);
    t->memory_bytes = s->given.memory_bytes;
    t->flops = s->given.flops;
    t->device = s->given.device;
    t->compute_type = s->given.compute_type;
}

int topo_parse_shape(struct topo *t, const char *shape, struct err *err)
{
    struct synth s = {0};
    int rc = parse_shape(&s, shape, 1, err);

    if (rc == 0)
        build_fabric(t, &s, levels_of(&s, strchr(shape, '[') != NULL));
    mem_free(s.members);
    return rc;
}

int topo_parse_synth(struct topo *t, const char *spec, struct err *err)
{
    struct synth s = {0};
    char *copy = mem_dup(spec), *at = copy;
    char *shape = topo_given_next(&at);
    int rc = parse_shape(&s, shape, 0, err);
    int levels = levels_of(&s, strchr(shape, '[') != NULL);

    for (char *word; rc == 0 && (word = topo_given_next(&at));)
        rc = topo_given_word(&s.given, levels, 0, word, err);
    if (rc == 0)
        build_fabric(t, &s, levels);
    else
        err_prefix(err, "synth: ");
    mem_free(s.members);
    mem_free(copy);
    return rc;
}
