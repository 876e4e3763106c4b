/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Computes attention for any even head_dim up to 256 and for f32: the reference for
 * kern_cuda_flash_*.cu, used for shapes that flash does not support.  All arithmetic is f32,
 * without tensor cores.
 *
 * A block has 16 rows (queries, or keys in `plain_keys_kernel`) of a head, and 16 threads for
 * each.  It processes the other side 16 rows at a time: thread (row, l) computes the score of
 * row and l, and accumulates columns l, l + 16, ... of its row's result.
 *
 *     S = scale Q K^T;  P = exp(S - lse);  out = P V;  lse = log of the sum of exp(S)
 *     delta = dot(dout, out);  dS = P (dout V^T - delta)
 *     dQ = scale dS K;  dK = scale dS^T Q;  dV = P^T dout      (Dao et al. 2022, appendix B.4)
 *
 * Sums have a fixed order: a key's over the heads of its group, then over the queries.
 */
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "kern/kern_launch.h"
extern "C" {
#include "kern/kern_cuda_attention.h"
}

/* Rows; columns of a thread; threads. */
enum { SIDE = 16, MOST = 256 / SIDE, ALL = SIDE * SIDE };

static __device__ __forceinline__ float f32_of(float x)
{
    return x;
}

static __device__ __forceinline__ float f32_of(__nv_bfloat16 x)
{
    return __bfloat162float(x);
}

static __device__ __forceinline__ void cuda_attention_plain_put(float *to, float x)
{
    *to = x;
}

static __device__ __forceinline__ void cuda_attention_plain_put(__nv_bfloat16 *to, float x)
{
    *to = __float2bfloat16(x);
}

/* Offsets of a head's rows in elements; key and value of the group's head. */
struct place {
    int64_t ld, q, k, v, out_ld, out, row;
};

static __device__ __forceinline__ struct place
cuda_attention_plain_place_of(const struct kern_heads &s, int64_t b, int64_t h)
{
    struct place p;
    int64_t D = s.head_dim, kv = h / (s.heads / s.kv_heads);

    p.ld = (s.heads + 2 * s.kv_heads) * D;
    p.q = b * s.seq * p.ld + h * D;
    p.k = b * s.seq * p.ld + (s.heads + kv) * D;
    p.v = p.k + s.kv_heads * D;
    p.out_ld = s.heads * D;
    p.out = b * s.seq * p.out_ld + h * D;
    p.row = (b * s.heads + h) * s.seq;
    return p;
}

/* Loads rows first .. first + 16 of a matrix (n, D) to shared memory, zeros beyond n. */
template <typename T>
static __device__ void load_rows(float *to, int to_ld, const T *from, int64_t ld, int64_t first,
                                 int64_t n, int D)
{
    for (int i = threadIdx.x; i < SIDE * D; i += ALL) {
        int r = i / D, c = i % D;

        to[r * to_ld + c] = first + r < n ? f32_of(from[(first + r) * ld + c]) : 0.0f;
    }
}

static __device__ __forceinline__ float dot(const float *a, const float *b, int D)
{
    float sum = 0.0f;

    for (int c = 0; c < D; c++)
        sum += a[c] * b[c];
    return sum;
}

/* acc[c] += the sum over the row's 16 threads of their x times their row of `rows`. */
static __device__ __forceinline__ void
cuda_attention_plain_gather(float *acc, float x, const float *rows, int ld, int l, int D)
{
    for (int j = 0; j < SIDE; j++) {
        float xj = __shfl_sync(0xffffffffu, x, j, SIDE);

#pragma unroll
        for (int i = 0; i < MOST; i++)
            if (l + SIDE * i < D)
                acc[i] += xj * rows[j * ld + l + SIDE * i];
    }
}

template <typename T>
static __device__ __forceinline__ void store_row(T *to, const float *acc, float by, int l,
                                                 int D)
{
#pragma unroll
    for (int i = 0; i < MOST; i++)
        if (l + SIDE * i < D)
            cuda_attention_plain_put(to + l + SIDE * i, acc[i] * by);
}

static __device__ __forceinline__ float max16(float x)
{
    for (int by = SIDE / 2; by > 0; by /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, by, SIDE));
    return x;
}

static __device__ __forceinline__ float sum16(float x)
{
    for (int by = SIDE / 2; by > 0; by /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, by, SIDE);
    return x;
}

