/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests libparo-nccl-plugin.so as NCCL's profiler: called by the names and layouts of NCCL's
 * interface, which are written down here again; its records are read when the process has
 * ended.
 */
#include "unit.h"

#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "meter/meter.h"
#include "nccl_plugin_fixture.h"

enum { GROUP = 1, COLL = 2, KERNEL_CH = 64, COLL_API = 512, CH_STOP = 22, MASK = 66 };

struct event5 {
    uint64_t type;
    void *parent;
    int rank;
    union {
        struct {
            uint64_t seq;
            const char *func;
            void const *send;
            void *recv;
            size_t count;
            int root;
            const char *datatype;
            uint8_t channels, warps;
            const char *algo, *proto;
            void *group;
        } coll;
        struct {
            uint8_t id;
            uint64_t timer;
        } kernel;
    };
};

union state5 {
    size_t step_size;
    uint64_t kernel_timer;
};

struct profiler {
    const char *name;
    union {
        int (*init5)(void **, uint64_t, int *, const char *, int, int, int, logger_f *);
        int (*init4)(void **, int *, const char *, uint64_t, int, int, int, logger_f *);
        int (*init3)(void **, int *);
    };
    int (*start)(void *, void **, struct event5 *);
    int (*stop)(void *);
    int (*record)(void *, int, union state5 *);
    int (*finalize)(void *);
};

/* Shared with the processes of the cases. */
static struct {
    int64_t from, to, promptly, late_from;
} * seen;

/* Runs it in a process of its own, and reads the records that this leaves. */
static void record(struct meter_file *f, int (*what)(void), int records)
{
    char path[TEMP_PATH + 100], host[METER_HOST] = "";

    assert_int_equal(run(what), 0);
    gethostname(host, sizeof host - 1);
    snprintf(path, sizeof path, "%s/meter/%s.%d.nccl", dir, host, (int)child);
    assert_ok(meter_read(path, METER_RECORDS, f, &err));
    unlink(path);
    assert_int_equal(f->count, records);
}

static int setup(void **state)
{
    char path[TEMP_PATH + 8];
    int rc = plugin_setup(state);

    snprintf(path, sizeof path, "%s/meter", dir);
    setenv("PARO_METER", path, 1);
    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return rc || seen == MAP_FAILED ? -1 : 0;
}

static int teardown(void **state)
{
    char path[TEMP_PATH + 8];

    snprintf(path, sizeof path, "%s/meter", dir);
    rmdir(path);
    munmap(seen, sizeof *seen);
    return plugin_teardown(state);
}

#define PLUGIN_TEST(name) UNIT_TEST(name, setup, teardown)

/* The GPU's clock is years ahead of ours. */
static const int64_t gpu_ahead = INT64_C(1700000000000000000);

static const struct profiler *p;

static void *join_comm(uint64_t id, int ranks, int rank)
{
    void *context = NULL;
    int mask = 0;

    p = symbol("ncclProfiler_v5");
    if (p->init5(&context, id, &mask, "world", 2, ranks, rank, quiet) || !context ||
        mask != MASK)
        exit(10);
    return context;
}

static void *call(void *context, const char *func, const char *type, size_t count, int channels)
{
    struct event5 group = {.type = GROUP}, e = {.type = COLL};
    void *plan = NULL, *handle = NULL;

    p->start(context, &plan, &group);
    if (!plan) /* older versions of NCCL start no collectives then */
        exit(11);
    e.coll.func = func;
    e.coll.count = count;
    e.coll.datatype = type;
    e.coll.channels = (uint8_t)channels;
    e.coll.group = plan;
    p->start(context, &handle, &e);
    p->stop(handle);
    p->stop(plan);
    return handle;
}

/* A channel begins, late_ns ago. */
static void *begin(void *context, void *handle, int channel, int64_t late_ns)
{
    struct event5 e = {.type = KERNEL_CH, .parent = handle};
    void *kernel = NULL;

    e.kernel.id = (uint8_t)channel;
    e.kernel.timer = (uint64_t)(meter_now_ns() - late_ns + gpu_ahead);
    p->start(context, &kernel, &e);
    return kernel;
}

static void finish(void *kernel, int64_t late_ns)
{
    union state5 s = {0};

    s.kernel_timer = (uint64_t)(meter_now_ns() - late_ns + gpu_ahead);
    p->record(kernel, CH_STOP, &s);
    p->stop(kernel);
}

static void whole(void *context, const char *func, const char *type, size_t count)
{
    void *handle = call(context, func, type, count, 2), *a = begin(context, handle, 0, 0),
         *b = begin(context, handle, 1, 0);
    union state5 other = {0};

    p->record(a, 8, &other); /* a state of other events */
    p->record(b, CH_STOP, NULL);
    finish(a, 0);
    finish(b, 0);
}

