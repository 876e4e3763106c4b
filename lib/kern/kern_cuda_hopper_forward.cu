/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kern_cuda_flash_forward.cu with the products of a group of four warps, which only sm_90a has
 * (Shah et al., FlashAttention-3, 2024).  A block is GROUPS groups of 64 queries; it meets the
 * keys 128 at a time.  The scores of a tile are asked for before what the tile before gathers,
 * so that exponentials are taken while that runs:
 *
 *     tensor cores   S(1)  P(0) V(0)        S(2)  P(1) V(1)
 *     warps                exp S(1)               exp S(2)
 *
 * Three tiles of keys and values are in shared memory: the two at work and the next on its way.
 * Groups wait for each other once a tile.
 */
#include "kern/kern_cuda_hopper.h"
extern "C" {
#include "kern/kern_cuda_attention.h"
}

enum { KEYS = 128, NT = KEYS / 8, STAGES = 3 };

template <int D> struct hopper_shape {
    static constexpr int GROUPS = D <= 64 ? 3 : 2; /* by the registers of a thread */
    static constexpr int THREADS = 128 * GROUPS, ROWS = 64 * GROUPS;
};

struct hopper_online {
    float max[2], sum[2]; /* of rows g and g + 8; sum: of this thread's columns */
};

/* Keys key .. key + 128 above the diagonal of the warp's rows from `row` on. */
static __device__ __forceinline__ void hopper_mask(float (&s)[NT][4], int row, int key)
{
    int l = flash_lane(), apart = row + l / 4 - key - l % 4 * 2;

#pragma unroll
    for (int n = 0; n < NT; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (apart + i / 2 * 8 < n * 8 + i % 2)
                s[n][i] = -INFINITY;
}

/* Scores become 2^(c (S - max)); shrink: what was gathered before is to be multiplied by. */
static __device__ __forceinline__ void hopper_step(struct hopper_online &at, float (&s)[NT][4],
                                                   float (&shrink)[2], float c)
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float max = at.max[h], sum = 0.0f;

#pragma unroll
        for (int n = 0; n < NT; n++)
            max = fmaxf(max, fmaxf(s[n][2 * h], s[n][2 * h + 1]));
        max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, 1));
        max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, 2));
        float base = max * c;

        shrink[h] = kern_exp2(at.max[h] * c - base);
        at.max[h] = max;
#pragma unroll
        for (int n = 0; n < NT; n++) {
            s[n][2 * h] = kern_exp2(s[n][2 * h] * c - base);
            s[n][2 * h + 1] = kern_exp2(s[n][2 * h + 1] * c - base);
            sum += s[n][2 * h] + s[n][2 * h + 1];
        }
        at.sum[h] = at.sum[h] * shrink[h] + sum;
    }
}

template <int D>
static __device__ __forceinline__ void hopper_scale(float (&o)[D / 8][4], const float (&by)[2])
{
#pragma unroll
    for (int n = 0; n < D / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++)
            o[n][i] *= by[i / 2];
}

/* O / sum, and lse to memory; rows of this warp from `row` on. */
template <int D>
static __device__ __forceinline__ void hopper_finish(const struct hopper_online &at,
                                                     float (&o)[D / 8][4], float *lse, int row,
                                                     int seq, float scale)
{
    int l = flash_lane();
    float by[2];

#pragma unroll
    for (int h = 0; h < 2; h++) {
        float sum = at.sum[h];
        int r = row + h * 8 + l / 4;

        sum += __shfl_xor_sync(0xffffffffu, sum, 1);
        sum += __shfl_xor_sync(0xffffffffu, sum, 2);
        if (l % 4 == 0 && r < seq)
            lse[r] = at.max[h] * scale + logf(sum);
        by[h] = 1.0f / sum;
    }
    hopper_scale<D>(o, by);
}

/* Scores of the warp's rows from `row` on that have come become P, o what it was times less. */
static __device__ __forceinline__ void hopper_soften(struct hopper_online &online,
                                                     float (&sc)[NT][4], float (&shrink)[2],
                                                     float c, int row, int key)
{
    if (key + KEYS - 1 > row)
        hopper_mask(sc, row, key);
    hopper_step(online, sc, shrink, c);
}

/* What a group does while a block's tile `tile` has come: of `tiles` that it needs. */
template <int D>
static __device__ __forceinline__ void
hopper_meet(struct hopper_online &online, float (&o)[D / 8][4], uint32_t (&p)[NT / 2][4],
            const bf16 *q, const bf16 *kv, int tile, int tiles, float c, int row)
{
    constexpr int ROWS = hopper_shape<D>::ROWS;
    const bf16 *values = kv + (tile % STAGES * 2 + 1) * KEYS * D;
    float sc[NT][4], shrink[2];

    if (tile + 1 < tiles) {
        kern_wgmma_fence();
        hopper_scores<NT, D, ROWS>(sc, q, kv + (tile + 1) % STAGES * 2 * KEYS * D);
        hopper_gather<NT / 2, D>(o, p, values);
        kern_wgmma_wait<1>();
        kern_wgmma_hold(sc);
        hopper_soften(online, sc, shrink, c, row, (tile + 1) * KEYS);
        kern_wgmma_wait<0>();
        kern_wgmma_hold(p);
        kern_wgmma_hold(o);
        hopper_scale<D>(o, shrink);
        hopper_pack<NT>(p, sc);
    } else if (tile + 1 == tiles) {
        kern_wgmma_fence();
        hopper_gather<NT / 2, D>(o, p, values);
        kern_wgmma_wait<0>();
        kern_wgmma_hold(p);
        kern_wgmma_hold(o);
    }
}

