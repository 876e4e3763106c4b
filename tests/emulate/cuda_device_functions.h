/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CUDA_DEVICE_FUNCTIONS_H
#define CUDA_DEVICE_FUNCTIONS_H

/* The functions of a GPU's threads; cuda_runtime.h includes this. */
template <class T, class F> static inline T emulate_bits(F from)
{
    T to;

    static_assert(sizeof to == sizeof from, "as many bits");
    memcpy(&to, &from, sizeof to);
    return to;
}

static inline unsigned __float_as_uint(float x)
{
    return emulate_bits<unsigned>(x);
}
static inline float __uint_as_float(unsigned x)
{
    return emulate_bits<float>(x);
}
static inline long long __double_as_longlong(double x)
{
    return emulate_bits<long long>(x);
}
static inline double __longlong_as_double(long long x)
{
    return emulate_bits<double>(x);
}

/* The fast ones of a GPU are less exact than these. */
static inline float rsqrtf(float x)
{
    return 1.0f / sqrtf(x);
}
static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}

[[noreturn]] static inline void __trap(void)
{
    emulate_fail("trap");
}
static inline void __syncthreads(void)
{
    emulate_syncthreads();
}

/* What the lanes of a warp do together. */
static inline void emulate_nothing(unsigned, const void *const *, void *const *)
{
}
static inline void __syncwarp(unsigned mask = 0xffffffffu)
{
    emulate_warp(mask, emulate_nothing, nullptr, nullptr);
}

template <class T> struct emulate_sent {
    T value;
    int from;
};

template <class T>
static void emulate_shuffle(unsigned mask, const void *const in[32], void *const out[32])
{
    for (int l = 0; l < 32; l++) {
        if (!(mask >> l & 1))
            continue;
        int from = ((const emulate_sent<T> *)in[l])->from;
        if (!(mask >> from & 1))
            emulate_fail("lane %d asks lane %d, which is not in the mask 0x%08x", l, from,
                         mask);
        *(T *)out[l] = ((const emulate_sent<T> *)in[from])->value;
    }
}

template <class T> static inline T emulate_shuffled(unsigned mask, T value, int from)
{
    emulate_sent<T> sent = {value, from};
    T got;

    emulate_warp(mask, emulate_shuffle<T>, &sent, &got);
    return got;
}

template <class T> static inline T __shfl_sync(unsigned mask, T value, int lane, int width = 32)
{
    int first = emulate_lane() & ~(width - 1);

    return emulate_shuffled(mask, value, first + (lane & (width - 1)));
}
template <class T>
static inline T __shfl_xor_sync(unsigned mask, T value, int with, int width = 32)
{
    int lane = emulate_lane(), from = lane ^ with, end = (lane & ~(width - 1)) + width;

    return emulate_shuffled(mask, value, from < end ? from : lane);
}

static inline void emulate_ballot(unsigned mask, const void *const in[32], void *const out[32])
{
    unsigned votes = 0;

    for (int l = 0; l < 32; l++)
        if (mask >> l & 1)
            votes |= (unsigned)(*(const int *)in[l] != 0) << l;
    for (int l = 0; l < 32; l++)
        if (mask >> l & 1)
            *(unsigned *)out[l] = votes;
}
static inline unsigned __ballot_sync(unsigned mask, int vote)
{
    unsigned votes;

    emulate_warp(mask, emulate_ballot, &vote, &votes);
    return votes;
}

#endif
