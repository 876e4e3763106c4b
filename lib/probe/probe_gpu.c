/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chooses the executor of a round: MPI's, from host memory or through it, or NCCL's, from GPU
 * to GPU.  Handles the GPU's side of it: its buffers, and reading them.
 */
#include "probe/probe_gpu.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "probe/probe_parts.h"

enum { CHUNK = 60 << 10 }; /* under Open MPI's TCP eager limit, as in coll/coll.c */

/* One chunk over NCCL: each would be a launch, whose time would count as its bytes'. */
int probe_chunks(const struct probe *p, int64_t bytes)
{
    return p->nccl ? bytes > 0 : (int)((bytes + CHUNK - 1) / CHUNK);
}

int probe_ready(struct probe *p, struct exec_rows *rows, struct probe_round *r, struct err *err)
{
    if (p->nccl)
        return world_agree(p->world, exec_nccl_prepare(p->nccl, rows, &r->nccl, err), err);
    if (exec_mpi_prepare(p->exec, rows, &r->exec, err))
        return -1;
    struct probe_gpu *g = p->gpu;
    return g ? world_agree(p->world, exec_mpi_stage(r->exec, g->leave, g->enter, err), err) : 0;
}

void probe_free(struct probe_round *r)
{
    exec_mpi_free(r->exec);
    exec_nccl_free(r->nccl);
    mem_free(r->mine);
    *r = (struct probe_round){0};
}

int probe_start(struct probe *p, struct probe_round *r, int host, struct err *err)
{
    if (r->nccl) {
        assert(!host);
        exec_nccl_set(r->nccl, p->gpu->in, p->gpu->out, NULL, NULL);
        return exec_nccl_start(r->nccl, err);
    }
    exec_mpi_set(r->exec, p->in, p->out, NULL);
    if (p->gpu)
        exec_mpi_set_gpu(r->exec, host ? NULL : p->gpu->in, host ? NULL : p->gpu->out);
    return exec_mpi_start(r->exec, err);
}

enum stream_state probe_poll(struct probe_round *r, struct err *err)
{
    return r->nccl ? exec_nccl_poll(r->nccl, err) : exec_mpi_poll(r->exec, err);
}

int64_t probe_arrived(const struct probe_round *r)
{
    return r->nccl ? exec_nccl_arrived(r->nccl) : exec_mpi_arrived(r->exec);
}

/* ---- a GPU ---- */

static int gpu_open_all(struct probe *p, struct probe_gpu *g, struct err *err)
{
    struct device_queue **queue[] = {&g->queue, &g->leave, &g->enter};
    void *in = NULL, *out = NULL;
    int rc = 0;

    for (int i = 0; rc == 0 && i < 3; i++)
        rc = device_queue_open(g->device, queue[i], err);
    rc = rc ? rc : device_alloc(g->device, p->space, "the send buffer", &in, err);
    rc = rc ? rc : device_alloc(g->device, p->space, "the receive buffer", &out, err);
    g->in = in;
    g->out = out;
    if (rc)
        return rc;
    /* Pin `in` and `out` together, as a page can be pinned only once.  A driver may refuse to
       pin memory that it did not allocate; rounds are then slower, as a training's exchanges
       are (coll_stages_open). */
    g->pinned = device_pin(g->device, p->in, p->out + p->space - p->in, err) == 0;
    return g->pinned || err->code == ERR_SYS ? 0 : -1;
}

int probe_gpu_open(struct probe *p, struct device *device, struct err *err)
{
    p->gpu = mem_new(1, sizeof *p->gpu);
    p->gpu->device = device;
    if (world_agree(p->world, gpu_open_all(p, p->gpu, err), err) == 0)
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

static void copy_and_wait(struct probe_gpu *g, void *to, const void *from, int64_t bytes)
{
    struct err kept; /* set by the device */

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

int64_t probe_gpu_differing(struct probe *p, const struct probe_round *r)
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
        base += arena_space(bytes);
    }
    return wrong;
}

int probe_gpu_check(const struct probe *p, struct err *err)
{
    return p->gpu ? device_sync(p->gpu->queue, err) : 0;
}
