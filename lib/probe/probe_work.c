/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lists the matrix products of a model's step: for each weight (out, in) of the decoder
 * (net/net_linear.c) y = x W^T, dx = dy W and dw += dy^T x, with R rows of tokens:
 *
 *                 out       in        in a step
 *     queries     q         hidden    layers            q = heads * head_dim
 *     keys, values kv       hidden    2 layers          kv = kv_heads * head_dim
 *     out         hidden    q         layers
 *     gate, up    ffn       hidden    2 layers
 *     down        hidden    ffn       layers
 *     head        vocab     hidden    1
 */
#include "probe/probe_work.h"

#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/tick.h"
#include "model/model.h"

enum {
    SEQ = 256,
    LINES = 6,
    WAYS = 3,       /* y, dx, dw */
    FILL = 1 << 20, /* numbers from which operands are filled repeatedly */
    /* CUDA queues about a thousand operations before a call blocks. */
    QUEUED_MOST = 1024
};

/*
 * Sizes that reach the full rate.
 *
 * On a processor three matrices of 384 by 384 fit a second-level cache, and oneDNN is at its
 * full rate.  Of larger products a part with this many rows or columns is timed: blocks of a
 * product are some hundreds wide, so its rate rises no further, and no product takes longer
 * than some tenths of a second.
 *
 * On a GPU launching a product costs the processor 2 or 3 us, and the GPU has gaps of 1 or 2
 * us, which is 0.2 % of a product of full_s.  Its multiprocessors, up to 150, have tiles of
 * some 128 by 256: a product of 4096 by 4096 has 512 of them, 4 waves of which the last may be
 * incomplete, one of 8192 by 8192 16 waves.  So a square grows until it takes full_s, to 8192
 * at most (1.4 ms at 773 TFLOP/s, an H200 in bf16); a slower GPU is full with fewer.  8192 by
 * 32768 makes 60 waves: a larger one has the same rate.
 */
static const double full_s = 1e-3;
static const struct bounds {
    int64_t least, most, rows, columns;
    int64_t elems; /* elements cycled through by an operand and by results: more than a cache
                      holds */
} bounds[] = {[DEVICE_CPU] = {384, 384, 1024, 2048, 4 << 20},
              [DEVICE_CUDA] = {256, 8192, 8192, 32768, 64 << 20}};

/* Waiting for a queue takes some 10 us: 1 % of the work queued at once. */
static const double queue_s = 1e-3;

int probe_settings_model(struct world *world, const char *model, int64_t seq,
                         int64_t micro_batch, struct probe_matrices *out, struct err *err)
{
    struct probe_matrices settings = {0};
    struct model m = {0};
    int rc = world->rank == 0 ? model_read(&m, model, err) : 0;

    if (world->rank == 0 && rc == 0 && !m.unit)
        rc = err_set(err, ERR_INPUT, "model '%s' has no matrices, expected a config.json",
                     model);
    if (world->rank == 0 && rc == 0 && seq > m.max_seq)
        rc = err_set(err, ERR_INPUT,
                     "--seq: %lld, expected at most %lld, the maximum of model '%s' (%s)",
                     (long long)seq, (long long)m.max_seq, model, model_max_seq_key(&m));
    if (rc == 0 && !seq)
        seq = SEQ < m.max_seq ? SEQ : m.max_seq;
    settings = (struct probe_matrices){.rows = seq * micro_batch,
                                       .hidden = m.hidden,
                                       .queries = m.heads * m.head_dim,
                                       .keys = m.kv_heads * m.head_dim,
                                       .ffn = m.ffn,
                                       .vocab = m.vocab,
                                       .layers = m.layers};
    model_release(&m);
    rc = world_agree(world, rc, err);
    rc = rc ? rc : world_bcast(world, &settings, sizeof settings, 0, err);
    if (rc == 0)
        *out = settings;
    return rc;
}

static int64_t at_most(int64_t v, int64_t most)
{
    return v < most ? v : most;
}

/* Lists shapes and counts of all products; returns their number.  edge: of a square one. */
static int list_products(const struct kern *k, const struct probe_settings *settings,
                         int64_t edge, struct kern_product_shape *shape,
                         struct probe_product *product)
{
    const struct bounds *most = &bounds[device_kind(settings->device)];
    const struct probe_matrices *a = &settings->matrices;
    double layers = (double)a->layers;
    const struct {
        int64_t out, in;
        double times;
    } line[LINES] = {
        {a->queries, a->hidden, layers}, {a->keys, a->hidden, 2 * layers},
        {a->hidden, a->queries, layers}, {a->ffn, a->hidden, 2 * layers},
        {a->hidden, a->ffn, layers},     {a->vocab, a->hidden, 1},
    };

    if (!a->rows) {
        double e = (double)edge;
        shape[0] = (struct kern_product_shape){'N',  'N',  edge, edge,           edge,  edge,
                                               edge, edge, 0,    settings->type, k->act};
        product[0] = (struct probe_product){.flops = 2 * e * e * e, .times = 1, .queued = 1};
        return 1;
    }
    for (int i = 0; i < LINES; i++) {
        int64_t R = at_most(a->rows, most->rows);
        int64_t out = at_most(line[i].out, most->columns);
        int64_t in = at_most(line[i].in, most->columns);
        double flops = 2.0 * (double)R * (double)out * (double)in;
        double whole = 2.0 * (double)a->rows * (double)line[i].out * (double)line[i].in;
        /* A product of rows, and both of its backward: y = x W^T, dx = dy W, dw += dy^T x. */
        const struct kern_product_shape ways[WAYS] = {
            {'N', 'T', R, out, in, in, in, out, 0, settings->type, k->act},
            {'N', 'N', R, in, out, out, in, in, 0, settings->type, k->act},
            {'T', 'N', out, in, R, out, in, in, 1, settings->type, DTYPE_F32}};
        for (int j = 0; j < WAYS; j++) {
            shape[i * WAYS + j] = ways[j];
            product[i * WAYS + j] = (struct probe_product){
                .flops = flops, .times = line[i].times * whole / flops, .queued = 1};
        }
    }
    return LINES * WAYS;
}

