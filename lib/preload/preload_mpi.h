/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PRELOAD_PRELOAD_MPI_H
#define PRELOAD_PRELOAD_MPI_H

/*
 * Inside libparo-mpi.so: declares what its files share.  A program's calls of MPI come to
 * preload_mpi.c, which passes it on or has it done by a schedule.  Every rank must come to the
 * same answer, or they would wait for each other: the decision depends on what MPI wants to be
 * the same on all ranks, what the ranks agreed on, and how many such calls there were before on
 * the communicator.
 *
 *     preload_mpi.c            what is called
 *     preload_mpi_settings.c   the environment
 *     preload_mpi_comm.c       what is kept of a communicator: groups, prepared calls
 *     preload_mpi_plan.c       a call that is prepared
 *     preload_mpi_measure.c    whose is faster
 *     preload_mpi_stage.c      the program's data, in and out
 *     preload_mpi_trace.c      what was done, for people
 *     preload_mpi_meter.c      when calls arrive and complete
 */
#include <mpi.h>
#include <stdint.h>

#include "meter/meter.h"

enum preload_mpi_form {
    PRELOAD_ALLGATHER,
    PRELOAD_ALLGATHERV,
    PRELOAD_REDUCE_SCATTER,
    PRELOAD_REDUCE_SCATTER_BLOCK,
    PRELOAD_ALLREDUCE,
    PRELOAD_BCAST,
    PRELOAD_FORMS
};

/* One call, as the program made it. */
struct preload_mpi_call {
    enum preload_mpi_form form;
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

/* Why a call is not ours; PRELOAD_OURS: it is. */
enum preload_mpi_why {
    PRELOAD_OURS,
    PRELOAD_OFF,
    PRELOAD_SMALL,
    PRELOAD_EMPTY,
    PRELOAD_ARGUMENTS,
    PRELOAD_INTER,
    PRELOAD_ALONE,
    PRELOAD_LARGE,
    PRELOAD_REDUCTION,
    PRELOAD_NEVER,
    PRELOAD_STRANGERS,
    PRELOAD_ONE_GROUP,
    PRELOAD_NO_FABRIC,
    PRELOAD_FIRST,
    PRELOAD_TRIAL,
    PRELOAD_OTHER,
    PRELOAD_SLOWER,
    PRELOAD_FULL,
    PRELOAD_FAILED,
    PRELOAD_WHYS
};

enum preload_mpi_mode { PRELOAD_MEASURE, PRELOAD_ALWAYS, PRELOAD_NEVER_MODE, PRELOAD_MODES };
extern const char *const preload_mpi_modes[PRELOAD_MODES];

/* The settings that rank 0 of MPI_COMM_WORLD found in its environment; all ranks have them from
   there. */
struct preload_mpi_settings {
    int32_t mode, tracing;
    int32_t off; /* why[] says why nothing is ours */
    int64_t min_bytes, memory_bytes;
    char topo[512], tuning[512], trace[512], why[256]; /* "": not set */
    uint64_t run;                                      /* identity of this run, for the meter */
};

void preload_mpi_settings_read(struct preload_mpi_settings *s);

/* How a call went, for the trace. */
struct preload_mpi_result {
    enum preload_mpi_why why;
    int64_t bytes;
    double trial_s[2]; /* a trial ended: medians of the library's and ours; else 0 */
    const char *error; /* of PRELOAD_FAILED, PRELOAD_NO_FABRIC, or NULL */
};

/* preload_mpi.c: the library's own. */
int preload_mpi_pass(const struct preload_mpi_call *c);

/* preload_mpi_comm.c */
int preload_mpi_comm_begin(const struct preload_mpi_settings *s); /* once MPI is initialised */
void preload_mpi_comm_end(void); /* before it is finalised; nothing is ours afterwards */
/*
 * A call of so many bytes (preload_mpi_size) on an intra-communicator of several ranks: done,
 * by the library or by us; returns what MPI would.
 */
int preload_mpi_comm_call(const struct preload_mpi_call *c, int ranks,
                          struct preload_mpi_result *result);
/* Its ranks in MPI_COMM_WORLD, or MPI_UNDEFINED, [ranks]; the caller's, by mem_free. */
int *preload_mpi_comm_ranks(MPI_Comm comm, int ranks);

/*
 * preload_mpi_stage.c
 *
 * Bytes of the whole vector, the same on all ranks; *why where this cannot be ours whatever the
 * communicator.  Cheap: it is done for every call.
 */
int64_t preload_mpi_size(const struct preload_mpi_call *c, int *ranks,
                         enum preload_mpi_why *why);

/* preload_mpi_trace.c */
struct preload_mpi_trace;
struct preload_mpi_trace *preload_mpi_trace_new(void);
void preload_mpi_trace_note(struct preload_mpi_trace *t, enum preload_mpi_form form,
                            const struct preload_mpi_result *result, double seconds);
/* To the file of the settings, behind what is there, or to standard error. */
void preload_mpi_trace_print(struct preload_mpi_trace *t, const struct preload_mpi_settings *s);
void preload_mpi_trace_free(struct preload_mpi_trace *t);

/* preload_mpi_meter.c */
/* 1; 0 where this rank's PARO_METER is not set; -1: its folder cannot be used. */
int preload_mpi_meter_open(const struct meter_run *run, struct err *err);
void preload_mpi_meter_close(void);
/* A call on comm; 0: not metered. */
int64_t preload_mpi_meter_arrive(MPI_Comm comm, enum meter_op op, int64_t bytes);
void preload_mpi_meter_complete(int64_t number);

#endif
