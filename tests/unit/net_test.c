/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the decoder against what Hugging Face computed (tests/reference/dump_net.py), against
 * the double reference and its central differences, and against itself.
 */
#include "unit.h"

#include "net_dump_fixture.h"

TEST(test_hugging_face)
{
    dump_case("llama_tied", "all");
    dump_case("llama_untied", "all");
    dump_case("llama_deep", "all");
}

/* Two layers, hidden 6, ffn 5; norms differ from 1. */
static void rig_tiny(struct rig *rig, const char *more, int batch, int seq)
{
    char text[512];

    snprintf(text, sizeof text,
             "{\"model_type\":\"llama\",\"vocab_size\":7,\"hidden_size\":6,"
             "\"intermediate_size\":5,\"num_hidden_layers\":2,\"max_position_embeddings\":8,"
             "\"rope_theta\":100.0,%s}",
             more);
    rig_text(rig, text, "all", &(struct net_options){.batch = batch, .seq = seq});
}

static void slope_case(const char *more)
{
    struct rig rig;

    rig_tiny(&rig, more, BATCH, SEQ);
    assert_slopes(&rig);
    rig_close(&rig);
}

static const char GROUPED[] = "\"num_attention_heads\":4,\"num_key_value_heads\":2,"
                              "\"head_dim\":4,\"tie_word_embeddings\":false";

TEST(test_central_differences)
{
    slope_case(GROUPED);
    slope_case("\"num_attention_heads\":3,\"num_key_value_heads\":1,\"head_dim\":2,"
               "\"tie_word_embeddings\":true");
    slope_case("\"num_attention_heads\":1,\"num_key_value_heads\":1,\"head_dim\":6,"
               "\"tie_word_embeddings\":false");
}

/* Halving the scale halves every product and every sum exactly. */
TEST(test_scale)
{
    struct rig one, half;

    rig_tiny(&one, GROUPED, BATCH, SEQ);
    rig_tiny(&half, GROUPED, BATCH, SEQ);
    assert_true(forward(&one, TOKENS, TARGETS, 1) == forward(&half, TOKENS, TARGETS, 0.5f));
    backward(&one);
    backward(&half);
    for (int u = 0; u < one.model.units; u++)
        for (int64_t i = 0; i < one.model.unit[u].elems; i++)
            assert_true(one.grads[u][i] == 2 * half.grads[u][i]);
    rig_close(&one);
    rig_close(&half);
}

/* A batch is the sum of its rows, and gradients are added to what is there. */
TEST(test_batch_adds_up)
{
    struct rig whole, row;
    double loss = 0, bound, by_row[ROWS];

    rig_tiny(&whole, GROUPED, BATCH, SEQ);
    rig_tiny(&row, GROUPED, 1, SEQ);
    forward(&whole, TOKENS, TARGETS, 1);
    backward(&whole);
    for (int b = 0; b < BATCH; b++) {
        loss += forward(&row, TOKENS + b * SEQ, TARGETS + b * SEQ, 1);
        backward(&row);
    }
    bound = 2 * rounding(&whole); /* both are off */
    assert_loss(loss, loss_of(&whole.net), bound * loss_noise(&whole, &TEXT, by_row));
    for (int i = 0; i < whole.model.tensors; i++) {
        const struct model_tensor *t = &whole.model.tensor[i];
        double *want = mem_new((size_t)t->elems, sizeof *want);

        for (int64_t j = 0; j < t->elems; j++)
            want[j] = (double)whole.grads[t->unit][t->offset + j];
        assert_norm(row.grads[t->unit] + t->offset, want, t->elems,
                    bound * slope_noise(&whole, &TEXT, t), t->name);
        mem_free(want);
    }
    rig_close(&whole);
    rig_close(&row);
}

