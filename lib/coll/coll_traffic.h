/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef COLL_COLL_TRAFFIC_H
#define COLL_COLL_TRAFFIC_H

#include <stdint.h>

#include "base/err.h"
#include "base/groups.h"

struct coll;

/* Bytes of one rank, as they travel: to and from other groups, and sent inside its own. */
struct coll_traffic {
    int64_t slow_out, slow_in, fast_out;
};

/* sum += times * one. */
void coll_traffic_add(struct coll_traffic *sum, const struct coll_traffic *one, int64_t times);
/* all[ranks]: through the busiest port in its busier direction, and inside a group by the rank
 * that sends most. */
void coll_traffic_busiest(const struct groups *g, const struct coll_traffic *all,
                          int64_t *slow_bytes, int64_t *fast_bytes);

/* Collective: coll_traffic_busiest of what each rank hands in. */
int coll_traffic_most(struct coll *c, const struct coll_traffic *mine, int64_t *slow_bytes,
                      int64_t *fast_bytes, struct err *err);

#endif
