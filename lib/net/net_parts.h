/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NET_NET_PARTS_H
#define NET_NET_PARTS_H

#include "net/net_shape.h"

/* State shared by the files of net/: a step's, besides the description in net_shape.h.  void *:
   of the type of activations (k->act), or, of parameters, of weights (k->weight). */

struct net_norm_kept {
    float *mean, *rstd; /* (R); mean NULL for RMS */
};

/* Arrays that the forward of a layer leaves for its backward.  Normalised rows and the input of
   DOWN are computed again.  With recompute all but x is one layer's at a time. */
struct net_layer_kept {
    void *x, *x_mid; /* (R,C) before attention, before the feed-forward */
    struct net_norm_kept norm[NET_NORMS];
    /* Inputs of norms from NET_Q on: (R, heads D), (R, kv_heads D), (R,C), (R,C). */
    void *raw[NET_NORMS];
    void *qkv;  /* (R,Q) queries and keys turned; (T,Q) where there is a window */
    void *att;  /* (R, heads D); scratch of the norms before and after its use */
    float *lse; /* (batch, heads, seq) */
    void *ffn;  /* (R,F), of gate and up (R,2F) */
};

/* One layer, forward or back, with what it is handed: */
struct net_graph {
    const void *params;
    float *grads;
    int64_t kern_bytes;         /* memory of the kernels' own, which it names: kern.bytes */
    int asked;                  /* the rest is known: it was asked for once */
    struct device_graph *graph; /* owned; NULL: directly */
};

struct net_graph_table {
    int on;               /* 0 where there are none (any more) */
    struct net_graph *at; /* [together][layers][2][places], owned */
    int64_t written, runs;
    struct err refused;
};

/* The state of a micro-batch under way. */
struct net_micro {
    struct net_layer_kept *kept; /* [layers]; what they point at lies in the arena */
    struct kern_tokens tokens;
    void *tokens_space, *x_last, *dx;
    int32_t *begins; /* (B,T), owned: a copy where there are several; else NULL */
};

struct net_buffers {
    struct net_shape shape;  /* shape.at owned */
    struct net_micro *micro; /* [together], owned, with the first one's kept */
    int using;               /* the one whose these are: */
    struct net_layer_kept *kept;
    struct kern_tokens tokens;
    void *tokens_space;
    void *x_last; /* (R,C) */
    void *dx;     /* (R,C) gradient of what the visit gave out */
    const int32_t *begins;
    /* Between and within visits, the same for every layer and micro-batch. */
    struct kern_heads heads;
    float *rope[MODEL_ROPES]; /* (seq, rotary); NULL without */
    struct net_norm_kept norm_last;
    void *logits;      /* (R,V), their gradients */
    void *h, *dh;      /* (R,C) normalised rows, their gradient */
    void *dafter;      /* (R,C) of what OUT or DOWN gives, where a norm follows */
    void *act;         /* (R,F) what enters DOWN, its gradient */
    void *dqkv, *datt; /* (R,Q), (R, heads D) */
    void *scores;      /* attention_bytes */
    void *low, *dlow;  /* (R, rank) alpha / rank x A^T; its gradient, times the same */
    /* Operands rounded to the type of products where they are of another; as large as any. */
    void *x_space, *dy_space, *w_space, *low_space, *dlow_space;
    float *whole; /* a sparse weight, or the gradient of one, as a dense one: the largest */
    /* Places of a sparse weight, where products go by them; else NULL. */
    int32_t *place_start, *place_column;
    float *places_space;
    struct net_graph_table graphs;
};

/* net_place.c: all but the products, and the arrays. */
void net_lay_out(struct net *net, const struct model *m, const struct net_options *o);
void net_place_arrays(struct net *net, struct arena *arena);
void net_release_arrays(struct net *net);
int net_together(const struct net *net);
int64_t net_rows(const struct net *net, enum net_stage_name stage);
/* Bytes of n elements of activations. */
int64_t net_act_bytes(const struct net *net, int64_t n);
/* Elements between rows of an operand, of a weight, as products find it; columns of the weight
   as it is stored. */
