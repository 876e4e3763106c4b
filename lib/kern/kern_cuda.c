/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Implements the table of a GPU.  Most entries are in kern_cuda*.cu, products in
 * kern_cuda_product.c, tokens in kern_cuda_tokens.c, attention in kern_cuda_heads.c.  Sums are
 * copied to pinned memory, each followed by an event of its own.
 */
#include <cuda_runtime_api.h>
#include <inttypes.h>

#include "base/mem.h"
#include "kern/kern_cuda.h"
#include "kern/kern_cuda_inside.h"
#include "kern/kern_kind.h"

/* lowest compute capability that kernels are compiled for: bf16 in tensor cores */
enum { CAPABLE = 80 };

enum { LOSS, SUMSQ }; /* indices in sums and host_sums, [KERN_KIND_SUMS] */

void kern_cuda_check(struct kern *k, const char *what)
{
    cudaError_t rc = cudaGetLastError();

    if (rc != cudaSuccess)
        device_fail(k->device, what, cudaGetErrorString(rc));
}

int kern_cuda_reserve(struct kern *k, int64_t bytes, struct err *err)
{
    struct kern_cuda *own = kern_cuda_of(k);
    void *more = NULL;

    if (bytes <= own->work_bytes)
        return 0;
    if (device_sync(k->queue, err) || /* the old one may be in use */
        device_alloc(k->device, bytes, "work of kernels", &more, err))
        return -1;
    device_free(k->device, own->work);
    k->bytes += bytes - own->work_bytes;
    own->work = more;
    own->work_bytes = bytes;
    return 0;
}

void *kern_cuda_work(struct kern *k, int64_t bytes)
{
    struct err err;

    if (kern_cuda_reserve(k, bytes, &err)) {
        device_fail(k->device, "partial sums", err.text);
        return NULL;
    }
    return kern_cuda_of(k)->work;
}

void *kern_cuda_stream(const struct kern *k)
{
    return device_stream(k->queue);
}

/* ---- sums that are fetched ---- */

static void cuda_cross_entropy(struct kern *k, void *logits, int64_t ld,
                               const struct kern_tokens *t, int64_t v, float scale)
{
    struct kern_cuda *own = kern_cuda_of(k);

    kern_cuda_cross_entropy(k, logits, ld, t, v, scale, &own->sums[LOSS]);
    device_copy(k->queue, &own->host_sums[LOSS], &own->sums[LOSS], sizeof(double));
    device_record(k->queue, own->loss_ready);
}

static int cuda_loss(struct kern *k, double *out, struct err *err)
{
    const struct kern_cuda *own = kern_cuda_of(k);

    if (device_event_sync(own->loss_ready, err))
        return -1;
    *out = own->host_sums[LOSS];
    return 0;
}

static void cuda_sumsq(struct kern *k, const void *x, enum dtype type, int64_t n)
{
    kern_cuda_sumsq(k, &kern_cuda_of(k)->sums[SUMSQ], x, type, n);
}

static int cuda_sumsq_take(struct kern *k, double *sum, struct err *err)
{
    struct kern_cuda *own = kern_cuda_of(k);

    device_copy(k->queue, &own->host_sums[SUMSQ], &own->sums[SUMSQ], sizeof(double));
    device_record(k->queue, own->sumsq_ready);
    device_zero(k->queue, &own->sums[SUMSQ], sizeof(double));
    if (device_event_sync(own->sumsq_ready, err))
        return -1;
    *sum = own->host_sums[SUMSQ];
    return 0;
}

/* ---- the table ---- */

static void close_cuda(struct kern *k)
{
    struct kern_cuda *own = kern_cuda_of(k);
    struct err err;

    device_sync(k->queue, &err); /* pending work may use its memory */
    kern_cuda_tokens_release(k);
    kern_cuda_heads_release(k);
    if (own->lt)
        cublasLtDestroy(own->lt);
    device_event_close(own->loss_ready);
    device_event_close(own->sumsq_ready);
    device_host_free(k->device, own->host_sums);
    device_free(k->device, own->sums);
    device_free(k->device, own->work);
    mem_free(own);
}

