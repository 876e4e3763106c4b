/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Estimates of a model's evidence against an integral, against their known deviations, and the
 * samples against what they must minimise; the weights of several models against a regression.
 */
#include "unit.h"

#include <float.h>

#include "base/mem.h"
#include "base/rng.h"
#include "rank_blr_fixture.h"

/* log of the mean of two likelihoods, integrated over both samples' z by the rule of
 * trapezoids, which for what fades like a normal's density at both ends is exact to exp(-1 /
 * h), 2e-9 here; |z| > 8 has a weight of 1e-15. */
static double integrate_two(const struct rank_blr_item *t, double y, double v)
{
    enum { STEPS = 160 };
    const double h = 0.05;
    double sum = 0, l[2 * STEPS + 1], weight[2 * STEPS + 1];

    for (int a = 0; a <= 2 * STEPS; a++) {
        double z = (a - STEPS) * h, miss = y - t->mean - sqrt(t->var) * z;
        l[a] = -0.5 * (log(2 * PI * v) + miss * miss / v);
        weight[a] = h * exp(-0.5 * z * z) / sqrt(2 * PI);
    }
    for (int a = 0; a <= 2 * STEPS; a++)
        for (int b = 0; b <= 2 * STEPS; b++)
            sum += weight[a] * weight[b] *
                   (fmax(l[a], l[b]) + log((1 + exp(-fabs(l[a] - l[b]))) / 2));
    return sum;
}

/*
 * What is left between L_k and log P for large k: the logarithm of a mean of k falls short by
 * var(p) / (2 k E[p]^2), as p = N(y; x'theta, v) has E[p] = N(y; mu, v + q) and
 * E[p^2] = N(y; mu, v / 2 + q) / sqrt(4 pi v).
 */
static double gap_of(const struct rank_blr_item *t, double y, double v, int k)
{
    double e = y - t->mean, a = v + t->var, b = v / 2 + t->var;
    double once = exp(-0.5 * e * e / a) / sqrt(2 * PI * a);
    double square = exp(-0.5 * e * e / b) / sqrt(2 * PI * b) / sqrt(4 * PI * v);

    return (square / (once * once) - 1) / (2 * k);
}

/* Six standard errors are passed by one honest mean in 5e8, and the seed is fixed. */
TEST(more_samples_tighten_the_bound)
{
    struct rank_blr_options o = line_options;
    struct rank_blr_data d = blr_parse("line.tsv", line_tsv);
    double last = -INFINITY;

    o.items = 1;
    o.seed = 7;
    o.repeats = 20000;
    for (o.k = 1; o.k <= 32; o.k *= 2) {
        double two = 0, gap = 0;
        struct rank_blr r = blr_run(&d, &o);
        const struct rank_blr_estimate *b = &r.bound_k;
        for (int i = 0; i < d.rows; i++) {
            two += o.k == 2 ? integrate_two(&r.item[i], d.y[i], o.noise_var) : 0;
            gap += gap_of(&r.item[i], d.y[i], o.noise_var, o.k);
        }
        double chance = 6 * b->standard_error;
        assert_true(b->count == o.repeats && b->standard_error > 0 && r.k == o.k);
        /* Rises by more than chance: errors only fall as k grows. */
        assert_true(b->value > last + (o.k > 1 ? chance : 0));
        assert_true(b->value < r.log_p + chance);
        if (o.k == 1)
            assert_true(fabs(b->value - r.bound) < chance);
        if (o.k == 2)
            assert_true(fabs(b->value - two) < chance);
        if (o.k == 32) /* the next term of the series is 1 / k of this one, times skewness */
            assert_true(fabs(r.log_p - b->value - gap) < gap / 4 + chance);
        last = b->value;
        rank_blr_release(&r);
    }
    rank_blr_data_release(&d);
}

/* Where nobody says how many, what is drawn is bounded, and so is the error's own. */
TEST(repeats_suit_the_work)
{
    struct rank_blr_data d = blr_parse("line.tsv", line_tsv);
    static const int of_k[][2] = {{0, 0},
                                  {1, RANK_BLR_REPEATS_MAX},
                                  {10000, RANK_BLR_DRAWS / 10000 / 8},
                                  {RANK_BLR_K_MAX, RANK_BLR_REPEATS_MIN}};

    for (size_t i = 0; i < sizeof of_k / sizeof *of_k; i++) {
        const struct rank_blr_options o = {1, 1, of_k[i][0], 0, 0, 0, 0};
        struct rank_blr_trials t;
        struct err err;
        assert_int_equal(rank_blr_trials_init(&t, &d, &o, &err), 0);
        assert_int_equal(t.repeats, of_k[i][1]);
        rank_blr_trials_release(&t);
    }
    rank_blr_data_release(&d);
}

