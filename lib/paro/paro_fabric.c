/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the ranks of a communicator in a topology.  Rank 0 reads the files, decides, and sends
 * its decision to the others.
 */
#include "paro/paro_fabric.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "coll/coll_options.h"
#include "sim/sim.h"
#include "topo/topo_boundary.h"
#include "world/world_mpi.h"

/* The ranks' numbers in MPI_COMM_WORLD, which topologies use. */
struct seat {
    int rank, ranks;
};

/* Places ranks by their numbers.  -1: their number differs, or, without `anyhow`, their
   hosts. */
static int place_by_rank(const struct topo *t, const struct world *w, const struct seat *seat,
                         int anyhow, int *group_of)
{
    for (int r = 0; r < w->ranks; r++) {
        if (seat[r].ranks != t->groups.ranks)
            return -1;
        group_of[r] = t->groups.group_of[seat[r].rank];
        const char *host = t->host[group_of[r]];
        if (!anyhow && host[0] && strcmp(host, w->host[w->groups.group_of[r]]))
            return -1;
    }
    return 0;
}

/* Places the ranks of host h in the groups of that host name.  -1: there are none. */
static int place_host(const struct topo *t, const struct world *w, int h, int *group_of)
{
    int there = 0, mine = w->groups.members[h];

    for (int k = 0; k < t->groups.count; k++)
        there += strcmp(t->host[k], w->host[h]) ? 0 : t->groups.members[k];
    if (there == 0)
        return -1;
    for (int j = 0; j < mine; j++) {
        int64_t before = (int64_t)j * there / mine; /* members of the host's groups */
        int k = -1;
        while (before >= 0) {
            k++;
            before -= strcmp(t->host[k], w->host[h]) ? 0 : t->groups.members[k];
        }
        group_of[groups_rank(&w->groups, h, j)] = k;
    }
    return 0;
}

static int place(const struct topo *t, const char *name, const struct world *w,
                 const struct seat *seat, int *group_of, struct err *err)
{
    int h = 0;

    if (place_by_rank(t, w, seat, 0, group_of) == 0)
        return 0;
    while (h < w->groups.count && place_host(t, w, h, group_of) == 0)
        h++;
    if (h == w->groups.count ||
        (w->groups.count == 1 && place_by_rank(t, w, seat, 1, group_of) == 0))
        return 0;
    return err_set(err, ERR_MISMATCH,
                   "the topology '%s' has no host '%s', and %d ranks where MPI_COMM_WORLD has "
                   "%d, expected the same hosts or as many ranks",
                   name, w->host[h], t->groups.ranks, seat[0].ranks);
}

/* Each rank's group, "0,1,0,1". */
static int fabric_parse_list(const char *text, int ranks, struct groups *out, struct err *err)
{
    int *group_of = mem_new((size_t)ranks, sizeof *group_of), n = 0, end = 0, rc = -1;

    for (const char *p = text; n < ranks && sscanf(p, "%9d%n", &group_of[n], &end) == 1;
         p += end + 1) {
        n++;
        if (p[end] != ',' || n == ranks) {
            rc = p[end] ? -1 : 0;
            break;
        }
    }
    if (rc || n != ranks)
        rc = err_set(err, ERR_INPUT, "groups '%s', expected %d numbers for %d ranks", text,
                     ranks, ranks);
    else
        rc = groups_init_of(out, ranks, group_of, err);
    mem_free(group_of);
    return rc;
}

/* Determines the groups: the requested ones, else the fabric's, else the hosts. */
static int fabric_choose_groups(const struct world *w, const char *text, const struct topo *t,
                                struct groups *out, struct err *err)
{
    if (text && text[0] != '[' && strchr(text, ','))
        return fabric_parse_list(text, w->ranks, out, err);
    if (!text || strcmp(text, "hosts") == 0) {
        groups_copy(out, !text && t->levels ? &t->groups : &w->groups);
        return 0;
    }
    if (groups_parse(out, text, err))
        return -1;
    if (out->ranks == w->ranks)
        return 0;
    err_set(err, ERR_MISMATCH, "groups '%s' of %d ranks, but the communicator has %d", text,
            out->ranks, w->ranks);
    groups_release(out);
    return -1;
}

/* On rank 0: finds the participating part of the topology (0 levels without one), and the
   groups. */
static int fabric_find(const struct world *w, const struct paro_fabric_settings *settings,
                       const struct seat *seat, struct topo *t, struct groups *groups,
                       struct err *err)
{
    int *group_of = mem_new((size_t)w->ranks, sizeof *group_of), rc = 0;
    struct topo whole = {0};

