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
 * Prepared collectives on streams.  Their transfer is described in layouts: from one letter to
 * another by the phases that layout_phases_* says.  All-gather: G to N; reduce-scatter: N to G;
 * all-reduce: N to N; but any conversion of paro-method(7), TRAFFIC, is the same code.
 *
 * A buffer under letter X is the rank's packed shard: its ranges (layout_ranges) one behind the
 * other.  Buffers come from coll_take (memory that the ranks of a host share); with a GPU they
 * are its memory, and travel by one of two TRANSPORTS:
 *
 *     COLL_MPI    in (GPU) --copy--> stage.in ==ranks==> stage.out --copy--> out (GPU)
 *     COLL_NCCL   in (GPU) =====================ranks=====================> out (GPU)
 *
 * STAGES are host memory that the ranks share; pieces of them are copied, travel and are copied
 * again at the same time.  Coded handles take them with either transport:
 * int8 blocks are the MPI executor's.  Over MPI a GPU that fails does not end a run: the other
 * ranks wait for this one's data, whatever they are; the device keeps the error, to be told
 * where the ranks agree.  Over NCCL there is nothing to send then: ERR_PEER, whoever failed,
 * for this rank may be alone with it.
 *
 * NCCL's runs begin in the order in which they were pushed, whatever their streams:
 * coll_call.c says why.  So calls that go over NCCL are pushed in the same order on every
 * rank, by one thread.
 */
struct coll_stages;
struct exec_nccl;
struct exec_nccl_handle;

struct coll {
    struct world *world;    /* borrowed */
    struct layout layout;   /* owned */
    struct exec_mpi *exec;  /* owned */
    struct exec_nccl *nccl; /* owned; NULL: all goes over MPI */
    int64_t pushed,
        begun;          /* calls over NCCL: numbered, by who pushes; started, by the runner */
    atomic_int running; /* calls that have begun and not ended */
    struct runner *runner; /* owned: the communication thread */
    int levels, *block;    /* of the fabric above the groups (schedule_spec); block owned */
    const struct pick_table *tuning; /* borrowed, or NULL */
    struct coll_stages *stages;      /* owned; NULL where buffers are the host's */
    struct meter *meter;             /* borrowed, or NULL */
    struct meter_comm meter_comm[3]; /* within the group, across groups, all ranks */
    /* For the meter: when the last call was pushed; who pushes adds how long it has waited. */
    double pushed_s, waited_s;
};

/* Collective.  groups: the fast groups, need not be the hosts.  Same error on all ranks. */
int coll_open(struct coll *c, struct world *world, const struct groups *groups,
              const struct coll_options *options, struct err *err);
void coll_close(struct coll *c);
void *coll_take(struct coll *c, int64_t bytes);
int64_t coll_window_bytes(const struct groups *groups); /* in flight, where nobody says */

/*
 * A conversion between layouts by layout_phases_*; or a broadcast, the root's vector for all:
 * from and to are N then, for both buffers are whole vectors (in: of the root alone).
 */
struct coll_spec {
    unsigned phases; /* SCHEDULE_BROADCAST alone, or others */
    enum letter from, to;
    int root;      /* of a broadcast */
    int64_t elems; /* of the whole vector */
    enum dtype type;
    enum dtype_op redop;     /* of the reductions: the sum unless said otherwise */
    enum schedule_algo algo; /* auto: this and the chunk as the tuning table says */
    int64_t chunk_bytes;     /* 0: the default, 60 KiB: under Open MPI's TCP eager limit */
    /* Sends data between groups as int8 blocks (exec/exec_block8.h), f32 and bf16 alone; exec.h
       says what is rounded.  Copies need coll_call.round, or coll_round of `in` before. */
    int coded;
    int stage; /* index of the stage, where stages are used; its handles run one by one */
};

/* Bytes of one rank, as they travel: to and from other groups, and sent inside its own. */
struct coll_traffic {
    int64_t slow_out, slow_in, fast_out;
};

struct coll_handle {
    struct coll_spec spec;        /* with the algo and the chunk_bytes that were taken */
    struct exec_mpi_handle *exec; /* one of the two, owned; the other is NULL */
    struct exec_nccl_handle *nccl;
    struct coll *coll;        /* borrowed */
    int64_t bytes[2];         /* of in and out, this rank's */
    struct coll_traffic mine; /* this rank's, one run */
    int64_t slow_bytes;       /* through the busiest port, busier direction, one run */
    int64_t fast_bytes_rank;  /* sent inside its group by the rank that sends most */
    int64_t scratch_bytes;    /* this rank's, beside in and out; NCCL's is coll_on_gpu's */
    int64_t residual_elems;   /* floats of this rank in which codes keep what they lost */
    struct stream *stream;    /* of the last run pushed, and its ticket; NULL: none */
    int64_t ticket;
};

/*
 * Collective, in the same order on every rank.  No allocation in later runs.  None goes on over
 * NCCL meanwhile.
 */
int coll_prepare(struct coll *c, const struct coll_spec *spec, struct coll_handle *out,
                 struct err *err);
/*
 * Waits for a run that goes on, whatever becomes of it: in and out are needed until then. Where
 * the runner has been closed before, nothing goes on, and h->stream must be NULL.
 */
void coll_free(struct coll_handle *h);

/* One run to come: stays with the caller until done.  A handle's runs go through one stream. */
struct coll_call {
    struct coll_handle *handle;
    const void *in;
    void *out;
    float *residual; /* [residual_elems], zero at first, this data's from run to run; or NULL */
    int round;       /* coll_round of `in` first, which is then not as it was */
    int64_t number;  /* over NCCL: its place among all calls; set by coll_push, coll_run */
    int begun;
    /* Set by coll_push and coll_run: the operation, and with a meter its place on the
       communicator and its record. */
    struct stream_op op;
    int64_t sequence, metered;
    double work_s; /* since the call before; 0: not known */
};
int64_t coll_push(struct stream *s, struct coll_call *call); /* the ticket */
int coll_run(struct stream *s, struct coll_handle *h, const void *in, void *out,
             struct err *err);
/*
 * For coded copies, else nothing: rounds a buffer to what its codes say, EXEC_IN before a run,
 * so that this rank's own part and its copies elsewhere are equal; EXEC_OUT: to what a run
 * would leave in `out`.  residual: of EXEC_IN, as a call's, or NULL.  Not collective.
 */
void coll_round(const struct coll_handle *h, enum exec_where where, void *buffer,
                float *residual);

int64_t coll_staged(const struct coll *c); /* bytes of all stages */
int coll_is_pinned(const struct coll *c);  /* they are; or the driver refused, and it is slow */
int64_t coll_on_gpu(const struct coll *c); /* bytes of the GPU that NCCL's runs want for sums */
/* A rank's rows, for any executor; of c its layout, levels and blocks.  Not collective. */
int coll_rows(const struct coll *c, const struct coll_spec *spec, int rank,
              struct exec_rows *out, struct err *err);

/* sum += times * one. */
void coll_traffic_add(struct coll_traffic *sum, const struct coll_traffic *one, int64_t times);
/* all[ranks]: through the busiest port in its busier direction, and inside a group by the rank
 * that sends most. */
void coll_traffic_busiest(const struct groups *g, const struct coll_traffic *all,
                          int64_t *slow_bytes, int64_t *fast_bytes);

/* Collective: coll_traffic_busiest of what each rank hands in. */
int coll_traffic_most(struct coll *c, const struct coll_traffic *mine, int64_t *slow_bytes,
                      int64_t *fast_bytes, struct err *err);

#endif
