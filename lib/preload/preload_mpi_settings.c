/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads the settings from the environment.  With an invalid setting all calls are passed to
 * MPI.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "preload/preload_mpi.h"

/*
 * For smaller calls the latencies of a collective's rounds (at least two, 50 to 100 us on
 * Ethernet) exceed the transfer time on a port of 1 Gbit/s: 0.27 ms for 32 KiB.  A schedule
 * cannot gain the cost of the decision there.
 */
enum { MIN_BYTES = 32 << 10, MEMORY_BYTES = 256 << 20 };

static const char *word(const char *name)
{
    const char *v = getenv(name);

    return v ? v : "";
}

static int is_set(const char *name)
{
    const char *v = word(name);

    return *v && strcmp(v, "0") != 0;
}

static void mpi_settings_refuse(struct preload_mpi_settings *s, const char *name,
                                const char *why)
{
    s->off = 1;
    snprintf(s->why, sizeof s->why, "%s: %.200s", name, why);
}

static void mpi_settings_read_bytes(struct preload_mpi_settings *s, const char *name,
                                    int64_t *out)
{
    struct err err = {0};

    if (*word(name) && num_bytes(word(name), 0, INT64_C(1) << 50, out, &err))
        mpi_settings_refuse(s, name, err.text);
}

static void mpi_settings_read_text(struct preload_mpi_settings *s, const char *name, char *to,
                                   size_t space)
{
    if (strlen(word(name)) >= space)
        mpi_settings_refuse(s, name, "longer than a file's name may be here");
    else
        memcpy(to, word(name), strlen(word(name)) + 1);
}

const char *const preload_mpi_modes[PRELOAD_MODES] = {"measure", "always", "never"};

void preload_mpi_settings_read(struct preload_mpi_settings *s)
{
    *s = (struct preload_mpi_settings){
        .min_bytes = MIN_BYTES, .memory_bytes = MEMORY_BYTES, .run = meter_new_run()};
    const char *v = word("PARO_MPI_MODE");
    int i = 0;
    while (*v && i < PRELOAD_MODES && strcmp(v, preload_mpi_modes[i]) != 0)
        i++;
    if (i == PRELOAD_MODES)
        mpi_settings_refuse(s, "PARO_MPI_MODE", "expected measure, always or never");
    else
        s->mode = i;
    mpi_settings_read_bytes(s, "PARO_MPI_MIN_BYTES", &s->min_bytes);
    mpi_settings_read_bytes(s, "PARO_MPI_MEMORY", &s->memory_bytes);
    mpi_settings_read_text(s, "PARO_TOPO", s->topo, sizeof s->topo);
    mpi_settings_read_text(s, "PARO_TUNING", s->tuning, sizeof s->tuning);
    s->tracing = is_set("PARO_MPI_TRACE");
    if (s->tracing && strcmp(word("PARO_MPI_TRACE"), "1") != 0)
        mpi_settings_read_text(s, "PARO_MPI_TRACE", s->trace, sizeof s->trace);
    if (is_set("PARO_DISABLE"))
        mpi_settings_refuse(s, "PARO_DISABLE", "set");
}

int preload_mpi_launched_first(void)
{
    const char *rank = word("PMI_RANK");

    rank = *rank ? rank : word("PMIX_RANK");
    return !*rank || strcmp(rank, "0") == 0;
}
