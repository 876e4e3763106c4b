/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_UNIT_NET_FIXTURE_H
#define TESTS_UNIT_NET_FIXTURE_H

/* Makes a network with its memory, for the tests of networks.  After unit.h. */
#include "base/rng.h"
#include "cpu_fixture.h"
#include "net/net.h"

enum { BATCH = 2, SEQ = 5, VOCAB = 7, ROWS = BATCH * SEQ };

static const int32_t TOKENS[ROWS] = {3, 0, 6, 6, 1, 2, 5, 0, 4, 2};
static const int32_t TARGETS[ROWS] = {0, 6, 6, -100, 2, 5, 0, 4, 2, 3};

/* A network with its memory, parameters and gradients by unit (NULL where nothing trains). */
struct rig {
    struct cpu cpu;
    struct model model;
    struct net net;
    struct arena arena;
    float **params, **grads;
    double **wide; /* the parameters in double */
};

/* The model is there already.  Arrays are no larger than they must be. */
static inline void rig_open(struct rig *rig, const struct net_options *wanted)
{
    struct net_options options = *wanted;
    struct model *m = &rig->model;
    size_t units = (size_t)m->units;

    cpu_open(&rig->cpu);
    options.kern = &rig->cpu.kern;
    assert_ok(net_init(&rig->net, m, &options, &err));
    rig->arena = (struct arena){0};
    net_place(&rig->net, &rig->arena);
    assert_int_equal(rig->arena.used, net_bytes(m, &options).arrays);
    assert_ok(arena_init(&rig->arena, rig->arena.used, "activations", &err));
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
    cpu_close(&rig->cpu);
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

static inline double loss_of(struct net *net)
{
    double loss;

    assert_ok(net_loss(net, &loss, &err));
    return loss;
}

static inline double forward(struct rig *rig, const int32_t *tokens, const int32_t *targets,
                             float scale)
{
    net_begin(&rig->net, tokens, targets, scale);
    for (int v = 0; v < rig->model.visits; v++)
        net_forward(&rig->net, v, rig->params[model_unit_of_visit(&rig->model, v)]);
    return loss_of(&rig->net);
}

/* Valid where the scale is 0. */
static inline const float *logits_of(const struct rig *rig)
{
    return net_logits(&rig->net);
}

static inline void backward(struct rig *rig)
{
    for (int v = rig->model.visits - 1; v >= rig->model.first_trained; v--) {
        int u = model_unit_of_visit(&rig->model, v);

        net_backward(&rig->net, v, rig->params[u], rig->grads[u]);
    }
}

/* The model of a config's text, with any parameters: norms differ from 1, adapters from 0. */
static inline void rig_text(struct rig *rig, const char *text, const char *train,
                            const struct net_options *options)
{
    assert_ok(model_parse(&rig->model, "tiny", text, (int64_t)strlen(text), &err) ||
              model_train(&rig->model, train, &err));
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

#endif
