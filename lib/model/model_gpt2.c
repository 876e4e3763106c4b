/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows the tensors of the GPT-2 family (Radford et al. 2019), by their Hugging Face names, in
 * the order in which transformers walks the modules.  Matrices of the layers are stored as
 * (in, out), since the first implementation wrote them as a convolution of width one.
 *
 *   unit      tensors, flattened one after the other
 *   embed     transformer.wte.weight, .wpe.weight      (tied: and transformer.ln_f)
 *   layers.N  transformer.h.N.ln_1, attn.c_attn, attn.c_proj, ln_2, mlp.c_fc, mlp.c_proj
 *   head      transformer.ln_f, lm_head.weight         (tied: none)
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "model/model_parts.h"

enum { LAYER_TENSORS = 12 };

/* A norm (rows 0) or a product with its bias: cols inputs are rows, as it is stored. */
static void pair_add(struct model *m, const char *name, int64_t in, int64_t out, double std)
{
    char full[128];

    snprintf(full, sizeof full, "%s.weight", name);
    struct model_tensor *t =
        model_tensor_add(m, full, in ? MODEL_MATRIX : MODEL_VECTOR, in, out);
    t->transposed = in > 0;
    if (in)
        t->init_std = std;
    snprintf(full, sizeof full, "%s.bias", name);
    model_tensor_add(m, full, MODEL_VECTOR, 0, out)->init_mean = 0;
}

static void layer_add(struct model *m, int64_t layer)
{
    int64_t C = m->hidden;
    /* What is added to the residual stream, twice a layer, starts smaller: section 2.3. */
    double last = m->init_std / sqrt(2.0 * (double)m->layers);
    const struct {
        const char *name;
        int64_t in, out;
        double std;
    } part[] = {
        {"ln_1", 0, C, 0},
        {"attn.c_attn", C, 3 * C, m->init_std},
        {"attn.c_proj", C, C, last},
        {"ln_2", 0, C, 0},
        {"mlp.c_fc", C, m->ffn, m->init_std},
        {"mlp.c_proj", m->ffn, C, last},
    };
    char name[128];

    snprintf(name, sizeof name, "layers.%" PRId64, layer);
    model_unit_open(m, name);
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        snprintf(name, sizeof name, "transformer.h.%" PRId64 ".%s", layer, part[i].name);
        pair_add(m, name, part[i].in, part[i].out, part[i].std);
    }
}

void model_gpt2_units(struct model *m)
{
    model_units_room(m, m->layers + 2, m->layers * LAYER_TENSORS + 5);
    model_unit_open(m, "embed");
    model_tensor_add(m, "transformer.wte.weight", MODEL_EMBEDDING, m->vocab, m->hidden);
    model_tensor_add(m, "transformer.wpe.weight", MODEL_EMBEDDING, m->positions, m->hidden);
    if (m->tied)
        pair_add(m, "transformer.ln_f", 0, m->hidden, 0);
    for (int64_t layer = 0; layer < m->layers; layer++)
        layer_add(m, layer);
    if (m->tied)
        return;
    model_unit_open(m, "head");
    pair_add(m, "transformer.ln_f", 0, m->hidden, 0);
    model_tensor_add(m, "lm_head.weight", MODEL_MATRIX, m->vocab, m->hidden);
}
