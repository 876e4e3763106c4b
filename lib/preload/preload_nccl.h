/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PRELOAD_PRELOAD_NCCL_H
#define PRELOAD_PRELOAD_NCCL_H

/*
 * Inside libparo-nccl.so: declares what its files share.  A program's calls of NCCL come to
 * preload_nccl.c, which passes them on or runs a schedule; preload_nccl_comm.c keeps the data
 * of a communicator, preload_nccl_plan.c maps a collective of NCCL's to the chunks of a
 * schedule.
 */
#include <nccl.h>

#include "exec/exec_nccl.h"
#include "meter/meter.h"
#include "plugin/plugin_tuning.h"

/* NCCL's own functions, whoever else intercepts them. */
struct preload_real {
    ncclResult_t (*all_gather)(const void *, void *, size_t, ncclDataType_t, ncclComm_t,
                               cudaStream_t);
    ncclResult_t (*reduce_scatter)(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t,
                                   ncclComm_t, cudaStream_t);
    ncclResult_t (*all_reduce)(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t,
                               ncclComm_t, cudaStream_t);
    ncclResult_t (*init)(ncclComm_t *, int, ncclUniqueId, int);
    ncclResult_t (*init_config)(ncclComm_t *, int, ncclUniqueId, int, ncclConfig_t *);
    ncclResult_t (*split)(ncclComm_t, int, int, ncclComm_t *, ncclConfig_t *);
    ncclResult_t (*finalize)(ncclComm_t);
    ncclResult_t (*destroy)(ncclComm_t);
    ncclResult_t (*abort)(ncclComm_t);
    ncclResult_t (*revoke)(ncclComm_t, int); /* NULL: an NCCL without it, as simulate_end */
    ncclResult_t (*group_start)(void);
    ncclResult_t (*group_end)(void);
    ncclResult_t (*simulate_end)(void *);
};

/* One collective that a program asked for. */
struct preload_call {
    unsigned phases; /* SCHEDULE_ALL_GATHER, SCHEDULE_REDUCE_SCATTER, SCHEDULE_ALL_REDUCE */
    const void *in;
    void *out;
    size_t count; /* as NCCL has it: of a block, or of an all-reduce's vector */
    ncclDataType_t type;
    ncclRedOp_t op;
    ncclComm_t comm;
    cudaStream_t stream;
};

/* The data kept of a communicator of the program's. */
struct preload_comm;

/*
 * Collective over new communicators, several where ranks of one process have been made at once:
 * learns who stands where and whether all ranks read the same table.  out[i] NULL: nothing can
 * be said about it, its calls are passed on.  On an error, also past PARO_NCCL_DEADLINE,
 * nothing can be done with any of them: they are to be given up, and what is in out, too.
 */
ncclResult_t preload_comm_new(ncclComm_t *comm, int n, const struct preload_real *real,
                              struct preload_comm **out);
/* After preload_comm_abort: of one that the program has given up.  Else waits for its runs. */
void preload_comm_free(struct preload_comm *c);
/*
 * Begins to end what goes on, at the same time as the program's communicator is aborted: the
 * kernels of either may wait for the other's.  Threads between enter and leave are waited for.
 */
void preload_comm_abort(struct preload_comm *c);
void preload_comm_enter(struct preload_comm *c);
void preload_comm_leave(struct preload_comm *c);
/* Whether a call is to be ours: NULL, or why it is passed on.  The same on every rank. */
const char *preload_comm_passes(struct preload_comm *c, const struct preload_call *call);
/*
 * With PARO_METER (preload_nccl_meter.c): a call is about to be put into its stream, and, by
 * the number that this returns, has been put there.
 */
int preload_comm_meter(struct preload_comm *c, const struct preload_call *call);
void preload_meter_after(int place); /* 0: nothing */
void preload_meter_collect(void);    /* records what has ended */
int preload_meter_before(struct meter_comm *c, int gpu, const struct preload_call *call);
/* A new communicator, of processes by identity, [ranks]. */
void preload_meter_comm(struct meter_comm *c, const uint64_t *process, int rank, int ranks,
                        int gpu);
/* Puts it into the call's stream; on an error the words are told under PARO_DEBUG. */
ncclResult_t preload_comm_run(struct preload_comm *c, const struct preload_call *call);

/* The rows of a call for rank; bytes of the whole vector. */
int preload_plan_rows(const struct preload_call *call, const struct groups *groups, int rank,
                      const struct pick_rule *rule, struct exec_rows *out, struct err *err);
int64_t preload_plan_bytes(const struct preload_call *call, int ranks);
/* Whether type and operation are ours; the type of an all-gather may be anything. */
int preload_plan_type(const struct preload_call *call, enum dtype *type, enum dtype_op *op,
                      int64_t *elems);

/* Marks what this thread asks of NCCL from here on as the preload's own; returns what it was.
   */
int preload_own(int own);

/*
 * The program's state of a thread, left as it was, as NCCL leaves it: its GPU, and
 * whether what it asks for may spoil a graph that it captures on another stream.
 */
struct preload_manners {
    int gpu;
    enum cudaStreamCaptureMode mode;
};
struct preload_manners preload_be_ours(void);
void preload_be_again(struct preload_manners was);

#endif
