/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows which hosts are to run a collective next: all; and, as long as one is slow, its halves.
 *
 *     0..7 slow    0..3 slow    0..1 fine         only 0..3 together are slow
 *                  4..7 fine    2..3 fine
 */
#include "health/health_look.h"
#include "health/health_tour.h"

static int is_there(const struct health_data *d, int first, int count)
{
    for (int i = 0; i < d->collectives.count; i++)
        if (d->collectives.at[i].first == first && d->collectives.at[i].count == count)
            return 1;
    return 0;
}

int health_bisect(const struct health_data *d, const struct health_rules *rules, int *first,
                  int *count)
{
    if (!is_there(d, 0, d->hosts)) {
        *first = 0;
        *count = d->hosts;
        return 1;
    }
    for (int i = 0; i < d->collectives.count; i++) {
        const struct health_collective *c = &d->collectives.at[i];
        if (c->count < 4 ||
            !health_collective_late(c, rules)) /* two hosts at least in a half */
            continue;
        for (int upper = 0; upper < 2; upper++) {
            *first = c->first + (upper ? c->count / 2 : 0);
            *count = upper ? c->count - c->count / 2 : c->count / 2;
            if (!is_there(d, *first, *count))
                return 1;
        }
    }
    return 0;
}
