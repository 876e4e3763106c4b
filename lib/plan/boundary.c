/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows which boundaries of a fabric are searched for a plan's groups. */
#include "plan/boundary.h"

static void add(struct plan_boundaries *b, int level)
{
    b->level[b->count] = level;
    topo_at_boundary(b->whole, level, &b->topo[b->count++]);
}

int plan_boundaries_init(struct plan_boundaries *b, const struct topo *whole, int asked,
                         struct err *err)
{
    int all = topo_boundaries(whole);

    if (asked >= all)
        return err_set(err, ERR_MISMATCH,
                       "--group-level: %d, expected 0 to %d or auto: the fabric has %d levels",
                       asked, all - 1, whole->levels);
    *b = (struct plan_boundaries){.whole = whole, .asked = asked};
    if (asked >= 0)
        add(b, asked);
    for (int level = 0; asked < 0 && level < all; level++)
        if (topo_boundary_is_new(whole, level))
            add(b, level);
    if (b->count == 0)
        add(b, 0);
    return 0;
}

void plan_boundaries_release(struct plan_boundaries *b)
{
    for (int i = 0; i < b->count; i++)
        topo_release(&b->topo[i]);
    *b = (struct plan_boundaries){0};
}
