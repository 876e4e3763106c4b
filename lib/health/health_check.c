/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a check in order: rounds, latency, confirmation of suspected ends and pairs, all hosts
 * at once if there are no suspects, reports.  The data so far determine the next measurement;
 * rank 0 decides, because it alone has the baseline, and broadcasts its decision.
 */
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/tick.h"
#include "health/health_data.h"
#include "health/health_parts.h"
#include "health/health_campaign.h"

enum {
    LATENCY_PARTNERS = 7, /* per host */
    LATENCY_PARTNERS_DEEP = 15,
    COLLECTIVE_HOSTS = 3, /* two hosts are just a pair */
    BUSY_PATH = 600
};

struct check {
    struct world *world;
    const struct health_options *o;
    struct health_rules rules;
    struct health_baseline baseline;
    struct health_data *data;
    struct health_campaign campaign;
    struct device *device; /* NULL: messages are in host memory */
};

/* Collective: broadcasts rank 0's error, or its `bytes` at `data` (0: nothing). */
static int check_share(struct check *c, int rc, void *data, int64_t bytes, struct err *err)
{
    struct err shared = {0};

    if (rc)
        shared = *err;
    if (world_bcast(c->world, &shared, sizeof shared, 0, err))
        return -1;
    if (shared.code != ERR_NONE) {
        *err = shared;
        return -1;
    }
    return bytes ? world_bcast(c->world, data, bytes, 0, err) : 0;
}

/* ---- preparation ---- */

static void check_describe(struct check *c)
{
    const struct groups *g = &c->world->groups;
    struct health_data *d = c->data;

    health_data_init(d, g->count, NULL);
    for (int k = 0; k < d->hosts; k++) {
        health_name_make(c->world->host[k], d->host[k].name, sizeof d->host[k].name);
        d->host[k].ranks = g->members[k];
    }
    d->ranks = g->ranks;
    d->own = g->group_of[0];
    d->level = c->o->level;
    d->when_s = (int64_t)time(NULL);
    d->deadline_s = c->o->deadline_s;
    d->seed = (uint64_t)d->when_s;
    d->requested = 1u << HEALTH_PART_ROUNDS | 1u << HEALTH_PART_LATENCY;
    if (d->hosts >= COLLECTIVE_HOSTS)
        d->requested |= 1u << HEALTH_PART_COLLECTIVE;
}

/* Shortened names may collide, once in 2^32: findings would be ambiguous. */
static int check_names(const struct health_data *d, char *const *raw, struct err *err)
{
    for (int k = 0; k < d->hosts; k++)
        for (int i = 0; i < d->hosts && strcmp(d->host[k].name, raw[k]); i++)
            if (i != k && strcmp(d->host[k].name, d->host[i].name) == 0)
                return err_set(
                    err, ERR_INPUT,
                    "two hosts have the name '%s', expected a different one for each",
                    d->host[k].name);
    return 0;
}

/* Finds another job than ours: under cgroup v2; v1; with several slurmds on a host, at some
   sites. */
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
        char pattern[BUSY_PATH];
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

/*
 * Writes why this host is busy: another Slurm job runs on it, or its load is above the limit;
 * "" if it is not busy, or with o->force.  A load average lags by a minute, high after a job
 * has ended and low when one begins; hence there is no limit unless requested.  Slurm's folder
 * for every job on the host is up to date.
 */
static void find_busy(const struct health_options *o, char why[96])
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    char job[32], path[BUSY_PATH];
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

/* Collective: fails on all ranks if one of the hosts is busy. */
static int check_busy(struct check *c, struct err *err)
{
    struct world *w = c->world;
    char why[96] = "", (*all)[96] = mem_new((size_t)w->ranks, sizeof *all);

    if (w->node_rank == 0)
        find_busy(c->o, why);
    int rc = world_allgather(w, why, sizeof why, all, err);
    for (int r = 0; rc == 0 && r < w->ranks; r++)
        if (all[r][0])
            rc = err_set(err, ERR_MISMATCH, "%.64s is busy: %.95s",
                         c->data->host[w->groups.group_of[r]].name, all[r]);
    mem_free(all);
    return rc;
}