/* Long rows first: block y = 0 has the last queries. */
template <typename T>
__global__ void __launch_bounds__(ALL)
    plain_forward_kernel(struct kern_heads s, T *out, float *lse, const T *qkv)
{
    KERN_SHARED(float, shared);
    struct place at =
        cuda_attention_plain_place_of(s, blockIdx.x / s.heads, blockIdx.x % s.heads);
    int D = (int)s.head_dim, ld = D + 1, r = threadIdx.x / SIDE, l = threadIdx.x % SIDE;
    int64_t first = (int64_t)(gridDim.y - 1 - blockIdx.y) * SIDE, row = first + r;
    float *q = shared, *k = q + SIDE * D, *v = k + SIDE * ld;
    float scale = 1.0f / sqrtf((float)D), max = -INFINITY, sum = 0.0f, acc[MOST] = {0.0f};

    load_rows(q, D, qkv + at.q, at.ld, first, s.seq, D);
    for (int64_t key = 0; key <= first; key += SIDE) {
        __syncthreads(); /* the previous tile is not needed any more */
        load_rows(k, ld, qkv + at.k, at.ld, key, s.seq, D);
        load_rows(v, ld, qkv + at.v, at.ld, key, s.seq, D);
        __syncthreads();
        float x = key + l <= row ? scale * dot(q + r * D, k + l * ld, D) : -INFINITY;
        float now = fmaxf(max, max16(x)), shrink = expf(max - now), p = expf(x - now);

        max = now;
        sum = sum * shrink + sum16(p);
        for (int i = 0; i < MOST; i++)
            acc[i] *= shrink;
        cuda_attention_plain_gather(acc, p, v, ld, l, D);
    }
    if (row >= s.seq)
        return;
    store_row(out + at.out + row * at.out_ld, acc, 1.0f / sum, l, D);
    if (l == 0)
        lse[at.row + row] = max + logf(sum);
}

/* delta (batch, heads, seq): 16 threads for each row. */
template <typename T>
__global__ void __launch_bounds__(ALL)
    plain_delta_kernel(struct kern_heads s, float *delta, const T *dout, const T *out)
{
    struct place at =
        cuda_attention_plain_place_of(s, blockIdx.x / s.heads, blockIdx.x % s.heads);
    int64_t row = (int64_t)blockIdx.y * SIDE + threadIdx.x / SIDE;
    int64_t from = at.out + row * at.out_ld;
    int l = threadIdx.x % SIDE;
    float sum = 0.0f;

    if (row < s.seq)
        for (int c = l; c < s.head_dim; c += SIDE)
            sum += f32_of(dout[from + c]) * f32_of(out[from + c]);
    sum = sum16(sum);
    if (row < s.seq && l == 0)
        delta[at.row + row] = sum;
}

template <typename T>
__global__ void __launch_bounds__(ALL)
    plain_queries_kernel(struct kern_heads s, T *dqkv, const T *dout, const float *lse,
                         const float *delta, const T *qkv)
{
    KERN_SHARED(float, shared);
    struct place at =
        cuda_attention_plain_place_of(s, blockIdx.x / s.heads, blockIdx.x % s.heads);
    int D = (int)s.head_dim, ld = D + 1, r = threadIdx.x / SIDE, l = threadIdx.x % SIDE;
    int64_t first = (int64_t)(gridDim.y - 1 - blockIdx.y) * SIDE, row = first + r;
    float *q = shared, *o = q + SIDE * D, *k = o + SIDE * D, *v = k + SIDE * ld;
    float scale = 1.0f / sqrtf((float)D), acc[MOST] = {0.0f};
    float row_lse = row < s.seq ? lse[at.row + row] : 0.0f;
    float row_delta = row < s.seq ? delta[at.row + row] : 0.0f;

    load_rows(q, D, qkv + at.q, at.ld, first, s.seq, D);
    load_rows(o, D, dout + at.out, at.out_ld, first, s.seq, D);
    for (int64_t key = 0; key <= first; key += SIDE) {
        float x = 0.0f;

        __syncthreads();
        load_rows(k, ld, qkv + at.k, at.ld, key, s.seq, D);
        load_rows(v, ld, qkv + at.v, at.ld, key, s.seq, D);
        __syncthreads();
        if (key + l <= row && row < s.seq)
            x = expf(scale * dot(q + r * D, k + l * ld, D) - row_lse) *
                (dot(o + r * D, v + l * ld, D) - row_delta);
        cuda_attention_plain_gather(acc, x, k, ld, l, D);
    }
    if (row < s.seq)
        store_row(dqkv + at.q + row * at.ld, acc, scale, l, D);
}

