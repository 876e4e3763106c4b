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

/* y (r,out) = beta y + x (r,in) W^T */
static void linear(int64_t r, int64_t in, int64_t out, const float *x, const float *w,
                   float beta, float *y, int64_t y_ld)
{
    kern_gemm('N', 'T', r, out, in, 1, x, in, w, in, beta, y, y_ld);
}

/* dx (r,in) = beta dx + dy (r,out) W;  dw (out,in) += dy^T x */
static void linear_backward(int64_t r, int64_t in, int64_t out, const float *dy, int64_t dy_ld,
                            const float *x, const float *w, float beta, float *dx, float *dw)
{
    kern_gemm('N', 'N', r, in, out, 1, dy, dy_ld, w, in, beta, dx, in);
    kern_gemm('T', 'N', out, in, r, 1, dy, dy_ld, x, in, 1, dw, in);
}

/* All that the backward needs: the forward up to gate and up. */
static void keep(const struct net *net, int64_t layer, const float *params)
{
    const struct model *m = net->model;
    const struct net_buffers *n = net->buffers;
    const struct net_layer_at *at = &n->at[layer];
    const struct net_layer_kept *k = &n->kept[layer];
    int64_t R = (int64_t)net->batch * net->seq, C = m->hidden, F = m->ffn, D = m->head_dim;
    int64_t q = m->heads * D, kv = m->kv_heads * D, Q = q + 2 * kv;
    float eps = (float)m->norm_eps;

    kern_rmsnorm(n->h, k->rstd, k->x, params + at->norm, R, C, eps);
    linear(R, C, q, n->h, params + at->q, 0, k->qkv, Q);
    linear(R, C, kv, n->h, params + at->k, 0, k->qkv + q, Q);
    linear(R, C, kv, n->h, params + at->v, 0, k->qkv + q + kv, Q);
    kern_rope(k->qkv, Q, n->rope, net->batch, net->seq, m->heads + m->kv_heads, D, 0);
    kern_attention(&n->heads, k->att, k->lse, k->qkv, n->scores);
    memcpy(k->x_mid, k->x, (size_t)(R * C) * sizeof(float));
    linear(R, q, C, k->att, params + at->o, 1, k->x_mid, C);

    kern_rmsnorm(n->h, k->rstd_mid, k->x_mid, params + at->post_norm, R, C, eps);
    linear(R, C, F, n->h, params + at->gate, 0, k->gate, F);
    linear(R, C, F, n->h, params + at->up, 0, k->up, F);
}

void net_layer_forward(const struct net *net, int64_t layer, const float *params, float *out)
{
    const struct net_buffers *n = net->buffers;
    const struct net_layer_at *at = &n->at[layer];
    const struct net_layer_kept *k = &n->kept[layer];
    int64_t R = (int64_t)net->batch * net->seq, C = net->model->hidden, F = net->model->ffn;

    keep(net, layer, params);
    kern_swiglu(n->act, k->gate, k->up, R * F);
    memcpy(out, k->x_mid, (size_t)(R * C) * sizeof(float));
    linear(R, F, C, n->act, params + at->down, 1, out, C);
}

/* dx: gradient of the layer's output in, of x_mid out. */
static void ffn_backward(const struct net *net, int64_t layer, const float *w, float *g)
{
    const struct net_buffers *n = net->buffers;
    const struct net_layer_at *at = &n->at[layer];
    const struct net_layer_kept *k = &n->kept[layer];
    int64_t R = (int64_t)net->batch * net->seq, C = net->model->hidden, F = net->model->ffn;

    kern_rmsnorm_apply(n->h, k->rstd_mid, k->x_mid, w + at->post_norm, R, C);
    kern_gemm('N', 'N', R, F, C, 1, n->dx, C, w + at->down, F, 0, n->act, F);
    kern_swiglu_backward(n->act, k->gate, k->up, R * F);
    kern_gemm('T', 'N', C, F, R, 1, n->dx, C, n->act, F, 1, g + at->down, F);
    linear_backward(R, C, F, k->gate, F, n->h, w + at->gate, 0, n->dh, g + at->gate);
    linear_backward(R, C, F, k->up, F, n->h, w + at->up, 1, n->dh, g + at->up);
    kern_rmsnorm_backward(n->dx, g + at->post_norm, n->dh, k->rstd_mid, k->x_mid,
                          w + at->post_norm, R, C);
}

void net_layer_backward(const struct net *net, int64_t layer, const float *params, float *grads)
{
    const struct model *m = net->model;
    const struct net_buffers *n = net->buffers;
    const struct net_layer_at *at = &n->at[layer];
    const struct net_layer_kept *k = &n->kept[layer];
    const float *w = params;
    float *g = grads;
    int64_t R = (int64_t)net->batch * net->seq, C = m->hidden, D = m->head_dim;
    int64_t q = m->heads * D, kv = m->kv_heads * D, Q = q + 2 * kv;

    /* The last layer's forward ran last of all: what it left is still there. */
    if (net->recompute && layer < m->layers - 1)
        keep(net, layer, params);
    ffn_backward(net, layer, w, g);
    kern_rmsnorm_apply(n->h, k->rstd, k->x, w + at->norm, R, C);
    linear_backward(R, q, C, n->dx, C, k->att, w + at->o, 0, n->datt, g + at->o);
    kern_attention_backward(&n->heads, n->dqkv, n->datt, k->att, k->lse, k->qkv, n->scores);
    kern_rope(n->dqkv, Q, n->rope, net->batch, net->seq, m->heads + m->kv_heads, D, 1);
    linear_backward(R, C, q, n->dqkv, Q, n->h, w + at->q, 0, n->dh, g + at->q);
    linear_backward(R, C, kv, n->dqkv + q, Q, n->h, w + at->k, 1, n->dh, g + at->k);
    linear_backward(R, C, kv, n->dqkv + q + kv, Q, n->h, w + at->v, 1, n->dh, g + at->v);
    kern_rmsnorm_backward(n->dx, g + at->norm, n->dh, k->rstd, k->x, w + at->norm, R, C);
}
