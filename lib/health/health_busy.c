/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When a host does something else, which a measurement would disturb and be disturbed by.
 *
 * A load average is late: it is the last minute's, high after a job has ended and low when one
 * begins; hence no limit unless one is asked for.  Slurm keeps a folder for every job
 * on the host: that is true this moment.
 */
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "health/health_parts.h"

enum { PATH = 600 };

/* A job that is not ours into `job`: cgroup/v2; v1; several slurmds on a host, some sites. */
static int find_job(const struct health_options *o, char job[32])
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

void health_busy(const struct health_options *o, char why[96])
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    char job[32], path[PATH];
    double load = 0;

    why[0] = 0;
    if (o->force)
        return;
    if (find_job(o, job)) {
        snprintf(why, 96, "job %s runs there (--force measures all the same)", job);
        return;
    }
    snprintf(path, sizeof path, "%.500s/loadavg", o->proc);
    FILE *f = o->max_load > 0 ? fopen(path, "re") : NULL;
    if (f && fscanf(f, "%lf", &load) == 1 &&
        load > o->max_load * (double)(cores > 0 ? cores : 1))
        snprintf(why, 96, "load %.3g on %ld cores, at most %.3g each (--max-load)", load, cores,
                 o->max_load);
    if (f)
        fclose(f);
}
