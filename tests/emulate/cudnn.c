/* SPDX-License-Identifier: BSD-3-Clause */
/* cuDNN's backend interface on a GPU in software: cudnn.h says what it is.  A descriptor is a
 * list of attributes, copied as they are set; a plan is run by walking its graph's operations
 * in their order, each over whole tensors in float, rounded to the type of its result.  Strict
 * where the real one is: attributes that must be there, order of closing, alignment, names that
 * a run must give. */
#include <cudnn.h>
#include <late.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"

enum {
    NAMES = 160,
    GIVEN = 24,
    WORKSPACE = 1000,
    SPACE_ALIGN = 256, /* as kern_cudnn.h promises */
    OF_GRAPH = 1      /* an attribute of its own */
};

struct attribute {
    struct attribute *next;
    int name, type;
    int64_t n;
    char value[];
};

struct descriptor {
    cudnnBackendDescriptorType_t type;
    int closed;
    struct attribute *first;
};

struct cudnnContext {
    cudaStream_t stream;
};

static _Thread_local char words[256];

static cudnnStatus_t refuse(const char *why, int64_t which)
{
    snprintf(words, sizeof words, "emulated: %s %lld", why, (long long)which);
    return CUDNN_STATUS_BAD_PARAM;
}

size_t cudnnGetVersion(void)
{
    return CUDNN_VERSION;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_SUCCESS ? "CUDNN_STATUS_SUCCESS" : "CUDNN_STATUS_BAD_PARAM";
}

void cudnnGetLastErrorString(char *message, size_t most)
{
    snprintf(message, most, "%s", words);
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    const char *there = getenv("EMULATED_CUDNN");

    if (there && !strcmp(there, "0"))
        return CUDNN_STATUS_NOT_INITIALIZED;
    *handle = calloc(1, sizeof **handle);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    free(handle);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *out)
{
    struct descriptor *d = calloc(1, sizeof *d);

    d->type = type;
    *out = d;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d)
{
    struct descriptor *me = d;

    for (struct attribute *a = me->first, *next; a; a = next) {
        next = a->next;
        free(a);
    }
    free(me);
    return CUDNN_STATUS_SUCCESS;
}

static const struct attribute *find(const struct descriptor *d, int name)
{
    const struct attribute *a = d->first;

    while (a && a->name != name)
        a = a->next;
    return a;
}

static int64_t size_of(int type)
{
    switch (type) {
    case CUDNN_TYPE_INT64:
        return 8;
    case CUDNN_TYPE_BOOLEAN:
    case CUDNN_TYPE_CHAR:
        return 1;
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
        return 8;
    default:
        return 4;
    }
}

static void store(struct descriptor *d, int name, int type, int64_t n, const void *values)
{
    int64_t bytes = n * size_of(type);
    struct attribute *a = malloc(sizeof *a + (size_t)bytes);

    *a = (struct attribute){d->first, name, type, n};
    memcpy(a->value, values, (size_t)bytes);
    d->first = a;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t d,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t n,
                                       const void *values)
{
    struct descriptor *me = d, *const *other = values;

    if (!me || me->closed)
        return refuse("no descriptor, or a closed one, for attribute", name);
    for (int64_t i = 0; type == CUDNN_TYPE_BACKEND_DESCRIPTOR && i < n; i++)
        if (!other[i] || !other[i]->closed)
            return refuse("a descriptor that is not closed in attribute", name);
    store(me, name, type, n, values);
    return CUDNN_STATUS_SUCCESS;
}

