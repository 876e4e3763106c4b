/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows what of a round is a GPU's: its buffers, and how they are looked at. */
#include "probe/probe_gpu.h"

#include <string.h>

#include "base/mem.h"
#include "probe/probe_parts.h"

static int open_all(struct probe *p, struct probe_gpu *g, struct err *err)
{
    struct device_queue **queue[] = {&g->queue, &g->leave, &g->enter};
    void *in = NULL, *out = NULL;
    int rc = 0;

    for (int i = 0; rc == 0 && i < 3; i++)
        rc = device_queue_open(g->device, queue[i], err);
    rc = rc ? rc : device_alloc(g->device, p->room, "the send buffer", &in, err);
    rc = rc ? rc : device_alloc(g->device, p->room, "the receive buffer", &out, err);
    g->in = in;
    g->out = out;
    if (rc)
        return rc;
    /* One behind the other: a page can be pinned once.  A driver may not pin what it did not
       make; rounds are then slower, as a training's exchanges are (coll_stages_open). */
    g->pinned = device_pin(g->device, p->in, p->out + p->room - p->in, err) == 0;
    return g->pinned || err->code == ERR_SYS ? 0 : -1;
}

int probe_gpu_open(struct probe *p, struct device *device, struct err *err)
{
    p->gpu = mem_new(1, sizeof *p->gpu);
    p->gpu->device = device;
    if (world_agree(p->world, open_all(p, p->gpu, err), err) == 0)
        return 0;
    probe_gpu_close(p);
    return -1;
}

void probe_gpu_close(struct probe *p)
{
    struct probe_gpu *g = p->gpu;

    if (!g)
        return;
    device_queue_close(g->leave);
    device_queue_close(g->enter);
    device_queue_close(g->queue);
    if (g->pinned)
        device_unpin(g->device, p->in);
    device_free(g->device, g->in);
    device_free(g->device, g->out);
    mem_free(g);
    p->gpu = NULL;
}

int probe_gpu_prepare(struct probe *p, struct exec_mpi_handle *exec, struct err *err)
{
    if (!p->gpu)
        return 0;
    return world_agree(p->world, exec_mpi_stage(exec, p->gpu->leave, p->gpu->enter, err), err);
}

static void copy_and_wait(struct probe_gpu *g, void *to, const void *from, int64_t bytes)
{
    struct err kept; /* by the device */

    device_copy(g->queue, to, from, bytes);
    (void)device_sync(g->queue, &kept);
}

void probe_gpu_fill(struct probe *p, int64_t bytes)
{
    if (p->gpu)
        copy_and_wait(p->gpu, p->gpu->in, p->out, bytes);
}

void probe_gpu_fetch(struct probe *p, int64_t sent, int64_t arrived)
{
    if (!p->nccl)
        return;
    copy_and_wait(p->gpu, p->in, p->gpu->in, sent);
    copy_and_wait(p->gpu, p->out, p->gpu->out, arrived);
}

int64_t probe_gpu_landed(struct probe *p, const struct probe_round *r)
{
    int64_t wrong = 0, base = 0;

    if (!p->gpu || p->nccl)
        return 0;
    copy_and_wait(p->gpu, p->in, p->gpu->out, r->in_bytes);
    for (int i = 0; i < r->mines; i++) {
        int64_t bytes = r->mine[i].bytes;
        if (r->mine[i].dst != p->world->rank)
            continue;
        for (int64_t at = base; at < base + bytes; at += 8) {
            int64_t left = base + bytes - at;
            wrong += memcmp(p->in + at, p->out + at, (size_t)(left < 8 ? left : 8)) != 0;
        }
        base += probe_aligned(bytes);
    }
    return wrong;
}

int probe_gpu_check(const struct probe *p, struct err *err)
{
    return p->gpu ? device_sync(p->gpu->queue, err) : 0;
}
