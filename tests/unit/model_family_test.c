/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests each family's table: published sizes, what the network relies on, and refused configs.
 */
#include "unit.h"

#include "model_fixture.h"

/* Psi of Llama 7B, 13B, 65B, Llama 3 8B, Llama 3.2 1B, SmolLM2 135M, Qwen2.5 0.5B, Mistral 7B,
   Qwen3 0.6B, SmolLM3 3B, Phi-3-mini, Phi-4-mini, Gemma 3 270m and 1b as their authors publish
   them. */
static const struct {
    const char *text;
    int64_t params;
} known[] = {
    {"{'model_type':'llama'}", 6738415616},
    {"{'model_type':'llama','hidden_size':5120,'intermediate_size':13824,"
     "'num_hidden_layers':40,'num_attention_heads':40}",
     13015864320},
    {"{'model_type':'llama','hidden_size':8192,'intermediate_size':22016,"
     "'num_hidden_layers':80,'num_attention_heads':64}",
     65285660672},
    {"{'model_type':'llama','vocab_size':128256,'intermediate_size':14336,"
     "'num_key_value_heads':8}",
     8030261248},
    {"{'model_type':'llama','vocab_size':128256,'hidden_size':2048,'intermediate_size':8192,"
     "'num_hidden_layers':16,'num_key_value_heads':8,'head_dim':64,"
     "'tie_word_embeddings':true,'pretraining_tp':1,'max_position_embeddings':131072,"
     "'rope_theta':500000.0,'rope_scaling':{'factor':32.0,'high_freq_factor':4.0,"
     "'low_freq_factor':1.0,'original_max_position_embeddings':8192,'rope_type':'llama3'}}",
     1235814400},
    {"{'architectures':['LlamaForCausalLM'],'model_type':'llama','vocab_size':49152,"
     "'hidden_size':576,'intermediate_size':1536,'num_hidden_layers':30,"
     "'num_attention_heads':9,'num_key_value_heads':3,'tie_word_embeddings':true,"
     "'is_llama_config':true,'rope_interleaved':false,'rope_theta':100000,"
     "'rope_scaling':null,'transformers.js_config':{}}",
     134515008},
    {"{'model_type':'qwen2','hidden_size':896,'intermediate_size':4864,"
     "'num_hidden_layers':24,'num_attention_heads':14,'num_key_value_heads':2,"
     "'tie_word_embeddings':true,'sliding_window':32768,'max_window_layers':24}",
     494032768},
    {"{'model_type':'mistral'}", 7241732096},
    {"{'model_type':'qwen3','hidden_size':1024,'intermediate_size':3072,"
     "'num_hidden_layers':28,'num_attention_heads':16,'num_key_value_heads':8,"
     "'tie_word_embeddings':true}",
     596049920},
    {"{'architectures':['SmolLM3ForCausalLM'],'model_type':'smollm3',"
     "'max_position_embeddings':65536,'max_window_layers':28,'mlp_bias':false,"
     "'no_rope_layer_interval':4,'pretraining_tp':2,'rope_scaling':null,"
     "'rope_theta':5000000.0,'sliding_window':null,'use_sliding_window':false,"
     "'transformers_version':'4.54.0.dev0','use_cache':false}",
     3075098624},
    {"{'model_type':'phi3','original_max_position_embeddings':4096,'rope_scaling':null,"
     "'sliding_window':2047,'resid_pdrop':0.0}",
     3821079552},
    {"{'architectures':['Phi3ForCausalLM'],'attention_bias':false,'attention_dropout':0.0,"
     "'auto_map':{'AutoTokenizer':'Xenova/gpt-4o'},'embd_pdrop':0.0,'full_attn_mod':1,"
     "'interpolate_factor':1,'lm_head_bias':false,'max_position_embeddings':131072,"
     "'mlp_bias':false,'model_type':'phi3','num_attention_heads':24,'num_key_value_heads':8,"
     "'original_max_position_embeddings':4096,'partial_rotary_factor':0.0625,"
     "'rope_scaling':{'long_factor':[1,2,3,4],'short_factor':[1,1,1,1],'type':'longrope'},"
     "'sliding_window':262144,'tie_word_embeddings':true,'vocab_size':200064}",
     3836021760},
    {"{'architectures':['Gemma3ForCausalLM'],'_sliding_window_pattern':6,"
     "'attention_bias':false,'attn_logit_softcapping':null,'final_logit_softcapping':null,"
     "'head_dim':256,'hidden_activation':'gelu_pytorch_tanh','hidden_size':640,"
     "'intermediate_size':2048,'max_position_embeddings':32768,'model_type':'gemma3_text',"
     "'num_attention_heads':4,'num_hidden_layers':18,'num_key_value_heads':1,"
     "'query_pre_attn_scalar':256,'rope_local_base_freq':10000.0,'rope_scaling':null,"
     "'rope_theta':1000000.0,'sliding_window':512,'use_bidirectional_attention':false,"
     "'vocab_size':262144}",
     268098176},
    {"{'model_type':'gemma3_text','cache_implementation':'hybrid','hidden_size':1152,"
     "'intermediate_size':6912,'num_attention_heads':4,'num_key_value_heads':1,"
     "'sliding_window_pattern':6,'vocab_size':262144}",
     999885952},
};

