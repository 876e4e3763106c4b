/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Computes causal grouped-query attention by blocks of query rows.  A block of 64 rows is
 * combined with the keys up to its own last row, so that the scores above the diagonal are
 * computed for half a block only:
 *
 *     seq = 4 blocks        keys ->
 *       block 0   \ .         \ : the diagonal block, masked    # : full     . : not computed
 *       block 1   # \ .
 *       block 2   # # \ .
 *       block 3   # # # \
 *
 * Forward:   S = Q K^T; P = exp(scale S - scale max); out = P V / sum; lse kept.
 * Backward (Dao et al., FlashAttention, 2022, appendix B.4), with recomputed scores:
 *   P = exp(scale S - lse);  dV += P^T dO;  dP = dO V^T;  dS = P (dP - dot(dO, O));
 *   dQ = scale dS K;  dK += scale dS^T Q.
 */
#include <math.h>
#include <string.h>

#include "base/clones.h"
#include "kern/kern_cpu.h"
#include "kern/kern_vec.h"

enum { BLOCK = 64 }; /* as in kern_attention_scratch */

/*
 * Rows of scores (rows, keys) become exp(scale (S - max)), 0 above the diagonal; lse (rows) and
 * the sums' inverses are written.  Row i sees the keys 0..first + i.
 */
KERN_CLONES
static void exp_rows(float *p, float *lse, float *inverse, int64_t rows, int64_t keys,
                     int64_t first, float scale)
{
    for (int64_t i = 0; i < rows; i++, p += keys) {
        int64_t n = first + i + 1;
        float max = kern_max(p, n), sum;

        for (int64_t j = 0; j < n; j++)
            p[j] = kern_exp(scale * (p[j] - max));
        sum = kern_sum(p, n);
        memset(p + n, 0, (size_t)(keys - n) * sizeof(float));
        lse[i] = scale * max + logf(sum);
        inverse[i] = 1.0f / sum;
    }
}

static void block_forward(const struct kern_heads *s, float *out, float *lse, const float *q,
                          const float *k, const float *v, int64_t first, float *p)
{
    int64_t D = s->head_dim, ld = (s->heads + 2 * s->kv_heads) * D, out_ld = s->heads * D;
    int64_t rows = s->seq - first < BLOCK ? s->seq - first : BLOCK, keys = first + rows;
    float inverse[BLOCK];

    q += first * ld;
    out += (first - s->from) * out_ld;
    lse += first - s->from;
    kern_gemm('N', 'T', rows, keys, D, 1, q, ld, k, ld, 0, p, keys);
    exp_rows(p, lse, inverse, rows, keys, first, 1.0f / sqrtf((float)D));
    kern_gemm('N', 'N', rows, D, keys, 1, p, keys, v, ld, 0, out, out_ld);
    for (int64_t i = 0; i < rows; i++)
        kern_scale(out + i * out_ld, inverse[i], D);
}

void kern_attention(const struct kern_heads *s, float *out, float *lse, const float *qkv,
                    float *scratch)
{
    int64_t D = s->head_dim, ld = (s->heads + 2 * s->kv_heads) * D, rows = s->seq - s->from;

    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->heads; h++) {
            const float *row = qkv + b * s->seq * ld;
            const float *k = row + (s->heads + h / (s->heads / s->kv_heads)) * D;

            for (int64_t first = s->from; first < s->seq; first += BLOCK)
                block_forward(s, out + (b * rows * s->heads + h) * D,
                              lse + (b * s->heads + h) * rows, row + h * D, k,
                              k + s->kv_heads * D, first, scratch);
        }
}

/* S (rows, keys) becomes P, dP becomes dS = P (dP - dot(dO, O)); 0 above the diagonal. */
KERN_CLONES
static void grad_rows(float *p, float *dp, const float *lse, const float *dot, int64_t rows,
                      int64_t keys, int64_t first, float scale)
{
    for (int64_t i = 0; i < rows; i++, p += keys, dp += keys) {
        int64_t n = first + i + 1;

#pragma GCC ivdep
        for (int64_t j = 0; j < n; j++) {
            p[j] = kern_exp(scale * p[j] - lse[i]);
            dp[j] = p[j] * (dp[j] - dot[i]);
        }
        memset(p + n, 0, (size_t)(keys - n) * sizeof(float));
        memset(dp + n, 0, (size_t)(keys - n) * sizeof(float));
    }
}

/* dot (rows): each row of a times the same row of b, both ld apart. */
KERN_CLONES
static void dot_rows(float *dot, const float *a, const float *b, int64_t rows, int64_t n,
                     int64_t ld)
{
    for (int64_t i = 0; i < rows; i++)
        dot[i] = kern_dot(a + i * ld, b + i * ld, n);
}

/* The first rows that one head reads and writes. */
struct head {
    const float *q, *k, *v, *out, *dout, *lse;
    float *dq, *dk, *dv;
};

static void block_backward(const struct kern_heads *s, const struct head *at, int64_t first,
                           float *p)
{
    int64_t D = s->head_dim, ld = (s->heads + 2 * s->kv_heads) * D, out_ld = s->heads * D;
    int64_t rows = s->seq - first < BLOCK ? s->seq - first : BLOCK, keys = first + rows;
    const float *q = at->q + first * ld, *dout = at->dout + first * out_ld;
    float *dp = p + rows * keys, dot[BLOCK], scale = 1.0f / sqrtf((float)D);

    dot_rows(dot, dout, at->out + first * out_ld, rows, D, out_ld);
    kern_gemm('N', 'T', rows, keys, D, 1, q, ld, at->k, ld, 0, p, keys);
    kern_gemm('N', 'T', rows, keys, D, 1, dout, out_ld, at->v, ld, 0, dp, keys);
    grad_rows(p, dp, at->lse + first, dot, rows, keys, first, scale);
    kern_gemm('T', 'N', keys, D, rows, 1, p, keys, dout, out_ld, 1, at->dv, ld);
    kern_gemm('N', 'N', rows, D, keys, scale, dp, keys, at->k, ld, 0, at->dq + first * ld, ld);
    kern_gemm('T', 'N', keys, D, rows, scale, dp, keys, q, ld, 1, at->dk, ld);
}

void kern_attention_backward(const struct kern_heads *s, float *dqkv, const float *dout,
                             const float *out, const float *lse, const float *qkv,
                             float *scratch)
{
    int64_t D = s->head_dim, ld = (s->heads + 2 * s->kv_heads) * D;

    /* Gradients of keys and values are accumulated from many blocks. */
    for (int64_t i = 0; i < s->batch * s->seq; i++)
        memset(dqkv + i * ld + s->heads * D, 0, (size_t)(2 * s->kv_heads * D) * sizeof(float));
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t h = 0; h < s->heads; h++) {
            int64_t q = b * s->seq * ld + h * D, o = (b * s->seq * s->heads + h) * D;
            int64_t k = b * s->seq * ld + (s->heads + h / (s->heads / s->kv_heads)) * D;
            int64_t v = k + s->kv_heads * D;
            struct head at = {
                .q = qkv + q,
                .k = qkv + k,
                .v = qkv + v,
                .out = out + o,
                .dout = dout + o,
                .lse = lse + (b * s->heads + h) * s->seq,
                .dq = dqkv + q,
                .dk = dqkv + k,
                .dv = dqkv + v,
            };

            for (int64_t first = 0; first < s->seq; first += BLOCK)
                block_backward(s, &at, first, scratch);
        }
}
