/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keeps data of a communicator as an attribute of it, so that it is freed together with the
 * communicator: calls seen, verdicts, prepared calls.  Our groups and communicators are created
 * when a call occurs for the second time, so a communicator used for one call costs nothing.
 */
#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/tick.h"
#include "preload/preload_mpi_plan.h"
#include "world/world_mpi.h"

enum {
    PHASES = 4,
    SIZES = 64, /* powers of two */
    PLANS = 64,
    SEEN = 64,
    /* A prepared call is replaced by another after so many of our calls without use.  A program
       that cycles among more calls than fit would otherwise prepare each of them every time. */
    AGE = 4 * PLANS
};

struct preload_mpi_comm {
    struct preload_mpi_comm *next;
    int rank, ranks;
    int opened;
    enum preload_mpi_why passes; /* the reason to pass on all calls, or PRELOAD_OURS */
    struct world *world;
    struct paro_fabric fabric;
    int64_t *each; /* [ranks] scratch */
    uint64_t seen[SEEN];
    int seens;
    struct preload_mpi_class class[PHASES][SIZES];
    struct preload_mpi_plan *plan[PLANS];
    int plans;
    int64_t bytes, clock; /* bytes of the plans; number of our calls */
    char error[sizeof((struct err *)0)->text];
};

/* Globals: a preloaded library has no caller that could keep these for it. */
static struct {
    pthread_mutex_t lock;
    const struct preload_mpi_settings *settings;
    struct preload_mpi_comm *first; /* guarded by the lock */
    int key, packs;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER, .key = MPI_KEYVAL_INVALID};

static void mpi_comm_drop(struct preload_mpi_comm *m, int at)
{
    m->bytes -= m->plan[at]->bytes;
    preload_mpi_plan_free(m->plan[at]);
    m->plan[at] = m->plan[--m->plans];
}

/* Frees the plans of a class; NULL: of all. */
static void drop_plans(struct preload_mpi_comm *m, const struct preload_mpi_class *of)
{
    for (int i = m->plans; i-- > 0;)
        if (!of || m->plan[i]->class == of)
            mpi_comm_drop(m, i);
}

/* Releases MPI's objects and the memory of a communicator. */
static void mpi_comm_release(struct preload_mpi_comm *m, int in_end)
{
    drop_plans(m, NULL);
    paro_fabric_release(&m->fabric);
    m->fabric = (struct paro_fabric){0};
    /* MPI_Finalize frees the rest: ranks would free them in different orders here. */
    if (m->world && in_end)
        world_leave_peers(m->world);
    world_close(m->world);
    m->world = NULL;
}

static int mpi_comm_forget(MPI_Comm comm, int key, void *value, void *extra)
{
    struct preload_mpi_comm *m = value, **at = &all.first;

    (void)comm, (void)key, (void)extra;
    pthread_mutex_lock(&all.lock);
    while (*at && *at != m)
        at = &(*at)->next;
    if (*at)
        *at = m->next;
    pthread_mutex_unlock(&all.lock);
    mpi_comm_release(m, 0);
    mem_free(m->each);
    mem_free(m);
    return MPI_SUCCESS;
}

int preload_mpi_comm_begin(const struct preload_mpi_settings *s)
{
    all.settings = s;
    all.packs = dlsym(RTLD_DEFAULT, "cuPointerGetAttribute") != NULL;
    return PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, mpi_comm_forget, &all.key, NULL);
}

void preload_mpi_comm_end(void)
{
    pthread_mutex_lock(&all.lock);
    for (struct preload_mpi_comm *m = all.first; m; m = m->next)
        mpi_comm_release(m, 1);
    pthread_mutex_unlock(&all.lock);
}

static struct preload_mpi_comm *mpi_comm_of(MPI_Comm comm, int ranks)
{
    struct preload_mpi_comm *m = NULL;
    int there = 0;

    PMPI_Comm_get_attr(comm, all.key, &m, &there);
    if (there)
        return m;
    m = mem_new(1, sizeof *m);
    m->ranks = ranks;
    m->each = mem_new((size_t)ranks, sizeof *m->each);
    PMPI_Comm_rank(comm, &m->rank);
    PMPI_Comm_set_attr(comm, all.key, m);
    pthread_mutex_lock(&all.lock);
    m->next = all.first;
    all.first = m;
    pthread_mutex_unlock(&all.lock);
    return m;
}

