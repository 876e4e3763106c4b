/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_UNIT_NET_BOUND_FIXTURE_H
#define TESTS_UNIT_NET_BOUND_FIXTURE_H

/* Bounds how far a network may be off, and takes central differences of its reference. */
#include "net_fixture.h"
#include "net_noise_fixture.h"

/* The input that the network is run with; a rig's own numbers of rows. */
struct text {
    const int32_t *tokens, *targets;
    int64_t batch, seq;
};

static const struct text TEXT = {TOKENS, TARGETS, BATCH, SEQ};

static inline double ref(struct rig *rig, const struct text *x, double *logits, uint64_t seed)
{
    return net_ref_loss(&rig->model, rig->wide, x->tokens, x->targets, x->batch, x->seq, logits,
                        seed);
}

/* Bounds are noise times rounding.  Noise: by how much a result changes, relative to
 * REF_NOISE, when all that is multiplied or added on the way to it changes.  Rounding: the
 * error n EPS (EPS = 2^-24) of the operands of a product of the longest inner length n; 8 more
 * for a norm or an exponential.  Such an error is the worst case, of sqrt(n) EPS as a rule,
 * and n is 10 and more: hence a slack of 3 and more.  A wrong formula is off by orders of
 * magnitude more. */
static inline double rounding(const struct rig *rig)
{
    const struct model *m = &rig->model;
    const int64_t inner[] = {
        m->hidden,   (m->heads + 2 * m->kv_heads) * m->head_dim, /* q, k and v */
        2 * m->ffn,                                              /* gate and up */
        m->vocab,    rig->net.rows,
        m->lora.rank};
    int64_t n = 0;

    for (size_t i = 0; i < sizeof inner / sizeof *inner; i++)
        n = inner[i] > n ? inner[i] : n;
    return (double)(n + 8) * 0x1p-24;
}

/* Noise of the loss, and of each row of logits. */
static inline double loss_noise(struct rig *rig, const struct text *text, double *by_row)
{
    int64_t rows = text->batch * text->seq, n = rows * rig->model.vocab;
    double *logits = mem_new((size_t)n, sizeof *logits),
           *with = mem_new((size_t)n, sizeof *with);
    double loss = ref(rig, text, logits, 0), sum = 0;

    memset(by_row, 0, (size_t)rows * sizeof *by_row);
    for (uint64_t seed = 1; seed <= NET_REF_SAMPLES; seed++) {
        sum += pow(ref(rig, text, with, seed) - loss, 2);
        for (int64_t i = 0; i < n; i++)
            by_row[i / rig->model.vocab] += pow(with[i] - logits[i], 2);
    }
    for (int64_t i = 0; i < rows; i++)
        by_row[i] = sqrt(by_row[i] / NET_REF_SAMPLES) / REF_NOISE;
    mem_free(logits), mem_free(with);
    return sqrt(sum / NET_REF_SAMPLES) / REF_NOISE;
}

static inline double slope_noise(struct rig *rig, const struct text *text,
                                 const struct model_tensor *t)
{
    return net_ref_slope_noise(&(struct net_ref_run){&rig->model, rig->wide, text->tokens,
                                                     text->targets, text->batch, text->seq},
                               t);
}

/* |got - want| <= bound in the 2-norm. */
static inline void assert_norm(const float *got, const double *want, int64_t n, double bound,
                               const char *name)
{
    double off = 0, norm = 0;

    for (int64_t i = 0; i < n; i++) {
        off += pow((double)got[i] - want[i], 2);
        norm += want[i] * want[i];
    }
    if (!(norm > 0 && sqrt(off) <= bound))
        fail_msg("%s: off by %.3g, allowed %.3g, norm %.3g", name, sqrt(off), bound,
                 sqrt(norm));
}

static inline void assert_loss(double got, double want, double bound)
{
    if (!(fabs(got - want) <= bound))
        fail_msg("loss %.9g, expected %.9g within %.3g", got, want, bound);
}

/* No element is off by more than `most` of the largest: the 2-norm alone would let a single
 * logit be wrong where there are many. */
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

/* The five-point rule with h = 2^-12: its own error, h^4 / 30 = 1e-16 of the fifth derivative
 * (a normalised row of small numbers has large ones) and 2^-52 loss / h = 2e-11, is far below
 * the bound: EPS times noise of 1e-2 and more. */
static inline double slope(struct rig *rig, double *x)
{
    const double h = 0x1p-12;
    double x0 = *x, f1, f2, f3, f4;

    *x = x0 + 2 * h, f1 = ref(rig, &TEXT, NULL, 0);
    *x = x0 + h, f2 = ref(rig, &TEXT, NULL, 0);
    *x = x0 - h, f3 = ref(rig, &TEXT, NULL, 0);
    *x = x0 - 2 * h, f4 = ref(rig, &TEXT, NULL, 0);
    *x = x0;
    return (8 * (f2 - f3) - (f1 - f4)) / (12 * h);
}

/* Loss and gradients beside the reference's. */
static inline void assert_slopes(struct rig *rig)
{
    double by_row[ROWS], loss = loss_noise(rig, &TEXT, by_row);

    assert_loss(forward(rig, TOKENS, TARGETS, 1), ref(rig, &TEXT, NULL, 0),
                rounding(rig) * loss);
    backward(rig);
    for (int i = 0; i < rig->model.tensors; i++) {
        const struct model_tensor *t = &rig->model.tensor[i];

        if (!model_trains(&rig->model, t))
            continue;
        double *want = mem_new((size_t)t->elems, sizeof *want);
        for (int64_t j = 0; j < t->elems; j++)
            want[j] = slope(rig, &rig->wide[t->unit][t->offset + j]);
        assert_norm(rig->grads[t->unit] + t->offset, want, t->elems,
                    rounding(rig) * slope_noise(rig, &TEXT, t), t->name);
        mem_free(want);
    }
}

#endif
