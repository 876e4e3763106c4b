/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the differences between models: GPT-2 and Llama's biases and positions, parts that are
 * frozen, low-rank adapters; and the forward alone.  Against what Hugging Face computed
 * (tests/reference/dump_net.py), against the double reference and its central differences, and
 * against the network that trains whole.
 */
#include "unit.h"

#include "net/net_parts.h"
#include "net_dump_fixture.h"
#include "kern/kern_kind.h"

static const char LORA[] = "lora=3,alpha=5", SOME[] = "lora=2,targets=q_proj+v_proj+down_proj";

TEST(test_hugging_face)
{
    dump_case("gpt2_tied", "all");
    dump_case("gpt2_untied", "all");
    dump_case("llama_llama3", "all");
    dump_case("llama_yarn", "all");
    dump_case("llama_biases", "all");
    dump_case("mistral", "all");
    dump_case("qwen2", "all");
    dump_case("qwen3", "all");
    dump_case("smollm3", "all");
    dump_case("phi3", "all");
    dump_case("gemma3", "all");
    dump_case("lora_llama", "lora=3,alpha=5,targets=q_proj+v_proj+down_proj");
    dump_case("lora_gpt2", "lora=2");
}

/* Two layers, hidden 6, positions up to 8. */
#define GPT2                                                                                   \
    "{\"model_type\":\"gpt2\",\"vocab_size\":7,\"n_positions\":8,\"n_embd\":6,\"n_layer\":2,"  \
    "\"n_inner\":5,"
#define LIKE_LLAMA(type)                                                                       \
    "{\"model_type\":\"" type "\",\"vocab_size\":7,\"hidden_size\":6,\"intermediate_size\":5," \
    "\"num_hidden_layers\":2,\"max_position_embeddings\":8,\"num_attention_heads\":4,"         \
    "\"num_key_value_heads\":2,\"head_dim\":6,\"rope_theta\":100.0,"
#define LLAMA      LIKE_LLAMA("llama")
#define QWEN3      LIKE_LLAMA("qwen3")
#define ROPE(type) LLAMA "\"rope_scaling\":{\"rope_type\":" type "}}"

static const char QWEN3_PLAIN[] = QWEN3 "\"tie_word_embeddings\":false}",
                  QWEN3_BIASES[] = QWEN3 "\"attention_bias\":true}";
static const char GPT2_TIED[] = GPT2 "\"n_head\":3}",
                  GPT2_UNTIED[] = GPT2 "\"n_head\":1,\"tie_word_embeddings\":false,"
                                       "\"activation_function\":\"gelu\"}",
                  LLAMA_PLAIN[] = LLAMA "\"tie_word_embeddings\":false}",
                  LLAMA_BIASES[] = LLAMA "\"tie_word_embeddings\":true,"
                                         "\"attention_bias\":true,\"mlp_bias\":true}";

static const char SMOLLM3[] =
    LIKE_LLAMA("smollm3") "\"no_rope_layers\":[0,1],\"tie_word_embeddings\":false}";

static const char PHI3[] =
    LIKE_LLAMA("phi3") "\"partial_rotary_factor\":0.7,\"tie_word_embeddings\":true}";

static const char GEMMA3[] =
    LIKE_LLAMA("gemma3_text") "\"query_pre_attn_scalar\":6,\"rope_local_base_freq\":20.0,"
                              "\"sliding_window_pattern\":2}";

static const struct net_options whole = {.batch = BATCH, .seq = SEQ};

static void slope_case(const char *text, const char *train)
{
    struct rig rig;

    rig_text(&rig, text, train, &whole);
    assert_slopes(&rig);
    rig_close(&rig);
}

TEST(test_central_differences)
{
    slope_case(GPT2_TIED, "all");
    slope_case(GPT2_UNTIED, "all");
    slope_case(LLAMA_BIASES, "all");
    slope_case(QWEN3_BIASES, "all");
    slope_case(SMOLLM3, "all");
    slope_case(PHI3, "all");
    slope_case(GEMMA3, "all");
    slope_case(ROPE("\"linear\",\"factor\":3.0"), "all");
    slope_case(ROPE("\"dynamic\",\"factor\":3.0"), "all");
    slope_case(ROPE("\"llama3\",\"factor\":3.0,\"low_freq_factor\":0.2,"
                    "\"high_freq_factor\":1.0,\"original_max_position_embeddings\":4"),
               "all");
    slope_case(ROPE("\"yarn\",\"factor\":2.0,\"original_max_position_embeddings\":4"), "all");
}

