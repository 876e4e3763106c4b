/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows the posterior of a Gaussian linear model, row by row.  Does not know where rows come
 * from, nor what is made of their terms.
 *
 * S -= S x (S x)' / (v_n + q) subtracts what is nearly S from S once v_n is small beside
 * q = x'Sx: S loses its definiteness, and q its sign.  Here S is U U', U upper triangular, and
 * only U is kept (Carlson, "Fast Triangular Formulation of the Square Root Filter", AIAA
 * Journal 11, 1973).  With f = U'x and a_j = v_n + f_1^2 + ... + f_j^2, a_d = v_n + q:
 *
 *     S' = U (I - f f' / a_d) U' = (U G)(U G)'
 *     G_jj = sqrt(a_(j-1) / a_j)          G_ij = -f_i f_j / sqrt(a_(j-1) a_j), i < j
 *
 * (row i of G G' has on the diagonal a_(i-1)/a_i + f_i^2 sum_(j>i) (1/a_(j-1) - 1/a_j)
 * = 1 - f_i^2 / a_d, and beside it -f_i f_j / a_d in the same way.)  Column by column of U,
 * with b_j = f_1 U_1 + ... + f_j U_j:
 *
 *     U'_j = sqrt(a_(j-1) / a_j) (U_j - f_j / a_(j-1) b_(j-1))        and b_d = S x
 *
 *     d = 3   | u0 u1 u3 |    column j is read once (f_j), changed once, and touches no other;
 *             |    u2 u4 |    one pass over memory, three multiplications per entry
 *             |       u5 |
 *
 * a_j >= v_n > 0 only grows: no root of a negative number, and S' is definite by its form.
 */
#include <math.h>

#include "base/clones.h"
#include "base/mem.h"
#include "rank/rank_blr_parts.h"

enum { LANES = 8 }; /* sums side by side: one AVX-512 vector of doubles */

KERN_INLINE double dot(const double *a, const double *b, int n)
{
    double lane[LANES] = {0}, sum = 0;
    int i = 0;

    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++)
            lane[l] += a[i + l] * b[i + l];
    for (int l = 0; l < LANES; l++)
        sum += lane[l];
    for (; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

KERN_CLONES
double rank_blr_dot(const double *a, const double *b, int n)
{
    return dot(a, b, n);
}

/*
 * U, and b = S x with the old one.  Returns q; *ratio is the root of det S' / det S, from the
 * diagonals before and after.
 */
KERN_CLONES
static double update(double *factor, const double *x, double *b, int features, double noise_var,
                     double *ratio)
{
    double before = noise_var, q = 0, det = 1, *u = factor;

    for (int j = 0; j < features; u += ++j) {
        double f = dot(u, x, j + 1), after = before + f * f;
        double scale = sqrt(before / after), part = f / before, old = u[j];
        for (int i = 0; i < j; i++) {
            double was = u[i];
            u[i] = scale * (was - part * b[i]);
            b[i] += f * was;
        }
        b[j] = f * old;
        u[j] = scale * old;
        det *= u[j] / old;
        q += f * f;
        before = after;
    }
    *ratio = det;
    return q;
}

int64_t rank_blr_state_bytes(int features)
{
    int64_t d = features;

    return (d * (d + 1) / 2 + 2 * d) * (int64_t)sizeof(double);
}

int rank_blr_state_init(struct rank_blr_state *s, int features, double mean, double prior_var,
                        double noise_var, struct err *err)
{
    struct rank_blr_state new = {.features = features, .noise_var = noise_var};
    int64_t d = features, bytes = rank_blr_state_bytes(features);
    void *all = NULL;

    if (mem_data(bytes, "a posterior", &all, err))
        return -1;
    new.factor = all;
    new.mean = new.factor + d *(d + 1) / 2;
    new.gain = new.mean + d;
    for (int64_t j = 0; j < d; j++) {
        new.factor[j * (j + 1) / 2 + j] = sqrt(prior_var);
        new.mean[j] = mean;
    }
    *s = new;
    return 0;
}

void rank_blr_state_release(struct rank_blr_state *s)
{
    mem_free(s->factor);
    *s = (struct rank_blr_state){0};
}

/*
 * KL(N(m, S) || N(m', S')) = 1/2 (tr(S'^-1 S) - d + (m' - m)' S'^-1 (m' - m) + log det S'
 * - log det S).  The row adds x x' / v_n to the precision, so the trace is d + q / v_n; and as
 * S'^-1 m' = S^-1 m + x y / v_n, S'^-1 (m' - m) is x (y - x'm) / v_n, whose product with m' - m
 * is how far the prediction moved times the error over v_n.  That move is measured, and the
 * determinants are those of the factors: a wrong update shows as log P(D) != L(D) + KL.
 */
int rank_blr_state_step(struct rank_blr_state *s, const double *x, double y,
                        struct rank_blr_item *out)
{
    const double log_2pi = 1.8378770664093454836;
    double v = s->noise_var, mu = rank_blr_dot(s->mean, x, s->features), ratio = 1;
    double q = update(s->factor, x, s->gain, s->features, v, &ratio);
    double e = y - mu, total = v + q;

    for (int i = 0; i < s->features; i++) {
        s->gain[i] /= total;
        s->mean[i] += s->gain[i] * e;
    }
    double moved = rank_blr_dot(s->mean, x, s->features) - mu;
    *out = (struct rank_blr_item){
        .mean = mu,
        .var = q,
        .log_p = -0.5 * (log_2pi + log(total) + e * e / total),
        .bound = -0.5 * (log_2pi + log(v) + (e * e + q) / v),
        .kl = 0.5 * (q / v + moved * e / v) + log(ratio),
    };
    return isfinite(out->log_p) && isfinite(out->bound) && isfinite(out->kl) ? 0 : -1;
}
