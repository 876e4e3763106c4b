/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NET_NET_SHAPE_H
#define NET_NET_SHAPE_H

#include "kern/kern_product.h"
#include "net/net.h"

/*
 * The structure of a family of models.  R = batch * seq rows, C = hidden, D = head_dim, F =
 * ffn, Q = (heads + 2 kv_heads) D: a row of queries, keys and values; V = vocab.
 *
 * Every family is the same stages; a stage is lines, products with one weight each, that read
 * the same rows.  The family's table (model/model_family.h) holds all differences.
 *
 *     stage   reads                Llama        GPT-2     writes
 *     QKV     norm(x)     (R,C)    q k v        c_attn    columns of qkv (R,Q)
 *     OUT     attention   (R,HD)   o            c_proj    x_mid (R,C), added to x
 *     FFN     norm(x_mid) (R,C)    gate up      c_fc      columns of (R,2F), (R,F)
 *     DOWN    act         (R,F)    down         c_proj    out (R,C), added to x_mid
 *     HEAD    norm(x_last)(R,C)    lm_head      lm_head   logits (R,V)
 *
 * Lines of a stage whose weights are adjacent, in every layer, and differ only in offset are
 * joined into one line: q, k and v, or gate and up, are one product.
 */
enum net_stage_name {
    NET_QKV = MODEL_QKV,
    NET_OUT = MODEL_OUT,
    NET_FFN = MODEL_FFN,
    NET_DOWN = MODEL_DOWN,
    NET_HEAD = MODEL_HEAD,
    NET_STAGES
};
enum { NET_LINES_MAX = 8 };

struct net_stage {
    int first, count; /* lines */
    int64_t in, ld;   /* columns of its input; of its output */
    int add;          /* adds to its output */
};

/* A line's products; the last six are its adapter's. */
enum net_product {
    NET_Y,
    NET_DX,
    NET_DW,
    NET_LOW,
    NET_RISE,
    NET_DLOW,
    NET_DXA,
    NET_DA,
    NET_DB,
    NET_PRODUCTS
};

struct net_line {
    enum net_stage_name stage;
    int module;          /* in the family's table; the first module of joined lines */
    int64_t out, column; /* number of columns; the first one in a row */
    int transposed;      /* its weight is (in, out) */
    int adapted;         /* has an adapter in some layer */
    struct kern_product *product[NET_PRODUCTS]; /* owned */
};

/* Offsets of a visit's tensors in its unit; -1: absent. */
struct net_line_at {
    int64_t w, bias, a, b;
    /* borrowed: the weight, followed by those of joined lines; NULL: not sparse */
    const struct model_tensor *sparse;
};
/* Norms of a layer: before QKV (and the head's), before FFN, of queries, of keys, of the
   outputs of OUT and of DOWN; from NET_Q on each may be absent. */
enum { NET_Q = 2, NET_K, NET_AFTER_OUT, NET_AFTER_DOWN, NET_NORMS };
/* Parts of a layer that can train, in forward order; a head has a norm and one line. */
enum net_part {
    NET_NORM_1,
    NET_P_QKV,
    NET_NORM_HEADS,
    NET_P_OUT,
    NET_NORM_OUT,
    NET_NORM_2,
    NET_P_FFN,
    NET_P_DOWN,
    NET_NORM_DOWN,
    NET_PARTS
};
struct net_at {
    int64_t norm_w[NET_NORMS], norm_b[NET_NORMS];
    struct net_line_at line[NET_LINES_MAX];
    int64_t trained; /* trained elements, which come first in the unit */
    int rope;        /* rotation of queries and keys: model_layer_rope */
    int stop; /* the net_part where the backward ends; -1: it computes its input's gradient */
};

struct net_shape {
    struct net_stage stage[NET_STAGES];
    struct net_line line[NET_LINES_MAX];
    int lines;
    int64_t embed_at, positions_at, embed_trained;
    struct net_at *at; /* [layers + 1], the head's last */
    int floor;         /* the first visit that uses a tensor that trains */
};

/* A unit while a visit uses it. */
struct net_hand {
    const struct net_at *at;
    const void *w;
    float *g; /* gradient; NULL in the forward */
};

/*
 * Fills n; n->at has space for layers + 1.  Asserts that the family's tensors exist.  join:
 * join lines that can be one.  row_elems: the distance of rows of logits is a multiple of it.
 */
void net_shape_read(struct net_shape *n, const struct model *m, int join, int row_elems);
/* Returns the gradient of the tensor at `offset`, or NULL if it is frozen or absent. */
float *net_grad(const struct net_hand *hand, int64_t offset);

#endif
