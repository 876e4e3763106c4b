/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Computes forward attention in bf16 on tensor cores (Dao, FlashAttention-2, 2023).  A block
 * has 128 queries of a head, 32 for each warp, and processes the keys 64 at a time, loading the
 * next 64 while it computes:
 *
 *     S = Q K^T;  max' = max(max, S);  P = 2^(c (S - max'));  sum = sum 2^(c (max - max')) + P
 *     O = O 2^(c (max - max')) + P V;  in the end out = O / sum;     c = log2(e) / sqrt(D)
 *
 * With 32 rows for a warp a word of K or V that is read from shared memory is used in two
 * products; with 16, shared memory would be the bound.  S and O take 64 + D registers a thread,
 * Q another 32 where D is at most 64; else Q is read again for each tile.
 *
 * Scores above the diagonal are masked in the tiles that it crosses; a warp skips a tile that
 * lies above its rows.  Keys beyond seq are above the diagonal of every query that is stored.
 * Long rows start first.
 */
#include "kern/kern_cuda_flash_product.h"
extern "C" {
#include "kern/kern_cuda_attention.h"
}

enum { MT = 2, ROWS = FLASH_WARPS * MT * 16, KEYS = 64, NT = KEYS / 8 };

template <int D> struct online {
    float o[MT][D / 8][4], max[MT][2], sum[MT][2]; /* sum: over this thread's columns */
};

/* Masks keys key .. key + 64 above the diagonal of rows row .. row + 32. */
static __device__ __forceinline__ void mask(float (&s)[MT][NT][4], int row, int key)
{
    int l = flash_lane();

    row += l / 4;
    key += l % 4 * 2;
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (key + n * 8 + i % 2 > row + m * 16 + i / 2 * 8)
                    s[m][n][i] = -INFINITY;
}

/* Replaces scores by 2^(c (S - max)).  The first key is below every diagonal: max is finite. */
template <int D>
static __device__ __forceinline__ void step(struct online<D> &at, float (&s)[MT][NT][4],
                                            float c)
{
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float max = at.max[m][h], sum = 0.0f;

#pragma unroll
            for (int n = 0; n < NT; n++)
                max = fmaxf(max, fmaxf(s[m][n][2 * h], s[m][n][2 * h + 1]));
            max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, 1));
            max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, 2));
            float base = max * c, shrink = kern_exp2(at.max[m][h] * c - base);

            at.max[m][h] = max;
#pragma unroll
            for (int n = 0; n < NT; n++) {
                s[m][n][2 * h] = kern_exp2(s[m][n][2 * h] * c - base);
                s[m][n][2 * h + 1] = kern_exp2(s[m][n][2 * h + 1] * c - base);
                sum += s[m][n][2 * h] + s[m][n][2 * h + 1];
            }
            at.sum[m][h] = at.sum[m][h] * shrink + sum;
#pragma unroll
            for (int n = 0; n < D / 8; n++) {
                at.o[m][n][2 * h] *= shrink;
                at.o[m][n][2 * h + 1] *= shrink;
            }
        }
}

/* Stores O / sum, and lse, for rows of this warp from `row` on. */
template <int D>
static __device__ __forceinline__ void
cuda_flash_forward_finish(struct online<D> &at, bf16 *out, int64_t ld, float *lse, int row,
                          int seq, bf16 *tile, float scale)
{
    int l = flash_lane();

#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int r = row + m * 16 + h * 8 + l / 4;
            float sum = at.sum[m][h];

            sum += __shfl_xor_sync(0xffffffffu, sum, 1);
            sum += __shfl_xor_sync(0xffffffffu, sum, 2);
            if (l % 4 == 0 && r < seq)
                lse[r] = at.max[m][h] * scale + logf(sum);
            sum = 1.0f / sum;
#pragma unroll
            for (int n = 0; n < D / 8; n++) {
                at.o[m][n][2 * h] *= sum;
                at.o[m][n][2 * h + 1] *= sum;
            }
        }
    flash_store<MT, D>(out + (int64_t)row * ld, ld, seq - row, tile, at.o, 1.0f);
}