TEST(test_published)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct model m;
        assert_ok(parse(&m, known[i].text));
        assert_int_equal(m.params, known[i].params);
        model_release(&m);
    }
}

#define NAME_OF(name) #name,
static const char *const families[] = {MODEL_FAMILIES(NAME_OF)};

/* Checks what the network and the readers rely on in each family's table. */
TEST(test_tables)
{
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        int count[MODEL_POSITIONS + 1] = {0};
        char text[64], a[32], b[32];
        struct model m;

        snprintf(text, sizeof text, "{'model_type':'%s'}", families[f]);
        assert_ok(parse(&m, text));
        assert_string_equal(m.family->name, families[f]);
        for (const struct model_module *p = m.family->modules; p->name; p++) {
            int once = p->role == MODEL_EMBED || p->role == MODEL_POSITIONS ||
                       p->role == MODEL_HEAD || p->role == MODEL_NORM_LAST;

            count[p->role]++;
            assert_int_equal(strchr(p->name, '%') == NULL, once);
        }
        for (int role = MODEL_QKV; role <= MODEL_DOWN; role++)
            assert_true(count[role] > 0);
        for (int role = MODEL_HEAD; role <= MODEL_NORM_LAST; role++)
            assert_int_equal(count[role], 1);
        assert_true(count[MODEL_EMBED] == 1 && count[MODEL_NORM_Q] == count[MODEL_NORM_K]);
        assert_int_equal(count[MODEL_POSITIONS], m.family->rope_theta == 0);
        assert_int_equal(model_width(&m, MODEL_QKV), (m.heads + 2 * m.kv_heads) * m.head_dim);
        assert_int_equal(model_width(&m, MODEL_FFN),
                         (m.ffn_type <= MODEL_FFN_GEGLU ? 2 : 1) * m.ffn);
        assert_null(model_difference(&m, &m, a, b));
        model_release(&m);
    }
}

#define GPT2 "{\n 'model_type': 'gpt2',\n "

TEST(test_gpt2)
{
    struct model m;

    assert_ok(model_read(&m, "examples/models/gpt2-124m.json", &err));
    assert_int_equal(m.params, 124439808); /* as published */
    assert_string_equal(m.family->name, "gpt2");
    assert_true(m.tied && m.positions == 1024);
    assert_true(m.max_seq == 1024 && m.head_dim == 64 && m.kv_heads == 12 && m.ffn == 3072);
    assert_true(m.norm == MODEL_NORM_LAYER && m.ffn_type == MODEL_FFN_GELU_TANH);
    assert_true(m.norm_eps == 1e-5 && m.dropout == 0.1);
    assert_int_equal(m.units, 13);
    /* Matrices of a layer: 12 C^2; the head's is the table's; no bias, no position counts. */
    assert_float_equal(model_flops_per_token(&m, 1024),
                       2.0 * (12 * 12 * 768.0 * 768 + 50257.0 * 768) + 12 * 4 * 1024.0 * 768,
                       0);
    const struct model_tensor *fc = model_find(&m, "transformer.h.11.mlp.c_fc.weight");
    assert_true(fc->transposed && fc->shape[0] == 768 && fc->shape[1] == 3072);
    model_release(&m);

    assert_ok(parse(&m, GPT2 "'tie_word_embeddings': false, 'n_embd': 24, 'n_inner': 40, "
                             "'n_ctx': 7, 'n_positions': 7, 'n_layer': 1, 'n_head': 3, "
                             "'resid_pdrop': 0, 'attn_pdrop': 0.0, 'embd_pdrop': 0, "
                             "'vocab_size': 11, 'activation_function': 'gelu', 'dtype': "
                             "'bfloat16'}"));
    assert_true(m.ffn == 40 && m.ffn_type == MODEL_FFN_GELU && m.dropout == 0 && !m.tied);
    assert_true(m.units == 3 && m.visits == 3 && model_find(&m, "lm_head.weight"));
    assert_string_equal(m.dtype, "bf16");
    model_release(&m);
}

