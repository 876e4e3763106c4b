/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_UNIT_NET_NOISE_FIXTURE_H
#define TESTS_UNIT_NET_NOISE_FIXTURE_H

/* Bounds how far gradients may be off: what cancels in them. */
#include "net_ref_fixture.h"

/* A model's input, and its parameters. */
struct net_ref_run {
    const struct model *model;
    double **params;
    const int32_t *tokens, *targets;
    int64_t batch, seq;
};

static inline double net_ref_slope_along(const struct net_ref_run *r,
                                         const struct model_tensor *t, uint64_t seed,
                                         uint64_t noise)
{
    const double h = 0x1p-14;
    double *x = r->params[t->unit] + t->offset, loss[2],
           *x0 = mem_new((size_t)t->elems, sizeof *x0);

    memcpy(x0, x, (size_t)t->elems * sizeof *x0);
    for (int i = 0; i < 2; i++) {
        for (int64_t j = 0; j < t->elems; j++)
            x[j] = x0[j] + (rng_u64(seed, 1, (uint64_t)j) & 1 ? h : -h) * (i ? -1 : 1);
        loss[i] = net_ref_loss(r->model, r->params, r->tokens, r->targets, r->batch, r->seq,
                               NULL, noise);
    }
    memcpy(x, x0, (size_t)t->elems * sizeof *x0);
    mem_free(x0);
    return (loss[0] - loss[1]) / (2 * h);
}

/* Noise of a result is the root of the mean square of so many draws, and a tenth of what it
 * should be with a probability of 10^-7 (chi-squared with 8 degrees). */
enum { NET_REF_SAMPLES = 8 };

/* The noise of the 2-norm of a tensor's gradient, relative to REF_NOISE.  The mean square of a
   vector's products with vectors of random signs is the square of its 2-norm. */
static inline double net_ref_slope_noise(const struct net_ref_run *r,
                                         const struct model_tensor *t)
{
    double sum = 0;

    for (uint64_t i = 1; i <= NET_REF_SAMPLES; i++)
        sum += pow(net_ref_slope_along(r, t, i, i) - net_ref_slope_along(r, t, i, 0), 2);
    return sqrt(sum / NET_REF_SAMPLES) / REF_NOISE;
}

#endif
