/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdint.h>

/*
 * Counter-based random numbers (Philox 4x32-10: Salmon et al., "Parallel Random Numbers: As
 * Easy as 1, 2, 3", SC 2011).  A value is a function of (seed, stream, index) only: any rank
 * can compute any element directly, with the same result on every machine.
 */
void rng_block(uint64_t seed, uint64_t stream, uint64_t index, uint32_t out[4]);
uint64_t rng_u64(uint64_t seed, uint64_t stream, uint64_t index);
/* Uniform in [0, 1): 53 bits. */
double rng_uniform(uint64_t seed, uint64_t stream, uint64_t index);
/*
 * Mean 0, variance 1, |value| <= 6: the sum of twelve uniforms (Irwin-Hall).  Uses only integer
 * sums and one exact scaling, no libm, so the bits are the same on every machine.
 */
double rng_normal(uint64_t seed, uint64_t stream, uint64_t index);
/* A stream number from a name (FNV-1a, 64 bits). */
uint64_t rng_stream(const char *name);

#endif
