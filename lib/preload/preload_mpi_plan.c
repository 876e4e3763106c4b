/* SPDX-License-Identifier: BSD-3-Clause */
/* Prepares and runs one call.  Leaves the decision to preload_mpi_comm.c. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "preload/preload_mpi_plan.h"
#include "world/world_mpi.h"

int preload_mpi_plan_is(const struct preload_mpi_plan *p, const struct preload_mpi_shape *s)
{
    const struct preload_mpi_shape *a = &p->shape;

    return a->hash == s->hash && a->phases == s->phases && a->root == s->root &&
           a->kind == s->kind && a->elem_bytes == s->elem_bytes && a->elems == s->elems &&
           a->bytes == s->bytes && !a->each == !s->each &&
           (!a->each ||
            memcmp(a->each, s->each, (size_t)p->vector.world->ranks * sizeof *a->each) == 0);
}

int64_t preload_mpi_plan_bytes(const struct preload_mpi_shape *s, int ranks)
{
    /* elements of the largest block, or without blocks of the whole vector */
    int64_t most = s->elems;

    for (int r = 0; s->each && r < ranks; r++)
        most = s->each[r] > most ? s->each[r] : most;
    return s->bytes + most * s->elem_bytes;
}

static int open_vector(struct preload_mpi_plan *p, struct world *world,
                       const struct paro_fabric *fabric, struct err *err)
{
    const struct preload_mpi_shape *s = &p->shape;
    int64_t *count = mem_new((size_t)world->ranks, sizeof *count);
    struct coll_vector_spec spec = {.phases = s->phases,
                                    .count = count,
                                    .elems = s->elems,
                                    .root = s->root,
                                    .type = DTYPE_U8,
                                    .levels = fabric->levels,
                                    .block = fabric->block};

    for (int r = 0; r < world->ranks; r++)
        count[r] = s->each ? s->each[r] : s->elems;
    if (s->kind) {
        spec.elem_bytes = s->elem_bytes;
        spec.combine = paro_combine;
        spec.combine_arg = &p->combine;
    }
    int rc = paro_fabric_choose(fabric, world, s->phases, s->bytes, &spec.algo,
                                &spec.chunk_bytes, err);
    if (rc == 0)
        rc = coll_vector_open(&p->vector, world, &fabric->groups, &spec, err);
    if (rc == 0) {
        double slow_s = paro_fabric_bound_s(fabric, s->phases, s->root, s->bytes,
                                            p->vector.fast_bytes, &p->bound_s);
        p->bound_s = fmax(slow_s, p->bound_s);
    }
    mem_free(count);
    return rc;
}

int preload_mpi_plan_new(struct preload_mpi_plan **out, const struct preload_mpi_call *c,
                         const struct preload_mpi_shape *s, struct world *world,
                         const struct paro_fabric *fabric, struct err *err)
{
    struct preload_mpi_plan *p = mem_new(1, sizeof *p);
    size_t ranks = (size_t)world->ranks;

    p->shape = *s;
    p->bytes = preload_mpi_plan_bytes(s, world->ranks);
    if (s->each) {
        int64_t *each = mem_new(ranks, sizeof *each);
        memcpy(each, s->each, ranks * sizeof *each);
        p->shape.each = each;
    }
    if (s->kind)
        (void)paro_combine_init(&p->combine, c->type, c->op); /* as for the shape */
    if (open_vector(p, world, fabric, err)) {
        preload_mpi_plan_free(p);
        return -1;
    }
    *out = p;
    return 0;
}

void preload_mpi_plan_free(struct preload_mpi_plan *p)
{
    coll_vector_close(&p->vector);
    mem_free((void *)(uintptr_t)p->shape.each);
    mem_free(p);
}

int preload_mpi_plan_run(struct preload_mpi_plan *p, const struct preload_mpi_call *c,
                         int packs)
{
    struct coll_vector *v = &p->vector, turn = *v;
    struct world *w = v->world;
    struct preload_mpi_ends e = {w->rank, w->ranks, packs, w->mpi->all, v->in, v->out};
    struct err err = {0};

    if (w->node_ranks == 1 && !packs)
        preload_mpi_stage_place(c, &e);
    else if (c->form == PRELOAD_BCAST && w->rank == c->root)
        e.out = e.in; /* no copy between the two for the root's data */
    turn.in = e.in;
    turn.out = e.out;
    int rc = preload_mpi_stage_in(c, &e);
    if (rc == MPI_SUCCESS && stream_drive(coll_vector_op(&turn), &err))
        rc = MPI_ERR_OTHER;
    if (rc == MPI_SUCCESS)
        rc = preload_mpi_stage_out(c, &e);
    if (rc != MPI_SUCCESS)
        PMPI_Comm_call_errhandler(c->comm, rc);
    return rc;
}