/* One tile of keys, all queries of all heads that read them. */
template <typename T>
__global__ void __launch_bounds__(ALL)
    plain_keys_kernel(struct kern_heads s, T *dqkv, const T *dout, const float *lse,
                      const float *delta, const T *qkv)
{
    KERN_SHARED(float, shared);
    int64_t group = s.heads / s.kv_heads, b = blockIdx.x / s.kv_heads;
    int64_t head = blockIdx.x % s.kv_heads * group;
    struct place at = cuda_attention_plain_place_of(s, b, head);
    int D = (int)s.head_dim, ld = D + 1, r = threadIdx.x / SIDE, l = threadIdx.x % SIDE;
    int64_t first = (int64_t)blockIdx.y * SIDE, row = first + r;
    float *k = shared, *v = k + SIDE * D, *q = v + SIDE * D, *o = q + SIDE * ld;
    float scale = 1.0f / sqrtf((float)D), dk[MOST] = {0.0f}, dv[MOST] = {0.0f};

    load_rows(k, D, qkv + at.k, at.ld, first, s.seq, D);
    load_rows(v, D, qkv + at.v, at.ld, first, s.seq, D);
    for (int64_t i = 0; i < group; i++) {
        at = cuda_attention_plain_place_of(s, b, head + i);
        for (int64_t query = first; query < s.seq; query += SIDE) {
            float p = 0.0f, x = 0.0f;

            __syncthreads();
            load_rows(q, ld, qkv + at.q, at.ld, query, s.seq, D);
            load_rows(o, ld, dout + at.out, at.out_ld, query, s.seq, D);
            __syncthreads();
            if (row <= query + l && query + l < s.seq) {
                p = expf(scale * dot(k + r * D, q + l * ld, D) - lse[at.row + query + l]);
                x = p * (dot(v + r * D, o + l * ld, D) - delta[at.row + query + l]);
            }
            cuda_attention_plain_gather(dv, p, o, ld, l, D);
            cuda_attention_plain_gather(dk, x, q, ld, l, D);
        }
    }
    if (row >= s.seq)
        return;
    store_row(dqkv + at.k + row * at.ld, dk, scale, l, D);
    store_row(dqkv + at.v + row * at.ld, dv, 1.0f, l, D);
}

static dim3 cuda_attention_plain_grid_of(const struct kern_heads *s, int64_t heads)
{
    return dim3((unsigned)(s->batch * heads), (unsigned)((s->seq + SIDE - 1) / SIDE));
}

template <typename T>
static void cuda_attention_plain_forward(void *stream, const struct kern_heads *s, T *out,
                                         float *lse, const T *qkv)
{
    int64_t D = s->head_dim, bytes = SIDE * (D + 2 * (D + 1)) * (int64_t)sizeof(float);

    KERN_SHARED_MOST(plain_forward_kernel<T>, bytes);
    KERN_LAUNCH(plain_forward_kernel<T>, cuda_attention_plain_grid_of(s, s->heads), dim3(ALL),
                bytes, stream, *s, out, lse, qkv);
}

template <typename T>
static void cuda_attention_plain_backward(void *stream, const struct kern_heads *s, T *dqkv,
                                          const T *dout, const T *out, const float *lse,
                                          const T *qkv, float *delta)
{
    int64_t D = s->head_dim, bytes = SIDE * (2 * D + 2 * (D + 1)) * (int64_t)sizeof(float);

    KERN_SHARED_MOST(plain_queries_kernel<T>, bytes);
    KERN_SHARED_MOST(plain_keys_kernel<T>, bytes);
    KERN_LAUNCH(plain_delta_kernel<T>, cuda_attention_plain_grid_of(s, s->heads), dim3(ALL), 0,
                stream, *s, delta, dout, out);
    KERN_LAUNCH(plain_queries_kernel<T>, cuda_attention_plain_grid_of(s, s->heads), dim3(ALL),
                bytes, stream, *s, dqkv, dout, lse, delta, qkv);
    KERN_LAUNCH(plain_keys_kernel<T>, cuda_attention_plain_grid_of(s, s->kv_heads), dim3(ALL),
                bytes, stream, *s, dqkv, dout, lse, delta, qkv);
}

extern "C" void kern_cuda_plain_forward(void *stream, enum dtype act,
                                        const struct kern_heads *s, void *out, float *lse,
                                        const void *qkv)
{
    if (act == DTYPE_F32)
        cuda_attention_plain_forward(stream, s, (float *)out, lse, (const float *)qkv);
    else
        cuda_attention_plain_forward(stream, s, (__nv_bfloat16 *)out, lse,
                                     (const __nv_bfloat16 *)qkv);
}

extern "C" void kern_cuda_plain_backward(void *stream, enum dtype act,
                                         const struct kern_heads *s, void *dqkv,
                                         const void *dout, const void *out, const float *lse,
                                         const void *qkv, void *scratch)
{
    float *delta = (float *)scratch;

    if (act == DTYPE_F32)
        cuda_attention_plain_backward(stream, s, (float *)dqkv, (const float *)dout,
                                      (const float *)out, lse, (const float *)qkv, delta);
    else
        cuda_attention_plain_backward(stream, s, (__nv_bfloat16 *)dqkv,
                                      (const __nv_bfloat16 *)dout, (const __nv_bfloat16 *)out,
                                      lse, (const __nv_bfloat16 *)qkv, delta);
}
