/* SPDX-License-Identifier: BSD-3-Clause */
/* Replaces NCCL in a build without it: open fails, so the other functions are never called. */
#include "exec/exec_nccl.h"
#include "exec/exec_nccl_native.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

static int absent(struct err *err)
{
    return err_set(err, ERR_ABSENT, "this build of paro has no NCCL: make CUDA=1, with nccl.h");
}

int exec_nccl_open(struct exec_nccl **out, const struct exec_nccl_options *o, struct err *err)
{
    return absent(err);
}

int exec_nccl_open_world(struct exec_nccl **out, struct world *world, struct device *device,
                         int64_t bytes, struct err *err)
{
    return absent(err);
}

void exec_nccl_close(struct exec_nccl *x)
{
}

void exec_nccl_abort(struct exec_nccl *x)
{
}

void *exec_nccl_take(struct exec_nccl *x, int64_t bytes)
{
    return NULL;
}

int64_t exec_nccl_bytes(const struct exec_nccl *x)
{
    return 0;
}

int exec_nccl_built(void)
{
    return 0;
}

struct device_queue *exec_nccl_door(struct exec_nccl *x)
{
    return NULL;
}

int exec_nccl_prepare(struct exec_nccl *x, struct exec_rows *rows,
                      struct exec_nccl_handle **out, struct err *err)
{
    exec_rows_release(rows);
    return absent(err);
}

void exec_nccl_free(struct exec_nccl_handle *h)
{
}

void exec_nccl_set(struct exec_nccl_handle *h, const void *in, void *out,
                   const struct device_event *after, struct device_event *then)
{
}

int exec_nccl_start(void *handle, struct err *err)
{
    return absent(err);
}

enum stream_state exec_nccl_poll(void *handle, struct err *err)
{
    absent(err);
    return STREAM_FAILED;
}

int exec_nccl_issue(struct exec_nccl_handle *h, struct err *err)
{
    return absent(err);
}

int64_t exec_nccl_arrived(const struct exec_nccl_handle *h)
{
    return 0;
}

int exec_nccl_native_open(struct exec_nccl_native **out, struct exec_nccl *x,
                          const struct exec_native_spec *spec, const struct groups *groups,
                          struct err *err)
{
    return absent(err);
}

void exec_nccl_native_close(struct exec_nccl_native *n)
{
}

int exec_nccl_native_run(struct exec_nccl_native *n, const void *in, void *out, struct err *err)
{
    return absent(err);
}