/* Grid: (batch * heads, tiles of queries); long rows first. */
template <int D>
static __global__ void __launch_bounds__(hopper_shape<D>::THREADS, 1)
    hopper_forward_kernel(struct kern_heads s, bf16 *out, float *lse, const bf16 *qkv)
{
    constexpr int ROWS = hopper_shape<D>::ROWS, THREADS = hopper_shape<D>::THREADS;
    KERN_SHARED(char, room);
    bf16 *q = (bf16 *)(room + kern_wgmma_align(room)), *kv = q + ROWS * D;
    int64_t b = blockIdx.x / s.heads, h = blockIdx.x % s.heads;
    int64_t ld = (s.heads + 2 * s.kv_heads) * D, to_values = s.kv_heads * D;
    const bf16 *from = qkv + b * s.seq * ld + h * D;
    const bf16 *k = from + (s.heads + h / (s.heads / s.kv_heads) - h) * D;
    int seq = (int)s.seq, first = (int)(gridDim.y - 1 - blockIdx.y) * ROWS;
    int group = hopper_group(), row = first + group * 64 + flash_warp() % 4 * 16;
    int all = (min(first + ROWS, seq) + KEYS - 1) / KEYS;
    int start = first + group * 64; /* a group beyond seq has nothing to do */
    int tiles = start < seq ? (min(start + 64, seq) + KEYS - 1) / KEYS : 0;
    float scale = rsqrtf((float)D), c = scale * FLASH_LOG2E, o[D / 8][4] = {}, sc[NT][4], by[2];
    struct hopper_online online = {{-INFINITY, -INFINITY}, {0.0f, 0.0f}};
    const bf16 *own = q + group * 64 * 64;
    uint32_t p[NT / 2][4];
    auto load = [&](int tile) {
        bf16 *to = kv + tile % STAGES * 2 * KEYS * D;

        if (tile < all) {
            hopper_load<KEYS, D, THREADS>(to, k, ld, tile * KEYS, seq);
            hopper_load<KEYS, D, THREADS>(to + KEYS * D, k + to_values, ld, tile * KEYS, seq);
        }
        kern_async_commit();
    };

    hopper_load<ROWS, D, THREADS>(q, from, ld, first, seq);
    load(0);
    load(1);
    hopper_arrive<1>();
    kern_wgmma_fence();
    hopper_scores<NT, D, ROWS>(sc, own, kv);
    kern_wgmma_wait<0>();
    kern_wgmma_hold(sc);
    hopper_soften(online, sc, by, c, row, 0);
    hopper_pack<NT>(p, sc);
    hopper_arrive<0>();
    for (int tile = 0; tile < all; tile++) {
        load(tile + 2);
        hopper_meet<D>(online, o, p, own, kv, tile, tiles, c, row);
        hopper_arrive<0>();
    }
    hopper_finish<D>(online, o, lse + (b * s.heads + h) * seq, row, seq, scale);
    hopper_store<D, ROWS>(out + ((b * s.seq + row) * s.heads + h) * D, s.heads * D, seq - row,
                          q, row - first, o, 1.0f);
}

template <int D>
static void forward(void *stream, const struct kern_heads *s, bf16 *out, float *lse,
                    const bf16 *qkv)
{
    constexpr int ROWS = hopper_shape<D>::ROWS, THREADS = hopper_shape<D>::THREADS;
    dim3 grid((unsigned)(s->batch * s->heads), (unsigned)((s->seq + ROWS - 1) / ROWS));
    size_t bytes = 1024 + (ROWS + STAGES * 2 * KEYS) * D * sizeof(bf16);

    KERN_SHARED_MOST(hopper_forward_kernel<D>, bytes);
    KERN_LAUNCH(hopper_forward_kernel<D>, grid, dim3(THREADS), bytes, stream, *s, out, lse,
                qkv);
}

extern "C" void kern_cuda_hopper_forward(void *stream, const struct kern_heads *s, void *out,
                                         float *lse, const void *qkv)
{
    if (s->head_dim == 64)
        forward<64>(stream, s, (bf16 *)out, lse, (const bf16 *)qkv);
    else
        forward<128>(stream, s, (bf16 *)out, lse, (const bf16 *)qkv);
}
