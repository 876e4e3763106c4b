/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PRELOAD_PRELOAD_NCCL_H
#define PRELOAD_PRELOAD_NCCL_H

/*
 * Internal to libparo-nccl.so: declares functions that its files share.  The program's NCCL
 * calls arrive in preload_nccl.c, which passes them to NCCL or runs them as schedules ("ours");
 * preload_nccl_comm.c keeps the data of a communicator, preload_nccl_plan.c maps an NCCL
 * collective to the chunks of a schedule.
 */
#include <nccl.h>

#include "exec/exec_nccl.h"
#include "meter/meter.h"
#include "plugin/plugin_tuning.h"

/* NCCL's own functions, even if other libraries intercept them. */
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
    ncclResult_t (*revoke)(ncclComm_t, int); /* NULL, like simulate_end: this NCCL lacks it */
    ncclResult_t (*group_start)(void);
    ncclResult_t (*group_end)(void);
    ncclResult_t (*simulate_end)(void *);
};

/* A collective that the program called. */
struct preload_call {
    unsigned phases; /* SCHEDULE_ALL_GATHER, SCHEDULE_REDUCE_SCATTER, SCHEDULE_ALL_REDUCE */
    const void *in;
    void *out;
    size_t count; /* as in NCCL: elements of a block, or of an all-reduce's vector */
    ncclDataType_t type;
    ncclRedOp_t op;
    ncclComm_t comm;
    cudaStream_t stream;
};

/* Data kept for a communicator of the program. */
struct preload_comm;

/*
 * Collective over new communicators; several if one process made them at the same time for
 * several ranks.  Exchanges the ranks' places and whether all read the same table.  out[i]
 * NULL: nothing is known about it, its calls are passed to NCCL.  After an error, including a
 * wait longer than PARO_NCCL_DEADLINE, the communicators are unusable: abort all of them and
 * the entries of out.
 */
ncclResult_t preload_comm_new(ncclComm_t *comm, int n, const struct preload_real *real,
                              struct preload_comm **out);
/* Waits for its runs before freeing it, unless preload_comm_abort was called. */
void preload_comm_free(struct preload_comm *c);
/*
 * Begins to abort our runs, at the same time as the program's communicator is aborted, since
 * the kernels of either may wait for the other's.  Waits for threads between enter and leave.
 */
void preload_comm_abort(struct preload_comm *c);
void preload_comm_enter(struct preload_comm *c);
void preload_comm_leave(struct preload_comm *c);
/* NULL: the call is ours; else the reason for passing it to NCCL.  Equal on every rank. */
const char *preload_comm_passes(struct preload_comm *c, const struct preload_call *call);
/*
 * With PARO_METER (preload_nccl_meter.c): call preload_comm_meter before a call is put into its
 * stream, and preload_meter_after with its result afterwards.
 */
int preload_comm_meter(struct preload_comm *c, const struct preload_call *call);
void preload_meter_after(int place); /* 0: not metered */
void preload_meter_collect(void);    /* records completed calls */
int preload_meter_before(struct meter_comm *c, int gpu, const struct preload_call *call);
/* Initializes a new communicator's data; process: identities of the ranks' processes,
   [ranks]. */
void preload_meter_comm(struct meter_comm *c, const uint64_t *process, int rank, int ranks,
                        int gpu);
/* Puts the call into its stream; the text of an error is printed under PARO_DEBUG. */
ncclResult_t preload_comm_run(struct preload_comm *c, const struct preload_call *call);

/* The rows of a call for a rank; the bytes of the whole vector. */
int preload_plan_rows(const struct preload_call *call, const struct groups *groups, int rank,
                      const struct pick_rule *rule, struct exec_rows *out, struct err *err);
int64_t preload_plan_bytes(const struct preload_call *call, int ranks);
/* Whether type and operation are supported; an all-gather may have any type. */
int preload_plan_type(const struct preload_call *call, enum dtype *type, enum dtype_op *op,
                      int64_t *elems);

/* Marks NCCL calls of this thread from here on as the preload's own; returns the previous
   mark. */
int preload_own(int own);

/*
 * Saves and restores the program's state of a thread, which NCCL leaves unchanged too: its GPU,
 * and whether its requests may invalidate a graph that it captures on another stream.
 */
struct preload_manners {
    int gpu;
    enum cudaStreamCaptureMode mode;
};
struct preload_manners preload_be_ours(void);
void preload_be_again(struct preload_manners was);

#endif