TEST(test_adapters)
{
    slope_case(GPT2_TIED, LORA);
    slope_case(GPT2_UNTIED, "lora=9,targets=c_proj"); /* of a rank above the matrix's */
    slope_case(LLAMA_PLAIN, LORA);
    slope_case(LLAMA_BIASES, SOME);
    slope_case(LLAMA_PLAIN, "lora=1,targets=down_proj");
    slope_case(QWEN3_BIASES, SOME);
    slope_case(PHI3, "lora=2,targets=qkv_proj+gate_up_proj");
    slope_case(GEMMA3, LORA);
}

/* ---- frozen parts ---- */

static void assert_gradient(const float *got, struct rig *all, const struct model_tensor *t,
                            int exact)
{
    const float *want = all->grads[t->unit] + t->offset;
    double *wide = mem_new((size_t)t->elems, sizeof *wide);

    for (int64_t i = 0; i < t->elems; i++)
        wide[i] = (double)want[i];
    if (exact)
        assert_memory_equal(got, want, (size_t)t->elems * sizeof *got);
    else /* both are off */
        assert_norm(got, wide, t->elems, 2 * rounding(all) * slope_noise(all, &TEXT, t),
                    t->name);
    free(wide);
}

/* Parameters that train have the same gradient, bit for bit, as where all trains (within
   rounding where that joins other lines in one product), and frozen ones are never written:
   their place has no memory. */
static void frozen_case(const char *text, const char *train, int recompute)
{
    struct net_options options = {.batch = BATCH, .seq = SEQ, .recompute = recompute};
    struct rig all, some;
    int compared = 0, exact;
    double loss[2], by_row[ROWS];

    rig_text(&all, text, "all", &whole);
    rig_text(&some, text, train, &options);
    exact = all.net.buffers->shape.lines == some.net.buffers->shape.lines;
    loss[0] = forward(&all, TOKENS, TARGETS, 1);
    loss[1] = forward(&some, TOKENS, TARGETS, 1);
    assert_loss(loss[1], loss[0],
                exact ? 0 : 2 * rounding(&all) * loss_noise(&all, &TEXT, by_row));
    backward(&all);
    backward(&some);
    for (int i = 0; i < some.model.tensors; i++) {
        const struct model_tensor *t = &some.model.tensor[i];
        const struct model_tensor *same = model_find(&all.model, t->name);

        if (!model_trains(&some.model, t))
            continue;
        assert_gradient(some.grads[t->unit] + t->offset, &all, same, exact);
        compared++;
    }
    assert_true(compared > 0 && compared < some.model.tensors);
    assert_true(net_flops(&some.net) <= net_flops(&all.net));
    rig_close(&all);
    rig_close(&some);
}

