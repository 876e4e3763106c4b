/* SPDX-License-Identifier: BSD-3-Clause */
/* Replaces the kernels of a GPU in a build without CUDA. */
#include "kern/kern.h"

int kern_open_cuda(struct kern *out, struct err *err)
{
    (void)out;
    return err_set(err, ERR_ABSENT, "this build has no CUDA");
}