template <int D> static __device__ __forceinline__ void start(struct online<D> &at)
{
#pragma unroll
    for (int m = 0; m < MT; m++) {
        at.max[m][0] = at.max[m][1] = -INFINITY;
        at.sum[m][0] = at.sum[m][1] = 0.0f;
#pragma unroll
        for (int n = 0; n < D / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                at.o[m][n][i] = 0.0f;
    }
}

/* Grid: (batch * heads, tiles of 128 queries). */
template <int D>
__global__ void __launch_bounds__(FLASH_THREADS, 2)
    flash_forward_kernel(struct kern_heads s, bf16 *out, float *lse, const bf16 *qkv)
{
    constexpr int LD = D + FLASH_PAD, STAGE = 2 * KEYS * LD; /* keys, then values */
    constexpr bool HELD = D <= 64;
    KERN_SHARED(bf16, shared);
    int64_t b = blockIdx.x / s.heads, h = blockIdx.x % s.heads;
    int64_t ld = (s.heads + 2 * s.kv_heads) * D, to_values = s.kv_heads * D;
    const bf16 *q = qkv + b * s.seq * ld + h * D;
    const bf16 *k = q + (s.heads + h / (s.heads / s.kv_heads) - h) * D;
    int seq = (int)s.seq, first = (int)(gridDim.y - 1 - blockIdx.y) * ROWS;
    int row = first + flash_warp() * MT * 16, last = min(first + ROWS, seq);
    bf16 *tile = shared + flash_warp() * MT * 16 * LD, *kv = shared + ROWS * LD;
    float scale = rsqrtf((float)D), c = scale * FLASH_LOG2E;
    uint32_t held[HELD ? D / 16 : 1][MT][4];
    struct online<D> at;

    start(at);
    flash_load<ROWS, D>(shared, q, ld, first, seq);
    flash_load<KEYS, D>(kv, k, ld, 0, seq);
    flash_load<KEYS, D>(kv + KEYS * LD, k + to_values, ld, 0, seq);
    kern_async_commit();
    kern_async_wait<0>();
    __syncthreads();
    if (HELD)
#pragma unroll
        for (int i = 0; i < MT * (D / 16); i++)
            flash_a<D>(held[i / MT][i % MT], tile + i % MT * 16 * LD, i / MT);
    for (int key = 0, at_stage = 0; key < last; key += KEYS, at_stage ^= 1) {
        bf16 *now = kv + at_stage * STAGE, *next = kv + (at_stage ^ 1) * STAGE;

        if (key + KEYS < last) {
            flash_load<KEYS, D>(next, k, ld, key + KEYS, seq);
            flash_load<KEYS, D>(next + KEYS * LD, k + to_values, ld, key + KEYS, seq);
        }
        kern_async_commit();
        if (key < row + MT * 16) {
            float sc[MT][NT][4] = {};

            flash_scores<MT, NT, D, HELD>(sc, held, tile, now);
            if (key + KEYS - 1 > row)
                mask(sc, row, key);
            step(at, sc, c);
            flash_gather<MT, KEYS / 16, D>(at.o, sc, now + KEYS * LD);
        }
        kern_async_wait<0>();
        __syncthreads();
    }
    cuda_flash_forward_finish(at, out + (b * s.seq * s.heads + h) * D, s.heads * D,
                              lse + (b * s.heads + h) * s.seq, row, seq, tile, scale);
}

template <int D>
static void cuda_flash_forward(void *stream, const struct kern_heads *s, bf16 *out, float *lse,
                               const bf16 *qkv)
{
    dim3 grid((unsigned)(s->batch * s->heads), (unsigned)((s->seq + ROWS - 1) / ROWS));
    size_t bytes = (ROWS + 4 * KEYS) * (D + FLASH_PAD) * sizeof(bf16);

    KERN_SHARED_MOST(flash_forward_kernel<D>, bytes);
    KERN_LAUNCH(flash_forward_kernel<D>, grid, dim3(FLASH_THREADS), bytes, stream, *s, out, lse,
                qkv);
}

extern "C" void kern_cuda_flash_forward(void *stream, const struct kern_heads *s, void *out,
                                        float *lse, const void *qkv)
{
    if (s->head_dim == 64)
        cuda_flash_forward<64>(stream, s, (bf16 *)out, lse, (const bf16 *)qkv);
    else
        cuda_flash_forward<128>(stream, s, (bf16 *)out, lse, (const bf16 *)qkv);
}
