/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Computes backward attention in bf16 on tensor cores, S and P recomputed from lse:
 *
 *     P = 2^(c Q K^T - lse log2(e));  dS = P (dout V^T - delta);  delta = dot(dout, out)
 *     dQ = scale dS K;  dK = scale dS^T Q;  dV = P^T dout;  c = scale log2(e)
 *
 * Two kernels, without a sum that two blocks share, so that equal inputs give equal bits:
 *
 *     queries   rows are 128 queries of a head, columns the keys      accumulates dQ
 *     keys      rows are 128 keys (64 where D is above 64), columns
 *               the queries of all heads that read them               accumulates dK, dV
 *
 * That takes seven products where one kernel would need five; but with one, each tile of dQ
 * would be read, added to and written in memory by every tile of keys in turn, at about the
 * rate of the second-level cache.  With P^T and dS^T as rows of the second kernel the left
 * operand of a product is in the registers of the warp that computed it: scores never pass
 * through shared memory.
 *
 * Rows are held by warps; columns arrive in stages of STAGE rows, the next one being loaded
 * while one is processed in parts of COLUMNS, few enough that S, dP and the accumulators fit
 * the registers.
 *
 * stats (batch, heads, seq rounded up to 128): pairs of lse log2(e) and delta; beyond seq
 * infinity and 0, which make P and dS 0 there.
 */
#include "kern/kern_cuda_flash_product.h"
extern "C" {
#include "kern/kern_cuda_attention.h"
}

enum { MT = 2, ROWS = FLASH_WARPS * MT * 16 };

/* D / 8 threads for each row of a head, beyond seq too. */
template <int D>
__global__ void __launch_bounds__(FLASH_THREADS)
    flash_stats_kernel(struct kern_heads s, float2 *stats, const bf16 *dout, const bf16 *out,
                       const float *lse)
{
    constexpr int CHUNKS = D / 8;
    int64_t at = (int64_t)blockIdx.x * FLASH_THREADS + threadIdx.x, c = at % CHUNKS;
    int64_t h = at / CHUNKS % s.heads, row = at / CHUNKS / s.heads % flash_padded(s.seq);
    int64_t b = at / CHUNKS / s.heads / flash_padded(s.seq);
    float sum = 0.0f;

    if (b < s.batch && row < s.seq) {
        int64_t from = ((b * s.seq + row) * s.heads + h) * D + c * 8;
        uint4 x4 = *(const uint4 *)(dout + from), y4 = *(const uint4 *)(out + from);
        __nv_bfloat162 x[4], y[4];

        memcpy(x, &x4, 16);
        memcpy(y, &y4, 16);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float2 xf = __bfloat1622float2(x[i]), yf = __bfloat1622float2(y[i]);

            sum += xf.x * yf.x + xf.y * yf.y;
        }
    }
    for (int by = CHUNKS / 2; by > 0; by /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, by);
    if (c || b >= s.batch)
        return;
    float l = row < s.seq ? lse[(b * s.heads + h) * s.seq + row] * FLASH_LOG2E : INFINITY;
    stats[(b * s.heads + h) * flash_padded(s.seq) + row] = make_float2(l, sum);
}

template <int D> struct shape {
    static constexpr int LD = D + FLASH_PAD;
    static constexpr int STAGE = D <= 64 ? 64 : 32; /* keys in a stage of the queries kernel */
    static constexpr bool HELD = D <= 64; /* the queries' rows are kept in registers */
    static constexpr int KEY_MT = D <= 64 ? 2 : 1, KEY_ROWS = FLASH_WARPS * KEY_MT * 16;
    static constexpr int KEY_COLUMNS = 64 / KEY_MT, KEY_STAGE = 64;
};

template <int A, int B, int C> static __device__ __forceinline__ void clear(float (&x)[A][B][C])
{
#pragma unroll
    for (int a = 0; a < A; a++)
#pragma unroll
        for (int b = 0; b < B; b++)
#pragma unroll
            for (int c = 0; c < C; c++)
                x[a][b][c] = 0.0f;
}

/* S becomes P, dP becomes dS; rows are queries, `key` the first key; 0 above the diagonal. */
template <int NT>
static __device__ __forceinline__ void
query_scores(float (&s)[MT][NT][4], float (&dp)[MT][NT][4], const float2 (&stats)[MT][2],
             float c, int row, int key)
{
    int l = flash_lane(), apart = row + l / 4 - key - l % 4 * 2;

#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                float2 at = stats[m][i / 2];

                s[m][n][i] = kern_exp2(s[m][n][i] * c - at.x);
                dp[m][n][i] = s[m][n][i] * (dp[m][n][i] - at.y);
            }
    if (key + NT * 8 - 1 <= row)
        return;
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (apart + m * 16 + i / 2 * 8 < n * 8 + i % 2)
                    dp[m][n][i] = 0.0f;
}

