/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes records (paro-meter(5)), as NCCL's profiler (libparo-nccl-plugin.so), of programs into
 * which NCCL is linked, so that nothing can be preloaded.
 *
 *     init            a communicator
 *     start_event     a collective is put into its stream: a record, whose number is the
 *                     handle; later, by another thread, a channel of its kernel has begun
 *     record_state    a channel has ended
 *
 * A call arrives when its first channel begins and is complete when all that have begun have
 * ended; until then it has the time at which it was made.  NCCL's thread asks the GPU every few
 * microseconds for times of the GPU's clock: how far ours is ahead of that is the least
 * difference seen of late between a time and its arrival here.
 */
#include "plugin/plugin.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "meter/meter.h"
#include "plugin/plugin_tuning.h"

#define EXPORT  __attribute__((visibility("default")))
#define NO_CALL (-1) /* handle of an event that is not ours; NULL might end what is below it */

/* Clocks drift apart by some 10 us in a second: an older difference is of no use. */
static const int64_t window_ns = 1000000000;

struct plugin_comm {
    struct plugin_comm *next;
    struct meter_comm metered;
};

struct plugin_call {
    const struct plugin_comm *of;
    int64_t number, begun_ns, ended_ns; /* of the record; the GPU's clock */
    int begun, ended;                   /* channels */
};

