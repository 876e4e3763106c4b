/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a program's collectives as schedules if these are faster (libparo-mpi.so, preloaded or
 * linked before MPI).  MPI runs all other calls, and every call in unusual situations.
 *
 *     MPI_Init, MPI_Init_thread    MPI's, then all ranks agree on rank 0's settings
 *     MPI_Allreduce, ...           ours, or MPI's
 *     MPI_Finalize                 first deletes attributes of MPI_COMM_SELF: ends our part
 *
 * If a program initialises MPI in another way (in Fortran, whose bindings call PMPI), its ranks
 * have not agreed on settings, and all its calls are MPI's.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/tick.h"
#include "preload/preload_mpi.h"

#define EXPORT __attribute__((visibility("default")))

/* Globals, because a preloaded library has no caller that could keep them. */
static struct {
    int ready; /* between MPI_Init and MPI_Finalize, unless all calls are passed on */
    int meters;
    struct preload_mpi_settings settings;
    struct preload_mpi_trace *trace; /* on rank 0 if a trace is requested; else NULL */
} preload;

int preload_mpi_pass(const struct preload_mpi_call *c)
{
    switch (c->form) {
    case PRELOAD_ALLGATHER:
        return PMPI_Allgather(c->in, c->in_count, c->in_type, c->out, c->count, c->type,
                              c->comm);
    case PRELOAD_ALLGATHERV:
        return PMPI_Allgatherv(c->in, c->in_count, c->in_type, c->out, c->counts, c->displs,
                               c->type, c->comm);
    case PRELOAD_REDUCE_SCATTER:
        return PMPI_Reduce_scatter(c->in, c->out, c->counts, c->type, c->op, c->comm);
    case PRELOAD_REDUCE_SCATTER_BLOCK:
        return PMPI_Reduce_scatter_block(c->in, c->out, c->count, c->type, c->op, c->comm);
    case PRELOAD_ALLREDUCE:
        return PMPI_Allreduce(c->in, c->out, c->count, c->type, c->op, c->comm);
    default:
        return PMPI_Bcast(c->out, c->count, c->type, c->root, c->comm);
    }
}

static int mpi_handle_call(const struct preload_mpi_call *c)
{
    static const enum meter_op op[PRELOAD_FORMS] = {
        [PRELOAD_ALLGATHER] = METER_ALL_GATHER,
        [PRELOAD_ALLGATHERV] = METER_ALL_GATHER,
        [PRELOAD_REDUCE_SCATTER] = METER_REDUCE_SCATTER,
        [PRELOAD_REDUCE_SCATTER_BLOCK] = METER_REDUCE_SCATTER,
        [PRELOAD_ALLREDUCE] = METER_ALL_REDUCE,
        [PRELOAD_BCAST] = METER_BROADCAST,
    };
    struct preload_mpi_result result = {0};
    int64_t number = 0;
    int ranks = 0;

    if (!preload.ready)
        return preload_mpi_pass(c);
    double begun_s = preload.trace ? tick_now_s() : 0;
    result.bytes = preload_mpi_size(c, &ranks, &result.why);
    if (preload.meters)
        number = preload_mpi_meter_arrive(c->comm, op[c->form], result.bytes);
    if (preload.settings.off)
        result.why = PRELOAD_OFF;
    else if (result.why == PRELOAD_OURS && result.bytes < preload.settings.min_bytes)
        result.why = PRELOAD_SMALL;
    int rc = result.why == PRELOAD_OURS ? preload_mpi_comm_call(c, ranks, &result)
                                        : preload_mpi_pass(c);
    preload_mpi_meter_complete(number);
    if (preload.trace)
        preload_mpi_trace_note(preload.trace, c->form, &result, tick_now_s() - begun_s);
    return rc;
}