/* Grid: (batch * heads, tiles of 128 queries); long rows first. */
template <int D>
__global__ void __launch_bounds__(FLASH_THREADS, 2)
    flash_queries_kernel(struct kern_heads s, bf16 *dqkv, const bf16 *dout, const float2 *stats,
                         const bf16 *qkv)
{
    using w = shape<D>;
    constexpr int LD = w::LD, STAGE = w::STAGE, COLUMNS = 32, NT = COLUMNS / 8;
    constexpr int HELD = w::HELD ? D / 16 : 1;
    KERN_SHARED(bf16, shared);
    int64_t b = blockIdx.x / s.heads, h = blockIdx.x % s.heads;
    int64_t ld = (s.heads + 2 * s.kv_heads) * D, to_values = s.kv_heads * D;
    int64_t from = b * s.seq * ld + h * D;
    const bf16 *k = qkv + from + (s.heads + h / (s.heads / s.kv_heads) - h) * D;
    int seq = (int)s.seq, first = (int)(gridDim.y - 1 - blockIdx.y) * ROWS, l = flash_lane();
    int row = first + flash_warp() * MT * 16, last = min(first + ROWS, seq);
    bf16 *q = shared + flash_warp() * MT * 16 * LD, *o = q + ROWS * LD;
    bf16 *kv = shared + 2 * ROWS * LD;
    float scale = rsqrtf((float)D), dq[MT][D / 8][4];
    uint32_t q_held[HELD][MT][4], o_held[HELD][MT][4];
    float2 at[MT][2];

    flash_load<ROWS, D>(shared, qkv + from, ld, first, seq);
    flash_load<ROWS, D>(shared + ROWS * LD, dout + (b * s.seq * s.heads + h) * D, s.heads * D,
                        first, seq);
    flash_load<STAGE, D>(kv, k, ld, 0, seq);
    flash_load<STAGE, D>(kv + STAGE * LD, k + to_values, ld, 0, seq);
    kern_async_commit();
    clear(dq);
#pragma unroll
    for (int i = 0; i < MT * 2; i++)
        at[i / 2][i % 2] = stats[(b * s.heads + h) * flash_padded(seq) + row + i * 8 + l / 4];
    kern_async_wait<0>();
    __syncthreads();
    if (w::HELD)
#pragma unroll
        for (int i = 0; i < MT * HELD; i++) {
            flash_a<D>(q_held[i / MT][i % MT], q + i % MT * 16 * LD, i / MT);
            flash_a<D>(o_held[i / MT][i % MT], o + i % MT * 16 * LD, i / MT);
        }
    for (int key = 0, now = 0; key < last; key += STAGE, now ^= 1) {
        bf16 *keys = kv + now * 2 * STAGE * LD, *next = kv + (now ^ 1) * 2 * STAGE * LD;

        if (key + STAGE < last) {
            flash_load<STAGE, D>(next, k, ld, key + STAGE, seq);
            flash_load<STAGE, D>(next + STAGE * LD, k + to_values, ld, key + STAGE, seq);
        }
        kern_async_commit();
#pragma unroll 1
        for (int part = 0; part < STAGE && key + part < row + MT * 16; part += COLUMNS) {
            float sc[MT][NT][4] = {}, dp[MT][NT][4] = {};
            const bf16 *part_k = keys + part * LD;

            flash_scores<MT, NT, D, w::HELD>(sc, q_held, q, part_k);
            flash_scores<MT, NT, D, w::HELD>(dp, o_held, o, part_k + STAGE * LD);
            query_scores<NT>(sc, dp, at, scale * FLASH_LOG2E, row, key + part);
            flash_gather<MT, NT / 2, D>(dq, dp, part_k);
        }
        kern_async_wait<0>();
        __syncthreads();
    }
    flash_store<MT, D>(dqkv + from + (int64_t)row * ld, ld, seq - row, q, dq, scale);
}

