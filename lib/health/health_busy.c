/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows when a host does something else, which a measurement would disturb and be disturbed by.
 *
 * A load average says it late: it is the last minute's, high after a job has ended and low when
 * one begins; hence no limit unless one is asked for.  Slurm keeps a folder for every job on
 * the host (cgroup/v2: system.slice/slurmstepd.scope/job_N; v1: freezer/slurm/uid_U/job_N):
 * that is true this moment.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "health/health_ops.h"

enum { PATH = 600 };

/* "job_1234" that is none of ours, into `job`. */
static int is_other_job(const char *name, const char *own, char job[32])
{
    if (strncmp(name, "job_", 4) != 0 || name[4] < '0' || name[4] > '9')
        return 0;
    if (own && strcmp(name + 4, own) == 0)
        return 0;
    snprintf(job, 32, "%.20s", name + 4);
    return 1;
}

/* Looks for a job's folder in dir, and in what begins with `below` ("" none) there. */
static int find_job(const char *dir, const char *below, const char *own, char job[32])
{
    DIR *d = opendir(dir);
    int found = 0;

    if (!d)
        return 0;
    for (struct dirent *e; !found && (e = readdir(d));) {
        char path[PATH];
        found = is_other_job(e->d_name, own, job);
        if (found || !below[0] || strncmp(e->d_name, below, strlen(below)) != 0 ||
            snprintf(path, sizeof path, "%s/%s", dir, e->d_name) >= (int)sizeof path)
            continue;
        found = find_job(path, "", own, job);
    }
    closedir(d);
    return found;
}

static int has_job(const struct health_ops *o, char job[32])
{
    static const struct {
        const char *dir, *below;
    } place[] = {{"fs/cgroup/system.slice/slurmstepd.scope", ""},
                 {"fs/cgroup/slurm", "uid_"},
                 {"fs/cgroup/freezer/slurm", "uid_"},
                 {"fs/cgroup/cpuset/slurm", "uid_"},
                 {"fs/cgroup/memory/slurm", "uid_"}};
    char dir[PATH];

    for (size_t i = 0; i < sizeof place / sizeof *place; i++) {
        snprintf(dir, sizeof dir, "%.400s/%s", o->sys, place[i].dir);
        if (find_job(dir, place[i].below, o->jobs, job))
            return 1;
    }
    /* Where a host runs several slurmds, and on some sites, the name comes before. */
    snprintf(dir, sizeof dir, "%.400s/fs/cgroup/system.slice", o->sys);
    DIR *d = opendir(dir);
    int found = 0;
    for (struct dirent *e; d && !found && (e = readdir(d));)
        if (strstr(e->d_name, "_slurmstepd.scope") &&
            snprintf(dir, sizeof dir, "%.300s/fs/cgroup/system.slice/%.200s", o->sys,
                     e->d_name) < (int)sizeof dir)
            found = find_job(dir, "", o->jobs, job);
    if (d)
        closedir(d);
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
    if (has_job(o, job)) {
        snprintf(why, 96, "job %s runs there (--force measures all the same)", job);
        return;
    }
    double load = o->max_load > 0 ? load_of(o) : 0;
    if (load > 0 && load > o->max_load * (double)(cores > 0 ? cores : 1))
        snprintf(why, 96, "load %.3g on %ld cores, at most %.3g each (--max-load)", load, cores,
                 o->max_load);
}
