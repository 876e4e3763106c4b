/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests groups found in tables of distances that were made from groups: any placement, ragged,
 * several levels, noise, busy moments; rounds in which a rank is once; and how many pairs it
 * takes.  Lines through times: exact ones, noisy ones, and how often the interval holds the
 * truth.
 */
#include "unit.h"

#include "base/groups.h"
#include "base/rng.h"
#include "base/stats.h"
#include "probe/probe_cluster.h"
#include "probe/probe_fit.h"
#include "probe/probe_machine.h"

enum { LEVELS_MAX = 4 };

struct fabric {
    int ranks, levels; /* level 0: the same part[0] */
    int *part[LEVELS_MAX];
    double length[LEVELS_MAX + 1];
    double noise;    /* 0.3: +-30 % */
    int busy_rounds; /* in the first so many a fifth of the pairs looks 20 times as far */
    uint64_t seed, requested;
    int rounds;
};

/* Distances a decade apart. */
static void fabric_init(struct fabric *f, int ranks, int levels)
{
    *f = (struct fabric){.ranks = ranks, .levels = levels, .seed = 1};
    for (int l = 0; l < levels; l++)
        f->part[l] = mem_new((size_t)ranks, sizeof(int));
    for (int l = 0; l <= levels; l++)
        f->length[l] = 7e-6 * pow(10, l);
}

static void fabric_release(struct fabric *f)
{
    for (int l = 0; l < f->levels; l++)
        mem_free(f->part[l]);
}

static int measure(void *arg, const struct probe_pair *pair, int pairs, double *distance,
                   struct err *why)
{
    struct fabric *f = arg;
    char *taken = mem_new((size_t)f->ranks, 1);

    (void)why;
    assert_true(pairs > 0);
    for (int i = 0; i < pairs; i++) {
        int a = pair[i].a, b = pair[i].b, l = 0;
        assert_in_range(a, 0, f->ranks - 1);
        assert_in_range(b, 0, f->ranks - 1);
        assert_true(a != b && !taken[a] && !taken[b]);
        taken[a] = taken[b] = 1;
        while (l < f->levels && f->part[l][a] != f->part[l][b])
            l++;
        double u = rng_uniform(f->seed, 1, f->requested),
               v = rng_uniform(f->seed, 2, f->requested);
        f->requested++;
        distance[i] = f->length[l] * (1 + f->noise * (2 * u - 1));
        if (f->rounds < f->busy_rounds && v < 0.2)
            distance[i] *= 20;
    }
    f->rounds++;
    mem_free(taken);
    return 0;
}

/* Finds the levels that the fabric has, and counts as it was asked. */
static void finds(struct fabric *f)
{
    struct probe_clusters c;

    f->requested = 0;
    f->rounds = 0;
    assert_ok(probe_cluster(f->ranks, measure, f, &c, &err));
    assert_int_equal(c.ranks, f->ranks);
    assert_int_equal(c.partitions, f->levels);
    assert_int_equal(c.measured, f->requested);
    assert_int_equal(c.rounds, f->rounds);
    for (int l = 0; l < f->levels; l++) {
        const int *part = c.part + l * f->ranks;
        int next = 0;
        for (int a = 0; a < f->ranks; a++) {
            assert_true(part[a] <= next); /* numbered by their first ranks */
            next += part[a] == next;
            for (int b = 0; b < a; b++)
                assert_int_equal(part[a] == part[b], f->part[l][a] == f->part[l][b]);
        }
    }
    probe_clusters_release(&c);
}

enum placement { BY_SLOT, BY_NODE, SHUFFLED };

/* part[]: groups of these sizes, ranks placed in one of three ways. */
static void place(int *part, const struct groups *g, enum placement how, uint64_t seed)
{
    int *left = mem_new((size_t)g->count, sizeof *left);

    memcpy(left, g->members, (size_t)g->count * sizeof *left);
    memcpy(part, g->group_of, (size_t)g->ranks * sizeof *part);
    for (int r = 0, k = 0; how == BY_NODE && r < g->ranks; k = (k + 1) % g->count)
        if (left[k]) {
            left[k]--;
            part[r++] = k;
        }
    for (int r = g->ranks - 1; how == SHUFFLED && r > 0; r--) {
        int with = (int)(rng_u64(seed, 3, (uint64_t)r) % (uint64_t)(r + 1)), was = part[r];
        part[r] = part[with];
        part[with] = was;
    }
    mem_free(left);
}

