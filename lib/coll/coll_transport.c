/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows what a GPU's memory travels by, where nobody or somebody says. */
#include <string.h>

#include "coll/coll.h"
#include "exec/exec_nccl.h"

int coll_transport_choose(enum coll_transport *out, const char *asked, const char *name,
                          const struct device *device, int ranks, struct err *err)
{
    *out = COLL_MPI;
    if (!asked || !strcmp(asked, "auto")) {
        if (!strcmp(name, "cuda") && ranks > 1 && exec_nccl_built())
            *out = COLL_NCCL;
        return 0;
    }
    if (!strcmp(asked, "mpi"))
        return 0;
    if (strcmp(asked, "nccl") != 0)
        return err_set(err, ERR_INPUT, "--transport '%s', expected mpi, nccl or auto", asked);
    if (device_kind(device) == DEVICE_CPU)
        return err_set(err, ERR_INPUT,
                       "--transport nccl on the device 'cpu', expected a GPU's");
    if (!exec_nccl_built())
        return err_set(
            err, ERR_ABSENT,
            "--transport nccl, but this build of paro has no NCCL: make CUDA=1, with "
            "nccl.h");
    *out = COLL_NCCL;
    return 0;
}
