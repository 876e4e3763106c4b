/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implements the kernels other than attention and loss.  Matrix products go to oneDNN's sgemm,
 * which is row-major and detects the CPU; frequent products of one shape are prepared
 * (kern_product.h).
 */
#include "kern/kern_cpu.h"

#include <assert.h>
#include <math.h>
#include <oneapi/dnnl/dnnl.h>
#include <omp.h>
#include <string.h>

#include "base/clones.h"
#include "kern/kern_vec.h"

void kern_thread_init(void)
{
    omp_set_num_threads(1);
}

void kern_gemm(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
               int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc)
{
    dnnl_status_t status = dnnl_sgemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);

    assert(status == dnnl_success);
    (void)status;
}

void kern_embed(float *y, const float *table, const int32_t *tokens, int64_t n, int64_t vocab,
                int64_t c)
{
    for (int64_t i = 0; i < n; i++) {
        assert(tokens[i] >= 0 && tokens[i] < vocab);
        memcpy(y + i * c, table + tokens[i] * c, (size_t)c * sizeof(float));
    }
}

void kern_embed_backward(float *dtable, const float *dy, const int32_t *tokens, int64_t n,
                         int64_t c)
{
    for (int64_t i = 0; i < n; i++)
        kern_add(dtable + tokens[i] * c, dy + i * c, c);
}

KERN_CLONES
void kern_bias(float *y, int64_t ld, const float *b, int64_t n, int64_t c)
{
    for (int64_t i = 0; i < n; i++, y += ld)
#pragma GCC ivdep
        for (int64_t j = 0; j < c; j++)
            y[j] += b[j];
}

KERN_CLONES
void kern_bias_backward(float *db, const float *dy, int64_t ld, int64_t n, int64_t c)
{
    int64_t i = 0;

    for (; i + 4 <= n; i += 4, dy += 4 * ld) /* four rows at a time, in their order */
#pragma GCC ivdep
        for (int64_t j = 0; j < c; j++)
            db[j] = db[j] + dy[j] + dy[ld + j] + dy[2 * ld + j] + dy[3 * ld + j];
    for (; i < n; i++, dy += ld)
#pragma GCC ivdep
        for (int64_t j = 0; j < c; j++)
            db[j] += dy[j];
}

void kern_positions(float *y, const float *table, int64_t batch, int64_t seq, int64_t c)
{
    for (int64_t b = 0; b < batch; b++)
        kern_add(y + b * seq * c, table, seq * c);
}

void kern_positions_backward(float *dtable, const float *dy, int64_t batch, int64_t seq,
                             int64_t c)
{
    for (int64_t b = 0; b < batch; b++)
        kern_add(dtable, dy + b * seq * c, seq * c);
}

KERN_CLONES
static float row_rstd(const float *x, int64_t c, float eps)
{
    return 1.0f / sqrtf(kern_dot(x, x, c) / (float)c + eps);
}

KERN_CLONES
void kern_rmsnorm_apply(float *y, const float *rstd, const float *x, const float *w, float plus,
                        int64_t n, int64_t c)
{
    for (int64_t i = 0; i < n; i++, x += c, y += c)
#pragma GCC ivdep
        for (int64_t j = 0; j < c; j++)
            y[j] = x[j] * rstd[i] * (plus + w[j]);
}

void kern_rmsnorm(float *y, float *rstd, const float *x, const float *w, float plus, int64_t n,
                  int64_t c, float eps)
{
    for (int64_t i = 0; i < n; i++) {
        rstd[i] = row_rstd(x + i * c, c, eps);
        kern_rmsnorm_apply(y + i * c, rstd + i, x + i * c, w, plus, 1, c);
    }
}

/*
 * With xhat = x rstd and g = dy (plus + w):
 *     dx = rstd (g - xhat mean(g xhat)),  dw = sum dy xhat.
 * dx is the same without dw.
 */
KERN_CLONES
void kern_rmsnorm_backward(float *dx, float *dw, const float *dy, const float *rstd,
                           const float *x, const float *w, float plus, int64_t n, int64_t c)
{
    for (int64_t i = 0; i < n; i++, x += c, dx += c, dy += c) {
        kern_lanes s = {0};
        float mean = 0, r = rstd[i];
        int64_t j = 0;

        for (; j + 16 <= c; j += 16)
            s += *(const kern_lanes *)(dy + j) * (plus + *(const kern_lanes *)(w + j)) *
                 *(const kern_lanes *)(x + j);
        for (; j < c; j++)
            mean += dy[j] * (plus + w[j]) * x[j];
        for (int l = 0; l < 16; l++)
            mean += s[l];
        mean = mean * r / (float)c;
        if (!dw) {
#pragma GCC ivdep
            for (j = 0; j < c; j++)
                dx[j] += r * (dy[j] * (plus + w[j]) - x[j] * r * mean);
            continue;
        }
#pragma GCC ivdep
        for (j = 0; j < c; j++) {
            float xhat = x[j] * r;

            dw[j] += dy[j] * xhat;
            dx[j] += r * (dy[j] * (plus + w[j]) - xhat * mean);
        }
    }
}

void kern_rope_table(float *table, int64_t seq, int64_t rotary, const double *inv_freq,
                     double scale)
{
    int64_t half = rotary / 2;

    for (int64_t t = 0; t < seq; t++, table += rotary)
        for (int64_t i = 0; i < half; i++) {
            double angle = (double)t * inv_freq[i];

            table[i] = (float)(scale * cos(angle));
            table[half + i] = (float)(scale * sin(angle));
        }
}