static void fabric_of(struct fabric *f, const char *shape, enum placement how, uint64_t seed)
{
    struct groups g;

    assert_ok(groups_parse(&g, shape, &err));
    fabric_init(f, g.ranks, 1);
    place(f->part[0], &g, how, seed);
    f->seed = seed;
    f->noise = 0.3;
    groups_release(&g);
}

/* Finds the groups of a shape in noise, and forgets it. */
static void finds_shape(const char *shape, enum placement how, uint64_t seed)
{
    struct fabric f;

    fabric_of(&f, shape, how, seed);
    finds(&f);
    fabric_release(&f);
}

TEST(equal_distances_are_one_group)
{
    for (int n = 1; n <= 33; n++) {
        struct fabric f;
        fabric_init(&f, n, 0);
        f.noise = 0.3;
        for (f.seed = 1; f.seed < 10; f.seed++)
            finds(&f);
    }
}

/* Every number of ranks to 33 in 2 groups and more, as even as can be: many are ragged.  In no
 * order, groups of three and more: where most ranks are alone, some pair is not met. */
TEST(every_shape_is_found)
{
    for (int n = 3; n <= 33; n++)
        for (int g = 2; g < n; g++)
            for (int how = BY_SLOT; how <= (3 * g <= n ? SHUFFLED : BY_NODE); how++) {
                char shape[128] = "";
                for (int k = 0, used = 0; k < g; k++)
                    used += sprintf(shape + used, "%c%d", k ? ',' : '[', n / g + (k < n % g));
                finds_shape(strcat(shape, "]"), (enum placement)how, (uint64_t)(n * 100 + g));
            }
}

TEST(ragged_groups_are_found)
{
    static const char *const shape[] = {"[3,2]",     "[2,3]",   "[3,1]",
                                        "[1,1,2]",   "[4,4,3]", "[8,8,7]",
                                        "[7,6,5,3]", "[1,9]",   "[20,1,1,2,5]"};

    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (int how = BY_SLOT; how <= SHUFFLED; how++)
            for (uint64_t seed = 1; seed <= 5; seed++)
                finds_shape(shape[i], (enum placement)how, seed);
}

TEST(levels_nest)
{
    static const struct {
        const char *shape;
        int levels, by[3];
    } cases[] = {
        {"4x4", 2, {2}},    {"[3,2,2,3,1]", 2, {2}}, {"6x3", 2, {3}},
        {"8x2", 3, {2, 2}}, {"[2,1,3,2,2]", 2, {4}}, {"16x4", 3, {4, 2}},
        {"9x1", 1, {0}},    {"12x1", 2, {2}},        {"[1,4,1,3,2]", 2, {3}},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int how = BY_SLOT; how <= SHUFFLED; how++) {
            struct fabric f;
            struct groups g;
            assert_ok(groups_parse(&g, cases[i].shape, &err));
            fabric_init(&f, g.ranks, cases[i].levels);
            place(f.part[0], &g, how, 7);
            /* Level l joins `by` parts of the one below, and what is left over. */
            for (int l = 1; l < f.levels; l++)
                for (int r = 0; r < f.ranks; r++)
                    f.part[l][r] = f.part[l - 1][r] / cases[i].by[l - 1];
            f.noise = 0.3;
            if (groups_largest(&g) == 1) { /* ranks alone are no level: what joins them is */
                mem_free(f.part[0]);
                memmove(f.part, f.part + 1, sizeof f.part - sizeof *f.part);
                f.levels--;
            }
            finds(&f);
            fabric_release(&f);
            groups_release(&g);
        }
}

/* Levels six times as far apart: just beyond PROBE_CLUSTER_FACTOR x 1.9 of the noise. */
TEST(near_levels_are_told_apart)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct fabric f;
        fabric_of(&f, "4x8", BY_SLOT, seed);
        f.length[1] = 6 * f.length[0];
        finds(&f);
        fabric_release(&f);
    }
}

