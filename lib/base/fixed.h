/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_FIXED_H
#define BASE_FIXED_H

#include <stdint.h>

/*
 * A sum of doubles in fixed point, 128 bits with 80 fraction bits.  Its bits do not depend on
 * the order and grouping of the terms.  Each term is rounded once, to the nearest multiple of
 * 2^-80, ties to even.
 *
 *     sign | 47 bits . 80 bits       up to 1.4e14 in steps of 8.3e-25
 *
 * A term that is not finite, or a sum out of range, sets `over`: its value and that of every
 * sum that includes it is NaN.
 */
struct fixed {
    uint64_t hi, lo; /* two's complement */
    int64_t over;
};

void fixed_add(struct fixed *sum, double term);
void fixed_join(struct fixed *sum, const struct fixed *other); /* sum += other */
double fixed_value(const struct fixed *sum);                   /* rounded to nearest */

#endif
