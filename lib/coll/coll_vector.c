/* SPDX-License-Identifier: BSD-3-Clause */
/* Prepares a collective over blocks for MPI, and allocates its buffers. */
#include "coll/coll_vector.h"

#include "base/mem.h"
#include "coll/coll.h"

int coll_vector_open(struct coll_vector *v, struct world *world, const struct groups *groups,
                     const struct coll_vector_spec *spec, struct err *err)
{
    int64_t elem_bytes = spec->elem_bytes ? spec->elem_bytes : dtype_bytes(spec->type);
    struct coll_vector new = {.world = world};
    struct exec_mpi_options options = {0};
    struct exec_rows rows = {0};
    int64_t in, out;

    coll_vector_mine(spec, world->rank, world->ranks, &in, &out);
    new.in_bytes = elem_bytes *in;
    new.out_bytes = elem_bytes *out;
    options.shared_bytes = arena_space(new.in_bytes) + arena_space(new.out_bytes);
    options.window_bytes = coll_window_bytes(groups);
    int rc = coll_vector_rows(spec, groups, world->rank, &rows, err);
    new.slow_bytes = rows.slow_bytes;
    new.fast_bytes = rows.fast_bytes;
    new.memory_bytes = options.shared_bytes + rows.scratch_bytes;
    if (world_agree(world, rc, err) == 0 &&
        exec_mpi_open(&new.exec, world, &options, err) == 0 &&
        exec_mpi_prepare(new.exec, &rows, &new.handle, err) == 0) {
        new.in = new.in_bytes ? exec_mpi_take(new.exec, new.in_bytes) : NULL;
        new.out = new.out_bytes ? exec_mpi_take(new.exec, new.out_bytes) : NULL;
        *v = new;
        return 0;
    }
    exec_rows_release(&rows); /* empty if exec_mpi_prepare has taken them */
    coll_vector_close(&new);
    return -1;
}

void coll_vector_close(struct coll_vector *v)
{
    exec_mpi_free(v->handle);
    exec_mpi_close(v->exec);
    *v = (struct coll_vector){0};
}

static int start(void *arg, struct err *err)
{
    struct coll_vector *v = arg;

    exec_mpi_set(v->handle, v->in, v->out, NULL);
    return exec_mpi_start(v->handle, err);
}

static enum stream_state poll(void *arg, struct err *err)
{
    struct coll_vector *v = arg;

    return exec_mpi_poll(v->handle, err);
}

struct stream_op coll_vector_op(struct coll_vector *v)
{
    return (struct stream_op){start, poll, v};
}