int64_t net_operand_ld(const struct net *net, int64_t columns);
int64_t net_weight_ld(const struct net *net, int64_t columns);
int64_t net_stored(const struct net *net, const struct net_line *l);
/* A tensor of the unit at hand. */
const void *net_w(const struct net *net, const struct net_hand *hand, int64_t offset);

/*
 * net_sparse.c: the products of a line by the places of its sparse weight.  0: it has none, or
 * too many are active.  y += from (NULL: 0) + bias (NULL: 0); dw is ADDED to.
 */
int net_sparse_y(const struct net *net, const struct net_hand *hand, int line, const void *x,
                 const void *from, const void *bias, void *y);
int net_sparse_dx(const struct net *net, const struct net_hand *hand, int line, const void *dy,
                  void *dx);
int net_sparse_dw(const struct net *net, const struct net_hand *hand, int line, const void *dy,
                  const void *x, float *dw);
/* A line's sparse weight made whole; with dw, of the gradient of a whole one that stands there
   what the active entries have, ADDED to dw. */
float *net_sparse_whole(const struct net *net, const struct net_hand *hand, int line,
                        float *dw);

int net_linear_init(struct net *net, struct err *err);
void net_linear_release(struct net *net);

/* A gradient of rows (rows,ld), and what products take of it: itself, or rounded. */
struct net_dy {
    const void *act;
    const void *operand;
};
/* x (rows, columns) itself, or rounded into the room. */
const void *net_operand(const struct net *net, const void *x, int64_t rows, int64_t columns,
                        void *space);
/* y = x W^T + bias + adapter of all lines of a stage, + from where the stage adds. */
void net_stage_forward(const struct net *net, enum net_stage_name stage,
                       const struct net_hand *hand, const void *x, const void *from, void *y);
/* All lines' gradients; dx, written, may be NULL.  x NULL: net_stage_needs_x says no. */
void net_stage_backward(const struct net *net, enum net_stage_name stage,
                        const struct net_hand *hand, const void *dy, const void *x, void *dx);
int net_stage_needs_x(const struct net *net, enum net_stage_name stage,
                      const struct net_hand *hand);
/* The halves of a backward, of one line: what is given down first, then its own gradients. */
void net_line_dx(const struct net *net, int line, const struct net_hand *hand,
                 const struct net_dy *dy, void *dx);
void net_line_dw(const struct net *net, int line, const struct net_hand *hand,
                 const struct net_dy *dy, const void *x);

/* y = norm(x), rows of C, by the model's kind; again: what is kept is known. */
void net_norm(const struct net *net, int which, const struct net_hand *hand, void *y,
              const struct net_norm_kept *kept, const void *x, int64_t rows, int again);
/* dx += */
void net_norm_backward(const struct net *net, int which, const struct net_hand *hand, void *dx,
                       const void *dy, const struct net_norm_kept *kept, const void *x);

/* net_layer.c: documents of net_options.begins. */
typedef void net_document(const struct net *net, int64_t first, int64_t rows, void *arg);
void net_each_document(const struct net *net, net_document *part, void *arg);
/* x (R,C) of layer l in kept[l].x; out (R,C) is the x of what follows. */
void net_layer_forward(const struct net *net, int64_t layer, const void *params, void *out);
/* dx becomes the gradient of the layer's x, where anything before it trains. */
void net_layer_backward(const struct net *net, int64_t layer, const void *params, float *grads);

/* net_graph.c */
void net_graph_init(struct net *net);
void net_graph_release(struct net *net);
/* net_layer_forward or _backward, by the graph of that where there is one. */
void net_graph_layer(struct net *net, int64_t layer, const void *params, float *grads,
                     int back);
#endif
