/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows what is measured on which fabric: groups, ports, buffers, the list of cases.  One case,
 * that is one operation at one size, is bench_case.c's.
 */
#include "bench/bench.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "bench/bench_parts.h"

/*
 * Which groups: those asked for, else the hosts, else (all ranks on one host) those of the
 * topology.  Whichever it is, a topology must have as many members in each.
 */
static int choose_groups(const struct bench *b, struct groups *out, struct err *err)
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

/* Rank 0 reads and decides; the others are told.  A file need not be there on every host. */
static int open_fabric(struct bench *b, struct err *err)
{
    struct world *w = b->world;
    int *group_of = mem_new((size_t)w->ranks, sizeof(int)), rc = 0;

    if (w->rank == 0) {
        rc = b->o->topo ? topo_read(&b->topo, b->o->topo, err) : 0;
        rc = rc ? rc : choose_groups(b, &b->groups, err);
        if (rc == 0 && b->groups.ranks != w->ranks)
            rc = err_set(err, ERR_MISMATCH, "groups '%s' of %d ranks, but %d ranks run",
                         b->o->shape, b->groups.ranks, w->ranks);
    }
    /* The error is the user's, not rank 0's: it is told as it stands. */
    if (world_bcast(w, &rc, sizeof rc, 0, err))
        rc = -1;
    else if (rc && w->rank)
        err_set(err, ERR_INPUT, "see rank 0");
    if (rc == 0 && w->rank == 0)
        memcpy(group_of, b->groups.group_of, (size_t)w->ranks * sizeof(int));
    if (rc == 0)
        rc = world_bcast(w, group_of, w->ranks * (int64_t)sizeof(int), 0, err);
    if (rc == 0 && w->rank)
        rc = groups_init_of(&b->groups, w->ranks, group_of, err);
    mem_free(group_of);
    if (rc == 0)
        groups_print(&b->groups, b->shape, sizeof b->shape);
    return rc;
}

/* Room for the largest case: the whole vector twice, and one block more for MPI's gather. */
static int open_buffers(struct bench *b, struct err *err)
{
    int64_t most = b->o->max_bytes, block = most / b->world->ranks + 64;
    int64_t room = most > BENCH_PORT_ROOM ? most : BENCH_PORT_ROOM;
    struct coll_options options = {.window_bytes = b->o->window_bytes};

    options.shared_bytes = 2 * coll_room(room) + coll_room(block);
    if (coll_open(&b->coll, b->world, &b->groups, &options, err))
        return -1;
    b->stream = stream_open(b->coll.runner, 1);
    b->in = coll_take(&b->coll, room);
    b->out = coll_take(&b->coll, room);
    b->native_in = coll_take(&b->coll, block);
    return 0;
}

static int open_ports(struct bench *b, struct err *err)
{
    int count = b->groups.count;

    b->port_Bps = mem_new((size_t)count, sizeof *b->port_Bps);
    if (!b->o->topo)
        return bench_port_measure(&b->coll, b->in, b->out, b->port_Bps, err);
    for (int k = 0; k < count && b->world->rank == 0; k++)
        b->port_Bps[k] = topo_port_Bps(&b->topo, k);
    return 0;
}

/* Past max_bytes where the next size would be. */
static int64_t next_bytes(const struct bench_options *o, int64_t bytes)
{
    return bytes > o->max_bytes / o->factor ? o->max_bytes + 1 : bytes * o->factor;
}

static int run_cases(struct bench *b, struct err *err)
{
    for (int i = 0; i < b->o->ops; i++)
        for (int64_t n = b->o->min_bytes; n <= b->o->max_bytes; n = next_bytes(b->o, n)) {
            int stop = 0;
            if (bench_case(b, b->o->op[i], n / dtype_bytes(b->o->type), err))
                return -1;
            if (b->world->rank == 0)
                stop = ferror(b->file) != 0;
            if (world_bcast(b->world, &stop, sizeof stop, 0, err))
                return -1;
            if (stop)
                return 0;
        }
    return 0;
}

int bench_run(struct world *world, const struct bench_options *o, FILE *out, int64_t *wrong,
              struct err *err)
{
    struct bench b = {.world = world, .o = o, .file = out};
    int rc = -1;

    if (open_fabric(&b, err) || open_buffers(&b, err) || open_ports(&b, err))
        goto done;
    if (world->rank == 0 && !o->json)
        bench_print_head(&b);
    rc = run_cases(&b, err);
done:
    /* A peer that does not answer would never come to the end of what is in flight. */
    if (rc == 0 || err->code != ERR_PEER)
        coll_close(&b.coll);
    groups_release(&b.groups);
    topo_release(&b.topo);
    mem_free(b.port_Bps);
    *wrong = b.wrong;
    return rc;
}
