/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Describes forward and backward of causal grouped-query attention as operation graphs of
 * cuDNN's backend interface (developer guide, "attention"; Dao 2023 for the engines'
 * algorithm). Leaves the choice of engines, and running them, to kern_cudnn.c.
 *
 *     s = q k^T / sqrt(d), masked        p = exp(s - lse)    dv = p^T do
 *     lse = log of sum of exp(s)         delta = rows of (do * o), summed
 *     o = exp(s - lse) v                 ds = p * (do v^T - delta) / sqrt(d)
 *                                        dk = ds^T q         dq = ds k
 *
 * All tensors have four dimensions, (batch, heads, rows, columns).  Queries, keys and values
 * are views into the packed rows: head_dim apart from head to head, a row's length from token
 * to token.  The engines want k (and in the backward pass v) as transposed views.  With fewer
 * kv_heads than heads the products broadcast them, and dk and dv of all heads are reduced to
 * kv_heads.  Only inputs and outputs are real tensors: the others are virtual and live in
 * registers.
 */
#include "kern/kern_cudnn_graph.h"

#include <assert.h>
#include <stdio.h>

typedef cudnnBackendDescriptor_t desc;

int graph_err(struct err *err, cudnnStatus_t status, const char *what)
{
    char words[512] = "";
    /* Status 3000 to 3999: not supported. */
    enum err_code code = status / 1000 == 3 ? ERR_ABSENT : ERR_DEVICE;

    cudnnGetLastErrorString(words, sizeof words);
    return err_set(err, code, "cuDNN: %s: %s%s%s", what, cudnnGetErrorString(status),
                   *words ? ": " : "", words);
}

void graph_init(struct graph *g, const struct kern_heads *heads, struct err *err)
{
    *g = (struct graph){.name = GRAPH_NAMES,
                        .heads = *heads,
                        .row = (heads->heads + 2 * heads->kv_heads) * heads->head_dim,
                        .out_row = heads->heads * heads->head_dim,
                        .err = err};
}

void graph_release(struct graph *g)
{
    while (g->n_kept > 0)
        cudnnBackendDestroyDescriptor(g->kept[--g->n_kept]);
}

static void cudnn_graph_check(struct graph *g, cudnnStatus_t status, const char *what)
{
    if (status == CUDNN_STATUS_SUCCESS || g->failed)
        return;
    g->failed = 1;
    graph_err(g->err, status, what);
}

desc graph_make(struct graph *g, cudnnBackendDescriptorType_t type)
{
    desc d = NULL;

    assert(g->n_kept < GRAPH_DESCRIPTORS);
    if (g->failed)
        return NULL;
    cudnn_graph_check(g, cudnnBackendCreateDescriptor(type, &d), "a descriptor");
    if (d)
        g->kept[g->n_kept++] = d;
    return d;
}

void graph_tell(struct graph *g, desc d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t n, const void *value)
{
    char what[48];

    if (g->failed)
        return;
    snprintf(what, sizeof what, "attribute %d of a descriptor", (int)name);
    cudnn_graph_check(g, cudnnBackendSetAttribute(d, name, type, n, value), what);
}

void graph_close(struct graph *g, desc d, const char *what)
{
    if (!g->failed)
        cudnn_graph_check(g, cudnnBackendFinalize(d), what);
}

