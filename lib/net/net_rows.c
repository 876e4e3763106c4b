/* SPDX-License-Identifier: BSD-3-Clause */
/* What works row by row or element by element, by the model's kind of it. */
#include "net/net_parts.h"

void net_norm(const struct net *net, int which, const struct net_hand *hand, float *y,
              const struct net_norm_kept *kept, const float *x, int64_t rows)
{
    const struct model *m = net->model;
    const float *w = hand->w + hand->at->norm_w[which];
    float eps = (float)m->norm_eps;

    if (m->norm == MODEL_NORM_RMS)
        kern_rmsnorm(y, kept->rstd, x, w, rows, m->hidden, eps);
    else
        kern_layernorm(y, kept->mean, kept->rstd, x, w, hand->w + hand->at->norm_b[which], rows,
                       m->hidden, eps);
}

void net_norm_again(const struct net *net, int which, const struct net_hand *hand, float *y,
                    const struct net_norm_kept *kept, const float *x)
{
    const struct model *m = net->model;
    const float *w = hand->w + hand->at->norm_w[which];

    if (m->norm == MODEL_NORM_RMS)
        kern_rmsnorm_apply(y, kept->rstd, x, w, net->rows, m->hidden);
    else
        kern_layernorm_apply(y, kept->mean, kept->rstd, x, w, hand->w + hand->at->norm_b[which],
                             net->rows, m->hidden);
}

void net_norm_backward(const struct net *net, int which, const struct net_hand *hand, float *dx,
                       const float *dy, const struct net_norm_kept *kept, const float *x)
{
    const struct model *m = net->model;
    const float *w = hand->w + hand->at->norm_w[which];
    float *dw = net_grad(hand, hand->at->norm_w[which]);

    if (m->norm == MODEL_NORM_RMS)
        kern_rmsnorm_backward(dx, dw, dy, kept->rstd, x, w, net->rows, m->hidden);
    else
        kern_layernorm_backward(dx, dw, net_grad(hand, hand->at->norm_b[which]), dy, kept->mean,
                                kept->rstd, x, w, net->rows, m->hidden);
}

void net_act(const struct net *net, float *y, float *const *ffn)
{
    int64_t n = net->rows * net->model->ffn;

    switch (net->model->ffn_type) {
    case MODEL_FFN_SWIGLU:
        kern_swiglu(y, ffn[0], ffn[1], n);
        break;
    case MODEL_FFN_GELU_TANH:
        kern_gelu_tanh(y, ffn[0], n);
        break;
    case MODEL_FFN_GELU:
        kern_gelu(y, ffn[0], n);
        break;
    }
}

void net_act_backward(const struct net *net, float *dy, float *const *ffn)
{
    int64_t n = net->rows * net->model->ffn;

    switch (net->model->ffn_type) {
    case MODEL_FFN_SWIGLU:
        kern_swiglu_backward(dy, ffn[0], ffn[1], n);
        break;
    case MODEL_FFN_GELU_TANH:
        kern_gelu_tanh_backward(dy, ffn[0], n);
        break;
    case MODEL_FFN_GELU:
        kern_gelu_backward(dy, ffn[0], n);
        break;
    }
}
