/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_UNIT_NET_FIXTURE_H
#define TESTS_UNIT_NET_FIXTURE_H

/*
 * What the tests of the network share: a network with its memory, the bounds, the readers of
 * what Hugging Face computed, central differences of the double reference.  Include cmocka
 * before.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "net/net.h"
#include "net/net_ref.h"

/* A network with its memory, parameters and gradients by unit (NULL where nothing trains). */
struct rig {
    struct model model;
    struct net net;
    struct arena arena;
    float **params, **grads;
    double **wide; /* the parameters in double */
};

/* The model is there already.  Arrays are no larger than they must be. */
static inline void rig_open(struct rig *rig, const struct net_options *options)
{
    struct model *m = &rig->model;
    size_t units = (size_t)m->units;
    struct err err;

    if (net_init(&rig->net, m, options, &err))
        fail_msg("%s", err.text);
    rig->arena = (struct arena){0};
    net_place(&rig->net, &rig->arena);
    assert_int_equal(rig->arena.used, net_bytes(m, options));
    assert_int_equal(arena_init(&rig->arena, rig->arena.used, "activations", &err), 0);
    net_place(&rig->net, &rig->arena);
    rig->params = mem_new(units, sizeof *rig->params);
    rig->grads = mem_new(units, sizeof *rig->grads);
    rig->wide = mem_new(units, sizeof *rig->wide);
    for (int u = 0; u < m->units; u++) {
        rig->params[u] = mem_new((size_t)m->unit[u].elems, sizeof(float));
        rig->wide[u] = mem_new((size_t)m->unit[u].elems, sizeof(double));
        if (m->unit[u].trained)
            rig->grads[u] = mem_new((size_t)m->unit[u].trained, sizeof(float));
    }
}

static inline void rig_close(struct rig *rig)
{
    for (int u = 0; u < rig->model.units; u++)
        free(rig->params[u]), free(rig->grads[u]), free(rig->wide[u]);
    free(rig->params), free(rig->grads), free(rig->wide);
    net_release(&rig->net);
    arena_release(&rig->arena);
    model_release(&rig->model);
}

static inline void widen(struct rig *rig)
{
    for (int u = 0; u < rig->model.units; u++)
        for (int64_t i = 0; i < rig->model.unit[u].elems; i++)
            rig->wide[u][i] = (double)rig->params[u][i];
}

static inline void clear(struct rig *rig)
{
    for (int u = 0; u < rig->model.units; u++)
        for (int64_t i = 0; i < rig->model.unit[u].trained; i++)
            rig->grads[u][i] = 0;
}

static inline double forward(struct rig *rig, const int32_t *tokens, const int32_t *targets,
                             float scale)
{
    net_begin(&rig->net, tokens, targets, scale);
    for (int v = 0; v < rig->model.visits; v++)
        net_forward(&rig->net, v, rig->params[model_unit_of_visit(&rig->model, v)]);
    return net_loss(&rig->net);
}

static inline void backward(struct rig *rig)
{
    for (int v = rig->model.visits - 1; v >= rig->model.first_trained; v--) {
        int u = model_unit_of_visit(&rig->model, v);

        net_backward(&rig->net, v, rig->params[u], rig->grads[u]);
    }
}

/*
 * The relative error allowed to a tensor as a whole (2-norm).  A product with inner length n is
 * off by n EPS (EPS = 2^-24); the errors of what it is made from come on top.  A gradient has
 * every layer's products behind it, forward and backward: the sum of their inner lengths,
 *     4 C (q, k, v and o's gradient; gate, up) + heads D + F + 2 (D + T) + norms 4 C
 * per layer, twice, and the head's C + V + R (the sum over rows).  Biases add a term to each
 * product, LayerNorm what RMSNorm has once more; an adapter, beside each of 7 products, its
 * rank twice.  Rounding errors add up like
 * a random walk, far below this worst case; its slack covers that a layer can magnify what it
 * is given.  A wrong formula is off by orders of magnitude more.
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

/* ---- Hugging Face ---- */

/*
 * A logit of the deepest model here has n = 5000 roundings behind it (the inner lengths of
 * tolerance()), each of EPS at most; as a walk they come to sqrt(n) EPS = 4e-6 of the largest
 * logit, and the other side strays as far.  (11 EPS is what is seen.)  Users are promised 1e-4.
 */
static const double LOGITS_MOST = 1e-5;

struct dump {
    char *text;
    int batch, seq, count;
    const char *lines; /* "NAME TYPE ELEMS" */
    const char *data;
};

static inline void dump_open(struct dump *d, const char *path)
{
    struct err err;
    int64_t bytes;
    int used = 0;

    if (io_read_text(path, 1 << 20, &d->text, &bytes, &err))
        fail_msg("%s", err.text);
    assert_int_equal(
        sscanf(d->text, "paro-net-dump 1 %d %d %d%n", &d->batch, &d->seq, &d->count, &used), 3);
    d->lines = d->text + used + 1;
    d->data = strstr(d->text, "\n\n");
    assert_non_null(d->data);
    d->data += 2;
}

