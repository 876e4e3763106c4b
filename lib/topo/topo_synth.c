/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows the one-line description of a fabric that does not exist: "16x8,inter=25GB/s:12us".
 *
 *     4x16x8     8 ranks in a group, 16 groups in a block, 4 blocks: three levels
 *     [8,8,7]    three ragged groups, two levels;  4x[8,8,7] is four blocks of them
 */
#include "topo/topo.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"

/* NVLink and InfiniBand of a present-day node, as the man page's example. */
static const double INTRA_BPS = 200e9, INTRA_S = 3e-6;
static const double INTER_BPS = 25e9, INTER_S = 12e-6;

/* Given for each rank, 2^20 of them stay below TOPO_RATE_MAX_BPS. */
static const double RATE_MAX_BPS = 1e18;

/* What the words after the shape say of one level. */
struct given {
    int rate, latency, per_rank; /* given or not */
    double rate_Bps, latency_s;
};

struct synth {
    int factor[TOPO_LEVELS_MAX]; /* [factors], outermost first, the groups' list apart */
    int factors;
    int *members; /* [listed], owned: the groups of one innermost block */
    int listed;
    struct given given[TOPO_LEVELS_MAX];
    int64_t memory_bytes;
    double flops;
    int has_memory, has_flops;
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

/* ---- words ---- */

/* "intra" 0, "inter" 1, "level2" 2, ...; -1 for other words. */
static int level_of(const char *word, int levels)
{
    int64_t level = -1;
    struct err ignored;

    if (strcmp(word, "intra") == 0)
        return 0;
    if (strcmp(word, "inter") == 0)
        return 1;
    if (strncmp(word, "level", 5) || num_i64(word + 5, 2, levels - 1, &level, &ignored))
        return -1;
    return (int)level;
}

static int parse_rate(struct given *g, char *text, struct err *err)
{
    char *colon = strchr(text, ':');

    if (colon) {
        *colon = 0;
        if (num_time(colon + 1, &g->latency_s, err))
            return -1;
        if (g->latency_s > TOPO_LATENCY_MAX_S)
            return err_set(err, ERR_INPUT, "'%s', expected a latency of %g s at most",
                           colon + 1, TOPO_LATENCY_MAX_S);
        g->latency = 1;
    }
    size_t n = strlen(text);
    if (n > 5 && strcmp(text + n - 5, "/rank") == 0) {
        g->per_rank = 1;
        text[n - 5] = 0;
    }
    g->rate = 1;
    if (num_rate(text, &g->rate_Bps, err))
        return -1;
    if (g->rate_Bps < TOPO_RATE_MIN_BPS || g->rate_Bps > RATE_MAX_BPS)
        return err_set(err, ERR_INPUT, "'%s', expected a rate from %g to %g B/s", text,
                       TOPO_RATE_MIN_BPS, RATE_MAX_BPS);
    return 0;
}

static int parse_once(int *has, struct err *err)
{
    return (*has)++ ? err_set(err, ERR_INPUT, "is given twice, expected once") : 0;
}

static int fail_word(const char *word, int levels, struct err *err)
{
    char further[40] = "";

    if (levels == 3)
        snprintf(further, sizeof further, "level2, ");
    if (levels > 3)
        snprintf(further, sizeof further, "level2 to level%d, ", levels - 1);
    return err_set(err, ERR_INPUT, "'%s', expected intra, inter, %smemory or flops", word,
                   further);
}

static int parse_word(struct synth *s, int levels, char *word, struct err *err)
{
    char *value = strchr(word, '=');
    int rc = -1;

    if (!value)
        return err_set(err, ERR_INPUT, "'%s', expected NAME=VALUE", word);
    *value++ = 0;
    int level = level_of(word, levels);
    if (level >= 0) {
        struct given *g = &s->given[level];
        rc = parse_once(&g->rate, err) ? -1 : parse_rate(g, value, err);
    } else if (strcmp(word, "memory") == 0) {
        rc = parse_once(&s->has_memory, err)
                 ? -1
                 : num_bytes(value, 1, TOPO_MEMORY_MAX_BYTES, &s->memory_bytes, err);
    } else if (strcmp(word, "flops") == 0) {
        rc = parse_once(&s->has_flops, err) ? -1
                                            : num_f64(value, 1, TOPO_FLOPS_MAX, &s->flops, err);
    } else {
        return fail_word(word, levels, err);
    }
    return rc ? err_prefix(err, "%s ", word) : 0;
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

struct unit {
    int ranks;       /* behind the largest port of a level: a rank, a group, a block */
    double port_Bps; /* what the ports of its groups pass together */
};

static struct unit largest_unit(const struct topo *t, int l)
{
    struct unit most = {.ranks = l ? groups_largest(&t->groups) : 1}, at = {0};

    for (int k = 0; l >= 2 && k < t->groups.count; k++) {
        const int *block = t->block + (l - 2) * t->groups.count;
        if (k && block[k] != block[k - 1])
            at = (struct unit){0};
        at.ranks += t->groups.members[k];
        at.port_Bps += t->port[k].out_Bps;
        if (at.ranks > most.ranks || k == 0)
            most = at;
    }
    return most;
}

static void build_level(struct topo *t, int l, const struct given *g)
{
    struct topo_level *level = &t->level[l];
    const struct topo_level *below = l ? level - 1 : NULL;
    struct unit unit = largest_unit(t, l);

    if (l < 2)
        snprintf(level->name, sizeof level->name, "%s", l ? "inter" : "intra");
    else
        snprintf(level->name, sizeof level->name, "level%d", l);
    if (g->rate)
        level->port_Bps = g->per_rank ? g->rate_Bps * unit.ranks : g->rate_Bps;
    else
        level->port_Bps = l == 0 ? INTRA_BPS : l == 1 ? INTER_BPS : unit.port_Bps;
    if (g->latency)
        level->latency_s = g->latency_s;
    else
        level->latency_s = l == 0 ? INTRA_S : l == 1 ? INTER_S : below->latency_s;
    level->member_Bps = level->port_Bps / unit.ranks;
    level->flow_Bps = g->per_rank ? g->rate_Bps : level->port_Bps;
    if (l >= 2 && !g->rate)
        level->flow_Bps = below->flow_Bps;
}

/* A group's own port: the level's, or one for each of its ranks. */
static void build_ports(struct topo *t, const struct given *g)
{
    for (int k = 0; k < t->groups.count; k++) {
        double Bps = g->rate ? g->rate_Bps : INTER_BPS;
        if (g->per_rank)
            Bps *= t->groups.members[k];
        t->port[k] = (struct topo_port){.out_Bps = Bps, .in_Bps = Bps};
    }
}

static void build(struct topo *t, const struct synth *s, int levels)
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
    build_ports(t, &s->given[1]);
    for (int l = 0; l < levels; l++)
        build_level(t, l, &s->given[l]);
    t->memory_bytes = s->memory_bytes;
    t->flops = s->flops;
}

/* The next word of the spec, cut at a comma outside brackets; NULL behind the last. */
static char *next_word(char **at)
{
    char *word = *at;
    int depth = 0;

    if (!word)
        return NULL;
    for (char *p = word;; p++) {
        depth += (*p == '[') - (*p == ']');
        if (*p == 0) {
            *at = NULL;
            return word;
        }
        if (*p == ',' && depth <= 0) {
            *p = 0;
            *at = p + 1;
            return word;
        }
    }
}

int topo_parse_shape(struct topo *t, const char *shape, struct err *err)
{
    struct synth s = {0};
    int rc = parse_shape(&s, shape, 1, err);

    if (rc == 0)
        build(t, &s, levels_of(&s, strchr(shape, '[') != NULL));
    mem_free(s.members);
    return rc;
}

int topo_parse_synth(struct topo *t, const char *spec, struct err *err)
{
    struct synth s = {0};
    char *copy = mem_dup(spec), *at = copy;
    char *shape = next_word(&at);
    int rc = parse_shape(&s, shape, 0, err);
    int levels = levels_of(&s, strchr(shape, '[') != NULL);

    for (char *word; rc == 0 && (word = next_word(&at));)
        rc = parse_word(&s, levels, word, err);
    if (rc == 0)
        build(t, &s, levels);
    else
        err_prefix(err, "synth: ");
    mem_free(s.members);
    mem_free(copy);
    return rc;
}
