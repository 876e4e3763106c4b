/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Computes softmax and cross-entropy over a vocabulary, row by row: one pass for the maximum,
 * one for the sum; the gradient overwrites the logits.  Partial sums of at most SPAN terms are
 * f32, and are added up in double, so that the error does not grow with the vocabulary.
 */
#include <math.h>
#include <string.h>

#include "base/clones.h"
#include "kern/kern_cpu.h"
#include "kern/kern_vec.h"

enum { SPAN = 512 };

KERN_CLONES
static float row_max(const float *x, int64_t n)
{
    return kern_max(x, n);
}

KERN_CLONES
static float span_sum(const float *x, int64_t n, float max)
{
    float e[SPAN];

    for (int64_t j = 0; j < n; j++)
        e[j] = kern_exp(x[j] - max);
    return kern_sum(e, n);
}

double kern_cross_entropy(float *lse, const float *logits, const int32_t *targets, int64_t n,
                          int64_t v)
{
    double loss = 0;

    for (int64_t i = 0; i < n; i++, logits += v) {
        double sum = 0, log_sum;
        float max;

        if (targets[i] < 0)
            continue;
        max = row_max(logits, v);
        for (int64_t j = 0; j < v; j += SPAN)
            sum += (double)span_sum(logits + j, v - j < SPAN ? v - j : SPAN, max);
        log_sum = (double)max + log(sum);
        lse[i] = (float)log_sum;
        loss += log_sum - (double)logits[targets[i]];
    }
    return loss;
}

KERN_CLONES
static void row_softmax(float *x, float lse, float scale, int64_t n)
{
    for (int64_t j = 0; j < n; j++)
        x[j] = scale * kern_exp(x[j] - lse);
}

void kern_cross_entropy_backward(float *logits, const float *lse, const int32_t *targets,
                                 int64_t n, int64_t v, float scale)
{
    for (int64_t i = 0; i < n; i++, logits += v) {
        if (targets[i] < 0) {
            memset(logits, 0, (size_t)v * sizeof(float));
            continue;
        }
        row_softmax(logits, lse[i], scale, v);
        logits[targets[i]] -= scale;
    }
}