static int every_function(void)
{
    void *pair = join_comm(77, 2, 1), *four = join_comm(99, 4, 3);

    seen->from = meter_now_ns();
    whole(four, "AllReduce", "ncclFloat32", 100);
    whole(four, "AllGather", "ncclInt8", 100);
    whole(pair, "ReduceScatter", "ncclBfloat16", 100);
    whole(four, "Broadcast", "ncclFloat8e4m3", 100);
    whole(four, "Reduce", "ncclUint64", 100);
    whole(pair, "AllFoo", "ncclFloat64", 1);
    seen->to = meter_now_ns();
    p->finalize(pair);
    p->finalize(four);
    return 0;
}

PLUGIN_TEST(every_function_is_recorded_once_it_has_ended)
{
    static const struct {
        uint64_t comm;
        int ranks, rank, sequence, bytes;
        enum meter_op op;
    } want[] = {{99, 4, 3, 1, 400, METER_ALL_REDUCE},     {99, 4, 3, 2, 400, METER_ALL_GATHER},
                {77, 2, 1, 1, 400, METER_REDUCE_SCATTER}, {99, 4, 3, 3, 100, METER_BROADCAST},
                {99, 4, 3, 4, 800, METER_REDUCE},         {77, 2, 1, 2, 8, METER_UNKNOWN}};
    struct meter_file f;

    record(&f, every_function, 6);
    printed(0, "");
    assert_true(f.header.ended_ns > 0 && f.header.process == child);
    assert_true(f.header.run == 99 && f.header.ranks == 4 && f.header.rank == 3);
    for (int i = 0; i < 6; i++) {
        const struct meter_record *r = &f.record[i];
        assert_true(r->comm == want[i].comm && r->ranks == want[i].ranks);
        assert_true(r->rank == want[i].rank && r->sequence == want[i].sequence);
        assert_int_equal(r->bytes, want[i].bytes);
        assert_int_equal(r->op, want[i].op);
        assert_true(seen->from <= r->arrived_ns && r->arrived_ns <= r->completed_ns);
        assert_true(r->completed_ns <= seen->to);
    }
    meter_file_release(&f);
}

static void *unfinished(void)
{
    void *c = join_comm(99, 2, 0), *handle;

    handle = call(c, "AllReduce", "ncclFloat32", 1, 2);
    begin(c, handle, 0, 0);
    finish(begin(c, handle, 1, 0), 0);               /* the other channel hangs */
    (void)call(c, "AllReduce", "ncclFloat32", 2, 0); /* a kernel that reports nothing */
    seen->from = meter_now_ns();
    (void)call(c, "AllReduce", "ncclFloat32", 3, 2); /* its kernel waits in the stream */
    return c;
}

static int halves(void)
{
    return !unfinished();
}

PLUGIN_TEST(what_has_not_ended_has_no_completion)
{
    struct meter_file f;

    record(&f, halves, 2);
    assert_true(f.record[0].sequence == 1 && f.record[1].sequence == 3);
    assert_true(f.record[0].completed_ns == 0 && f.record[1].completed_ns == 0);
    assert_true(f.record[0].arrived_ns < seen->from && f.record[1].arrived_ns >= seen->from);
    meter_file_release(&f);
}

static int aborted(void)
{
    void *other = join_comm(98, 2, 0), *c = unfinished();

    p->finalize(c);
    seen->to = meter_now_ns();
    whole(other, "AllReduce", "ncclFloat32", 1);
    return 0;
}

PLUGIN_TEST(what_an_aborted_communicator_left_is_over)
{
    struct meter_file f;

    record(&f, aborted, 3);
    for (int i = 0; i < 2; i++)
        assert_true(f.record[i].completed_ns > 0 && f.record[i].completed_ns <= seen->to);
    meter_file_release(&f);
}

static const int64_t late_ns = 5000000;

static int late_events(void)
{
    void *c = join_comm(99, 2, 0), *handle, *kernel;

    handle = call(c, "AllReduce", "ncclFloat32", 1, 1);
    finish(begin(c, handle, 0, late_ns), 0);
    seen->from = meter_now_ns();
    finish(begin(c, call(c, "AllReduce", "ncclFloat32", 1, 1), 0, 0), 0);
    seen->promptly = meter_now_ns() - seen->from;
    handle = call(c, "AllReduce", "ncclFloat32", 1, 1);
    seen->late_from = meter_now_ns() - late_ns;
    (void)begin(c, handle, 1, 0); /* the later channel is reported first */
    kernel = begin(c, handle, 0, late_ns);
    seen->to = meter_now_ns() - late_ns;
    finish(kernel, 0);
    return 0;
}

/* How far the clocks are apart is known as well as the promptest event was: the error of a
   later one is what that took, not by how much it is late itself. */
PLUGIN_TEST(times_are_the_gpus_by_our_clock)
{
    struct meter_file f;

    record(&f, late_events, 3);
    assert_true(f.record[2].arrived_ns >= seen->late_from);
    assert_true(f.record[2].arrived_ns <= seen->to + seen->promptly);
    meter_file_release(&f);
}

static int stale(void)
{
    void *c = join_comm(99, 2, 0), *first = call(c, "AllReduce", "ncclFloat32", 1, 1), *last;

    for (int i = 0; i < METER_RECORDS; i++)
        last = call(c, "AllReduce", "ncclFloat32", 1, 1);
    begin(c, first, 0, 0);
    finish(begin(c, NULL, 0, 0), 0); /* of a message between two ranks */
    finish(begin(c, last, 0, 0), 0); /* in the first one's place */
    return 0;
}

