/* SPDX-License-Identifier: BSD-3-Clause */
/* Products as cuBLASLt means them: D = alpha op(A) op(B) + beta C (+ bias, one for each row of
 * D), column-major.  Plain loops over operands that were packed to f32.  What paro does not use
 * is refused. */
#include <cublasLt.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "late.h"

enum { ALGOS = 3, WORKSPACE = 64 << 10 };

struct cublasLtContext {
    int nothing;
};

struct cublasLtMatrixLayout {
    cudaDataType type;
    uint64_t rows, cols;
    int64_t ld;
};

struct cublasLtMatmulDesc {
    cublasOperation_t ta, tb;
    cublasLtEpilogue_t epilogue;
    const void *bias;
    int bias_type; /* -1: that of D */
};

struct cublasLtMatmulPreference {
    uint64_t workspace;
    uint32_t align[4];
};

typedef struct cublasLtMatrixLayout layout;

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    static const char *const names[] = {
        [CUBLAS_STATUS_SUCCESS] = "CUBLAS_STATUS_SUCCESS",
        [CUBLAS_STATUS_INVALID_VALUE] = "CUBLAS_STATUS_INVALID_VALUE",
        [CUBLAS_STATUS_EXECUTION_FAILED] = "CUBLAS_STATUS_EXECUTION_FAILED",
        [CUBLAS_STATUS_NOT_SUPPORTED] = "CUBLAS_STATUS_NOT_SUPPORTED"};

    return names[status];
}

static void *take(size_t bytes)
{
    void *p = calloc(1, bytes ? bytes : 1);

    if (!p)
        abort();
    return p;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    *handle = take(sizeof **handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld)
{
    *out = take(sizeof **out);
    **out = (layout){type, rows, cols, ld};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
    free(l);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    *desc = take(sizeof **desc);
    (*desc)->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    (*desc)->bias_type = -1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    free(desc);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attr,
                                              const void *value, size_t bytes)
{
    int32_t number = 0;

    if (bytes != (attr == CUBLASLT_MATMUL_DESC_BIAS_POINTER ? sizeof(void *) : sizeof number))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (attr == CUBLASLT_MATMUL_DESC_BIAS_POINTER) {
        memcpy(&desc->bias, value, bytes);
        return CUBLAS_STATUS_SUCCESS;
    }
    memcpy(&number, value, bytes);
    if (attr == CUBLASLT_MATMUL_DESC_TRANSA)
        desc->ta = (cublasOperation_t)number;
    else if (attr == CUBLASLT_MATMUL_DESC_TRANSB)
        desc->tb = (cublasOperation_t)number;
    else if (attr == CUBLASLT_MATMUL_DESC_EPILOGUE)
        desc->epilogue = (cublasLtEpilogue_t)number;
    else
        desc->bias_type = number;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *pref)
{
    *pref = take(sizeof **pref);
    for (int i = 0; i < 4; i++)
        (*pref)->align[i] = 256;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t pref)
{
    free(pref);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t pref,
                                                    cublasLtMatmulPreferenceAttributes_t attr,
                                                    const void *value, size_t bytes)
{
    int i = (int)attr - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;

    if (attr == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES && bytes == sizeof pref->workspace)
        memcpy(&pref->workspace, value, bytes);
    else if (i >= 0 && i < 4 && bytes == sizeof *pref->align)
        memcpy(&pref->align[i], value, bytes);
    else
        return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}

/* Rows and columns of op(matrix) are these, and its columns do not overlap. */
static int is(const layout *l, cublasOperation_t op, uint64_t rows, uint64_t cols)
{
    uint64_t r = op == CUBLAS_OP_N ? l->rows : l->cols;
    uint64_t c = op == CUBLAS_OP_N ? l->cols : l->rows;

    return r == rows && c == cols && l->ld >= (int64_t)l->rows;
}

static cublasStatus_t check(const struct cublasLtMatmulDesc *desc, const layout *a,
                            const layout *b, const layout *c, const layout *d)
{
    uint64_t k = desc->ta == CUBLAS_OP_N ? a->cols : a->rows;
    int types = a->type == b->type && c->type == d->type &&
                (a->type == CUDA_R_32F ? d->type == CUDA_R_32F
                                       : a->type == CUDA_R_16BF && d->type != CUDA_R_16F);

    if (!is(a, desc->ta, d->rows, k) || !is(b, desc->tb, k, d->cols) ||
        !is(c, CUBLAS_OP_N, d->rows, d->cols) || d->ld < (int64_t)d->rows || !k || !d->rows ||
        !d->cols)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (desc->epilogue == CUBLASLT_EPILOGUE_BIAS)
        types &= desc->bias_type < 0 || desc->bias_type == (int)d->type;
    else if (desc->epilogue != CUBLASLT_EPILOGUE_DEFAULT)
        types = 0;
    return types ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

/* What an algorithm is good for, in one number. */
static uint64_t mark_of(const struct cublasLtMatmulDesc *desc, const layout *const all[4])
{
    uint64_t mark = (uint64_t)desc->ta + 2 * (uint64_t)desc->tb + 4 * (uint64_t)desc->epilogue;

    for (int i = 0; i < 4; i++) {
        const layout *l = all[i];
        uint64_t of[] = {(uint64_t)l->type, l->rows, l->cols, (uint64_t)l->ld};
        for (int j = 0; j < 4; j++)
            mark = (mark ^ of[j]) * 0x100000001b3u; /* FNV */
    }
    return mark;
}

cublasStatus_t
cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                               cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                               cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                               cublasLtMatmulPreference_t pref, int asked,
                               cublasLtMatmulHeuristicResult_t results[], int *given)
{
    const layout *const all[] = {a, b, c, d};
    cublasStatus_t rc = check(desc, a, b, c, d);

    (void)handle;
    *given = 0;
    for (int i = 0; i < ALGOS && i < asked && rc == CUBLAS_STATUS_SUCCESS; i++) {
        uint64_t workspace = (uint64_t)i * WORKSPACE;
        if (workspace > pref->workspace)
            break;
        cublasLtMatmulHeuristicResult_t *r = &results[(*given)++];
        *r = (cublasLtMatmulHeuristicResult_t){.workspaceSize = workspace, .wavesCount = 1};
        r->algo.data[0] = mark_of(desc, all);
        r->algo.data[1] = workspace;
        for (int j = 0; j < 4; j++)
            r->algo.data[2 + j] = pref->align[j];
    }
    return rc;
}

static float element(const void *p, cudaDataType type, size_t i)
{
    return type == CUDA_R_32F ? ((const float *)p)[i]
                              : dtype_f32_of_bf16(((const uint16_t *)p)[i]);
}

static void put(void *p, cudaDataType type, size_t i, float x)
{
    if (type == CUDA_R_32F)
        ((float *)p)[i] = x;
    else
        ((uint16_t *)p)[i] = dtype_bf16_of_f32(x);
}

/* op(matrix), (rows,cols), as f32, columns one after the other. */
static float *packed(const void *p, const layout *l, cublasOperation_t op)
{
    size_t rows = op == CUBLAS_OP_N ? l->rows : l->cols, ld = (size_t)l->ld;
    size_t cols = op == CUBLAS_OP_N ? l->cols : l->rows;
    float *to = take(rows * cols * sizeof *to);

    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++)
            to[c * rows + r] = element(p, l->type, op == CUBLAS_OP_N ? c * ld + r : r * ld + c);
    return to;
}

