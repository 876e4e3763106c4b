/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Computes Gaussian error linear units.  The one with tanh is x sigma(v), since (1 + tanh u) /
 * 2 is sigma(2 u): v = x (A + B x^2), without any difference of nearly equal numbers.
 */
#include "base/clones.h"
#include "kern/kern_cpu.h"
#include "kern/kern_vec.h"

#define A 1.5957691216f    /* 2 sqrt(2 / pi) */
#define B 0.0713548162726f /* 0.044715 A */

KERN_CLONES
void kern_gelu_tanh(float *y, const float *x, int64_t n)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * (1.0f / (1.0f + kern_exp(-x[i] * (A + B * x[i] * x[i]))));
}

/* y' = sigma + x sigma (1 - sigma) v', v' = A + 3 B x^2. */
KERN_CLONES
void kern_gelu_tanh_backward(float *dy, float *x, int64_t n)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) {
        float v = x[i], d = dy[i];
        float sigma = 1.0f / (1.0f + kern_exp(-v * (A + B * v * v)));

        x[i] = d * sigma * (1.0f + v * (1.0f - sigma) * (A + 3.0f * B * v * v));
        dy[i] = v * sigma;
    }
}

KERN_CLONES
void kern_geglu(float *y, const float *gate, const float *up, int64_t n)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++)
        y[i] = gate[i] / (1.0f + kern_exp(-gate[i] * (A + B * gate[i] * gate[i]))) * up[i];
}

KERN_CLONES
void kern_geglu_backward(float *dy, float *gate, float *up, int64_t n)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) {
        float v = gate[i], u = up[i], d = dy[i];
        float sigma = 1.0f / (1.0f + kern_exp(-v * (A + B * v * v)));

        gate[i] = d * u * sigma * (1.0f + v * (1.0f - sigma) * (A + 3.0f * B * v * v));
        up[i] = d * v * sigma;
        dy[i] = v * sigma * u;
    }
}

/*
 * Phi(x), and its density times sqrt(2 pi), both from e = exp(-x^2 / 2).  With z = |x| /
 * sqrt(2), Phi is erfc(z) / 2 below 0 and 1 - erfc(z) / 2 above; erfc(z) = t P(t) exp(-z^2), t
 * = 1 / (1 + p z), within 1.5e-7 (Hastings; Abramowitz, Stegun, 7.1.26).
 */
KERN_INLINE float phi(float x, float e)
{
    float z = (x < 0 ? -x : x) * 0.707106781f, t = 1.0f / (1.0f + 0.3275911f * z);
    float tail =
        0.5f * e * t *
        (0.254829592f +
         t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));

    return x < 0 ? tail : 1.0f - tail;
}

KERN_CLONES
void kern_gelu(float *y, const float *x, int64_t n)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * phi(x[i], kern_exp(-0.5f * x[i] * x[i]));
}

/* y' = Phi(x) + x e / sqrt(2 pi). */
KERN_CLONES
void kern_gelu_backward(float *dy, float *x, int64_t n)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) {
        float v = x[i], d = dy[i], e = kern_exp(-0.5f * v * v), p = phi(v, e);

        x[i] = d * (p + v * e * 0.398942280f);
        dy[i] = v * p;
    }
}
