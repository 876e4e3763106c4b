/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The decoder by visits: embedding, layers, head.  Knows where activations lie in the arena; a
 * layer's arithmetic is in net_layer.c, the families' differences in net_shape.c.
 */
#include "net/net.h"

#include <assert.h>
#include <inttypes.h>

#include "net/net_parts.h"

static int check(const struct model *m, const struct net_options *o, struct err *err)
{
    if (!net_computes(m))
        return err_set(err, ERR_INPUT, "model family is '%s', expected 'llama' or 'gpt2'",
                       m->family);
    if (o->batch < 1)
        return err_set(err, ERR_INPUT, "micro-batch is %d, expected 1 or more", o->batch);
    if (o->seq < 1 || o->seq > m->max_seq)
        return err_set(err, ERR_INPUT,
                       "sequence length is %d, expected 1 to the model's maximum, %" PRId64,
                       o->seq, m->max_seq);
    assert(!o->window || (o->forward_only && o->batch == 1 && o->window <= o->seq));
    return 0;
}

/* All but the products. */
static int lay_out(struct net *net, const struct model *m, const struct net_options *o,
                   struct err *err)
{
    struct net_buffers *n;
    int rows = o->window ? o->window : o->seq;
    struct kern_heads heads = {o->batch,    o->seq,      m->heads,
                               m->kv_heads, m->head_dim, o->seq - rows};

    if (check(m, o, err) || o->kern->op->attention_can(o->kern, &heads, err))
        return -1;
    assert(o->kern->act == o->compute || o->kern->act == DTYPE_F32);
    n = mem_new(1, sizeof *n);
    n->shape.at = mem_new((size_t)m->layers + 1, sizeof *n->shape.at);
    n->kept = mem_new((size_t)m->layers, sizeof *n->kept);
    n->heads = heads;
    /* Lines that are rounded stay apart: joined they would need a room as large as both. */
    net_shape_read(&n->shape, m, o->kern->weight == o->compute, o->kern->row_elems);
    *net = (struct net){
        .model = m, .options = *o, .rows = (int64_t)o->batch * rows, .scale = 1, .buffers = n};
    return 0;
}

int net_init(struct net *net, const struct model *model, const struct net_options *options,
             struct err *err)
{
    struct net new = {0};

    if (lay_out(&new, model, options, err))
        return -1;
    if (net_linear_init(&new, err) || net_graph_init(&new, err)) {
        net_release(&new);
        return -1;
    }
    *net = new;
    return 0;
}

void net_release(struct net *net)
{
    if (net->buffers) {
        net_graph_release(net);
        net_linear_release(net);
        mem_free(net->buffers->shape.at);
        mem_free(net->buffers->kept);
    }
    mem_free(net->buffers);
    *net = (struct net){0};
}

/* (rows, columns) of activations, and of what is f32 everywhere. */
static void *take(const struct net *net, struct arena *arena, int64_t rows, int64_t columns)
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
    return take(net, arena, (int64_t)net->options.batch * net->options.seq,
                net->buffers->shape.stage[NET_QKV].ld);
}

/* All but x. */
static struct net_layer_kept take_layer(const struct net *net, struct arena *arena)
{
    const struct model *m = net->model;
    int64_t R = net->rows, HD = m->heads * m->head_dim;

    return (struct net_layer_kept){
        .x_mid = take(net, arena, R, m->hidden),
        .norm = {take_norm(net, arena, R), take_norm(net, arena, R)},
        .qkv = take_qkv(net, arena),
        .att = take(net, arena, R, HD),
        .lse = take_f32(arena, R * m->heads),
        .ffn = take(net, arena, R, net->buffers->shape.stage[NET_FFN].ld),
    };
}

/*
 * A layer that the backward does not reach keeps nothing: what it gives out takes the place of
 * its x, which is done with by then, and the rest is the last layer's, whose forward comes
 * after all others.
 */
static void place_kept(struct net *net, struct arena *arena)
{
    const struct model *m = net->model;
    struct net_layer_kept *kept = net->buffers->kept;
    int64_t last = m->layers - 1;
    int64_t from = net->options.forward_only ? m->layers : m->first_trained - 1;

    for (int64_t l = last; l >= 0; l--)
        kept[l] = l == last || (l >= from && !net->options.recompute) ? take_layer(net, arena)
                                                                      : kept[last];
    for (int64_t l = 0; l < last && net->rows < net->options.seq; l++)
        kept[l].qkv = take_qkv(net, arena); /* keys and values of the windows before */
    for (int64_t l = 0; l <= last; l++)
        kept[l].x =
            l >= from || l == 0 ? take(net, arena, net->rows, m->hidden) : kept[l - 1].x;
}

