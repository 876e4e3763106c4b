/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how all ranks come to the same tuning table: rank 0's text goes to the others, and
 * every rank reads that, rank 0 too, so that all have passed through the same decimals.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "coll/coll.h"
#include "coll/coll_tuning.h"

/* Rank 0's text; owned by the caller (mem_free). */
static int make_text(const char *file, const struct topo *t, const struct pick_ask *ask,
                     char **text, struct err *err)
{
    struct pick_table table;
    size_t bytes = 0;

    if (file ? pick_table_read(&table, file, err) : pick_table_make(t, ask, &table, err))
        return -1;
    FILE *f = mem_stream(text, &bytes);
    pick_table_print(&table, PICK_YAML, f);
    fclose(f);
    pick_table_release(&table);
    return 0;
}

int coll_tuning(struct world *world, const char *file, const struct topo *t,
                const struct pick_ask *ask, struct pick_table *out, struct err *err)
{
    char *text = NULL;
    int rc = world->rank == 0 ? make_text(file, t, ask, &text, err) : 0;

    rc = world_agree(world, rc, err);
    if (rc == 0)
        rc = world_bcast_text(world, &text, err);
    if (rc == 0)
        rc = world_agree(world, pick_table_parse(out, "tuning", text, err), err);
    mem_free(text);
    return rc;
}