/* NCCL keeps what is a communicator's, not what is the process's. */
static struct {
    pthread_mutex_t lock;
    struct meter *meter;
    int tried;
    pid_t process; /* that opened it: what it forks has its memory, but no meter */
    struct plugin_comm *comms;
    struct plugin_call call[METER_RECORDS]; /* as the meter's ring */
    int64_t ahead_ns[2], since_ns;          /* least of this window and of the one before */
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The last records, and that the process ended in good order. */
static __attribute__((destructor)) void plugin_end(void)
{
    if (all.process != getpid()) /* there the lock may be of a thread that is not */
        return;
    pthread_mutex_lock(&all.lock);
    meter_close(all.meter);
    all.meter = NULL;
    pthread_mutex_unlock(&all.lock);
}

static void plugin_open_meter(const struct meter_run *run)
{
    const char *dir = getenv("PARO_METER");
    struct err err;

    all.tried = 1;
    all.process = getpid();
    if (!dir || !*dir)
        plugin_debug("PARO_METER is not set: nothing is recorded");
    else if (meter_open(&all.meter, dir, "nccl", run, &err))
        fprintf(stderr, "paro-nccl: rank %d is not metered: PARO_METER: %s\n", run->rank,
                err.text);
}

/* A second rank of a communicator in the process has no records: they would be one process. */
static int plugin_init5(void **context, uint64_t id, int *mask, const char *name, int hosts,
                        int ranks, int rank, void (*log)(void))
{
    const struct meter_run run = {id, rank, ranks};

    (void)name, (void)hosts, (void)log;
    *context = NULL;
    pthread_mutex_lock(&all.lock);
    if (!all.tried)
        plugin_open_meter(&run);
    struct plugin_comm *c = all.comms;
    while (c && c->metered.id != id)
        c = c->next;
    if (all.meter && !c) {
        c = mem_new(1, sizeof *c);
        *c = (struct plugin_comm){all.comms, {.id = id, .rank = rank, .ranks = ranks}};
        all.comms = c;
        meter_widen(all.meter, &run);
        *mask = PLUGIN_COLLECTIVE | PLUGIN_CHANNEL;
        *context = c;
    }
    pthread_mutex_unlock(&all.lock);
    return PLUGIN_OK;
}

static int plugin_init4(void **context, int *mask, const char *name, uint64_t id, int hosts,
                        int ranks, int rank, void (*log)(void))
{
    return plugin_init5(context, id, mask, name, hosts, ranks, rank, log);
}

static int plugin_refuse(void **context, int *mask)
{
    (void)mask;
    *context = NULL;
    fprintf(stderr,
            "paro-nccl: NCCL's profiler interface is older than version 4, expected 4 or"
            " 5 (NCCL 2.27 or newer)\n");
    return PLUGIN_USAGE;
}

/* NCCL says nothing of the end of what was under way on a communicator that is aborted. */
static int plugin_finalize(void *context)
{
    pthread_mutex_lock(&all.lock);
    for (int i = 0; context && i < METER_RECORDS; i++) {
        struct plugin_call *c = &all.call[i];
        if (c->of != context)
            continue;
        if (c->begun == 0 || c->ended < c->begun)
            meter_complete(all.meter, c->number);
        *c = (struct plugin_call){0};
    }
    for (struct plugin_comm **at = &all.comms; *at; at = &(*at)->next)
        if (*at == context) {
            *at = (*at)->next;
            mem_free(context);
            break;
        }
    pthread_mutex_unlock(&all.lock);
    return PLUGIN_OK;
}

/* Its record's number.  Calls are counted here: NCCL counts those of each function apart. */
static int64_t begin_call(struct plugin_comm *of, const struct plugin_event *e)
{
    struct meter_comm *c = &of->metered;
    static const struct {
        const char *func;
        enum meter_op op;
        int blocks; /* the vector is a block of each rank */
    } ops[] = {{"AllGather", METER_ALL_GATHER, 1}, {"ReduceScatter", METER_REDUCE_SCATTER, 1},
               {"AllReduce", METER_ALL_REDUCE, 0}, {"Broadcast", METER_BROADCAST, 0},
               {"Reduce", METER_REDUCE, 0},        {"", METER_UNKNOWN, 0}};
    const char *type = e->of.call.type; /* "ncclBfloat16": 16 bits */
    size_t bytes = e->of.call.count * (size_t)atoi(type + strcspn(type, "0123456789")) / 8;
    int i = 0;

    c->calls++;
    if (e->of.call.channels == 0) /* it would never be complete */
        return NO_CALL;
    while (*ops[i].func && strcmp(ops[i].func, e->of.call.func))
        i++;
    int64_t number = meter_arrive(all.meter, c, c->calls, ops[i].op,
                                  (int64_t)(ops[i].blocks ? bytes * (size_t)c->ranks : bytes));
    all.call[number % METER_RECORDS] = (struct plugin_call){.of = of, .number = number};
    return number;
}

static void note_channel(int64_t number, uint64_t gpu_ns, int ended)
{
    int64_t ns = (int64_t)(gpu_ns & (UINT64_MAX >> 2)); /* no sum overflows */

    pthread_mutex_lock(&all.lock);
    struct plugin_call *c = &all.call[number > 0 ? number % METER_RECORDS : 0];
    if (all.meter && number > 0 && c->number == number) {
        int64_t now_ns = meter_now_ns(), ahead = now_ns - ns, age = now_ns - all.since_ns;
        if (age > window_ns) {
            all.ahead_ns[1] = age > 2 * window_ns ? ahead : all.ahead_ns[0];
            all.ahead_ns[0] = ahead;
            all.since_ns = now_ns;
        }
        if (ahead < all.ahead_ns[0])
            all.ahead_ns[0] = ahead;
        ahead = all.ahead_ns[all.ahead_ns[1] < all.ahead_ns[0]];
        c->begun += !ended;
        c->ended += ended;
        if (!c->begun_ns || ns < c->begun_ns)
            c->begun_ns = ns;
        if (ns > c->ended_ns)
            c->ended_ns = ns;
        meter_times(all.meter, number, c->begun_ns + ahead,
                    c->ended == c->begun ? c->ended_ns + ahead : 0);
    }
    pthread_mutex_unlock(&all.lock);
}

static int start_event(void *context, void **handle, const struct plugin_event *e)
{
    struct plugin_comm *c = context;
    int64_t number = c ? NO_CALL : 0;
    uint8_t type = (uint8_t)e->type;

    if (c && type == PLUGIN_COLLECTIVE) {
        pthread_mutex_lock(&all.lock);
        number = all.meter ? begin_call(c, e) : NO_CALL;
        pthread_mutex_unlock(&all.lock);
    } else if (type == PLUGIN_CHANNEL) {
        number = (intptr_t)e->parent;
        note_channel(number, e->of.channel.gpu_ns, 0);
    }
    *handle = (void *)(intptr_t)number;
    return PLUGIN_OK;
}

static int stop_event(void *handle)
{
    (void)handle;
    return PLUGIN_OK;
}

static int record_state(void *handle, int state, const uint64_t *args)
{
    if (state == PLUGIN_CHANNEL_ENDS && args)
        note_channel((intptr_t)handle, *args, 1);
    return PLUGIN_OK;
}

#define PROFILER(version, init)                                                                \
    EXPORT extern const struct plugin_profiler ncclProfiler_v##version;                        \
    const struct plugin_profiler ncclProfiler_v##version = {                                   \
        "paro", (void (*)(void))init, start_event, stop_event, record_state, plugin_finalize}
PROFILER(5, plugin_init5);
PROFILER(4, plugin_init4);
PROFILER(3, plugin_refuse);
PROFILER(2, plugin_refuse);
PROFILER(1, plugin_refuse);