/* Ranks that look far in a busy moment are measured again and joined. */
TEST(busy_moments_pass)
{
    static const char *const shape[] = {"2x2", "[3,2]", "2x4", "4x2", "8x8", "1x6", "1x32"};

    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (uint64_t seed = 1; seed <= 20; seed++) {
            struct fabric f;
            fabric_of(&f, shape[i], BY_SLOT, seed);
            f.noise = 0;
            /* the shifts, the reflections, some that confirm */
            f.busy_rounds = 2 * (int)ceil(log2(f.ranks)) + 5;
            f.levels = shape[i][0] != '1';
            f.length[1] = 20 * f.length[0]; /* as a pair that is held up */
            if (f.levels == 0)
                mem_free(f.part[0]);
            finds(&f);
            fabric_release(&f);
        }
}

/* Shifts: less than n log2 n pairs; reflections: n - 1; tournaments: g (g - 1) / 2 pairs, n
 * log2 n and a round at most.  Placed by node on hosts whose number is no power of two,
 * differences: n log2 n more, and one more tournament. */
TEST(usual_placements_cost_n_log_n)
{
    static const struct {
        const char *shape;
        int more; /* times n log2 n */
    } cases[] = {{"2x4", 0},   {"8x8", 0},    {"[8,8,7]", 2}, {"3x8", 2}, {"16x64", 0},
                 {"1x64", 0},  {"64x16", 0},  {"100x10", 2},  {"7x9", 2}, {"512x4", 0},
                 {"[3,2]", 2}, {"1x1000", 0}, {"6x5", 2}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int how = BY_SLOT; how <= BY_NODE; how++) {
            struct fabric f;
            fabric_of(&f, cases[i].shape, how, 1);
            if (cases[i].shape[0] == '1' && cases[i].shape[1] == 'x')
                mem_free(f.part[--f.levels]);
            finds(&f);
            double n = f.ranks, log_n = ceil(log2(n));
            int more = how == BY_NODE ? cases[i].more : 0;
            assert_true((double)f.requested <= (2 + more) * n * log_n + 1.5 * n);
            fabric_release(&f);
        }
}

/* Any order of few groups: as many pairs as all, at most and each level once more. */
TEST(any_order_is_found_and_bounded)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct fabric f;
        fabric_of(&f, "8x8", SHUFFLED, seed);
        finds(&f);
        assert_in_range(f.requested, 1, 64 * 63 / 2);
        fabric_release(&f);
    }
}

static int fails(void *arg, const struct probe_pair *pair, int pairs, double *distance,
                 struct err *why)
{
    struct fabric *f = arg;

    if (f->rounds == f->busy_rounds)
        return err_set(why, ERR_PEER, "round %d fails", f->rounds);
    return measure(arg, pair, pairs, distance, why);
}

TEST(a_failure_in_any_round_is_told)
{
    for (int at = 0; at < 12; at++) {
        struct fabric f;
        struct probe_clusters c;
        fabric_of(&f, "4x4", BY_SLOT, 1);
        f.noise = 0;
        f.busy_rounds = at;
        assert_error(probe_cluster(f.ranks, fails, &f, &c, &err), ERR_PEER);
        fabric_release(&f);
    }
}

static const double alpha_s = 50e-6, beta_s = 1 / 59.8e6;

/* Sizes as they are measured: small, doubling; and large, evenly apart. */
static const double sizes[][6] = {
    {0, 256, 512, 1024, 2048, 4096},
    {1 << 20, 2 << 20, 3 << 20, 4 << 20, 5 << 20, 6 << 20},
    {0, 64, 4096, 262144, 1 << 20, 4 << 20},
};
enum { SETS = sizeof sizes / sizeof *sizes, POINTS = 6 };

/* The error that rounding leaves: 1e-15 of a time, a few times over; the slope's is that over
   the sizes' distance. */
TEST(exact)
{
    for (int s = 0; s < SETS; s++) {
        for (int n = PROBE_FIT_LEAST; n <= POINTS; n++) {
            double t[POINTS];
            struct probe_fit f;
            for (int i = 0; i < n; i++)
                t[i] = alpha_s + beta_s * sizes[s][i];
            probe_fit_line(sizes[s], t, n, &f);
            double off = 1e-13 * t[n - 1];
            assert_true(fabs(f.alpha_s - alpha_s) < off && f.alpha_err_s < off);
            assert_true(fabs(f.beta_s - beta_s) * sizes[s][n - 1] < off);
            assert_true(f.beta_err_s * sizes[s][n - 1] < off);
        }
    }
}