TEST(test_refused_gpt2)
{
    refuse(GPT2 "'activation_function': 'relu'}",
           "c.json:3: 'activation_function' relu expected gelu_new gelu_pytorch_tanh gelu");
    refuse(GPT2 "'scale_attn_weights': false}", "c.json:3: 'scale_attn_weights' 0 expected 1");
    refuse(GPT2 "'scale_attn_by_inverse_layer_idx': true}",
           "c.json:3: 'scale_attn_by_inverse_layer_idx' 1 expected 0");
    refuse(GPT2 "'reorder_and_upcast_attn': true}",
           "c.json:3: 'reorder_and_upcast_attn' 1 expected 0");
    refuse(GPT2 "'add_cross_attention': true}", "c.json:3: 'add_cross_attention' 1 expected 0");
    refuse(GPT2 "'n_head': 5}", "c.json:3: 'n_head' 5 expected divisor n_embd 768");
    refuse(GPT2 "'n_ctx': 512}", "c.json:3: 'n_ctx' 512 n_positions 1024");
    refuse(GPT2 "'attn_pdrop': 2}", "c.json:3: 'attn_pdrop' 2 expected probability");
    refuse(GPT2 "'n_inner': 0}", "c.json:3: 'n_inner' 0 expected number 1 4194304");
    refuse(GPT2 "'hidden_size': 8}", "c.json:3: 'hidden_size' key gpt2 family");
    refuse(GPT2 "'architectures': ['GPT2Model']}",
           "c.json:3: 'architectures' [\"GPT2Model\"] expected [\"GPT2LMHeadModel\"]");
}

#define QWEN2 "{\n 'model_type': 'qwen2',\n "

TEST(test_refused_qwen2)
{
    refuse(QWEN2 "'use_sliding_window': true}", "c.json:3: 'use_sliding_window' 1 expected 0");
    refuse(QWEN2 "'num_hidden_layers': 2,\n 'layer_types': ['full_attention', "
                 "'sliding_attention']}",
           "c.json:4: 'layer_types' sliding_attention expected full_attention");
    refuse(QWEN2 "'layer_types': ['full_attention']}",
           "c.json:3: 'layer_types' 1 expected 32 layers");
    refuse(QWEN2 "'layer_types': 1}", "c.json:3: 'layer_types' 1 expected list");
    refuse(QWEN2 "'attention_bias': true}", "c.json:3: 'attention_bias' key qwen2 family");
}

#define SMOLLM3 "{\n 'model_type': 'smollm3',\n 'num_hidden_layers': 5,\n "