TEST(test_frozen)
{
    static const char *const gpt2[] =
        LIST("freeze=*.h.0.*", "freeze=*wte*", "freeze=*wpe*", "freeze=*.wte.*,*.wpe.*",
             "train=*.ln_*", "train=*.h.1.*", "train=*ln_f*", "train=*.bias", "freeze=*.bias",
             "train=*.h.1.ln_1.bias", "train=*.h.0.attn.c_attn.bias",
             "train=*.h.1.attn.c_proj*", "train=*.h.1.ln_2.weight",
             "train=*.h.0.mlp.c_fc.weight", "train=*.h.1.mlp.c_proj*", "train=*wpe*");
    static const char *const llama[] =
        LIST("freeze=*embed*", "freeze=*.layers.0.*", "train=lm_head*", "train=*norm*",
             "train=model.norm*", "train=*.1.self_attn.v_proj*", "train=*.0.self_attn.o_proj*",
             "train=*.1.post_attention_layernorm*", "train=*.1.mlp.up_proj*",
             "train=*.1.mlp.down_proj*", "train=*.0.input_layernorm*,*.1.mlp.gate*");
    static const char *const qwen3[] = {
        "train=*.1.self_attn.q_norm*", "train=*.0.self_attn.k_norm*", "freeze=*_norm*",
        "train=*.1.self_attn.o_proj*", "train=*.1.self_attn.k_proj*"};

    static const char *const gemma3[] = {"train=*.1.post_feedforward_layernorm*",
                                         "train=*.1.post_attention_layernorm*",
                                         "train=*.1.pre_feedforward_layernorm*",
                                         "train=*.1.self_attn.o_proj*",
                                         "train=*.1.mlp.down_proj*",
                                         "freeze=*_layernorm*"};

    for (size_t i = 0; i < sizeof gemma3 / sizeof *gemma3; i++)
        for (int again = 0; again < 2; again++)
            frozen_case(GEMMA3, gemma3[i], again);
    for (size_t i = 0; i < sizeof gpt2 / sizeof *gpt2; i++) {
        frozen_case(GPT2_TIED, gpt2[i], i % 2);
        frozen_case(GPT2_UNTIED, gpt2[i], i % 2 == 0);
    }
    for (size_t i = 0; i < sizeof qwen3 / sizeof *qwen3; i++) {
        frozen_case(QWEN3_PLAIN, qwen3[i], i % 2);
        frozen_case(QWEN3_BIASES, qwen3[i], i % 2 == 0);
    }
    for (size_t i = 0; i < sizeof llama / sizeof *llama; i++) {
        frozen_case(LLAMA_PLAIN, llama[i], i % 2);
        if (strcmp(llama[i], "train=lm_head*"))
            frozen_case(LLAMA_BIASES, llama[i], i % 2 == 0);
    }
}

static int has_products(enum dtype type)
{
    struct kern_product_shape shape = {'N', 'N', 2, 2, 2, 2, 2, 2, 0, type, DTYPE_F32};
    struct kern_product *p = NULL;

    if (kern_product_new(&p, &shape, &err)) {
        assert_int_equal(err.code, ERR_ABSENT);
        print_message("# skipped: no %s products on this processor\n", dtype_name(type));
        return 0;
    }
    kern_product_free(p);
    return 1;
}

static void lines_case(const char *text, const char *train, enum dtype compute, int lines)
{
    struct net_options options = {.batch = BATCH, .seq = SEQ, .compute = compute};
    struct rig rig;

    if (!has_products(compute))
        return;
    rig_text(&rig, text, train, &options);
    assert_int_equal(rig.net.buffers->shape.lines, lines);
    rig_close(&rig);
}

/* Weights that lie together are one product: q, k and v; gate and up.  What has a bias, an
 * adapter, another part of a stage that trains or a weight to be rounded stays apart. */
TEST(test_joined)
{
    lines_case(LLAMA_PLAIN, "all", DTYPE_F32, 5);
    lines_case(LLAMA_PLAIN, "all", DTYPE_BF16, 8);
    lines_case(LLAMA_PLAIN, "freeze=*.layers.0.*", DTYPE_F32, 5);
    lines_case(LLAMA_PLAIN, "train=*norm*", DTYPE_F32, 5);
    lines_case(LLAMA_PLAIN, "train=*.1.self_attn.v_proj*", DTYPE_F32, 7);
    lines_case(LLAMA_PLAIN, "freeze=*.1.mlp.gate_proj*", DTYPE_F32, 6);
    lines_case(LLAMA_PLAIN, "lora=1,targets=q_proj", DTYPE_F32, 7);
    lines_case(LLAMA_BIASES, "all", DTYPE_F32, 8);
    lines_case(GPT2_TIED, "all", DTYPE_F32, 5);
}

/* A visit before the first that trains may be called, and does nothing. */
TEST(test_before_the_first)
{
    struct rig rig;
    float *before;

    rig_text(&rig, LLAMA_PLAIN, "train=*.layers.1.*", &whole);
    assert_int_equal(rig.model.first_trained, 2);
    assert_null(rig.grads[0]);
    forward(&rig, TOKENS, TARGETS, 1);
    backward(&rig);
    before = mem_new((size_t)rig.model.unit[2].elems, sizeof *before);
    memcpy(before, rig.grads[2], (size_t)rig.model.unit[2].elems * sizeof *before);
    for (int v = 1; v >= 0; v--)
        net_backward(&rig.net, v, rig.params[v], rig.grads[v]);
    assert_memory_equal(before, rig.grads[2], (size_t)rig.model.unit[2].elems * sizeof *before);
    free(before);
    rig_close(&rig);
}

