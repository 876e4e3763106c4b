/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CUDA_WARP_FUNCTIONS_H
#define CUDA_WARP_FUNCTIONS_H

/* What the lanes of a warp do together; cuda_runtime.h includes this. */
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
template <class T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32)
{
    int lane = emulate_lane(), from = lane + (int)by, end = (lane & ~(width - 1)) + width;

    return emulate_shuffled(mask, value, from < end ? from : lane);
}
template <class T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32)
{
    int lane = emulate_lane(), from = lane - (int)by, first = lane & ~(width - 1);

    return emulate_shuffled(mask, value, from >= first ? from : lane);
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
static inline int __any_sync(unsigned mask, int vote)
{
    return __ballot_sync(mask, vote) != 0;
}
static inline int __all_sync(unsigned mask, int vote)
{
    return __ballot_sync(mask, vote) == mask;
}

#endif
