/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NET_NET_PARTS_H
#define NET_NET_PARTS_H

#include "kern/kern_cpu.h"
#include "kern/kern_product.h"
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

/* The products with weights, by the weight; keys and values are of one shape. */
enum net_line { NET_Q, NET_KV, NET_O, NET_GATE, NET_UP, NET_DOWN, NET_HEAD, NET_LINES };
struct net_linear {
    int64_t in, out;
    struct kern_product *y, *dx, *dw;
};

struct net_buffers {
    int64_t embed_at, norm_at, head_at; /* offsets within their units */
    struct net_layer_at *at;            /* [layers], owned */
    struct net_layer_kept *kept; /* [layers], owned; what they point at lies in the arena */
    struct kern_heads heads;
    struct net_linear linear[NET_LINES]; /* owned */
    float *rope;               /* (seq, D) */
    float *x_last, *rstd_last; /* (R,C), (R) */
    float *logits, *lse;       /* (R,V), (R) */
    /* Between and within visits, the same for every layer. */
    float *dx;          /* (R,C) gradient of what the visit gave out */
    float *h, *dh;      /* (R,C) normalised rows, their gradient */
    float *act;         /* (R,F) silu(gate) up, its gradient */
    float *dqkv, *datt; /* (R,Q), (R, heads D) */
    float *scores;      /* kern_attention_scratch */
    void *x_room, *dy_room, *w_room; /* operands rounded to bf16, as large as any is */
};

int net_linear_init(struct net *net, struct err *err);
void net_linear_place(struct net *net, struct arena *arena);
void net_linear_release(struct net *net);
/* What a product takes: x (rows, columns) itself, or rounded into the room. */
const void *net_operand(const struct net *net, const float *x, int64_t rows, int64_t columns,
                        void *room);
/* The operand's columns from that one on. */
const void *net_operand_from(const struct net *net, const void *operand, int64_t column);
/* y = x W^T, of O and DOWN y += x W^T; x and dy are operands. */
void net_linear(const struct net *net, enum net_line line, const void *x, const float *w,
                float *y);
/* dx = dy W, of KV and UP dx += dy W */
void net_linear_dx(const struct net *net, enum net_line line, const void *dy, const float *w,
                   float *dx);
/* dw += dy^T x */
void net_linear_dw(const struct net *net, enum net_line line, const void *dy, const void *x,
                   float *dw);

/* x (R,C) of layer l in kept[l].x; out (R,C) is the x of what follows. */
void net_layer_forward(const struct net *net, int64_t layer, const float *params, float *out);
/* dx becomes the gradient of the layer's x. */
void net_layer_backward(const struct net *net, int64_t layer, const float *params,
                        float *grads);

#endif
