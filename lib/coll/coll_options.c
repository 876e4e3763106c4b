/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Evaluates the options that collectives are opened with: chooses the transport of GPU memory,
 * and brings the same tuning table to all ranks.
 */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "coll/coll.h"
#include "exec/exec_nccl.h"

int coll_transport_choose(enum coll_transport *out, const char *requested, const char *name,
                          const struct device *device, int ranks, struct err *err)
{
    *out = COLL_MPI;
    if (!requested || !strcmp(requested, "auto")) {
        if (!strcmp(name, "cuda") && ranks > 1 && exec_nccl_built())
            *out = COLL_NCCL;
        return 0;
    }
    if (!strcmp(requested, "mpi"))
        return 0;
    if (strcmp(requested, "nccl") != 0)
        return err_set(err, ERR_INPUT, "--transport '%s', expected mpi, nccl or auto",
                       requested);
    if (device_kind(device) == DEVICE_CPU)
        return err_set(err, ERR_INPUT,
                       "--transport nccl on the device 'cpu', expected a GPU's");
    if (!exec_nccl_built())
        return err_set(
            err, ERR_ABSENT,
            "--transport nccl, but this build of paro has no NCCL: make CUDA=1, with "
            "nccl.h");
    *out = COLL_NCCL;
    return 0;
}

/* Prints rank 0's table to text, owned by the caller (mem_free). */
static int make_text(const char *file, const struct topo *t, const struct pick_query *query,
                     char **text, struct err *err)
{
    struct pick_table table;
    size_t bytes = 0;

    if (file ? pick_table_read(&table, file, err) : pick_table_make(t, query, &table, err))
        return -1;
    FILE *f = mem_stream(text, &bytes);
    pick_table_print(&table, PICK_YAML, f);
    fclose(f);
    pick_table_release(&table);
    return 0;
}

/*
 * Broadcasts rank 0's text.  Every rank parses it, rank 0 too, so that all have numbers read
 * from the same decimals.
 */
int coll_tuning(struct world *world, const char *file, const struct topo *t,
                const struct pick_query *query, struct pick_table *out, struct err *err)
{
    char *text = NULL;
    int rc = world->rank == 0 ? make_text(file, t, query, &text, err) : 0;

    rc = world_agree(world, rc, err);
    if (rc == 0)
        rc = world_bcast_text(world, &text, err);
    if (rc == 0)
        rc = world_agree(world, pick_table_parse(out, "tuning", text, err), err);
    mem_free(text);
    return rc;
}
