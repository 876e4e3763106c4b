/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_CLONES_H
#define BASE_CLONES_H

/*
 * KERN_CLONES before a function builds it for several processors and picks at start.
 * Sanitizer builds define it empty: their start-up comes after the picking.  No trapping
 * math changes no result; without it a clamp does not become vector code.
 */
#ifndef KERN_CLONES
#define KERN_CLONES                                                                            \
    __attribute__((target_clones("avx512f", "avx2", "default"),                                \
                   optimize("O3", "no-trapping-math")))
#endif

#endif
