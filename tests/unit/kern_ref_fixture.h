/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_UNIT_KERN_REF_FIXTURE_H
#define TESTS_UNIT_KERN_REF_FIXTURE_H

/*
 * Computes the forward kernels of kern_cpu.h in double precision, straight from their formulas,
 * element by element: the reference of every kernel.  Gradients are checked by central
 * differences of these; attention's, which has too many elements for that, by its formula.
 * Shapes and meanings as there; slow, and shares no code with what it checks.
 */
#include <math.h>
#include <stdint.h>

#include "kern/kern_cpu.h"

/* c (m,n) = op(a) op(b), op 'N' or 'T', rows as wide as the matrices. */
static inline void kern_ref_gemm(char ta, char tb, int64_t m, int64_t n, int64_t k,
                                 const double *a, const double *b, double *c)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;

            for (int64_t l = 0; l < k; l++)
                sum += (ta == 'T' ? a[l * m + i] : a[i * k + l]) *
                       (tb == 'T' ? b[j * k + l] : b[l * n + j]);
            c[i * n + j] = sum;
        }
}

static inline void kern_ref_rmsnorm(double *y, const double *x, const double *w, double plus,
                                    int64_t n, int64_t c, double eps)
{
    for (int64_t i = 0; i < n; i++) {
        double sum = 0;

        for (int64_t j = 0; j < c; j++)
            sum += x[i * c + j] * x[i * c + j];
        for (int64_t j = 0; j < c; j++)
            y[i * c + j] = x[i * c + j] / sqrt(sum / (double)c + eps) * (plus + w[j]);
    }
}

static inline void kern_ref_layernorm(double *y, const double *x, const double *w,
                                      const double *b, int64_t n, int64_t c, double eps)
{
    for (int64_t i = 0; i < n; i++) {
        double mean = 0, variance = 0;

        for (int64_t j = 0; j < c; j++)
            mean += x[i * c + j] / (double)c;
        for (int64_t j = 0; j < c; j++)
            variance += pow(x[i * c + j] - mean, 2) / (double)c;
        for (int64_t j = 0; j < c; j++)
            y[i * c + j] = (x[i * c + j] - mean) / sqrt(variance + eps) * w[j] + b[j];
    }
}

static inline void kern_ref_bias(double *y, const double *b, int64_t n, int64_t c)
{
    for (int64_t i = 0; i < n * c; i++)
        y[i] += b[i % c];
}

static inline void kern_ref_positions(double *y, const double *table, int64_t batch,
                                      int64_t seq, int64_t c)
{
    for (int64_t i = 0; i < batch * seq; i++)
        for (int64_t j = 0; j < c; j++)
            y[i * c + j] += table[i % seq * c + j];
}

/* inv_freq (rotary / 2) */
static inline void kern_ref_rope(double *x, int64_t ld, int64_t batch, int64_t seq,
                                 int64_t heads, int64_t head_dim, int64_t rotary,
                                 const double *inv_freq, double scale)
{
    for (int64_t row = 0; row < batch * seq; row++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t i = 0; i < rotary / 2; i++) {
                double *a = x + row * ld + h * head_dim + i, *b = a + rotary / 2;
                double turn = (double)(row % seq) * inv_freq[i];
                double a0 = *a, b0 = *b;

                *a = scale * (a0 * cos(turn) - b0 * sin(turn));
                *b = scale * (b0 * cos(turn) + a0 * sin(turn));
            }
}

/* One query against the keys 0..t of its head; k and v are rows ld apart. */
static inline void kern_ref_attend(double *out, const double *q, const double *k,
                                   const double *v, int64_t t, int64_t head_dim, int64_t ld)
{
    double total = 0;

    for (int64_t i = 0; i < head_dim; i++)
        out[i] = 0;
    for (int64_t u = 0; u <= t; u++) {
        double score = 0, e;

        for (int64_t i = 0; i < head_dim; i++)
            score += q[i] * k[u * ld + i];
        e = exp(score / sqrt((double)head_dim));
        total += e;
        for (int64_t i = 0; i < head_dim; i++)
            out[i] += e * v[u * ld + i];
    }
    for (int64_t i = 0; i < head_dim; i++)
        out[i] /= total;
}