KERN_CLONES
static void cpu_rotate(float *x, const float *cosine, int64_t half, float sign)
{
    const float *sine = cosine + half;

#pragma GCC ivdep
    for (int64_t i = 0; i < half; i++) {
        float a = x[i], b = x[half + i], s = sign * sine[i];

        x[i] = a * cosine[i] - b * s;
        x[half + i] = b * cosine[i] + a * s;
    }
}

void kern_rope(float *x, int64_t ld, const float *table, int64_t batch, int64_t seq,
               int64_t heads, int64_t head_dim, int64_t rotary, int back)
{
    for (int64_t i = 0; i < batch * seq; i++)
        for (int64_t h = 0; h < heads; h++)
            cpu_rotate(x + i * ld + h * head_dim, table + i % seq * rotary, rotary / 2,
                       back ? -1.0f : 1.0f);
}

KERN_CLONES
void kern_swiglu(float *y, const float *gate, const float *up, int64_t n)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++)
        y[i] = gate[i] / (1.0f + kern_exp(-gate[i])) * up[i];
}

/* silu' = sigma (1 + x (1 - sigma)). */
KERN_CLONES
void kern_swiglu_backward(float *dy, float *gate, float *up, int64_t n)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) {
        float x = gate[i], u = up[i], d = dy[i];
        float sigma = 1.0f / (1.0f + kern_exp(-x));
        float silu = x * sigma;

        gate[i] = d * u * sigma * (1.0f + x * (1.0f - sigma));
        up[i] = d * silu;
        dy[i] = silu * u;
    }
}

KERN_CLONES
void kern_add(float *y, const float *x, int64_t n)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++)
        y[i] += x[i];
}

KERN_CLONES
void kern_scale(float *x, float a, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] *= a;
}

KERN_CLONES
void kern_abs(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = fabsf(x[i]);
}

/* A double of exponent 52 - bits has 2^-bits as its last place: adding one rounds to that. */
KERN_CLONES
int kern_on_grid(double *y, const float *x, int64_t n, int bits, double limit)
{
    double magic = ldexp(1.5, 52 - bits);
    int beyond = 0;

#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) {
        double v = (double)x[i];
        int in = fabs(v) < limit;

        beyond |= !in;
        y[i] = in ? (v + magic) - magic : 0;
    }
    return beyond;
}

KERN_CLONES
double kern_sumsq(const float *x, int64_t n)
{
    double lanes[16] = {0}, sum = 0;
    int64_t i = 0;

    for (; i + 16 <= n; i += 16)
        for (int l = 0; l < 16; l++)
            lanes[l] += (double)x[i + l] * (double)x[i + l];
    for (; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    for (int l = 0; l < 16; l++)
        sum += lanes[l];
    return sum;
}

KERN_CLONES
static void accumulate_bf16(float *acc, const uint16_t *x, int64_t n)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++)
        acc[i] += dtype_f32_of_bf16(x[i]);
}

void kern_accumulate(float *acc, const void *x, enum dtype type, int64_t n)
{
    const uint16_t *half = x;

    assert(type == DTYPE_F32 || type == DTYPE_BF16 || type == DTYPE_F16);
    if (type == DTYPE_F32)
        kern_add(acc, x, n);
    else if (type == DTYPE_BF16)
        accumulate_bf16(acc, x, n);
    else
        for (int64_t i = 0; i < n; i++)
            acc[i] += dtype_f32_of_f16(half[i]);
}

KERN_CLONES
void kern_outer(float *w, float *b, const double *sum, int64_t n, double share, double lr,
                double momentum)
{
    for (int64_t i = 0; i < n; i++) {
        double d = (double)w[i] - share * sum[i], now = momentum * (double)b[i] + d;

        b[i] = (float)now;
        w[i] = (float)((double)w[i] - lr * (d + momentum * now));
    }
}

struct adamw_factors {
    float keep, beta1, rest1, beta2, rest2, rate, root, eps;
};

KERN_CLONES
static void cpu_adamw(float *w, float *m, float *v, const float *g, int64_t n,
                      struct adamw_factors f)
{
#pragma GCC ivdep
    for (int64_t i = 0; i < n; i++) {
        m[i] = f.beta1 * m[i] + f.rest1 * g[i];
        v[i] = f.beta2 * v[i] + f.rest2 * g[i] * g[i];
        w[i] = f.keep * w[i] - f.rate * m[i] / (sqrtf(v[i]) * f.root + f.eps);
    }
}

void kern_adamw(float *w, float *m, float *v, const float *g, int64_t n, double lr,
                double beta1, double beta2, double eps, double decay, int64_t step)
{
    struct adamw_factors f = {
        .keep = (float)(1 - lr * decay),
        .beta1 = (float)beta1,
        .rest1 = (float)(1 - beta1),
        .beta2 = (float)beta2,
        .rest2 = (float)(1 - beta2),
        .rate = (float)(lr / (1 - pow(beta1, (double)step))),
        .root = (float)(1 / sqrt(1 - pow(beta2, (double)step))),
        .eps = (float)eps,
    };

    assert(step >= 1);
    cpu_adamw(w, m, v, g, n, f);
}
