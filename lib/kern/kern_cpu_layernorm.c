/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Computes LayerNorm.  The variance is summed from differences to the mean, in a second pass
 * over a row that is in the first-level cache: mean(x^2) - mean^2 would suffer cancellation.
 */
#include <math.h>

#include "base/clones.h"
#include "kern/kern_cpu.h"
#include "kern/kern_vec.h"

KERN_CLONES
static void row_moments(const float *x, int64_t c, float eps, float *mean_out, float *rstd)
{
    float mean = kern_sum(x, c) / (float)c, sum = 0;
    kern_lanes s = {0};
    int64_t j = 0;

    for (; j + 16 <= c; j += 16) {
        kern_lanes d = *(const kern_lanes *)(x + j) - mean;

        s += d * d;
    }
    for (; j < c; j++)
        sum += (x[j] - mean) * (x[j] - mean);
    for (int l = 0; l < 16; l++)
        sum += s[l];
    *mean_out = mean;
    *rstd = 1.0f / sqrtf(sum / (float)c + eps);
}

KERN_CLONES
void kern_layernorm_apply(float *y, const float *mean, const float *rstd, const float *x,
                          const float *w, const float *b, int64_t n, int64_t c)
{
    for (int64_t i = 0; i < n; i++, x += c, y += c)
#pragma GCC ivdep
        for (int64_t j = 0; j < c; j++)
            y[j] = (x[j] - mean[i]) * rstd[i] * w[j] + b[j];
}

void kern_layernorm(float *y, float *mean, float *rstd, const float *x, const float *w,
                    const float *b, int64_t n, int64_t c, float eps)
{
    for (int64_t i = 0; i < n; i++) {
        row_moments(x + i * c, c, eps, mean + i, rstd + i);
        kern_layernorm_apply(y + i * c, mean + i, rstd + i, x + i * c, w, b, 1, c);
    }
}

/* The means over a row of g and of g xhat. */
KERN_INLINE void row_means(const float *dy, const float *w, const float *x, int64_t c,
                           float mean, float rstd, float *mean_g, float *mean_gx)
{
    kern_lanes s = {0}, sx = {0};
    float g = 0, gx = 0;
    int64_t j = 0;

    for (; j + 16 <= c; j += 16) {
        kern_lanes p = *(const kern_lanes *)(dy + j) * *(const kern_lanes *)(w + j);

        s += p;
        sx += p * (*(const kern_lanes *)(x + j) - mean);
    }
    for (; j < c; j++) {
        g += dy[j] * w[j];
        gx += dy[j] * w[j] * (x[j] - mean);
    }
    for (int l = 0; l < 16; l++) {
        g += s[l];
        gx += sx[l];
    }
    *mean_g = g / (float)c;
    *mean_gx = gx * rstd / (float)c;
}

/*
 * With xhat = (x - mean) rstd and g = dy w:  dx = rstd (g - mean(g) - xhat mean(g xhat)),
 * dw = sum dy xhat, db = sum dy.
 */
KERN_CLONES
void kern_layernorm_backward(float *dx, float *dw, float *db, const float *dy,
                             const float *mean, const float *rstd, const float *x,
                             const float *w, int64_t n, int64_t c)
{
    for (int64_t i = 0; i < n; i++, x += c, dx += c, dy += c) {
        float m = mean[i], r = rstd[i], mean_g, mean_gx;

        row_means(dy, w, x, c, m, r, &mean_g, &mean_gx);
#pragma GCC ivdep
        for (int64_t j = 0; j < c; j++)
            dx[j] += r * (dy[j] * w[j] - mean_g - (x[j] - m) * r * mean_gx);
        if (dw)
#pragma GCC ivdep
            for (int64_t j = 0; j < c; j++)
                dw[j] += dy[j] * ((x[j] - m) * r);
        if (db)
#pragma GCC ivdep
            for (int64_t j = 0; j < c; j++)
                db[j] += dy[j];
    }
}
