/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of a GPU: each entry a launch in the order of the queue, whose failure is the
 * device's.  Kernels are kern_cuda*.cu, products kern_cuda_product.c, tokens
 * kern_cuda_tokens.c, attention kern_cuda_heads.c; sums come back to pinned memory, behind an
 * event of their own.
 */
#include <cuda_runtime_api.h>
#include <inttypes.h>

#include "base/mem.h"
#include "kern/kern_cuda.h"
#include "kern/kern_cuda_inside.h"
#include "kern/kern_kind.h"

enum { CAPABLE = 80 }; /* what kernels are compiled for at least: bf16 in tensor cores */

enum { LOSS, SUMSQ }; /* places of sums and host_sums, of KERN_KIND_SUMS */

void kern_cuda_fail(struct kern *k, const char *what, const char *words)
{
    device_fail(k->device, what, words);
}

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
    if (device_sync(k->queue, err) || /* what there is may be in use */
        device_alloc(k->device, bytes, "work of kernels", &more, err))
        return -1;
    device_free(k->device, own->work);
    k->bytes += bytes - own->work_bytes;
    own->work = more;
    own->work_bytes = bytes;
    return 0;
}

/* At least so many bytes; NULL, and the device has failed, where there are not as many. */
static void *work_of(struct kern *k, int64_t bytes)
{
    struct err err;

    if (kern_cuda_reserve(k, bytes, &err)) {
        device_fail(k->device, "partial sums", err.text);
        return NULL;
    }
    return kern_cuda_of(k)->work;
}

static void *stream_of(const struct kern *k)
{
    return device_stream(k->queue);
}

/* ---- tokens ---- */

static void embed(struct kern *k, void *y, const void *table, const struct kern_tokens *t,
                  int64_t vocab, int64_t c)
{
    kern_cuda_embed(stream_of(k), k->act, k->weight, y, table, t->id, t->n, vocab, c);
    kern_cuda_check(k, "embed");
}

static void embed_backward(struct kern *k, float *dtable, const void *dy,
                           const struct kern_tokens *t, int64_t c)
{
    kern_cuda_embed_backward(stream_of(k), k->act, dtable, dy, t->id, t->row, t->run, t->runs,
                             c);
    kern_cuda_check(k, "embed_backward");
}

static void positions(struct kern *k, void *y, const void *table, int64_t batch, int64_t seq,
                      int64_t c)
{
    kern_cuda_positions(stream_of(k), k->act, k->weight, y, table, batch, seq, c);
    kern_cuda_check(k, "positions");
}

static void positions_backward(struct kern *k, float *dtable, const void *dy, int64_t batch,
                               int64_t seq, int64_t c)
{
    kern_cuda_positions_backward(stream_of(k), k->act, dtable, dy, batch, seq, c);
    kern_cuda_check(k, "positions_backward");
}

/* ---- rows and elements ---- */

static void norm(struct kern *k, void *y, float *mean, float *rstd, const void *x,
                 const void *w, const void *b, int64_t n, int64_t c, float eps, int again)
{
    kern_cuda_norm(stream_of(k), k->act, k->weight, y, mean, rstd, x, w, b, n, c, eps, again);
    kern_cuda_check(k, "norm");
}

static void norm_backward(struct kern *k, void *dx, float *dw, float *db, const void *dy,
                          const float *mean, const float *rstd, const void *x, const void *w,
                          int64_t n, int64_t c)
{
    void *work = work_of(k, kern_cuda_norm_backward_bytes(k->act, n, c));

    if (!work)
        return;
    kern_cuda_norm_backward(stream_of(k), k->act, k->weight, dx, dw, db, dy, mean, rstd, x, w,
                            n, c, work);
    kern_cuda_check(k, "norm_backward");
}

static void bias(struct kern *k, void *y, int64_t ld, const void *b, int64_t n, int64_t c)
{
    kern_cuda_bias(stream_of(k), k->act, k->weight, y, ld, b, n, c);
    kern_cuda_check(k, "bias");
}