/* Any layers may be without rotary positions, and they distinguish networks. */
TEST(test_layers)
{
    static const struct {
        const char *text, *rope; /* of each layer: 1, or 0 for none */
    } row[] = {{SMOLLM3 "'no_rope_layers': null}", "11101"},
               {SMOLLM3 "'no_rope_layer_interval': 2}", "10101"},
               {SMOLLM3 "'no_rope_layers': [0, 1, 1, 0, 0, 7]}", "01100"}};
    struct model m[3];
    char a[32], b[32];

    for (int i = 0; i < 3; i++) {
        assert_ok(parse(&m[i], row[i].text));
        for (int64_t l = 0; l < 5; l++)
            assert_int_equal(model_layer_rope(&m[i], l),
                             row[i].rope[l] == '1' ? 0 : MODEL_NO_ROPE);
    }
    assert_string_equal(model_difference(&m[1], &m[2], a, b), "no_rope_layers");
    assert_string_equal(a, "1 (0)");
    assert_string_equal(b, "0 (0)");
    assert_string_equal(model_difference(&m[0], &m[1], a, b), "no_rope_layers");
    for (int i = 0; i < 3; i++)
        model_release(&m[i]);
    refuse(SMOLLM3 "'no_rope_layers': [1, 1, 0]}",
           "c.json:4: 'no_rope_layers' 3 expected 5 layers");
    refuse(SMOLLM3 "'no_rope_layers': [1, 1, 2, 1, 1]}",
           "c.json:4: 'no_rope_layers' layer 2 expected 1 or 0");
    refuse(SMOLLM3 "'no_rope_layers': 4}", "c.json:4: 'no_rope_layers' 4 expected list");
    refuse(SMOLLM3 "'no_rope_layer_interval': 0}", "c.json:4: 'no_rope_layer_interval' 0");
    refuse(SMOLLM3 "'use_sliding_window': true}",
           "c.json:4: 'use_sliding_window' 1 expected 0");
}

#define GEMMA3 "{\n 'model_type': 'gemma3_text',\n 'num_hidden_layers': 3,\n "

#define FULL "\"full_attention\""

TEST(test_gemma3)
{
    struct model a, b;
    char in_a[32], in_b[32];

    refuse(GEMMA3 "'head_dim': 128}", "'query_pre_attn_scalar' 256 head_dim 128");
    refuse(GEMMA3 "'final_logit_softcapping': 30.0}",
           "c.json:4: 'final_logit_softcapping' 30 expected 0");
    refuse(GEMMA3 "'layer_types': ['full_attention', 'x', 'full_attention']}",
           "c.json:4: 'layer_types' layer 1 expected sliding_attention or full_attention");
    refuse(GEMMA3 "'sliding_window': null}",
           "c.json:4: 'sliding_window' null expected number layer 0 sliding_attention");
    refuse(GEMMA3 "'sliding_window': null,\n 'layer_types': [" FULL ", " FULL
                  ", 'sliding_attention']}",
           "c.json:4: 'sliding_window' null expected number layer 2 sliding_attention");
    assert_ok(parse(&a, GEMMA3 "'sliding_window': null, 'layer_types': [" FULL ", " FULL
                               ", " FULL "]}"));
    assert_int_equal(a.max_seq, 131072);
    model_release(&a);
    refuse(GEMMA3 "'rope_local_base_freq': 0.5}",
           "c.json:4: 'rope_local_base_freq' 0.5 expected 1 or above");
    refuse(GEMMA3 "'rope_parameters': {'full_attention': {}, 'sliding_attention': "
                  "{'rope_type': 'linear', 'factor': 2}}}",
           "c.json:4: 'rope_parameters' sliding_attention default");
    refuse(GEMMA3 "'rope_parameters': {'full_attention': {}, 'chunked_attention': {}}}",
           "c.json:4: 'rope_parameters' 'chunked_attention' object expected full_attention "
           "sliding_attention");
    refuse(GEMMA3 "'rope_scaling': {'full_attention': {}, 'factor': 8.0}}",
           "c.json:4: 'rope_scaling' 'factor' 8.0 expected full_attention");
    refuse(GEMMA3 "'rope_parameters': {'full_attention': {}, 'sliding_attention': 1e4}}",
           "c.json:4: 'rope_parameters' 'sliding_attention' 1e4 expected object");
    refuse(GEMMA3 "'rope_parameters': {'full_attention': null}}",
           "c.json:4: 'rope_parameters' 'full_attention' null expected object");
    refuse("{'model_type': 'gemma2'}", "c.json:1: 'model_type' \"gemma2\" expected");
    assert_ok(parse(&a, GEMMA3 "'rope_theta': 5e5, 'sliding_window_pattern': 3}"));
    assert_true(a.max_seq == 4096 && a.local_theta == 10000 && a.rope.theta == 5e5);
    assert_int_equal(model_layer_rope(&a, 1), MODEL_LOCAL_ROPE);
    assert_int_equal(model_layer_rope(&a, 2), MODEL_ROPE);
    assert_ok(parse(&b,
                    GEMMA3 "'sliding_window_pattern': 3, 'rope_parameters': {'full_attention': "
                           "{'rope_theta': 5e5}, 'sliding_attention': {'rope_theta': 20.0}}}"));
    assert_string_equal(model_difference(&a, &b, in_a, in_b), "rope_local_base_freq");
    model_release(&a);
    model_release(&b);
}

