/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows the words of options, which file a check remembers in, and when a host does something
 * else, which a measurement would disturb and be disturbed by.
 *
 * A load average says that late: it is the last minute's, high after a job has ended and low
 * when one begins; hence no limit unless one is asked for.  Slurm keeps a folder for every job
 * on the host: that is true this moment.
 */
#include "health/health_ops.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/num.h"

void health_ops_init(struct health_ops *o)
{
    *o = (struct health_ops){.sys = "/sys", .proc = "/proc"};
}

int health_ops_parse_notify(struct health_ops *o, const char *text, struct err *err)
{
    static const char change[] = "change", remind[] = ",remind=";
    double s = 0;

    if (strncmp(text, change, sizeof change - 1) != 0)
        return err_set(err, ERR_INPUT, "'%s', expected change or change,remind=TIME", text);
    const char *rest = text + sizeof change - 1;
    if (*rest) {
        if (strncmp(rest, remind, sizeof remind - 1) != 0)
            return err_set(err, ERR_INPUT, "'%s', expected change or change,remind=TIME", text);
        if (num_time(rest + sizeof remind - 1, &s, err))
            return -1;
        if (!(s >= 60 && s <= 1e9))
            return err_set(err, ERR_INPUT, "remind=%s, expected 1min or more",
                           rest + sizeof remind - 1);
    }
    o->notify = 1;
    o->remind_s = s;
    return 0;
}

int health_ops_open(const struct health_ops *o, const struct health_data *d, struct err *err)
{
    char file[HEALTH_HOST_NAME + 8] = "rounds";
    int quick = d->level == HEALTH_QUICK;

    if (!o->state)
        return 0;
    if (quick) /* a home folder may be that of many hosts */
        snprintf(file, sizeof file, "%s.quick", o->host);
    else if (d->gpus.count)
        snprintf(file, sizeof file, "rounds.cuda");
    for (char *c = file; (c = strchr(c, '/'));)
        *c = '_';
    return health_memory_open(o->memory, o->state, file, quick ? o->host : "", d->when_s, err);
}

/* ---- what else the host does ---- */

enum { PATH = 600 };

/* A job that is not ours into `job`: cgroup/v2; v1; several slurmds on a host, some sites. */
static int find_job(const struct health_ops *o, char job[32])
{
    static const char *const places[] = {"system.slice/slurmstepd.scope",
                                         "slurm/uid_*",
                                         "freezer/slurm/uid_*",
                                         "cpuset/slurm/uid_*",
                                         "memory/slurm/uid_*",
                                         "system.slice/*_slurmstepd.scope"};
    int found = 0;

    for (size_t i = 0; !found && i < sizeof places / sizeof *places; i++) {
        char pattern[PATH];
        glob_t jobs;
        snprintf(pattern, sizeof pattern, "%.400s/fs/cgroup/%s/job_[0-9]*", o->sys, places[i]);
        if (glob(pattern, GLOB_NOSORT, NULL, &jobs))
            continue;
        for (size_t k = 0; !found && k < jobs.gl_pathc; k++) {
            const char *number = strrchr(jobs.gl_pathv[k], '_') + 1;
            found = !o->jobs || strcmp(number, o->jobs) != 0;
            snprintf(job, 32, "%.20s", number);
        }
        globfree(&jobs);
    }
    return found;
}

static double load_of(const struct health_ops *o)
{
    char path[PATH];
    double load = 0;

    snprintf(path, sizeof path, "%.500s/loadavg", o->proc);
    FILE *f = fopen(path, "re");
    if (!f)
        return 0;
    if (fscanf(f, "%lf", &load) != 1)
        load = 0;
    fclose(f);
    return load;
}

void health_ops_busy(const struct health_ops *o, char why[96])
{
    char job[32];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    why[0] = 0;
    if (o->force)
        return;
    if (find_job(o, job)) {
        snprintf(why, 96, "job %s runs there (--force measures all the same)", job);
        return;
    }
    double load = o->max_load > 0 ? load_of(o) : 0;
    if (load > 0 && load > o->max_load * (double)(cores > 0 ? cores : 1))
        snprintf(why, 96, "load %.3g on %ld cores, at most %.3g each (--max-load)", load, cores,
                 o->max_load);
}
