/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens the device that a run computes on and that moves its data, on every rank, and prints
 * the memory it has taken.
 */
#include "train/train_inside.h"

#include <inttypes.h>
#include <string.h>

#include "base/units.h"

/* auto: on a GPU, if each launch repeats the previous step's. */
static int graphs_of(struct train *t, struct err *err)
{
    const char *name = t->run->graphs ? t->run->graphs : "auto";

    t->graphs = train_on_gpu(t) && !t->begins && strcmp(name, "never") != 0;
    if (strcmp(name, "always") == 0 && train_on_gpu(t) && t->begins)
        return err_set(err, ERR_INPUT,
                       "--cuda-graphs=always with --documents=isolate, whose launches differ "
                       "from step to step: expected auto or never");
    if (strcmp(name, "always") == 0 && !t->graphs)
        return err_set(err, ERR_INPUT,
                       "--cuda-graphs=always on the device 'cpu', expected a GPU");
    if (strcmp(name, "always") != 0 && strcmp(name, "auto") != 0 && strcmp(name, "never") != 0)
        return err_set(err, ERR_INPUT, "--cuda-graphs '%s', expected auto, always or never",
                       name);
    return 0;
}

/*
 * Each rank uses the GPU with its index on the host; a GPU given by number is shared by the
 * ranks that name it.
 */
int train_device_open(struct train *t, struct err *err)
{
    const char *name = t->run->device ? t->run->device : "cpu";

    int rc = device_open(&t->device, name, t->world->node_rank, err);

    if (rc == 0 && t->run->fastest && !train_on_gpu(t))
        rc = err_set(err, ERR_INPUT, "--fastest on the device 'cpu', expected a GPU's");
    if (rc == 0)
        rc = graphs_of(t, err);
    if (rc == 0)
        rc = coll_transport_choose(&t->transport, t->run->transport, name, t->device,
                                   t->world->ranks, err);
    return world_agree(t->world, rc, err);
}

int train_on_gpu(const struct train *t)
{
    return device_kind(t->device) != DEVICE_CPU;
}

void train_device_print(const struct train *t)
{
    struct units taken, host, planned, left;
    struct engine_memory m;
    int64_t free_bytes = 0, bytes = 0;
    struct err err;

    if (!train_on_gpu(t))
        return;
    engine_memory(t->engine, &m);
    int known = device_memory(t->device, &free_bytes, &bytes, &err) == 0;
    train_print(t,
                "on cuda:%d, %s: %s allocated, %s planned, %s free; %s of host memory%s; "
                "attention by %s; over %s",
                device_index(t->device), device_name(t->device),
                units_bytes(&taken, (double)m.device_bytes),
                units_bytes(&planned, m.planned_bytes),
                known ? units_bytes(&left, (double)free_bytes) : "an unknown amount",
                units_bytes(&host, (double)m.host_bytes),
                m.unpinned ? ", not pinned by this driver (copies are slower)" : "",
                engine_attention_by(t->engine),
                t->transport == COLL_MPI  ? "MPI"
                : engine_coded(t->engine) ? "NCCL, coded data over MPI"
                                          : "NCCL");
}

void train_device_print_graphs(const struct train *t)
{
    struct net_graphs_report r = engine_graphs(t->engine);

    if (*r.refused)
        train_print(t, "kernels are launched one by one: %s", r.refused);
    else if (t->run->graphs && t->graphs)
        train_print(t, "%" PRId64 " CUDA graphs of layers, launched %" PRId64 " times",
                    r.written, r.runs);
}

double train_flops_per_s(const struct train *t, const struct engine_report *r)
{
    return r->flops / (train_on_gpu(t) ? r->step_s : r->compute_s);
}
