/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the parts of examples/bayes: evidence of ill-conditioned data against a factorisation
 * in 113 bits, the networks' gradient by central differences, rank correlations by worked
 * figures.
 */
#define err unit_err /* <err.h> has another one, which the example calls */
#include "unit.h"
#undef err

#include <float.h>

int bayes_main(int argc, char **argv);
#define main bayes_main
#include "../../examples/bayes/bayes.c"
#undef main
#include "../../examples/bayes/bayes_evidence.c"
#include "../../examples/bayes/bayes_trials.c"
/* The last one: its constants have short names. */
#include "../../examples/bayes/bayes_networks.c"

enum { N = 60, KINDS = 3 };

/* Columns of any sort; powers of a position; one column and 1e-10 of others. */
static double feature(int kind, int i, int j, const double *common, uint64_t *state)
{
    double own = normal(state);

    return kind == 0 ? own : kind == 1 ? pow((i + 1.0) / N, j) : common[i] + 1e-10 * own;
}

/* M = v I + G = L D L': L^-1 y are the errors of each row predicted from those before it, and
 * D their variances. */
static void refer(const double *g, const double *y, double v, double *total, double *e)
{
    static _Float128 m[N][N], z[N];

    for (int i = 0; i < N; i++) {
        z[i] = y[i];
        for (int j = 0; j <= i; j++) {
            _Float128 sum = (_Float128)g[i * N + j] + (i == j ? v : 0);
            for (int k = 0; k < j; k++)
                sum -= m[i][k] * m[j][k] * m[k][k];
            m[i][j] = i == j ? sum : sum / m[j][j];
        }
        for (int j = 0; j < i; j++)
            z[i] -= m[i][j] * z[j];
        total[i] = (double)m[i][i];
        e[i] = (double)z[i];
    }
}

/*
 * A factor C in doubles is that of M + E, |E_ij| <= (n + 1) eps max M, and solving is to n eps
 * of C: together no more than 3 n (n + 1) eps max M in norm.  As M >= v I, quadratic forms and
 * their minima, which the variances and the sums of e^2 / variance are, change by this over v.
 */
TEST(ill_conditioned_data_are_learned_to_their_bound)
{
    uint64_t seed = 3;
    int moved = 0;

    for (int kind = 0; kind < KINDS; kind++)
        for (int d = 1; d <= 40; d += 13)
            for (double v = 1; v > 1e-9; v *= 1e-2) {
                struct data data = {"hard", N, d, zeros(N, d), zeros(N, 1)};
                const struct options o = {.x = {[NOISE] = v, [K] = 1, [SAMPLES] = 2}};
                double common[N], total[N], e[N], most = 0, forms = 0, log_p = 0, bound = 0;
                struct model m;
                for (int i = 0; i < N; i++)
                    common[i] = normal(&seed);
                for (int i = 0; i < N; i++)
                    data.y[i] = sqrt(v) * normal(&seed);
                for (int i = 0; i < N * d; i++) {
                    data.x[i] = feature(kind, i / d, i % d, common, &seed);
                    data.y[i / d] += data.x[i];
                }
                double *g = gram(&data, LINEAR, 0, 1, &seed);
                refer(g, data.y, v, total, e);
                learn(g, &data, &o, &seed, &m);
                for (int i = 0; i < N; i++)
                    most = fmax(most, g[i * N + i] + v);
                double far = 3 * N * (N + 1) * DBL_EPSILON * most / v;
                for (int i = 0; i < N; i++) {
                    double miss = data.y[i] - m.item[i].mean;
                    forms += e[i] * e[i] / total[i];
                    assert_true(fabs(m.item[i].var + v - total[i]) <= far * total[i]);
                    assert_true(fabs(miss * miss - e[i] * e[i]) <= 3 * far * forms * total[i]);
                    log_p += log_normal(e[i], total[i]);
                    bound += log_normal(e[i], v) - (total[i] - v) / v / 2;
                    moved += m.item[i].var > v;
                }
                assert_true(fabs(m.log_p - log_p) <= far * (N + forms));
                assert_true(m.bound <= m.log_p + far * (N + forms));
                assert_true(fabs(m.bound - bound) <= 4 * far * (N + forms) * (1 + most / v));
                free(g);
                free(data.x);
                free(data.y);
                free(m.item);
            }
    assert_true(moved > 1000);
}

/* An error of h^2 and of eps / h, both near 1e-10 for h = 1e-5; values are near 1. */
TEST(gradients_are_those_of_differences)
{
    const double x[D] = {0.3, -0.7, 0.5, 0.9}, h = 1e-5, y = 0.4;
    uint64_t seed = 6;
    struct network f, g;
    int moved = 0;

    network_init(&f, 8, &seed);
    g = f;
    pass(&g, x, y);
    for (int k = 0; k < 8; k++)
        for (int j = 0; j <= D + 1; j++) {
            double *p = j <= D ? &f.in[k][j] : &f.out[k], old = *p, loss[2];
            for (int up = 0; up < 2; up++) {
                *p = old + (up ? h : -h);
                loss[up] = pow(pass(&f, x, y) - y, 2) / 2;
            }
            *p = old;
            double is = j <= D ? g.d_in[k][j] : g.d_out[k];
            assert_true(fabs((loss[1] - loss[0]) / (2 * h) - is) < 1e-8);
            moved += is != 0;
        }
    assert_true(moved > 20);
    descend(&g, 0.1);
    assert_true(pow(pass(&g, x, y) - y, 2) < pow(pass(&f, x, y) - y, 2));
}

TEST(ranks_are_correlated)
{
    const double a[] = {1, 2, 3, 4}, b[] = {10, 11, 30, 20}, ties[] = {5, 5, 7, 6};

    assert_true(spearman(a, a, 4) == 1);
    assert_true(fabs(spearman(a, b, 4) - 0.8) < 1e-15); /* 1 - 6 * 2 / (4 * 15) */
    /* Ranks 1.5, 1.5, 4, 3: covariance 3.5 over the root of 5 * 4.5. */
    assert_true(fabs(spearman(a, ties, 4) - 3.5 / sqrt(22.5)) < 1e-15);
}
