/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

/*
 * A transformer as a list of units.  A unit is the tensors of one layer, flattened one after
 * the other: what is gathered, reduced and updated at once.  Units in order: embedding, each
 * decoder layer, head (final norm and lm_head).  With tied embeddings the head's tensors (the
 * norm) belong to the embedding's unit and there is no head unit.
 *
 * A VISIT is one use of a unit in the forward: embedding, layers, head.  visits = layers + 2;
 * the backward takes them in the other order.  unit_of_visit tells the unit (tied: the last
 * visit is unit 0 again).
 */
enum model_kind { MODEL_MATRIX, MODEL_VECTOR, MODEL_EMBEDDING };

struct model_tensor {
    char name[128]; /* the Hugging Face name, "model.layers.0.self_attn.q_proj.weight" */
    enum model_kind kind;
    int unit;
    int64_t offset; /* elements, within the unit */
    int64_t elems;
    int dims;         /* 1 or 2 */
    int64_t shape[2]; /* as stored: rows (out features), columns (in features) */
};

struct model_unit {
    char name[64];    /* "embed", "layers.3", "head" */
    int first, count; /* tensors */
    int64_t elems;
};

struct model {
    char family[16]; /* "llama"; "params" for a bare number of parameters */
    int64_t vocab, hidden, layers, heads, kv_heads, head_dim, ffn, max_seq;
    double rope_theta, norm_eps, init_std;
    int tied;
    char dtype[8]; /* torch_dtype in the words of base/dtype.h: "f32", "bf16", "f16" */
    int units, tensors, visits;
    struct model_unit *unit;     /* [units], owned; NULL for "params" */
    struct model_tensor *tensor; /* [tensors], owned */
    int64_t params;              /* Psi */
    char *config;                /* the config.json's own text, owned; NULL for "params" */
};

/*
 * MODEL as typed: a config.json, a folder with one, "-" (stdin), or "params=7e9" (alone, for
 * pricing: no units).  An unknown architecture, rope type or key that changes the network is an
 * error that names file and key; absent keys take the family's defaults.
 */
int model_read(struct model *m, const char *what, struct err *err);
/* The same from the text of a config.json that is there already; name is for messages. */
int model_parse(struct model *m, const char *name, const char *text, int64_t bytes,
                struct err *err);
void model_release(struct model *m);
int model_unit_of_visit(const struct model *m, int visit);
/* The tensor of that name, or NULL. */
const struct model_tensor *model_find(const struct model *m, const char *name);
int64_t model_largest_unit(const struct model *m); /* elements */

/*
 * Floating-point operations of one token at sequence length T, matrix products alone: forward
 * 2 Psi_matmul + attention; forward and backward together three times that.  Returns the
 * FORWARD's.  The attention's masked half is counted, as is usual (a dense product computes
 * it).
 */
double model_flops_per_token(const struct model *m, int64_t seq);
/*
 * The initial value of element i (row-major) of a tensor: N(0, init_std) for matrices and
 * embeddings by rng_normal(seed, rng_stream(name), i), 1 for norms.  Fills out[count].
 */
void model_init_values(const struct model *m, const struct model_tensor *t, uint64_t seed,
                       int64_t first, int64_t count, float *out);

#endif
