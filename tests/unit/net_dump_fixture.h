/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_UNIT_NET_DUMP_FIXTURE_H
#define TESTS_UNIT_NET_DUMP_FIXTURE_H

/*
 * Compares a network with what Hugging Face computed: tests/reference/dump_net.py has the
 * format.
 */
#include "base/io.h"
#include "net_bound_fixture.h"

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
    int64_t bytes;
    int used = 0;

    assert_ok(io_read_text(path, 1 << 20, &d->text, &bytes, &err));
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

/* Both sides round: twice the bound. */
static inline void compare_dump(struct rig *rig, const struct dump *d)
{
    const struct model *m = &rig->model;
    int64_t rows = (int64_t)d->batch * d->seq, n = rows * m->vocab;
    double bound = 2 * rounding(rig), *loss = dump_wide(d, "loss", 1), *logits, noise;
    double *again = mem_new((size_t)n, sizeof *again), by_row[64];
    int32_t tokens[64], targets[64];
    struct text text = {tokens, targets, d->batch, d->seq};

    assert_true(rows <= 64);
    memcpy(tokens, dump_find(d, "tokens", rows), (size_t)rows * 4);
    memcpy(targets, dump_find(d, "targets", rows), (size_t)rows * 4);
    logits = dump_wide(d, "logits", n);
    noise = loss_noise(rig, &text, by_row);
    assert_loss(forward(rig, tokens, targets, 0), *loss, bound * noise);
    assert_largest(logits_of(rig), logits, n, LOGITS_MOST, "logits");
    /* The reference itself: only Hugging Face's own rounding stands between. */
    assert_loss(ref(rig, &text, again, 0), *loss, bound * noise);
    for (int64_t i = 0; i < n; i += m->vocab) {
        const float *got = logits_of(rig) + i;

        assert_norm(got, logits + i, m->vocab, bound * by_row[i / m->vocab], "logits");
        assert_norm(got, again + i, m->vocab, bound * by_row[i / m->vocab], "the reference's");
    }
    forward(rig, tokens, targets, 1);
    backward(rig);
    for (int i = 0; i < m->tensors; i++) {
        const struct model_tensor *t = &m->tensor[i];
        char name[160];
        double *grad;

        if (!model_trains(m, t))
            continue;
        snprintf(name, sizeof name, "grad:%s", t->name);
        grad = dump_wide(d, name, t->elems);
        assert_norm(rig->grads[t->unit] + t->offset, grad, t->elems,
                    bound * slope_noise(rig, &text, t), name);
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

    snprintf(config, sizeof config, "tests/data/%s.json", name);
    snprintf(path, sizeof path, "tests/data/%s.dump", name);
    assert_ok(model_read(&rig.model, config, &err) || model_train(&rig.model, train, &err));
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

#endif