static void place_rope(struct net *net, struct arena *arena)
{
    const struct model *m = net->model;
    struct net_buffers *n = net->buffers;
    int64_t seq = net->options.seq, elems = seq * m->head_dim;
    double *inv_freq, scale;
    float *table;

    if (m->positions)
        return;
    n->rope = take_f32(arena, elems);
    if (!n->rope)
        return;
    inv_freq = mem_new((size_t)m->head_dim, sizeof *inv_freq);
    table = mem_new((size_t)elems, sizeof *table);
    model_rope_frequencies(m, (int)seq, inv_freq, &scale);
    kern_rope_table(table, seq, m->head_dim, inv_freq, scale);
    device_copy(net->options.kern->queue, n->rope, table, elems * (int64_t)sizeof *table);
    mem_free(table);
    mem_free(inv_freq);
}

static void place_scores(struct net *net, struct arena *arena)
{
    struct net_buffers *n = net->buffers;
    const struct kern *k = net->options.kern;
    int64_t bytes = k->op->attention_bytes(k, &n->heads, 0);

    if (!net->options.forward_only && bytes < k->op->attention_bytes(k, &n->heads, 1))
        bytes = k->op->attention_bytes(k, &n->heads, 1);
    n->scores = arena_take(arena, bytes);
}

void net_place(struct net *net, struct arena *arena)
{
    const struct model *m = net->model;
    struct net_buffers *n = net->buffers;
    const struct kern *k = net->options.kern;
    int64_t R = net->rows, C = m->hidden, H = net_rows(net, NET_HEAD);

    place_kept(net, arena);
    place_rope(net, arena);
    n->tokens_room = arena_take(arena, k->op->tokens_bytes(k, R));
    n->x_last = take(net, arena, R, C);
    n->norm_last = take_norm(net, arena, R);
    n->logits = take(net, arena, H, n->shape.stage[NET_HEAD].ld);
    n->h = take(net, arena, R, C);
    n->act = take(net, arena, R, m->ffn);
    if (!net->options.forward_only) {
        n->dx = take(net, arena, R, C);
        n->dh = take(net, arena, R, C);
        n->dqkv = take(net, arena, R, n->shape.stage[NET_QKV].ld);
        n->datt = take(net, arena, R, m->heads * m->head_dim);
    }
    place_scores(net, arena);
    net_linear_place(net, arena);
}

int64_t net_bytes(const struct model *model, const struct net_options *options)
{
    struct arena arena = {0};
    struct net net;
    struct err err;

    if (lay_out(&net, model, options, &err))
        return -1;
    net_place(&net, &arena);
    net_release(&net);
    return arena.used;
}

static void take_tokens(struct net *net, const int32_t *tokens, const int32_t *targets)
{
    struct net_buffers *n = net->buffers;
    struct kern *k = net->options.kern;

    k->op->tokens(k, &n->tokens, n->tokens_room, tokens, targets, net->rows, net->model->vocab);
}

void net_begin(struct net *net, const int32_t *tokens, const int32_t *targets, float scale)
{
    assert(!net->options.forward_only);
    take_tokens(net, tokens, targets);
    net->scale = scale;
}

void net_prompt(struct net *net, const int32_t *tokens, int from, int length)
{
    int rows = (int)(net->rows / net->options.batch), last = net->options.seq - rows;

    assert(net->options.forward_only && length <= net->options.seq);
    net->from = from < last ? from : last;
    assert(net->from >= 0 && length > net->from && length <= net->from + rows);
    take_tokens(net, tokens + net->from, NULL);
    net->last = length - 1 - net->from;
    net->buffers->heads.from = net->from;
    net->buffers->heads.seq = net->from + rows;
}

/* The rows of x_last that the head sees are its first: all, or one of each sequence. */
static void pick_rows(const struct net *net)
{
    int64_t row = net_act_bytes(net, net->model->hidden), T = net->rows / net->options.batch;
    char *x = net->buffers->x_last;

    for (int64_t b = 0; net->options.forward_only && b < net->options.batch; b++)
        if (b != b * T + net->last)
            device_copy(net->options.kern->queue, x + b * row, x + (b * T + net->last) * row,
                        row);
}