/* ---- operations ---- */

static double flops(const char *text, const char *train)
{
    struct rig rig;
    double n;

    rig_text(&rig, text, train, &(struct net_options){.batch = 1, .seq = 1});
    n = net_flops(&rig.net);
    rig_close(&rig);
    return n;
}

/* One token: 2 in out for each of y, dx, dW; attention 4 heads D, back twice that. */
TEST(test_flops)
{
    enum {
        ATT = 4 * 4 * 6,
        QKV = 6 * 48,
        O = 24 * 6,
        FFN = 6 * 10,
        DOWN = 5 * 6,
        HEAD = 6 * 7
    };
    const double layer = 2 * (QKV + O + FFN + DOWN) + ATT, head = 2 * HEAD;
    const double forward_all = 2 * layer + head;

    assert_true(flops(LLAMA_PLAIN, "all") == 3 * forward_all);
    assert_true(flops(SMOLLM3, "all") == 3 * forward_all);
    assert_true(flops(PHI3, "all") == 3 * forward_all);
    assert_true(flops(LLAMA_PLAIN, "train=lm_head*") == forward_all + head);
    assert_true(flops(LLAMA_PLAIN, "train=model.norm*") == forward_all + head);
    assert_true(flops(LLAMA_PLAIN, "freeze=*embed*,*.0.input*") ==
                3 * forward_all - 2 * QKV); /* the first layer's x needs none */
    assert_true(flops(LLAMA_PLAIN, "train=*.1.mlp.down*") ==
                forward_all + head + 2 * DOWN); /* dx of the head, dW of down */
    assert_true(flops(LLAMA_PLAIN, "train=*.1.self_attn.o_proj*") ==
                forward_all + head + 2 * (DOWN + FFN + O));
    assert_true(flops(LLAMA_PLAIN, "train=*.0.input*") == 2 * forward_all + 2 * ATT);
    /* An adapter of rank 3 on down_proj: 3 (5 + 6) for y, dx and its own gradients; the first
       layer's gives nothing to what is before it. */
    assert_true(flops(LLAMA_PLAIN, "lora=3,targets=down_proj") ==
                forward_all + head + layer + ATT + 2.0 * 33 * 6 - 2 * 15);
    assert_true(flops(GPT2_UNTIED, "all") ==
                3 * (2.0 * (2 * (6 * 18 + 36 + 30 + 30) + 4 * 6) + 2 * HEAD));
}

/* ---- bytes ---- */

/* The memory that a plan asks for without the device is the memory taken on it. */
static void planned_case(const char *text, const char *train)
{
    struct rig rig;

    rig_text(&rig, text, train, &whole);
    for (int i = 0; i < 16; i++) {
        struct net_options o =
            LIST(.batch = i / 4 % 2 ? 3 : 512, .seq = i / 8 ? 7 : 8, .recompute = i % 2,
                 .compute = i / 2 % 2 ? DTYPE_BF16 : DTYPE_F32, .kern = &rig.cpu.kern);
        struct kern kind;
        struct net_bytes taken = net_bytes(&rig.model, &o);

        kern_kind_open(&kind, DEVICE_CPU, o.compute, DTYPE_F32);
        o.kern = &kind;
        if (net_bytes(&rig.model, &o).arrays != taken.arrays)
            fail_msg("%s, case %d: %" PRId64 " bytes, planned %" PRId64, train, i, taken.arrays,
                     net_bytes(&rig.model, &o).arrays);
    }
    rig_close(&rig);
}

TEST(test_planned_bytes)
{
    static const char *const text[] = {GPT2_TIED,   GPT2_UNTIED, LLAMA_PLAIN, LLAMA_BIASES,
                                       QWEN3_PLAIN, PHI3,        GEMMA3};

    for (int i = 0; i < 7; i++) {
        planned_case(text[i], "all");
        planned_case(text[i], "lora=3");
        planned_case(text[i], "lora=40");
        planned_case(text[i], "train=*.1.*");
    }
    planned_case(LLAMA_PLAIN, "train=lm_head*");
    planned_case(LLAMA_PLAIN, "freeze=*embed*");
}

/* ---- the forward alone ---- */

