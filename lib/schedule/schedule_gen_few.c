/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Applies the kernels (schedule_gen_kernel.c) to the phases, for the latency-optimal
 * algorithms.  The participants are
 *   all ranks            an item: the chunks that a rank owns          (the flat forms)
 *   the holders          an item: a part of their segment              (across alone)
 *   one leader a group   an item: a group's part of all segments       (across and inside)
 * Inside a group the holders, or the leader, then send every other member all chunks directly.
 * The leader first collects the parts that its members own.  Leaders cost two more messages on
 * the fast tier, and save all but one of m on the slow tier.
 *
 * Where a sum over the groups is gathered again at once, recursive doubling exchanges whole
 * vectors and the tree sends them up and down: n items in log2 n messages.  The others reduce
 * and scatter, then gather.  A broadcast by recursive doubling or bruck scatters first, along a
 * tree, and then gathers the items that each participant lacks.
 */
#include "schedule/schedule_gen.h"

#include "base/mem.h"

enum who { RANKS, HOLDERS, LEADERS };

struct few {
    struct schedule_gen *g;
    const struct schedule_generator *kernel; /* the algorithm's */
    int flat;
    int cast; /* broadcast: the root and its group come first, the root leads */
};

static int leader(const struct few *f, int k)
{
    const struct schedule *s = f->g->out;

    return f->cast && s->groups.group_of[s->root] == k ? s->root
                                                       : groups_rank(&s->groups, k, 0);
}

static struct schedule_team team_new(const struct few *f, int count, int places)
{
    return (struct schedule_team){.gen = f->g,
                                  .count = count,
                                  .rank = mem_new((size_t)count, sizeof(int)),
                                  .first = mem_new((size_t)count + 1, sizeof(int)),
                                  .place = mem_new((size_t)places, sizeof(int)),
                                  .me = -1};
}

static void team_run(struct schedule_team *t, const struct schedule_generator *kernel)
{
    int wanted = t->gen->rank;

    for (int i = 0; i < t->count && wanted >= 0; i++)
        if (t->rank[i] == wanted)
            t->me = i;
    if (wanted < 0 || t->me >= 0)
        kernel->run(t);
    MEM_FREE(t->rank, t->first, t->place);
}

static struct schedule_team team_of_ranks(const struct few *f)
{
    const struct schedule *s = f->g->out;
    int n = s->groups.ranks, places = s->segments * s->groups.count;
    struct schedule_team t = team_new(f, n, places);
    int *number = mem_new((size_t)n, sizeof(int)), *at = mem_new((size_t)n + 1, sizeof(int));
    int *chain = f->cast ? schedule_gen_ranks_chain(f->g) : NULL;

    for (int i = 0; i < n; i++) {
        t.rank[i] = chain ? chain[i] : s->groups.rank[i];
        number[t.rank[i]] = i;
    }
    /* Rank holder[e * count + k] owns place e * count + k: sort the places by owner. */
    for (int p = 0; p < places; p++)
        t.first[number[s->holder[p]] + 1]++;
    for (int i = 0; i < n; i++)
        at[i + 1] = t.first[i + 1] += t.first[i];
    for (int p = 0; p < places; p++)
        t.place[at[number[s->holder[p]]]++] = p;
    MEM_FREE(chain, number, at);
    return t;
}

static struct schedule_team team_of_holders(const struct few *f, int e)
{
    const struct schedule *s = f->g->out;
    int count = s->groups.count;
    struct schedule_team t = team_new(f, count, count);

    for (int k = 0; k < count; k++) {
        t.rank[k] = s->holder[e * count + k];
        t.first[k + 1] = k + 1;
        t.place[k] = e * count + k;
    }
    return t;
}

static struct schedule_team team_of_leaders(const struct few *f)
{
    const struct schedule *s = f->g->out;
    int count = s->groups.count;
    struct schedule_team t = team_new(f, count, s->segments * count);
    int *chain = f->cast ? schedule_gen_groups_chain(f->g) : NULL;

    for (int i = 0; i < count; i++) {
        int k = chain ? chain[i] : i;
        t.rank[i] = leader(f, k);
        t.first[i + 1] = t.first[i] + s->segments;
        for (int e = 0; e < s->segments; e++)
            t.place[t.first[i] + e] = e * count + k;
    }
    mem_free(chain);
    return t;
}

/* Adds the stage of a kernel's rounds.  scattered: a scatter ran before. */
static void over(const struct few *f, enum who who, const struct schedule_generator *kernel,
                 int scattered)
{
    struct schedule_gen *g = f->g;
    const struct schedule *s = g->out;
    int n = who == RANKS ? s->groups.ranks : s->groups.count;

    if (!schedule_gen_stage(g, (int64_t)kernel->rounds(n) * s->subchunks))
        return;
    if (who != HOLDERS) {
        struct schedule_team t = who == RANKS ? team_of_ranks(f) : team_of_leaders(f);
        t.scatter = scattered;
        team_run(&t, kernel);
        return;
    }
    int mine = g->rank >= 0 ? s->groups.group_of[g->rank] : -1;
    for (int e = 0; e < s->segments; e++) {
        if (mine >= 0 && s->holder[e * s->groups.count + mine] != g->rank)
            continue;
        struct schedule_team t = team_of_holders(f, e);
        team_run(&t, kernel);
    }
}

/*
 * Sends all parts of segment e from src, which has them, to the other members of group k, one
 * in each round u.  back = 0: a member's own part is not sent back to it.
 */