/* One product, by value: what it was asked by may be gone when a late stream comes to it. */
struct product {
    struct cublasLtMatmulDesc desc;
    layout al, bl, cl, dl;
    float alpha, beta;
    const void *a, *b, *c;
    void *d, *workspace;
    size_t workspace_bytes;
};

/* The columns of D one by one: sums over k in order, in f32. */
static void multiply(void *arg)
{
    const struct product *p = arg;
    size_t rows = p->dl.rows, k = p->desc.ta == CUBLAS_OP_N ? p->al.cols : p->al.rows;
    float *a = packed(p->a, &p->al, p->desc.ta), *b = packed(p->b, &p->bl, p->desc.tb);
    float *sum = take(rows * sizeof *sum);

    if (p->workspace_bytes)
        memset(p->workspace, 0xff, p->workspace_bytes);
    for (size_t col = 0; col < p->dl.cols; col++) {
        memset(sum, 0, rows * sizeof *sum);
        for (size_t i = 0; i < k; i++)
            for (size_t row = 0; row < rows; row++)
                sum[row] += a[i * rows + row] * b[col * k + i];
        for (size_t row = 0; row < rows; row++) {
            float x = p->alpha * sum[row];
            if (p->beta != 0)
                x += p->beta * element(p->c, p->cl.type, col * (size_t)p->cl.ld + row);
            if (p->desc.epilogue == CUBLASLT_EPILOGUE_BIAS)
                x += element(p->desc.bias, p->dl.type, row);
            put(p->d, p->dl.type, col * (size_t)p->dl.ld + row, x);
        }
    }
    free(a);
    free(b);
    free(sum);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                              const void *alpha, const void *a, cublasLtMatrixLayout_t al,
                              const void *b, cublasLtMatrixLayout_t bl, const void *beta,
                              const void *c, cublasLtMatrixLayout_t cl, void *d,
                              cublasLtMatrixLayout_t dl, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t workspace_bytes, cudaStream_t stream)
{
    const layout *const all[] = {al, bl, cl, dl};
    const void *const at[] = {a, b, c, d};
    cublasStatus_t rc = check(desc, al, bl, cl, dl);

    (void)handle;
    if (rc != CUBLAS_STATUS_SUCCESS)
        return rc;
    if (!algo || algo->data[0] != mark_of(desc, all) || algo->data[1] > workspace_bytes ||
        (desc->epilogue == CUBLASLT_EPILOGUE_BIAS && !desc->bias) ||
        (c == d && cl->ld != dl->ld))
        return CUBLAS_STATUS_INVALID_VALUE;
    for (int i = 0; i < 4; i++)
        if ((uintptr_t)at[i] % algo->data[2 + i])
            return CUBLAS_STATUS_INVALID_VALUE;
    struct product p = {*desc, *al, *bl, *cl, *dl, 0, 0, a, b, c, d, workspace, algo->data[1]};
    memcpy(&p.alpha, alpha, sizeof p.alpha);
    memcpy(&p.beta, beta, sizeof p.beta);
    if (emulated_begin("cublasLtMatmul", stream) != cudaSuccess)
        return CUBLAS_STATUS_EXECUTION_FAILED;
    emulated_do(stream, multiply, &p, sizeof p);
    emulated_end();
    return CUBLAS_STATUS_SUCCESS;
}