/* Collective: opens this rank's GPU and exchanges names and indices. */
static int check_open_gpu(struct check *c, struct err *err)
{
    struct world *w = c->world;
    struct health_gpu mine = {0};

    if (!c->o->device)
        return 0;
    int rc = device_open(&c->device, c->o->device, w->node_rank, err);
    if (world_agree(w, rc, err))
        return -1;
    if (device_kind(c->device) == DEVICE_CPU) {
        device_close(c->device);
        c->device = NULL;
        return 0;
    }
    mine.index = device_index(c->device);
    snprintf(mine.name, sizeof mine.name, "%.63s", device_name(c->device));
    struct health_gpu *all = mem_new((size_t)w->ranks, sizeof *all);
    rc = world_allgather(w, &mine, sizeof mine, all, err);
    for (int r = 0; rc == 0 && r < w->ranks; r++)
        HEALTH_ADD(&c->data->gpus) = all[w->groups.rank[r]];
    mem_free(all);
    return rc;
}

/* Reads the files of rank 0: state and baseline. */
static int check_read_files(struct check *c, struct err *err)
{
    const struct health_options *o = c->o;

    if (health_memory_open(o->memory, o->state, o->host, c->data, err))
        return -1;
    if (!o->baseline || o->learn || o->accept)
        return 0;
    if (health_store_read(&health_baseline_store, o->baseline, &c->baseline, err))
        return -1;
    c->rules.baseline = &c->baseline;
    if (health_baseline_check(&c->baseline, c->data, err))
        return err_prefix(err, "'%s': ", o->baseline);
    return 0;
}

/* Checks conditions that are equal on all ranks, then reads the files. */
static int check_prepare(struct check *c, struct err *err)
{
    int hosts = c->data->hosts;

    if (hosts < 2)
        return err_set(err, ERR_INPUT,
                       "one host ('%s'), expected two or more to measure between",
                       c->data->host[0].name);
    if (!c->o->baseline && !c->o->learn && hosts < HEALTH_HOSTS_ALONE)
        return err_set(err, ERR_INPUT,
                       "two hosts and no baseline, expected -b BASELINE (see"
                       " --learn) or %d hosts to compare with each other",
                       HEALTH_HOSTS_ALONE);
    if (check_names(c->data, c->world->host, err) || check_busy(c, err) ||
        check_open_gpu(c, err))
        return -1;
    return check_share(c, c->world->rank == 0 ? check_read_files(c, err) : 0, NULL, 0, err);
}

/* ---- measuring ---- */

/* Two hosts that learn have nothing to be compared with, so their data yield no conclusions. */
static int is_blind(const struct check *c)
{
    return c->data->hosts < HEALTH_HOSTS_ALONE && (c->o->learn || c->o->accept);
}

static void finished(struct check *c, enum health_part part)
{
    if (!c->campaign.over)
        c->data->done |= 1u << part;
}

/* Collective: distributes rank 0's plan; rounds 0: there is nothing to measure. */
static int next_plan(struct check *c, struct health_plan *p, struct err *err)
{
    int rank = c->world->rank;
    int rc = rank == 0 ? health_plan(c->data, &c->rules, p, err) : 0;
    struct health_plan head = *p;

    if (check_share(c, rc, &head, sizeof head, err))
        return -1;
    if (head.rounds == 0)
        return 0;
    int64_t cells = (int64_t)head.rounds * head.hosts;
    if (rank) { /* allocate its own dst */
        head.dst = mem_new((size_t)cells, sizeof *p->dst);
        *p = head;
    }
    return world_bcast(c->world, p->dst, cells * (int64_t)sizeof *p->dst, 0, err);
}

/* Collective: sets *accused if there are findings, with `code` only unless that is 0. */
static int is_accused(struct check *c, int code, int *accused, struct err *err)
{
    struct health_verdict v = {0};
    int rc = 0;

    *accused = 0;
    if (c->world->rank == 0) {
        rc = health_judge(c->data, &c->rules, &v, err);
        for (int i = 0; rc == 0 && i < v.findings; i++)
            *accused |=
                v.finding[i].state != HEALTH_UNKNOWN && (!code || v.finding[i].code == code);
        health_verdict_release(&v);
    }
    return check_share(c, rc, accused, sizeof *accused, err);
}

/* Collective: measures again if a host is late, because another program may have delayed it. */
static int measure_latency(struct check *c, struct err *err)
{
    int most = c->o->level == HEALTH_DEEP ? LATENCY_PARTNERS_DEEP : LATENCY_PARTNERS, late = 0;

    if (health_campaign_latency(&c->campaign, most, err))
        return -1;
    finished(c, HEALTH_PART_LATENCY);
    if (c->campaign.over || is_blind(c))
        return 0;
    if (is_accused(c, HC_LATENCY, &late, err))
        return -1;
    return late ? health_campaign_latency(&c->campaign, most, err) : 0;
}