static void gen_few_hand_out(struct schedule_gen *g, int k, int e, int src, int back)
{
    const struct schedule *s = g->out;
    int m = s->groups.members[k], C = s->subchunks, count = s->groups.count;

    for (int u = 0; u < m - 1; u++) {
        int dst = groups_rank(&s->groups, k, (s->groups.local_of[src] + 1 + u) % m);
        if (g->rank >= 0 && src != g->rank && dst != g->rank)
            continue;
        for (int part = 0; part < count; part++)
            for (int c = 0; c < C && (back || part != k || s->holder[e * count + k] != dst);
                 c++)
                schedule_gen_emit(g, s->segments, (int64_t)u * C + c, src, dst,
                                  (e * count + part) * C + c);
    }
}

/* Adds the stage inside the groups, from the holders or the leaders. */
static void gen_few_inside(const struct few *f, enum who who, int back)
{
    struct schedule_gen *g = f->g;
    const struct schedule *s = g->out;
    int only = g->rank >= 0 ? s->groups.group_of[g->rank] : -1;
    int64_t rounds = groups_largest(&s->groups) - 1;

    if (!schedule_gen_stage(g, rounds * s->subchunks))
        return;
    for (int k = 0; k < s->groups.count; k++)
        for (int e = 0; e < s->segments && (only < 0 || k == only); e++)
            gen_few_hand_out(g, k, e,
                             who == LEADERS ? leader(f, k) : s->holder[e * s->groups.count + k],
                             back);
}

/* Adds the stage in which members send the parts that they own to their leader. */
static void gen_few_collect(const struct few *f)
{
    struct schedule_gen *g = f->g;
    const struct schedule *s = g->out;
    int C = s->subchunks, count = s->groups.count;

    if (groups_largest(&s->groups) < 2 || !schedule_gen_stage(g, C))
        return;
    for (int place = 0; place < s->segments * count; place++)
        for (int c = 0; c < C; c++)
            if (s->holder[place] != leader(f, place % count))
                schedule_gen_emit(g, s->segments, c, s->holder[place], leader(f, place % count),
                                  place * C + c);
}

/* Sums whole vectors over all participants, for all of them. */
static void sum_up(const struct few *f, enum who who)
{
    struct schedule_gen *g = f->g;
    int doubling = f->kernel == &schedule_generator_doubling;
    const struct schedule_generator *ends =
        doubling ? &schedule_generator_fold : &schedule_generator_spread;
    int n = who == RANKS ? g->out->groups.ranks : g->out->groups.count;

    g->reverse = 1;
    over(f, who, ends, 0);
    g->reverse = 0;
    if (doubling) {
        int rounds = schedule_generator_exchange.rounds(n) / 2;
        g->out->planes = rounds < SCHEDULE_EXCHANGE_PLANES ? rounds : SCHEDULE_EXCHANGE_PLANES;
        over(f, who, &schedule_generator_exchange, 0);
    }
    g->out->gather_step = (int)g->next;
    over(f, who, ends, 0);
}

/* Adds one half of a collective; a reversal runs the stages in reverse order. */
static void gen_few_half(const struct few *f, int across, int within)
{
    int leaders = across && within && !f->flat;

    if (across && within && f->flat) {
        over(f, RANKS, f->kernel, 0);
        return;
    }
    for (int i = 0; i < 3; i++) {
        int stage = f->g->reverse ? 2 - i : i;
        if (stage == 0 && leaders)
            gen_few_collect(f);
        if (stage == 1 && across)
            over(f, leaders ? LEADERS : HOLDERS, f->kernel, 0);
        if (stage == 2 && within)
            gen_few_inside(f, leaders ? LEADERS : HOLDERS, !leaders);
    }
}

static struct few few_of(struct schedule_gen *g)
{
    enum schedule_algo algo = g->spec->algo;

    return (struct few){.g = g,
                        .kernel = schedule_algo_generator(algo),
                        .flat = schedule_algo_flat(algo),
                        .cast = g->spec->phases == SCHEDULE_BROADCAST};
}

void schedule_gen_few(struct schedule_gen *g)
{
    const unsigned both = SCHEDULE_REDUCE_ACROSS | SCHEDULE_GATHER_ACROSS;
    unsigned phases = g->spec->phases;
    struct few f = few_of(g);
    int whole = phases == SCHEDULE_ALL_REDUCE;
    int sums = f.kernel == &schedule_generator_doubling || f.kernel == &schedule_generator_tree;

    if (sums && whole && f.flat) {
        sum_up(&f, RANKS);
    } else if (sums && (phases & both) == both) {
        enum who who = whole ? LEADERS : HOLDERS;
        g->reverse = 1;
        if (phases & SCHEDULE_REDUCE_INSIDE)
            gen_few_inside(&f, who, 1);
        sum_up(&f, who);
        if (phases & SCHEDULE_GATHER_INSIDE)
            gen_few_inside(&f, who, 1);
    } else {
        g->reverse = 1;
        gen_few_half(&f, phases & SCHEDULE_REDUCE_ACROSS, phases & SCHEDULE_REDUCE_INSIDE);
        g->reverse = 0;
        g->out->gather_step = (int)g->next;
        gen_few_half(&f, phases & SCHEDULE_GATHER_ACROSS, phases & SCHEDULE_GATHER_INSIDE);
    }
}

void schedule_gen_few_cast(struct schedule_gen *g)
{
    struct few f = few_of(g);
    enum who who = f.flat ? RANKS : LEADERS;

    if (f.kernel == &schedule_generator_tree) {
        over(&f, who, &schedule_generator_spread, 0);
    } else if (f.kernel == &schedule_generator_direct) {
        over(&f, who, &schedule_generator_fan, 0);
    } else {
        over(&f, who, &schedule_generator_scatter, 0);
        over(&f, who, f.kernel, 1);
    }
    if (!f.flat)
        gen_few_inside(&f, LEADERS, 1);
}
