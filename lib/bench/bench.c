/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a benchmark: sets up groups, ports, buffers and the list of cases.  Leaves one case, one
 * operation at one size, to bench_case.c.
 */
#include "bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "bench/bench_parts.h"
#include "coll/coll_options.h"
#include "probe/probe.h"

/*
 * Chooses the groups: those requested; otherwise the hosts; otherwise (all ranks on one host)
 * those of the topology.  In each case a topology must have as many members in each group.
 */
static int bench_choose_groups(const struct bench *b, struct groups *out, struct err *err)
{
    const struct groups *hosts = &b->world->groups, *topo = &b->topo.groups;
    char ours[256], theirs[256];

    if (b->topo.levels && topo->ranks != b->world->ranks)
        return err_set(err, ERR_MISMATCH, "the topology '%s' has %d ranks, but %d ranks run",
                       b->o->topo, topo->ranks, b->world->ranks);
    if (b->o->shape) {
        if (groups_parse(out, b->o->shape, err))
            return -1;
    } else {
        groups_copy(out, b->topo.levels && hosts->count == 1 ? topo : hosts);
    }
    out->ring = topo->ring;
    if (!b->topo.levels ||
        (topo->count == out->count &&
         memcmp(topo->members, out->members, (size_t)out->count * sizeof(int)) == 0))
        return 0;
    groups_print(out, ours, sizeof ours);
    groups_print(topo, theirs, sizeof theirs);
    groups_release(out);
    return err_set(err, ERR_MISMATCH,
                   "the topology '%s' has groups %s, but these ranks are in %s", b->o->topo,
                   theirs, ours);
}

/* Broadcasts rank 0's result, so that a user's error is reported without a rank's name. */
static int bench_tell(struct world *w, int rc, struct err *err)
{
    if (world_bcast(w, &rc, sizeof rc, 0, err))
        return -1;
    if (rc && w->rank)
        err_set(err, ERR_INPUT, "see rank 0");
    return rc;
}

/* Rank 0 reads and decides, and broadcasts: a file need not exist on every host. */
static int bench_open_fabric(struct bench *b, struct err *err)
{
    struct world *w = b->world;
    int rc = 0;

    if (w->rank == 0) {
        rc = b->o->topo ? topo_read(&b->topo, b->o->topo, err) : 0;
        rc = rc ? rc : bench_choose_groups(b, &b->groups, err);
        if (rc == 0 && b->groups.ranks != w->ranks)
            rc = err_set(err, ERR_MISMATCH, "groups '%s' have %d ranks, but %d ranks run",
                         b->o->shape, b->groups.ranks, w->ranks);
        if (rc == 0 && b->o->root >= w->ranks)
            rc = err_set(err, ERR_MISMATCH, "--root %d, expected 0 to %d: %d ranks run",
                         b->o->root, w->ranks - 1, w->ranks);
    }
    rc = bench_tell(w, rc, err);
    rc = rc ? rc : world_bcast_groups(w, &b->groups, err);
    if (rc == 0)
        groups_print(&b->groups, b->shape, sizeof b->shape);
    return rc;
}

/* Broadcasts the levels above the groups from rank 0's topology. */
static int open_levels(struct bench *b, struct err *err)
{
    b->levels = b->topo.levels;
    return world_bcast_blocks(b->world, b->groups.count, b->topo.block, &b->levels, &b->block,
                              err);
}

/* Measures the fabric between hosts, which `option` needs if -i is absent. */
static int measure_fabric(const struct bench *b, const char *option, const char *expected,
                          struct topo *out, struct err *err)
{
    if (!groups_equal(&b->groups, &b->world->groups))
        return err_set(err, ERR_MISMATCH, "%s with groups that are not hosts, expected %s",
                       option, expected);
    return probe_topo(b->world, NULL, NULL, out, err);
}

/* Opens the fabric for auto: that of -i, otherwise the one measured between the hosts. */
static int open_auto(struct bench *b, struct err *err)
{
    const struct bench_options *o = b->o;
    struct topo measured = {0};
    struct pick_query query;
    int requested = 0;

    for (int a = 0; a < o->algos; a++)
        requested += o->algo[a] == SCHEDULE_AUTO;
    if (!requested)
        return 0;
    pick_query_init(&query);
    query.ops = o->ops;
    memcpy(query.op, o->op, (size_t)o->ops * sizeof *o->op);
    query.min_bytes = o->min_bytes ? o->min_bytes : dtype_bytes(o->type);
    query.max_bytes = o->max_bytes > query.min_bytes ? o->max_bytes : query.min_bytes;
    query.factor = o->factor;
    if (!o->tuning && !o->topo &&
        measure_fabric(b, "--algo auto", "-i TOPO or --tuning FILE", &measured, err))
        return -1;
    int rc = coll_tuning(b->world, o->tuning, o->topo ? &b->topo : &measured, &query, &b->table,
                         err);
    topo_release(&measured);
    return rc;
}

/* Allocates for the largest case: the whole vector twice, and one block more for MPI's
   gather. */
static int open_buffers(struct bench *b, struct err *err)
{
    int64_t most = b->o->max_bytes, block = most / b->world->ranks + 64;
    int64_t space = most > 64 ? most : 64;
    struct coll_stage stage = {space, space};
    struct coll_options options = {.window_bytes = b->o->window_bytes,
                                   .device = b->device,
                                   .transport = b->transport,
                                   .stage = &stage,
                                   .stages = b->device && b->transport == COLL_MPI};

    options.levels = b->levels;
    options.block = b->block;
    options.tuning = b->table.rules ? &b->table : NULL;
    options.shared_bytes = 2 * arena_space(space) + arena_space(block);
    if (coll_open(&b->coll, b->world, &b->groups, &options, err))
        return -1;
    b->stream = stream_open(b->coll.runner, 1);
    b->native_in = coll_take(&b->coll, block);
    return bench_device_buffers(b, space, err);
}

