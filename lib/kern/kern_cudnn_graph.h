/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef KERN_KERN_CUDNN_GRAPH_H
#define KERN_KERN_CUDNN_GRAPH_H

#include <cudnn.h>

#include "base/err.h"
#include "kern/kern_cpu.h"

/*
 * Describes attention to cuDNN: a graph of products, reductions and elementwise operations,
 * which its fused engines recognise as a whole.  For kern_cudnn*.c only.
 */

/* Numbers that identify a graph's tensors, read and written, when it runs. */
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
    GRAPH_DQ_SUM, /* f32 (batch, heads, seq, head_dim): dq summed by atomic additions */
    GRAPH_SCALE,  /* host: 1 / sqrt(head_dim) */
    GRAPH_MINUS,  /* host: value of a masked score */
    GRAPH_ONE,    /* host */
    GRAPH_NAMES   /* numbers from here on: virtual tensors inside a graph */
};

enum { GRAPH_DESCRIPTORS = 384, GRAPH_OPS = 40 };

/* Descriptors are kept until graph_release: a plan may refer to them. */
struct graph {
    cudnnBackendDescriptor_t kept[GRAPH_DESCRIPTORS], op[GRAPH_OPS];
    int n_kept, n_ops;
    int64_t name; /* number of the next virtual tensor */
    struct kern_heads heads;
    int64_t row, out_row; /* elements of a row of qkv and of out, with all heads */
    int failed;
    struct err *err; /* reports the first failure */
};

/* Starts an empty graph; err receives its first failure. */
void graph_init(struct graph *g, const struct kern_heads *heads, struct err *err);
void graph_release(struct graph *g);

/* Append operations to g->op.  dq is summed over blocks of keys in GRAPH_DQ_SUM. */
int graph_forward(struct graph *g);
int graph_backward(struct graph *g);

/*
 * Make a descriptor, set an attribute, finalize it.  After a failure they do nothing; a
 * descriptor may then be NULL.
 */
cudnnBackendDescriptor_t graph_make(struct graph *g, cudnnBackendDescriptorType_t type);
void graph_tell(struct graph *g, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t n, const void *value);
void graph_close(struct graph *g, cudnnBackendDescriptor_t d, const char *what);

/* Sets err to status and cuDNN's message: ERR_ABSENT if the request is unsupported. */
int graph_err(struct err *err, cudnnStatus_t status, const char *what);

#endif