static void bias_backward(struct kern *k, float *db, const void *dy, int64_t ld, int64_t n,
                          int64_t c)
{
    void *work = work_of(k, kern_cuda_bias_backward_bytes(n, c));

    if (!work)
        return;
    kern_cuda_bias_backward(stream_of(k), k->act, db, dy, ld, n, c, work);
    kern_cuda_check(k, "bias_backward");
}

static void rope(struct kern *k, void *x, int64_t ld, const float *table, int64_t batch,
                 int64_t seq, int64_t heads, int64_t head_dim, int back)
{
    kern_cuda_rope(stream_of(k), k->act, x, ld, table, batch, seq, heads, head_dim, back);
    kern_cuda_check(k, "rope");
}

static void swiglu(struct kern *k, void *y, const void *gate, const void *up, int64_t n,
                   int64_t c, int64_t ld)
{
    kern_cuda_swiglu(stream_of(k), k->act, y, gate, up, n, c, ld);
    kern_cuda_check(k, "swiglu");
}

static void swiglu_backward(struct kern *k, void *dy, void *gate, void *up, int64_t n,
                            int64_t c, int64_t ld)
{
    kern_cuda_swiglu_backward(stream_of(k), k->act, dy, gate, up, n, c, ld);
    kern_cuda_check(k, "swiglu_backward");
}

static void gelu(struct kern *k, void *y, const void *x, int64_t n, int tanh)
{
    kern_cuda_gelu(stream_of(k), k->act, y, x, n, tanh);
    kern_cuda_check(k, "gelu");
}

static void gelu_backward(struct kern *k, void *dy, void *x, int64_t n, int tanh)
{
    kern_cuda_gelu_backward(stream_of(k), k->act, dy, x, n, tanh);
    kern_cuda_check(k, "gelu_backward");
}

/* ---- sums that are fetched ---- */

static void cross_entropy(struct kern *k, void *logits, int64_t ld, const struct kern_tokens *t,
                          int64_t v, float scale)
{
    struct kern_cuda *own = kern_cuda_of(k);
    void *work = work_of(k, kern_cuda_cross_entropy_bytes(t->n));

    if (!work)
        return;
    kern_cuda_cross_entropy(stream_of(k), k->act, logits, ld, t->target, t->n, v, scale,
                            &own->sums[LOSS], work);
    kern_cuda_check(k, "cross_entropy");
    device_copy(k->queue, &own->host_sums[LOSS], &own->sums[LOSS], sizeof(double));
    device_record(k->queue, own->loss_ready);
}

static int loss(struct kern *k, double *out, struct err *err)
{
    const struct kern_cuda *own = kern_cuda_of(k);

    if (device_event_sync(own->loss_ready, err))
        return -1;
    *out = own->host_sums[LOSS];
    return 0;
}

static void sumsq(struct kern *k, const void *x, enum dtype type, int64_t n)
{
    void *work = work_of(k, kern_cuda_sumsq_bytes(n));

    if (!work)
        return;
    kern_cuda_sumsq(stream_of(k), &kern_cuda_of(k)->sums[SUMSQ], x, type, n, work);
    kern_cuda_check(k, "sumsq");
}

static int sumsq_take(struct kern *k, double *sum, struct err *err)
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

/* ---- vectors ---- */

static void add(struct kern *k, void *y, const void *x, int64_t n)
{
    kern_cuda_add(stream_of(k), k->act, y, x, n);
    kern_cuda_check(k, "add");
}

static void scale_act(struct kern *k, void *x, float by, int64_t n)
{
    kern_cuda_scale(stream_of(k), k->act, x, by, n);
    kern_cuda_check(k, "scale");
}

static void convert(struct kern *k, void *to, enum dtype to_type, const void *from,
                    enum dtype from_type, int64_t n)
{
    kern_cuda_convert(stream_of(k), to, to_type, from, from_type, n);
    kern_cuda_check(k, "convert");
}

static void round_to(struct kern *k, void *to, enum dtype type, const float *x, enum dtype seen,
                     int64_t n)
{
    kern_cuda_round(stream_of(k), to, type, x, seen, n);
    kern_cuda_check(k, "round");
}

