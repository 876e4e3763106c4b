/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests that equal inputs give equal bits: wherever the caller's arrays lie, whatever ran
 * before, and with a layer's forward run again.  And products in bf16 beside those in f32.  The
 * model is large enough for every path of the library's products, and its rows are ragged in
 * blocks.
 */
#include "unit.h"

#include "base/rng.h"
#include "cpu_fixture.h"
#include "net/net.h"

enum { BATCH = 2, SEQ = 96, ROWS = BATCH * SEQ, VOCAB = 200, LAYERS = 3 };

/* Llama's layer, GPT-2's, and each with adapters. */
enum { MODELS = 4 };

static void read_model(struct model *m, int which)
{
    char text[512];

    if (which % 2)
        snprintf(text, sizeof text,
                 "{\"model_type\":\"gpt2\",\"vocab_size\":%d,\"n_embd\":128,\"n_layer\":%d,"
                 "\"n_head\":2,\"n_positions\":%d}",
                 VOCAB, LAYERS, SEQ);
    else
        snprintf(text, sizeof text,
                 "{\"model_type\":\"llama\",\"vocab_size\":%d,\"hidden_size\":128,"
                 "\"intermediate_size\":256,\"num_hidden_layers\":%d,\"num_attention_heads\":2,"
                 "\"num_key_value_heads\":1,\"max_position_embeddings\":%d}",
                 VOCAB, LAYERS, SEQ);
    assert_ok(model_parse(m, "bits", text, (int64_t)strlen(text), &err) ||
              model_train(m, which / 2 ? "lora=5" : "all", &err));
}

/* The results of a step: the loss, and the gradients of all units one after the other. */
struct result {
    double loss;
    float *grads;
    int64_t elems;
};

/* An array `shift` floats behind a multiple of 64 bytes. */
static float *shifted(int64_t elems, int shift, void **whole)
{
    assert_ok(mem_data((elems + 16) * (int64_t)sizeof(float), "test", whole, &err));
    return (float *)*whole + shift;
}

static void run(struct net *net, float **params, float **grads, struct result *r)
{
    const struct model *m = net->model;
    int32_t tokens[ROWS + 1];

    for (int micro = 0; micro < 2; micro++) { /* the second adds to the first's gradients */
        for (int i = 0; i <= ROWS; i++)
            tokens[i] = (int32_t)(rng_uniform(3, (uint64_t)micro, (uint64_t)i) * VOCAB);
        net_begin(net, tokens, tokens + 1, 1.0f / ROWS);
        for (int v = 0; v < m->visits; v++)
            net_forward(net, v, params[model_unit_of_visit(m, v)]);
        double loss;
        assert_ok(net_loss(net, &loss, &err));
        r->loss += loss / ROWS;
        for (int v = m->visits - 1; v >= m->first_trained; v--)
            net_backward(net, v, params[model_unit_of_visit(m, v)],
                         grads[model_unit_of_visit(m, v)]);
    }
}

/* The same, each layer with the first and then with the second. */
static void run_together(struct net *net, float **params, float **grads, struct result *r)
{
    const struct model *m = net->model;
    int last = m->visits - 1;
    int32_t tokens[2][ROWS + 1];

    for (int micro = 0; micro < 2; micro++) {
        for (int i = 0; i <= ROWS; i++)
            tokens[micro][i] = (int32_t)(rng_uniform(3, (uint64_t)micro, (uint64_t)i) * VOCAB);
        net_use(net, micro);
        net_begin(net, tokens[micro], tokens[micro] + 1, 1.0f / ROWS);
    }
    for (int use = 0; use < 2 * last + 1; use++)
        for (int micro = 0; micro < 2; micro++) {
            int v = use < last ? use : 2 * last - use, unit = model_unit_of_visit(m, v);
            double loss;

            net_use(net, micro);
            if (use <= last)
                net_forward(net, v, params[unit]);
            if (use >= last && v >= m->first_trained)
                net_backward(net, v, params[unit], grads[unit]);
            if (use != last)
                continue;
            assert_ok(net_loss(net, &loss, &err));
            r->loss += loss / ROWS;
        }
}

