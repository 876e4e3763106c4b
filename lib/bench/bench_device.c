/* SPDX-License-Identifier: BSD-3-Clause */
/* Allocates the buffers of a benchmark, and copies their contents to and from a device. */

#include "bench/bench_parts.h"

/* MPI is not assumed to support GPUs, nor NCCL host memory. */
static int check_algos(const struct bench *b, struct err *err)
{
    for (int a = 0; a < b->o->algos; a++) {
        if (b->o->algo[a] == BENCH_MPI && b->device)
            return err_set(err, ERR_INPUT,
                           "--algo mpi on a GPU, which an MPI need not support: expected paro's"
                           " algorithms or nccl");
        if (b->o->algo[a] == BENCH_NCCL && b->transport != COLL_NCCL)
            return err_set(err, ERR_INPUT,
                           "--algo nccl without NCCL as the transport: expected --device cuda, "
                           "or --transport nccl with a GPU");
    }
    return 0;
}

int bench_device_open(struct bench *b, struct err *err)
{
    const char *name = b->o->device ? b->o->device : "cpu";
    struct device *device = NULL;

    int rc = device_open(&device, name, b->world->node_rank, err);
    if (rc == 0)
        rc = coll_transport_choose(&b->transport, b->o->transport, name, device,
                                   b->world->ranks, err);
    if (rc == 0 && device_kind(device) != DEVICE_CPU) {
        b->device = device;
        rc = device_queue_open(device, &b->queue, err);
    } else {
        device_close(device);
    }
    if (rc == 0)
        rc = check_algos(b, err);
    return world_agree(b->world, rc, err);
}

int bench_device_buffers(struct bench *b, int64_t space, struct err *err)
{
    void *in = NULL, *out = NULL;
    int rc = 0;

    b->host_in = b->in = coll_take(&b->coll, space);
    b->host_out = b->out = coll_take(&b->coll, space);
    if (!b->device)
        return 0;
    if (device_alloc(b->device, space, "the send buffer", &in, err) ||
        device_alloc(b->device, space, "the receive buffer", &out, err))
        rc = -1;
    b->in = in;
    b->out = out;
    return world_agree(b->world, rc, err);
}

void bench_device_close(struct bench *b)
{
    if (!b->device)
        return;
    if (b->in != b->host_in)
        device_free(b->device, b->in);
    if (b->out != b->host_out)
        device_free(b->device, b->out);
    device_queue_close(b->queue);
}

int bench_device_copy(struct bench *b, void *to, const void *from, int64_t bytes,
                      struct err *err)
{
    if (!b->device || bytes == 0)
        return 0;
    device_copy(b->queue, to, from, bytes);
    return device_sync(b->queue, err);
}
