/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Computes the sizes and addresses of the network's arrays.  A plan for a device that is absent
 * here counts the same arrays that are placed there.  Runs no kernel.
 */
#include "net/net_parts.h"

#include <assert.h>

#include "kern/kern_kind.h"
#include "kern/kern_sparse.h"

enum { PAD = 32 }; /* a cache line */

/* Distance of rows of an operand (of a weight) in products. */
int64_t net_operand_ld(const struct net *net, int64_t columns)
{
    return net->options.kern->act == net->options.compute ? columns : columns + PAD;
}

int64_t net_weight_ld(const struct net *net, int64_t columns)
{
    const struct kern *k = net->options.kern;
    int padded = k->weight != net->options.compute && k->kind == DEVICE_CPU;

    return padded ? columns + PAD : columns;
}

int64_t net_act_bytes(const struct net *net, int64_t n)
{
    return n * dtype_bytes(net->options.kern->act);
}

int64_t net_rows(const struct net *net, enum net_stage_name stage)
{
    return stage == NET_HEAD && net->options.forward_only ? net->options.batch : net->rows;
}

/* Columns of the weight as it is stored. */
int64_t net_stored(const struct net *net, const struct net_line *l)
{
    return l->transposed ? l->out : net->buffers->shape.stage[l->stage].in;
}

void net_lay_out(struct net *net, const struct model *m, const struct net_options *o)
{
    struct net_buffers *n = mem_new(1, sizeof *n);
    int rows = o->window ? o->window : o->seq;

    assert(o->kern->act == o->compute || o->kern->act == DTYPE_F32);
    n->shape.at = mem_new((size_t)m->layers + 1, sizeof *n->shape.at);
    int together = o->together > 1 ? o->together : 1;
    n->micro = mem_new((size_t)together, sizeof *n->micro);
    n->kept = mem_new((size_t)(together * m->layers), sizeof *n->kept);
    for (int i = 0; i < together; i++) {
        n->micro[i].kept = n->kept + i * m->layers;
        if (o->begins && together > 1)
            n->micro[i].begins = mem_new((size_t)o->batch * (size_t)o->seq, sizeof(int32_t));
    }
    n->heads = (struct kern_heads){o->batch,    o->seq,      m->heads,
                                   m->kv_heads, m->head_dim, o->seq - rows};
    /* Lines that are rounded are not joined: that would need a buffer as large as all of
       them. */
    net_shape_read(&n->shape, m, o->kern->weight == o->compute, o->kern->row_elems);
    *net = (struct net){
        .model = m, .options = *o, .rows = (int64_t)o->batch * rows, .scale = 1, .buffers = n};
}

int net_together(const struct net *net)
{
    return net->options.together > 1 ? net->options.together : 1;
}

void net_release_arrays(struct net *net)
{
    for (int i = 0; i < net_together(net); i++)
        mem_free(net->buffers->micro[i].begins);
    MEM_FREE(net->buffers->shape.at, net->buffers->micro[0].kept, net->buffers->micro,
             net->buffers);
    *net = (struct net){0};
}

/* An array (rows, columns) of activations; of f32. */
static void *place_take(const struct net *net, struct arena *arena, int64_t rows,
                        int64_t columns)
{
    return arena_take(arena, net_act_bytes(net, rows * columns));
}

static float *take_f32(struct arena *arena, int64_t n)
{
    return arena_take(arena, n * (int64_t)sizeof(float));
}

static struct net_norm_kept take_norm(const struct net *net, struct arena *arena, int64_t rows)
{
    return (struct net_norm_kept){
        .mean = net->model->norm == MODEL_NORM_LAYER ? take_f32(arena, rows) : NULL,
        .rstd = take_f32(arena, rows),
    };
}

static void *take_qkv(const struct net *net, struct arena *arena)
{
    return place_take(net, arena, (int64_t)net->options.batch * net->options.seq,
                      net->buffers->shape.stage[NET_QKV].ld);
}

