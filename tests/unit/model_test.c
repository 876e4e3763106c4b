/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests the model reader: sizes known from published models, defaults, and refused configs. */
#include "unit.h"

#include "base/rng.h"
#include "model_fixture.h"

/* As the authors of stories15M count it; and small enough for a test. */
TEST(test_examples)
{
    struct model m;

    assert_ok(model_read(&m, "examples/models/stories-15m.json", &err));
    assert_int_equal(m.params, 15191712);
    assert_true(m.tied && m.units == 7);
    model_release(&m);
    assert_ok(model_read(&m, "examples/models/gpt2-tiny.json", &err));
    /* tables, four layers of 12 C^2 and 13 C, the last norm */
    assert_int_equal(m.params, 128 * (256 + 512) + 4 * (12 * 128 * 128 + 13 * 128) + 2 * 128);
    assert_true(m.dropout == 0);
    model_release(&m);
}

TEST(test_units)
{
    struct model m;

    assert_ok(parse(&m,
                    "{'architectures':['LlamaForCausalLM'],'vocab_size':11,'hidden_size':12,"
                    "'intermediate_size':7,'num_hidden_layers':2,'num_attention_heads':3,"
                    "'num_key_value_heads':1,'torch_dtype':'bfloat16'}"));
    assert_int_equal(m.units, 4);
    assert_int_equal(m.visits, 4);
    assert_int_equal(m.tensors, 1 + 2 * 9 + 2);
    assert_string_equal(m.dtype, "bf16");
    assert_int_equal(m.head_dim, 4);
    assert_string_equal(m.unit[0].name, "embed");
    assert_string_equal(m.unit[2].name, "layers.1");
    assert_string_equal(m.unit[3].name, "head");
    assert_int_equal(m.unit[1].elems, 144 + 48 + 48 + 144 + 3 * 84 + 24);
    for (int u = 0; u < m.units; u++) { /* tensors lie one after the other */
        int64_t at = 0;
        for (int i = m.unit[u].first; i < m.unit[u].first + m.unit[u].count; i++) {
            assert_int_equal(m.tensor[i].unit, u);
            assert_int_equal(m.tensor[i].offset, at);
            at += m.tensor[i].elems;
        }
        assert_int_equal(at, m.unit[u].elems);
    }
    const struct model_tensor *t = model_find(&m, "model.layers.1.self_attn.k_proj.weight");
    assert_non_null(t);
    assert_int_equal(t->shape[0], 4);
    assert_int_equal(t->shape[1], 12);
    assert_null(model_find(&m, "model.layers.2.mlp.up_proj.weight"));
    assert_int_equal(model_largest_unit(&m), m.unit[1].elems);
    /* two layers of 636 in matrices, lm_head 132; attention 2 layers x 4 T x 12 */
    assert_float_equal(model_flops_per_token(&m, 10), 2.0 * (2 * 636 + 132) + 2 * 4 * 10 * 12,
                       0);
    model_release(&m);
}

TEST(test_tied)
{
    struct model m;

    assert_ok(parse(&m, "{'model_type':'llama','tie_word_embeddings':true,'vocab_size':5,"
                        "'hidden_size':8,'num_attention_heads':2,'num_hidden_layers':1,"
                        "'intermediate_size':3,'head_dim':6}"));
    assert_int_equal(m.units, 2);
    assert_int_equal(m.visits, 3);
    assert_int_equal(model_unit_of_visit(&m, 0), 0);
    assert_int_equal(model_unit_of_visit(&m, 1), 1);
    assert_int_equal(model_unit_of_visit(&m, 2), 0);
    assert_int_equal(m.unit[0].elems, 40 + 8);
    assert_int_equal(model_find(&m, "model.layers.0.self_attn.q_proj.weight")->shape[0], 12);
    assert_null(model_find(&m, "lm_head.weight"));
    model_release(&m);
}