/* Handles a call of MPI with these members of struct preload_mpi_call. */
#define CALL(form_, ...)                                                                       \
    mpi_handle_call(&(struct preload_mpi_call){.form = PRELOAD_##form_, __VA_ARGS__})

EXPORT int MPI_Allgather(const void *in, int in_count, MPI_Datatype in_type, void *out,
                         int count, MPI_Datatype type, MPI_Comm comm)
{
    return CALL(ALLGATHER, .in = in, .in_count = in_count, .in_type = in_type, .out = out,
                .count = count, .type = type, .comm = comm);
}

EXPORT int MPI_Allgatherv(const void *in, int in_count, MPI_Datatype in_type, void *out,
                          const int *counts, const int *displs, MPI_Datatype type,
                          MPI_Comm comm)
{
    return CALL(ALLGATHERV, .in = in, .in_count = in_count, .in_type = in_type, .out = out,
                .counts = counts, .displs = displs, .type = type, .comm = comm);
}

EXPORT int MPI_Reduce_scatter(const void *in, void *out, const int *counts, MPI_Datatype type,
                              MPI_Op op, MPI_Comm comm)
{
    return CALL(REDUCE_SCATTER, .in = in, .out = out, .counts = counts, .type = type, .op = op,
                .comm = comm);
}

EXPORT int MPI_Reduce_scatter_block(const void *in, void *out, int count, MPI_Datatype type,
                                    MPI_Op op, MPI_Comm comm)
{
    return CALL(REDUCE_SCATTER_BLOCK, .in = in, .out = out, .count = count, .type = type,
                .op = op, .comm = comm);
}

EXPORT int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
                         MPI_Comm comm)
{
    return CALL(ALLREDUCE, .in = in, .out = out, .count = count, .type = type, .op = op,
                .comm = comm);
}

EXPORT int MPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    return CALL(BCAST, .out = buffer, .count = count, .type = type, .root = root, .comm = comm);
}

/* For calls that are only metered: bytes of a rank's block times the ranks, as far as one rank
   knows. */
static int64_t metered(MPI_Comm comm, enum meter_op op, int count, MPI_Datatype type, int each)
{
    MPI_Count size = 0;
    int ranks = 1;

    if (!preload.ready || !preload.meters || comm == MPI_COMM_NULL)
        return 0;
    if (type != MPI_DATATYPE_NULL)
        PMPI_Type_size_x(type, &size);
    if (each)
        PMPI_Comm_size(comm, &ranks);
    return preload_mpi_meter_arrive(comm, op, count > 0 ? count * (int64_t)size * ranks : 0);
}

static int completed(int64_t number, int rc)
{
    preload_mpi_meter_complete(number);
    return rc;
}

EXPORT int MPI_Barrier(MPI_Comm comm)
{
    int64_t number = metered(comm, METER_BARRIER, 0, MPI_DATATYPE_NULL, 0);

    return completed(number, PMPI_Barrier(comm));
}

EXPORT int MPI_Alltoall(const void *in, int in_count, MPI_Datatype in_type, void *out,
                        int count, MPI_Datatype type, MPI_Comm comm)
{
    int64_t number = metered(comm, METER_ALL_TO_ALL, count, type, 1);

    return completed(number, PMPI_Alltoall(in, in_count, in_type, out, count, type, comm));
}

EXPORT int MPI_Reduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
                      int root, MPI_Comm comm)
{
    int64_t number = metered(comm, METER_REDUCE, count, type, 0);

    return completed(number, PMPI_Reduce(in, out, count, type, op, root, comm));
}

/* An attribute that MPI_Finalize deletes first, in any language. */
static int mpi_end(MPI_Comm comm, int key, void *value, void *extra)
{
    (void)comm, (void)key, (void)value, (void)extra;
    preload.ready = 0;
    preload_mpi_comm_end();
    preload_mpi_meter_close();
    if (preload.trace) {
        preload_mpi_trace_print(preload.trace, &preload.settings);
        preload_mpi_trace_free(preload.trace);
        preload.trace = NULL;
    }
    return MPI_SUCCESS;
}

/* MPI_MAX_LIBRARY_VERSION_STRING of MPICH and of MPI's ABI; Open MPI's is 256. */
enum { FOREIGN_VERSION = 8192 };

#define TEXT(x)  #x
#define QUOTE(x) TEXT(x)

/* How the versions of libraries with this build's binary interface begin, and the major version
   of MPI's standard one, which libraries of MPI 5 have next to their own. */
