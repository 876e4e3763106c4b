/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows the tensors of the Llama family, by their Hugging Face names, in the order in which
 * transformers walks the modules: within a layer q k v o, gate up down, then the two norms.
 *
 *   unit      tensors, flattened one after the other
 *   embed     model.embed_tokens.weight          (tied: and model.norm.weight)
 *   layers.N  model.layers.N.self_attn.{q,k,v,o}_proj, mlp.{gate,up,down}_proj, the norms
 *   head      model.norm.weight, lm_head.weight  (tied: none)
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "model/model_parts.h"

enum { LAYER_TENSORS = 9 };

static void unit_open(struct model *m, const char *name)
{
    struct model_unit *u = &m->unit[m->units++];

    *u = (struct model_unit){.first = m->tensors};
    snprintf(u->name, sizeof u->name, "%.63s", name);
}

/* rows 0: a vector of `cols`. */
static void tensor_add(struct model *m, const char *name, enum model_kind kind, int64_t rows,
                       int64_t cols)
{
    struct model_unit *u = &m->unit[m->units - 1];
    struct model_tensor *t = &m->tensor[m->tensors++];

    *t = (struct model_tensor){.kind = kind,
                               .unit = m->units - 1,
                               .offset = u->elems,
                               .elems = rows ? rows * cols : cols,
                               .dims = rows ? 2 : 1,
                               .shape = {rows ? rows : cols, rows ? cols : 0}};
    int used = snprintf(t->name, sizeof t->name, "%s", name);
    assert(used < (int)sizeof t->name);
    u->count++;
    u->elems += t->elems;
}

static void layer_add(struct model *m, int64_t layer)
{
    int64_t q = m->heads * m->head_dim, kv = m->kv_heads * m->head_dim;
    const struct {
        const char *name;
        int64_t rows, cols;
    } part[LAYER_TENSORS] = {
        {"self_attn.q_proj", q, m->hidden},         {"self_attn.k_proj", kv, m->hidden},
        {"self_attn.v_proj", kv, m->hidden},        {"self_attn.o_proj", m->hidden, q},
        {"mlp.gate_proj", m->ffn, m->hidden},       {"mlp.up_proj", m->ffn, m->hidden},
        {"mlp.down_proj", m->hidden, m->ffn},       {"input_layernorm", 0, m->hidden},
        {"post_attention_layernorm", 0, m->hidden},
    };
    char name[128];

    snprintf(name, sizeof name, "layers.%" PRId64, layer);
    unit_open(m, name);
    for (int i = 0; i < LAYER_TENSORS; i++) {
        snprintf(name, sizeof name, "model.layers.%" PRId64 ".%s.weight", layer, part[i].name);
        tensor_add(m, name, part[i].rows ? MODEL_MATRIX : MODEL_VECTOR, part[i].rows,
                   part[i].cols);
    }
}

void model_llama_units(struct model *m)
{
    m->unit = mem_new((size_t)m->layers + 2, sizeof *m->unit);
    m->tensor = mem_new((size_t)m->layers * LAYER_TENSORS + 3, sizeof *m->tensor);
    unit_open(m, "embed");
    tensor_add(m, "model.embed_tokens.weight", MODEL_EMBEDDING, m->vocab, m->hidden);
    if (m->tied)
        tensor_add(m, "model.norm.weight", MODEL_VECTOR, 0, m->hidden);
    for (int64_t layer = 0; layer < m->layers; layer++)
        layer_add(m, layer);
    if (m->tied)
        return;
    unit_open(m, "head");
    tensor_add(m, "model.norm.weight", MODEL_VECTOR, 0, m->hidden);
    tensor_add(m, "lm_head.weight", MODEL_MATRIX, m->vocab, m->hidden);
}