/* Two micro-batches.  1 where the processor has no products of the type, and nothing is run. */
static int step(int which, const struct net_options *wanted, int params_shift, int grads_shift,
                struct result *r)
{
    struct net_options options = *wanted;
    struct cpu cpu;
    struct model m;
    struct net net;
    struct arena arena = {0};
    void *whole[2 * (LAYERS + 2)];
    float *params[LAYERS + 2], *grads[LAYERS + 2];

    read_model(&m, which);
    *r = (struct result){0};
    cpu_open(&cpu);
    options.kern = &cpu.kern;
    if (net_init(&net, &m, &options, &err)) {
        assert_int_equal(err.code, ERR_ABSENT);
        cpu_close(&cpu);
        model_release(&m);
        return 1;
    }
    net_place(&net, &arena);
    assert_ok(arena_init(&arena, arena.used, "activations", &err));
    net_place(&net, &arena);
    for (int u = 0; u < m.units; u++) {
        params[u] = shifted(m.unit[u].elems, params_shift, &whole[2 * u]);
        grads[u] = shifted(m.unit[u].trained, grads_shift, &whole[2 * u + 1]);
        r->elems += m.unit[u].trained;
    }
    for (int i = 0; i < m.tensors; i++) {
        struct model_tensor *t = &m.tensor[i];

        if (t->kind == MODEL_LORA_B) /* 0 would hide its gradient's way */
            t->init_std = 0.1;
        model_init_values(t, 1, 0, t->elems, params[t->unit] + t->offset);
    }
    (options.together > 1 ? run_together : run)(&net, params, grads, r);
    r->grads = mem_new((size_t)r->elems, sizeof *r->grads);
    float *to = r->grads;
    for (int u = 0; u < m.units; to += m.unit[u++].trained)
        memcpy(to, grads[u], (size_t)m.unit[u].trained * sizeof *to);
    for (int i = 0; i < 2 * m.units; i++)
        mem_free(whole[i]);
    net_release(&net);
    cpu_close(&cpu);
    arena_release(&arena);
    model_release(&m);
    return 0;
}

static void assert_same(const struct result *a, const struct result *b)
{
    assert_true(a->loss == b->loss);
    assert_int_equal(a->elems, b->elems);
    assert_memory_equal(a->grads, b->grads, (size_t)a->elems * sizeof *a->grads);
}

/* 4, 12, 16, 32 and 60 bytes off; in between, steps of another shape. */
static void same_anywhere(int which, enum dtype type)
{
    const struct net_options options = {.batch = BATCH, .seq = SEQ, .compute = type},
                             other = {.batch = 1, .seq = 33, .compute = type};
    struct result first, again;

    if (step(which, &options, 0, 0, &first)) {
        print_message("# skipped: no %s products on this processor\n", dtype_name(type));
        return;
    }
    for (int i = 0; i < 5; i++) {
        const int shift[5] = {1, 3, 4, 8, 15};

        step(which, &options, shift[i], 0, &again);
        assert_same(&first, &again);
        mem_free(again.grads);
        step(which, &options, 0, shift[i], &again);
        assert_same(&first, &again);
        mem_free(again.grads);
        step(which, &other, shift[i], 0, &again);
        mem_free(again.grads);
    }
    mem_free(first.grads);
}

TEST(test_any_address)
{
    for (int which = 0; which < MODELS; which++) {
        same_anywhere(which, DTYPE_F32);
        same_anywhere(which, DTYPE_BF16);
    }
}