TEST(test_init_values)
{
    struct model m;
    float whole[96], part[96];
    double sum = 0, squares = 0;
    static float big[40000];

    assert_ok(parse(&m, "{'model_type':'llama','vocab_size':5000,'hidden_size':8,"
                        "'num_attention_heads':2,'num_hidden_layers':1,'intermediate_size':12,"
                        "'initializer_range':0.5}"));
    const struct model_tensor *up = model_find(&m, "model.layers.0.mlp.up_proj.weight");
    const struct model_tensor *gate = model_find(&m, "model.layers.0.mlp.gate_proj.weight");
    model_init_values(up, 7, 0, 96, whole);
    for (int64_t lo = 0; lo < 96; lo += 31) /* any part alone gives the same values */
        model_init_values(up, 7, lo, lo + 31 > 96 ? 96 - lo : 31, part + lo);
    assert_memory_equal(whole, part, sizeof whole);
    assert_true(whole[3] == (float)(0.5 * rng_normal(7, rng_stream(up->name), 3)));
    model_init_values(gate, 7, 0, 96, part);
    assert_true(memcmp(whole, part, sizeof whole) != 0);
    model_init_values(model_find(&m, "model.norm.weight"), 7, 0, 8, part);
    assert_true(part[0] == 1 && part[7] == 1);
    model_init_values(&m.tensor[0], 7, 0, 40000, big);
    for (int i = 0; i < 40000; i++) {
        sum += big[i];
        squares += (double)big[i] * big[i];
    }
    /* n values of deviation s: the mean within 5 s / sqrt(n), the variance within 5 s^2
     * sqrt(2/n) */
    assert_true(fabs(sum / 40000) < 5 * 0.5 / 200);
    assert_true(fabs(squares / 40000 - 0.25) < 5 * 0.25 * sqrt(2.0 / 40000));
    model_release(&m);
}

#define SMALL                                                                                  \
    "'vocab_size':11,'hidden_size':6,'num_attention_heads':3,'num_hidden_layers':3,"           \
    "'intermediate_size':5}"

/* Whatever trains, a unit's tensors tile it, and what trains lies in front. */
static void check_tiling(const struct model *m, int64_t trained)
{
    int64_t sum = 0, all = 0;

    for (int u = 0; u < m->units; u++) {
        const struct model_unit *unit = &m->unit[u];
        int64_t at = 0;
        for (int i = 0; i < unit->count; i++) {
            const struct model_tensor *t = &m->tensor[unit->first + i];
            assert_true(t->offset == at && t->unit == u);
            assert_int_equal(model_trains(m, t), i < unit->trained_tensors);
            at += t->elems;
            if (i + 1 == unit->trained_tensors)
                assert_true(at == unit->trained);
        }
        assert_true(at == unit->elems);
        sum += unit->trained;
        all += at;
    }
    assert_true(m->trained == trained && sum == trained && all == m->params);
}