/* S^T becomes P^T and dP^T dS^T: rows are keys, `query` the first query. */
template <int M, int NT>
static __device__ __forceinline__ void key_scores(float (&s)[M][NT][4], float (&dp)[M][NT][4],
                                                  const float2 *stats, float c, int row,
                                                  int query)
{
    int l = flash_lane(), apart = query + l % 4 * 2 - row - l / 4;

#pragma unroll
    for (int n = 0; n < NT; n++) {
        float4 two = *(const float4 *)(stats + n * 8 + l % 4 * 2);

#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                s[m][n][i] = kern_exp2(s[m][n][i] * c - (i % 2 ? two.z : two.x));
                dp[m][n][i] = s[m][n][i] * (dp[m][n][i] - (i % 2 ? two.w : two.y));
            }
    }
    if (row + M * 16 - 1 <= query)
        return;
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                if (apart + n * 8 + i % 2 < m * 16 + i / 2 * 8)
                    s[m][n][i] = dp[m][n][i] = 0.0f;
}

/* Stages of queries: the i-th of those from `first` on, for all heads of the group. */
template <int D> struct queries {
    const bf16 *q, *dout;
    const float2 *stats;
    int64_t ld, out_ld, stats_ld;
    int first, tiles, seq;

    __device__ __forceinline__ int query(int i) const
    {
        return first + i % tiles * shape<D>::KEY_STAGE;
    }

    __device__ __forceinline__ void load(int i, bf16 *to, float2 *to_stats) const
    {
        constexpr int STAGE = shape<D>::KEY_STAGE;
        int head = i / tiles, at = query(i);

        flash_load<STAGE, D>(to, q + head * D, ld, at, seq);
        flash_load<STAGE, D>(to + STAGE * shape<D>::LD, dout + head * D, out_ld, at, seq);
        if (threadIdx.x < STAGE / 2)
            kern_async_16(to_stats + 2 * threadIdx.x,
                          stats + head * stats_ld + at + 2 * threadIdx.x);
    }
};

/* The group's queries that attend to keys from `first` on. */
template <int D>
static __device__ __forceinline__ struct queries<D>
queries_of(const struct kern_heads &s, int64_t b, int64_t head, int first, const bf16 *qkv,
           const bf16 *dout, const float2 *stats) {
    constexpr int STAGE = shape<D>::KEY_STAGE;
    struct queries<D> all;

    all.ld = (s.heads + 2 * s.kv_heads) * D;
    all.out_ld = s.heads * D;
    all.stats_ld = flash_padded(s.seq);
    all.q = qkv + b * s.seq * all.ld + head * D;
    all.dout = dout + b * s.seq * all.out_ld + head * D;
    all.stats = stats + (b * s.heads + head) * all.stats_ld;
    all.first = first;
    all.seq = (int)s.seq;
    all.tiles = (all.seq - first + STAGE - 1) / STAGE;
    return all;
}

/* Grid: (batch * kv_heads, tiles of keys); first the keys that most queries attend to. */
template <int D>
__global__ void __launch_bounds__(FLASH_THREADS, 2)
    flash_keys_kernel(struct kern_heads s, bf16 *dqkv, const bf16 *dout, const float2 *stats,
                      const bf16 *qkv)
{
    using w = shape<D>;
    constexpr int LD = w::LD, M = w::KEY_MT, KEYS = w::KEY_ROWS, STAGE = w::KEY_STAGE;
    constexpr int COLUMNS = w::KEY_COLUMNS, NT = COLUMNS / 8;
    KERN_SHARED(bf16, shared);
    int64_t b = blockIdx.x / s.kv_heads, kv = blockIdx.x % s.kv_heads;
    int64_t group = s.heads / s.kv_heads, to_values = s.kv_heads * D;
    int first = (int)blockIdx.y * KEYS, row = first + flash_warp() * M * 16;
    struct queries<D> all = queries_of<D>(s, b, kv * group, first, qkv, dout, stats);
    int64_t from = b * s.seq * all.ld + (s.heads + kv) * D;
    bf16 *k = shared + flash_warp() * M * 16 * LD, *v = k + KEYS * LD;
    bf16 *tiles = shared + 2 * KEYS * LD;
    float2 *tile_stats = (float2 *)(tiles + 4 * STAGE * LD);
    float scale = rsqrtf((float)D), dk[M][D / 8][4], dv[M][D / 8][4];
    int count = (int)group * all.tiles;

    flash_load<KEYS, D>(shared, qkv + from, all.ld, first, all.seq);
    flash_load<KEYS, D>(shared + KEYS * LD, qkv + from + to_values, all.ld, first, all.seq);
    all.load(0, tiles, tile_stats);
    kern_async_commit();
    clear(dk);
    clear(dv);
    kern_async_wait<0>();
    __syncthreads();
    for (int i = 0; i < count; i++) {
        int now = i & 1, query = all.query(i);
        const bf16 *q = tiles + now * 2 * STAGE * LD;

        if (i + 1 < count)
            all.load(i + 1, tiles + (now ^ 1) * 2 * STAGE * LD, tile_stats + (now ^ 1) * STAGE);
        kern_async_commit();
#pragma unroll 1
        for (int part = 0; part < STAGE; part += COLUMNS) {
            float sc[M][NT][4] = {}, dp[M][NT][4] = {};
            const bf16 *part_q = q + part * LD, *part_o = part_q + STAGE * LD;

            if (query + part + COLUMNS <= row)
                continue;
            flash_scores<M, NT, D, false>(sc, NULL, k, part_q);
            flash_scores<M, NT, D, false>(dp, NULL, v, part_o);
            key_scores<M, NT>(sc, dp, tile_stats + now * STAGE + part, scale * FLASH_LOG2E, row,
                              query + part);
            flash_gather<M, NT / 2, D>(dv, sc, part_o);
            flash_gather<M, NT / 2, D>(dk, dp, part_q);
        }
        kern_async_wait<0>();
        __syncthreads();
    }
    bf16 *to = dqkv + from + (int64_t)row * all.ld;
    flash_store<M, D>(to, all.ld, all.seq - row, k, dk, scale);
    flash_store<M, D>(to + to_values, all.ld, all.seq - row, v, dv, 1.0f);
}

