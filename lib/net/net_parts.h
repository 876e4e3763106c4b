/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NET_NET_PARTS_H
#define NET_NET_PARTS_H

#include "kern/kern_cpu.h"
#include "net/net.h"

/*
 * What the files of net/ share.  R = batch * seq rows, C = hidden, D = head_dim, F = ffn,
 * Q = (heads + 2 kv_heads) D: a row of queries, keys and values; V = vocab.
 */

/* Where the tensors of a layer begin within its unit. */
struct net_layer_at {
    int64_t norm, q, k, v, o, post_norm, gate, up, down;
};

/* What the forward of a layer leaves for its backward: R (2 C + Q + H D + 2 F) elements and a
   few per row.  Normalised rows and the product silu(gate) up are computed again.  Where
   net.recompute, all but x is one layer's at a time. */
struct net_layer_kept {
    float *x, *x_mid;       /* (R,C) before attention, before the feed-forward */
    float *rstd, *rstd_mid; /* (R) */
    float *qkv;             /* (R,Q) queries and keys turned */
    float *att, *lse;       /* (R, heads D), (batch, heads, seq) */
    float *gate, *up;       /* (R,F) */
};

struct net_buffers {
    int64_t embed_at, norm_at, head_at; /* offsets within their units */
    struct net_layer_at *at;            /* [layers], owned */
    struct net_layer_kept *kept; /* [layers], owned; what they point at lies in the arena */
    struct kern_heads heads;
    float *rope;               /* (seq, D) */
    float *x_last, *rstd_last; /* (R,C), (R) */
    float *logits, *lse;       /* (R,V), (R) */
    /* Between and within visits, the same for every layer. */
    float *dx;          /* (R,C) gradient of what the visit gave out */
    float *h, *dh;      /* (R,C) normalised rows, their gradient */
    float *act;         /* (R,F) silu(gate) up, its gradient */
    float *dqkv, *datt; /* (R,Q), (R, heads D) */
    float *scores;      /* kern_attention_scratch */
};

/* x (R,C) of layer l in kept[l].x; out (R,C) is the x of what follows. */
void net_layer_forward(const struct net *net, int64_t layer, const float *params, float *out);
/* dx becomes the gradient of the layer's x. */
void net_layer_backward(const struct net *net, int64_t layer, const float *params,
                        float *grads);

#endif
