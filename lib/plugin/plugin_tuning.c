/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads the environment once in a process: PARO_TUNING, a table (paro-tuning(5)); else
 * PARO_TOPO, a fabric (paro-topology(5)), for which a table is made; and PARO_DEBUG.
 */
#include "plugin/plugin_tuning.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fnv.h"
#include "base/mem.h"

/* Global, because a preloaded library has no caller that could keep it. */
static struct {
    pthread_once_t once;
    struct pick_table table;
    int there;
    uint64_t hash;
    char why[768];
} known = {.once = PTHREAD_ONCE_INIT};

void plugin_debug(const char *fmt, ...)
{
    const char *on = getenv("PARO_DEBUG");
    char line[900];
    va_list ap;

    if (!on || !*on || strcmp(on, "0") == 0)
        return;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    fprintf(stderr, "paro-nccl: %s\n", line); /* one call for one line: ranks share stderr */
}

static void tuning_read_all(void)
{
    const char *tuning = getenv("PARO_TUNING"), *topo = getenv("PARO_TOPO");
    const struct pick_query query = {
        .ops = 3,
        .op = {SCHEDULE_ALL_GATHER, SCHEDULE_REDUCE_SCATTER, SCHEDULE_ALL_REDUCE},
        .min_bytes = 64 << 10,
        .max_bytes = 1 << 30,
        .factor = 4};
    struct topo t = {0};
    struct err err = {0};
    size_t bytes = 0;
    char *text = NULL;
    int rc;

    if (tuning && *tuning)
        rc = pick_table_read(&known.table, tuning, &err);
    else if (topo && *topo)
        rc = topo_read(&t, topo, &err);
    else
        rc = err_set(&err, ERR_ABSENT, "neither PARO_TUNING nor PARO_TOPO is set");
    if (rc == 0 && t.levels) {
        rc = pick_table_make(&t, &query, &known.table, &err);
        topo_release(&t);
    }
    if (rc) {
        snprintf(known.why, sizeof known.why, "%s", err.text);
        return;
    }
    FILE *f = mem_stream(&text, &bytes);
    pick_table_print(&known.table, PICK_YAML, f);
    fclose(f);
    known.there = 1;
    known.hash = fnv_bytes(text, bytes);
    mem_free(text);
}

const struct pick_table *plugin_table(const char **why)
{
    pthread_once(&known.once, tuning_read_all);
    *why = known.why;
    return known.there ? &known.table : NULL;
}

uint64_t plugin_table_hash(void)
{
    const char *why;

    return plugin_table(&why) ? known.hash : 0;
}