static void drop_products(struct probe_work *w)
{
    struct device *d = w->kern.device;

    for (int i = 0; i < w->products; i++)
        w->kern.op->product_free(&w->kern, w->product[i].run);
    w->products = 0;
    device_free(d, w->a);
    device_free(d, w->b);
    device_free(d, w->c);
    w->a = w->b = w->c = NULL;
}

static int make_products(struct probe_work *w, const struct probe_settings *settings,
                         int64_t edge, struct err *err)
{
    struct kern_product_shape shape[LINES * WAYS];
    struct device *d = settings->device;
    int64_t most = 0;
    void *c = NULL;

    w->products = list_products(&w->kern, settings, edge, shape, w->product);
    for (int i = 0; i < w->products; i++) {
        const struct kern_product_shape *s = &shape[i];
        int64_t a = s->m * s->k, b = s->k * s->n, ab = a > b ? a : b;
        most = ab > most ? ab : most;
        most = s->m * s->n > most ? s->m * s->n : most;
    }
    w->most = most;
    w->sets = 1;
    if (settings->matrices.rows && bounds[device_kind(d)].elems > most)
        w->sets = bounds[device_kind(d)].elems / most;
    if (device_alloc(d, most * dtype_bytes(w->type), "the matrices", &w->a, err) ||
        device_alloc(d, most * w->sets * dtype_bytes(w->type), "the matrices", &w->b, err) ||
        device_alloc(d, most * w->sets * (int64_t)sizeof(float), "the matrix product", &c, err))
        return -1;
    w->c = c;
    /* Various numbers: on a GPU the duration of a product can depend on how many bits
       change. */
    int64_t elems = w->most * w->sets;
    void *space = NULL;
    if (mem_data(FILL * (int64_t)sizeof(float), "random numbers", &space, err))
        return -1;
    float *number = space;
    for (int64_t i = 0; i < FILL; i++)
        number[i] = (float)(2 * rng_uniform(1, 0, (uint64_t)i) - 1);
    for (int64_t at = 0; at < elems; at += FILL)
        device_copy(w->queue, w->c + at, number,
                    at_most(elems - at, FILL) * (int64_t)sizeof(float));
    w->kern.op->convert(&w->kern, w->a, w->type, w->c, DTYPE_F32, w->most);
    w->kern.op->convert(&w->kern, w->b, w->type, w->c, DTYPE_F32, elems);
    int rc = device_sync(w->queue, err);
    mem_free(space);
    if (rc)
        return -1;
    for (int i = 0; i < w->products; i++)
        if (w->kern.op->product_new(&w->kern, &w->product[i].run, &shape[i], err))
            return -1;
    for (int i = 0; i < w->products; i++)
        probe_work_run(w, i, 1); /* excludes the one-time work of a first run */
    return device_sync(w->queue, err);
}

/* Returns the time of the square product when many follow each other. */
static double square_s(struct probe_work *w)
{
    for (;;) {
        int queued = w->product[0].queued;
        double start = tick_now_s();
        int times = probe_work_some(w, 0);
        double took = tick_now_s() - start;
        if (w->product[0].queued == queued)
            return took / times;
    }
}

int probe_work_open(struct probe_work *w, struct world *world,
                    const struct probe_settings *settings, struct err *err)
{
    const struct bounds *edges = &bounds[device_kind(settings->device)];
    int more = 1;

    *w = (struct probe_work){.product = mem_new(LINES * WAYS, sizeof *w->product),
                             .type = settings->type};
    kern_thread_init();
    int rc = device_queue_open(settings->device, &w->queue, err);
    rc = rc ? rc
            : kern_open(&w->kern, settings->device, w->queue, settings->type, settings->type,
                        err);
    rc = world_agree(world, rc, err);
    for (int64_t edge = edges->least; rc == 0 && more; edge *= 2) {
        drop_products(w);
        rc = world_agree(world, make_products(w, settings, edge, err), err);
        more = !settings->matrices.rows && edge < edges->most;
        if (rc == 0 && more) {
            more = square_s(w) < full_s;
            rc = world_bcast(world, &more, sizeof more, 0, err);
        }
    }
    if (rc)
        probe_work_close(w);
    return rc;
}

void probe_work_close(struct probe_work *w)
{
    if (w->kern.op)
        drop_products(w);
    kern_close(&w->kern);
    device_queue_close(w->queue);
    mem_free(w->product);
    *w = (struct probe_work){0};
}

void probe_work_run(struct probe_work *w, int product, int times)
{
    struct kern *k = &w->kern;
    struct err kept; /* set by the device */

    for (int i = 0; i < times; i++) {
        int64_t at = w->most * (w->set++ % w->sets);
        char *b = (char *)w->b + at * dtype_bytes(w->type);
        float *c = w->c + at;
        k->op->product(k, w->product[product].run, w->a, b, c, NULL, c);
    }
    (void)device_sync(w->queue, &kept);
}

int probe_work_some(struct probe_work *w, int product)
{
    struct probe_product *p = &w->product[product];
    int times = p->queued;
    double start = tick_now_s();

    probe_work_run(w, product, times);
    if (tick_now_s() - start < queue_s / 2 && times < QUEUED_MOST)
        p->queued *= 2;
    return times;
}

int probe_work_check(const struct probe_work *w, struct world *world, struct err *err)
{
    return world_agree(world, device_sync(w->queue, err), err);
}
