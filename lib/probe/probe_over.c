/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows by what a round goes: the MPI executor, from the host's memory or through it, or
 * NCCL's, from GPU to GPU.
 */
#include <assert.h>

#include "base/mem.h"
#include "probe/probe_gpu.h"
#include "probe/probe_parts.h"

enum { CHUNK = 60 << 10 }; /* under Open MPI's TCP eager limit, as in coll/coll.c */

/* Over NCCL all is one: each chunk would be a launch, whose time would count as its bytes'. */
int probe_chunks(const struct probe *p, int64_t bytes)
{
    return p->nccl ? bytes > 0 : (int)((bytes + CHUNK - 1) / CHUNK);
}

int probe_ready(struct probe *p, struct exec_rows *rows, struct probe_round *r, struct err *err)
{
    if (p->nccl)
        return world_agree(p->world, exec_nccl_prepare(p->nccl, rows, &r->nccl, err), err);
    int rc = exec_mpi_prepare(p->exec, rows, &r->exec, err);
    return rc ? rc : probe_gpu_prepare(p, r->exec, err);
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
