/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks attention, and products of matrices. */
#include "../unit/kern_ref_fixture.h"
#include "kern_check.h"

static void attention_case(struct check *c, const struct kern_heads *s)
{
    int64_t D = s->head_dim, R = s->batch * s->seq, Q = (s->heads + 2 * s->kv_heads) * D;
    int64_t HD = s->heads * D, L = s->batch * s->heads;
    enum dtype a = c->k->act;
    struct mat *qkv = mat_new(c, a, R, Q, Q, 0, 1.5), *dout = mat_new(c, a, R, HD, HD, 0, 1);
    struct mat *out = written(mat_new(c, a, R, HD, HD, 0, 0));
    struct mat *dqkv = written(mat_new(c, a, R, Q, Q, 0, 0));
    struct mat *lse = written(mat_new(c, DTYPE_F32, L, s->seq, s->seq, 0, 0));
    double *ref = doubles(c, R * HD), *rlse = doubles(c, L * s->seq), *grad = doubles(c, R * Q);
    double *p = doubles(c, s->seq);
    int64_t forward = c->op->attention_bytes(c->k, s, 0);
    int64_t backward = c->op->attention_bytes(c->k, s, 1);
    void *scratch = slot(c, forward > backward ? forward : backward);
    char what[64];

    snprintf(what, sizeof what, "seq %d, %d of %d heads of %d", (int)s->seq, (int)s->kv_heads,
             (int)s->heads, (int)D);
    for (int64_t i = 0; i < L * s->seq; i++)
        kern_ref_attention_query(s, qkv->x, dout->x, ref, rlse, grad, i / s->seq / s->heads,
                                 i / s->seq % s->heads, i % s->seq, p);
    for (int run = 0; next_run(c, &run);) {
        c->op->attention(c->k, s, out->p, lse->p, qkv->p, scratch);
        c->op->attention_backward(c->k, s, dqkv->p, dout->p, out->p, lse->p, qkv->p, scratch);
    }
    mat_near(c, out, ref, tolerance(a), "attention, %s", what);
    mat_near(c, lse, rlse, tolerance(DTYPE_F32), "attention lse, %s", what);
    if (s->seq > 1) {
        mat_near(c, dqkv, grad, tolerance(a), "attention backward, %s", what);
    } else {
        /* One key has the score's whole weight: q and k have no gradient, but rounding. */
        double largest = 0;

        for (int64_t i = 0; i < R * Q; i++)
            largest = fmax(largest, fabs(mat_at(dqkv, i / Q, i % Q) - grad[i]));
        ok(c, largest <= 10 * tolerance(a), "attention backward, %s: off by %.2e", what,
           largest);
    }
    end_case(c);
}

void check_attention(struct check *c)
{
    static const int64_t seq[] = {1, 7, 64, 129, 300}, dim[] = {64, 128, 80, 16};
    static const int64_t heads[][2] = {{4, 2}, {3, 3}, {4, 1}, {6, 2}};

    for (int t = 0; t < (c->quick ? 4 : 5); t++)
        for (int d = 0; d < 4; d++) {
            const int64_t *h = heads[(t + d) % 4];

            attention_case(c, &(struct kern_heads){2, seq[t], h[0], h[1], dim[d], 0});
        }
}

/* The rows' values of a matrix as op(x) reads them are kern_ref_gemm's, rows close together. */
struct product {
    struct kern_product_shape shape;
    int bias, elsewhere; /* elsewhere: from is not c */
    int64_t off;
};