int64_t bench_next_bytes(const struct bench_options *o, int64_t bytes)
{
    if (bytes == 0)
        return dtype_bytes(o->type);
    return bytes > o->max_bytes / o->factor ? o->max_bytes + 1 : bytes * o->factor;
}

typedef int (*case_fn)(struct bench *b, unsigned op, int64_t elems, struct err *err);

static int run_cases(struct bench *b, case_fn one, struct err *err)
{
    const struct bench_options *o = b->o;

    for (int i = 0; i < o->ops; i++)
        for (int64_t n = o->min_bytes; n <= o->max_bytes; n = bench_next_bytes(o, n)) {
            int stop = 0;
            if (one(b, o->op[i], n / dtype_bytes(o->type), err))
                return -1;
            if (b->world->rank == 0)
                stop = ferror(b->sink.file) != 0;
            if (world_bcast(b->world, &stop, sizeof stop, 0, err))
                return -1;
            if (stop)
                return 0;
        }
    return 0;
}

static int bench_run_cases(struct bench *b, case_fn one, struct err *err)
{
    if (bench_device_open(b, err) || bench_open_fabric(b, err))
        return -1;
    if (b->o->floor >= 0 && b->groups.count < 2)
        return err_set(err, ERR_MISMATCH, "--floor with one group, expected two or more");
    if (!b->o->topo)
        topo_init(&b->ports, 2, &b->groups);
    if (open_levels(b, err) || open_auto(b, err) ||
        (!b->o->topo && bench_port_measure(b->world, &b->ports, err)) || open_buffers(b, err))
        return -1;
    if (b->world->rank == 0 && b->o->format == BENCH_TEXT) {
        FILE *out = b->sink.file;
        double load = NAN;
        getloadavg(&load, 1);
        fprintf(out, "# %s: %d ranks in %d groups; %d iterations after %d; load average %.2f\n",
                b->shape, b->groups.ranks, b->groups.count, b->o->iters, b->o->warmup, load);
        if (b->device)
            fprintf(out, "# on cuda:%d, %s, over %s\n", device_index(b->device),
                    device_name(b->device), b->transport == COLL_NCCL ? "NCCL" : "MPI");
        if (b->groups.count > 1)
            bench_print_ports(b->o->topo, b->o->topo ? &b->topo : &b->ports, out);
        if (one == bench_overlap_case)
            bench_overlap_head(out);
        else
            bench_print_columns(b->o, out);
        fflush(out);
    }
    return run_cases(b, one, err);
}

/* Releases everything; returns rc. */
static int close_all(struct bench *b, int rc, struct err *err)
{
    /* A peer that does not answer would block draining the transfers in flight. */
    if (rc == 0 || err->code != ERR_PEER) {
        rc = bench_tell(b->world, rc, err);
        bench_device_close(b);
        coll_close(&b->coll);
        device_close(b->device);
    }
    groups_release(&b->groups);
    topo_release(&b->topo);
    topo_release(&b->ports);
    pick_table_release(&b->table);
    mem_free(b->block);
    return rc;
}

static int bench_all(struct world *world, const struct bench_options *o, FILE *out,
                     struct bench_result *result, case_fn one, struct err *err)
{
    struct bench b = {.world = world, .o = o};
    int rc = 0;

    if (world->rank == 0)
        rc = bench_sink_open(&b.sink, o, out, result, err);
    rc = bench_tell(world, rc, err);
    if (rc == 0)
        rc = bench_run_cases(&b, one, err);
    if (world->rank == 0) {
        rc = bench_sink_close(&b.sink, rc, err);
        strcpy(result->doubt, (o->topo ? &b.topo : &b.ports)->doubt);
    }
    rc = close_all(&b, rc, err);
    result->wrong = b.wrong;
    return rc;
}

int bench_run(struct world *world, const struct bench_options *o, FILE *out,
              struct bench_result *result, struct err *err)
{
    return bench_all(world, o, out, result, bench_case, err);
}

int bench_overlap(struct world *world, const struct bench_options *o, FILE *out,
                  struct bench_result *result, struct err *err)
{
    return bench_all(world, o, out, result, bench_overlap_case, err);
}

int bench_tune(struct world *world, const struct bench_options *o, int moves,
               const struct bench_talk *talk, char doubt[TOPO_SOURCE_BYTES], FILE *out,
               struct err *err)
{
    struct bench_tune tune = {.o = *o, .iters = o->iters, .moves = moves, .talk = *talk};
    struct bench b = {.world = world, .o = &tune.o, .tune = &tune, .sink = {.file = out}};
    int rc = 0;

    /* Run measured contests on a fabric known to the simulator. */
    if (bench_device_open(&b, err) || bench_open_fabric(&b, err) ||
        (!o->topo && measure_fabric(&b, "--table", "-i TOPO", &b.topo, err)) ||
        open_levels(&b, err) || open_buffers(&b, err) || run_cases(&b, bench_tune_case, err))
        rc = -1;
    else
        rc = bench_tell(world, world->rank == 0 ? bench_tune_print(&b, err) : 0, err);
    strcpy(doubt, b.topo.doubt);
    rc = close_all(&b, rc, err);
    mem_free(tune.answer);
    return rc;
}