static inline void kern_ref_attention(double *out, const double *qkv, int64_t batch,
                                      int64_t seq, int64_t heads, int64_t kv_heads,
                                      int64_t head_dim)
{
    int64_t ld = (heads + 2 * kv_heads) * head_dim;

    for (int64_t b = 0; b < batch; b++)
        for (int64_t t = 0; t < seq; t++)
            for (int64_t h = 0; h < heads; h++) {
                const double *rows = qkv + b * seq * ld;
                int64_t kv = h * kv_heads / heads;

                kern_ref_attend(out + ((b * seq + t) * heads + h) * head_dim,
                                rows + t * ld + h * head_dim, rows + (heads + kv) * head_dim,
                                rows + (heads + kv_heads + kv) * head_dim, t, head_dim, ld);
            }
}

/* One query i of head h of example b against all keys before it: out (zeros before) and lse,
 * and its shares of dqkv added: P = exp(S - lse), dS = P (dout v - dout out).  p: room for seq
 * numbers. */
static inline void kern_ref_attention_query(const struct kern_heads *s, const double *qkv,
                                            const double *dout, double *out, double *lse,
                                            double *dqkv, int64_t b, int64_t h, int64_t i,
                                            double *p)
{
    int64_t D = s->head_dim, ld = (s->heads + 2 * s->kv_heads) * D;
    int64_t at = (b * s->seq + i) * ld + h * D, o = ((b * s->seq + i) * s->heads + h) * D;
    int64_t k = b * s->seq * ld + (s->heads + h / (s->heads / s->kv_heads)) * D;
    int64_t v = k + s->kv_heads * D;
    double scale = 1 / sqrt((double)D), max = -INFINITY, sum = 0, delta = 0;

    for (int64_t j = 0; j <= i; j++) {
        p[j] = 0;
        for (int64_t c = 0; c < D; c++)
            p[j] += scale * qkv[at + c] * qkv[k + j * ld + c];
        max = fmax(max, p[j]);
    }
    for (int64_t j = 0; j <= i; j++)
        sum += p[j] = exp(p[j] - max);
    lse[(b * s->heads + h) * s->seq + i] = max + log(sum);
    for (int64_t j = 0; j <= i; j++)
        for (int64_t c = 0; c < D; c++)
            out[o + c] += p[j] / sum * qkv[v + j * ld + c];
    for (int64_t c = 0; c < D; c++)
        delta += out[o + c] * dout[o + c];
    for (int64_t j = 0; j <= i; j++) {
        double dp = 0, ds;

        for (int64_t c = 0; c < D; c++)
            dp += dout[o + c] * qkv[v + j * ld + c];
        ds = scale * p[j] / sum * (dp - delta);
        for (int64_t c = 0; c < D; c++) {
            dqkv[at + c] += ds * qkv[k + j * ld + c];
            dqkv[k + j * ld + c] += ds * qkv[at + c];
            dqkv[v + j * ld + c] += p[j] / sum * dout[o + c];
        }
    }
}

static inline void kern_ref_gelu_tanh(double *y, const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = 0.5 * x[i] * (1 + tanh(sqrt(2 / acos(-1)) * (x[i] + 0.044715 * pow(x[i], 3))));
}

/* gelu, by tanh, of the gate; else silu. */
static inline void kern_ref_gated(double *y, const double *gate, const double *up, int64_t n,
                                  int gelu)
{
    kern_ref_gelu_tanh(y, gate, n);
    for (int64_t i = 0; i < n; i++)
        y[i] = (gelu ? y[i] : gate[i] / (1 + exp(-gate[i]))) * up[i];
}

static inline void kern_ref_gelu(double *y, const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * 0.5 * erfc(-x[i] / sqrt(2));
}

static inline double kern_ref_cross_entropy(const double *logits, const int32_t *targets,
                                            int64_t n, int64_t v)
{
    double loss = 0;

    for (int64_t i = 0; i < n; i++) {
        double max = logits[i * v], sum = 0;

        if (targets[i] < 0)
            continue;
        for (int64_t j = 1; j < v; j++)
            max = fmax(max, logits[i * v + j]);
        for (int64_t j = 0; j < v; j++)
            sum += exp(logits[i * v + j] - max);
        loss -= log(exp(logits[i * v + targets[i]] - max) / sum);
    }
    return loss;
}

static inline void kern_ref_adamw(double *w, double *m, double *v, const double *g, int64_t n,
                                  double lr, double beta1, double beta2, double eps,
                                  double decay, int64_t step)
{
    for (int64_t i = 0; i < n; i++) {
        double m_hat, v_hat;

        m[i] = beta1 * m[i] + (1 - beta1) * g[i];
        v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
        m_hat = m[i] / (1 - pow(beta1, (double)step));
        v_hat = v[i] / (1 - pow(beta2, (double)step));
        w[i] -= lr * decay * w[i];
        w[i] -= lr * m_hat / (sqrt(v_hat) + eps);
    }
}

#endif
