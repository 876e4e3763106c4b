/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef HEALTH_HEALTH_SUM_H
#define HEALTH_HEALTH_SUM_H

#include <stdint.h>

/* Inside health/: the checksum that a file ends with, 128 bits of XXH3 in 32 digits. */
enum { HEALTH_SUM = 33 };
void health_sum(const void *data, int64_t bytes, char hex[HEALTH_SUM]);

#endif
