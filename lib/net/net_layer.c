/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One decoder layer of the Llama family, forward and backward.  Weights are (out, in), so that
 * a product is y = x W^T, its gradients dx = dy W and dW = dy^T x.
 *
 *     x_mid = x + attention(rope(norm(x) Wqkv^T)) Wo^T
 *     out   = x_mid + (silu(g) * u) Wdown^T,   g, u = norm(x_mid) Wgate^T, norm(x_mid) Wup^T
 */
#include <string.h>

#include "net/net_parts.h"

/* All that the backward needs: the forward up to gate and up. */
static void keep(const struct net *net, int64_t layer, const float *params)
{
    const struct model *m = net->model;
    const struct net_buffers *n = net->buffers;
    const struct net_layer_at *at = &n->at[layer];
    const struct net_layer_kept *k = &n->kept[layer];
    int64_t R = net->rows, C = m->hidden, D = m->head_dim;
    int64_t q = m->heads * D, kv = m->kv_heads * D, Q = q + 2 * kv;
    float eps = (float)m->norm_eps;
    const void *x;

    kern_rmsnorm(n->h, k->rstd, k->x, params + at->norm, R, C, eps);
    x = net_operand(net, n->h, R, C, n->x_room);
    net_linear(net, NET_Q, x, params + at->q, k->qkv);
    net_linear(net, NET_KV, x, params + at->k, k->qkv + q);
    net_linear(net, NET_KV, x, params + at->v, k->qkv + q + kv);
    kern_rope(k->qkv, Q, n->rope, net->options.batch, net->options.seq, m->heads + m->kv_heads,
              D, 0);
    kern_attention(&n->heads, k->att, k->lse, k->qkv, n->scores);
    memcpy(k->x_mid, k->x, (size_t)(R * C) * sizeof(float));
    x = net_operand(net, k->att, R, q, n->x_room);
    net_linear(net, NET_O, x, params + at->o, k->x_mid);

    kern_rmsnorm(n->h, k->rstd_mid, k->x_mid, params + at->post_norm, R, C, eps);
    x = net_operand(net, n->h, R, C, n->x_room);
    net_linear(net, NET_GATE, x, params + at->gate, k->gate);
    net_linear(net, NET_UP, x, params + at->up, k->up);
}

void net_layer_forward(const struct net *net, int64_t layer, const float *params, float *out)
{
    const struct net_buffers *n = net->buffers;
    const struct net_layer_at *at = &n->at[layer];
    const struct net_layer_kept *k = &n->kept[layer];
    int64_t R = net->rows, C = net->model->hidden, F = net->model->ffn;

    keep(net, layer, params);
    kern_swiglu(n->act, k->gate, k->up, R * F);
    memcpy(out, k->x_mid, (size_t)(R * C) * sizeof(float));
    net_linear(net, NET_DOWN, net_operand(net, n->act, R, F, n->x_room), params + at->down,
               out);
}

/* dx: gradient of the layer's output in, of x_mid out. */
static void ffn_backward(const struct net *net, int64_t layer, const float *w, float *g)
{
    const struct net_buffers *n = net->buffers;
    const struct net_layer_at *at = &n->at[layer];
    const struct net_layer_kept *k = &n->kept[layer];
    int64_t R = net->rows, C = net->model->hidden, F = net->model->ffn;
    const void *dy = net_operand(net, n->dx, R, C, n->dy_room), *x;

    net_linear_dx(net, NET_DOWN, dy, w + at->down, n->act);
    kern_swiglu_backward(n->act, k->gate, k->up, R * F);
    net_linear_dw(net, NET_DOWN, dy, net_operand(net, n->act, R, F, n->x_room), g + at->down);

    kern_rmsnorm_apply(n->h, k->rstd_mid, k->x_mid, w + at->post_norm, R, C);
    x = net_operand(net, n->h, R, C, n->x_room);
    dy = net_operand(net, k->gate, R, F, n->dy_room);
    net_linear_dx(net, NET_GATE, dy, w + at->gate, n->dh);
    net_linear_dw(net, NET_GATE, dy, x, g + at->gate);
    dy = net_operand(net, k->up, R, F, n->dy_room);
    net_linear_dx(net, NET_UP, dy, w + at->up, n->dh);
    net_linear_dw(net, NET_UP, dy, x, g + at->up);
    kern_rmsnorm_backward(n->dx, g + at->post_norm, n->dh, k->rstd_mid, k->x_mid,
                          w + at->post_norm, R, C);
}

/* dqkv in, gradient of x out; dx has gathered what came past the attention. */
static void qkv_backward(const struct net *net, int64_t layer, const float *w, float *g)
{
    const struct model *m = net->model;
    const struct net_buffers *n = net->buffers;
    const struct net_layer_at *at = &n->at[layer];
    const struct net_layer_kept *k = &n->kept[layer];
    int64_t R = net->rows, C = m->hidden, q = m->heads * m->head_dim;
    int64_t kv = m->kv_heads * m->head_dim;
    int64_t from[3] = {0, q, q + kv}, weight[3] = {at->q, at->k, at->v};
    const void *dy = net_operand(net, n->dqkv, R, q + 2 * kv, n->dy_room), *x;

    kern_rmsnorm_apply(n->h, k->rstd, k->x, w + at->norm, R, C);
    x = net_operand(net, n->h, R, C, n->x_room);
    for (int i = 0; i < 3; i++) {
        enum net_line line = i == 0 ? NET_Q : NET_KV;
        const void *part = net_operand_from(net, dy, from[i]);

        net_linear_dx(net, line, part, w + weight[i], n->dh);
        net_linear_dw(net, line, part, x, g + weight[i]);
    }
    kern_rmsnorm_backward(n->dx, g + at->norm, n->dh, k->rstd, k->x, w + at->norm, R, C);
}

void net_layer_backward(const struct net *net, int64_t layer, const float *params, float *grads)
{
    const struct model *m = net->model;
    const struct net_buffers *n = net->buffers;
    const struct net_layer_at *at = &n->at[layer];
    const struct net_layer_kept *k = &n->kept[layer];
    const float *w = params;
    float *g = grads;
    int64_t R = net->rows, C = m->hidden, D = m->head_dim;
    int64_t q = m->heads * D, Q = q + 2 * m->kv_heads * D;
    const void *dy;

    /* The last layer's forward ran last of all: what it left is still there. */
    if (net->options.recompute && layer < m->layers - 1)
        keep(net, layer, params);
    ffn_backward(net, layer, w, g);
    dy = net_operand(net, n->dx, R, C, n->dy_room);
    net_linear_dx(net, NET_O, dy, w + at->o, n->datt);
    net_linear_dw(net, NET_O, dy, net_operand(net, k->att, R, q, n->x_room), g + at->o);
    kern_attention_backward(&n->heads, n->dqkv, n->datt, k->att, k->lse, k->qkv, n->scores);
    kern_rope(n->dqkv, Q, n->rope, net->options.batch, net->options.seq, m->heads + m->kv_heads,
              D, 1);
    qkv_backward(net, layer, w, g);
}
