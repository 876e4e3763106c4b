/* SPDX-License-Identifier: BSD-3-Clause */
/* What works row by row or element by element, by the model's kind of it. */
#include "net/net_parts.h"

static const void *norm_b(const struct net *net, int which, const struct net_hand *hand)
{
    int64_t at = hand->at->norm_b[which];

    return at >= 0 ? net_w(net, hand, at) : NULL;
}

void net_norm(const struct net *net, int which, const struct net_hand *hand, void *y,
              const struct net_norm_kept *kept, const void *x, int64_t rows, int again)
{
    const struct model *m = net->model;
    struct kern *k = net->options.kern;

    k->op->norm(k, y, kept->mean, kept->rstd, x, net_w(net, hand, hand->at->norm_w[which]),
                norm_b(net, which, hand), rows, m->hidden, (float)m->norm_eps, again);
}

void net_norm_backward(const struct net *net, int which, const struct net_hand *hand, void *dx,
                       const void *dy, const struct net_norm_kept *kept, const void *x)
{
    struct kern *k = net->options.kern;
    int64_t w = hand->at->norm_w[which];

    k->op->norm_backward(k, dx, net_grad(hand, w), net_grad(hand, hand->at->norm_b[which]), dy,
                         kept->mean, kept->rstd, x, net_w(net, hand, w), net->rows,
                         net->model->hidden);
}

void net_act(const struct net *net, void *y, void *ffn)
{
    struct kern *k = net->options.kern;
    int64_t R = net->rows, F = net->model->ffn;

    if (net->model->ffn_type == MODEL_FFN_SWIGLU)
        k->op->swiglu(k, y, ffn, (char *)ffn + net_act_bytes(net, F), R, F, 2 * F);
    else
        k->op->gelu(k, y, ffn, R * F, net->model->ffn_type == MODEL_FFN_GELU_TANH);
}

void net_act_backward(const struct net *net, void *dy, void *ffn)
{
    struct kern *k = net->options.kern;
    int64_t R = net->rows, F = net->model->ffn;

    if (net->model->ffn_type == MODEL_FFN_SWIGLU)
        k->op->swiglu_backward(k, dy, ffn, (char *)ffn + net_act_bytes(net, F), R, F, 2 * F);
    else
        k->op->gelu_backward(k, dy, ffn, R * F, net->model->ffn_type == MODEL_FFN_GELU_TANH);
}
