/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_UNIT_NET_BOUND_FIXTURE_H
#define TESTS_UNIT_NET_BOUND_FIXTURE_H

/* How far a network may be off, and central differences of its reference. */
#include "net_fixture.h"
#include "net_ref_fixture.h"

/*
 * The relative error allowed to a tensor as a whole (2-norm).  A product with inner length n is
 * off by n EPS (EPS = 2^-24); the errors of its operands come on top.  A gradient depends on
 * every layer's products, forward and backward, so the bound is the sum of their inner lengths.
 * Per layer, twice (forward and backward):
 *
 *     4 C         q, k, v and o's gradient; gate, up
 *     heads D     o
 *     F           down
 *     2 (D + T)   attention: scores and values
 *     4 C         norms
 *     4 C         LayerNorm alone: as much again
 *     14 r        adapters of rank r: twice r for each of 7 products
 *
 * and once for the head C + V + R, with the sum over R rows.  Biases add one term to each
 * product.  Rounding errors add up like a random walk, far below this worst case; its slack
 * covers that a layer can magnify its input.  A wrong formula is off by orders of magnitude
 * more.
 */
static inline double tolerance(const struct rig *rig)
{
    const struct model *m = &rig->model;
    int64_t layer = 8 * m->hidden + m->heads * m->head_dim + m->ffn +
                    2 * (m->head_dim + rig->net.options.seq) +
                    (m->norm == MODEL_NORM_LAYER ? 4 * m->hidden : 0) + 14 * m->lora.rank;
    int64_t head = m->hidden + m->vocab + rig->net.rows;

    return (double)(2 * m->layers * layer + head) * 0x1p-24;
}

/* |got - want| <= bound |want| in the 2-norm. */
static inline void assert_norm(const float *got, const double *want, int64_t n, double bound,
                               const char *name)
{
    double off = 0, norm = 0;

    for (int64_t i = 0; i < n; i++) {
        double d = (double)got[i] - want[i];

        off += d * d;
        norm += want[i] * want[i];
    }
    if (!(norm > 0 && sqrt(off) <= bound * sqrt(norm)))
        fail_msg("%s: off by %.3g of its norm %.3g, allowed %.3g", name, sqrt(off / norm),
                 sqrt(norm), bound);
}

/*
 * No element is off by more than `most` of the largest: the 2-norm alone would let a single
 * logit be wrong where there are many.
 */
static inline void assert_largest(const float *got, const double *want, int64_t n, double most,
                                  const char *name)
{
    double largest = 0;

    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(want[i]));
    for (int64_t i = 0; i < n; i++) {
        double off = fabs((double)got[i] - want[i]);

        if (!(off <= most * largest))
            fail_msg("%s[%" PRId64 "]: off by %.3g of the largest, %.3g; allowed %.3g", name, i,
                     off / largest, largest, most);
    }
}

static inline double ref(struct rig *rig)
{
    return net_ref_loss(&rig->model, rig->wide, TOKENS, TARGETS, BATCH, SEQ, NULL);
}

/*
 * The five-point rule with h = 2^-12: its own error, h^4 / 30 = 1e-16 of the fifth derivative
 * (a normalised row of small numbers has large ones) and 2^-52 loss / h = 2e-11, is far below
 * the tolerance (2e-5 and more).
 */
static inline double slope(struct rig *rig, double *x)
{
    const double h = 0x1p-12;
    double x0 = *x, f1, f2, f3, f4;

    *x = x0 + 2 * h, f1 = ref(rig);
    *x = x0 + h, f2 = ref(rig);
    *x = x0 - h, f3 = ref(rig);
    *x = x0 - 2 * h, f4 = ref(rig);
    *x = x0;
    return (8 * (f2 - f3) - (f1 - f4)) / (12 * h);
}

/* Loss and gradients beside the reference's. */
static inline void assert_slopes(struct rig *rig)
{
    assert_true(fabs(forward(rig, TOKENS, TARGETS, 1) / ref(rig) - 1) <= tolerance(rig));
    backward(rig);
    for (int i = 0; i < rig->model.tensors; i++) {
        const struct model_tensor *t = &rig->model.tensor[i];
        double *want = mem_new((size_t)t->elems, sizeof *want);

        for (int64_t j = 0; model_trains(&rig->model, t) && j < t->elems; j++)
            want[j] = slope(rig, &rig->wide[t->unit][t->offset + j]);
        if (model_trains(&rig->model, t))
            assert_norm(rig->grads[t->unit] + t->offset, want, t->elems, tolerance(rig),
                        t->name);
        free(want);
    }
}

#endif
