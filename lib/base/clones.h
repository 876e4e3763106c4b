/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_CLONES_H
#define BASE_CLONES_H

/*
 * Put KERN_CLONES in front of a function to compile it for several x86 processors; one is
 * selected when the program starts.  Uses levels instead of single features, since 16-bit
 * elements also need AVX512BW (bf16 sums are twice as fast).  Sanitizer builds define it empty:
 * their start-up comes after the selection.  no-trapping-math changes no result, but clamps
 * need it to be vectorized.  no-thread-jumps: else both sides of a clamp are computed to their
 * end, and of gate / (1 + exp(88)) that is a denormal number, 80 cycles.
 */
#ifdef __x86_64__
#define KERN_LEVELS target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"),
#else
#define KERN_LEVELS
#endif
#ifndef KERN_CLONES
#define KERN_CLONES                                                                            \
    __attribute__((KERN_LEVELS optimize("O3", "no-trapping-math", "no-thread-jumps")))
#endif

/*
 * For floating-point functions called in loops under KERN_CLONES: the compiler does not inline
 * a function whose options differ from the caller's, and a call keeps the loop from being
 * vectorized.
 */
#define KERN_INLINE static inline __attribute__((always_inline))

#endif
