/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef COLL_COLL_OPTIONS_H
#define COLL_COLL_OPTIONS_H

#include <stdint.h>

#include "dev/dev.h"
#include "meter/meter.h"
#include "pick/pick_auto.h"
#include "pick/pick_table.h"
#include "world/world.h"

/* Options that collectives are opened with (coll_open). */
enum coll_transport { COLL_MPI, COLL_NCCL };

/*
 * asked: "mpi", "nccl", "auto" or NULL, which is auto: NCCL for several ranks that have a GPU
 * each, which name, the device's as it was opened, says ("cuda").  One that is named may be
 * shared; NCCL refuses that unless it is told that it may be, and who has told it asks for
 * nccl.
 */
int coll_transport_choose(enum coll_transport *out, const char *asked, const char *name,
                          const struct device *device, int ranks, struct err *err);

struct coll_stage { /* room for the largest buffers that go through it */
    int64_t in_bytes, out_bytes;
};

struct coll_options {
    int64_t shared_bytes; /* room for coll_take */
    int64_t window_bytes; /* 0: 4 MiB a port, shared by the rails */
    int no_shared;        /* no shared memory inside a host */
    int levels;           /* of the fabric; 0 to 2: nothing above the groups */
    const int *block;     /* [levels-2][groups] as in schedule_spec; copied */
    /* Table for SCHEDULE_AUTO, NULL where it is not used; the same on every rank (as
       coll_tuning gives it), and kept by the caller as long as the coll is open. */
    const struct pick_table *tuning;
    struct device *device; /* of the buffers; borrowed; NULL or a CPU: the host's memory */
    enum coll_transport transport; /* COLL_NCCL: with a GPU, in a build that has NCCL */
    /* With a GPU: one stage for each stream whose runs go on at the same time, with NCCL of
       those that are coded. */
    const struct coll_stage *stage;
    int stages;
    struct meter *meter; /* records the runs; borrowed; NULL: none does */
    uint64_t meter_run;  /* with it: the same on every rank */
};

/*
 * Collective: a tuning table, the same on every rank, released by the caller: `file` where that
 * is not NULL ("-": stdin), else made for the fabric `t` by simulated time, for operations and
 * sizes as `ask` says.  Rank 0 alone reads and computes; the others' file, t and ask are not
 * looked at.  Whose groups it is for is checked by coll_open.
 */
int coll_tuning(struct world *world, const char *file, const struct topo *t,
                const struct pick_query *query, struct pick_table *out, struct err *err);

#endif
