/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Brings the items of each participant to all others in few rounds.  Leaves the meaning of
 * items and participants to schedule_gen_few.c.  Round r of sub-chunk c is at step r C + c, for
 * all chunks of an item at once: per round and pair of participants there is one message for
 * each sub-chunk.
 *
 * Bruck (Bruck et al. 1997), n = 5: round r brings 2^r items, the last round the missing ones.
 *     round 0   i receives item i+1             from i+1
 *     round 1   i receives items i+2 i+3        from i+2
 *     round 2   i receives item i+4             from i+4
 *
 * Recursive doubling, n = 6: four form the core, 1 and 3 are folded onto 0 and 2.
 *     round 0   1 -> 0    3 -> 2                their items
 *     round 1   0 <-> 2   4 <-> 5               all that each has
 *     round 2   0 <-> 4   2 <-> 5
 *     round 3   0 -> 1    2 -> 3                all but their own
 *
 * Tree, n = 5: up to 0 with all items gathered, and down with the items that the child lacks.
 *     rounds 0 1 2   1 -> 0  3 -> 2    2 -> 0    4 -> 0
 *     rounds 3 4 5   0 -> 4    0 -> 2    0 -> 1  2 -> 3
 *
 * Each participant receives an item once, and sends it at most once a round.  Thus the time
 * reversal adds every contribution once, and never adds two into one chunk in a step.
 */
#include "schedule/schedule_gen.h"

/* floor(log2 n) */
static int log2_down(int n)
{
    int bits = 0;

    while (n >> bits > 1)
        bits++;
    return bits;
}

/* ceil(log2 n) */
static int gen_kernel_log2_up(int n)
{
    return n > 1 ? log2_down(n - 1) + 1 : 0;
}

static int is_power(int n)
{
    return n == 1 << log2_down(n);
}

/* Whether the scatter from participant 0 (below) left the item at i, whose subtree has i &
   -i. */
static int was_scattered(const struct schedule_team *t, int i, int item)
{
    return t->scatter && (i == 0 || (item >= i && item - i < (i & -i)));
}

/* Emits: participant src sends dst `count` items from `item` on, modulo n, in this round. */
void schedule_team_send(struct schedule_team *t, int round, int src, int dst, int item,
                        int count)
{
    struct schedule_gen *g = t->gen;
    int C = g->out->subchunks, lane = g->out->segments + 1;

    if (t->me >= 0 && src != t->me && dst != t->me)
        return;
    for (int n = 0; n < count; n++) {
        int x = (item + n) % t->count;
        for (int p = t->first[x]; p < t->first[x + 1] && !was_scattered(t, dst, x); p++)
            for (int c = 0; c < C; c++)
                schedule_gen_emit(g, lane, (int64_t)round * C + c, t->rank[src], t->rank[dst],
                                  t->place[p] * C + c);
    }
}

/* ---- everyone to everyone ---- */

static int direct_rounds(int n)
{
    return n - 1;
}

static void direct(struct schedule_team *t)
{
    int n = t->count;

    for (int i = 0; i < n; i++) {
        /* For a single rank `me`, of the others' rounds only those that reach it are wanted. */
        int only = t->me >= 0 && i != t->me;
        int u = only ? (t->me - i - 1 + n) % n : 0, end = only ? u + 1 : n - 1;
        for (; u < end; u++)
            schedule_team_send(t, u, i, (i + 1 + u) % n, i, 1);
    }
}

const struct schedule_generator schedule_generator_direct = {.rounds = direct_rounds,
                                                             .run = direct};

static void bruck(struct schedule_team *t)
{
    int n = t->count;

    for (int r = 0; r < gen_kernel_log2_up(n); r++) {
        int far = 1 << r, items = far < n - far ? far : n - far;
        for (int i = 0; i < n; i++)
            schedule_team_send(t, r, (i + far) % n, i, (i + far) % n, items);
    }
}

const struct schedule_generator schedule_generator_bruck = {.rounds = gen_kernel_log2_up,
                                                            .run = bruck};

/* ---- recursive doubling ---- */

/* Returns member x of the core: the first ones have another participant folded onto them. */
static int core(int n, int x)
{
    int extra = n - (1 << log2_down(n));

    return x < extra ? 2 * x : x + extra;
}

static int doubling_rounds(int n)
{
    return log2_down(n) + (is_power(n) ? 0 : 2);
}

static void doubling(struct schedule_team *t)
{
    int n = t->count, bits = log2_down(n), extra = n - (1 << bits), round = extra > 0;

    for (int x = 0; x < extra; x++) {
        schedule_team_send(t, 0, 2 * x + 1, 2 * x, 2 * x + 1, 1);
        schedule_team_send(t, bits + 1, 2 * x, 2 * x + 1, 2 * x + 2, n - 1);
    }
    for (int r = 0; r < bits; r++)
        for (int x = 0; x < 1 << bits; x++) {
            int lo = core(n, x >> r << r), hi = core(n, ((x >> r) + 1) << r);
            schedule_team_send(t, round + r, core(n, x), core(n, x ^ 1 << r), lo, hi - lo);
        }
}

