/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes records (paro-meter(5)) as an NCCL profiler (libparo-nccl-plugin.so), for programs
 * with NCCL linked statically, where preloading is impossible.
 *
 *     init            a communicator
 *     start_event     a collective is put into its stream: makes a record, whose number is the
 *                     handle; later, by another thread, a channel of its kernel has begun
 *     record_state    a channel has ended
 *
 * A call arrives when its first channel begins and completes when all begun channels have
 * ended; until then its time is that of the function call.  NCCL's thread queries times of the
 * GPU's clock every few microseconds.  The offset of the host's clock is the smallest recent
 * difference between such a time and its arrival here.
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

#define EXPORT __attribute__((visibility("default")))
/* Handle of an event without record; NULL might suppress its child events */
#define NO_CALL (-1)

/* Clocks drift apart by about 10 us per second: older differences are useless. */
static const int64_t window_ns = 1000000000;

struct plugin_comm {
    struct plugin_comm *next;
    struct meter_comm metered;
};

struct plugin_call {
    const struct plugin_comm *of;
    int64_t number, begun_ns, ended_ns; /* number of the record; times of the GPU's clock */
    int begun, ended;                   /* number of channels */
};

/* Global, because NCCL keeps data of a communicator but not of the process. */
static struct {
    pthread_mutex_t lock;
    struct meter *meter;
    int tried;
    pid_t process; /* that opened the meter: forked processes have its memory, but no meter */
    struct plugin_comm *comms;
    struct plugin_call call[METER_RECORDS]; /* like the meter's ring */
    /* Smallest of this window and of the previous one */
    int64_t ahead_ns[2], since_ns;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Writes the last records, and that the process ended normally. */
static __attribute__((destructor)) void plugin_end(void)
{
    if (all.process != getpid()) /* in a forked process the lock's owner may not exist */
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

/* A process's second rank in a communicator has no records: both would be one process. */
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

/* When a communicator is aborted, NCCL does not report the end of its pending calls. */
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

/* Returns the record's number.  Calls are counted here, since NCCL counts each function
   separately. */
static int64_t begin_call(struct plugin_comm *of, const struct plugin_event *e)
{
    struct meter_comm *c = &of->metered;
    static const struct {
        const char *func;
        enum meter_op op;
        int blocks; /* the vector has a block for each rank */
    } ops[] = {{"AllGather", METER_ALL_GATHER, 1}, {"ReduceScatter", METER_REDUCE_SCATTER, 1},
               {"AllReduce", METER_ALL_REDUCE, 0}, {"Broadcast", METER_BROADCAST, 0},
               {"Reduce", METER_REDUCE, 0},        {"", METER_UNKNOWN, 0}};
    const char *type = e->of.call.type; /* "ncclBfloat16": 16 bits */
    size_t bytes = e->of.call.count * (size_t)atoi(type + strcspn(type, "0123456789")) / 8;
    int i = 0;

    c->calls++;
    if (e->of.call.channels == 0) /* it would never complete */
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
    int64_t ns = (int64_t)(gpu_ns & (UINT64_MAX >> 2)); /* avoids overflow of sums */

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