int *preload_mpi_comm_ranks(MPI_Comm comm, int ranks)
{
    int *rank = mem_new((size_t)ranks, sizeof *rank);
    int *there = mem_new((size_t)ranks, sizeof *there);
    MPI_Group here, world;

    PMPI_Comm_group(comm, &here);
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    for (int r = 0; r < ranks; r++)
        rank[r] = r;
    PMPI_Group_translate_ranks(here, ranks, rank, world, there);
    PMPI_Group_free(&here);
    PMPI_Group_free(&world);
    mem_free(rank);
    return there;
}

/* Creates a communicator without MPI_Comm_dup, which would call the program's attribute
   functions. */
static int open_world(struct preload_mpi_comm *m, MPI_Comm comm, struct err *err)
{
    MPI_Comm bare = MPI_COMM_NULL;
    MPI_Group group;

    PMPI_Comm_group(comm, &group);
    int made = PMPI_Comm_create(comm, group, &bare);
    PMPI_Group_free(&group);
    if (made != MPI_SUCCESS)
        return err_set(err, ERR_PEER, "MPI reports error %d for a new communicator", made);
    int rc = world_over(&m->world, bare, HUGE_VAL, err);
    PMPI_Comm_free(&bare);
    return rc;
}

static enum preload_mpi_why mpi_comm_open_fabric(struct preload_mpi_comm *m, MPI_Comm comm)
{
    const struct preload_mpi_settings *s = all.settings;
    struct paro_fabric_settings settings = {.topology = *s->topo ? s->topo : NULL,
                                            .tuning = *s->tuning ? s->tuning : NULL};
    struct err err = {0};
    int bytes = 0;

    m->opened = 1;
    /* Ranks of another MPI_COMM_WORLD have agreed on other settings, or on none. */
    int *there = preload_mpi_comm_ranks(comm, m->ranks), strangers = 0;
    for (int r = 0; r < m->ranks; r++)
        strangers |= there[r] == MPI_UNDEFINED;
    mem_free(there);
    if (strangers)
        return PRELOAD_STRANGERS;
    PMPI_Pack_size(1, MPI_DOUBLE, comm, &bytes);
    if (bytes != sizeof(double))
        err_set(&err, ERR_ABSENT, "MPI_Pack makes %d bytes of a double", bytes);
    else if (open_world(m, comm, &err) == 0 &&
             paro_fabric_open(&m->fabric, m->world, &settings, &err) == 0)
        return m->fabric.groups.count < 2 ? PRELOAD_ONE_GROUP : PRELOAD_OURS;
    snprintf(m->error, sizeof m->error, "%s", err.text);
    return PRELOAD_NO_FABRIC;
}

/* Whether the call occurred before, among the most recent new calls. */
static int was_seen(struct preload_mpi_comm *m, uint64_t hash)
{
    for (int i = 0; i < SEEN && i < m->seens; i++)
        if (m->seen[i] == hash)
            return 1;
    m->seen[m->seens++ % SEEN] = hash;
    return 0;
}

/* Makes space for another plan of `bytes` bytes: 0, or -1. */
static int mpi_comm_make_space(struct preload_mpi_comm *m, int64_t bytes)
{
    int always = all.settings->mode == PRELOAD_ALWAYS;

    if (bytes > all.settings->memory_bytes)
        return -1;
    while (m->plans == PLANS || m->bytes + bytes > all.settings->memory_bytes) {
        int oldest = 0;
        for (int i = 1; i < m->plans; i++)
            if (m->plan[i]->used < m->plan[oldest]->used)
                oldest = i;
        if (!always && m->clock - m->plan[oldest]->used <= AGE)
            return -1;
        mpi_comm_drop(m, oldest);
    }
    return 0;
}

static enum preload_mpi_why mpi_comm_make(struct preload_mpi_comm *m,
                                          const struct preload_mpi_call *c,
                                          const struct preload_mpi_shape *s,
                                          struct preload_mpi_class *class,
                                          struct preload_mpi_plan **out)
{
    struct err err = {0};

    if (mpi_comm_make_space(m, preload_mpi_plan_bytes(s, m->ranks)))
        return PRELOAD_FULL;
    int tries = preload_mpi_class_tries(class, s->mark);
    if (tries)
        PMPI_Barrier(m->world->mpi->all);
    double begun_s = tick_now_s();
    if (preload_mpi_plan_new(out, c, s, m->world, &m->fabric, &err)) {
        snprintf(m->error, sizeof m->error, "%s", err.text);
        class->verdict = PRELOAD_IS_BROKEN;
        return PRELOAD_FAILED;
    }
    if (tries)
        class->time_s[PRELOAD_PREPARED] += tick_now_s() - begun_s;
    (*out)->class = class;
    m->plan[m->plans++] = *out;
    m->bytes += (*out)->bytes;
    return PRELOAD_OURS;
}

