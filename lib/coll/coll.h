/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef COLL_COLL_H
#define COLL_COLL_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/dtype.h"
#include "coll/coll_options.h"
#include "dev/dev_stream.h"
#include "exec/exec.h"
#include "exec/exec_mpi.h"
#include "layout/layout.h"
#include "meter/meter.h"
#include "schedule/schedule.h"
#include "world/world.h"

/*
 * Prepared collectives on streams.  Each converts a vector from one layout to another.  A
 * layout's letter (layout.h) says where the vector lies: N, whole on every rank; I, sharded
 * over the members of each group; G, sharded over all ranks.  layout_phases_* returns the
 * phases of a conversion.  All-gather: G to N; reduce-scatter: N to G; all-reduce: N to N;
 * every other conversion of paro-method(7), TRAFFIC, runs the same code.
 *
 * The buffer of a rank under letter X is its packed shard: the rank's ranges of the vector
 * (layout_ranges), one after the other, elements of coll_spec.type.  Without a GPU, buffers
 * come from coll_take (memory that the ranks of a host share).  With a GPU they are GPU memory,
 * and the data takes one of two TRANSPORTS:
 *
 *     COLL_MPI    in (GPU) --copy--> stage.in ==ranks==> stage.out --copy--> out (GPU)
 *     COLL_NCCL   in (GPU) =====================ranks=====================> out (GPU)
 *
 * STAGES are host memory that the ranks share.  Copies in, messages and copies out overlap,
 * piece by piece.  Coded handles use stages with either transport, since only the MPI executor
 * encodes chunks.
 *
 * Errors of a GPU.  Over MPI the run continues, with undefined contents, so that no rank waits
 * for this one in vain; the device keeps the error, and the caller reports it when the ranks
 * next agree.  Over NCCL the run fails with ERR_PEER, even on the rank whose own GPU failed:
 * it may be the only one that knows, and must not wait for an agreement.
 *
 * NCCL's runs begin in the order in which they were pushed, whatever their streams (coll_call.c
 * gives the reason).  So calls over NCCL are pushed in the same order on every rank, by one
 * thread.
 */
struct coll_stages;
struct exec_nccl;
struct exec_nccl_handle;

struct coll {
    struct world *world;             /* borrowed */
    struct layout layout;            /* owned */
    struct exec_mpi *exec;           /* owned */
    struct exec_nccl *nccl;          /* owned; NULL: all data goes over MPI */
    int64_t pushed, begun;           /* over NCCL: calls pushed; calls started, by the runner */
    atomic_int running;              /* number of calls that have begun and not ended */
    struct runner *runner;           /* owned: the communication thread */
    int levels, *block;              /* as in schedule_spec; block owned */
    const struct pick_table *tuning; /* borrowed, or NULL */
    struct coll_stages *stages;      /* owned; NULL: buffers are in host memory */
    struct meter *meter;             /* borrowed, or NULL */
    struct meter_comm meter_comm[3]; /* within the group, across groups, all ranks */
    /* For the meter: time of the last push; since then, seconds waited, added by the pushing
       thread. */
    double pushed_s, waited_s;
};

/* Collective, same error on all ranks.  world is borrowed until coll_close.  groups: the groups
   of fast links, which need not be the hosts; copied.  ERR_MISMATCH if groups and world differ
   in ranks. */
int coll_open(struct coll *c, struct world *world, const struct groups *groups,
              const struct coll_options *options, struct err *err);
void coll_close(struct coll *c);
/* Memory for buffers without a GPU, 64-byte aligned; freed by coll_close. */
void *coll_take(struct coll *c, int64_t bytes);
int64_t coll_window_bytes(const struct groups *groups); /* default of window_bytes */

/*
 * One collective: a conversion between layouts; or a broadcast of root's vector, with from and
 * to N, since both buffers are whole vectors (in: of the root alone).
 */
struct coll_spec {
    unsigned phases; /* layout_phases_* of from and to, or SCHEDULE_BROADCAST alone */
    enum letter from, to;
    int root;      /* broadcast only */
    int64_t elems; /* length of the whole vector */
    enum dtype type;
    enum dtype_op redop;     /* operation of reductions (default: the sum) */
    enum schedule_algo algo; /* auto: algorithm and chunk from the tuning table */
    int64_t chunk_bytes;     /* 0: the default, 60 KiB: under Open MPI's TCP eager limit */
    /* The code of data between groups (exec/exec_code.h), f32 and bf16 alone; exec.h
       lists which values are rounded.  Copies need coll_call.round, or coll_round of `in`
       before the run. */
    enum exec_code code;
    int stage; /* index of the stage, with a GPU; handles of one stage run one at a time */
};

