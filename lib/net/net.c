/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The decoder by visits: embedding, layers, head.  Knows where tensors lie in their units and
 * where activations lie in the arena; a layer's arithmetic is in net_layer.c.
 */
#include "net/net.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "net/net_parts.h"

static int64_t offset_of(const struct model *m, const char *name)
{
    const struct model_tensor *t = model_find(m, name);

    assert(t); /* a family has its tensors */
    return t->offset;
}

static int64_t layer_offset(const struct model *m, int64_t layer, const char *part)
{
    char name[128];

    snprintf(name, sizeof name, "model.layers.%" PRId64 ".%s.weight", layer, part);
    return offset_of(m, name);
}

static int check(const struct model *m, const struct net_options *o, struct err *err)
{
    if (strcmp(m->family, "llama") || !m->unit)
        return err_set(err, ERR_INPUT, "model family is '%s', expected 'llama' to compute it",
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
    n->at = mem_new((size_t)m->layers, sizeof *n->at);
    n->kept = mem_new((size_t)m->layers, sizeof *n->kept);
    n->heads = (struct kern_heads){o->batch, o->seq, m->heads, m->kv_heads, m->head_dim};
    n->embed_at = offset_of(m, "model.embed_tokens.weight");
    n->norm_at = offset_of(m, "model.norm.weight");
    n->head_at = m->tied ? n->embed_at : offset_of(m, "lm_head.weight");
    for (int64_t l = 0; l < m->layers; l++)
        n->at[l] = (struct net_layer_at){
            .norm = layer_offset(m, l, "input_layernorm"),
            .q = layer_offset(m, l, "self_attn.q_proj"),
            .k = layer_offset(m, l, "self_attn.k_proj"),
            .v = layer_offset(m, l, "self_attn.v_proj"),
            .o = layer_offset(m, l, "self_attn.o_proj"),
            .post_norm = layer_offset(m, l, "post_attention_layernorm"),
            .gate = layer_offset(m, l, "mlp.gate_proj"),
            .up = layer_offset(m, l, "mlp.up_proj"),
            .down = layer_offset(m, l, "mlp.down_proj"),
        };
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
        mem_free(net->buffers->at);
        mem_free(net->buffers->kept);
    }
    mem_free(net->buffers);
    *net = (struct net){0};
}

static float *take(struct arena *arena, int64_t rows, int64_t columns)
{
    return arena_take(arena, rows * columns * (int64_t)sizeof(float));
}

void net_place(struct net *net, struct arena *arena)
{
    const struct model *m = net->model;
    struct net_buffers *n = net->buffers;
    int64_t R = net->rows, C = m->hidden, F = m->ffn, D = m->head_dim;
    int64_t Q = (m->heads + 2 * m->kv_heads) * D;

    for (int64_t l = 0; l < m->layers; l++) {
        float *x = take(arena, R, C);

        if (l > 0 && net->options.recompute) {
            n->kept[l] = n->kept[0]; /* all but x is shared */
            n->kept[l].x = x;
            continue;
        }
        n->kept[l] = (struct net_layer_kept){
            .x = x,
            .x_mid = take(arena, R, C),
            .rstd = take(arena, R, 1),
            .rstd_mid = take(arena, R, 1),
            .qkv = take(arena, R, Q),
            .att = take(arena, R, m->heads * D),
            .lse = take(arena, R, m->heads),
            .gate = take(arena, R, F),
            .up = take(arena, R, F),
        };
    }
    n->rope = take(arena, net->options.seq, D);
    n->x_last = take(arena, R, C);
    n->rstd_last = take(arena, R, 1);
    n->logits = take(arena, R, m->vocab);
    n->lse = take(arena, R, 1);
    n->dx = take(arena, R, C);
    n->h = take(arena, R, C);
    n->dh = take(arena, R, C);
    n->act = take(arena, R, F);
    n->dqkv = take(arena, R, Q);
    n->datt = take(arena, R, m->heads * D);
    n->scores = take(arena, kern_attention_scratch(&n->heads), 1);
    net_linear_place(net, arena);
    if (n->rope)
        kern_rope_table(n->rope, net->options.seq, D, m->rope.theta);
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

double net_flops(const struct net *net)
{
    return 3 * model_flops_per_token(net->model, net->options.seq) * (double)net->rows;
}

void net_begin(struct net *net, const int32_t *tokens, const int32_t *targets, float scale)
{
    net->tokens = tokens;
    net->targets = targets;
    net->scale = scale;
    net->loss = 0;
}

static void head_forward(struct net *net, const float *params)
{
    struct net_buffers *n = net->buffers;
    int64_t R = net->rows, C = net->model->hidden, V = net->model->vocab;

    kern_rmsnorm(n->h, n->rstd_last, n->x_last, params + n->norm_at, R, C,
                 (float)net->model->norm_eps);
    net_linear(net, NET_HEAD, net_operand(net, n->h, R, C, n->x_room), params + n->head_at,
               n->logits);
    net->loss = kern_cross_entropy(n->lse, n->logits, net->targets, R, V);
}

void net_forward(struct net *net, int visit, const float *params)
{
    const struct model *m = net->model;
    struct net_buffers *n = net->buffers;
    int64_t layers = m->layers, layer = visit - 1;

    assert(visit >= 0 && visit <= layers + 1 && n->logits);
    if (visit == 0)
        kern_embed(n->kept[0].x, params + n->embed_at, net->tokens, net->rows, m->vocab,
                   m->hidden);
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
    int64_t R = net->rows, C = net->model->hidden, V = net->model->vocab;
    const void *dy;

    kern_cross_entropy_backward(n->logits, n->lse, net->targets, R, V, net->scale);
    kern_rmsnorm_apply(n->h, n->rstd_last, n->x_last, params + n->norm_at, R, C);
    dy = net_operand(net, n->logits, R, V, n->dy_room);
    net_linear_dw(net, NET_HEAD, dy, net_operand(net, n->h, R, C, n->x_room),
                  grads + n->head_at);
    net_linear_dx(net, NET_HEAD, dy, params + n->head_at, n->dh);
    memset(n->dx, 0, (size_t)(R * C) * sizeof(float));
    kern_rmsnorm_backward(n->dx, grads + n->norm_at, n->dh, n->rstd_last, n->x_last,
                          params + n->norm_at, R, C);
}

void net_backward(struct net *net, int visit, const float *params, float *grads)
{
    const struct model *m = net->model;
    struct net_buffers *n = net->buffers;

    assert(visit >= 0 && visit <= m->layers + 1 && n->logits);
    if (visit == 0)
        kern_embed_backward(grads + n->embed_at, n->dx, net->tokens, net->rows, m->hidden);
    else if (visit <= m->layers)
        net_layer_backward(net, visit - 1, params, grads);
    else
        head_backward(net, params, grads);
}
