/* SPDX-License-Identifier: BSD-3-Clause */
/* Replaces cuDNN in a build without it: new fails, so the other functions are never called. */
#include "kern/kern_cudnn.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

int kern_cudnn_new(struct kern_cudnn **out, const struct kern_heads *s,
                   enum kern_cudnn_what what, struct err *err)
{
    return err_set(err, ERR_ABSENT, "this build is without cuDNN");
}

void kern_cudnn_free(struct kern_cudnn *p)
{
}

int64_t kern_cudnn_bytes(const struct kern_cudnn *p)
{
    return 0;
}

const char *kern_cudnn_text(const struct kern_cudnn *p)
{
    return "";
}

int kern_cudnn_forward(struct kern_cudnn *p, void *stream, void *out, float *lse,
                       const void *qkv, void *workspace, struct err *err)
{
    return err_set(err, ERR_ABSENT, "this build is without cuDNN");
}

int kern_cudnn_backward(struct kern_cudnn *p, void *stream, void *dqkv, const void *dout,
                        const void *out, const float *lse, const void *qkv, void *workspace,
                        struct err *err)
{
    return err_set(err, ERR_ABSENT, "this build is without cuDNN");
}
