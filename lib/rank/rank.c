/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks logs: reads, orders, prints, draws. */
#include "rank/rank.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/io.h"
#include "base/mem.h"

static int rank_by_name(const void *x, const void *y)
{
    const struct rank_name *a = x, *b = y;

    return strcmp(a->name, b->name);
}

struct rank_name *rank_names_new(const char *const *name, int n)
{
    struct rank_name *names = mem_new((size_t)n, sizeof *names);

    for (int i = 0; i < n; i++)
        names[i] = (struct rank_name){name[i], i};
    qsort(names, (size_t)n, sizeof *names, rank_by_name);
    return names;
}

int rank_names_find(const struct rank_name *names, int n, const char *name)
{
    const struct rank_name key = {.name = name};
    const struct rank_name *at = bsearch(&key, names, (size_t)n, sizeof *names, rank_by_name);

    return at ? at->at : -1;
}

/* At most RANK_RUNS_MAX logs, none twice: a stream can be read only once. */
static int check_logs(const struct rank_options *o, struct err *err)
{
    int rc = 0, std = o->finals && strcmp(o->finals, "-") == 0;

    if (o->logs > RANK_RUNS_MAX)
        return err_set(err, ERR_INPUT, "%d logs, expected at most %d", o->logs,
                       (int)RANK_RUNS_MAX);
    struct rank_name *names = rank_names_new(o->log, o->logs);
    for (int i = 1; i < o->logs && rc == 0; i++)
        if (strcmp(names[i - 1].name, names[i].name) == 0)
            rc = err_set(err, ERR_INPUT, "log '%s' is given twice, expected each once",
                         names[i].name);
    if (rc == 0 && std && rank_names_find(names, o->logs, "-") >= 0)
        rc = err_set(err, ERR_INPUT,
                     "a log and --finals are both '-', expected one from a file");
    mem_free(names);
    return rc;
}

static int is_file(const char *path, const struct stat *of)
{
    struct stat st;

    return stat(path, &st) == 0 && st.st_dev == of->st_dev && st.st_ino == of->st_ino;
}

/* With --force a picture replaces a file, but not one of its inputs. */
static int check_plot(const struct rank_options *o, struct err *err)
{
    struct stat plot;

    if (stat(o->plot, &plot))
        return 0;
    if (o->finals && is_file(o->finals, &plot))
        return err_set(err, ERR_INPUT,
                       "--svg: '%s' is the file of --finals, expected another file", o->plot);
    for (int i = 0; i < o->logs; i++)
        if (is_file(o->log[i], &plot))
            return err_set(err, ERR_INPUT, "--svg: '%s' is a log, expected another file",
                           o->plot);
    return 0;
}

/*
 * If runs are compared at the epochs of the first one, that is read first, so that the queries
 * to the others are known.  With a fraction of their epochs, or several budgets, they are not.
 */
static int rank_read_runs(struct rank_result *r, struct err *err)
{
    const struct rank_options *o = r->o;
    struct rank_query query = {.how = o->how, .T = o->epochs, .kept = CURVE_KEPT};
    struct rank_reading how = {
        .per_epoch = o->per_epoch, .last_step = o->how.method == RANK_LAST, .regex = o->regex};
    int by_first = (o->stop_below > 0 || o->stop_share > 0) && !o->epochs;

    if (!o->finals && !o->plot && !(o->fraction > 0))
        how.query = &query;
    if (how.query == NULL || !by_first || o->logs == 1)
        return rank_read_all(r->run, o->logs, &how, err);
    if (rank_read_all(r->run, 1, &how, err))
        return -1;
    query.T = rank_curve_epochs(&r->run[0].curve);
    return rank_read_all(r->run + 1, o->logs - 1, &how, err);
}

static int read_and_order(struct rank_result *r, struct err *err)
{
    const struct rank_options *o = r->o;
    double *value = NULL;

    if (o->finals) {
        value = mem_new((size_t)o->logs, sizeof *value);
        if (rank_finals_read(o, value, err)) {
            mem_free(value);
            return -1;
        }
    }
    for (int i = 0; i < o->logs; i++)
        r->run[i].name = o->log[i];
    int rc = rank_read_runs(r, err);
    if (rc == 0)
        rc = rank_order(r, err);
    if (rc == 0 && value)
        rank_finals_hold(r, value);
    mem_free(value);
    return rc;
}

int rank_report(const struct rank_options *o, FILE *out, int *stop, struct err *err)
{
    struct rank_result r = {.o = o};
    struct io_out plot = {0};

    if (check_logs(o, err))
        return -1;
    /* Open first: fail before the long work if the picture cannot be written. */
    int apart = o->plot && strcmp(o->plot, "-");
    if (apart && (check_plot(o, err) || io_create(&plot, o->plot, o->force, err)))
        return -1;
    r.run = mem_new((size_t)o->logs, sizeof *r.run);
    r.place = mem_new((size_t)o->logs, sizeof *r.place);
    int rc = read_and_order(&r, err);
    if (rc == 0 && apart) {
        rank_plot(&r, plot.file);
        rc = io_commit(&plot, err);
    } else if (apart) {
        io_abandon(&plot);
    }
    if (rc == 0) {
        (o->plot && !apart ? rank_plot : o->json ? rank_print_json : rank_print)(&r, out);
        *stop = r.stop;
    }
    for (int i = 0; i < o->logs; i++)
        rank_run_release(&r.run[i]);
    MEM_FREE(r.run, r.place, r.tau);
    return rc;
}