/* Run again, a forward leaves the same bits. */
TEST(test_recompute)
{
    for (int i = 0; i < 2 * MODELS; i++) {
        enum dtype type = i % 2 ? DTYPE_BF16 : DTYPE_F32;
        int which = i / 2;
        const struct net_options kept = {.batch = BATCH, .seq = SEQ, .compute = type},
                                 run_again = LIST(.batch = BATCH, .seq = SEQ, .recompute = 1,
                                                  .compute = type);
        struct result a, b;

        if (step(which, &kept, 0, 0, &a)) {
            print_message("# skipped: no %s products on this processor\n", dtype_name(type));
            continue;
        }
        assert_int_equal(step(which, &run_again, 0, 0, &b), 0);
        assert_same(&a, &b);
        mem_free(a.grads), mem_free(b.grads);
    }
}

/* Layer by layer, micro-batches leave the same bits; of tied embeddings the head's gradients
   come before the others, and the sum is rounded in another way. */
TEST(test_layer_by_layer)
{
    for (int i = 0; i < 4 * MODELS; i++) {
        const struct net_options one = {
            .batch = BATCH, .seq = SEQ, .compute = i % 2 ? DTYPE_BF16 : DTYPE_F32};
        struct net_options both = one;
        struct result a, b;

        if (i / 4 == 1 || step(i / 4, &one, 0, 0, &a))
            continue;
        both.together = 2;
        both.recompute = i / 2 % 2;
        assert_int_equal(step(i / 4, &both, 0, 0, &b), 0);
        assert_same(&a, &b);
        mem_free(a.grads), mem_free(b.grads);
    }
}

/* |a - b| <= bound |a| in the 2-norm, and not equal. */
static void assert_near(const char *name, const float *a, const float *b, int64_t n,
                        double bound)
{
    double off = 0, norm = 0;

    for (int64_t i = 0; i < n; i++) {
        double d = (double)a[i] - (double)b[i];

        off += d * d;
        norm += (double)a[i] * (double)a[i];
    }
    if (!(off > 0 && off <= bound * bound * norm))
        fail_msg("%s: off by %.3g of its norm, allowed %.3g, but not 0", name, sqrt(off / norm),
                 bound);
}

/* Rounding to bf16 is off by U = 2^-9 at most, relative, so a product by 2 U.  To a gradient
 * the way leads through four products of each layer (q k v; o; gate and up; down), forward and
 * backward, and the head's: 2 (4 LAYERS + 1) products, 52 U = 0.10 for all in one direction.
 * That the errors add up like a random walk leaves a slack of sqrt(52), for what a norm or a
 * softmax magnifies; an adapter's two products come beside a larger one's.  An operand in the
 * wrong place is off by 1 and more. */
static void bf16_case(int which)
{
    const struct net_options wide = {.batch = BATCH, .seq = SEQ, .compute = DTYPE_F32},
                             narrow = {.batch = BATCH, .seq = SEQ, .compute = DTYPE_BF16};
    double bound = 2 * (4 * LAYERS + 1) * 2 * 0x1p-9;
    struct model m;
    struct result a, b;

    if (step(which, &narrow, 0, 0, &b)) {
        print_message("# skipped: no bf16 products on this processor\n");
        return;
    }
    step(which, &wide, 0, 0, &a);
    assert_true(fabs(a.loss - b.loss) <= bound * a.loss);
    read_model(&m, which);
    int64_t at = 0;
    for (int i = 0; i < m.tensors; i++) { /* in the order of the units and within them */
        const struct model_tensor *t = &m.tensor[i];

        if (!model_trains(&m, t))
            continue;
        assert_near(t->name, a.grads + at, b.grads + at, t->elems, bound);
        at += t->elems;
    }
    assert_int_equal(at, a.elems);
    mem_free(a.grads), mem_free(b.grads);
    model_release(&m);
}

TEST(test_bf16)
{
    for (int which = 0; which < MODELS; which++)
        bf16_case(which);
}

BEFORE_TESTS
{
    kern_thread_init();
}
