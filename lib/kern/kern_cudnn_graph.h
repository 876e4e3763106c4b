/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_CUDNN_GRAPH_H
#define KERN_KERN_CUDNN_GRAPH_H

#include <cudnn.h>

#include "base/err.h"
#include "kern/kern_cpu.h"

/*
 * Describes attention to cuDNN: a graph of products, reductions and elementwise operations, in
 * which its fused engines recognise the whole.  Inside kern_cudnn*.c alone.
 */

/* The numbers by which a run names a graph's pointers, those that it reads and writes. */
enum {
    GRAPH_Q = 1,
    GRAPH_K,
    GRAPH_V,
    GRAPH_O,
    GRAPH_LSE,
    GRAPH_DO,
    GRAPH_DQ,
    GRAPH_DK,
    GRAPH_DV,
    GRAPH_DELTA,  /* f32 (batch, heads, seq): sum of dout * out over a row */
    GRAPH_DQ_SUM, /* f32 (batch, heads, seq, head_dim): where atomic additions sum dq */
    GRAPH_SCALE,  /* of the host: 1 / sqrt(head_dim) */
    GRAPH_MINUS,  /* of the host: what a masked score is */
    GRAPH_ONE,    /* of the host */
    GRAPH_NAMES   /* names of what exists within a graph alone follow */
};

enum { GRAPH_DESCRIPTORS = 384, GRAPH_OPS = 40 };

/* Descriptors are kept until graph_release: a plan may refer to them. */
struct graph {
    cudnnBackendDescriptor_t kept[GRAPH_DESCRIPTORS], op[GRAPH_OPS];
    int n_kept, n_ops;
    int64_t name; /* of the next tensor within */
    struct kern_heads heads;
    int64_t row, out_row; /* of qkv and of out, all heads of them */
    int failed;
    struct err *err; /* says why it failed, once */
};

/* Empty; err is where the first failure is reported. */
void graph_init(struct graph *g, const struct kern_heads *heads, struct err *err);
void graph_release(struct graph *g);

/* Operations, in g->op.  dq is summed over blocks of keys in GRAPH_DQ_SUM. */
int graph_forward(struct graph *g);
int graph_backward(struct graph *g);

/*
 * The steps that every descriptor goes through: made, told, closed.  After a failure they do
 * nothing; a descriptor may then be NULL.
 */
cudnnBackendDescriptor_t graph_make(struct graph *g, cudnnBackendDescriptorType_t type);
void graph_tell(struct graph *g, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t n, const void *value);
void graph_close(struct graph *g, cudnnBackendDescriptor_t d, const char *what);

/* Status and the library's own words, ERR_ABSENT where it does not support what was asked. */
int graph_err(struct err *err, cudnnStatus_t status, const char *what);

#endif
