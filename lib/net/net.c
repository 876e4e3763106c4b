/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The decoder by visits: embedding, layers, head.  Knows where activations lie in the arena; a
 * layer's arithmetic is in net_layer.c, the families' differences in net_shape.c.
 */
#include "net/net.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "net/net_parts.h"

static int check(const struct model *m, const struct net_options *o, struct err *err)
{
    if (!net_computes(m))
        return err_set(err, ERR_INPUT,
                       "model family is '%s', expected 'llama' or 'gpt2' to compute it",
                       m->family);
    if (o->batch < 1)
        return err_set(err, ERR_INPUT, "micro-batch is %d, expected 1 or more", o->batch);
    if (o->seq < 1 || o->seq > m->max_seq)
        return err_set(err, ERR_INPUT,
                       "sequence length is %d, expected 1 to the model's maximum of %" PRId64,
                       o->seq, m->max_seq);
    return 0;
}

/* All but the products. */
static int lay_out(struct net *net, const struct model *m, const struct net_options *o,
                   struct err *err)
{
    struct net_buffers *n;

    if (check(m, o, err))
        return -1;
    n = mem_new(1, sizeof *n);
    n->shape.at = mem_new((size_t)m->layers + 1, sizeof *n->shape.at);
    n->kept = mem_new((size_t)m->layers, sizeof *n->kept);
    n->heads = (struct kern_heads){o->batch, o->seq, m->heads, m->kv_heads, m->head_dim};
    net_shape_read(&n->shape, m);
    *net = (struct net){.model = m,
                        .options = *o,
                        .rows = (int64_t)o->batch * o->seq,
                        .scale = 1,
                        .buffers = n};
    return 0;
}

int net_init(struct net *net, const struct model *model, const struct net_options *options,
             struct err *err)
{
    struct net new = {0};

    if (lay_out(&new, model, options, err))
        return -1;
    if (net_linear_init(&new, err)) {
        net_release(&new);
        return -1;
    }
    *net = new;
    return 0;
}

void net_release(struct net *net)
{
    if (net->buffers) {
        net_linear_release(net);
        mem_free(net->buffers->shape.at);
        mem_free(net->buffers->kept);
    }
    mem_free(net->buffers);
    *net = (struct net){0};
}

static float *take(struct arena *arena, int64_t rows, int64_t columns)
{
    return arena_take(arena, rows * columns * (int64_t)sizeof(float));
}

static struct net_norm_kept take_norm(const struct net *net, struct arena *arena, int64_t rows)
{
    return (struct net_norm_kept){
        .mean = net->model->norm == MODEL_NORM_LAYER ? take(arena, rows, 1) : NULL,
        .rstd = take(arena, rows, 1),
    };
}

/* All but x. */
static struct net_layer_kept take_layer(const struct net *net, struct arena *arena)
{
    const struct model *m = net->model;
    int64_t R = net->rows, HD = m->heads * m->head_dim;

