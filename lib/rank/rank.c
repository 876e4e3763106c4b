/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows the way from logs to a ranking: read, put in order, say, draw. */
#include "rank/rank.h"

#include <string.h>
#include <sys/stat.h>

#include "base/io.h"
#include "base/mem.h"

static int check_names(const struct rank_options *o, struct err *err)
{
    if (o->logs > RANK_RUNS_MAX)
        return err_set(err, ERR_INPUT, "%d logs, expected at most %d", o->logs,
                       (int)RANK_RUNS_MAX);
    for (int i = 0; i < o->logs; i++)
        for (int k = 0; k < i; k++)
            if (strcmp(o->log[i], o->log[k]) == 0)
                return err_set(err, ERR_INPUT, "log '%s' is given twice, expected each once",
                               o->log[i]);
    return 0;
}

/* With --force a picture replaces a file: not what it is drawn from. */
static int check_plot(const struct rank_options *o, struct err *err)
{
    struct stat plot, log;

    if (stat(o->plot, &plot))
        return 0;
    for (int i = 0; i < o->logs; i++)
        if (stat(o->log[i], &log) == 0 && log.st_dev == plot.st_dev &&
            log.st_ino == plot.st_ino)
            return err_set(err, ERR_INPUT, "--plot: '%s' is a log, expected another file",
                           o->plot);
    return 0;
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
    int rc =
        rank_read_all(r->run, o->logs, o->per_epoch, o->how.method == RANK_LAST, o->regex, err);
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

    if (check_names(o, err))
        return -1;
    /* Before what takes long: a picture that cannot be. */
    if (o->plot && (check_plot(o, err) || io_create(&plot, o->plot, o->force, err)))
        return -1;
    r.run = mem_new((size_t)o->logs, sizeof *r.run);
    r.place = mem_new((size_t)o->logs, sizeof *r.place);
    int rc = read_and_order(&r, err);
    if (rc == 0 && o->plot) {
        rank_plot(&r, plot.file);
        rc = io_commit(&plot, err);
    } else if (o->plot) {
        io_abandon(&plot);
    }
    if (rc == 0) {
        (o->json ? rank_print_json : rank_print)(&r, out);
        *stop = r.stop;
    }
    for (int i = 0; i < o->logs; i++)
        rank_run_release(&r.run[i]);
    mem_free(r.run);
    mem_free(r.place);
    mem_free(r.tau);
    return rc;
}
