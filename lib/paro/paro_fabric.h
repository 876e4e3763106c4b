/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PARO_PARO_FABRIC_H
#define PARO_PARO_FABRIC_H

#include "pick/pick_table.h"
#include "topo/topo.h"
#include "world/world.h"

/*
 * Finds the fabric of a program's communicator: which of its ranks are a group, and what is the
 * fastest between them.  All ranks have the same, by rank 0's words alone; the others' are not
 * looked at, and a file need be on no host but rank 0's.
 */
struct paro_fabric_settings {
    const char *topology; /* as topo_read takes it, or NULL */
    const char *groups;   /* "hosts", a shape as groups_parse takes it, each rank's group as
                             "0,1,0,1"; NULL: the topology's, without one the hosts */
    const char *tuning;   /* a table's file to choose by, not by the topology; or NULL */
};

struct paro_fabric {
    struct groups groups;    /* owned */
    int levels, *block;      /* above the groups (schedule_spec); block owned or NULL */
    struct pick_table table; /* owned; no rules: there is none */
    struct topo part;        /* owned; rank 0's: what of the topology takes part */
};

/*
 * Collective, the same error on all ranks.  A communicator may have some of a topology's ranks
 * (of its groups those that take part, of each as many members as take part):
 *
 *   - where MPI_COMM_WORLD has as many ranks as the topology, rank r there is its rank r, if no
 *     host that it names is another than the rank's;
 *   - else the ranks of a host are its groups' of that name, several in order and in
 *     proportion;
 *   - else, where all ranks are on one host that it does not name, its ranks are those of
 *     MPI_COMM_WORLD: a fabric is tried on one machine.
 *
 * ERR_MISMATCH otherwise, and where `groups` has other members than the topology or the table.
 */
int paro_fabric_open(struct paro_fabric *out, struct world *w,
                     const struct paro_fabric_settings *settings, struct err *err);
void paro_fabric_release(struct paro_fabric *f);

/*
 * Collective: what to take for an operation on a whole vector of so many bytes, the same on all
 * ranks.  The table's rule, or pick_auto's choice on the topology: when it is wanted, for a
 * table of all costs a hundred times as much, which many communicators could not each have.
 *
 * Without either ho-ring in chunks of PICK_CHUNK_USUAL: of the algorithms that any groups can
 * do, the one whose time is the cut bound's (sim_cut_bound_s) once the bytes outweigh the
 * latencies, whatever the rates are, for what is inside and what is across go at the same time;
 * from which size on another is faster cannot be said without latencies.
 */
int paro_fabric_choose(const struct paro_fabric *f, struct world *w, unsigned phases,
                       int64_t bytes, enum schedule_algo *algo, int64_t *chunk_bytes,
                       struct err *err);

#endif