static void product_case(struct check *c, const struct product *t)
{
    const struct kern_product_shape *s = &t->shape;
    int64_t rows_a = s->ta == 'N' ? s->m : s->k, cols_a = s->ta == 'N' ? s->k : s->m;
    int64_t rows_b = s->tb == 'N' ? s->k : s->n, cols_b = s->tb == 'N' ? s->n : s->k;
    struct kern_product *p;

    if (c->op->product_new(c->k, &p, s, &err)) {
        ok(c, err.code == ERR_ABSENT && c->k->act != s->type, "product # SKIP %s", err.text);
        return;
    }
    struct mat *a = mat_new(c, s->type, rows_a, cols_a, s->lda, t->off, 1);
    struct mat *b = mat_new(c, s->type, rows_b, cols_b, s->ldb, t->off, 1);
    struct mat *out = written(
        mat_new(c, s->out_type, s->m, s->n, s->ldc, t->off, s->add && !t->elsewhere ? 3 : 0));
    struct mat *from =
        t->elsewhere ? mat_new(c, s->out_type, s->m, s->n, s->ldc, t->off, 3) : out;
    struct mat *bias = mat_new(c, c->k->weight, 1, s->n, s->n, t->off, 2);
    double *ref = doubles(c, s->m * s->n);

    kern_ref_gemm(s->ta, s->tb, s->m, s->n, s->k, a->x, b->x, ref);
    for (int64_t i = 0; i < s->m * s->n; i++)
        ref[i] += (s->add ? from->x[i] : 0) + (t->bias ? bias->x[i % s->n] : 0);
    for (int run = 0; next_run(c, &run);)
        c->op->product(c->k, p, a->p, b->p, s->add ? from->p : NULL, t->bias ? bias->p : NULL,
                       out->p);
    mat_near(c, out, ref, tolerance(s->out_type),
             "product %c%c (%d,%d,%d) of %s to %s%s%s, ld %d %d %d at %d", s->ta, s->tb,
             (int)s->m, (int)s->n, (int)s->k, dtype_name(s->type), dtype_name(s->out_type),
             !s->add        ? ""
             : t->elsewhere ? " and another"
                            : " and itself",
             t->bias ? " and a bias" : "", (int)s->lda, (int)s->ldb, (int)s->ldc, (int)t->off);
    c->op->product_free(c->k, p);
    end_case(c);
}

/* All the network's kinds of one shape: gap is what rows are wider than they need be. */
static void product_kinds(struct check *c, int64_t m, int64_t n, int64_t k, int64_t gap,
                          int64_t off, enum dtype type)
{
    static const char op[][3] = {"NT", "NN", "TN", "TT"};

    for (int i = 0; i < 4; i++)
        for (int kind = 0; kind < 4; kind++) {
            char ta = op[i][0], tb = op[i][1];
            /* Gradients of weights are f32; activations and their gradients act. */
            enum dtype out = ta == 'T' ? DTYPE_F32 : c->k->act;
            struct product t = {
                .shape = {ta, tb, m, n, k, (ta == 'N' ? k : m) + gap, (tb == 'N' ? n : k) + gap,
                          n + gap, kind > 0, type, out},
                .bias = out == c->k->act && (kind == 2 || (kind == 0 && i == 0)),
                .elsewhere = kind > 1,
                .off = off};

            product_case(c, &t);
        }
}

void check_product(struct check *c)
{
    enum dtype other = c->k->act == DTYPE_F32 ? DTYPE_BF16 : DTYPE_F32;
    int cpu = device_kind(c->device) == DEVICE_CPU;

    for (int both = 0; both < 1 + cpu; both++) { /* a GPU's products are of act alone */
        enum dtype type = both ? other : c->k->act;

        product_kinds(c, 1, 1, 1, 0, 0, type);
        product_kinds(c, 64, 48, 32, 0, 0, type);
        product_kinds(c, 64, 48, 32, 8, 8, type);
        product_kinds(c, 37, 53, 29, 0, 1, type);
        product_kinds(c, 65, 17, 130, 3, 3, type);
        /* One side long and uneven: what a device may do in packs and a rest. */
        product_kinds(c, 10, 261, 24, 3, 0, type);
        product_kinds(c, 259, 16, 10, 5, 0, type);
        product_kinds(c, 9, 24, 263, 1, 0, type);
        if (!c->quick)
            product_kinds(c, 300, 192, 264, 5, 0, type);
    }
}