/* The array of that name; its elements must be n. */
static inline const void *dump_find(const struct dump *d, const char *name, int64_t n)
{
    const char *data = d->data, *line = d->lines;

    for (int i = 0; i < d->count; i++, line = strchr(line, '\n') + 1) {
        char found[160];
        int64_t elems;

        assert_int_equal(sscanf(line, "%159s %*s %" SCNd64, found, &elems), 2);
        if (strcmp(found, name) == 0) {
            assert_int_equal(elems, n);
            return data;
        }
        data += 4 * elems;
    }
    fail_msg("the dump has no '%s'", name);
    return NULL;
}

static inline double *dump_wide(const struct dump *d, const char *name, int64_t n)
{
    const char *data = dump_find(d, name, n);
    double *x = mem_new((size_t)n, sizeof *x);

    for (int64_t i = 0; i < n; i++) {
        float f;

        memcpy(&f, data + 4 * i, 4); /* the data begin at any byte */
        x[i] = (double)f;
    }
    return x;
}

static inline void compare_dump(struct rig *rig, const struct dump *d)
{
    const struct model *m = &rig->model;
    int64_t rows = (int64_t)d->batch * d->seq, n = rows * m->vocab;
    double bound = tolerance(rig), *loss = dump_wide(d, "loss", 1), *logits, ref;
    double *again = mem_new((size_t)n, sizeof *again);
    int32_t tokens[64], targets[64];
    float got;

    assert_true(rows <= 64);
    memcpy(tokens, dump_find(d, "tokens", rows), (size_t)rows * 4);
    memcpy(targets, dump_find(d, "targets", rows), (size_t)rows * 4);
    logits = dump_wide(d, "logits", n);
    got = (float)forward(rig, tokens, targets, 1);
    assert_norm(&got, loss, 1, bound, "loss");
    assert_norm(net_logits(&rig->net), logits, n, bound, "logits");
    assert_largest(net_logits(&rig->net), logits, n, LOGITS_MOST, "logits");
    /* The reference itself: only Hugging Face's own rounding stands between. */
    ref = net_ref_loss(m, rig->wide, tokens, targets, d->batch, d->seq, again);
    assert_true(fabs(ref - *loss) <= bound * ref);
    assert_norm(net_logits(&rig->net), again, n, bound, "logits of the reference");
    backward(rig);
    for (int i = 0; i < m->tensors; i++) {
        const struct model_tensor *t = &m->tensor[i];
        char name[160];
        double *grad;

        if (!model_trains(m, t))
            continue;
        snprintf(name, sizeof name, "grad:%s", t->name);
        grad = dump_wide(d, name, t->elems);
        assert_norm(rig->grads[t->unit] + t->offset, grad, t->elems, bound, name);
        free(grad);
    }
    free(loss), free(logits), free(again);
}

/* tests/data/NAME.{json,dump}; `train` as model_train takes it. */
static inline void dump_case(const char *name, const char *train)
{
    char config[96], path[96];
    struct rig rig;
    struct dump d;
    struct err err;

    snprintf(config, sizeof config, "tests/data/%s.json", name);
    snprintf(path, sizeof path, "tests/data/%s.dump", name);
    if (model_read(&rig.model, config, &err) || model_train(&rig.model, train, &err))
        fail_msg("%s", err.text);
    dump_open(&d, path);
    rig_open(&rig, &(struct net_options){.batch = d.batch, .seq = d.seq});
    for (int i = 0; i < rig.model.tensors; i++) {
        const struct model_tensor *t = &rig.model.tensor[i];

        memcpy(rig.params[t->unit] + t->offset, dump_find(&d, t->name, t->elems),
               (size_t)t->elems * 4);
    }
    widen(&rig);
    compare_dump(&rig, &d);
    mem_free(d.text);
    rig_close(&rig);
}

/* ---- the double reference ---- */

enum { BATCH = 2, SEQ = 5, VOCAB = 7, ROWS = BATCH * SEQ };

static const int32_t TOKENS[ROWS] = {3, 0, 6, 6, 1, 2, 5, 0, 4, 2};
static const int32_t TARGETS[ROWS] = {0, 6, 6, -100, 2, 5, 0, 4, 2, 3};

/* The model of a config's text, with any parameters: norms differ from 1, adapters from 0. */
static inline void rig_text(struct rig *rig, const char *text, const char *train,
                            const struct net_options *options)
{
    struct err err;

    if (model_parse(&rig->model, "tiny", text, (int64_t)strlen(text), &err) ||
        model_train(&rig->model, train, &err))
        fail_msg("%s", err.text);
    rig_open(rig, options);
    for (int i = 0; i < rig->model.tensors; i++) {
        const struct model_tensor *t = &rig->model.tensor[i];

        /* Small adapters, beside which the rest is still seen. */
        double size = t->kind == MODEL_LORA_A || t->kind == MODEL_LORA_B ? 0.3 : 1;

        for (int64_t j = 0; j < t->elems; j++) /* the same wherever a tensor lies in its unit */
            rig->params[t->unit][t->offset + j] =
                (float)(size * (0.3 + 0.5 * rng_normal(7, rng_stream(t->name), (uint64_t)j)));
    }
    widen(rig);
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
