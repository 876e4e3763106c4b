/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef GROUPS_FIXTURE_H
#define GROUPS_FIXTURE_H

/* Makes the groups of a program that runs under mpirun, as a test says them. */
#include "world/world.h"
#include "../unit/plain_fixture.h"

/* 2x2, [3,2], "hosts" as the ranks lie on them, or each rank's group, 0,1,0,1,0. */
static inline int read_groups(struct world *w, const char *text, struct groups *out)
{
    int *group_of = mem_new((size_t)w->ranks, sizeof *group_of), n = 0, rc = 0;

    if (strcmp(text, "hosts") == 0) {
        groups_copy(out, &w->groups);
    } else if (strspn(text, "0123456789,") == strlen(text)) {
        for (const char *p = text; p && n < w->ranks; p = strchr(p, ',')) {
            p += *p == ',';
            group_of[n++] = atoi(p);
        }
        rc = groups_init_of(out, n, group_of, &err);
    } else {
        rc = groups_parse(out, text, &err);
    }
    mem_free(group_of);
    return rc;
}

#endif
