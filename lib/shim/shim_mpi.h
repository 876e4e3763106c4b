/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHIM_SHIM_MPI_H
#define SHIM_SHIM_MPI_H

/*
 * Inside libparo-mpi.so: declares what its files share.  A program's calls of MPI come to
 * shim_mpi.c, which passes it on or has it done by a schedule.  Every rank must come to the
 * same answer, or they would wait for each other: the decision depends on what MPI wants to be
 * the same on all ranks, what the ranks agreed on, and how many such calls there were before on
 * the communicator.
 *
 *     shim_mpi.c            what is called
 *     shim_mpi_settings.c   the environment
 *     shim_mpi_comm.c       what is kept of a communicator: groups, prepared calls
 *     shim_mpi_plan.c       a call that is prepared
 *     shim_mpi_measure.c    whose is faster
 *     shim_mpi_stage.c      the program's data, in and out
 *     shim_mpi_trace.c      what was done, for people
 *     shim_mpi_meter.c      when calls arrive and complete
 */
#include <mpi.h>
#include <stdint.h>

#include "meter/meter.h"

enum shim_mpi_form {
    SHIM_ALLGATHER,
    SHIM_ALLGATHERV,
    SHIM_REDUCE_SCATTER,
    SHIM_REDUCE_SCATTER_BLOCK,
    SHIM_ALLREDUCE,
    SHIM_BCAST,
    SHIM_FORMS
};

/* One call, as the program made it. */
struct shim_mpi_call {
    enum shim_mpi_form form;
    const void *in;
    int in_count; /* of all-gathers: with a type of its own */
    MPI_Datatype in_type;
    void *out; /* a broadcast's only buffer */
    int count; /* unless there are counts */
    const int *counts, *displs;
    MPI_Datatype type;
    MPI_Op op;
    int root;
    MPI_Comm comm;
};

/* Why a call is not ours; SHIM_OURS: it is. */
enum shim_mpi_why {
    SHIM_OURS,
    SHIM_OFF,
    SHIM_SMALL,
    SHIM_EMPTY,
    SHIM_ARGUMENTS,
    SHIM_INTER,
    SHIM_ALONE,
    SHIM_LARGE,
    SHIM_REDUCTION,
    SHIM_NEVER,
    SHIM_STRANGERS,
    SHIM_ONE_GROUP,
    SHIM_NO_FABRIC,
    SHIM_FIRST,
    SHIM_TURN,
    SHIM_OTHER,
    SHIM_SLOWER,
    SHIM_FULL,
    SHIM_FAILED,
    SHIM_WHYS
};

enum shim_mpi_mode { SHIM_MEASURE, SHIM_ALWAYS, SHIM_NEVER_MODE, SHIM_MODES };
extern const char *const shim_mpi_modes[SHIM_MODES];

/* The settings that rank 0 of MPI_COMM_WORLD found in its environment; all ranks have them from
   there. */
struct shim_mpi_settings {
    int32_t mode, tracing;
    int32_t off; /* why[] says why nothing is ours */
    int64_t min_bytes, memory_bytes;
    char topo[512], tuning[512], trace[512], why[256]; /* "": not set */
    uint64_t run;                                      /* identity of this run, for the meter */
};

void shim_mpi_settings_read(struct shim_mpi_settings *s);

/* How a call went, for the trace. */
struct shim_mpi_told {
    enum shim_mpi_why why;
    int64_t bytes;
    double trial_s[2]; /* a trial ended: medians of the library's and ours; else 0 */
    const char *error; /* of SHIM_FAILED, SHIM_NO_FABRIC, or NULL */
};

/* shim_mpi.c: the library's own. */
int shim_mpi_pass(const struct shim_mpi_call *c);

/* shim_mpi_comm.c */
int shim_mpi_comm_begin(const struct shim_mpi_settings *s); /* once MPI is initialised */
void shim_mpi_comm_end(void); /* before it is finalised; nothing is ours afterwards */
/*
 * A call of so many bytes (shim_mpi_size) on an intra-communicator of several ranks: done, by
 * the library or by us; returns what MPI would.
 */
int shim_mpi_comm_call(const struct shim_mpi_call *c, int ranks, struct shim_mpi_told *told);
/* Its ranks in MPI_COMM_WORLD, or MPI_UNDEFINED, [ranks]; the caller's, by mem_free. */
int *shim_mpi_comm_ranks(MPI_Comm comm, int ranks);

/*
 * shim_mpi_stage.c
 *
 * Bytes of the whole vector, the same on all ranks; *why where this cannot be ours whatever the
 * communicator.  Cheap: it is done for every call.
 */
int64_t shim_mpi_size(const struct shim_mpi_call *c, int *ranks, enum shim_mpi_why *why);

/* shim_mpi_trace.c */
struct shim_mpi_trace;
struct shim_mpi_trace *shim_mpi_trace_new(void);
void shim_mpi_trace_note(struct shim_mpi_trace *t, enum shim_mpi_form form,
                         const struct shim_mpi_told *told, double seconds);
/* To the file of the settings, behind what is there, or to standard error. */
void shim_mpi_trace_print(struct shim_mpi_trace *t, const struct shim_mpi_settings *s);
void shim_mpi_trace_free(struct shim_mpi_trace *t);

/* shim_mpi_meter.c */
/* 1; 0 where this rank's PARO_METER is not set; -1: its folder cannot be used. */
int shim_mpi_meter_open(const struct meter_run *run, struct err *err);
void shim_mpi_meter_close(void);
/* A call on comm; 0: not metered. */
int64_t shim_mpi_meter_arrive(MPI_Comm comm, enum meter_op op, int64_t bytes);
void shim_mpi_meter_complete(int64_t number);

#endif
