/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Measures how fast ranks compute and access their memory while all do the same.  On
 * processors a rank's figure is the mean of its host's ranks, because on a shared processor one
 * rank's gain is another's loss, and not for long; of each rank it is the median of some
 * rounds, so that a short disturbance does not count.
 *
 * The fabric's figure is that of the slowest usual rank, because a step waits for it.  Usual
 * are ranks whose compute rate is near the median; the others have their own in the topology.
 */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/stats.h"
#include "base/tick.h"
#include "probe/probe_work.h"

enum {
    ROUNDS = 3,
    /*
     * An array is this part of a rank's memory: all ranks' arrays together are then 3 % of a
     * machine's memory, more than its caches.  The bounds exceed a rank's own cache and are
     * quick to touch.
     */
    ARRAY_PART = 64,
    ARRAY_LEAST = 4 << 20,
};

/*
 * On a GPU, whose cache may have 126 MB, an array is larger, and many sums are queued at once:
 * waiting for the queue takes some 10 us, 16 sums of 256 MiB and 256 MiB at 4 TB/s 3 ms.
 */
static const struct adding {
    int64_t most;
    int queued;
} adding[] = {[DEVICE_CPU] = {64 << 20, 1}, [DEVICE_CUDA] = {256 << 20, 16}};

/*
 * A round takes round_s by the clock, or until the rank has had cpu_s of a processor: where
 * many share one, each gets slices of some milliseconds with long gaps between them.  All ranks
 * end at about the same time, because one that computes on alone has a processor to itself:
 * rounds of 0.2 s whose parts each ended with a slice of their own showed 6 to 8 % too much.
 */
static const double round_s = 0.4, cpu_s = 0.1, long_s = 1.2;
static const double figure_s = 1.5; /* for all rounds of one figure */
static const double rest_s = 0.02;

struct round {
    double start_s, start_cpu_s;
};

static struct round round_begin(void)
{
    return (struct round){.start_s = tick_now_s(), .start_cpu_s = tick_cpu_s()};
}

/* Whether this share of a round, from its beginning, is still to come; sets *now_s. */
static int round_goes_on(const struct round *r, double share, double *now_s)
{
    double least_s = tick_cpu_s() - r->start_cpu_s < cpu_s * share ? long_s : round_s;

    *now_s = tick_now_s();
    return *now_s - r->start_s < least_s * share;
}

int probe_rest(struct world *world, struct err *err)
{
    int rc = world_barrier(world, err);

    tick_sleep_s(rest_s);
    return rc;
}

int probe_late(struct world *world, double start_s, int rounds, double budget_s, int *late,
               struct err *err)
{
    double now_s = tick_now_s() - start_s;

    *late = rounds > 0 && now_s / rounds * (rounds + 1) > budget_s;
    return world_bcast(world, late, sizeof *late, 0, err);
}

/* FLOP/s of a step's products: each runs for its part of a round, at least once. */
static double work_rate(void *arg)
{
    struct probe_work *w = arg;
    struct round round = round_begin();
    double flops = 0, took = 0, from_s = round.start_s, now_s = from_s;

    for (int i = 0; i < w->products; i++, from_s = now_s) {
        const struct probe_product *p = &w->product[i];
        int times = 0;
        do
            times += probe_work_some(w, i);
        while (round_goes_on(&round, (i + 1.0) / w->products, &now_s));
        flops += p->times * p->flops;
        took += p->times * (now_s - from_s) / times;
    }
    return flops / took;
}

struct arrays {                 /* to += from, f32: like an update and a gradient's sum */
    struct device_queue *queue; /* owned, as are the next members */
    struct kern kern;
    void *to, *from;
    int64_t elems;
};

static double memory_rate(void *arg)
{
    struct arrays *a = arg;
    struct kern *k = &a->kern;
    struct round round = round_begin();
    struct err kept; /* set by the device */
    int queued = adding[device_kind(k->device)].queued, sums = 0;
    double now_s;

    do {
        for (int i = 0; i < queued; i++)
            k->op->accumulate(k, a->to, DTYPE_F32, a->from, DTYPE_F32, a->elems);
        (void)device_sync(a->queue, &kept);
        sums += queued;
    } while (round_goes_on(&round, 1, &now_s));
    return 3 * sizeof(float) * (double)a->elems * sums / (now_s - round.start_s);
}

