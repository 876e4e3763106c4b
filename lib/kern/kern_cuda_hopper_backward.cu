/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Computes kern_cuda_flash_backward.cu's results with the products of a group of four warps,
 * which only sm_90a has: tensor cores read operands in shared memory themselves, and products
 * run while the same warps compute exponentials.
 *
 *     keys kernel, of a group:   S^T = K Q^T -> P^T = 2^(c S^T - lse)   while dP^T = V dout^T
 *                                dV += P^T dout                         while dS^T = P^T (..)
 *                                dK += dS^T Q
 *     queries kernel:            S = Q K^T -> P                         while dP = dout V^T
 *                                dQ += dS K
 *
 * A block is two groups, 128 rows; the other side is loaded in tiles, one ahead.
 */
#include "kern/kern_cuda_hopper.h"
extern "C" {
#include "kern/kern_cuda_attention.h"
}

template <int D> struct hopper_tiles {
    static constexpr int QUERIES = D <= 64 ? 128 : 64; /* a tile of the keys kernel */
    static constexpr int KEYS = D <= 64 ? 128 : 64;    /* a tile of the queries kernel */
};

template <int A, int B> static __device__ __forceinline__ void hopper_clear(float (&x)[A][B])
{
#pragma unroll
    for (int a = 0; a < A; a++)
#pragma unroll
        for (int b = 0; b < B; b++)
            x[a][b] = 0.0f;
}

/* Replaces S by P; rows are queries from `row` on (of this warp), columns keys from `key`
   on. */
