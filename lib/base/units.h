/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_UNITS_H
#define BASE_UNITS_H

#include <stdint.h>

/* Prints numbers for people.  Each function writes into `text` and returns it, for use as an
   argument of printf. */
struct units {
    char text[32];
};

const char *units_bytes(struct units *u, double bytes); /* "64.0 MiB" */
/* "59.8 MB": traffic, in the unit of rates */
const char *units_sent(struct units *u, double bytes);
const char *units_rate(struct units *u, double Bps);     /* "59.8 MB/s" (1e6 B/s) */
const char *units_time(struct units *u, double seconds); /* "3.20 ms" */
const char *units_count(struct units *u, double count);  /* "6.74 G" */
/* "1.250", "12560": 4 digits or all before the point; never an exponent, so that it can be
   parsed */
const char *units_fixed(struct units *u, double value);
const char *units_whole(struct units *u, double value); /* "12560": rounded to the nearest */
const char *units_plain(struct units *u, double value); /* "2.5", "1e-05": 6 digits */

#endif