static const struct kern_ops cuda_ops = {
    .close = close_cuda,
    .reserve = kern_cuda_reserve,
    .tokens_bytes = kern_kind_tokens_bytes,
    .tokens = kern_cuda_tokens,
    .embed = kern_cuda_embed,
    .embed_backward = kern_cuda_embed_backward,
    .positions = kern_cuda_positions,
    .positions_backward = kern_cuda_positions_backward,
    .norm = kern_cuda_norm,
    .norm_backward = kern_cuda_norm_backward,
    .bias = kern_cuda_bias,
    .bias_backward = kern_cuda_bias_backward,
    .rope = kern_cuda_rope,
    .attention_can = kern_cuda_heads_can,
    .attention_by = kern_cuda_heads_by,
    .attention_bytes = kern_cuda_heads_bytes,
    .attention = kern_cuda_heads,
    .attention_backward = kern_cuda_heads_backward,
    .gated = kern_cuda_gated,
    .gated_backward = kern_cuda_gated_backward,
    .gelu = kern_cuda_gelu,
    .gelu_backward = kern_cuda_gelu_backward,
    .cross_entropy = cuda_cross_entropy,
    .loss = cuda_loss,
    .add = kern_cuda_add,
    .scale_act = kern_cuda_scale,
    .product_new = kern_cuda_product_new,
    .product = kern_cuda_product,
    .product_free = kern_cuda_product_free,
    .convert = kern_cuda_convert,
    .round = kern_cuda_round,
    .accumulate = kern_cuda_accumulate,
    .abs = kern_cuda_abs,
    .sumsq = cuda_sumsq,
    .sumsq_take = cuda_sumsq_take,
    .adamw = kern_cuda_adamw,
    .outer = kern_cuda_outer,
    .moment_get = kern_cuda_moment_get,
    .moment_put = kern_cuda_moment_put,
};

int kern_open_cuda(struct kern *out, struct err *err)
{
    struct kern_cuda *own = NULL;
    int64_t bytes = kern_kind_own_bytes(DEVICE_CUDA);
    int major = 0, minor = 0, index = device_index(out->device);

    /* Checks first that the table has kernels for the types, and that the GPU can run them. */
    for (int i = 0; i < 2; i++) {
        enum dtype type = i ? out->weight : out->act;
        if (type != DTYPE_F32 && type != DTYPE_BF16)
            return err_set(err, ERR_ABSENT,
                           "no kernels on a GPU compute %s, expected f32 or "
                           "bf16",
                           dtype_name(type));
    }
    device_stream(out->queue);
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index);
    if (major * 10 + minor < CAPABLE)
        return err_set(err, ERR_ABSENT,
                       "device cuda:%d (%s) has compute capability %d.%d, expected %d.%d or "
                       "newer",
                       index, device_name(out->device), major, minor, CAPABLE / 10,
                       CAPABLE % 10);
    out->own = own = mem_new(1, sizeof *own);
    cublasStatus_t bad = cublasLtCreate(&own->lt);
    if (bad) {
        err_set(err, ERR_DEVICE, "cannot open cuBLASLt on cuda:%d: %s", index,
                cublasLtGetStatusString(bad));
        goto fail;
    }
    /* Size of cuBLASLt's workspace. */
    own->product_bytes = major >= 9 ? KERN_KIND_PRODUCT_BYTES : KERN_KIND_OLDER_BYTES;
    if (device_alloc(out->device, bytes, "sums", (void **)&own->sums, err) ||
        device_host_alloc(out->device, bytes, "sums", (void **)&own->host_sums, err) ||
        device_event_open(out->device, &own->loss_ready, err) ||
        device_event_open(out->device, &own->sumsq_ready, err))
        goto fail;
    out->bytes = bytes;
    out->op = &cuda_ops;
    return 0;
fail:
    close_cuda(out);
    out->own = NULL;
    return -1;
}