/* Bytes of one rank on the wire: to and from other groups, and sent inside its own. */
struct coll_traffic {
    int64_t slow_out, slow_in, fast_out;
};

struct coll_handle {
    struct coll_spec spec;        /* with the algo and chunk_bytes that are used */
    struct exec_mpi_handle *exec; /* one of exec and nccl, owned; the other is NULL */
    struct exec_nccl_handle *nccl;
    struct coll *coll;        /* borrowed */
    int64_t bytes[2];         /* this rank's in and out */
    struct coll_traffic mine; /* this rank's traffic in one run */
    int64_t slow_bytes;       /* one run, through the busiest port in its busier direction */
    int64_t fast_bytes_rank;  /* one run, sent inside its group by the rank that sends most */
    int64_t scratch_bytes;    /* this rank's, without in and out; NCCL: see coll_on_gpu */
    int64_t residual_elems;   /* this rank's number of residual floats (exec.h) */
    struct stream *stream;    /* the stream of the last run pushed; NULL: no run yet */
    int64_t ticket;
};

/*
 * Collective, in the same order on every rank; same error on all ranks.  *out is released with
 * coll_free.  No run over NCCL may be in progress meanwhile.  Runs allocate nothing. ERR_INPUT:
 * auto without a tuning table or without rules in it for the operation, an average over a part
 * of the ranks, a code of another type than f32 and bf16.
 */
int coll_prepare(struct coll *c, const struct coll_spec *spec, struct coll_handle *out,
                 struct err *err);
/*
 * Waits for the handle's last run, even if it fails: in and out are needed until then.  If the
 * runner was closed first, no run is in progress, and h->stream must be NULL.
 */
void coll_free(struct coll_handle *h);

/* One run of a handle.  The caller sets the members up to `round`, and keeps the struct and the
   buffers until the run is done.  All runs of a handle go through one stream. */
struct coll_call {
    struct coll_handle *handle;
    const void *in;
    void *out;
    float *residual; /* [residual_elems], zero at first, kept from run to run; or NULL */
    int round;       /* apply coll_round to `in` first, which changes it */
    int64_t number;  /* over NCCL: index among all calls; set by coll_push, coll_run */
    int begun;
    /* Set by coll_push and coll_run: the operation, and with a meter the call's number on its
       communicator and its record. */
    struct stream_op op;
    int64_t sequence, metered;
    double work_s; /* the caller's work since the previous call; 0: unknown */
};
/* Queues a run and returns the stream's ticket; coll_run runs it and waits. */
int64_t coll_push(struct stream *s, struct coll_call *call);
int coll_run(struct stream *s, struct coll_handle *h, const void *in, void *out,
             struct err *err);
/*
 * For coded copies, otherwise nothing: rounds a buffer to the values of its codes.  EXEC_IN
 * before a run, so that this rank's own part equals its copies on other ranks; EXEC_OUT to get
 * the contents that a run would leave in `out`.  residual: as in coll_call, for EXEC_IN, or
 * NULL.  Not collective.
 */
void coll_round(const struct coll_handle *h, enum exec_where where, void *buffer,
                float *residual);

int64_t coll_staged(const struct coll *c); /* bytes of all stages */
/* 1: stages are pinned, or there are none; 0: the driver refused, and copies are slow. */
int coll_is_pinned(const struct coll *c);
int64_t coll_on_gpu(const struct coll *c); /* GPU bytes of scratch for sums over NCCL */
/* Generates one rank's rows of a collective, for any executor; *out is released with
   exec_rows_release.  Uses c's layout, levels and blocks only.  Not collective. */
int coll_rows(const struct coll *c, const struct coll_spec *spec, int rank,
              struct exec_rows *out, struct err *err);

/* sum += times * one. */
void coll_traffic_add(struct coll_traffic *sum, const struct coll_traffic *one, int64_t times);
/* all: [ranks].  *slow_bytes: through the busiest port in its busier direction; *fast_bytes:
 * inside a group, by the rank that sends most. */
void coll_traffic_busiest(const struct groups *g, const struct coll_traffic *all,
                          int64_t *slow_bytes, int64_t *fast_bytes);

/* Collective: coll_traffic_busiest of every rank's `mine`. */
int coll_traffic_most(struct coll *c, const struct coll_traffic *mine, int64_t *slow_bytes,
                      int64_t *fast_bytes, struct err *err);

#endif
