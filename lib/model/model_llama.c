/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows the tensors of the Llama family, by their Hugging Face names, in the order in which
 * transformers walks the modules: within a layer q k v o, gate up down, then the two norms.
 *
 *   unit      tensors, flattened one after the other
 *   embed     model.embed_tokens.weight          (tied: and model.norm.weight)
 *   layers.N  model.layers.N.self_attn.{q,k,v,o}_proj, mlp.{gate,up,down}_proj, the norms;
 *             behind a matrix its bias, where the config has them
 *   head      model.norm.weight, lm_head.weight  (tied: none)
 */
#include <inttypes.h>
#include <stdio.h>

#include "model/model_parts.h"

enum { LAYER_PARTS = 9, LAYER_TENSORS = 16 /* with biases */ };

static void layer_add(struct model *m, int64_t layer)
{
    int64_t q = m->heads * m->head_dim, kv = m->kv_heads * m->head_dim;
    const struct {
        const char *name;
        int64_t rows, cols;
        int bias;
    } part[LAYER_PARTS] = {
        {"self_attn.q_proj", q, m->hidden, m->attention_bias},
        {"self_attn.k_proj", kv, m->hidden, m->attention_bias},
        {"self_attn.v_proj", kv, m->hidden, m->attention_bias},
        {"self_attn.o_proj", m->hidden, q, m->attention_bias},
        {"mlp.gate_proj", m->ffn, m->hidden, m->ffn_bias},
        {"mlp.up_proj", m->ffn, m->hidden, m->ffn_bias},
        {"mlp.down_proj", m->hidden, m->ffn, m->ffn_bias},
        {"input_layernorm", 0, m->hidden, 0},
        {"post_attention_layernorm", 0, m->hidden, 0},
    };
    char name[128];

    snprintf(name, sizeof name, "layers.%" PRId64, layer);
    model_unit_open(m, name);
    for (int i = 0; i < LAYER_PARTS; i++) {
        snprintf(name, sizeof name, "model.layers.%" PRId64 ".%s.weight", layer, part[i].name);
        model_tensor_add(m, name, part[i].rows ? MODEL_MATRIX : MODEL_VECTOR, part[i].rows,
                         part[i].cols);
        if (!part[i].bias)
            continue;
        snprintf(name, sizeof name, "model.layers.%" PRId64 ".%s.bias", layer, part[i].name);
        model_tensor_add(m, name, MODEL_VECTOR, 0, part[i].rows)->init_mean = 0;
    }
}

void model_llama_units(struct model *m)
{
    model_units_room(m, m->layers + 2, m->layers * LAYER_TENSORS + 3);
    model_unit_open(m, "embed");
    model_tensor_add(m, "model.embed_tokens.weight", MODEL_EMBEDDING, m->vocab, m->hidden);
    if (m->tied)
        model_tensor_add(m, "model.norm.weight", MODEL_VECTOR, 0, m->hidden);
    for (int64_t layer = 0; layer < m->layers; layer++)
        layer_add(m, layer);
    if (m->tied)
        return;
    model_unit_open(m, "head");
    model_tensor_add(m, "model.norm.weight", MODEL_VECTOR, 0, m->hidden);
    model_tensor_add(m, "lm_head.weight", MODEL_MATRIX, m->vocab, m->hidden);
}