/* What a descriptor must have been told: its type, then attributes, then -1. */
static const int needs[][8] = {
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_ATTR_TENSOR_DIMENSIONS,
     CUDNN_ATTR_TENSOR_STRIDES, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT,
     -1},
    {CUDNN_BACKEND_MATMUL_DESCRIPTOR, CUDNN_ATTR_MATMUL_COMP_TYPE, -1},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, CUDNN_ATTR_OPERATION_MATMUL_ADESC,
     CUDNN_ATTR_OPERATION_MATMUL_BDESC, CUDNN_ATTR_OPERATION_MATMUL_CDESC,
     CUDNN_ATTR_OPERATION_MATMUL_DESC, -1},
    {CUDNN_BACKEND_REDUCTION_DESCRIPTOR, CUDNN_ATTR_REDUCTION_COMP_TYPE,
     CUDNN_ATTR_REDUCTION_OPERATOR, -1},
    {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, CUDNN_ATTR_OPERATION_REDUCTION_DESC,
     CUDNN_ATTR_OPERATION_REDUCTION_XDESC, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, -1},
    {CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, CUDNN_ATTR_OPERATION_RESHAPE_XDESC,
     CUDNN_ATTR_OPERATION_RESHAPE_YDESC, -1},
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_MODE,
     CUDNN_ATTR_POINTWISE_MATH_PREC, -1},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
     CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, -1},
    {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_OPS, -1},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
     CUDNN_ATTR_ENGINEHEUR_MODE, -1},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
     CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, -1},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
     CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, -1},
};

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t d)
{
    struct descriptor *me = d;

    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        if (needs[i][0] != (int)me->type)
            continue;
        for (int k = 1; needs[i][k] >= 0; k++)
            if (!find(me, needs[i][k]))
                return refuse("a descriptor without attribute", needs[i][k]);
        me->closed = 1;
        return CUDNN_STATUS_SUCCESS;
    }
    snprintf(words, sizeof words, "emulated: no descriptor of type %d", (int)me->type);
    return CUDNN_STATUS_NOT_SUPPORTED;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t d,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t most,
                                       int64_t *n, void *values)
{
    struct descriptor *me = d, **other = values;

    (void)type;
    if (!me->closed || !values || most < 1)
        return refuse("nothing to read of attribute", name);
    *n = 1;
    switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
        store(*other, OF_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
              find(me, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)->value);
        other[0]->closed = 1;
        break;
    case CUDNN_ATTR_ENGINECFG_ENGINE:
        other[0]->closed = 1;
        break;
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
        *(int64_t *)values = 0;
        break;
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
        *(int64_t *)values = WORKSPACE;
        break;
    default:
        *n = 0;
    }
    return CUDNN_STATUS_SUCCESS;
}

/* A run: where the named tensors are, and those that it has made. */
struct tensor {
    int64_t name, dim[4], stride[4], n, align;
    int type, within, scalar;
    float *x; /* contiguous; NULL: not made yet */
};

struct run {
    const int64_t *name;
    void *const *at;
    int64_t given;
    struct tensor made[NAMES];
    int n;
    cudnnStatus_t status;
};

static int64_t number(const struct descriptor *d, int name)
{
    const struct attribute *a = find(d, name);
    int64_t wide = 0;
    int narrow = 0;

    if (!a)
        return 0;
    if (size_of(a->type) == 8)
        memcpy(&wide, a->value, 8);
    else
        memcpy(&narrow, a->value, (size_t)size_of(a->type));
    return size_of(a->type) == 8 ? wide : narrow;
}

static struct descriptor *child(const struct descriptor *d, int name)
{
    const struct attribute *a = find(d, name);
    struct descriptor *c = NULL;

    if (a)
        memcpy(&c, a->value, sizeof c);
    return c;
}

static void fail(struct run *r, const char *why, int64_t which)
{
    if (r->status == CUDNN_STATUS_SUCCESS)
        r->status = refuse(why, which);
}

static char *place(struct run *r, const struct tensor *t)
{
    for (int64_t i = 0; i < r->given; i++) {
        if (r->name[i] != t->name)
            continue;
        if (!r->at[i] || (!t->scalar && (uintptr_t)r->at[i] % (uintptr_t)t->align))
            fail(r, "a bad pointer for tensor", t->name);
        return r->status == CUDNN_STATUS_SUCCESS ? r->at[i] : NULL;
    }
    fail(r, "no pointer for tensor", t->name);
    return NULL;
}

/* The place of element i, counted in the order of dimensions. */
static int64_t offset(const struct tensor *t, int64_t i)
{
    int64_t at = 0;

    for (int k = 3; k >= 0; k--) {
        at += i % t->dim[k] * t->stride[k];
        i /= t->dim[k];
    }
    return at;
}

/* A tensor of the graph; `read`: its elements must be there. */
static struct tensor *tensor(struct run *r, const struct descriptor *d, int read)
{
    int64_t name = number(d, CUDNN_ATTR_TENSOR_UNIQUE_ID);
    struct tensor *t = r->made;
    char *p;

