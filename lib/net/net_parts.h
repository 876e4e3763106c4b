/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NET_NET_PARTS_H
#define NET_NET_PARTS_H

#include "net/net_shape.h"

/* State shared by the files of net/, for a step; net_shape.h has the description.  void *
   points to activations (k->act), or, for parameters, to weights (k->weight). */

struct net_norm_kept {
    float *mean, *rstd; /* (R); mean NULL for RMS */
};

/* Arrays that the forward of a layer keeps for its backward.  Normalised rows and the input of
   DOWN are recomputed.  With recompute all but x is shared by the layers. */
struct net_layer_kept {
    void *x, *x_mid; /* (R,C) before attention, before the feed-forward */
    struct net_norm_kept norm[NET_NORMS];
    /* Inputs of norms from NET_Q on: (R, heads D), (R, kv_heads D), (R,C), (R,C). */
    void *raw[NET_NORMS];
    void *qkv;  /* (R,Q) queries and keys after rotation; (T,Q) with a window */
    void *att;  /* (R, heads D); scratch of the norms before and after its use */
    float *lse; /* (batch, heads, seq) */
    void *ffn;  /* (R,F), or (R,2F) of gate and up */
};

/* One layer, forward or back, with its arguments: */
struct net_graph {
    const void *params;
    float *grads;
    /* kern.bytes at recording: the kernels' own memory is part of the graph */
    int64_t kern_bytes;
    int requested;              /* has been issued directly once, so that it can be recorded */
    struct device_graph *graph; /* owned; NULL: issued directly */
};

struct net_graph_table {
    int on;               /* 0: no graphs, or no more */
    struct net_graph *at; /* [together][layers][2][places], owned */
    int64_t written, runs;
    struct err refused;
};

/* The state of a micro-batch in progress. */
struct net_micro {
    struct net_layer_kept *kept; /* [layers]; its arrays lie in the arena */
    struct kern_tokens tokens;
    void *tokens_space, *x_last, *dx;
    int32_t *begins; /* (B,T), owned: a copy if there are several micro-batches; else NULL */
};

struct net_buffers {
    struct net_shape shape;  /* shape.at owned */
    struct net_micro *micro; /* [together], owned, as is the first one's kept */
    int using;               /* the selected one, whose members follow: */
    struct net_layer_kept *kept;
    struct kern_tokens tokens;
    void *tokens_space;
    void *x_last; /* (R,C) */
    void *dx;     /* (R,C) gradient of the visit's output */
    const int32_t *begins;
    /* Between and within visits, shared by all layers and micro-batches. */
    struct kern_heads heads;
    float *rope[MODEL_ROPES]; /* (seq, rotary); NULL without */
    struct net_norm_kept norm_last;
    void *logits;      /* (R,V), their gradients */
    void *h, *dh;      /* (R,C) normalised rows, their gradient */
    void *dafter;      /* (R,C) output of OUT or DOWN, if a norm follows */
    void *act;         /* (R,F) input of DOWN, its gradient */
    void *dqkv, *datt; /* (R,Q), (R, heads D) */
    void *scores;      /* attention_bytes */
    void *low, *dlow;  /* (R, rank) alpha / rank x A^T; its gradient, times alpha / rank */
    /* Operands rounded to the type of products, if that differs; each as large as the
       largest. */
    void *x_space, *dy_space, *w_space, *low_space, *dlow_space;
    float *whole; /* a sparse weight, or its gradient, expanded: size of the largest */
    /* Active places of a sparse weight, if products use them; else NULL. */
    int32_t *place_start, *place_column;
    float *places_space;
    struct net_graph_table graphs;
};

/* net_place.c: initialization except for the products, and the arrays. */
void net_lay_out(struct net *net, const struct model *m, const struct net_options *o);
void net_place_arrays(struct net *net, struct arena *arena);
void net_release_arrays(struct net *net);
int net_together(const struct net *net);
int64_t net_rows(const struct net *net, enum net_stage_name stage);
/* Bytes of n elements of activations. */
int64_t net_act_bytes(const struct net *net, int64_t n);
/* Elements between rows of an operand, of a weight, in products; columns of the weight as
   stored. */