const struct schedule_generator schedule_generator_doubling = {.rounds = doubling_rounds,
                                                               .run = doubling};

static int fold_rounds(int n)
{
    return !is_power(n);
}

/* As a gather, from the core to the others: the reversal adds the others' items onto the
   core. */
static void fold(struct schedule_team *t)
{
    for (int x = 0; x < t->count - (1 << log2_down(t->count)); x++)
        schedule_team_send(t, 0, 2 * x, 2 * x + 1, 0, t->count);
}

const struct schedule_generator schedule_generator_fold = {.rounds = fold_rounds, .run = fold};

static int exchange_rounds(int n)
{
    return 2 * log2_down(n);
}

/*
 * Each partner's chunk is both sent and added into, so arriving data lands in scratch and is
 * added to the chunk a round (C steps) later.
 */
static void exchange_pair(struct schedule_team *t, int r, int src, int dst)
{
    struct schedule_gen *g = t->gen;
    const struct schedule *s = g->out;
    int C = s->subchunks, plane = r % SCHEDULE_EXCHANGE_PLANES;

    if (t->me >= 0 && src != t->me && dst != t->me)
        return;
    for (int p = 0; p < t->first[t->count]; p++)
        for (int c = 0; c < C; c++) {
            int chunk = t->place[p] * C + c, scratch = (1 + plane) * s->chunks + chunk;
            struct schedule_row row = {.lane = s->segments + 1,
                                       .step = 2 * r * C + c,
                                       .src = t->rank[src],
                                       .dst = t->rank[dst],
                                       .chunk = chunk,
                                       .into = scratch,
                                       .op = SCHEDULE_COPY};
            schedule_gen_row(g, row);
            row.step += C;
            row.src = row.dst;
            row.chunk = scratch;
            row.into = chunk;
            row.op = SCHEDULE_ADD;
            schedule_gen_row(g, row);
        }
}

static void gen_kernel_exchange(struct schedule_team *t)
{
    int n = t->count, bits = log2_down(n);

    for (int r = 0; r < bits; r++)
        for (int x = 0; x < 1 << bits; x++)
            exchange_pair(t, r, core(n, x ^ 1 << r), core(n, x));
}

const struct schedule_generator schedule_generator_exchange = {.rounds = exchange_rounds,
                                                               .run = gen_kernel_exchange};

/* ---- trees ---- */

/* Returns the number of participants in the subtree of `child`, itself included, whose parent
   is `far` before it. */
static int below(int n, int child, int far)
{
    return child + far < n ? far : n - child;
}

static int tree_rounds(int n)
{
    return 2 * gen_kernel_log2_up(n);
}

static void tree(struct schedule_team *t)
{
    int n = t->count, bits = gen_kernel_log2_up(n);

    for (int r = 0; r < bits; r++)
        for (int i = 0, far = 1 << r; i + far < n; i += 2 * far) {
            int child = i + far, has = below(n, child, far);
            schedule_team_send(t, r, child, i, child, has);
            schedule_team_send(t, 2 * bits - 1 - r, i, child, child + has, n - has);
        }
}

const struct schedule_generator schedule_generator_tree = {.rounds = tree_rounds, .run = tree};

/* Sends from 0 down: to each child all items, or only those of its own subtree. */
static void down(struct schedule_team *t, int all)
{
    int n = t->count, bits = gen_kernel_log2_up(n);

    for (int r = 0; r < bits; r++)
        for (int i = 0, far = 1 << r; i + far < n; i += 2 * far)
            schedule_team_send(t, bits - 1 - r, i, i + far, i + far,
                               all ? n : below(n, i + far, far));
}

static void spread(struct schedule_team *t)
{
    down(t, 1);
}

const struct schedule_generator schedule_generator_spread = {.rounds = gen_kernel_log2_up,
                                                             .run = spread};

static void gen_kernel_scatter(struct schedule_team *t)
{
    down(t, 0);
}

const struct schedule_generator schedule_generator_scatter = {.rounds = gen_kernel_log2_up,
                                                              .run = gen_kernel_scatter};

static int fan_rounds(int n)
{
    return n > 1;
}

static void fan(struct schedule_team *t)
{
    for (int i = 1; i < t->count; i++)
        schedule_team_send(t, 0, 0, i, 0, t->count);
}

const struct schedule_generator schedule_generator_fan = {.rounds = fan_rounds, .run = fan};