/* By hand, with equal weights (equal times but for the last digits): 1, 1, 1 + e over 0, 1, 2:
 * beta = e/2, alpha = 1 - e/6; residuals e/6, -e/3, e/6, so s^2 = e^2/6; Q = 2. */
TEST(by_hand)
{
    const double e = 1e-6, x[] = {0, 1, 2}, t[] = {1, 1, 1 + e};
    struct probe_fit f;

    probe_fit_line(x, t, 3, &f);
    /* Weights differ by 2 e: the values by a part of e^2. */
    assert_true(fabs(f.beta_s - e / 2) < 1e-5 * e);
    assert_true(fabs(f.alpha_s - (1 - e / 6)) < 1e-5 * e);
    assert_true(fabs(f.beta_err_s - 12.706 * e / sqrt(12)) < 1e-5 * e);
    assert_true(fabs(f.alpha_err_s - 12.706 * e * sqrt(5.0 / 36)) < 1e-5 * e);
}

/* 95 % of intervals hold the truth.  Of 4000 trials the share that does is off by 0.34 % (one
 * standard deviation); four of them, and what the weights' own noise adds (5 % errors: their
 * square, 0.25 %): 1.7 %. */
TEST(covers)
{
    enum { TRIALS = 4000 };

    for (int s = 0; s < SETS; s++) {
        int alphas = 0, betas = 0;
        for (int k = 0; k < TRIALS; k++) {
            double t[POINTS];
            struct probe_fit f;
            for (int i = 0; i < POINTS; i++)
                t[i] = (alpha_s + beta_s * sizes[s][i]) *
                       (1 + 0.05 * rng_normal(7, (uint64_t)s, (uint64_t)(k * POINTS + i)));
            probe_fit_line(sizes[s], t, POINTS, &f);
            alphas += fabs(f.alpha_s - alpha_s) <= f.alpha_err_s;
            betas += fabs(f.beta_s - beta_s) <= f.beta_err_s;
        }
        assert_true(fabs(alphas / (double)TRIALS - 0.95) < 0.017);
        assert_true(fabs(betas / (double)TRIALS - 0.95) < 0.017);
    }
}

/* Six draws: least to most holds the median with 1 - 2 / 2^6 = 96.9 %; ours is wider, never
 * narrower.  One standard deviation of 4000 trials is 0.27 %. */
TEST(spread)
{
    enum { TRIALS = 4000, N = 6 };
    int held = 0;

    for (int k = 0; k < TRIALS; k++) {
        double v[N], sorted[N];
        for (int i = 0; i < N; i++)
            v[i] = sorted[i] = rng_normal(9, 1, (uint64_t)(k * N + i));
        double median = stats_median(sorted, N), half = probe_fit_spread(v, N, median);
        held += fabs(median) <= half;
        assert_true(half >= (sorted[N - 1] - sorted[0]) / 2);
    }
    assert_true(held / (double)TRIALS > 1 - 2 / 64.0 - 4 * 0.0027);
    assert_true(probe_fit_spread((const double[]){1, 2, 9}, 3, 2) == 7);
}

/* Flags as kernels print them: an AMD EPYC 9R14, an Intel Xeon without bf16, Arm's Neoverse. */
TEST(bf16_by_flags)
{
    assert_true(probe_bf16_in("flags\t\t: fpu avx512f avx512_bf16 wbnoinvd\n"));
    assert_true(probe_bf16_in("flags : avx512f amx_bf16\n"));
    assert_true(probe_bf16_in("Features\t: fp asimd i8mm bf16 dgh\n"));
    assert_false(probe_bf16_in("flags\t\t: fpu avx512f avx512bw avx512_vnni\n"));
    assert_false(probe_bf16_in("flags : avx512_bf16x bf166\n"));
    assert_false(probe_bf16_in(""));
}

/* proc(5): ticks of user nice system idle iowait irq softirq steal guest guest_nice. */
TEST(busy_by_ticks)
{
    double tick_s = 1.0 / (double)sysconf(_SC_CLK_TCK);

    assert_true(
        fabs(probe_busy_s("cpu  100 20 3 5000 700 11 13 4000 90 17\n") - 4123 * tick_s) < 1e-9);
    assert_true(probe_busy_s("cpu 1 2 3 4\n") == 6 * tick_s); /* before steal was counted */
    assert_true(probe_busy_s("intr 1 2 3 4\n") == 0);
}
