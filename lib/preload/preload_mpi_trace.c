/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints which of a program's calls ran as schedules, and the reasons for the others. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/units.h"
#include "preload/preload_mpi.h"

enum { SIZES = 64 }; /* one for each power of two */

static const char *const forms[PRELOAD_FORMS] = {
    [PRELOAD_ALLGATHER] = "MPI_Allgather",
    [PRELOAD_ALLGATHERV] = "MPI_Allgatherv",
    [PRELOAD_REDUCE_SCATTER] = "MPI_Reduce_scatter",
    [PRELOAD_REDUCE_SCATTER_BLOCK] = "MPI_Reduce_scatter_block",
    [PRELOAD_ALLREDUCE] = "MPI_Allreduce",
    [PRELOAD_BCAST] = "MPI_Bcast",
};

static const char *const words[PRELOAD_WHYS] = {
    [PRELOAD_OFF] = "the library is off",
    [PRELOAD_SMALL] = "below PARO_MPI_MIN_BYTES",
    [PRELOAD_EMPTY] = "no elements",
    [PRELOAD_ARGUMENTS] = "arguments that MPI may reject",
    [PRELOAD_INTER] = "an inter-communicator",
    [PRELOAD_ALONE] = "one rank",
    [PRELOAD_LARGE] = "a block of 2 GiB or more",
    [PRELOAD_REDUCTION] = "a type or an operation of the program's, or with gaps",
    [PRELOAD_NEVER] = "PARO_MPI_MODE is never",
    [PRELOAD_STRANGERS] = "ranks of another MPI_COMM_WORLD",
    [PRELOAD_ONE_GROUP] = "one group",
    [PRELOAD_NO_FABRIC] = "unknown groups",
    [PRELOAD_FIRST] = "first call of its kind",
    [PRELOAD_TRIAL] = "MPI's turn in a trial",
    [PRELOAD_OTHER] = "while another call was on trial",
    [PRELOAD_SLOWER] = "MPI was faster",
    [PRELOAD_FULL] = "PARO_MPI_MEMORY is used up",
    [PRELOAD_FAILED] = "could not be prepared",
};

struct cell {
    int64_t calls, by[PRELOAD_WHYS];
    double spent_s[2]; /* time in MPI, in schedules */
    double trial_s[2]; /* medians of the last trial */
    double bound_s;    /* least time of the calls in schedules; 0: unknown */
    char error[sizeof((struct err *)0)->text];
};

struct preload_mpi_trace {
    pthread_mutex_t lock;
    struct cell *cell[PRELOAD_FORMS][SIZES];
};

struct preload_mpi_trace *preload_mpi_trace_new(void)
{
    struct preload_mpi_trace *t = mem_new(1, sizeof *t);

    pthread_mutex_init(&t->lock, NULL);
    return t;
}

void preload_mpi_trace_free(struct preload_mpi_trace *t)
{
    for (int f = 0; f < PRELOAD_FORMS; f++)
        for (int i = 0; i < SIZES; i++)
            mem_free(t->cell[f][i]);
    pthread_mutex_destroy(&t->lock);
    mem_free(t);
}

void preload_mpi_trace_note(struct preload_mpi_trace *t, enum preload_mpi_form form,
                            const struct preload_mpi_result *result, double seconds)
{
    int size = 0;

    while (result->bytes >> size > 1)
        size++;
    pthread_mutex_lock(&t->lock);
    struct cell *c = t->cell[form][size];
    if (!c)
        c = t->cell[form][size] = mem_new(1, sizeof *c);
    c->calls++;
    c->by[result->why]++;
    c->spent_s[result->why == PRELOAD_OURS] += seconds;
    c->bound_s += result->bound_s;
    if (result->trial_s[0] > 0)
        memcpy(c->trial_s, result->trial_s, sizeof c->trial_s);
    if (result->error)
        snprintf(c->error, sizeof c->error, "%s", result->error);
    pthread_mutex_unlock(&t->lock);
}

static void mpi_trace_print_cell(const char *form, int size, const struct cell *c, FILE *out)
{
    struct units a, b;

    fprintf(out, "paro-mpi: %-24s from %8s: %lld calls, %lld ours", form,
            units_bytes(&a, size ? (double)(INT64_C(1) << size) : 0), (long long)c->calls,
            (long long)c->by[PRELOAD_OURS]);
    if (c->by[PRELOAD_OURS])
        fprintf(out, " in %s", units_time(&a, c->spent_s[1]));
    if (c->bound_s > 0)
        fprintf(out, ", %.2f of the bound", c->bound_s / c->spent_s[1]);
    if (c->calls > c->by[PRELOAD_OURS])
        fprintf(out, ", MPI's in %s", units_time(&a, c->spent_s[0]));
    if (c->trial_s[1] > 0)
        fprintf(out, "; trial: MPI %s, ours %s, ratio %.2f", units_time(&a, c->trial_s[0]),
                units_time(&b, c->trial_s[1]), c->trial_s[0] / c->trial_s[1]);
    for (int w = PRELOAD_OFF; w < PRELOAD_WHYS; w++) {
        int says_why = w == PRELOAD_NO_FABRIC || w == PRELOAD_FAILED;
        if (c->by[w])
            fprintf(out, "; %lld %s%s%s", (long long)c->by[w], words[w], says_why ? ": " : "",
                    says_why ? c->error : "");
    }
    fputc('\n', out);
}

void preload_mpi_trace_print(struct preload_mpi_trace *t, const struct preload_mpi_settings *s)
{
    char *text = NULL;
    size_t bytes = 0;
    struct units a;

    FILE *out = mem_stream(&text, &bytes);
    if (s->off)
        fprintf(out, "paro-mpi: off: %s\n", s->why);
    else
        fprintf(out, "paro-mpi: mode %s, from %s, groups by %s\n", preload_mpi_modes[s->mode],
                units_bytes(&a, (double)s->min_bytes), *s->topo ? s->topo : "hosts");
    for (int f = 0; f < PRELOAD_FORMS; f++)
        for (int i = 0; i < SIZES; i++)
            if (t->cell[f][i])
                mpi_trace_print_cell(forms[f], i, t->cell[f][i], out);
    fclose(out);
    FILE *to = *s->trace ? fopen(s->trace, "ae") : stderr;
    if (to)
        /* In one call, so that other programs' output does not mix with it */
        fwrite(text, 1, bytes, to);
    if (to && to != stderr)
        fclose(to);
    mem_free(text);
}