    while (t < r->made + r->n && t->name != name)
        t++;
    if (t == r->made + r->n) {
        if (r->n == NAMES)
            abort();
        r->n++;
        *t = (struct tensor){.name = name, .n = 1};
        t->type = (int)number(d, CUDNN_ATTR_TENSOR_DATA_TYPE);
        t->align = number(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
        t->within = (int)number(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
        t->scalar = (int)number(d, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
        memcpy(t->dim, find(d, CUDNN_ATTR_TENSOR_DIMENSIONS)->value, sizeof t->dim);
        memcpy(t->stride, find(d, CUDNN_ATTR_TENSOR_STRIDES)->value, sizeof t->stride);
        for (int k = 0; k < 4; k++)
            t->n *= t->dim[k];
    }
    if (t->x)
        return t;
    if (read && t->within)
        fail(r, "nobody made tensor", name);
    p = read && !t->within ? place(r, t) : NULL;
    t->x = calloc((size_t)t->n, sizeof *t->x);
    for (int64_t i = 0; p && i < t->n; i++)
        t->x[i] = t->type == CUDNN_DATA_BFLOAT16
                      ? dtype_f32_of_bf16(((uint16_t *)p)[offset(t, i)])
                      : ((float *)p)[offset(t, i)];
    return t;
}

/* Rounds what was made, and puts it where it is wanted. */
static void made(struct run *r, struct tensor *t)
{
    char *p = t->within ? NULL : place(r, t);

    for (int64_t i = 0; i < t->n; i++) {
        uint16_t h = dtype_bf16_of_f32(t->x[i]);

        if (t->type == CUDNN_DATA_BFLOAT16)
            t->x[i] = dtype_f32_of_bf16(h);
        if (p && t->type == CUDNN_DATA_BFLOAT16)
            ((uint16_t *)p)[offset(t, i)] = h;
        else if (p)
            ((float *)p)[offset(t, i)] = t->x[i];
    }
}

/* c = a b for each pair of leading indices; fewer heads of a or b serve several of c. */
static void product(struct run *r, const struct descriptor *op)
{
    struct tensor *a = tensor(r, child(op, CUDNN_ATTR_OPERATION_MATMUL_ADESC), 1);
    struct tensor *b = tensor(r, child(op, CUDNN_ATTR_OPERATION_MATMUL_BDESC), 1);
    struct tensor *c = tensor(r, child(op, CUDNN_ATTR_OPERATION_MATMUL_CDESC), 0);
    int64_t rows = c->dim[2], columns = c->dim[3], K = a->dim[3], heads = c->dim[1];

    if (a->dim[2] != rows || b->dim[3] != columns || b->dim[2] != K || a->dim[0] != c->dim[0] ||
        b->dim[0] != c->dim[0] || heads % a->dim[1] || heads % b->dim[1]) {
        fail(r, "shapes of a product that makes tensor", c->name);
        return;
    }
    for (int64_t m = 0; m < c->dim[0] * heads; m++) {
        int64_t example = m / heads, head = m % heads;
        int64_t am = example * a->dim[1] + head / (heads / a->dim[1]);
        int64_t bm = example * b->dim[1] + head / (heads / b->dim[1]);

        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < columns; j++) {
                double sum = 0;

                for (int64_t k = 0; k < K; k++)
                    sum += (double)a->x[(am * rows + i) * K + k] *
                           (double)b->x[(bm * K + k) * columns + j];
                c->x[(m * rows + i) * columns + j] = (float)sum;
            }
    }
    made(r, c);
}

/* The element of x that stands where element i of y does: dimensions of x divide y's. */
static int64_t under(const struct tensor *y, const struct tensor *x, int64_t i)
{
    int64_t at = 0, step = 1;

    for (int k = 3; k >= 0; k--) {
        at += i % y->dim[k] / (y->dim[k] / x->dim[k]) * step;
        step *= x->dim[k];
        i /= y->dim[k];
    }
    return at;
}

static int divides(const struct tensor *y, const struct tensor *x, int one)
{
    for (int k = 0; k < 4; k++)
        if (y->dim[k] % x->dim[k] || (one && x->dim[k] != 1 && x->dim[k] != y->dim[k]))
            return 0;
    return 1;
}

static void reduction(struct run *r, const struct descriptor *op)
{
    struct tensor *x = tensor(r, child(op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC), 1);
    struct tensor *y = tensor(r, child(op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC), 0);
    int64_t by =
        number(child(op, CUDNN_ATTR_OPERATION_REDUCTION_DESC), CUDNN_ATTR_REDUCTION_OPERATOR);

    if (!divides(x, y, 0)) {
        fail(r, "shapes of a reduction that makes tensor", y->name);
        return;
    }
    for (int64_t i = 0; i < y->n; i++)
        y->x[i] = by == CUDNN_REDUCE_TENSOR_MAX ? -INFINITY : 0;
    for (int64_t i = 0; i < x->n; i++) {
        float *to = y->x + under(x, y, i);

        *to = by == CUDNN_REDUCE_TENSOR_MAX ? fmaxf(*to, x->x[i]) : *to + x->x[i];
    }
    made(r, y);
}

/* The same memory seen with other dimensions and strides. */
static void reshape(struct run *r, const struct descriptor *op)
{
    struct tensor *x = tensor(r, child(op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC), 1);
    struct tensor *y = tensor(r, child(op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC), 0);
    int64_t last = offset(x, x->n - 1);
    float *image = calloc((size_t)last + 1, sizeof *image);

    for (int64_t i = 0; i < x->n; i++)
        image[offset(x, i)] = x->x[i];
    if (y->n != x->n || offset(y, y->n - 1) != last)
        fail(r, "shapes of a reshape that makes tensor", y->name);
    for (int64_t i = 0; i < y->n && r->status == CUDNN_STATUS_SUCCESS; i++)
        y->x[i] = image[offset(y, i)];
    free(image);
    made(r, y);
}

static float computed(int mode, float x, float b, float t)
{
    switch (mode) {
    case CUDNN_POINTWISE_ADD:
        return x + b;
    case CUDNN_POINTWISE_SUB:
        return x - b;
    case CUDNN_POINTWISE_MUL:
        return x * b;
    case CUDNN_POINTWISE_DIV:
        return x / b;
    case CUDNN_POINTWISE_EXP:
        return expf(x);
    case CUDNN_POINTWISE_LOG:
        return logf(x);
    case CUDNN_POINTWISE_IDENTITY:
        return x;
    case CUDNN_POINTWISE_CMP_GE:
        return x >= b;
    case CUDNN_POINTWISE_BINARY_SELECT:
        return t != 0 ? x : b;
    default:
        abort();
    }
}

static void pointwise(struct run *r, const struct descriptor *op)
{
    struct descriptor *bd = child(op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    struct descriptor *td = child(op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
    struct descriptor *how = child(op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    struct tensor *x = tensor(r, child(op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC), 1);
    struct tensor *y = tensor(r, child(op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC), 0);
    struct tensor *b = bd ? tensor(r, bd, 1) : NULL, *t = td ? tensor(r, td, 1) : NULL;
    int mode = (int)number(how, CUDNN_ATTR_POINTWISE_MODE);
    int64_t axis = number(how, CUDNN_ATTR_POINTWISE_AXIS), step = 1;

    if (!divides(y, x, 1) || (b && !divides(y, b, 1)) || (t && !divides(y, t, 1))) {
        fail(r, "shapes of what makes tensor", y->name);
        return;
    }
    for (int k = 3; k > axis; k--)
        step *= y->dim[k];
    for (int64_t i = 0; i < y->n; i++)
        y->x[i] = mode == CUDNN_POINTWISE_GEN_INDEX
                      ? (float)(i / step % y->dim[axis])
                      : computed(mode, x->x[under(y, x, i)], b ? b->x[under(y, b, i)] : 0,
                                 t ? t->x[under(y, t, i)] : 0);
    made(r, y);
}

static void operation(struct run *r, const struct descriptor *op)
{
    switch (op->type) {
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        product(r, op);
        break;
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        reduction(r, op);
        break;
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
        reshape(r, op);
        break;
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        pointwise(r, op);
        break;
    default:
        fail(r, "an operation of type", op->type);
    }
}

/* What a run needs of a plan and a pack, which may be gone when it is done late. */
struct ask {
    const struct attribute *ops;
    int64_t name[GIVEN], given;
    void *at[GIVEN], *space;
    cudnnStatus_t *status; /* NULL: nobody waits for it */
};

static void execute(void *arg)
{
    const struct ask *ask = arg;
    struct run *r = calloc(1, sizeof *r);

    r->name = ask->name;
    r->at = ask->at;
    r->given = ask->given;
    memset(ask->space, 0xff, WORKSPACE);
    for (int64_t i = 0; i < ask->ops->n && r->status == CUDNN_STATUS_SUCCESS; i++)
        operation(r, ((struct descriptor *const *)ask->ops->value)[i]);
    for (int i = 0; i < r->n; i++)
        free(r->made[i].x);
    if (ask->status)
        *ask->status = r->status;
    else if (r->status != CUDNN_STATUS_SUCCESS)
        abort();
    free(r);
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack)
{
    const struct descriptor *config = child(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    const struct attribute *name = find(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    const struct attribute *at = find(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
    const struct attribute *space = find(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    struct ask ask = {.ops = find(child(config, OF_GRAPH), CUDNN_ATTR_OPERATIONGRAPH_OPS)};

    if (!space || name->n > GIVEN || name->n != at->n)
        return refuse("a pack of tensors without room, or of", name->n);
    ask.given = name->n;
    memcpy(ask.name, name->value, (size_t)name->n * sizeof *ask.name);
    memcpy(ask.at, at->value, (size_t)at->n * sizeof *ask.at);
    memcpy(&ask.space, space->value, sizeof ask.space);
    if ((uintptr_t)ask.space % SPACE_ALIGN)
        return refuse("a workspace beside a multiple of", SPACE_ALIGN);
    ask.status = emulated_is_late() ? NULL : &status;
    if (emulated_begin("cudnnBackendExecute", handle->stream) != cudaSuccess)
        return CUDNN_STATUS_EXECUTION_FAILED;
    emulated_do(handle->stream, execute, &ask, sizeof ask);
    emulated_end();
    return status;
}