TEST(test_patterns)
{
    struct model m;

    assert_ok(parse(&m, "{'model_type':'llama'," SMALL));
    check_tiling(&m, m.params);
    assert_int_equal(m.first_trained, 0);
    assert_ok(model_train(&m, "freeze=model.embed*,*.layers.[01].*,*norm*", &err));
    /* The rest: the last layer's seven matrices and lm_head. */
    check_tiling(&m, 4 * 6 * 6 + 3 * 6 * 5 + 11 * 6);
    assert_int_equal(m.first_trained, 3);
    assert_int_equal(m.unit[1].trained, 0);
    assert_string_equal(m.tensor[m.unit[3].first].name,
                        "model.layers.2.self_attn.q_proj.weight");
    model_release(&m);

    assert_ok(parse(&m, "{'model_type':'llama'," SMALL));
    assert_ok(model_train(&m, "train=*layernorm*", &err));
    check_tiling(&m, 3 * 2 * 6);
    assert_int_equal(m.first_trained, 1);
    assert_string_equal(m.tensor[m.unit[1].first].name,
                        "model.layers.0.input_layernorm.weight");
    model_release(&m);

    static const struct {
        const char *what, *words;
    } bad[] = {
        {"freeze=*", "30 train"},
        {"train=lm_haed*", "'lm_haed*'"},
        {"freeze=model.norm.weight,", "''"},
        {"lora=0", "rank: '0'"},
        {"lora=", "rank: ''"},
        {"lora=4,alpha=x", "alpha: 'x'"},
        {"lora=4,alpha=1,alpha=2", "'alpha=2' twice"},
        {"lora=4,beta=1", "'beta=1' expected RANK"},
        {"lora=4,targets=q_proj+proj", "'proj' linear"},
        {"lora=4,targets=lm_head", "'lm_head' linear"},
        {"some", "'some' expected all"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_ok(parse(&m, "{'model_type':'llama'," SMALL));
        assert_refused(model_train(&m, bad[i].what, &err), bad[i].words);
        check_tiling(&m, m.params); /* as it was */
        model_release(&m);
    }
}

TEST(test_adapters)
{
    struct model m;
    float first[6];

    assert_ok(parse(&m, "{'model_type':'llama'," SMALL));
    int64_t params = m.params;
    assert_ok(model_train(&m, "lora=2,alpha=4,targets=q_proj+down_proj", &err));
    /* q: in 6, out 6; down: in 5, out 6 */
    check_tiling(&m, 3 * 2 * (12 + 11));
    assert_true(m.params == params + m.trained && m.lora.rank == 2 && m.lora.alpha == 4);
    assert_int_equal(m.first_trained, 1);
    const struct model_tensor *down = model_find(&m, "model.layers.1.mlp.down_proj.weight");
    const struct model_tensor *a = model_adapter(&m, down, MODEL_LORA_A);
    assert_string_equal(a->name, "base_model.model.model.layers.1.mlp.down_proj.lora_A.weight");
    assert_true(a->shape[0] == 2 && a->shape[1] == 5 && model_trains(&m, a));
    const struct model_tensor *b = model_adapter(&m, down, MODEL_LORA_B);
    assert_true(b->shape[0] == 6 && b->shape[1] == 2 && !model_trains(&m, down));
    model_init_values(b, 1, 0, 6, first);
    assert_true(first[0] == 0 && first[5] == 0);
    assert_null(
        model_adapter(&m, model_find(&m, "model.layers.1.mlp.up_proj.weight"), MODEL_LORA_A));
    model_release(&m);

    assert_ok(parse(&m, "{'model_type':'llama'," SMALL));
    assert_ok(model_train(&m, "lora=3", &err)); /* each of a layer, not the head */
    check_tiling(&m, 3 * 3 * (4 * 12 + 3 * 11));
    model_release(&m);
}

#define LLAMA "{\n 'model_type': 'llama',\n "

TEST(test_refused_values)
{
    refuse(LLAMA "'hidden_size': 0}", "c.json:3: 'hidden_size' 0 expected number 1 1048576");
    refuse(LLAMA "'hidden_size': -4}", "c.json:3: 'hidden_size' -4 expected number 1 1048576");
    refuse(LLAMA "'vocab_size': '256'}", "c.json:3: 'vocab_size' expected number 1 16777216");
    refuse(LLAMA "'num_hidden_layers': 9000000000000000000}",
           "c.json:3: 'num_hidden_layers' 9000000000000000000 expected number 1 16384");
    refuse(LLAMA "'num_key_value_heads': 5}",
           "c.json:3: 'num_key_value_heads' 5 expected divisor num_attention_heads 32");
    refuse(LLAMA "'head_dim': 3}", "c.json:3: 'head_dim' 3 expected even number");
    refuse(LLAMA "'rms_norm_eps': 0}", "c.json:3: 'rms_norm_eps' 0 expected number above 0");
    refuse(LLAMA "'tie_word_embeddings': 1}",
           "c.json:3: 'tie_word_embeddings' 1 expected true false");
    refuse(LLAMA "'hidden_act': 'gelu'}", "c.json:3: 'hidden_act' gelu expected silu swish");
    refuse(LLAMA "'torch_dtype': 'int8'}",
           "c.json:3: 'torch_dtype' int8 expected float32 bfloat16 float16 float64");
    refuse(LLAMA "'torch_dtype': 'float32', 'dtype': 'bfloat16'}",
           "c.json:3: 'dtype' bfloat16 'torch_dtype' float32");
}

TEST(test_refused_networks)
{
    refuse("{'model_type': 'opt'}",
           "c.json:1: 'model_type' \"opt\" expected \"llama\" \"gpt2\"");
    refuse("{}", "c.json: 'model_type' missing expected \"llama\" \"gpt2\"");
    refuse("{'architectures': ['OPTForCausalLM']}",
           "[\"OPTForCausalLM\"] expected [\"LlamaForCausalLM\"] [\"GPT2LMHeadModel\"]");
    refuse(LLAMA "'architectures': ['GPT2LMHeadModel']}",
           "c.json:3: 'architectures' [\"GPT2LMHeadModel\"] expected [\"LlamaForCausalLM\"]");
    refuse(LLAMA "'attention_dropout': 0.1}", "c.json:3: 'attention_dropout' 0.1 expected 0");
    refuse(LLAMA "'n_embd': 768}", "c.json:3: 'n_embd' key llama family");
    refuse(LLAMA "'quantization_config': {'bits': 4}}",
           "c.json:3: 'quantization_config' quantized weights");
    refuse(LLAMA "'num_experts': 8}", "c.json:3: 'num_experts' key llama family");
}

#define ROPE(parts) LLAMA "'rope_scaling': {" parts "}}"
#define WRONG       "c.json:3: 'rope_scaling' "

TEST(test_refused_rope)
{
    refuse(ROPE("'type': 'su'"),
           WRONG "type \"su\" expected default linear dynamic llama3 yarn longrope");
    refuse(LLAMA "'rope_parameters': {'rope_type': 3}}",
           "c.json:3: 'rope_parameters' rope_type \"3\" expected default linear yarn");
    refuse(ROPE("'type': 'linear', 'rope_type': 'yarn', 'factor': 2"),
           WRONG "rope_type \"yarn\" type \"linear\"");
    refuse(ROPE("'type': 'linear'"), WRONG "'factor' type \"linear\"");
    refuse(ROPE("'factor': 2.0"), WRONG "'factor' type \"default\"");
    refuse(ROPE("'type': 'dynamic', 'factor': 2, 'beta_fast': 8"),
           WRONG "'beta_fast' type \"dynamic\"");
    refuse(ROPE("'type': 'linear', 'factor': 2, 'factors': 2"),
           WRONG "'factors' type \"linear\"");
    refuse(ROPE("'type': 'linear', 'factor': null"), WRONG "factor null expected number");
    refuse(ROPE("'type': 'linear', 'factor': -1"),
           WRONG "factor -1 expected number 1e-06 1e+30");
    refuse(ROPE("'rope_type': 'llama3', 'factor': 8, 'low_freq_factor': 1"),
           WRONG "'high_freq_factor' type \"llama3\"");
    refuse(ROPE("'rope_type': 'llama3', 'factor': 8, 'low_freq_factor': 4, "
                "'high_freq_factor': 4"),
           WRONG "high_freq_factor 4 expected above low_freq_factor 4");
    refuse(ROPE("'type': 'yarn', 'factor': 2, 'truncate': 1"),
           WRONG "truncate 1 expected true false");
    refuse(ROPE("'type': 'yarn', 'factor': 2, 'attention_factor': 0"),
           WRONG "attention_factor 0 expected number 1e-06 1e+30");
    refuse(ROPE("'type': 'yarn', 'factor': 2, 'rope_theta': 1"),
           WRONG "type \"yarn\" rope_theta 1 expected above 1");
    refuse(ROPE("'rope_theta': 0.5"), WRONG "rope_theta 0.5 expected 1 above");
    refuse(LLAMA "'rope_theta': 1e-320}",
           "c.json:3: 'rope_theta' 9.99989e-321 expected 1 above");
    refuse(ROPE("'partial_rotary_factor': 0.5"), WRONG "partial_rotary_factor expected 1");
    refuse(LLAMA "'rope_scaling': {'type': 'linear', 'factor': 2},\n'rope_parameters': "
                 "{'rope_type': 'default'}}",
           WRONG "rope_parameters");
    refuse(LLAMA "'rope_scaling': [2]}", WRONG "list expected null object");
    refuse(LLAMA "'hidden_size': 64, 'rope_scaling': {'type': 'dynamic', 'factor': 2}}",
           WRONG "type \"dynamic\" head_dim 2");
}

/* tests/data/rope.txt (tests/reference/dump_rope.py): a line with a config, a line with the
 * length, the scale and the frequencies that transformers' formulas give in double precision.
 * A power by log and exp errs by a few units in the last place times the exponent, at most
 * ln(5e5) = 13; the ramp of llama3 takes a difference of turns (up to high_freq_factor 8, of
 * which the ramp is 1 wide or more) and lifts it by up to the factor 32 over the smallest
 * result: 13 * 2^-53 * 8 * 32 * a few < 2e-12. */
TEST(test_rope_against_transformers)
{
    FILE *f = fopen("tests/data/rope.txt", "r");
    static char line[1 << 16];
    double have[64], scale;
    int cases = 0;

    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        struct model m;
        if (line[0] == '#')
            continue;
        if (parse(&m, line))
            fail_msg("%s: %s", line, err.text);
        char *at = fgets(line, sizeof line, f);
        assert_non_null(at);
        assert_true(m.head_dim <= 128);
        model_rope_frequencies(&m, MODEL_ROPE, strtol(at, &at, 10), have, &scale);
        assert_float_equal(scale, strtod(at, &at), 1e-14 * scale);
        for (int i = 0; i < m.rotary / 2; i++) {
            double want = strtod(at, &at);
            if (!(fabs(have[i] - want) <= 2e-12 * want))
                fail_msg("case %d, pair %d: %.17g, expected %.17g", cases, i, have[i], want);
        }
        assert_int_equal(*at, '\n');
        cases++;
        model_release(&m);
    }
    fclose(f);
    assert_true(cases >= 20);
}