PLUGIN_TEST(a_channel_of_a_call_that_the_ring_has_lost_is_nobodys)
{
    struct meter_file f;

    record(&f, stale, METER_RECORDS);
    for (int i = 0; i < f.count; i++)
        assert_int_equal(f.record[i].completed_ns > 0, i == METER_RECORDS - 1);
    meter_file_release(&f);
}

static int second_rank(void)
{
    void *c = join_comm(99, 2, 0), *other = c, *handle = c;
    struct event5 e = {.type = COLL, .coll = {.func = "AllReduce", .datatype = "ncclInt8"}};
    int mask = MASK;

    if (p->init5(&other, 99, &mask, NULL, 2, 2, 1, quiet) || other || mask != MASK)
        return 1;
    e.coll.channels = 1;
    p->start(other, &handle, &e);
    if (handle)
        return 2;
    whole(c, "AllReduce", "ncclInt8", 1);
    p->finalize(other);
    p->finalize(c);
    c = join_comm(99, 2, 1); /* it is gone: its name is free */
    whole(c, "AllReduce", "ncclInt8", 1);
    return 0;
}

PLUGIN_TEST(a_second_rank_in_a_process_has_no_records)
{
    struct meter_file f;

    record(&f, second_rank, 2);
    assert_true(f.record[0].rank == 0 && f.record[1].rank == 1);
    meter_file_release(&f);
}

enum { THREADS = 4, CALLS = 1500 };

static void *many(void *arg)
{
    for (int i = 0; i < CALLS; i++)
        whole(arg, "AllGather", "ncclFloat16", 8);
    return NULL;
}

static int threads(void)
{
    void *comm[THREADS];
    pthread_t thread[THREADS];

    for (int i = 0; i < THREADS; i++)
        comm[i] = join_comm(100 + (uint64_t)i, 2, 0);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread[i], NULL, many, comm[i]))
            return 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    return 0;
}

PLUGIN_TEST(threads_record_each_call_once)
{
    int64_t last[THREADS] = {0};
    struct meter_file f;

    record(&f, threads, THREADS * CALLS);
    for (int i = 0; i < f.count; i++) {
        const struct meter_record *r = &f.record[i];
        assert_int_equal(r->sequence, ++last[r->comm - 100]);
        assert_true(r->completed_ns >= r->arrived_ns && r->bytes == 32);
    }
    meter_file_release(&f);
}

static int version4(void)
{
    struct event5 e = {.type = UINT64_C(0xabcd00) | COLL}; /* one byte and what was there */
    void *context = NULL, *handle = NULL;
    int mask = 0;

    p = symbol("ncclProfiler_v4");
    if (p->init4(&context, &mask, "world", 99, 2, 8, 5, quiet) || mask != MASK)
        return 1;
    e.coll.func = "Reduce";
    e.coll.datatype = "ncclInt32";
    e.coll.count = 3;
    e.coll.channels = 1;
    p->start(context, &handle, &e);
    finish(begin(context, handle, 0, 0), 0);
    return p->finalize(context);
}

PLUGIN_TEST(version_4_has_the_same_records)
{
    struct meter_file f;

    record(&f, version4, 1);
    const struct meter_record *r = f.record;
    assert_true(r->comm == 99 && r->rank == 5 && r->ranks == 8 && r->bytes == 12);
    assert_true(r->op == METER_REDUCE && r->completed_ns > 0);
    meter_file_release(&f);
}

static int unmetered(void)
{
    void *context = &context;
    int mask = 0;

    p = symbol("ncclProfiler_v5");
    return p->init5(&context, 1, &mask, NULL, 1, 1, 0, quiet) || context || mask ||
           p->finalize(context);
}

PLUGIN_TEST(without_a_folder_nothing_is_asked_of_nccl)
{
    unsetenv("PARO_METER");
    assert_int_equal(run(unmetered), 0);
    printed(0, "");
    setenv("PARO_METER", "/proc/none", 1);
    assert_int_equal(run(unmetered), 0);
    printed(1, "paro-nccl: rank 0 is not metered: PARO_METER: cannot make folder");
}

static const char *old_name;

static int old_profiler(void)
{
    const struct profiler *old = symbol(old_name);
    void *context = &context;
    int mask = 0;

    return old->init3(&context, &mask) == 5 && !context && !mask && old->finalize(context) == 0
               ? 0
               : 1;
}

PLUGIN_TEST(older_versions_are_refused_with_a_line)
{
    static const char *const names[] = {"ncclProfiler_v3", "ncclProfiler_v2",
                                        "ncclProfiler_v1"};

    for (int i = 0; i < 3; i++) {
        old_name = names[i];
        assert_int_equal(run(old_profiler), 0);
        printed(1, "profiler interface is older than version 4, expected 4 or 5 (NCCL 2.27");
    }
    assert_null(symbol("ncclProfiler_v6"));
}
