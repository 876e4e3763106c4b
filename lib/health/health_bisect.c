/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows which hosts are to run a collective next: all; and, as long as one is slow, its halves.
 *
 *     0..7 slow    0..3 slow    0..1 fine         only 0..3 together are slow
 *                  4..7 fine    2..3 fine
 *
 * Slow is what is slow HEALTH_LOOKS times in a row: one look is a second at most, in which any
 * of the streams may meet another program's.
 */
#include "health/health_look.h"
#include "health/health_tour.h"

int health_bisect(const struct health_data *d, const struct health_rules *rules, int *first,
                  int *count)
{
    *first = 0;
    *count = d->hosts;
    if (!health_collective_best(d, 0, d->hosts, NULL))
        return 1;
    for (int i = 0; i < d->collectives.count; i++) {
        const struct health_collective *c = &d->collectives.at[i];
        int looks;
        *first = c->first;
        *count = c->count;
        if (!health_collective_late(health_collective_best(d, *first, *count, &looks), rules))
            continue;
        if (looks < HEALTH_LOOKS)
            return 1;
        for (int upper = 0; upper < 2 && c->count >= 4; upper++) { /* two hosts in a half */
            *first = c->first + (upper ? c->count / 2 : 0);
            *count = upper ? c->count - c->count / 2 : c->count / 2;
            if (!health_collective_best(d, *first, *count, NULL))
                return 1;
        }
    }
    return 0;
}