/* Plans and measures until nothing is left; the rounds are the first plan. */
static int measure_streams(struct check *c, struct health_plan *first, struct err *err)
{
    struct health_plan p = *first;
    int rc = 0;

    *first = (struct health_plan){0};
    while (rc == 0 && p.rounds && !c->campaign.over) {
        enum health_part part =
            p.stage == HEALTH_ROUNDS ? HEALTH_PART_ROUNDS : HEALTH_PART_CONFIRM;
        c->data->requested |= 1u << part;
        rc = health_campaign_rounds(&c->campaign, &p, err);
        health_plan_release(&p);
        if (rc == 0 && part == HEALTH_PART_ROUNDS)
            finished(c, part);
        if (rc == 0 && part == HEALTH_PART_ROUNDS && !c->campaign.over)
            rc = measure_latency(c, err);
        if (rc == 0 && !c->campaign.over && !is_blind(c))
            rc = next_plan(c, &p, err);
    }
    if (rc == 0 && (c->data->requested & 1u << HEALTH_PART_CONFIRM))
        finished(c, HEALTH_PART_CONFIRM);
    health_plan_release(&p);
    return rc;
}

static int measure_collectives(struct check *c, struct err *err)
{
    int accused = 1, first = 0, count = 0, rc = 0;

    if (!(c->data->requested & 1u << HEALTH_PART_COLLECTIVE) || c->campaign.over)
        return 0;
    if (is_accused(c, 0, &accused, err))
        return -1;
    if (accused) { /* all hosts at once would be slow, too */
        c->data->requested &= ~(1u << HEALTH_PART_COLLECTIVE);
        return 0;
    }
    while (rc == 0 && !c->campaign.over && health_bisect(c->data, &c->rules, &first, &count)) {
        enum health_part part =
            count == c->data->hosts ? HEALTH_PART_COLLECTIVE : HEALTH_PART_BISECT;
        c->data->requested |= 1u << part;
        c->data->done &= ~(1u << part); /* until no further run is needed */
        rc = health_campaign_collective(&c->campaign, first, count, err);
        finished(c, part);
    }
    return rc;
}

static int check_measure(struct check *c, const char *volatile *where, struct err *err)
{
    double start = tick_now_s();
    struct health_plan plan = {0};

    if (next_plan(c, &plan, err))
        return -1;
    c->data->wanted = plan.rounds;
    c->campaign = (struct health_campaign){.world = c->world,
                                           .data = c->data,
                                           .where = where,
                                           .device = c->device,
                                           .end_s = c->o->start_s + c->o->deadline_s};
    int rc = health_campaign_open(&c->campaign, plan.rounds, c->o->cap_bytes, err);
    rc = rc ? rc : measure_streams(c, &plan, err);
    rc = rc ? rc : measure_collectives(c, err);
    /* Reported between two agreements: messages in flight did not arrive. */
    if (rc && err->code == ERR_PEER) {
        c->campaign.over = c->campaign.stalled = 1;
        rc = 0;
    }
    if (rc == 0)
        health_campaign_reports(&c->campaign);
    c->data->seconds = tick_now_s() - start;
    health_plan_release(&plan);
    health_campaign_close(&c->campaign);
    return rc;
}

int health_check(struct world *w, const struct health_options *o, const char *volatile *where,
                 FILE *out, enum health_state *state, int *lost, struct err *err)
{
    struct health_data data;
    struct check c = {.world = w, .o = o, .rules = o->rules, .data = &data};

    check_describe(&c);
    int rc = check_prepare(&c, err);
    rc = rc ? rc : check_measure(&c, where, err);
    *lost = c.campaign.stalled || (rc && err->code == ERR_PEER);
    if (rc == 0) {
        struct health_options with = *o;
        with.rules = c.rules; /* with the baseline that the plans used */
        rc = w->rank == 0 ? health_answer(&data, &with, out, state, err) : 0;
        rc = *lost ? rc : check_share(&c, rc, NULL, 0, err);
    }
    if (!*lost)
        device_close(c.device);
    health_data_release(&data);
    health_baseline_release(&c.baseline);
    return rc;
}
