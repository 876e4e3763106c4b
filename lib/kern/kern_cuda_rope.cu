/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Applies rotary positions.  A thread has N elements of the first half of a head and their
 * partners in the second, in up to HEADS heads of a row, which rotate by the same angles; if
 * only a part of a head rotates, the halves are that part's:
 *
 *     thread   group  of groups = ceil(heads / HEADS);  heads group, group + groups, ...
 *              column of half / N
 */
#include "kern/kern_cuda_pack.h"
#include "kern/kern_launch.h"

extern "C" {
#include "kern/kern_cuda.h"
}

/* BLOCKS on a processor at once: 128 KiB of heads are in flight, within 64 registers. */
enum { THREADS = 256, HEADS = 4, BLOCKS = 4 };

struct rotation {
    int64_t ld, rows, seq;
    int heads, groups, half, head; /* elements of half of the rotated part, of a head */
    float sign;
};

template <int N, class T>
__global__ __launch_bounds__(THREADS, BLOCKS) void rope_kernel(T *x, const float *table,
                                                               rotation s)
{
    const int columns = s.half / N, each = s.groups * columns;
    int64_t item = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    int64_t row = item >> 32 ? item / each : (int64_t)((uint32_t)item / (uint32_t)each);
    int rest = (int)(item - row * each), group = rest / columns;
    int column = (rest - group * columns) * N;
    int64_t t = row >> 32 || s.seq >> 32 ? row % s.seq : (uint32_t)row % (uint32_t)s.seq;
    kern_pack<T, N> low[HEADS], high[HEADS];

    if (row >= s.rows)
        return;
    x += row * s.ld + column;
    table += t * 2 * s.half + column;
    kern_pack<float, N> cosine = kern_load<N>(table), sine = kern_load<N>(table + s.half);
    /* No branches here, so that all loads overlap.  Beyond the last head the last is loaded
     * again. */
#pragma unroll
    for (int k = 0; k < HEADS; k++) {
        const T *head = x + (int64_t)min(group + k * s.groups, s.heads - 1) * s.head;

        low[k] = kern_load<N>(head);
        high[k] = kern_load<N>(head + s.half);
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        sine.at[i] *= s.sign;
#pragma unroll
    for (int k = 0; k < HEADS; k++)
        if (group + k * s.groups < s.heads) {
            T *head = x + (int64_t)(group + k * s.groups) * s.head;
            float r[N], q[N];

#pragma unroll
            for (int i = 0; i < N; i++) {
                float a = kern_at(low[k], i), b = kern_at(high[k], i);

                r[i] = a * cosine.at[i] - b * sine.at[i];
                q[i] = b * cosine.at[i] + a * sine.at[i];
            }
            kern_store<N>(head, kern_round_pack<T, N>(r));
            kern_store<N>(head + s.half, kern_round_pack<T, N>(q));
        }
}

template <int N, class T> static void launch(void *stream, T *x, const float *table, rotation s)
{
    int64_t items = s.rows * s.groups * (s.half / N);
    auto kernel = rope_kernel<N, T>;

    KERN_LAUNCH(kernel, (unsigned)kern_ceil(items, THREADS), THREADS, 0, stream, x, table, s);
}

template <class T> static void rope(void *stream, T *x, const float *table, rotation s)
{
    const int full = kern_full<T>::n;

    if (s.half % full == 0 && s.head % full == 0 && s.ld % full == 0 && kern_fits(x, full) &&
        kern_fits(table, full))
        launch<full>(stream, x, table, s);
    else
        launch<1>(stream, x, table, s);
}

extern "C" void kern_cuda_rope(struct kern *k, void *x, int64_t ld, const float *table,
                               int64_t batch, int64_t seq, int64_t heads, int64_t head_dim,
                               int64_t rotary, int back)
{
    rotation s = {ld,
                  batch * seq,
                  seq,
                  (int)heads,
                  (int)kern_ceil(heads, HEADS),
                  (int)(rotary / 2),
                  (int)head_dim,
                  back ? -1.0f : 1.0f};

    if (s.rows <= 0 || heads <= 0 || s.half <= 0)
        return;
    KERN_BY_TYPE(k->act, T, rope(kern_cuda_stream(k), (T *)x, table, s));
    kern_cuda_check(k, "rope");
}