static struct net_hand head_hand(const struct net *net, const void *params, float *grads)
{
    return (struct net_hand){&net->buffers->shape.at[net->model->layers], params, grads};
}

static void head_forward(struct net *net, const void *params)
{
    struct net_buffers *n = net->buffers;
    const struct net_hand hand = head_hand(net, params, NULL);
    struct kern *k = net->options.kern;

    pick_rows(net);
    net_norm(net, 0, &hand, n->h, &n->norm_last, n->x_last, net_rows(net, NET_HEAD), 0);
    net_stage_forward(net, NET_HEAD, &hand, n->h, NULL, n->logits);
    if (!net->options.forward_only)
        k->op->cross_entropy(k, n->logits, net_logits_ld(net), &n->tokens, net->model->vocab,
                             net->scale);
}

static void embed_forward(const struct net *net, const void *params)
{
    const struct model *m = net->model;
    const struct net_buffers *n = net->buffers;
    const struct net_hand hand = {NULL, params, NULL};
    int64_t batch = net->options.batch, at = n->shape.positions_at + net->from * m->hidden;
    struct kern *k = net->options.kern;

    k->op->embed(k, n->kept[0].x, net_w(net, &hand, n->shape.embed_at), &n->tokens, m->vocab,
                 m->hidden);
    if (n->shape.positions_at >= 0)
        k->op->positions(k, n->kept[0].x, net_w(net, &hand, at), batch, net->rows / batch,
                         m->hidden);
}

void net_forward(struct net *net, int visit, const void *params)
{
    const struct model *m = net->model;

    assert(visit >= 0 && visit <= m->layers + 1 && net->buffers->logits);
    if (visit == 0)
        embed_forward(net, params);
    else if (visit <= m->layers)
        net_graph_layer(net, visit - 1, params, NULL, 0);
    else
        head_forward(net, params);
}

int net_loss(struct net *net, double *loss, struct err *err)
{
    assert(!net->options.forward_only);
    return net->options.kern->op->loss(net->options.kern, loss, err);
}

const void *net_logits(const struct net *net)
{
    return net->buffers->logits;
}

int64_t net_logits_ld(const struct net *net)
{
    return net->buffers->shape.stage[NET_HEAD].ld;
}

/* The logits are their gradients already. */
static void head_backward(struct net *net, const void *params, float *grads)
{
    struct net_buffers *n = net->buffers;
    const struct net_hand hand = head_hand(net, params, grads);
    int last = hand.at->stop == NET_P_QKV, needs = net_stage_needs_x(net, NET_HEAD, &hand);

    if (needs)
        net_norm(net, 0, &hand, n->h, &n->norm_last, n->x_last, net->rows, 1);
    net_stage_backward(net, NET_HEAD, &hand, n->logits, needs ? n->h : NULL,
                       last ? NULL : n->dh);
    if (last)
        return;
    device_zero(net->options.kern->queue, n->dx,
                net_act_bytes(net, net->rows * net->model->hidden));
    net_norm_backward(net, 0, &hand, n->dx, n->dh, &n->norm_last, n->x_last);
}

static void embed_backward(const struct net *net, float *grads)
{
    const struct net_buffers *n = net->buffers;
    struct kern *k = net->options.kern;
    int64_t C = net->model->hidden;

    if (n->shape.embed_at < n->shape.embed_trained)
        k->op->embed_backward(k, grads + n->shape.embed_at, n->dx, &n->tokens, C);
    if (n->shape.positions_at >= 0 && n->shape.positions_at < n->shape.embed_trained)
        k->op->positions_backward(k, grads + n->shape.positions_at, n->dx, net->options.batch,
                                  net->options.seq, C);
}

void net_backward(struct net *net, int visit, const void *params, float *grads)
{
    const struct model *m = net->model;

    assert(visit >= 0 && visit <= m->layers + 1 && net->buffers->logits);
    assert(!net->options.forward_only && net->scale != 0);
    if (visit < net->buffers->shape.floor)
        return;
    if (visit == 0)
        embed_backward(net, grads);
    else if (visit <= m->layers)
        net_graph_layer(net, visit - 1, params, grads, 1);
    else
        head_backward(net, params, grads);
}

const char *net_attention_by(const struct net *net)
{
    const struct kern *k = net->options.kern;

    return k->op->attention_by(k, &net->buffers->heads);
}
