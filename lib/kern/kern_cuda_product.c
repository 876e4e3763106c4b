/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prepares and runs products over cuBLASLt, which is column-major: it sees a row-major matrix
 * as its transpose, so the request is
 *
 *     c^T (n,m) = op(b)^T (n,k) op(a)^T (k,m)       its A is our b, its B is our a
 *
 * with the ops unchanged: a matrix that is not transposed here is transposed twice there.  A
 * bias along n is then one number for each of its rows, as its epilogue expects.
 *
 * The algorithm is queried once for each alignment of a product's operands, as pointers may be
 * to any column, and kept: the heuristic's first, the same in every run.  (The fastest of eight
 * by trial was no faster: 0.2 % of a step of GPT-2 124M, none of Llama 1.1B, one H200.)
 *
 * If a matrix's rows are no multiple of 16 bytes, cuBLASLt falls back to kernels that load and
 * store elements one by one, as with GPT-2's vocabulary of 50257.  Such a product is split into
 * two: the whole packs, and the few columns after them.
 */
#include <assert.h>
#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "kern/kern_cuda.h"
#include "kern/kern_cuda_inside.h"

enum {
    ALIGN_MOST = 16, /* largest alignment that algorithms use */
    CHOICES = 16,    /* alignments kept for a product; further ones replace these in turn */
    PACKS_LEAST = 32 /* shorter rows are not worth a product of their own */
};

struct choice {
    uint32_t align[5]; /* A, B, C, D; bias, 0: none */
    cublasLtMatmulAlgo_t algo;
};

struct cuda_product {
    struct kern_product_shape shape;
    /* If split: the product of whole packs and that of the remainder, and the offsets of the
       latter; other members are then unused. */
    struct cuda_product *packs, *rest;
    int64_t rest_a, rest_b, rest_c, rest_bias;
    int fused; /* the epilogue can add the bias */
    cublasLtMatmulDesc_t plain, biased;
    cublasLtMatrixLayout_t a, b, c; /* in cuBLASLt's view */
    cublasLtMatmulPreference_t want;
    struct choice choice[CHOICES];
    int choices, turn;
};

struct call { /* addresses of one product, in cuBLASLt's order */
    const void *a, *b, *c, *bias;
    void *d;
};

