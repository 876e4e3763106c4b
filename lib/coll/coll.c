/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Turns a conversion between two layouts into a schedule over places.  Leaves its purpose to
 * engine and bench, and the execution of rows to exec.
 */
#include "coll/coll_inside.h"

#include <string.h>

#include "base/mem.h"
#include "exec/exec_nccl.h"

/*
 * Bytes in flight through a port, each way: enough to keep it busy while a rank waits for a
 * core (30 ms at 1 Gbit/s), and no more, since a longer queue delays data that other ranks wait
 * for.  The rails share the bytes.  Measured as a share of the bound, all-reduce, 64 MiB: 4x2
 * (two rails) 0.98 with 2 MiB a rail and 0.93 with 1 MiB; [4,4,3] (six rails) 0.89 with 2 MiB
 * and 0.94 with 512 KiB.
 */
enum { PORT_WINDOW_BYTES = 4 << 20, WINDOW_MOST = 2 << 20, WINDOW_LEAST = 256 << 10 };

static int64_t coll_window_of(int segments)
{
    int64_t share = PORT_WINDOW_BYTES / segments;

    return share > WINDOW_MOST ? WINDOW_MOST : share < WINDOW_LEAST ? WINDOW_LEAST : share;
}

int64_t coll_window_bytes(const struct groups *groups)
{
    struct layout l;

    layout_init(&l, groups);
    int64_t bytes = coll_window_of(l.segments);
    layout_release(&l);
    return bytes;
}

static int sends(const struct coll_spec *spec, int rank)
{
    return spec->phases != SCHEDULE_BROADCAST || spec->root == rank;
}

int coll_rows(const struct coll *c, const struct coll_spec *spec, int rank,
              struct exec_rows *out, struct err *err)
{
    const struct layout *l = &c->layout;
    unsigned sums = spec->phases & SCHEDULE_REDUCE_SCATTER;
    int64_t chunk_bytes = spec->chunk_bytes ? spec->chunk_bytes : PICK_CHUNK_USUAL;
    int subchunks = layout_subchunks(l, spec->phases, spec->algo, spec->elems,
                                     dtype_bytes(spec->type), chunk_bytes);
    struct schedule_spec want =
        layout_spec(l, c->levels, c->block, spec->phases, spec->algo, subchunks);
    struct exec_places places;
    struct schedule s;

    if (spec->redop == DTYPE_AVG && sums && sums != SCHEDULE_REDUCE_SCATTER)
        return err_set(err, ERR_INPUT, "an average over a part of the ranks, expected a sum");
    want.root = spec->root;
    if (schedule_gen(&want, rank, &s, err))
        return -1;
    struct range *in = mem_new((size_t)layout_ranges_max(l), sizeof *in);
    struct range *to = mem_new((size_t)layout_ranges_max(l), sizeof *to);
    int even = layout_even(spec->phases, spec->algo);
    int ins = sends(spec, rank) ? layout_ranges(l, spec->from, rank, spec->elems, in) : 0;
    int tos = layout_ranges(l, spec->to, rank, spec->elems, to);
    exec_places_init(&places, l->segments * l->groups.count * subchunks, spec->type);
    places.redop = spec->redop;
    places.code = spec->code;
    for (int i = 0; i < places.chunks; i++) {
        struct range r = layout_chunk(l, spec->elems, even, subchunks, i);
        places.elems[i] = r.hi - r.lo;
        if (places.elems[i]) {
            places.in_at[i] = layout_offset(in, ins, r.lo);
            places.out_at[i] = layout_offset(to, tos, r.lo);
        }
    }
    mem_free(in);
    mem_free(to);
    int rc = exec_rows_init(out, &s, rank, &places, err);
    exec_places_release(&places);
    schedule_release(&s);
    return rc;
}

int coll_open(struct coll *c, struct world *world, const struct groups *groups,
              const struct coll_options *options, struct err *err)
{
    struct coll new = {.world = world, .tuning = options->tuning};
    struct exec_mpi_options exec = {.shared_bytes =
                                        options->shared_bytes + coll_stages_bytes(options),
                                    .window_bytes = options->window_bytes,
                                    .no_shared = options->no_shared};

    if (groups->ranks != world->ranks)
        return err_set(err, ERR_MISMATCH, "groups of %d ranks, but %d ranks run", groups->ranks,
                       world->ranks);
    if (options->tuning && pick_table_check(options->tuning, groups, err))
        return -1;
    layout_init(&new.layout, groups);
    if (options->grain)
        new.layout.grain = options->grain;
    if (!exec.window_bytes)
        exec.window_bytes = coll_window_of(new.layout.segments);
    if (options->levels > 2) {
        size_t cells = (size_t)(options->levels - 2) * (size_t)groups->count;
        new.levels = options->levels;
        new.block = mem_new(cells, sizeof(int));
        memcpy(new.block, options->block, cells * sizeof(int));
    }
    coll_meter_init(&new, options);
    if (exec_mpi_open(&new.exec, world, &exec, err))
        goto fail;
    if (options->transport == COLL_NCCL &&
        exec_nccl_open_world(&new.nccl, world, options->device, 0, err))
        goto fail;
    int rc = coll_stages_open(&new, options, err);
    if (rc == 0)
        rc = runner_open(&new.runner, err);
    if (world_agree(world, rc, err))
        goto fail;
    *c = new;
    return 0;
fail:
    coll_close(&new);
    return -1;
}

void coll_close(struct coll *c)
{
    runner_close(c->runner);
    coll_stages_close(c);
    exec_nccl_close(c->nccl);
    exec_mpi_close(c->exec);
    layout_release(&c->layout);
    mem_free(c->block);
    *c = (struct coll){0};
}

void *coll_take(struct coll *c, int64_t bytes)
{
    return exec_mpi_take(c->exec, bytes);
}

