/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parses the one-line description of a fabric that does not exist: "16x8,inter=25GB/s:12us".
 *
 *     4x16x8     8 ranks in a group, 16 groups in a block, 4 blocks: three levels
 *     [8,8,7]    three ragged groups, two levels;  4x[8,8,7] is four blocks of them
 */
#include "topo/topo_given.h"

#include <string.h>

#include "base/mem.h"
#include "base/num.h"

/* NVLink and InfiniBand of a current node, as in the man page's example. */
static const double INTRA_BPS = 200e9, INTRA_S = 3e-6;
static const double INTER_BPS = 25e9, INTER_S = 12e-6;

struct synth {
    int factor[TOPO_LEVELS_MAX]; /* [factors], outermost first, without the list of groups */
    int factors, levels;
    struct groups block;     /* the groups of one innermost block; owned */
    struct topo_given given; /* from the words after the shape */
};

/* alone: also accepts "8", one group. */
static int synth_parse_shape(struct synth *s, const char *shape, int alone, struct err *err)
{
    char *copy = mem_dup(shape), *at = copy;
    int64_t groups = 1, factor = 0;
    struct err why;
    int fits = 1;

    for (char *x; fits && *at != '[' && (x = strchr(at, 'x')); at = x + 1) {
        *x = 0;
        fits = s->factors < TOPO_LEVELS_MAX - 1 &&
               num_i64(at, 1, GROUPS_RANKS_MAX, &factor, &why) == 0;
        groups *= factor;
        fits = fits && groups <= GROUPS_RANKS_MAX;
        s->factor[s->factors++] = (int)factor;
    }
    fits = fits && groups_parse(&s->block, at, &why) == 0 && groups_most_cells(&s->block) == 1;
    int is_list = *at == '[';
    if (alone && s->factors == 0 && !is_list)
        s->factor[s->factors++] = 1;
    /* A list is a level of its own: "[8,8,7]" has two levels, "8" one. */
    s->levels = s->factors + 1 + is_list;
    mem_free(copy);
    if (fits && s->levels >= 2 && s->levels <= TOPO_LEVELS_MAX &&
        groups * s->block.ranks <= GROUPS_RANKS_MAX)
        return 0;
    return err_set(err, ERR_INPUT,
                   "shape '%s', expected factors outermost first, as 16x8, 4x16x8, [8,8,7] or"
                   " 4x[8,8,7] (%d levels and %d ranks at most)",
                   shape, TOPO_LEVELS_MAX, GROUPS_RANKS_MAX);
}

/* ---- building ---- */

static int synth_build_fabric(struct topo *t, const struct synth *s, struct err *err)
{
    int count = s->block.count;

    for (int i = 0; i < s->factors; i++)
        count *= s->factor[i];
    int *members = mem_new((size_t)count, sizeof *members);
    for (int k = 0; k < count; k++)
        members[k] = s->block.members[k % s->block.count];
    struct groups groups;
    groups_init(&groups, count, members);
    topo_init(t, s->levels, &groups);
    groups_release(&groups);
    mem_free(members);
    /* Blocks of each level from 2 up, from the innermost factor outwards. */
    int factor = s->factors - 1, is_list = s->levels > s->factors + 1;
    /* Groups in a unit of the level below */
    int unit = is_list ? s->block.count : s->factor[factor--];
    for (int l = 2; l < t->levels; l++, unit *= s->factor[factor--])
        for (int k = 0; k < count; k++)
            t->block[(l - 2) * count + k] = k / unit;
    topo_name_levels(t);
    /* Levels as given, else the defaults; a further level has the sum of its groups' ports. */
    for (int l = 0; l < s->levels; l++) {
        struct topo_given_level g = s->given.level[l];
        int has_rate = g.has_rate;
        if (!g.has_latency)
            g.latency_s = l == 0 ? INTRA_S : l == 1 ? INTER_S : t->level[l - 1].latency_s;
        if (!has_rate)
            g.rate_Bps = l == 0   ? INTRA_BPS
                         : l == 1 ? INTER_BPS
                                  : topo_largest_unit(t, l).port_Bps;
        g.has_rate = g.has_latency = 1;
        topo_given_level(t, l, &g);
        if (l >= 2 && !has_rate)
            t->level[l].flow_Bps = t->level[l - 1].flow_Bps;
    }
    int rc = topo_given_rank(t, &s->given, 0, err);
    if (rc)
        topo_release(t);
    return rc;
}

int topo_parse_shape(struct topo *t, const char *shape, struct err *err)
{
    struct synth s = {0};
    int rc = synth_parse_shape(&s, shape, 1, err);

    rc = rc ? rc : synth_build_fabric(t, &s, err);
    groups_release(&s.block);
    return rc;
}

int topo_parse_synth(struct topo *t, const char *spec, struct err *err)
{
    struct synth s = {0};
    char *copy = mem_dup(spec), *at = copy;
    char *shape = topo_given_next(&at);
    int rc = synth_parse_shape(&s, shape, 0, err);

    for (char *word; rc == 0 && (word = topo_given_next(&at));)
        rc = topo_given_word(&s.given, s.levels, 0, word, err);
    rc = rc ? rc : synth_build_fabric(t, &s, err);
    if (rc)
        err_prefix(err, "synth: ");
    groups_release(&s.block);
    mem_free(copy);
    return rc;
}