/* Beside the whole network's, within its rounding, and blind to what follows the prompt. */
static void prompt_case(const char *text, const char *train, enum dtype compute)
{
    struct net_options options = {
        .batch = BATCH, .seq = SEQ, .compute = compute, .forward_only = 1};
    struct net_options both = {.batch = BATCH, .seq = SEQ, .compute = compute};
    double want[VOCAB], by_row[ROWS], bound;
    float first[BATCH * VOCAB];
    int32_t tokens[ROWS];
    struct rig all, one;

    if (!has_products(compute))
        return;
    rig_text(&all, text, train, &both);
    rig_text(&one, text, train, &options);
    assert_true(one.arena.used < all.arena.used);
    forward(&all, TOKENS, TARGETS, 0);
    loss_noise(&all, &TEXT, by_row);
    /* In bf16, f32 sums that differ may be rounded apart, by 2^-8. */
    bound = compute == DTYPE_BF16 ? 0x1p-8 : 2 * rounding(&all);
    for (int length = 1; length <= SEQ; length++)
        for (int twice = 0; twice < 2; twice++) {
            for (int i = 0; i < ROWS; i++)
                tokens[i] = i % SEQ < length ? TOKENS[i] : (TOKENS[i] + twice) % VOCAB;
            net_prompt(&one.net, tokens, 0, length);
            for (int v = 0; v < one.model.visits; v++)
                net_forward(&one.net, v, one.params[model_unit_of_visit(&one.model, v)]);
            if (twice)
                assert_memory_equal(first, logits_of(&one), sizeof first);
            memcpy(first, logits_of(&one), sizeof first);
            for (int b = 0; b < BATCH; b++) {
                for (int i = 0; i < VOCAB; i++)
                    want[i] = (double)logits_of(&all)[(b * SEQ + length - 1) * VOCAB + i];
                assert_norm(first + b * VOCAB, want, VOCAB,
                            bound * by_row[b * SEQ + length - 1], "logits");
            }
        }
    rig_close(&all);
    rig_close(&one);
}

/* The text goes on to `length`, by windows; what lies behind it is any. */
static void go_on(struct rig *one, const int32_t *text, int *known, int length)
{
    int32_t tokens[SEQ];

    for (int i = 0; i < SEQ; i++)
        tokens[i] = i < length ? text[i] : (text[i] + length) % VOCAB;
    while (*known < length) {
        int end = *known + one->net.options.window;
        end = end < length ? end : length;
        net_prompt(&one->net, tokens, *known, end);
        for (int v = 0; v < one->model.visits - (end < length); v++)
            net_forward(&one->net, v, one->params[model_unit_of_visit(&one->model, v)]);
        *known = end;
    }
}

/* A text that grows by 1, 2, 3 tokens is what it is at once, for windows of any size. */
static void window_case(const char *text, const char *train)
{
    struct net_options both = {.batch = BATCH, .seq = SEQ};
    double want[VOCAB], by_row[ROWS];
    struct rig all;

    rig_text(&all, text, train, &both);
    forward(&all, TOKENS, TARGETS, 0);
    loss_noise(&all, &TEXT, by_row);
    for (int window = 1; window <= SEQ; window++) {
        struct net_options options = {
            .batch = 1, .seq = SEQ, .forward_only = 1, .window = window};
        struct rig one;

        rig_text(&one, text, train, &options);
        for (int b = 0; b < BATCH; b++)
            for (int known = 0, length = 1, more = 1; length <= SEQ; length += more++) {
                go_on(&one, TOKENS + b * SEQ, &known, length);
                for (int i = 0; i < VOCAB; i++)
                    want[i] = (double)logits_of(&all)[(b * SEQ + length - 1) * VOCAB + i];
                assert_norm(logits_of(&one), want, VOCAB,
                            2 * rounding(&all) * by_row[b * SEQ + length - 1], "logits");
            }
        rig_close(&one);
    }
    rig_close(&all);
}

TEST(test_windows)
{
    window_case(GPT2_TIED, "all");
    window_case(LLAMA_PLAIN, "all");
    window_case(QWEN3_PLAIN, "all");
    window_case(SMOLLM3, "all");
    window_case(PHI3, "all");
    window_case(GEMMA3, "all");
    window_case(LLAMA_BIASES, LORA);
}