/* Returns the reason against all calls of a class, or PRELOAD_OURS. */
static enum preload_mpi_why bars(const struct preload_mpi_comm *m,
                                 struct preload_mpi_class *class)
{
    if (all.settings->mode == PRELOAD_NEVER_MODE)
        return PRELOAD_NEVER;
    if (m->passes != PRELOAD_OURS)
        return m->passes;
    if (class->verdict == PRELOAD_IS_BROKEN)
        return PRELOAD_FAILED;
    return preload_mpi_class_holds(class) && class->verdict == PRELOAD_IS_THEIRS
               ? PRELOAD_SLOWER
               : PRELOAD_OURS;
}

/* Decides the same on every rank.  *fresh: this call was prepared just now and is not timed. */
static enum preload_mpi_why decide(struct preload_mpi_comm *m, const struct preload_mpi_call *c,
                                   const struct preload_mpi_shape *s,
                                   struct preload_mpi_plan **out, int *fresh)
{
    int phase = s->phases == SCHEDULE_ALL_GATHER       ? 0
                : s->phases == SCHEDULE_REDUCE_SCATTER ? 1
                : s->phases == SCHEDULE_ALL_REDUCE     ? 2
                                                       : 3;
    struct preload_mpi_class *class =
        &m->class[phase][63 - __builtin_clzll((unsigned long long)s->bytes)];
    int measures = all.settings->mode == PRELOAD_MEASURE;
    enum preload_mpi_why why = bars(m, class);

    if (why != PRELOAD_OURS)
        return why;
    for (int i = 0; i < m->plans && !*out; i++)
        *out = preload_mpi_plan_is(m->plan[i], s) ? m->plan[i] : NULL;
    if (!*out && measures && !was_seen(m, s->hash))
        return PRELOAD_FIRST;
    if (measures)
        why = preload_mpi_class_next(class, s->mark);
    if (*out || (why != PRELOAD_OURS && why != PRELOAD_TRIAL))
        return why;
    if (!m->opened)
        m->passes = mpi_comm_open_fabric(m, c->comm);
    if (m->passes != PRELOAD_OURS) {
        mpi_comm_release(m, 0);
        return m->passes;
    }
    *fresh = 1;
    return mpi_comm_make(m, c, s, class, out);
}

/* The verdict uses the slowest rank's times, which all ranks have. */
static void mpi_comm_decide(struct preload_mpi_comm *m, struct preload_mpi_class *class,
                            struct preload_mpi_result *result)
{
    PMPI_Allreduce(MPI_IN_PLACE, class->time_s, PRELOAD_TIMES, MPI_DOUBLE, MPI_MAX,
                   m->world->mpi->all);
    preload_mpi_class_decide(class);
    memcpy(result->trial_s, class->median_s, sizeof result->trial_s);
    if (class->verdict == PRELOAD_IS_THEIRS)
        drop_plans(m, class);
}

int preload_mpi_comm_call(const struct preload_mpi_call *c, int ranks,
                          struct preload_mpi_result *result)
{
    struct preload_mpi_comm *m = mpi_comm_of(c->comm, ranks);
    struct preload_mpi_plan *plan = NULL;
    struct preload_mpi_shape s;
    int fresh = 0;

    result->why = preload_mpi_shape(c, ranks, result->bytes, m->each, &s);
    if (result->why == PRELOAD_OURS)
        result->why = decide(m, c, &s, &plan, &fresh);
    if (result->why == PRELOAD_NO_FABRIC || result->why == PRELOAD_FAILED)
        result->error = m->error;
    if (result->why != PRELOAD_OURS && result->why != PRELOAD_TRIAL)
        return preload_mpi_pass(c);
    plan->used = ++m->clock;
    result->bound_s = result->why == PRELOAD_OURS ? plan->bound_s : 0;
    int timed = all.settings->mode == PRELOAD_MEASURE && !fresh &&
                preload_mpi_class_tries(plan->class, s.mark);
    /* Timed calls begin together, so that late ranks count for neither side. */
    if (timed)
        PMPI_Barrier(m->world->mpi->all);
    double begun_s = timed ? tick_now_s() : 0;
    int rc = result->why == PRELOAD_OURS ? preload_mpi_plan_run(plan, c, all.packs)
                                         : preload_mpi_pass(c);
    if (timed && preload_mpi_class_note(plan->class, tick_now_s() - begun_s))
        mpi_comm_decide(m, plan->class, result);
    return rc;
}
