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
 * Chooses the transport.  requested: "mpi", "nccl", "auto" or NULL, which is auto: NCCL for
 * several ranks with a GPU each, i.e. if name, the device name as given to device_open, is
 * "cuda".  A GPU given by number may be shared by ranks, which NCCL refuses unless its own
 * settings permit it; whoever has set them asks for nccl explicitly.  ERR_INPUT: another word,
 * or nccl on a CPU; ERR_ABSENT: nccl in a build without it.
 */
int coll_transport_choose(enum coll_transport *out, const char *requested, const char *name,
                          const struct device *device, int ranks, struct err *err);

struct coll_stage { /* capacity for the largest buffers that go through it */
    int64_t in_bytes, out_bytes;
};

struct coll_options {
    int64_t shared_bytes; /* capacity of coll_take */
    int64_t window_bytes; /* 0: 4 MiB a port, shared by the rails */
    int no_shared;        /* no shared memory inside a host */
    int levels;           /* levels of the fabric; 0 to 2: none above the groups */
    const int *block;     /* [levels-2][groups] as in schedule_spec; copied */
    int grain;            /* as in struct layout; 0: 1 */
    /* Tuning table for SCHEDULE_AUTO, NULL if that is not used; the same on every rank (as
       coll_tuning gives it); borrowed until coll_close. */
    const struct pick_table *tuning;
    struct device *device; /* device of the buffers; borrowed; NULL or a CPU: host memory */
    enum coll_transport transport; /* COLL_NCCL: with a GPU, in a build with NCCL */
    /* With a GPU: one stage for each stream whose runs overlap; with NCCL only for coded
       runs. */
    const struct coll_stage *stage;
    int stages;
    struct meter *meter; /* records the runs; borrowed; NULL: no records */
    uint64_t meter_run;  /* with meter: identifies the run, the same on every rank */
};

/*
 * Collective: reads or computes a tuning table, the same on every rank, released by the caller
 * (pick_table_release).  file: the table's file ("-": stdin); NULL: the table is computed for
 * the fabric `t` by simulated time, for the operations and sizes of `query`.  Only rank 0 reads
 * file, t and query.  coll_open checks that the table fits the groups.
 */
int coll_tuning(struct world *world, const char *file, const struct topo *t,
                const struct pick_query *query, struct pick_table *out, struct err *err);

#endif