TEST(test_biases)
{
    struct model m;

    assert_ok(parse(&m, LLAMA "'attention_bias': true, 'mlp_bias': true, " SMALL));
    /* Beside the 9 tensors of a layer: q, k, v, o of 6, gate and up of 5, down of 6. */
    assert_int_equal(m.unit[1].elems, 4 * 36 + 3 * 30 + 2 * 6 + 4 * 6 + 2 * 5 + 6);
    assert_non_null(model_find(&m, "model.layers.2.mlp.up_proj.bias"));
    assert_float_equal(model_flops_per_token(&m, 0), 2.0 * (3 * (4 * 36 + 3 * 30) + 66), 0);
    model_release(&m);
}

TEST(test_refused_json)
{
    struct model m;

    refuse("[1]", "c.json: list expected object");
    assert_says(parse(&m, LLAMA "'hidden_size': 8,\n 'hidden_size': 9}"),
                "'hidden_size' is given twice, expected a whole number");
    assert_int_equal(err.line, 3);
    assert_int_equal(parse(&m, LLAMA "'hidden_size': 8,,}"), -1);
    assert_int_equal(err.line, 3);
    assert_error(model_read(&m, "/nonexistent/config.json", &err), ERR_ABSENT);
}

TEST(test_harmless)
{
    struct model m;

    assert_ok(parse(&m, LLAMA "'use_cache': false, 'bos_token_id': 1, 'pretraining_tp': 1, "
                              "'rope_scaling': null, 'attention_dropout': 0.0,"
                              "'num_key_value_heads': null, 'transformers_version': '5.0',"
                              "'rope_parameters': {'rope_type': 'default', 'rope_theta': "
                              "500000.0}}"));
    assert_true(m.rope.theta == 500000.0);
    assert_true(m.rope.original_max == 0); /* the same network as with no such key */
    assert_true(m.norm_eps == 1e-6);
    assert_int_equal(m.kv_heads, 32);
    model_release(&m);
    assert_ok(model_read(&m, "params=7e9", &err));
    assert_int_equal(m.params, 7000000000);
    assert_int_equal(m.units, 0);
    assert_string_equal(m.family->name, "params");
    model_release(&m);
    assert_int_equal(model_read(&m, "params=7x", &err), -1);
}
