/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PRELOAD_PRELOAD_MPI_H
#define PRELOAD_PRELOAD_MPI_H

/*
 * Internal to libparo-mpi.so: declares functions that its files share.  The program's MPI calls
 * arrive in preload_mpi.c, which passes them to MPI or runs them as schedules ("ours").  All
 * ranks must decide alike, or they would wait for each other.  So the decision only depends on
 * arguments that MPI requires to be equal on all ranks, on values that the ranks agreed on, and
 * on the number of earlier such calls on the communicator.
 *
 *     preload_mpi.c            intercepted functions
 *     preload_mpi_settings.c   the environment
 *     preload_mpi_comm.c       data of a communicator: groups, prepared calls
 *     preload_mpi_plan.c       a prepared call
 *     preload_mpi_measure.c    comparison of MPI's and our times
 *     preload_mpi_stage.c      copies the program's data in and out
 *     preload_mpi_trace.c      statistics of calls, for people
 *     preload_mpi_meter.c      records of when calls arrive and complete
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

/* One call with the program's arguments. */
struct preload_mpi_call {
    enum preload_mpi_form form;
    const void *in;
    int in_count; /* all-gathers only, which have an input type too */
    MPI_Datatype in_type;
    void *out; /* also the only buffer of a broadcast */
    int count; /* used if counts is NULL */
    const int *counts, *displs;
    MPI_Datatype type;
    MPI_Op op;
    int root;
    MPI_Comm comm;
};

/* Why a call is passed to MPI; PRELOAD_OURS: it runs as a schedule. */
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

/* Settings from the environment of rank 0 in MPI_COMM_WORLD, which sends them to all ranks. */
struct preload_mpi_settings {
    int32_t mode, tracing;
    int32_t off; /* all calls are passed to MPI; why[] is the reason */
    int64_t min_bytes, memory_bytes;
    char topo[512], tuning[512], trace[512], why[256]; /* "": not set */
    uint64_t run;                                      /* identity of this run, for the meter */
};

void preload_mpi_settings_read(struct preload_mpi_settings *s);
/* Whether the launcher of any MPI calls this rank 0, or there is none. */
int preload_mpi_launched_first(void);

/* Result of a call, for the trace. */
struct preload_mpi_result {
    enum preload_mpi_why why;
    int64_t bytes;
    double trial_s[2]; /* medians of MPI's and our times, if the call ended a trial; else 0 */
    double bound_s;    /* of our call: least time by the fabric's rates; 0: unknown */
    const char *error; /* for PRELOAD_FAILED and PRELOAD_NO_FABRIC, or NULL */
};

/* preload_mpi.c: calls MPI's own function. */
int preload_mpi_pass(const struct preload_mpi_call *c);

/* preload_mpi_comm.c */
/* Call after MPI is initialised */
int preload_mpi_comm_begin(const struct preload_mpi_settings *s);
/* Call before MPI is finalised; all later calls are passed to MPI */
void preload_mpi_comm_end(void);
/*
 * Executes a call of preload_mpi_size bytes on an intra-communicator of several ranks, by MPI
 * or by us; returns MPI's error code.
 */
int preload_mpi_comm_call(const struct preload_mpi_call *c, int ranks,
                          struct preload_mpi_result *result);
/* The communicator's ranks in MPI_COMM_WORLD, or MPI_UNDEFINED, [ranks]; owned by the caller
   (mem_free). */
int *preload_mpi_comm_ranks(MPI_Comm comm, int ranks);

/*
 * preload_mpi_stage.c
 *
 * Returns the bytes of the whole vector, equal on all ranks; sets *why if the call cannot be
 * ours on any communicator.  Cheap, since it runs for every call.
 */
int64_t preload_mpi_size(const struct preload_mpi_call *c, int *ranks,
                         enum preload_mpi_why *why);

/* preload_mpi_trace.c */
struct preload_mpi_trace;
struct preload_mpi_trace *preload_mpi_trace_new(void);
void preload_mpi_trace_note(struct preload_mpi_trace *t, enum preload_mpi_form form,
                            const struct preload_mpi_result *result, double seconds);
/* Appends to the file of the settings, or prints to standard error. */
void preload_mpi_trace_print(struct preload_mpi_trace *t, const struct preload_mpi_settings *s);
void preload_mpi_trace_free(struct preload_mpi_trace *t);

/* preload_mpi_meter.c */
/* 1; 0: this rank's PARO_METER is not set; -1: its folder cannot be used. */
int preload_mpi_meter_open(const struct meter_run *run, struct err *err);
void preload_mpi_meter_close(void);
/* Records a call on comm; 0: not metered. */
int64_t preload_mpi_meter_arrive(MPI_Comm comm, enum meter_op op, int64_t bytes);
void preload_mpi_meter_complete(int64_t number);

#endif