static int is_cuda(const struct device *device)
{
    return device && device_kind(device) == DEVICE_CUDA;
}

/* Runs rounds of all ranks at once; sets the rate of each rank. */
static int compute_alternate(struct world *world, int is_gpu, double (*rate)(void *arg),
                             void *arg, double *all, struct err *err)
{
    double mine[ROUNDS], start = tick_now_s();
    int rounds = 0, late = 0;

    while (rounds < ROUNDS && !late) {
        if (world_barrier(world, err))
            return -1;
        mine[rounds++] = rate(arg);
        if (probe_late(world, start, rounds, figure_s, &late, err))
            return -1;
    }
    const struct groups *hosts = &world->groups;
    double median = stats_median(mine, rounds);
    if (world_allgather(world, &median, sizeof median, all, err))
        return -1;
    for (int k = 0; !is_gpu && k < hosts->count; k++) {
        double sum = 0;
        for (int i = 0; i < hosts->members[k]; i++)
            sum += all[groups_rank(hosts, k, i)];
        for (int i = 0; i < hosts->members[k]; i++)
            all[groups_rank(hosts, k, i)] = sum / hosts->members[k];
    }
    return 0;
}

void probe_usual(const double *rate, int ranks, char *usual)
{
    double *sorted = mem_new((size_t)ranks, sizeof *sorted), least = INFINITY;
    int some = 0;

    memcpy(sorted, rate, (size_t)ranks * sizeof *sorted);
    double median = stats_median(sorted, ranks);
    for (int r = 0; r < ranks; r++) {
        usual[r] = rate[r] >= median * TOPO_SLOW_SHARE && rate[r] <= median / TOPO_SLOW_SHARE;
        least = fmin(least, rate[r]);
        some |= usual[r];
    }
    mem_free(sorted);
    /* Two kinds of ranks, as many of each: those of the slower kind are usual. */
    for (int r = 0; !some && r < ranks; r++)
        usual[r] = rate[r] <= least / TOPO_SLOW_SHARE;
}

int probe_flops(struct world *world, const struct probe_settings *settings, double *flops,
                struct err *err)
{
    struct probe_work w;

    if (probe_work_open(&w, world, settings, err))
        return -1;
    int rc = compute_alternate(world, is_cuda(settings->device), work_rate, &w, flops, err);
    rc = rc ? rc : probe_work_check(&w, world, err);
    probe_work_close(&w);
    return rc;
}

int probe_memory_rate(struct world *world, struct device *device, int64_t memory_bytes,
                      double *Bps, struct err *err)
{
    int64_t most = adding[device_kind(device)].most, bytes = memory_bytes / ARRAY_PART;
    struct arrays a = {0};

    bytes = bytes < ARRAY_LEAST ? ARRAY_LEAST : bytes < most ? bytes : most;
    a.elems = bytes / (int64_t)sizeof(float);
    bytes = a.elems * (int64_t)sizeof(float);
    int rc = device_queue_open(device, &a.queue, err);
    rc = rc ? rc : kern_open(&a.kern, device, a.queue, DTYPE_F32, DTYPE_F32, err);
    rc = rc ? rc : device_alloc(device, bytes, "an array of numbers", &a.from, err);
    rc = rc ? rc : device_alloc(device, bytes, "an array of numbers", &a.to, err);
    if (rc == 0) {
        /* Touch each page, so that none is the kernel's shared page of zeros. */
        device_zero(a.queue, a.from, bytes);
        device_zero(a.queue, a.to, bytes);
        rc = device_sync(a.queue, err);
    }
    rc = world_agree(world, rc, err);
    rc = rc ? rc : compute_alternate(world, is_cuda(device), memory_rate, &a, Bps, err);
    rc = rc ? rc : world_agree(world, device_sync(a.queue, err), err);
    device_free(device, a.to);
    device_free(device, a.from);
    kern_close(&a.kern);
    device_queue_close(a.queue);
    return rc;
}
