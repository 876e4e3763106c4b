/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows which matrix products a step of a model is made of: for each weight (out, in) of the
 * decoder (net/net_linear.c) y = x W^T, dx = dy W and dw += dy^T x, with R rows of tokens:
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

#include "base/mem.h"
#include "kern/kern_cpu.h"
#include "model/model.h"

enum {
    EDGE = 384, /* three such matrices fit a second-level cache; oneDNN is at its full rate */
    SEQ = 256,
    /*
     * Larger products are timed as the part of them that has so many rows or columns: blocks of
     * a product are some hundreds wide, so that its rate rises no further, and no product takes
     * longer than some tenths of a second.
     */
    ROWS_MOST = 1024,
    COLUMNS_MOST = 2048,
    LINES = 6,
    WAYS = 3 /* y, dx, dw */
};

int probe_ask_model(struct world *world, const char *model, int64_t seq, int64_t micro_batch,
                    struct probe_ask *out, struct err *err)
{
    struct probe_ask ask = {0};
    struct model m = {0};
    int rc = world->rank == 0 ? model_read(&m, model, err) : 0;

    if (world->rank == 0 && rc == 0 && !m.unit)
        rc = err_set(err, ERR_INPUT, "model '%s' has no matrices, expected a config.json",
                     model);
    if (world->rank == 0 && rc == 0 && seq > m.max_seq)
        rc = err_set(err, ERR_INPUT,
                     "--seq: %lld, expected at most %lld, the maximum of model '%s'",
                     (long long)seq, (long long)m.max_seq, model);
    if (rc == 0 && !seq)
        seq = SEQ < m.max_seq ? SEQ : m.max_seq;
    ask = (struct probe_ask){.rows = seq * micro_batch,
                             .hidden = m.hidden,
                             .queries = m.heads * m.head_dim,
                             .keys = m.kv_heads * m.head_dim,
                             .ffn = m.ffn,
                             .vocab = m.vocab,
                             .layers = m.layers};
    model_release(&m);
    rc = world_agree(world, rc, err);
    rc = rc ? rc : world_bcast(world, &ask, sizeof ask, 0, err);
    if (rc == 0)
        *out = ask;
    return rc;
}

struct line {
    int64_t out, in;
    double times;
};

static int64_t at_most(int64_t v, int64_t most)
{
    return v < most ? v : most;
}

/* Shapes and counts of all products; returns how many. */
static int list_products(const struct probe_ask *a, struct kern_product_shape *shape,
                         struct probe_product *product)
{
    double layers = (double)a->layers;
    const struct line line[LINES] = {
        {a->queries, a->hidden, layers}, {a->keys, a->hidden, 2 * layers},
        {a->hidden, a->queries, layers}, {a->ffn, a->hidden, 2 * layers},
        {a->hidden, a->ffn, layers},     {a->vocab, a->hidden, 1},
    };
    int n = 0;

    if (!a->rows) {
        shape[0] = (struct kern_product_shape){'N',  'N',  EDGE, EDGE,      EDGE,     EDGE,
                                               EDGE, EDGE, 0,    DTYPE_F32, DTYPE_F32};
        product[0] = (struct probe_product){.flops = 2.0 * EDGE * EDGE * EDGE, .times = 1};
        return 1;
    }
    for (int i = 0; i < LINES; i++) {
        const struct line *l = &line[i];
        int64_t R = at_most(a->rows, ROWS_MOST);
        int64_t out = at_most(l->out, COLUMNS_MOST), in = at_most(l->in, COLUMNS_MOST);
        double flops = 2.0 * (double)R * (double)out * (double)in;
        double whole = 2.0 * (double)a->rows * (double)l->out * (double)l->in;
        const struct kern_product_shape way[WAYS] = {
            {'N', 'T', R, out, in, in, in, out, 0, DTYPE_F32, DTYPE_F32},
            {'N', 'N', R, in, out, out, in, in, 0, DTYPE_F32, DTYPE_F32},
            {'T', 'N', out, in, R, out, in, in, 1, DTYPE_F32, DTYPE_F32},
        };
        for (int k = 0; k < WAYS; k++, n++) {
            shape[n] = way[k];
            product[n] =
                (struct probe_product){.flops = flops, .times = l->times * whole / flops};
        }
    }
    return n;
}

int probe_work_open(struct probe_work *w, const struct probe_ask *ask, struct err *err)
{
    struct kern_product_shape shape[LINES * WAYS];
    int64_t most = 0;
    void *room = NULL;

    *w = (struct probe_work){.product = mem_new(LINES * WAYS, sizeof *w->product)};
    w->products = list_products(ask, shape, w->product);
    for (int i = 0; i < w->products; i++) {
        const struct kern_product_shape *s = &shape[i];
        int64_t a = s->m * s->k, b = s->k * s->n, c = s->m * s->n, ab = a > b ? a : b;
        most = ab > most ? ab : most;
        most = c > most ? c : most;
    }
    if (mem_data(3 * most * (int64_t)sizeof(float), "matrices to multiply", &room, err))
        goto fail;
    w->a = room;
    w->b = w->a + most;
    w->c = w->b + most;
    for (int64_t i = 0; i < 2 * most; i++)
        w->a[i] = (float)(i % 7) - 3;
    kern_thread_init();
    for (int i = 0; i < w->products; i++)
        if (kern_product_new(&w->product[i].run, &shape[i], err))
            goto fail;
    for (int i = 0; i < w->products; i++)
        probe_work_run(w, i); /* what a first run does beside computing is done */
    return 0;
fail:
    probe_work_close(w);
    return -1;
}

void probe_work_close(struct probe_work *w)
{
    for (int i = 0; i < w->products; i++)
        kern_product_free(w->product[i].run);
    mem_free(w->product);
    mem_free(w->a);
    *w = (struct probe_work){0};
}

void probe_work_run(const struct probe_work *w, int product)
{
    kern_product_run(w->product[product].run, w->a, w->b, w->c, NULL, w->c);
}