/*
 * What a mean of log-likelihoods takes off that of likelihoods p: cov(p, log p) over E p
 * var(log p), by the rule of trapezoids again.
 */
static double share_by_integral(double q, double y, double v)
{
    const double h = 0.01;
    double mean = 0, log_mean = 0, both = 0, square = 0;

    for (double z = -8; z < 8; z += h) {
        double miss = y - sqrt(q) * z, l = -0.5 * miss * miss / v;
        double weight = h * exp(-0.5 * z * z) / sqrt(2 * PI);
        mean += weight * exp(l);
        log_mean += weight * l;
        both += weight * exp(l) * l;
        square += weight * l * l;
    }
    return (both / mean - log_mean) / (square - log_mean * log_mean);
}

/*
 * One row: x'theta ~ N(0, q), and (y - x'theta)^2 has variance 2 q^2 + 4 q y^2, by which both
 * standard errors are known.  A sample's variance strays by sqrt((kurtosis - 1) / n), 0.012 of
 * it at 15 for a normal's square, the error by half as much; six of those.
 */
TEST(standard_errors_are_honest)
{
    enum { N = 100000 };
    const struct rank_blr_options o = {2, 0.5, 1, N, 3, N, 0};
    struct rank_blr_data d = blr_parse("one.tsv", "1\t0.5\t0.8\n");
    struct rank_blr r = blr_run(&d, &o);
    double q = 2 * 1.25, y = 0.8, v = 0.5;
    double error = sqrt((2 * q * q + 4 * q * y * y) / (4 * v * v) / N);

    assert_true(fabs(r.sampled.value - r.bound) < 6 * error);
    assert_true(fabs(r.bound_k.value - r.bound) < 6 * error);
    assert_true(fabs(r.sampled.standard_error / error - 1) < 6 * 0.006);
    /* A known mean has been put in the place of a part of it. */
    double rest = 1 - share_by_integral(q, y, v);
    assert_true(rest > 0.1 && rest < 0.9);
    assert_true(fabs(r.bound_k.standard_error / (rest * error) - 1) < 6 * 0.006);
    rank_blr_data_release(&d);
}

/*
 * Each sample is the minimum of the squared loss over the rows so far, with noise on y and its
 * own theta_0: the gradient is nothing beside the terms it is made of.  Rounding: each of them
 * to d + 4 eps of it, and once more a row for the steps that led here.
 */
static void check_minimum(const struct rank_blr_trials *t, const struct rank_blr_data *d,
                          const double *theta_0, int s)
{
    const struct rank_blr_options *o = t->o;
    const double *theta = t->theta + s * d->features;

    for (int j = 0; j < d->features; j++) {
        double slope = (theta[j] - theta_0[j]) / o->prior_var;
        double size = (fabs(theta[j]) + fabs(theta_0[j])) / o->prior_var;
        for (int64_t i = 0; i < t->row; i++) {
            const double *x = d->x + i * d->features;
            double z[2], at = rank_blr_dot(theta, x, d->features);
            rank_blr_normals(o->seed, t->of_y + (uint64_t)s / 2, (uint64_t)i, z);
            double y = d->y[i] + sqrt(o->noise_var) * z[s % 2];
            slope += (at - y) * x[j] / o->noise_var;
            size += (fabs(at) + fabs(y)) * fabs(x[j]) / o->noise_var;
        }
        assert_true(fabs(slope) <=
                    (double)(t->row + 1) * (d->features + 4) * DBL_EPSILON * size);
    }
}

