/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows the two estimates that are made by sampling: of L(D) by sample-then-optimise, and of
 * L_k(D).  Does not know the posterior, only what it says of each row.
 *
 * Sample-then-optimise (Matthews et al. 2017; Lyle et al. 2020, section 3.2): theta_0 ~
 * N(0, v_0 I), y~_i = y_i + N(0, v_n); the minimum over theta of
 *
 *     sum_(j<i) (y~_j - x_j'theta)^2 / v_n + |theta - theta_0|^2 / v_0
 *
 * is S (X'y~ / v_n + theta_0 / v_0) with S = (X'X / v_n + I / v_0)^-1: its mean is the
 * posterior's m, its covariance S (X'X / v_n + I / v_0) S = S.  From the minimum over rows < i
 * the one over rows <= i is a single step, theta += S x (y~_i - x'theta) / (v_n + q), S from
 * before the row: recursive least squares, of which each theta_0 is another beginning and whose
 * gain all share.  So the minimum is exact for every beginning of the data, at O(features) per
 * row and sample, where a descent would stop somewhere near it.
 *
 * One theta_0 goes through all rows: its terms hang together, but each has the right mean, and
 * so has their sum; other theta_0 are independent, and their spread is the standard error.
 */
#include <math.h>

#include "base/mem.h"
#include "base/rng.h"
#include "rank/rank_blr_parts.h"

void rank_blr_normals(uint64_t seed, uint64_t stream, uint64_t index, double out[2])
{
    const double two_pi = 6.28318530717958647693;
    uint32_t w[4];

    rng_block(seed, stream, index, w);
    /* Uniform on (0, 1], in 2^53 steps: its logarithm is finite. */
    double u = (double)((((uint64_t)w[1] << 32 | w[0]) >> 11) + 1) * 0x1p-53;
    double turn = (double)(((uint64_t)w[3] << 32 | w[2]) >> 11) * 0x1p-53;
    double r = sqrt(-2 * log(u));
    out[0] = r * cos(two_pi * turn);
    out[1] = r * sin(two_pi * turn);
}

/* As many as a second or two draws, enough to tell the error, few enough to keep. */
static int64_t repeats_of(const struct rank_blr_data *d, const struct rank_blr_options *o)
{
    if (o->k == 0 || o->repeats > 0)
        return o->k ? o->repeats : 0;
    int64_t n = RANK_BLR_DRAWS / o->k / (d->rows < RANK_BLR_DRAWS ? d->rows : RANK_BLR_DRAWS);
    n = n < RANK_BLR_REPEATS_MIN ? RANK_BLR_REPEATS_MIN : n;
    return n > RANK_BLR_REPEATS_MAX ? RANK_BLR_REPEATS_MAX : n;
}

int64_t rank_blr_trials_bytes(const struct rank_blr_data *d, const struct rank_blr_options *o)
{
    /* No overflow: rank_blr_check bounds samples and repeats before it asks. */
    return (o->samples * (d->features + 1) + repeats_of(d, o)) * (int64_t)sizeof(double);
}

int rank_blr_trials_init(struct rank_blr_trials *t, const struct rank_blr_data *d,
                         const struct rank_blr_options *o, struct err *err)
{
    int64_t thetas = o->samples * d->features;
    void *all = NULL;

    *t = (struct rank_blr_trials){.o = o,
                                  .features = d->features,
                                  .repeats = repeats_of(d, o),
                                  .log_norm = log(6.28318530717958647693 * o->noise_var),
                                  .of_theta = rng_stream("blr: theta"),
                                  .of_y = rng_stream("blr: y"),
                                  .of_k = rng_stream("blr: L_k")};
    if (mem_data(rank_blr_trials_bytes(d, o), "samples of a posterior", &all, err))
        return -1;
    t->theta = all;
    t->sum_sampled = t->theta + thetas;
    t->sum_k = t->sum_sampled + o->samples;
    for (int64_t i = 0; i < thetas; i += 2) {
        double z[2];
        rank_blr_normals(o->seed, t->of_theta, (uint64_t)i / 2, z);
        for (int64_t l = i; l < thetas && l < i + 2; l++)
            t->theta[l] = sqrt(o->prior_var) * z[l - i];
    }
    return 0;
}

void rank_blr_trials_release(struct rank_blr_trials *t)
{
    mem_free(t->theta);
    *t = (struct rank_blr_trials){0};
}

static double log_likelihood(const struct rank_blr_trials *t, double y, double at)
{
    return -0.5 * (t->log_norm + (y - at) * (y - at) / t->o->noise_var);
}

/*
 * How much of a sample's own log-likelihood goes along with the logarithm of the mean: the mean
 * of the k log-likelihoods has a mean that is known, the row's term of L(D), and what it strays
 * from there, times this, is taken off.  Any factor keeps the estimate's mean; the best is the
 * covariance over the variance.  With p the likelihood, log mean p ~ mean p / E p: covariance
 * E[p log p] / E p - E log p, log p's mean under the next posterior less that under this one.
 * Its variance is r^2 / 2 + r g, with r = q / v_n and g = (y - mu)^2 / v_n, which the next
 * posterior has as r / (1 + r) and g / (1 + r)^2.  As r goes to nothing, 1: of many rows the
 * late ones then add no noise.
 */
static double share_of_own(double y, const struct rank_blr_item *item, double noise_var)
{
    double e = y - item->mean, r = item->var / noise_var, g = e * e / noise_var;
    double both = g * (2 + r) / (1 + r) / (1 + r) + r / (1 + r), own = r + 2 * g;

    return own > 0 ? both / own : 1;
}

/* log of the mean of k likelihoods: x'theta ~ N(mean, var), which is all they depend on. */
static double log_mean(const struct rank_blr_trials *t, uint64_t repeat, double y,
                       const struct rank_blr_item *item, double share)
{
    double most = -INFINITY, sum = 0, own = 0, z[2] = {0}, deviation = sqrt(item->var);

    for (int j = 0; j < t->o->k; j++) {
        /* The first samples of a larger k are those of a smaller one. */
        if (j % 2 == 0)
            rank_blr_normals(t->o->seed, t->of_k + repeat,
                             (uint64_t)t->row * RANK_BLR_K_MAX + (uint64_t)j / 2, z);
        double l = log_likelihood(t, y, item->mean + deviation * z[j % 2]);
        own += l / t->o->k;
        if (l > most) {
            sum = sum * exp(most - l) + 1;
            most = l;
        } else {
            sum += exp(l - most);
        }
    }
    return most + log(sum / t->o->k) - share * (own - item->bound);
}

void rank_blr_trials_step(struct rank_blr_trials *t, const double *x, double y,
                          const struct rank_blr_item *item, const double *gain)
{
    double z[2] = {0}, deviation = sqrt(t->o->noise_var);

    for (int64_t s = 0; s < t->o->samples; s++) {
        double *theta = t->theta + s * t->features, at = rank_blr_dot(theta, x, t->features);
        t->sum_sampled[s] += log_likelihood(t, y, at);
        if (s % 2 == 0)
            rank_blr_normals(t->o->seed, t->of_y + (uint64_t)s / 2, (uint64_t)t->row, z);
        double short_by = y + deviation * z[s % 2] - at;
        for (int i = 0; i < t->features; i++)
            theta[i] += gain[i] * short_by;
    }
    double share = share_of_own(y, item, t->o->noise_var);
    for (int64_t r = 0; r < t->repeats; r++)
        t->sum_k[r] += log_mean(t, (uint64_t)r, y, item, share);
    t->row++;
}

/* The mean of v[count], and its deviation by the spread of v; count >= 2. */
static struct rank_blr_estimate estimate(const double *v, int64_t count)
{
    double mean = 0, squares = 0, n = (double)count;

    if (count == 0)
        return (struct rank_blr_estimate){0};
    for (int64_t i = 0; i < count; i++)
        mean += v[i] / n;
    for (int64_t i = 0; i < count; i++)
        squares += (v[i] - mean) * (v[i] - mean);
    return (struct rank_blr_estimate){count, mean, sqrt(squares / (n - 1) / n)};
}

void rank_blr_trials_end(const struct rank_blr_trials *t, struct rank_blr *out)
{
    out->sampled = estimate(t->sum_sampled, t->o->samples);
    out->bound_k = estimate(t->sum_k, t->repeats);
}
