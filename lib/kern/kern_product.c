/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prepares and runs products over oneDNN: its matmul primitive, which takes milliseconds to
 * make and nothing to start, or its sgemm.
 */
#include "kern/kern_product.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "kern/kern_cpu.h"
#include "kern/kern_onednn.h"

struct kern_product {
    struct kern_product_shape shape;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive; /* NULL: sgemm */
    dnnl_memory_t a, b, c;
};

/* A handle to one operand, whose address is set at each run. */
static dnnl_status_t operand(dnnl_memory_t *out, const struct kern_product *p,
                             const_dnnl_primitive_desc_t desc, dnnl_query_t what)
{
    return dnnl_memory_create(out, dnnl_primitive_desc_query_md(desc, what, 0), p->engine,
                              DNNL_MEMORY_NONE);
}

static int product_prepare(struct kern_product *p)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t sum = NULL;
    dnnl_primitive_desc_t desc = NULL;
    int bad = dnnl_engine_create(&p->engine, dnnl_cpu, 0) ||
              dnnl_stream_create(&p->stream, p->engine, dnnl_stream_default_flags) ||
              dnnl_primitive_attr_create(&attr) || dnnl_post_ops_create(&sum) ||
              (p->shape.add && kern_onednn_append_sum(sum)) ||
              dnnl_primitive_attr_set_post_ops(attr, sum) ||
              kern_onednn_matmul(&desc, &p->shape, p->engine, attr) ||
              dnnl_primitive_create(&p->primitive, desc) ||
              operand(&p->a, p, desc, dnnl_query_src_md) ||
              operand(&p->b, p, desc, dnnl_query_weights_md) ||
              operand(&p->c, p, desc, dnnl_query_dst_md);

    if (desc)
        dnnl_primitive_desc_destroy(desc);
    if (sum)
        dnnl_post_ops_destroy(sum);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    return bad;
}

/*
 * f32, GFLOP/s of one core on the shapes of llama-10m (Zen 5), primitive against sgemm: 'N' 'T'
 * 216 against 195 with 256 rows, equal with 1024; other ops 211 against 210 and, if rows lie a
 * multiple of 1 KiB apart, as low as 161 against 199.
 */
static int by_primitive(const struct kern_product_shape *s)
{
    return s->type == DTYPE_BF16 || (s->ta == 'N' && s->tb == 'T');
}

int kern_product_new(struct kern_product **out, const struct kern_product_shape *shape,
                     struct err *err)
{
    struct kern_product *p = mem_new(1, sizeof *p);

    assert(shape->type == DTYPE_F32 || shape->type == DTYPE_BF16);
    assert(shape->out_type == DTYPE_F32);
    /* the primitive is made for the number of threads of the calling thread */
    kern_thread_init();
    p->shape = *shape;
    if (by_primitive(shape) && product_prepare(p)) {
        kern_product_free(p);
        return err_set(err, ERR_ABSENT,
                       "no product of (%" PRId64 ",%" PRId64 ") and (%" PRId64 ",%" PRId64
                       ") of %s on this processor",
                       shape->m, shape->k, shape->k, shape->n, dtype_name(shape->type));
    }
    *out = p;
    return 0;
}

void kern_product_free(struct kern_product *p)
{
    if (!p)
        return;
    dnnl_memory_t memory[] = {p->a, p->b, p->c};
    for (int i = 0; i < 3; i++)
        if (memory[i])
            dnnl_memory_destroy(memory[i]);
    if (p->primitive)
        dnnl_primitive_destroy(p->primitive);
    if (p->stream)
        dnnl_stream_destroy(p->stream);
    if (p->engine)
        dnnl_engine_destroy(p->engine);
    mem_free(p);
}

static void by_primitive_run(const struct kern_product *p, const void *a, const void *b,
                             float *c)
{
    dnnl_exec_arg_t args[] = {
        {DNNL_ARG_SRC, p->a}, {DNNL_ARG_WEIGHTS, p->b}, {DNNL_ARG_DST, p->c}};
    /* oneDNN's handles are not const, but a and b are only read. */
    int bad = dnnl_memory_set_data_handle(p->a, (void *)(uintptr_t)a) ||
              dnnl_memory_set_data_handle(p->b, (void *)(uintptr_t)b) ||
              dnnl_memory_set_data_handle(p->c, c) ||
              dnnl_primitive_execute(p->primitive, p->stream, 3, args) ||
              dnnl_stream_wait(p->stream);

    assert(!bad);
    (void)bad;
}

void kern_product_run(const struct kern_product *p, const void *a, const void *b,
                      const float *from, const float *bias, float *c)
{
    const struct kern_product_shape *s = &p->shape;
    int64_t rows = s->ldc == s->n ? 1 : s->m, columns = s->ldc == s->n ? s->m * s->n : s->n;

    assert(!s->add || from);
    for (int64_t i = 0; s->add && from != c && i < rows; i++)
        memcpy(c + i * s->ldc, from + i * s->ldc, (size_t)columns * sizeof(float));
    if (p->primitive)
        by_primitive_run(p, a, b, c);
    else
        kern_gemm(s->ta, s->tb, s->m, s->n, s->k, 1, a, s->lda, b, s->ldb, s->add ? 1 : 0, c,
                  s->ldc);
    if (bias)
        kern_bias(c, s->ldc, bias, s->m, s->n);
}