#define PHI3 "{\n 'model_type': 'phi3',\n 'head_dim': 8,\n "
#define PHI3_LONG                                                                              \
    PHI3                                                                                       \
        "\"original_max_position_embeddings\": 64, \"partial_rotary_factor\": 0.5,\n "         \
        "\"rope_scaling\": {\"type\": \"longrope\", \"long_factor\": [1, 2], \"short_factor\": "

TEST(test_refused_phi3)
{
    struct model a, b;
    char in_a[32], in_b[32];

    refuse(PHI3_LONG "[1]}}",
           "c.json:5: 'rope_scaling' 1 numbers short_factor expected 2 half head turn");
    refuse(PHI3_LONG "[1, 0]}}",
           "c.json:5: 'rope_scaling' short_factor 0 expected 1e-06 1e+30");
    refuse(PHI3_LONG "7}}", "c.json:5: 'rope_scaling' 0 numbers short_factor expected 2");
    refuse(PHI3 "'rope_scaling': {'type': 'longrope', 'short_factor': [1, 1, 1, 1]}}",
           "c.json:4: 'rope_scaling' 0 numbers long_factor expected 4");
    refuse(PHI3_LONG "[1, 1], 'beta_fast': 1}}",
           "c.json:5: 'rope_scaling' 'beta_fast' \"longrope\"");
    refuse(PHI3 "'rope_scaling': {'type': 'su'}}",
           "c.json:4: 'rope_scaling' \"su\" expected yarn longrope");
    refuse(PHI3 "'partial_rotary_factor': 0.4}",
           "c.json:4: 'partial_rotary_factor' 0.4 expected even number 8");
    refuse(PHI3 "'partial_rotary_factor': 1.5}",
           "c.json:4: 'partial_rotary_factor' 1.5 expected even number 8");
    refuse(PHI3 "'interpolate_factor': 2}", "c.json:4: 'interpolate_factor' 2 expected 1");
    refuse("{'model_type': 'mistral', 'rope_parameters': {'partial_rotary_factor': 0.5}}",
           "c.json:1: 'rope_parameters' partial_rotary_factor 0.5 expected 1");
    assert_ok(parse(&a, PHI3_LONG "[1, 1]}}"));
    assert_ok(parse(&b, PHI3_LONG "[1, 2]}}"));
    assert_int_equal(a.rotary, 4);
    assert_string_equal(model_difference(&a, &b, in_a, in_b), "short_factor");
    model_release(&b);
    assert_ok(parse(&b, PHI3 "'original_max_position_embeddings': 64, 'partial_rotary_factor': "
                             "0.5, 'rope_scaling': {'type': 'longrope', 'long_factor': [1, 3], "
                             "'short_factor': [1, 1]}}"));
    assert_string_equal(model_difference(&a, &b, in_a, in_b), "long_factor");
    assert_true(strcmp(in_a, "2") == 0 && strcmp(in_b, "3") == 0);
    model_release(&b);
    assert_ok(parse(&b, PHI3 "'rope_scaling': null}"));
    assert_int_equal(b.rotary, 8);
    model_release(&b);
    model_release(&a);
}

/* The shorter of window and positions limits a sequence, and is named. */
TEST(test_window)
{
    static const struct {
        const char *text, *key;
        int64_t max_seq;
    } row[] = {
        {"{'model_type':'mistral'}", "sliding_window", 4096},
        {"{'model_type':'mistral','sliding_window':null}", "max_position_embeddings", 131072},
        {"{'model_type':'mistral','max_position_embeddings':9}", "max_position_embeddings", 9},
        {"{'model_type':'gpt2'}", "n_positions", 1024},
        {"{'model_type':'phi3','sliding_window':2047}", "sliding_window", 2047},
        {PHI3_LONG "[1,1]}}", "original_max_position_embeddings", 64},
    };

    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        struct model m;
        assert_ok(parse(&m, row[i].text));
        assert_int_equal(m.max_seq, row[i].max_seq);
        assert_string_equal(model_max_seq_key(&m), row[i].key);
        model_release(&m);
    }
}