static void accumulate(struct kern *k, void *acc, enum dtype acc_type, const void *x,
                       enum dtype type, int64_t n)
{
    kern_cuda_accumulate(stream_of(k), acc, acc_type, x, type, n);
    kern_cuda_check(k, "accumulate");
}

static void abs_of(struct kern *k, float *x, int64_t n)
{
    kern_cuda_abs(stream_of(k), x, n);
    kern_cuda_check(k, "abs");
}

static void adamw(struct kern *k, float *w, float *m, float *v, const void *g, enum dtype type,
                  int64_t n, const struct kern_optim *o)
{
    kern_cuda_adamw(stream_of(k), w, m, v, g, type, n, o->scale, o->lr, o->beta1, o->beta2,
                    o->eps, o->decay, o->step);
    kern_cuda_check(k, "adamw");
}

/* ---- the table ---- */

static void close_cuda(struct kern *k)
{
    struct kern_cuda *own = kern_cuda_of(k);
    struct err err;

    device_sync(k->queue, &err); /* what it holds may be in use */
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
    .embed = embed,
    .embed_backward = embed_backward,
    .positions = positions,
    .positions_backward = positions_backward,
    .norm = norm,
    .norm_backward = norm_backward,
    .bias = bias,
    .bias_backward = bias_backward,
    .rope = rope,
    .attention_can = kern_cuda_heads_can,
    .attention_by = kern_cuda_heads_by,
    .attention_bytes = kern_cuda_heads_bytes,
    .attention = kern_cuda_heads,
    .attention_backward = kern_cuda_heads_backward,
    .swiglu = swiglu,
    .swiglu_backward = swiglu_backward,
    .gelu = gelu,
    .gelu_backward = gelu_backward,
    .cross_entropy = cross_entropy,
    .loss = loss,
    .add = add,
    .scale_act = scale_act,
    .product_new = kern_cuda_product_new,
    .product = kern_cuda_product,
    .product_free = kern_cuda_product_free,
    .convert = convert,
    .round = round_to,
    .accumulate = accumulate,
    .abs = abs_of,
    .sumsq = sumsq,
    .sumsq_take = sumsq_take,
    .adamw = adamw,
};

/*
 * Before anything is asked of it: types that it has kernels for, a GPU that can run them.
 * *product_bytes: what cuBLASLt's work is to be.
 */
static int check_can(const struct kern *k, int64_t *product_bytes, struct err *err)
{
    int major = 0, minor = 0, index = device_index(k->device);

    for (int i = 0; i < 2; i++) {
        enum dtype type = i ? k->weight : k->act;
        if (type != DTYPE_F32 && type != DTYPE_BF16)
            return err_set(err, ERR_ABSENT,
                           "no kernels on a GPU compute %s, expected f32 or "
                           "bf16",
                           dtype_name(type));
    }
    device_stream(k->queue);
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index);
    if (major * 10 + minor < CAPABLE)
        return err_set(err, ERR_ABSENT,
                       "device cuda:%d (%s) has compute capability %d.%d, expected %d.%d or "
                       "newer",
                       index, device_name(k->device), major, minor, CAPABLE / 10, CAPABLE % 10);
    *product_bytes = major >= 9 ? KERN_KIND_PRODUCT_BYTES : KERN_KIND_OLDER_BYTES;
    return 0;
}

int kern_open_cuda(struct kern *out, struct err *err)
{
    struct kern_cuda *own = NULL;
    int64_t bytes = kern_kind_own_bytes(DEVICE_CUDA), product_bytes = 0;

    if (check_can(out, &product_bytes, err))
        return -1;
    out->own = own = mem_new(1, sizeof *own);
    cublasStatus_t bad = cublasLtCreate(&own->lt);
    if (bad) {
        err_set(err, ERR_DEVICE, "cannot open cuBLASLt on cuda:%d: %s",
                device_index(out->device), cublasLtGetStatusString(bad));
        goto fail;
    }
    own->product_bytes = product_bytes;
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
