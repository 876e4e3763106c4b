/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_CLONES_H
#define BASE_CLONES_H

/*
 * KERN_CLONES before a function builds it for several processors and picks at start.  Levels,
 * not single features: 16-bit elements want AVX512BW as well (twice the speed of bf16 sums).
 * Sanitizer builds define it empty: their start-up comes after the picking.  No trapping
 * math changes no result; without it a clamp does not become vector code.
 */
#ifndef KERN_CLONES
#define KERN_CLONES                                                                            \
    __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"),               \
                   optimize("O3", "no-trapping-math")))
#endif

/*
 * Floating-point functions that loops under KERN_CLONES call: other options than the caller's
 * keep the compiler from inlining, and a call keeps the loop from becoming vector code.
 */
#define KERN_INLINE static inline __attribute__((always_inline))

#endif