TEST(samples_minimise_their_loss)
{
    enum { SAMPLES = 5 };
    const struct rank_blr_options o = {1, 0.25, .samples = SAMPLES, .seed = 11};
    struct rank_blr_data d = blr_parse("line.tsv", line_tsv);
    struct rank_blr_state s = {0};
    struct rank_blr_trials t = {0};
    struct rank_blr_item item;
    struct err err;
    double theta_0[SAMPLES * 2], far = 0;

    assert_int_equal(rank_blr_state_init(&s, 2, 0, 1, 0.25, &err), 0);
    assert_int_equal(rank_blr_trials_init(&t, &d, &o, &err), 0);
    memcpy(theta_0, t.theta, sizeof theta_0);
    for (int i = 0; i < SAMPLES * 2; i++)
        far += theta_0[i] * theta_0[i] / (SAMPLES * 2);
    assert_true(far > 0.1 && far < 4); /* chi squared of 10, over 10: 1 in 1e4 each side */
    for (int64_t i = 0; i < d.rows; i++) {
        for (int k = 0; k < SAMPLES; k++)
            check_minimum(&t, &d, theta_0 + 2 * k, k);
        assert_int_equal(rank_blr_state_step(&s, d.x + 2 * i, d.y[i], &item), 0);
        rank_blr_trials_step(&t, d.x + 2 * i, d.y[i], &item, s.gain);
    }
    rank_blr_trials_release(&t);
    rank_blr_state_release(&s);

    /* And what they say of L(D), seed by seed the same, of another seed another. */
    struct rank_blr_options many = {1, 0.25, .samples = 20000, .seed = 1};
    struct rank_blr a = blr_run(&d, &many), b = blr_run(&d, &many);
    many.seed = 2;
    struct rank_blr c = blr_run(&d, &many);
    assert_true(a.sampled.value == b.sampled.value && a.sampled.value != c.sampled.value);
    assert_true(fabs(a.sampled.value - a.bound) < 6 * a.sampled.standard_error);
    assert_true(fabs(c.sampled.value - a.bound) < 6 * c.sampled.standard_error);
    rank_blr_data_release(&d);
}

/* y = 1 + 0.8 a + noise: a model that knows, one of the constant alone, one of another thing.
 */
static void models_new(struct rank_blr_data d[3])
{
    enum { ROWS = 64 };
    static const char *const names[] = {"constant", "both", "other"};

    for (int m = 0; m < 3; m++)
        d[m] =
            (struct rank_blr_data){.name = mem_dup(names[m]),
                                   .x = mem_new((size_t)(ROWS * (m ? 2 : 1)), sizeof(double)),
                                   .y = mem_new(ROWS, sizeof(double)),
                                   .rows = ROWS,
                                   .features = m ? 2 : 1};
    for (uint64_t i = 0; i < ROWS; i++) {
        double a = rng_normal(5, 0, i);
        d[0].x[i] = d[1].x[2 * i] = d[2].x[2 * i] = 1;
        d[1].x[2 * i + 1] = a;
        d[2].x[2 * i + 1] = rng_normal(5, 1, i);
        for (int m = 0; m < 3; m++)
            d[m].y[i] = 1 + 0.8 * a + 0.3 * rng_normal(5, 2, i);
    }
}

/* A w = b by elimination, A of three rows, symmetric and positive. */
static void solve(double A[3][4], double w[3])
{
    for (int i = 0; i < 3; i++)
        for (int k = i + 1; k < 3; k++)
            for (int j = 3; j >= i; j--)
                A[k][j] -= A[k][i] / A[i][i] * A[i][j];
    for (int i = 2; i >= 0; i--) {
        w[i] = A[i][3];
        for (int j = i + 1; j < 3; j++)
            w[i] -= A[i][j] * w[j];
        w[i] /= A[i][i];
    }
}

/* The regression of y on samples of all predictions at once, in the mean over samples. */
static void refer_combined(const struct rank_blr_weights *w, const double *y, double v)
{
    double A[3][4] = {{0}}, ref[3], trace = 0;

    for (int a = 0; a < 3; a++) {
        A[a][a] = 1;
        A[a][3] = 1.0 / 3;
        for (int64_t i = 0; i < w->model[0].result.rows; i++) {
            double said = w->model[a].result.item[i].mean;
            A[a][a] += w->model[a].result.item[i].var / v;
            for (int b = 0; b < 3; b++)
                A[a][b] += said * w->model[b].result.item[i].mean / v;
            A[a][3] += said * y[i] / v;
        }
        trace += A[a][a];
    }
    solve(A, ref);
    /* The least eigenvalue is 1 or more: condition trace at most; 64 rows add up here. */
    for (int m = 0; m < 3; m++)
        assert_true(fabs(w->model[m].combined - ref[m]) < 64 * DBL_EPSILON * trace * 3);
}