static void tell_desc(struct graph *g, desc d, cudnnBackendAttributeName_t name, desc value)
{
    graph_tell(g, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void cudnn_graph_add_op(struct graph *g, desc d, const char *what)
{
    assert(g->n_ops < GRAPH_OPS);
    graph_close(g, d, what);
    g->op[g->n_ops++] = d;
}

/* Shapes and strides in elements; strides of 0 are not used. */
struct shape {
    int64_t dim[4], stride[4];
};

enum kind { REAL, WITHIN, SCALAR };

static desc tensor(struct graph *g, int64_t name, enum kind kind, cudnnDataType_t type,
                   struct shape shape)
{
    desc d = graph_make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    /* heads begin at multiples of 16 bytes */
    int64_t align = type == CUDNN_DATA_BFLOAT16 ? 16 : 4;
    unsigned char yes = 1;

    if (kind == REAL)
        align = 16;
    graph_tell(g, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    graph_tell(g, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, shape.dim);
    graph_tell(g, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, shape.stride);
    graph_tell(g, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &name);
    graph_tell(g, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &align);
    if (kind == WITHIN)
        graph_tell(g, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes);
    if (kind == SCALAR)
        graph_tell(g, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes);
    graph_close(g, d, "a tensor");
    return d;
}

static desc within(struct graph *g, cudnnDataType_t type, struct shape shape)
{
    return tensor(g, g->name++, WITHIN, type, shape);
}

static desc scalar(struct graph *g, int64_t name)
{
    struct shape one = {{1, 1, 1, 1}, {1, 1, 1, 1}};

    return tensor(g, name, SCALAR, CUDNN_DATA_FLOAT, one);
}

/* rows x columns a head, contiguous: for tensors inside the graph. */
static struct shape cudnn_graph_plain(const struct graph *g, int64_t rows, int64_t columns)
{
    int64_t h = g->heads.heads, mat = rows * columns;

    return (struct shape){{g->heads.batch, h, rows, columns}, {h * mat, mat, columns, 1}};
}

/* heads of head_dim in rows of `row` elements. */
static struct shape packed(const struct graph *g, int64_t heads, int64_t row)
{
    int64_t T = g->heads.seq, d = g->heads.head_dim;

    return (struct shape){{g->heads.batch, heads, T, d}, {T * row, d, row, 1}};
}

static struct shape transposed(struct shape s)
{
    struct shape t = s;

    t.dim[2] = s.dim[3];
    t.dim[3] = s.dim[2];
    t.stride[2] = s.stride[3];
    t.stride[3] = s.stride[2];
    return t;
}

static void cudnn_graph_product(struct graph *g, desc a, desc b, desc c)
{
    desc how = graph_make(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    desc op = graph_make(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    cudnnDataType_t f32 = CUDNN_DATA_FLOAT;

    graph_tell(g, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &f32);
    graph_close(g, how, "a product's type");
    tell_desc(g, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    tell_desc(g, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    tell_desc(g, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    tell_desc(g, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    cudnn_graph_add_op(g, op, "a product");
}

static void reduce(struct graph *g, cudnnReduceTensorOp_t by, desc x, desc y)
{
    desc how = graph_make(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    desc op = graph_make(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    cudnnDataType_t f32 = CUDNN_DATA_FLOAT;

    graph_tell(g, how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &f32);
    graph_tell(g, how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1,
               &by);
    graph_close(g, how, "a reduction's type");
    tell_desc(g, op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    tell_desc(g, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    tell_desc(g, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    cudnn_graph_add_op(g, op, "a reduction");
}

static void reshape(struct graph *g, desc x, desc y)
{
    desc op = graph_make(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);

    tell_desc(g, op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    tell_desc(g, op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    cudnn_graph_add_op(g, op, "a reshape");
}

/* y = mode(x, b, t); b and t NULL if mode has fewer operands; axis for GEN_INDEX, else -1. */
static void each(struct graph *g, cudnnPointwiseMode_t mode, desc x, desc b, desc t, desc y,
                 int64_t axis)
{
    desc how = graph_make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    desc op = graph_make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    cudnnDataType_t type =
        mode == CUDNN_POINTWISE_CMP_GE ? CUDNN_DATA_BOOLEAN : CUDNN_DATA_FLOAT;
    float one = 1;

    graph_tell(g, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    graph_tell(g, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type);
    if (axis >= 0)
        graph_tell(g, how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
    graph_close(g, how, "an elementwise type");
    tell_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    tell_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    tell_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    if (b)
        tell_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    if (t)
        tell_desc(g, op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t);
    graph_tell(g, op, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, CUDNN_TYPE_FLOAT, 1, &one);
    graph_tell(g, op, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, CUDNN_TYPE_FLOAT, 1, &one);
    cudnn_graph_add_op(g, op, "an elementwise operation");
}

/* A new f32 tensor of that shape: mode(x, b). */
static desc fresh(struct graph *g, cudnnPointwiseMode_t mode, desc x, desc b,
                  struct shape shape)
{
    desc y = within(g, CUDNN_DATA_FLOAT, shape);

    each(g, mode, x, b, NULL, y, -1);
    return y;
}

/* Replaces the scores of keys after their query's position by `minus`. */
static desc causal(struct graph *g, desc s, struct shape square)
{
    desc row = within(g, CUDNN_DATA_INT32, square),
         column = within(g, CUDNN_DATA_INT32, square);
    desc seen = within(g, CUDNN_DATA_BOOLEAN, square);
    desc y = within(g, CUDNN_DATA_FLOAT, square);

    each(g, CUDNN_POINTWISE_GEN_INDEX, s, NULL, NULL, row, 2);
    each(g, CUDNN_POINTWISE_GEN_INDEX, s, NULL, NULL, column, 3);
    each(g, CUDNN_POINTWISE_CMP_GE, row, column, NULL, seen, -1);
    each(g, CUDNN_POINTWISE_BINARY_SELECT, s, scalar(g, GRAPH_MINUS), seen, y, -1);
    return y;
}

int graph_forward(struct graph *g)
{
    const struct kern_heads *h = &g->heads;
    const cudnnDataType_t bf16 = CUDNN_DATA_BFLOAT16, f32 = CUDNN_DATA_FLOAT;
    struct shape square = cudnn_graph_plain(g, h->seq, h->seq),
                 rows = cudnn_graph_plain(g, h->seq, 1);
    struct shape kv = packed(g, h->kv_heads, g->row);
    desc q = tensor(g, GRAPH_Q, REAL, bf16, packed(g, h->heads, g->row));
    desc k = tensor(g, GRAPH_K, REAL, bf16, transposed(kv));
    desc v = tensor(g, GRAPH_V, REAL, bf16, kv);
    desc o = tensor(g, GRAPH_O, REAL, bf16, packed(g, h->heads, g->out_row));
    desc lse = tensor(g, GRAPH_LSE, REAL, f32, rows);
    desc s = within(g, f32, square), most = within(g, f32, rows), sum = within(g, f32, rows);
    desc p = within(g, bf16, square);

    cudnn_graph_product(g, q, k, s);
    s = fresh(g, CUDNN_POINTWISE_MUL, s, scalar(g, GRAPH_SCALE), square);
    s = causal(g, s, square);
    reduce(g, CUDNN_REDUCE_TENSOR_MAX, s, most);
    s = fresh(g, CUDNN_POINTWISE_SUB, s, most, square);
    s = fresh(g, CUDNN_POINTWISE_EXP, s, NULL, square);
    reduce(g, CUDNN_REDUCE_TENSOR_ADD, s, sum);
    each(g, CUDNN_POINTWISE_ADD, most, fresh(g, CUDNN_POINTWISE_LOG, sum, NULL, rows), NULL,
         lse, -1);
    each(g, CUDNN_POINTWISE_DIV, s, sum, NULL, p, -1);
    cudnn_graph_product(g, p, v, o);
    return g->failed ? -1 : 0;
}

/* dk or dv: square^T by x, summed over the heads that share a key's head. */
static void key_gradient(struct graph *g, desc square, desc x, int64_t name, struct shape kv)
{
    const struct kern_heads *h = &g->heads;
    const cudnnDataType_t bf16 = CUDNN_DATA_BFLOAT16;
    desc t = within(g, bf16, transposed(cudnn_graph_plain(g, h->seq, h->seq)));
    desc y = tensor(g, name, REAL, bf16, kv), all;

    reshape(g, square, t);
    if (h->heads == h->kv_heads) {
        cudnn_graph_product(g, t, x, y);
        return;
    }
    all = within(g, bf16, cudnn_graph_plain(g, h->seq, h->head_dim));
    cudnn_graph_product(g, t, x, all);
    reduce(g, CUDNN_REDUCE_TENSOR_ADD, all, y);
}

/* dq = ds k; k is a transposed view, which is transposed back. */
static void query_gradient(struct graph *g, desc ds, desc k)
{
    const struct kern_heads *h = &g->heads;
    desc dq = tensor(g, GRAPH_DQ, REAL, CUDNN_DATA_BFLOAT16, packed(g, h->heads, g->row));
    desc back = within(g, CUDNN_DATA_BFLOAT16, packed(g, h->kv_heads, g->row)), sum;

    reshape(g, k, back);
    sum = tensor(g, GRAPH_DQ_SUM, REAL, CUDNN_DATA_FLOAT,
                 cudnn_graph_plain(g, h->seq, h->head_dim));
    cudnn_graph_product(g, ds, back, sum);
    each(g, CUDNN_POINTWISE_IDENTITY, sum, NULL, NULL, dq, -1);
}

int graph_backward(struct graph *g)
{
    const struct kern_heads *h = &g->heads;
    const cudnnDataType_t bf16 = CUDNN_DATA_BFLOAT16, f32 = CUDNN_DATA_FLOAT;
    struct shape square = cudnn_graph_plain(g, h->seq, h->seq),
                 rows = cudnn_graph_plain(g, h->seq, 1);
    struct shape kv = packed(g, h->kv_heads, g->row);
    struct shape heads = packed(g, h->heads, g->out_row);
    desc q = tensor(g, GRAPH_Q, REAL, bf16, packed(g, h->heads, g->row));
    desc k = tensor(g, GRAPH_K, REAL, bf16, transposed(kv));
    desc v = tensor(g, GRAPH_V, REAL, bf16, transposed(kv));
    desc o = tensor(g, GRAPH_O, REAL, bf16, heads),
         dout = tensor(g, GRAPH_DO, REAL, bf16, heads);
    desc lse = tensor(g, GRAPH_LSE, REAL, f32, rows), scale = scalar(g, GRAPH_SCALE);
    desc sum = within(g, f32, rows), delta = tensor(g, GRAPH_DELTA, REAL, f32, rows);
    desc s = within(g, f32, square), dp = within(g, f32, square), p, ds;

    ds = fresh(g, CUDNN_POINTWISE_MUL, dout, o, cudnn_graph_plain(g, h->seq, h->head_dim));
    reduce(g, CUDNN_REDUCE_TENSOR_ADD, ds, sum);
    /* Multiplies by 1: the engines expect the scale of dropout here. */
    each(g, CUDNN_POINTWISE_MUL, sum, scalar(g, GRAPH_ONE), NULL, delta, -1);

    cudnn_graph_product(g, q, k, s);
    s = fresh(g, CUDNN_POINTWISE_MUL, s, scale, square);
    s = fresh(g, CUDNN_POINTWISE_SUB, s, lse, square);
    p = fresh(g, CUDNN_POINTWISE_EXP, causal(g, s, square), NULL, square);
    key_gradient(g, p, dout, GRAPH_DV, kv);

    cudnn_graph_product(g, dout, v, dp);
    ds = fresh(g, CUDNN_POINTWISE_SUB, dp, delta, square);
    ds = fresh(g, CUDNN_POINTWISE_MUL, ds, p, square);
    ds = fresh(g, CUDNN_POINTWISE_MUL, ds, scale, square);
    key_gradient(g, ds, q, GRAPH_DK, kv);
    query_gradient(g, ds, k);
    return g->failed ? -1 : 0;
}