template <int D>
static void stats_of(void *stream, const struct kern_heads *s, float2 *stats, const bf16 *dout,
                     const bf16 *out, const float *lse)
{
    int64_t threads = s->batch * s->heads * flash_padded(s->seq) * (D / 8);

    KERN_LAUNCH(flash_stats_kernel<D>,
                dim3((unsigned)((threads + FLASH_THREADS - 1) / FLASH_THREADS)),
                dim3(FLASH_THREADS), 0, stream, *s, stats, dout, out, lse);
}

void kern_cuda_flash_stats(void *stream, const struct kern_heads *s, float2 *stats,
                           const void *dout, const void *out, const float *lse)
{
    if (s->head_dim == 64)
        stats_of<64>(stream, s, stats, (const bf16 *)dout, (const bf16 *)out, lse);
    else
        stats_of<128>(stream, s, stats, (const bf16 *)dout, (const bf16 *)out, lse);
}

template <int D>
static void cuda_flash_backward(void *stream, const struct kern_heads *s, bf16 *dqkv,
                                const bf16 *dout, const bf16 *qkv, const float2 *stats)
{
    using w = shape<D>;
    size_t query_bytes = (2 * ROWS + 4 * w::STAGE) * w::LD * sizeof(bf16);
    size_t key_bytes = (2 * w::KEY_ROWS + 4 * w::KEY_STAGE) * w::LD * sizeof(bf16) +
                       2 * w::KEY_STAGE * sizeof(float2);
    dim3 query_grid((unsigned)(s->batch * s->heads), (unsigned)(flash_padded(s->seq) / ROWS));
    dim3 key_grid((unsigned)(s->batch * s->kv_heads),
                  (unsigned)((s->seq + w::KEY_ROWS - 1) / w::KEY_ROWS));

    KERN_SHARED_MOST(flash_queries_kernel<D>, query_bytes);
    KERN_SHARED_MOST(flash_keys_kernel<D>, key_bytes);
    KERN_LAUNCH(flash_keys_kernel<D>, key_grid, dim3(FLASH_THREADS), key_bytes, stream, *s,
                dqkv, dout, stats, qkv);
    KERN_LAUNCH(flash_queries_kernel<D>, query_grid, dim3(FLASH_THREADS), query_bytes, stream,
                *s, dqkv, dout, stats, qkv);
}

extern "C" void kern_cuda_flash_backward(void *stream, const struct kern_heads *s, void *dqkv,
                                         const void *dout, const void *out, const float *lse,
                                         const void *qkv, void *scratch)
{
    float2 *stats = (float2 *)scratch;

    kern_cuda_flash_stats(stream, s, stats, dout, out, lse);
    if (s->head_dim == 64)
        cuda_flash_backward<64>(stream, s, (bf16 *)dqkv, (const bf16 *)dout, (const bf16 *)qkv,
                                stats);
    else
        cuda_flash_backward<128>(stream, s, (bf16 *)dqkv, (const bf16 *)dout, (const bf16 *)qkv,
                                 stats);
}