void coll_traffic_add(struct coll_traffic *sum, const struct coll_traffic *one, int64_t times)
{
    sum->slow_out += times * one->slow_out;
    sum->slow_in += times * one->slow_in;
    sum->fast_out += times * one->fast_out;
}

void coll_traffic_busiest(const struct groups *g, const struct coll_traffic *all,
                          int64_t *slow_bytes, int64_t *fast_bytes)
{
    *slow_bytes = *fast_bytes = 0;
    for (int k = 0; k < g->count; k++) {
        struct coll_traffic port = {0};
        for (int j = 0; j < g->members[k]; j++) {
            const struct coll_traffic *one = &all[groups_rank(g, k, j)];
            coll_traffic_add(&port, one, 1);
            *fast_bytes = one->fast_out > *fast_bytes ? one->fast_out : *fast_bytes;
        }
        int64_t busier = port.slow_in > port.slow_out ? port.slow_in : port.slow_out;
        *slow_bytes = busier > *slow_bytes ? busier : *slow_bytes;
    }
}

int coll_traffic_most(struct coll *c, const struct coll_traffic *mine, int64_t *slow_bytes,
                      int64_t *fast_bytes, struct err *err)
{
    const struct groups *g = &c->layout.groups;
    struct coll_traffic *all = mem_new((size_t)g->ranks, sizeof *all);
    int rc = world_allgather(c->world, mine, sizeof *mine, all, err);

    if (rc == 0)
        coll_traffic_busiest(g, all, slow_bytes, fast_bytes);
    mem_free(all);
    return rc;
}

/* Chooses the algorithm and the chunk for auto. */
static int coll_choose(const struct coll *c, struct coll_spec *spec, struct err *err)
{
    int64_t bytes = spec->elems * dtype_bytes(spec->type);
    const struct pick_rule *rule = NULL;
    struct pick_word word;

    if (spec->algo != SCHEDULE_AUTO)
        return 0;
    if (!c->tuning)
        return err_set(err, ERR_INPUT, "algorithm 'auto' without a tuning table, expected one");
    if (!spec->phases) { /* no rank sends anything, whatever the algorithm */
        spec->algo = SCHEDULE_RING;
        return 0;
    }
    rule = pick_find(c->tuning, spec->phases, bytes);
    if (!rule)
        return err_set(err, ERR_INPUT, "the tuning table has no rules for %s, expected some",
                       pick_phases_name(spec->phases, &word));
    spec->algo = rule->algo;
    spec->chunk_bytes = rule->chunk_bytes;
    return 0;
}

/* Prepares the rows with the handle's executor. */
static int prepare_runs(struct coll *c, struct coll_handle *h, struct exec_rows *rows,
                        struct err *err)
{
    int rc;

    if (c->nccl && !h->spec.code) {
        h->scratch_bytes = 0;
        rc = exec_nccl_prepare(c->nccl, rows, &h->nccl, err);
    } else {
        rc = exec_mpi_prepare(c->exec, rows, &h->exec, err);
        if (rc || !c->stages) /* same outcome on all ranks */
            return rc;
        rc = coll_stages_use(h, err);
    }
    if (world_agree(c->world, rc, err) == 0)
        return 0;
    exec_nccl_free(h->nccl);
    exec_mpi_free(h->exec);
    return -1;
}

int coll_prepare(struct coll *c, const struct coll_spec *spec, struct coll_handle *out,
                 struct err *err)
{
    struct coll_handle h = {.spec = *spec, .coll = c};
    struct exec_rows rows = {0};
    int rank = c->world->rank, size = dtype_bytes(spec->type);

    /* Table and spec are the same on all ranks, hence so is the outcome. */
    if (coll_choose(c, &h.spec, err))
        return -1;
    int rc = coll_rows(c, &h.spec, rank, &rows, err);
    if (sends(spec, rank))
        h.bytes[0] = layout_elems(&c->layout, spec->from, rank, spec->elems) * size;
    h.bytes[1] = layout_elems(&c->layout, spec->to, rank, spec->elems) * size;
    h.scratch_bytes = rows.scratch_bytes;
    h.residual_elems = rows.residual_elems;
    h.mine = (struct coll_traffic){rows.slow_bytes, rows.slow_in_bytes, rows.fast_bytes};
    rc = world_agree(c->world, rc, err);
    if (rc == 0)
        rc = coll_traffic_most(c, &h.mine, &h.slow_bytes, &h.fast_bytes_rank, err);
    if (rc == 0)
        rc = prepare_runs(c, &h, &rows, err);
    exec_rows_release(&rows);
    if (rc == 0)
        *out = h;
    return rc;
}

void coll_free(struct coll_handle *h)
{
    struct err ignored;

    if (h->stream)
        (void)stream_wait(h->stream, h->ticket, &ignored);
    exec_mpi_free(h->exec);
    exec_nccl_free(h->nccl);
    *h = (struct coll_handle){0};
}

int64_t coll_push(struct stream *s, struct coll_call *call)
{
    call->handle->stream = s;
    call->handle->ticket = stream_push(s, coll_call_op(call));
    return call->handle->ticket;
}

int coll_run(struct stream *s, struct coll_handle *h, const void *in, void *out,
             struct err *err)
{
    struct coll_call call = {.handle = h, .in = in, .out = out};

    return stream_run(s, coll_call_op(&call), err);
}

void coll_round(const struct coll_handle *h, enum exec_where where, void *buffer,
                float *residual)
{
    if (h->exec) /* data over NCCL is not coded */
        exec_rows_round(exec_mpi_rows(h->exec), where, buffer, residual);
}

int64_t coll_on_gpu(const struct coll *c)
{
    return c->nccl ? exec_nccl_bytes(c->nccl) : 0;
}