/* A token changes no logits before its own place, and a second run gives the same bits. */
TEST(test_causal)
{
    int32_t tokens[SEQ], targets[SEQ];
    float before[SEQ * VOCAB];
    struct rig rig;
    double loss;

    rig_tiny(&rig, GROUPED, 1, SEQ);
    memcpy(tokens, TOKENS, sizeof tokens);
    memcpy(targets, TARGETS, sizeof targets);
    loss = forward(&rig, tokens, targets, 0);
    memcpy(before, logits_of(&rig), sizeof before);
    tokens[SEQ - 1] = (tokens[SEQ - 1] + 1) % VOCAB;
    forward(&rig, tokens, targets, 0);
    assert_memory_equal(before, logits_of(&rig), (SEQ - 1) * VOCAB * sizeof(float));
    assert_memory_not_equal(before, logits_of(&rig), sizeof before);
    forward(&rig, tokens, targets, 1);
    backward(&rig);
    assert_true(loss_of(&rig.net) == forward(&rig, tokens, targets, 0));
    assert_true(forward(&rig, TOKENS, TARGETS, 1) == loss);
    rig_close(&rig);
}

/* Rows without a target leave neither loss nor gradient. */
TEST(test_ignored)
{
    const int32_t none[SEQ] = {-1, -1, -1, -100, -1};
    struct rig rig;

    rig_tiny(&rig, GROUPED, 1, SEQ);
    assert_true(forward(&rig, TOKENS, none, 1) == 0);
    clear(&rig);
    backward(&rig);
    for (int u = 0; u < rig.model.units; u++)
        for (int64_t i = 0; i < rig.model.unit[u].elems; i++)
            assert_true(rig.grads[u][i] == 0);
    rig_close(&rig);
}

static void rig_apart(struct rig *rig)
{
    struct net_options options;

    rig_tiny(rig, GROUPED, BATCH, SEQ);
    options = rig->net.options;
    net_release(&rig->net);
    arena_release(&rig->arena);
    rig->arena = (struct arena){0};
    rig->cpu.kern.row_elems = 8;
    assert_ok(net_init(&rig->net, &rig->model, &options, &err));
    net_place(&rig->net, &rig->arena);
    assert_ok(arena_init(&rig->arena, rig->arena.used, "activations", &err));
    net_place(&rig->net, &rig->arena);
}

/* Where a device wants the rows of logits further apart, nothing else changes. */
TEST(test_rows_apart)
{
    struct rig close, apart;
    double want[VOCAB], loss, by_row[ROWS], bound;

    rig_tiny(&close, GROUPED, BATCH, SEQ);
    rig_apart(&apart);
    assert_int_equal(net_logits_ld(&close.net), VOCAB);
    assert_int_equal(net_logits_ld(&apart.net), 8);
    loss = forward(&close, TOKENS, TARGETS, 0);
    bound = 2 * rounding(&apart);
    assert_loss(forward(&apart, TOKENS, TARGETS, 0), loss,
                bound * loss_noise(&apart, &TEXT, by_row));
    for (int r = 0; r < ROWS; r++) {
        for (int i = 0; i < VOCAB; i++)
            want[i] = (double)logits_of(&close)[r * VOCAB + i];
        assert_norm(logits_of(&apart) + r * 8, want, VOCAB, bound * by_row[r], "logits");
    }
    rig_close(&close);
    assert_slopes(&apart);
    rig_close(&apart);
}

TEST(test_refused)
{
    struct model bare = {.family = &model_family_params, .params = 7};
    const struct net_options one = {.batch = 1, .seq = 1, .compute = DTYPE_F32},
                             longer = {.batch = 1, .seq = 9, .compute = DTYPE_F32},
                             none = {.batch = 0, .seq = 5, .compute = DTYPE_F32};
    struct rig rig;
    struct net net;

    assert_says(net_init(&net, &bare, &one, &err), "'params', expected a config.json");
    rig_tiny(&rig, GROUPED, 1, SEQ);
    assert_says(net_init(&net, &rig.model, &longer, &err),
                "sequence length is 9, expected 1 to");
    assert_says(net_init(&net, &rig.model, &none, &err), "micro-batch is 0, expected 1");
    assert_true(net_flops(&rig.net) == 3 * SEQ * model_flops_per_token(&rig.model, SEQ));
    rig_close(&rig);
}

BEFORE_TESTS
{
    kern_thread_init();
}
