/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_NUM_H
#define BASE_NUM_H

#include <stdint.h>

#include "base/err.h"

/*
 * Strict numbers: the whole text must be the number (no trailing text, no octal, no spaces, no
 * NaN, no infinity).  ERR_INPUT: "'12abc', expected a whole number from 0 to 9"; callers add
 * the option or key with err_prefix.
 */
int num_i64(const char *text, int64_t lo, int64_t hi, int64_t *out, struct err *err);
/* Whole numbers, exponents and powers of 1000: 80e9, 1.5e3, 7B (billion), 10K. */
int num_count(const char *text, int64_t lo, int64_t hi, int64_t *out, struct err *err);
int num_f64(const char *text, double lo, double hi, double *out, struct err *err);
/* Operations per second and similar, with powers of 1000: 400T. */
int num_per_s(const char *text, double lo, double hi, double *out, struct err *err);
/* Bytes: 4096, 80e9, 64Mi, 64M, 64K (powers of 1024), 1.5GB (powers of 1000).  A fraction such
   as 31.8Gi is rounded to the nearest byte. */
int num_bytes(const char *text, int64_t lo, int64_t hi, int64_t *out, struct err *err);
/*
 * 200GB/s, 59.8MB/s, 25e9B/s (bytes per s), 500mbit, 1gbit, 400Gbit/s (bits per s); the result
 * is bytes per s.  A unit is required: some tools use bytes without a unit, others bits.
 */
int num_rate(const char *text, double *out_Bps, struct err *err);
/* Seconds from 3us, 1.5ms, 10s, 250ns, 2min, 0.5 (s). */
int num_time(const char *text, double *out_s, struct err *err);

#endif