int64_t net_operand_ld(const struct net *net, int64_t columns);
int64_t net_weight_ld(const struct net *net, int64_t columns);
int64_t net_stored(const struct net *net, const struct net_line *l);
/* Address of a tensor in the current unit. */
const void *net_w(const struct net *net, const struct net_hand *hand, int64_t offset);

/*
 * net_sparse.c: the products of a line over the active places of its sparse weight.  Return 0
 * if it has none, or too many are active.  y += from (NULL: 0) + bias (NULL: 0); dw is ADDED
 * to.
 */
int net_sparse_y(const struct net *net, const struct net_hand *hand, int line, const void *x,
                 const void *from, const void *bias, void *y);
int net_sparse_dx(const struct net *net, const struct net_hand *hand, int line, const void *dy,
                  void *dx);
int net_sparse_dw(const struct net *net, const struct net_hand *hand, int line, const void *dy,
                  const void *x, float *dw);
/* Expands a line's sparse weight.  With dw, the returned array holds the gradient of the whole
   weight instead, and that of the active entries is ADDED to dw. */
float *net_sparse_whole(const struct net *net, const struct net_hand *hand, int line,
                        float *dw);

int net_linear_init(struct net *net, struct err *err);
void net_linear_release(struct net *net);

/* A gradient of rows (rows,ld), and the operand of products: the same, or rounded. */
struct net_dy {
    const void *act;
    const void *operand;
};
/* Returns x (rows, columns), or x rounded into `space`. */
const void *net_operand(const struct net *net, const void *x, int64_t rows, int64_t columns,
                        void *space);
/* y = x W^T + bias + adapter for all lines of a stage, + from if the stage adds. */
void net_stage_forward(const struct net *net, enum net_stage_name stage,
                       const struct net_hand *hand, const void *x, const void *from, void *y);
/* Computes all lines' gradients; dx is written, or NULL.  x may be NULL if net_stage_needs_x
   returns 0. */
void net_stage_backward(const struct net *net, enum net_stage_name stage,
                        const struct net_hand *hand, const void *dy, const void *x, void *dx);
int net_stage_needs_x(const struct net *net, enum net_stage_name stage,
                      const struct net_hand *hand);
/* The two halves of a line's backward: first the gradient of its input, then those of its
   weights. */
void net_line_dx(const struct net *net, int line, const struct net_hand *hand,
                 const struct net_dy *dy, void *dx);
void net_line_dw(const struct net *net, int line, const struct net_hand *hand,
                 const struct net_dy *dy, const void *x);

/* y = norm(x), rows of C, of the model's kind; again: mean and rstd are known. */
void net_norm(const struct net *net, int which, const struct net_hand *hand, void *y,
              const struct net_norm_kept *kept, const void *x, int64_t rows, int again);
/* dx += */
void net_norm_backward(const struct net *net, int which, const struct net_hand *hand, void *dx,
                       const void *dy, const struct net_norm_kept *kept, const void *x);

/* net_layer.c: documents of net_options.begins. */
typedef void net_document(const struct net *net, int64_t first, int64_t rows, void *arg);
void net_each_document(const struct net *net, net_document *part, void *arg);
/* Reads x (R,C) of layer l from kept[l].x; writes out (R,C), the next visit's x. */
void net_layer_forward(const struct net *net, int64_t layer, const void *params, void *out);
/* Replaces dx by the gradient of the layer's x, if an earlier tensor trains. */
void net_layer_backward(const struct net *net, int64_t layer, const void *params, float *grads);

/* net_graph.c */
void net_graph_init(struct net *net);
void net_graph_release(struct net *net);
/* net_layer_forward or _backward, by its graph if there is one. */
void net_graph_layer(struct net *net, int64_t layer, const void *params, float *grads,
                     int back);
#endif
