/* SPDX-License-Identifier: BSD-3-Clause */
/* Replaces dev_cuda.c in a build without CUDA. */
#include "dev/dev_inside.h"

int device_open_cuda(struct device *d, int index, int local_rank, struct err *err)
{
    (void)d, (void)index, (void)local_rank;
    return err_set(err, ERR_ABSENT,
                   "device cuda: this build has no CUDA, expected one made by 'make CUDA=1'");
}