    if (settings->topology) {
        rc = topo_read(&whole, settings->topology, err);
        if (rc == 0)
            rc = place(&whole, settings->topology, w, seat, group_of, err);
        if (rc == 0)
            topo_subset(&whole, w->ranks, group_of, t);
        topo_release(&whole);
    }
    mem_free(group_of);
    if (rc || fabric_choose_groups(w, settings->groups, t, groups, err))
        return -1;
    char ours[64], theirs[64];
    groups->ring = t->groups.ring;
    if (!t->levels || (t->groups.count == groups->count &&
                       memcmp(t->groups.members, groups->members,
                              (size_t)groups->count * sizeof *groups->members) == 0))
        return 0;
    groups_print(groups, ours, sizeof ours);
    groups_print(&t->groups, theirs, sizeof theirs);
    return err_set(err, ERR_MISMATCH,
                   "of the topology '%s' these ranks have groups %s, but groups %s were asked "
                   "for",
                   settings->topology, theirs, ours);
}

/* Reads the table on rank 0; whether there is one is sent with it. */
static int read_table(struct world *w, const char *file, struct paro_fabric *f, struct err *err)
{
    int there = file != NULL;

    if (world_bcast(w, &there, sizeof there, 0, err))
        return -1;
    if (!there)
        return 0;
    if (coll_tuning(w, file, NULL, NULL, &f->table, err))
        return -1;
    return pick_table_check(&f->table, &f->groups, err); /* the same on every rank */
}

int paro_fabric_open(struct paro_fabric *out, struct world *w,
                     const struct paro_fabric_settings *settings, struct err *err)
{
    struct seat *seat = mem_new((size_t)w->ranks, sizeof *seat), mine;
    struct paro_fabric f = {0};

    MPI_Comm_rank(MPI_COMM_WORLD, &mine.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &mine.ranks);
    int rc = world_allgather(w, &mine, sizeof mine, seat, err);
    if (rc == 0) {
        rc = w->rank == 0 ? fabric_find(w, settings, seat, &f.part, &f.groups, err) : 0;
        rc = world_agree(w, rc, err);
    }
    f.levels = f.part.levels;
    if (rc == 0) /* rank 0's results */
        rc = world_bcast_groups(w, &f.groups, err);
    if (rc == 0)
        rc = world_bcast_blocks(w, f.groups.count, f.part.block, &f.levels, &f.block, err);
    if (rc == 0)
        rc = read_table(w, settings->tuning, &f, err);
    mem_free(seat);
    if (rc)
        paro_fabric_release(&f);
    else
        *out = f;
    return rc;
}

void paro_fabric_release(struct paro_fabric *f)
{
    groups_release(&f->groups);
    mem_free(f->block);
    pick_table_release(&f->table);
    topo_release(&f->part);
    *f = (struct paro_fabric){0};
}

int paro_fabric_choose(const struct paro_fabric *f, struct world *w, unsigned phases,
                       int64_t bytes, enum schedule_algo *algo, int64_t *chunk_bytes,
                       struct err *err)
{
    const struct pick_rule *rule = f->table.rules ? pick_find(&f->table, phases, bytes) : NULL;
    struct pick_answer answer = {
        .best = {.algo = SCHEDULE_HO_RING, .chunk_bytes = PICK_CHUNK_USUAL}};
    int rc = 0;

    if (rule) {
        answer.best.algo = rule->algo;
        answer.best.chunk_bytes = rule->chunk_bytes;
    } else if (f->levels && !f->table.rules) { /* both are known to all ranks */
        if (w->rank == 0)
            rc = pick_auto(&f->part, phases, bytes, &answer, err);
        rc = world_agree(w, rc, err);
        if (rc == 0)
            rc = world_bcast(w, &answer.best, sizeof answer.best, 0, err);
    }
    if (rc)
        return -1;
    *algo = answer.best.algo;
    *chunk_bytes = answer.best.chunk_bytes;
    return 0;
}

double paro_fabric_bound_s(const struct paro_fabric *f, unsigned phases, int root,
                           int64_t bytes, int64_t fast_bytes, double *fast_s)
{
    *fast_s = f->part.levels ? (double)fast_bytes / f->part.level[0].port_Bps : 0;
    return f->part.levels ? sim_cut_bound_s(&f->part, phases, root, (double)bytes) : 0;
}