template <int NT>
static __device__ __forceinline__ void queries_p(float (&s)[NT][4], const float2 (&stats)[2],
                                                 float c, int row, int key)
{
    int l = flash_lane(), apart = row + l / 4 - key - l % 4 * 2;

#pragma unroll
    for (int n = 0; n < NT; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            s[n][i] = kern_exp2(s[n][i] * c - stats[i / 2].x);
    if (key + NT * 8 - 1 <= row)
        return;
#pragma unroll
    for (int n = 0; n < NT; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (apart + i / 2 * 8 < n * 8 + i % 2)
                s[n][i] = 0.0f;
}

/* Grid: (batch * heads, tiles of 128 queries); long rows first. */
template <int D>
static __global__ void __launch_bounds__(HOPPER_THREADS, 1)
    hopper_queries_kernel(struct kern_heads s, bf16 *dqkv, const bf16 *dout,
                          const float2 *stats, const bf16 *qkv)
{
    constexpr int ROWS = HOPPER_ROWS, KEYS = hopper_tiles<D>::KEYS, NT = KEYS / 8;
    KERN_SHARED(char, space);
    bf16 *shared = (bf16 *)(space + kern_wgmma_align(space));
    int64_t b = blockIdx.x / s.heads, h = blockIdx.x % s.heads;
    int64_t ld = (s.heads + 2 * s.kv_heads) * D, to_values = s.kv_heads * D;
    int64_t from = b * s.seq * ld + h * D;
    const bf16 *k = qkv + from + (s.heads + h / (s.heads / s.kv_heads) - h) * D;
    int seq = (int)s.seq, first = (int)(gridDim.y - 1 - blockIdx.y) * ROWS;
    int group = hopper_group(), at = group * 64 + flash_warp() % 4 * 16;
    int last = min(first + ROWS, seq);
    bf16 *q = shared, *o = q + ROWS * D, *kv = o + ROWS * D;
    float scale = rsqrtf((float)D), dq[D / 8][4];
    const float2 *row_stats = stats + (b * s.heads + h) * flash_padded(seq) + first + at;
    float2 own[2] = {row_stats[flash_lane() / 4], row_stats[flash_lane() / 4 + 8]};

    hopper_load<ROWS, D>(q, qkv + from, ld, first, seq);
    hopper_load<ROWS, D>(o, dout + (b * s.seq * s.heads + h) * D, s.heads * D, first, seq);
    hopper_load<KEYS, D>(kv, k, ld, 0, seq);
    hopper_load<KEYS, D>(kv + KEYS * D, k + to_values, ld, 0, seq);
    kern_async_commit();
    hopper_clear(dq);
    hopper_arrive<0>();
    for (int key = 0, now = 0; key < last; key += KEYS, now ^= 1) {
        bf16 *keys = kv + now * 2 * KEYS * D, *next = kv + (now ^ 1) * 2 * KEYS * D;

        if (key + KEYS < last) {
            hopper_load<KEYS, D>(next, k, ld, key + KEYS, seq);
            hopper_load<KEYS, D>(next + KEYS * D, k + to_values, ld, key + KEYS, seq);
        }
        kern_async_commit();
        if (key < first + group * 64 + 64) {
            float sc[NT][4], dp[NT][4];
            uint32_t a[NT / 2][4];

            kern_wgmma_fence();
            hopper_scores<NT, D, ROWS>(sc, q + group * 64 * 64, keys);
            hopper_scores<NT, D, ROWS>(dp, o + group * 64 * 64, keys + KEYS * D);
            kern_wgmma_wait<1>();
            kern_wgmma_hold(sc);
            queries_p<NT>(sc, own, scale * FLASH_LOG2E, first + at, key);
            kern_wgmma_wait<0>();
            kern_wgmma_hold(dp);
#pragma unroll
            for (int i = 0; i < NT * 4; i++)
                sc[i / 4][i % 4] *= dp[i / 4][i % 4] - own[i % 4 / 2].y;
            hopper_pack<NT>(a, sc);
            kern_wgmma_fence();
            hopper_gather<NT / 2, D>(dq, a, keys);
            kern_wgmma_wait<0>();
            kern_wgmma_hold(a);
            kern_wgmma_hold(dq);
        }
        hopper_arrive<0>();
    }
    hopper_store<D, ROWS>(dqkv + from + (int64_t)(first + at) * ld, ld, seq - first - at, q, at,
                          dq, scale);
}

/* Replaces S^T by P^T; rows are keys from `row` on (of this warp), columns queries. */
template <int NT>
static __device__ __forceinline__ void keys_p(float (&s)[NT][4], const float2 *stats, float c,
                                              int row, int query)
{
    int l = flash_lane(), apart = query + l % 4 * 2 - row - l / 4;

#pragma unroll
    for (int n = 0; n < NT; n++) {
        float4 two = *(const float4 *)(stats + n * 8 + l % 4 * 2);

#pragma unroll
        for (int i = 0; i < 4; i++)
            s[n][i] = kern_exp2(s[n][i] * c - (i % 2 ? two.z : two.x));
    }
    if (row + 15 <= query)
        return;
#pragma unroll
    for (int n = 0; n < NT; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (apart + n * 8 + i % 2 < i / 2 * 8)
                s[n][i] = 0.0f;
}

template <int NT>
static __device__ __forceinline__ void keys_ds(float (&p)[NT][4], const float (&dp)[NT][4],
                                               const float2 *stats)
{
#pragma unroll
    for (int n = 0; n < NT; n++) {
        float4 two = *(const float4 *)(stats + n * 8 + flash_lane() % 4 * 2);

#pragma unroll
        for (int i = 0; i < 4; i++)
            p[n][i] *= dp[n][i] - (i % 2 ? two.w : two.y);
    }
}

/* The i-th tile of queries that attend to keys from `first` on, over all heads of a group. */
template <int D> struct hopper_queries {
    static constexpr int ROWS = hopper_tiles<D>::QUERIES;
    const bf16 *q, *dout;
    const float2 *stats;
    int64_t ld, out_ld, stats_ld;
    int first, tiles, seq;

    __device__ __forceinline__ hopper_queries(const struct kern_heads &s, int64_t b,
                                              int64_t head, int first_key, const bf16 *qkv,
                                              const bf16 *all_dout, const float2 *all_stats)
        : ld((s.heads + 2 * s.kv_heads) * D), out_ld(s.heads * D),
          stats_ld(flash_padded(s.seq)), first(first_key),
          tiles((int)(s.seq - first_key + ROWS - 1) / ROWS), seq((int)s.seq)
    {
        q = qkv + b * s.seq * ld + head * D;
        dout = all_dout + b * s.seq * out_ld + head * D;
        stats = all_stats + (b * s.heads + head) * stats_ld;
    }
    __device__ __forceinline__ int query(int i) const
    {
        return first + i % tiles * ROWS;
    }
    __device__ __forceinline__ void load(int i, bf16 *to, float2 *to_stats) const
    {
        int head = i / tiles, at = query(i);

        hopper_load<ROWS, D>(to, q + head * D, ld, at, seq);
        hopper_load<ROWS, D>(to + ROWS * D, dout + head * D, out_ld, at, seq);
        if (threadIdx.x < ROWS / 2)
            kern_async_16(to_stats + 2 * threadIdx.x,
                          stats + head * stats_ld + at + 2 * threadIdx.x);
    }
};

/* Adds one tile of queries to dK and dV of a group's 64 keys; k, v, q: their tiles. */
template <int D>
static __device__ __forceinline__ void
hopper_meet(float (&dk)[D / 8][4], float (&dv)[D / 8][4], const bf16 *k, const bf16 *v,
            const bf16 *q, const float2 *stats, float c, int row, int query)
{
    constexpr int QUERIES = hopper_tiles<D>::QUERIES, NT = QUERIES / 8;
    const bf16 *o = q + QUERIES * D;
    float sc[NT][4], dp[NT][4];
    uint32_t p[NT / 2][4], ds[NT / 2][4];

    kern_wgmma_fence();
    hopper_scores<NT, D, HOPPER_ROWS>(sc, k, q);
    hopper_scores<NT, D, HOPPER_ROWS>(dp, v, o);
    kern_wgmma_wait<1>();
    kern_wgmma_hold(sc);
    keys_p<NT>(sc, stats, c, row, query);
    hopper_pack<NT>(p, sc);
    kern_wgmma_fence();
    hopper_gather<NT / 2, D>(dv, p, o);
    kern_wgmma_wait<1>();
    kern_wgmma_hold(dp);
    keys_ds<NT>(sc, dp, stats);
    hopper_pack<NT>(ds, sc);
    kern_wgmma_fence();
    hopper_gather<NT / 2, D>(dk, ds, q);
    kern_wgmma_wait<0>();
    kern_wgmma_hold(p);
    kern_wgmma_hold(ds);
    kern_wgmma_hold(dv);
    kern_wgmma_hold(dk);
}

/* Grid: (batch * kv_heads, tiles of 128 keys); first the keys that most queries attend to. */
template <int D>
static __global__ void __launch_bounds__(HOPPER_THREADS, 1)
    hopper_keys_kernel(struct kern_heads s, bf16 *dqkv, const bf16 *dout, const float2 *stats,
                       const bf16 *qkv)
{
    constexpr int ROWS = HOPPER_ROWS, QUERIES = hopper_tiles<D>::QUERIES;
    KERN_SHARED(char, space);
    bf16 *k = (bf16 *)(space + kern_wgmma_align(space)), *v = k + ROWS * D,
         *tiles = v + ROWS * D;
    float2 *tile_stats = (float2 *)(tiles + 4 * QUERIES * D);
    int64_t b = blockIdx.x / s.kv_heads, kv = blockIdx.x % s.kv_heads;
    int64_t heads = s.heads / s.kv_heads, to_values = s.kv_heads * D;
    int first = (int)blockIdx.y * ROWS, group = hopper_group();
    int at = group * 64 + flash_warp() % 4 * 16;
    const hopper_queries<D> all(s, b, kv * heads, first, qkv, dout, stats);
    int64_t from = b * s.seq * all.ld + (s.heads + kv) * D;
    float scale = rsqrtf((float)D), dk[D / 8][4], dv[D / 8][4];
    int count = (int)heads * all.tiles;

    hopper_load<ROWS, D>(k, qkv + from, all.ld, first, all.seq);
    hopper_load<ROWS, D>(v, qkv + from + to_values, all.ld, first, all.seq);
    all.load(0, tiles, tile_stats);
    kern_async_commit();
    hopper_clear(dk);
    hopper_clear(dv);
    hopper_arrive<0>();
    for (int i = 0; i < count; i++) {
        int now = i & 1, next = now ^ 1, query = all.query(i);

        if (i + 1 < count)
            all.load(i + 1, tiles + next * 2 * QUERIES * D, tile_stats + next * QUERIES);
        kern_async_commit();
        if (query + QUERIES > first + group * 64)
            hopper_meet<D>(dk, dv, k + group * 64 * 64, v + group * 64 * 64,
                           tiles + now * 2 * QUERIES * D, tile_stats + now * QUERIES,
                           scale * FLASH_LOG2E, first + at, query);
        hopper_arrive<0>();
    }
    bf16 *to = dqkv + from + (int64_t)(first + at) * all.ld;
    hopper_store<D, ROWS>(to, all.ld, all.seq - first - at, k, at, dk, scale);
    hopper_store<D, ROWS>(to + to_values, all.ld, all.seq - first - at, v, at, dv, 1.0f);
}

template <int D>
static void cuda_hopper_backward(void *stream, const struct kern_heads *s, bf16 *dqkv,
                                 const bf16 *dout, const bf16 *qkv, const float2 *stats)
{
    constexpr int ROWS = HOPPER_ROWS, KEYS = hopper_tiles<D>::KEYS;
    constexpr int QUERIES = hopper_tiles<D>::QUERIES;
    size_t query_bytes = 1024 + (2 * ROWS + 4 * KEYS) * D * sizeof(bf16);
    size_t key_bytes =
        1024 + (2 * ROWS + 4 * QUERIES) * D * sizeof(bf16) + 2 * QUERIES * sizeof(float2);
    unsigned tiles = (unsigned)((s->seq + ROWS - 1) / ROWS);

    KERN_SHARED_MOST(hopper_queries_kernel<D>, query_bytes);
    KERN_SHARED_MOST(hopper_keys_kernel<D>, key_bytes);
    KERN_LAUNCH(hopper_keys_kernel<D>, dim3((unsigned)(s->batch * s->kv_heads), tiles),
                dim3(HOPPER_THREADS), key_bytes, stream, *s, dqkv, dout, stats, qkv);
    KERN_LAUNCH(hopper_queries_kernel<D>, dim3((unsigned)(s->batch * s->heads), tiles),
                dim3(HOPPER_THREADS), query_bytes, stream, *s, dqkv, dout, stats, qkv);
}

extern "C" void kern_cuda_hopper_backward(void *stream, const struct kern_heads *s, void *dqkv,
                                          const void *dout, const void *out, const float *lse,
                                          const void *qkv, void *scratch)
{
    float2 *stats = (float2 *)scratch;

    kern_cuda_flash_stats(stream, s, stats, dout, out, lse);
    if (s->head_dim == 64)
        cuda_hopper_backward<64>(stream, s, (bf16 *)dqkv, (const bf16 *)dout, (const bf16 *)qkv,
                                 stats);
    else
        cuda_hopper_backward<128>(stream, s, (bf16 *)dqkv, (const bf16 *)dout,
                                  (const bf16 *)qkv, stats);
}
