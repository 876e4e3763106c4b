/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PARO_PARO_FABRIC_H
#define PARO_PARO_FABRIC_H

#include "pick/pick_table.h"
#include "topo/topo.h"
#include "world/world.h"

/*
 * Finds the fabric of a program's communicator: its groups, and the fastest algorithm between
 * them.  Rank 0's settings decide for all ranks; those of the others are ignored, and files
 * need to exist on rank 0's host only.
 */
struct paro_fabric_settings {
    const char *topology; /* as for topo_read, or NULL */
    /* "hosts", a shape as for groups_parse, or the group of each rank, "0,1,0,1"; NULL: the
       topology's groups, or without a topology the hosts */
    const char *groups;
    /* File with a tuning table to choose by instead of the topology; or NULL */
    const char *tuning;
};

struct paro_fabric {
    struct groups groups;    /* owned */
    int levels, *block;      /* blocks above the groups (schedule_spec); block owned or NULL */
    struct pick_table table; /* owned; without rules: there is no table */
    struct topo part;        /* owned, on rank 0: the part of the topology that participates */
};

/*
 * Collective; the same error on all ranks.  A communicator may contain a subset of the
 * topology's ranks.  They are identified as follows:
 *
 *   - if MPI_COMM_WORLD has as many ranks as the topology, rank r is the topology's rank r,
 *     unless its host differs from the one that the topology names;
 *   - else the ranks of a host belong to the groups of that host name, to several in order
 *     and in proportion;
 *   - else, if all ranks are on one host that the topology does not name, its ranks are those
 *     of MPI_COMM_WORLD: somebody tries out a fabric on one machine.
 *
 * ERR_MISMATCH otherwise, and if `groups` has other members than the topology or the table.
 */
int paro_fabric_open(struct paro_fabric *out, struct world *w,
                     const struct paro_fabric_settings *settings, struct err *err);
void paro_fabric_release(struct paro_fabric *f);

/*
 * Collective: chooses algorithm and chunk for an operation on a whole vector of `bytes` bytes,
 * with the same result on all ranks.  Uses the table's rule, or pick_auto's choice on the
 * topology.  Each size is evaluated on request only, since a table of all sizes costs a hundred
 * times as much, too long for many communicators.
 *
 * Without either it chooses ho-ring in chunks of PICK_CHUNK_USUAL.  Of the algorithms for any
 * groups it is the one whose time reaches the cut bound (sim_cut_bound_s) for large vectors,
 * whatever the rates, because links inside and between groups work at the same time.  The size
 * below which another algorithm is faster depends on latencies, which are unknown.
 */
int paro_fabric_choose(const struct paro_fabric *f, struct world *w, unsigned phases,
                       int64_t bytes, enum schedule_algo *algo, int64_t *chunk_bytes,
                       struct err *err);

/*
 * Returns the least time that the ports between groups allow for an operation on a whole vector
 * of `bytes` bytes (sim_cut_bound_s), and sets *fast_s to that of fast_bytes sent by a rank
 * inside its group.  Both are 0 on ranks other than 0 and without a topology.
 */
double paro_fabric_bound_s(const struct paro_fabric *f, unsigned phases, int root,
                           int64_t bytes, int64_t fast_bytes, double *fast_s);

#endif