TEST(weights_follow_the_evidence)
{
    const struct rank_blr_options o = {1, 0.09, 4, 100, 1, 100, 1};
    struct rank_blr_data d[3];
    struct rank_blr_weights w = {0};
    struct err err;
    double sum = 0;

    models_new(d);
    assert_int_equal(rank_blr_weigh(d, 3, &o, &w, &err), 0);
    assert_string_equal(w.model[0].result.name, "both");
    assert_string_equal(w.model[1].result.name, "constant");
    for (int m = 0; m < 3; m++) {
        struct rank_blr_weight *one = &w.model[m];
        struct rank_blr alone = blr_run(&d[one->result.name[0] == 'b'   ? 1
                                           : one->result.name[0] == 'o' ? 2
                                                                        : 0],
                                        &o);
        assert_true(alone.log_p == one->result.log_p && alone.bound == one->result.bound);
        assert_true(alone.bound_k.value == one->result.bound_k.value);
        /* Ratios of weights are those of evidence: exp doubles its argument's error. */
        double apart = w.model[0].result.log_p - alone.log_p;
        assert_true(fabs(one->evidence / w.model[0].evidence - exp(-apart)) <=
                    8 * DBL_EPSILON * (1 + apart));
        sum += one->evidence;
        rank_blr_release(&alone);
    }
    assert_true(fabs(sum - 1) < 4 * DBL_EPSILON);
    /* What explains y is listened to. */
    assert_true(w.model[0].combined > 0.5 && w.model[0].combined > w.model[1].combined &&
                w.model[0].combined > w.model[2].combined);
    refer_combined(&w, d[0].y, o.noise_var);
    rank_blr_weights_release(&w);

    /* Twins share alike. */
    struct rank_blr_data twins[] = {d[1], d[1]};
    assert_int_equal(rank_blr_weigh(twins, 2, &line_options, &w, &err), 0);
    assert_true(w.model[0].evidence == 0.5 && w.model[1].evidence == 0.5);
    assert_true(fabs(w.model[0].combined - w.model[1].combined) < 1e-12);
    assert_true(!w.model[0].result.item);
    rank_blr_weights_release(&w);

    d[2].y[5] += 1;
    assert_int_equal(rank_blr_weigh(d, 3, &o, &w, &err), -1);
    assert_true(err.code == ERR_MISMATCH && strstr(err.text, "row 6 has y") &&
                strstr(err.text, "'other'"));
    d[1].rows--;
    assert_int_equal(rank_blr_weigh(d, 2, &o, &w, &err), -1);
    assert_true(err.code == ERR_MISMATCH && strstr(err.text, "'both' 63"));
    for (int m = 0; m < 3; m++)
        rank_blr_data_release(&d[m]);
}

/*
 * Nine models of the first features, of twelve, the first five in y: where the largest
 * coefficient had nothing to do with L(D), it would be the highest one's in 1 of 9.
 */
TEST(the_fastest_is_listened_to)
{
    enum { ROWS = 100, ALL = 12, IN = 5, MODELS = 9, TIMES = 40 };
    static const int first[MODELS] = {1, 2, 3, 4, 5, 6, 8, 10, 12};
    const struct rank_blr_options o = {1, 0.25, 0, 0, 0, 0, 0};
    double *x = mem_new(MODELS * ROWS * ALL, sizeof *x), y[ROWS];
    struct rank_blr_data d[MODELS];
    struct rank_blr_weights w;
    struct err err;
    int agree = 0;

    for (uint64_t t = 0; t < TIMES; t++) {
        for (int i = 0; i < ROWS; i++)
            y[i] = 0.5 * rng_normal(6, t, (uint64_t)i);
        for (int m = 0; m < MODELS; m++)
            d[m] = (struct rank_blr_data){"m", x + m * ROWS * ALL, y, ROWS, first[m]};
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < ALL; j++) {
                double one = rng_normal(7, t, (uint64_t)(i * ALL + j));
                y[i] += j < IN ? one * rng_normal(8, t, (uint64_t)j) : 0;
                for (int m = 0; m < MODELS; m++)
                    if (j < first[m])
                        d[m].x[i * first[m] + j] = one;
            }
        assert_int_equal(rank_blr_weigh(d, MODELS, &o, &w, &err), 0);
        int most = 0, fastest = 0;
        for (int m = 1; m < MODELS; m++) {
            most = w.model[m].combined > w.model[most].combined ? m : most;
            fastest = w.model[m].result.bound > w.model[fastest].result.bound ? m : fastest;
        }
        agree += most == fastest;
        rank_blr_weights_release(&w);
    }
    assert_true(agree > TIMES / 2); /* by chance: 1 in 1e9 */
    mem_free(x);
}