#ifdef MPI_ABI_VERSION
static const char built[] = "the standard ABI of MPI";
static const char *const family[] = {""};
enum { ABI = MPI_ABI_VERSION };
#elif defined OMPI_MAJOR_VERSION
static const char built[] = "Open MPI v" QUOTE(OMPI_MAJOR_VERSION) ".";
static const char *const family[] = {built};
enum { ABI = -1 };
#else
static const char built[] = "MPICH or a library with its ABI";
static const char *const family[] = {"MPICH", "Intel(R) MPI", "MVAPICH",
                                     "MPI VERSION    : CRAY"};
enum { ABI = -1 };
#endif
__attribute__((weak)) extern int PMPI_Abi_get_version(int *major, int *minor);

/*
 * Whether the program's MPI has the binary interface that this library was built for: handles
 * are addresses in some and numbers in others.  If not, rank 0 of the launcher says so, as the
 * communicators of that MPI cannot be used.
 */
static int check_family(void)
{
    char version[FOREIGN_VERSION] = "";
    int length = 0, major = -1, minor = -1;

    if (PMPI_Abi_get_version)
        PMPI_Abi_get_version(&major, &minor);
    PMPI_Get_library_version(version, &length);
    for (size_t i = 0; major == ABI && i < sizeof family / sizeof *family; i++)
        if (strncmp(version, family[i], strlen(family[i])) == 0)
            return 1;
    /* Handles that are addresses do not fit into this build's numbers: its entry points cut
       them, and no call can be passed on. */
    int cut = major != ABI || dlsym(RTLD_DEFAULT, "ompi_mpi_comm_world");
    cut = cut && sizeof(MPI_Comm) < sizeof(void *);
    if (preload_mpi_launched_first())
        fprintf(stderr, "paro-mpi: found MPI '%.*s'%s, expected %s: %s\n",
                (int)strcspn(version, "\n"), version, major > 0 ? " with the standard ABI" : "",
                built, cut ? "no call can be passed to it" : "all calls are passed to it");
    if (cut) {
        sleep(preload_mpi_launched_first() ? 0 : 1); /* rank 0 prints first */
        _exit(2);
    }
    return 0;
}

/* Collective over MPI_COMM_WORLD: all ranks take rank 0's settings. */
static void mpi_begin(void)
{
    int rank = 0, ranks = 1, off = 0, key = MPI_KEYVAL_INVALID;
    struct err err;

    if (!check_family())
        return;
    preload_mpi_settings_read(&preload.settings);
    off = preload.settings.off;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    PMPI_Bcast(&preload.settings, sizeof preload.settings, MPI_BYTE, 0, MPI_COMM_WORLD);
    PMPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const struct meter_run run = {preload.settings.run, rank, ranks};
    int metered = preload_mpi_meter_open(&run, &err);
    /* The first rank that cannot open its meter reports it. */
    int all[] = {off, metered < 0 ? ranks - rank : 0};
    PMPI_Allreduce(MPI_IN_PLACE, all, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (metered < 0 && all[1] == ranks - rank)
        fprintf(stderr, "paro-mpi: rank %d is not metered: PARO_METER: %s\n", rank, err.text);
    off = all[0];
    if (off && !preload.settings.off)
        snprintf(preload.settings.why, sizeof preload.settings.why, "on another rank than 0");
    preload.settings.off = off;
    preload.meters = metered > 0;
    if (off && !preload.settings.tracing && !preload.meters)
        return;
    preload_mpi_comm_begin(&preload.settings);
    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, mpi_end, &key, NULL);
    PMPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    PMPI_Comm_free_keyval(&key);
    if (preload.settings.tracing && rank == 0)
        preload.trace = preload_mpi_trace_new();
    preload.ready = 1;
}

EXPORT int MPI_Init(int *argc, char ***argv)
{
    int rc = PMPI_Init(argc, argv);

    if (rc == MPI_SUCCESS)
        mpi_begin();
    return rc;
}

EXPORT int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    int rc = PMPI_Init_thread(argc, argv, required, provided);

    if (rc == MPI_SUCCESS)
        mpi_begin();
    return rc;
}