TEST(test_prompt)
{
    prompt_case(GPT2_TIED, "all", DTYPE_F32);
    prompt_case(LLAMA_PLAIN, "all", DTYPE_F32);
    prompt_case(QWEN3_PLAIN, "all", DTYPE_BF16);
    prompt_case(GEMMA3, "all", DTYPE_F32);
    prompt_case(LLAMA_BIASES, SOME, DTYPE_F32);
    prompt_case(GPT2_UNTIED, LORA, DTYPE_BF16);
}

BEFORE_TESTS
{
    kern_thread_init();
}

/* ---- documents that are apart in a sequence ---- */

enum { LONG = 8, TWO = 2 * LONG };

/* Two sequences; documents begin at these rows of each. */
static const int32_t LONG_TOKENS[TWO] = {3, 0, 6, 6, 1, 2, 5, 0, 4, 2, 1, 6, 0, 0, 3, 5},
                     LONG_TARGETS[TWO] = {0, 6, -1, 1, 2, 5, 0, -1, 2, 1, 6, 0, -1, 3, 5, 1},
                     LONG_BEGINS[TWO] = {0, 0, 0, 3, 3, 3, 3, 7, 0, 0, 0, 0, 0, 5, 5, 5};

/* Each document in a network of its own, of its length: their losses and gradients add up. */
static void alone_case(const char *text, const char *train, int recompute)
{
    struct net_options options = {
        .batch = 2, .seq = LONG, .recompute = recompute, .begins = LONG_BEGINS};
    struct rig rig, one;
    double loss = 0, loss_bound = 0, *bound, by_row[LONG], **sum;

    rig_text(&rig, text, train, &options);
    sum = mem_new((size_t)rig.model.units, sizeof *sum);
    bound = mem_new((size_t)rig.model.tensors, sizeof *bound);
    for (int u = 0; u < rig.model.units; u++)
        sum[u] = mem_new((size_t)rig.model.unit[u].trained + 1, sizeof **sum);
    for (int first = 0, next; first < TWO; first = next) {
        next = first + 1;
        while (next % LONG && LONG_BEGINS[next] == LONG_BEGINS[first])
            next++;
        struct text part = {LONG_TOKENS + first, LONG_TARGETS + first, 1, next - first};
        rig_text(&one, text, train, &(struct net_options){.batch = 1, .seq = part.seq});
        loss += forward(&one, part.tokens, part.targets, 1);
        backward(&one);
        loss_bound += 2 * rounding(&rig) * loss_noise(&one, &part, by_row); /* both are off */
        for (int i = 0; i < rig.model.tensors; i++)
            if (model_trains(&rig.model, &rig.model.tensor[i]))
                bound[i] += 2 * rounding(&rig) * slope_noise(&one, &part, &one.model.tensor[i]);
        for (int u = 0; u < rig.model.units; u++)
            for (int64_t i = 0; i < rig.model.unit[u].trained; i++)
                sum[u][i] += (double)one.grads[u][i];
        rig_close(&one);
    }
    assert_loss(forward(&rig, LONG_TOKENS, LONG_TARGETS, 1), loss, loss_bound);
    backward(&rig);
    for (int i = 0; i < rig.model.tensors; i++) {
        const struct model_tensor *t = &rig.model.tensor[i];
        if (model_trains(&rig.model, t))
            assert_norm(rig.grads[t->unit] + t->offset, sum[t->unit] + t->offset, t->elems,
                        bound[i], t->name);
    }
    for (int u = 0; u < rig.model.units; u++)
        mem_free(sum[u]);
    mem_free(sum), mem_free(bound);
    rig_close(&rig);
    /* As one document they are another loss. */
    options.begins = NULL;
    rig_text(&rig, text, train, &options);
    assert_true(fabs(forward(&rig, LONG_TOKENS, LONG_TARGETS, 1) - loss) > 10 * loss_bound);
    rig_close(&rig);
}

TEST(documents_are_alone)
{
    for (int recompute = 0; recompute < 2; recompute++) {
        alone_case(GPT2_TIED, "all", recompute);
        alone_case(GPT2_UNTIED, "all", recompute);
        alone_case(LLAMA_BIASES, "all", recompute);
        alone_case(QWEN3_PLAIN, "all", recompute);
        alone_case(GEMMA3, "all", recompute);
        alone_case(LLAMA_PLAIN, LORA, recompute);
    }
}