    return (struct net_layer_kept){
        .x_mid = take(arena, R, m->hidden),
        .norm = {take_norm(net, arena, R), take_norm(net, arena, R)},
        .qkv = take(arena, R, net->buffers->shape.stage[NET_QKV].ld),
        .att = take(arena, R, HD),
        .lse = take(arena, R, m->heads),
        .ffn = {take(arena, R, m->ffn),
                m->ffn_type == MODEL_FFN_SWIGLU ? take(arena, R, m->ffn) : NULL},
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
    for (int64_t l = 0; l <= last; l++)
        kept[l].x = l >= from || l == 0 ? take(arena, net->rows, m->hidden) : kept[l - 1].x;
}

static void place_rope(struct net *net, struct arena *arena)
{
    const struct model *m = net->model;
    struct net_buffers *n = net->buffers;
    int seq = net->options.seq;
    double *inv_freq, scale;

    if (m->positions)
        return;
    n->rope = take(arena, seq, m->head_dim);
    if (!n->rope)
        return;
    inv_freq = mem_new((size_t)m->head_dim, sizeof *inv_freq);
    model_rope_frequencies(m, seq, inv_freq, &scale);
    kern_rope_table(n->rope, seq, m->head_dim, inv_freq, scale);
    mem_free(inv_freq);
}

void net_place(struct net *net, struct arena *arena)
{
    const struct model *m = net->model;
    struct net_buffers *n = net->buffers;
    int64_t R = net->rows, C = m->hidden, H = net_rows(net, NET_HEAD);

    place_kept(net, arena);
    place_rope(net, arena);
    n->x_last = take(arena, R, C);
    n->norm_last = take_norm(net, arena, R);
    n->logits = take(arena, H, m->vocab);
    n->h = take(arena, R, C);
    n->act = take(arena, R, m->ffn);
    if (!net->options.forward_only) {
        n->lse = take(arena, R, 1);
        n->dx = take(arena, R, C);
        n->dh = take(arena, R, C);
        n->dqkv = take(arena, R, n->shape.stage[NET_QKV].ld);
        n->datt = take(arena, R, m->heads * m->head_dim);
    }
    n->scores = take(arena, kern_attention_scratch(&n->heads), 1);
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

void net_begin(struct net *net, const int32_t *tokens, const int32_t *targets, float scale)
{
    assert(!net->options.forward_only);
    net->tokens = tokens;
    net->targets = targets;
    net->scale = scale;
    net->loss = 0;
}

void net_prompt(struct net *net, const int32_t *tokens, int length)
{
    assert(net->options.forward_only && length >= 1 && length <= net->options.seq);
    net->tokens = tokens;
    net->last = length - 1;
}

/* The rows of x_last that the head sees are its first: all, or one of each sequence. */
static void pick_rows(const struct net *net)
{
    int64_t C = net->model->hidden, T = net->options.seq;
    float *x = net->buffers->x_last;

    for (int64_t b = 0; net->options.forward_only && b < net->options.batch; b++)
        memmove(x + b * C, x + (b * T + net->last) * C, (size_t)C * sizeof(float));
}

static struct net_hand head_hand(const struct net *net, const float *params, float *grads)
{
    return (struct net_hand){&net->buffers->shape.at[net->model->layers], params, grads};
}

static void head_forward(struct net *net, const float *params)
{
    struct net_buffers *n = net->buffers;
    const struct net_hand hand = head_hand(net, params, NULL);

    pick_rows(net);
    net_norm(net, 0, &hand, n->h, &n->norm_last, n->x_last, net_rows(net, NET_HEAD));
    net_stage_forward(net, NET_HEAD, &hand, n->h, &n->logits);
    if (!net->options.forward_only)
        net->loss =
            kern_cross_entropy(n->lse, n->logits, net->targets, net->rows, net->model->vocab);
}

static void embed_forward(const struct net *net, const float *params)
{
    const struct model *m = net->model;
    const struct net_buffers *n = net->buffers;

    kern_embed(n->kept[0].x, params + n->shape.embed_at, net->tokens, net->rows, m->vocab,
               m->hidden);
    if (n->shape.positions_at >= 0)
        kern_positions(n->kept[0].x, params + n->shape.positions_at, net->options.batch,
                       net->options.seq, m->hidden);
}

void net_forward(struct net *net, int visit, const float *params)
{
    const struct model *m = net->model;
    struct net_buffers *n = net->buffers;
    int64_t layers = m->layers, layer = visit - 1;

    assert(visit >= 0 && visit <= layers + 1 && n->logits);
    if (visit == 0)
        embed_forward(net, params);
    else if (visit <= layers)
        net_layer_forward(net, layer, params,
                          visit < layers ? n->kept[layer + 1].x : n->x_last);
    else
        head_forward(net, params);
}

double net_loss(const struct net *net)
{
    return net->loss;
}

const float *net_logits(const struct net *net)
{
    return net->buffers->logits;
}

static void head_backward(struct net *net, const float *params, float *grads)
{
    struct net_buffers *n = net->buffers;
    const struct net_hand hand = head_hand(net, params, grads);
    const float *dy = n->logits;
    int64_t R = net->rows, C = net->model->hidden;
    int last = hand.at->stop == NET_P_QKV, needs = net_stage_needs_x(net, NET_HEAD, &hand);

    kern_cross_entropy_backward(n->logits, n->lse, net->targets, R, net->model->vocab,
                                net->scale);
    if (needs)
        net_norm_again(net, 0, &hand, n->h, &n->norm_last, n->x_last);
    net_stage_backward(net, NET_HEAD, &hand, &dy, needs ? n->h : NULL, last ? NULL : n->dh);
    if (last)
        return;
    memset(n->dx, 0, (size_t)(R * C) * sizeof(float));
    net_norm_backward(net, 0, &hand, n->dx, n->dh, &n->norm_last, n->x_last);
}

static void embed_backward(const struct net *net, float *grads)
{
    const struct net_buffers *n = net->buffers;
    int64_t C = net->model->hidden;

    if (n->shape.embed_at < n->shape.embed_trained)
        kern_embed_backward(grads + n->shape.embed_at, n->dx, net->tokens, net->rows, C);
    if (n->shape.positions_at >= 0 && n->shape.positions_at < n->shape.embed_trained)
        kern_positions_backward(grads + n->shape.positions_at, n->dx, net->options.batch,
                                net->options.seq, C);
}

void net_backward(struct net *net, int visit, const float *params, float *grads)
{
    const struct model *m = net->model;

    assert(visit >= 0 && visit <= m->layers + 1 && net->buffers->logits);
    assert(!net->options.forward_only);
    if (visit < net->buffers->shape.floor)
        return;
    if (visit == 0)
        embed_backward(net, grads);
    else if (visit <= m->layers)
        net_layer_backward(net, visit - 1, params, grads);
    else
        head_backward(net, params, grads);
}