static cudaDataType type_of(enum dtype type)
{
    return type == DTYPE_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

static cublasStatus_t cuda_product_set(cublasLtMatmulDesc_t desc,
                                       cublasLtMatmulDescAttributes_t what, int32_t value)
{
    return cublasLtMatmulDescSetAttribute(desc, what, &value, sizeof value);
}

static cublasStatus_t cuda_product_describe(const struct kern_product_shape *s,
                                            cublasLtMatmulDesc_t *desc, int biased)
{
    cublasStatus_t bad = cublasLtMatmulDescCreate(desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);

    if (!bad)
        bad = cuda_product_set(*desc, CUBLASLT_MATMUL_DESC_TRANSA,
                               s->tb == 'N' ? CUBLAS_OP_N : CUBLAS_OP_T);
    if (!bad)
        bad = cuda_product_set(*desc, CUBLASLT_MATMUL_DESC_TRANSB,
                               s->ta == 'N' ? CUBLAS_OP_N : CUBLAS_OP_T);
    if (!bad && biased)
        bad = cuda_product_set(*desc, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    if (!bad && biased)
        bad =
            cuda_product_set(*desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(s->out_type));
    return bad;
}

/* op(matrix) is (rows,cols) and row-major: cuBLASLt sees the stored matrix transposed. */
static cublasStatus_t lay(cublasLtMatrixLayout_t *out, enum dtype type, char op, int64_t rows,
                          int64_t cols, int64_t ld)
{
    return cublasLtMatrixLayoutCreate(out, type_of(type), (uint64_t)(op == 'N' ? cols : rows),
                                      (uint64_t)(op == 'N' ? rows : cols), ld);
}

static cublasStatus_t cuda_product_prepare(struct kern *k, struct cuda_product *p)
{
    const struct kern_product_shape *s = &p->shape;
    uint64_t space = (uint64_t)kern_cuda_of(k)->product_bytes;
    cublasStatus_t bad = cuda_product_describe(s, &p->plain, 0);

    if (!bad && p->fused)
        bad = cuda_product_describe(s, &p->biased, 1);
    if (!bad)
        bad = lay(&p->a, s->type, s->tb, s->k, s->n, s->ldb);
    if (!bad)
        bad = lay(&p->b, s->type, s->ta, s->m, s->k, s->lda);
    if (!bad)
        bad = lay(&p->c, s->out_type, 'N', s->m, s->n, s->ldc);
    if (!bad)
        bad = cublasLtMatmulPreferenceCreate(&p->want);
    if (!bad)
        bad = cublasLtMatmulPreferenceSetAttribute(
            p->want, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &space, sizeof space);
    return bad;
}

/* ---- splitting into packs of 16 bytes ---- */

/*
 * Returns which of m, n, k to split, and where: NULL if none.  c's rows are along n; a's along
 * k, transposed along m; b's along n, transposed along k.
 */
static int64_t *uneven(struct kern_product_shape *s, int64_t *at)
{
    int64_t pack = ALIGN_MOST / dtype_bytes(s->type), *cut = NULL;

    if (s->n % pack)
        cut = &s->n;
    else if (s->k % pack && (s->ta == 'N' || s->tb == 'T'))
        cut = &s->k;
    else if (s->m % pack && s->ta == 'T')
        cut = &s->m;
    if (!cut || *cut < PACKS_LEAST * pack)
        return NULL;
    *at = *cut / pack * pack;
    return cut;
}

static int cuda_product_make(struct kern *k, struct cuda_product **out,
                             const struct kern_product_shape *shape, struct err *err);

/* 1: split in two; 0: no need. */
static int make_two(struct kern *k, struct cuda_product *p, struct err *err)
{
    struct kern_product_shape packs = p->shape, rest = p->shape;
    const struct kern_product_shape *s = &p->shape;
    int64_t at, other, *cut = uneven(&packs, &at), *behind = uneven(&rest, &other);

    if (!cut)
        return 0;
    if (cut == &packs.n) {
        p->rest_b = s->tb == 'N' ? at : at * s->ldb;
        p->rest_c = p->rest_bias = at;
    } else if (cut == &packs.k) {
        p->rest_a = s->ta == 'N' ? at : at * s->lda;
        p->rest_b = s->tb == 'N' ? at * s->ldb : at;
        rest.add = 1;
    } else {
        p->rest_a = at; /* transposed */
        p->rest_c = at * s->ldc;
    }
    *behind = *cut - at;
    *cut = at;
    return cuda_product_make(k, &p->packs, &packs, err) ||
                   cuda_product_make(k, &p->rest, &rest, err)
               ? -1
               : 1;
}

static int cuda_product_make(struct kern *k, struct cuda_product **out,
                             const struct kern_product_shape *shape, struct err *err)
{
    struct cuda_product *p = mem_new(1, sizeof *p);
    cublasStatus_t bad = CUBLAS_STATUS_SUCCESS;

    p->shape = *shape;
    p->fused = k->weight == shape->out_type;
    int two = make_two(k, p, err);
    if (two == 0)
        bad = cuda_product_prepare(k, p);
    if (bad)
        err_set(err, ERR_DEVICE,
                "cannot prepare a product of (%" PRId64 ",%" PRId64 ") and (%" PRId64
                ",%" PRId64 ") of %s on cuda:%d: %s",
                shape->m, shape->k, shape->k, shape->n, dtype_name(shape->type),
                device_index(k->device), cublasLtGetStatusString(bad));
    if (two < 0 || bad) {
        kern_cuda_product_free(k, (struct kern_product *)p);
        return -1;
    }
    *out = p;
    return 0;
}

int kern_cuda_product_new(struct kern *k, struct kern_product **out,
                          const struct kern_product_shape *shape, struct err *err)
{
    assert(shape->m > 0 && shape->n > 0 && shape->k > 0);
    assert(shape->type == DTYPE_F32 || shape->type == DTYPE_BF16);
    device_stream(k->queue);
    if (kern_cuda_reserve(k, kern_cuda_of(k)->product_bytes, err))
        return -1;
    return cuda_product_make(k, (struct cuda_product **)out, shape, err);
}

void kern_cuda_product_free(struct kern *k, struct kern_product *product)
{
    struct cuda_product *p = (struct cuda_product *)product;

    if (!p)
        return;
    device_stream(k->queue);
    kern_cuda_product_free(k, (struct kern_product *)p->packs);
    kern_cuda_product_free(k, (struct kern_product *)p->rest);
    cublasLtMatrixLayout_t layouts[] = {p->a, p->b, p->c};
    for (int i = 0; i < 3; i++)
        if (layouts[i])
            cublasLtMatrixLayoutDestroy(layouts[i]);
    if (p->plain)
        cublasLtMatmulDescDestroy(p->plain);
    if (p->biased)
        cublasLtMatmulDescDestroy(p->biased);
    if (p->want)
        cublasLtMatmulPreferenceDestroy(p->want);
    mem_free(p);
}

/* ---- choice of the algorithm ---- */

static cublasStatus_t cuda_product_query(struct kern *k, struct cuda_product *p,
                                         const struct call *at, struct choice *to)
{
    static const cublasLtMatmulPreferenceAttributes_t least[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    cublasLtMatmulHeuristicResult_t found;
    cublasStatus_t bad = CUBLAS_STATUS_SUCCESS;
    int n = 0;

    for (int i = 0; i < 4 && !bad; i++)
        bad = cublasLtMatmulPreferenceSetAttribute(p->want, least[i], &to->align[i],
                                                   sizeof to->align[i]);
    if (!bad)
        bad =
            cublasLtMatmulAlgoGetHeuristic(kern_cuda_of(k)->lt, at->bias ? p->biased : p->plain,
                                           p->a, p->b, p->c, p->c, p->want, 1, &found, &n);
    if (!bad && n == 0)
        bad = CUBLAS_STATUS_NOT_SUPPORTED;
    if (!bad)
        to->algo = found.algo;
    return bad;
}

static const cublasLtMatmulAlgo_t *algo_of(struct kern *k, struct cuda_product *p,
                                           const struct call *at, cublasStatus_t *bad)
{
    const void *const places[] = {at->a, at->b, at->c, at->d, at->bias};
    struct choice new = {0};

    for (int i = 0; i < 5; i++) {
        uintptr_t place = (uintptr_t)places[i], low = place & (~place + 1);
        new.align[i] = low < ALIGN_MOST ? (uint32_t)low : ALIGN_MOST; /* 0 for NULL */
    }
    for (int i = 0; i < p->choices; i++)
        if (!memcmp(p->choice[i].align, new.align, sizeof new.align))
            return &p->choice[i].algo;
    *bad = cuda_product_query(k, p, at, &new);
    if (*bad)
        return NULL;
    int slot = p->choices < CHOICES ? p->choices++ : p->turn++ % CHOICES;
    p->choice[slot] = new;
    return &p->choice[slot].algo;
}

static void cuda_product_run(struct kern *k, struct cuda_product *p, const void *a,
                             const void *b, const void *from, const void *bias, void *c)
{
    const struct kern_product_shape *s = &p->shape;
    const struct kern_cuda *own = kern_cuda_of(k);
    const float one = 1, old = s->add ? 1 : 0;
    struct call at = {.a = b, .b = a, .c = s->add ? from : c, .d = c};
    cublasStatus_t bad = CUBLAS_STATUS_SUCCESS;

    if (bias && p->fused) {
        at.bias = bias;
        bad = cublasLtMatmulDescSetAttribute(p->biased, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                             &bias, sizeof bias);
    }
    const cublasLtMatmulAlgo_t *algo = bad ? NULL : algo_of(k, p, &at, &bad);
    if (algo)
        bad = cublasLtMatmul(own->lt, at.bias ? p->biased : p->plain, &one, at.a, p->a, at.b,
                             p->b, &old, at.c, p->c, at.d, p->c, algo, own->work,
                             (size_t)own->work_bytes, device_stream(k->queue));
    if (bad) {
        device_fail(k->device, "a product of cuBLASLt", cublasLtGetStatusString(bad));
        return;
    }
    if (bias && !p->fused) {
        struct kern of_c = *k;

        of_c.act = s->out_type;
        kern_cuda_bias(&of_c, c, s->ldc, bias, s->m, s->n);
    }
}

static const void *beyond(const void *p, int64_t elems, enum dtype type)
{
    return p ? (const char *)p + elems * dtype_bytes(type) : NULL;
}

void kern_cuda_product(struct kern *k, const struct kern_product *product, const void *a,
                       const void *b, const void *from, const void *bias, void *c)
{
    /* Made by kern_cuda_product_new and used by one thread at a time, so choices may be stored
       in it. */
    struct cuda_product *p = (struct cuda_product *)(uintptr_t)product;
    const struct kern_product_shape *s = &p->shape;

    device_stream(k->queue);
    if (!p->packs) {
        cuda_product_run(k, p, a, b, from, bias, c);
        return;
    }
    /* k is split: the result is the sum of both */
    int more = p->rest->shape.add && p->packs->shape.k < s->k;
    kern_cuda_product(k, (struct kern_product *)p->packs, a, b, from, bias, c);
    kern_cuda_product(k, (struct kern_product *)p->rest, beyond(a, p->rest_a, s->type),
                      beyond(b, p->rest_b, s->type),
                      more ? c : beyond(from, p->rest_c, s->out_type),
                      more ? NULL : beyond(bias, p->rest_bias, k->weight),
                      (char *)c + p->rest_c * dtype_bytes(s->out_type));
}