/* Takes all arrays but x. */
static struct net_layer_kept take_layer(const struct net *net, struct arena *arena)
{
    const struct model *m = net->model;
    int64_t R = net->rows, HD = m->heads * m->head_dim;
    struct net_layer_kept k = {
        .x_mid = place_take(net, arena, R, m->hidden),
        .norm = {take_norm(net, arena, R), take_norm(net, arena, R)},
        .qkv = take_qkv(net, arena),
        .att = place_take(net, arena, R, HD),
        .lse = take_f32(arena, R * m->heads),
        .ffn = place_take(net, arena, R, net->buffers->shape.stage[NET_FFN].ld),
    };

    for (int which = NET_Q; which < NET_NORMS; which++) {
        int64_t rows = which == NET_Q ? R * m->heads : which == NET_K ? R * m->kv_heads : R;

        if (net->buffers->shape.at[0].norm_w[which] < 0)
            continue;
        k.norm[which] = take_norm(net, arena, rows);
        k.raw[which] = place_take(net, arena, rows, which <= NET_K ? m->head_dim : m->hidden);
    }
    return k;
}

void net_use(struct net *net, int micro)
{
    struct net_buffers *n = net->buffers;
    const struct net_micro *own = &n->micro[micro];

    assert(micro >= 0 && micro < net_together(net));
    n->using = micro;
    n->kept = own->kept;
    n->tokens = own->tokens;
    n->tokens_space = own->tokens_space;
    n->x_last = own->x_last;
    n->dx = own->dx;
    n->begins = own->begins ? own->begins : net->options.begins;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void x_spaces_place(struct net *net, struct arena *arena)
{
    struct net_buffers *n = net->buffers;
    int64_t bytes = dtype_bytes(net->options.compute), r = net->model->lora.rank;
    int64_t low = net->rows * net_operand_ld(net, r), x = 0, dy = 0;

    for (int i = 0; i < n->shape.lines; i++) {
        const struct net_stage *s = &n->shape.stage[n->shape.line[i].stage];
        int64_t rows = net_rows(net, n->shape.line[i].stage);

        x = larger(x, rows * net_operand_ld(net, s->in));
        dy = larger(dy, rows * net_operand_ld(net, s->ld));
    }
    n->x_space = arena_take(arena, bytes * x);
    if (!net->options.forward_only)
        n->dy_space = arena_take(arena, bytes * dy);
    if (r)
        n->low_space = arena_take(arena, bytes * low);
    if (r && !net->options.forward_only)
        n->dlow_space = arena_take(arena, bytes * low);
}

static void sparse_place(struct net *net, struct arena *arena)
{
    struct net_buffers *n = net->buffers;
    int64_t whole = 0, space = 0, outs = 0;

    for (int i = 0; i < n->shape.lines; i++) {
        const struct net_line *l = &n->shape.line[i];
        const struct net_stage *s = &n->shape.stage[l->stage];
        if (l->stage == NET_HEAD)
            continue;
        whole = larger(whole, s->in * l->out);
        space = larger(space, kern_sparse_space(net_rows(net, l->stage), s->in, l->out));
        outs = larger(outs, l->out);
    }
    n->whole = take_f32(arena, whole);
    if (net_sparse_share(net->model, net->options.compute) == 0)
        return;
    int64_t most = kern_sparse_most(net->model->sparse.block, whole);
    n->place_start = arena_take(arena, (outs + 1) * (int64_t)sizeof(int32_t));
    n->place_column = arena_take(arena, most * (int64_t)sizeof(int32_t));
    n->places_space = take_f32(arena, space);
}

static void place_products(struct net *net, struct arena *arena)
{
    struct net_buffers *n = net->buffers;
    const struct kern *k = net->options.kern;
    int64_t low = net_act_bytes(net, net->rows * net->model->lora.rank);

    if (low)
        n->low = arena_take(arena, low);
    if (low && !net->options.forward_only)
        n->dlow = arena_take(arena, low);
    if (k->act != net->options.compute)
        x_spaces_place(net, arena);
    if (k->weight != net->options.compute) {
        int64_t r = net->model->lora.rank, w = 0;

        for (int i = 0; i < n->shape.lines; i++) {
            const struct net_line *l = &n->shape.line[i];
            int64_t in = n->shape.stage[l->stage].in, across = net_stored(net, l);

            w = larger(w, in * l->out / across * net_weight_ld(net, across));
            if (l->adapted) /* for A, B */
                w = larger(w,
                           larger(r * net_weight_ld(net, in), l->out * net_weight_ld(net, r)));
        }
        n->w_space = arena_take(arena, dtype_bytes(net->options.compute) * w);
    }
    if (net->model->sparse.share > 0)
        sparse_place(net, arena);
}

void net_place_arrays(struct net *net, struct arena *arena)
{
    const struct model *m = net->model;
    struct net_buffers *n = net->buffers;
    const struct kern *k = net->options.kern;
    int64_t R = net->rows, C = m->hidden, H = net_rows(net, NET_HEAD);
    int64_t scores = k->op->attention_bytes(k, &n->heads, 0);

    for (int i = 0; i < net_together(net); i++) {
        struct net_micro *own = &n->micro[i];
        /*
         * A layer that the backward does not reach keeps nothing: its output replaces its x,
         * which is not needed any more, and it uses the other arrays of the last layer, whose
         * forward comes after all others.  With recompute all micro-batches share those of one.
         */
        struct net_layer_kept *kept = own->kept;
        int64_t last = m->layers - 1;
        int64_t from = net->options.forward_only ? m->layers : m->first_trained - 1;
        for (int64_t l = last; l >= 0; l--)
            kept[l] = i > 0 && net->options.recompute ? n->micro[0].kept[last]
                      : l == last || (l >= from && !net->options.recompute)
                          ? take_layer(net, arena)
                          : kept[last];
        for (int64_t l = 0; l < last && net->rows < net->options.seq; l++)
            kept[l].qkv = take_qkv(net, arena); /* keys and values of earlier windows */
        for (int64_t l = 0; l <= last; l++)
            kept[l].x = l >= from || l == 0 ? place_take(net, arena, net->rows, m->hidden)
                                            : kept[l - 1].x;
        own->tokens_space = arena_take(arena, k->op->tokens_bytes(k, R));
        own->x_last = place_take(net, arena, R, C);
        own->dx = net->options.forward_only ? NULL : place_take(net, arena, R, C);
    }
    net_use(net, 0);
    for (int i = 0; i < MODEL_ROPES; i++)
        n->rope[i] = m->positions || (i == MODEL_LOCAL_ROPE && !m->local_theta)
                         ? NULL
                         : take_f32(arena, net->options.seq * m->rotary);
    n->norm_last = take_norm(net, arena, R);
    n->logits = place_take(net, arena, H, n->shape.stage[NET_HEAD].ld);
    n->h = place_take(net, arena, R, C);
    n->act = place_take(net, arena, R, m->ffn);
    if (!net->options.forward_only) {
        n->dh = place_take(net, arena, R, C);
        if (n->shape.at[0].norm_w[NET_AFTER_OUT] >= 0 ||
            n->shape.at[0].norm_w[NET_AFTER_DOWN] >= 0)
            n->dafter = place_take(net, arena, R, C);
        n->dqkv = place_take(net, arena, R, n->shape.stage[NET_QKV].ld);
        n->datt = place_take(net, arena, R, m->heads * m->head_dim);
        scores = larger(scores, k->op->attention_bytes(k, &n->heads, 1));
    }
    n->scores = arena_take(arena, scores);
    place_products(net, arena);
}

struct net_bytes net_bytes(const struct model *model, const struct net_options *options)
{
    struct arena arena = {0};
    struct net net;

    net_lay_out(&net, model, options);
    net_place_arrays(&net, &arena);
    const struct net_stage *s = net.buffers->shape.stage;
    int64_t widest = larger(model->hidden, larger(s[NET_QKV].ld, s[NET_FFN].ld));
    int64_t normed = larger(model->hidden, model->head_dim);
    const struct net_bytes bytes = {
        arena.used, kern_kind_work_bytes(options->kern->kind, net.rows, normed, widest)};
    net_release_arrays(&net);
    return bytes;
}
