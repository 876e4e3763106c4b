/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NET_NET_PARTS_H
#define NET_NET_PARTS_H

#include "kern/kern_cpu.h"
#include "net/net_shape.h"

/* What the files of net/ share: what a step needs beside the description in net_shape.h. */

struct net_norm_kept {
    float *mean, *rstd; /* (R); mean NULL for RMS */
};

/* What the forward of a layer leaves for its backward.  Normalised rows and what enters DOWN
   are computed again.  With recompute all but x is one layer's at a time. */
struct net_layer_kept {
    float *x, *x_mid; /* (R,C) before attention, before the feed-forward */
    struct net_norm_kept norm[2];
    float *qkv;       /* (R,Q) queries and keys turned */
    float *att, *lse; /* (R, heads D), (batch, heads, seq) */
    float *ffn[2];    /* (R,F) gate and up, or the only one */
};

struct net_buffers {
    struct net_shape shape;      /* shape.at owned */
    struct net_layer_kept *kept; /* [layers], owned; what they point at lies in the arena */
    struct kern_heads heads;
    float *rope;   /* (seq, D); NULL without */
    float *x_last; /* (R,C) */
    struct net_norm_kept norm_last;
    float *logits, *lse; /* (R,V), (R) */
    /* Between and within visits, the same for every layer. */
    float *dx;          /* (R,C) gradient of what the visit gave out */
    float *h, *dh;      /* (R,C) normalised rows, their gradient */
    float *act;         /* (R,F) what enters DOWN, its gradient */
    float *dqkv, *datt; /* (R,Q), (R, heads D) */
    float *scores;      /* kern_attention_scratch */
    float *low, *dlow;  /* (R, rank) alpha / rank x A^T; its gradient, times the same */
    /* Operands rounded to bf16, as large as any is. */
    void *x_room, *dy_room, *w_room, *low_room, *dlow_room;
};

int64_t net_rows(const struct net *net, enum net_stage_name stage);

int net_linear_init(struct net *net, struct err *err);
void net_linear_place(struct net *net, struct arena *arena);
void net_linear_release(struct net *net);

/* A gradient of rows (rows,ld), and what products take of it: itself, or rounded. */
struct net_dy {
    const float *f32;
    const void *operand;
};
/* x (rows, columns) itself, or rounded into the room. */
const void *net_operand(const struct net *net, const float *x, int64_t rows, int64_t columns,
                        void *room);
/* y[array] = (or +=) x W^T + bias + adapter, of all lines of a stage. */
void net_stage_forward(const struct net *net, enum net_stage_name stage,
                       const struct net_hand *hand, const float *x, float *const *y);
/* All lines' gradients; dx, written, may be NULL.  x NULL: net_stage_needs_x says no. */
void net_stage_backward(const struct net *net, enum net_stage_name stage,
                        const struct net_hand *hand, const float *const *dy, const float *x,
                        float *dx);
int net_stage_needs_x(const struct net *net, enum net_stage_name stage,
                      const struct net_hand *hand);
/* The halves of a backward, of one line: what is given down first, then its own gradients. */
void net_line_dx(const struct net *net, int line, const struct net_hand *hand,
                 const struct net_dy *dy, float *dx);
void net_line_dw(const struct net *net, int line, const struct net_hand *hand,
                 const struct net_dy *dy, const void *x);

/* net_rows.c: norms and activations by the model's kind.  y = norm(x), rows of C. */
void net_norm(const struct net *net, int which, const struct net_hand *hand, float *y,
              const struct net_norm_kept *kept, const float *x, int64_t rows);
void net_norm_again(const struct net *net, int which, const struct net_hand *hand, float *y,
                    const struct net_norm_kept *kept, const float *x);
/* dx += */
void net_norm_backward(const struct net *net, int which, const struct net_hand *hand, float *dx,
                       const float *dy, const struct net_norm_kept *kept, const float *x);
void net_act(const struct net *net, float *y, float *const *ffn);
/* In place: ffn become their gradients, dy becomes y. */
void net_act_backward(const struct net *net, float *dy, float *const *ffn);

/* x (R,C) of layer l in kept[l].x; out (R,C) is the x of what follows. */
void net_layer_forward(const struct net *net, int64_t layer, const float *params, float *out);
/* dx becomes the gradient of the layer's x, where anything before it trains. */
void net_layer_backward(const struct net *net, int64_t layer, const float *params,
                        float *grads);

#endif
