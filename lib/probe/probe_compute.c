/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how fast a rank computes and copies while all ranks do the same.  Every figure is that
 * of the slowest rank, for a step waits for it; of each rank the median of some turns counts,
 * so that a neighbour's moment does not.
 */
#include "base/stats.h"
#include "base/tick.h"
#include "probe/probe_parts.h"
#include "probe/probe_work.h"

enum {
    TURNS = 3,
    /*
     * An array is this part of a rank's memory: those of all ranks together are then 3 % of a
     * machine's, which is more than its caches; within bounds that are beyond a rank's own
     * cache and quick to touch.
     */
    COPY_PART = 64,
    COPY_LEAST = 4 << 20,
};

/*
 * Of a GPU, whose cache may have 126 MB, an array is larger, and many copies go into a queue at
 * once: a wait for it takes some 10 us, 16 copies between 256 MiB and 256 MiB at 4 TB/s 2 ms.
 */
static const struct copying {
    int64_t most;
    int queued;
} copying[] = {[DEVICE_CPU] = {64 << 20, 1}, [DEVICE_CUDA] = {256 << 20, 16}};

/*
 * A turn takes turn_s at least, and until the rank has had cpu_s of a processor: where many
 * share one, each gets slices of some milliseconds with long gaps between them.
 */
static const double turn_s = 0.2, cpu_s = 0.05, long_s = 0.6;
static const double figure_s = 1.5; /* for the turns of one figure */
static const double rest_s = 0.02;

struct turn {
    double start_s, start_cpu_s, took_s;
    int times;
};

static struct turn turn_begin(void)
{
    return (struct turn){.start_s = tick_now_s(), .start_cpu_s = tick_cpu_s()};
}

/* Counts some more; whether the part of a turn goes on. */
static int turn_goes_on(struct turn *t, int times, double share)
{
    t->times += times;
    t->took_s = tick_now_s() - t->start_s;
    double least_s = tick_cpu_s() - t->start_cpu_s < cpu_s * share ? long_s : turn_s;
    return t->took_s < least_s * share;
}

int probe_rest(struct world *world, struct err *err)
{
    int rc = world_barrier(world, err);

    tick_sleep_s(rest_s);
    return rc;
}

int probe_late(struct world *world, double start_s, int turns, double budget_s, int *late,
               struct err *err)
{
    double now_s = tick_now_s() - start_s;

    *late = turns > 0 && now_s / turns * (turns + 1) > budget_s;
    return world_bcast(world, late, sizeof *late, 0, err);
}

/* FLOP/s of a step's products: each is run for its part of a turn, and once at least. */
static double work_rate(void *arg)
{
    struct probe_work *w = arg;
    double flops = 0, took = 0;

    for (int i = 0; i < w->products; i++) {
        const struct probe_product *p = &w->product[i];
        struct turn t = turn_begin();
        int times;
        do
            times = probe_work_some(w, i);
        while (turn_goes_on(&t, times, 1.0 / w->products));
        flops += p->times * p->flops;
        took += p->times * t.took_s / t.times;
    }
    return flops / took;
}

struct copy {
    struct device *device;      /* borrowed */
    struct device_queue *queue; /* owned, as is what follows */
    void *to, *from;
    int64_t bytes;
};

static double copy_rate(void *arg)
{
    const struct copy *c = arg;
    struct turn t = turn_begin();
    struct err kept; /* by the device */
    int queued = copying[device_kind(c->device)].queued;

    do {
        for (int i = 0; i < queued; i++)
            device_copy(c->queue, c->to, c->from, c->bytes);
        (void)device_sync(c->queue, &kept);
    } while (turn_goes_on(&t, queued, 1));
    return 2.0 * (double)c->bytes * t.times / t.took_s;
}

/* Turns of all ranks at once; the figure of the slowest rank. */
static int take_turns(struct world *world, double (*rate)(void *arg), void *arg, double *out,
                      struct err *err)
{
    double mine[TURNS], start = tick_now_s();
    struct probe_summary all;
    int turns = 0, late = 0;

    while (turns < TURNS && !late) {
        if (world_barrier(world, err))
            return -1;
        mine[turns++] = rate(arg);
        if (probe_late(world, start, turns, figure_s, &late, err))
            return -1;
    }
    if (probe_summarize(world, stats_median(mine, turns), 0, &all, err))
        return -1;
    *out = all.least;
    return 0;
}

int probe_flops(struct world *world, const struct probe_ask *ask, double *flops,
                struct err *err)
{
    struct probe_work w;

    if (probe_work_open(&w, world, ask, err))
        return -1;
    int rc = take_turns(world, work_rate, &w, flops, err);
    rc = rc ? rc : probe_work_check(&w, world, err);
    probe_work_close(&w);
    return rc;
}

static int open_copy(struct copy *c, struct err *err)
{
    if (device_queue_open(c->device, &c->queue, err) ||
        device_alloc(c->device, c->bytes, "the copy buffers", &c->from, err) ||
        device_alloc(c->device, c->bytes, "the copy buffers", &c->to, err))
        return -1;
    /* Each page is there, and none is the one of zeros that a kernel may show in its place. */
    device_zero(c->queue, c->from, c->bytes);
    device_zero(c->queue, c->to, c->bytes);
    return device_sync(c->queue, err);
}

int probe_copy(struct world *world, struct device *device, int64_t memory_bytes, double *Bps,
               struct err *err)
{
    int64_t most = copying[device_kind(device)].most;
    struct copy c = {.device = device, .bytes = memory_bytes / COPY_PART};

    c.bytes = c.bytes < COPY_LEAST ? COPY_LEAST : c.bytes < most ? c.bytes : most;
    int rc = world_agree(world, open_copy(&c, err), err);
    rc = rc ? rc : take_turns(world, copy_rate, &c, Bps, err);
    rc = rc ? rc : world_agree(world, device_sync(c.queue, err), err);
    device_free(device, c.to);
    device_free(device, c.from);
    device_queue_close(c.queue);
    return rc;
}
