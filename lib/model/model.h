/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "model/model_family.h"
#include "model/model_rope.h"
#include "model/model_sparse.h"

/*
 * Describes a transformer as a list of units.  A unit is the tensors of one layer, flattened
 * one after the other: it is gathered, reduced and updated as a whole.  Units in order:
 * embedding, each decoder layer, head (final norm and lm_head).  With tied embeddings the
 * head's tensors (the norm) belong to the embedding's unit and there is no head unit.
 *
 * If only a part of the model trains, a unit is two vectors, each sharded by itself: first the
 * trained, then the frozen elements.
 *
 *     unit  | trained: gradient, optimizer state | frozen: parameters alone |
 *           0                                 trained                     elems
 *
 * For a sparse matrix a unit has the active values and a mask, which is frozen
 * (model_sparse.h).
 *
 * A VISIT is one use of a unit in the forward: embedding, layers, head.  visits = layers + 2;
 * the backward visits in reverse order.  model_unit_of_visit returns the unit (tied: the last
 * visit is unit 0 again).
 */
enum model_kind {
    MODEL_MATRIX,
    MODEL_VECTOR, /* a norm's weight, or a bias */
    MODEL_EMBEDDING,
    MODEL_LORA_A, /* (rank, in) */
    MODEL_LORA_B, /* (out, rank) */
    MODEL_MASK    /* mask of its module's sparse matrix (model_sparse.h) */
};

struct model_tensor {
    /* the Hugging Face name, "model.layers.0.self_attn.q_proj.weight"; for an adapter PEFT's,
       "base_model.model.(base)...q_proj.lora_A.weight" */
    char name[128];
    enum model_kind kind;
    int module, bias; /* index in the family's table; whether it is the module's bias */
    int unit;
    int64_t offset; /* elements, within the unit */
    int64_t elems;  /* for a sparse matrix fewer than its shape has */
    int block; /* sparse matrix: number of outputs that are active together; 0: not sparse */
    int dims;  /* 1 or 2 */
    int64_t shape[2];           /* as stored: rows (out features), columns (in features) */
    int transposed;             /* matrix stored as (in, out), as GPT-2's Conv1D does */
    double init_std, init_mean; /* initial values: normal distribution */
};

struct model_unit {
    char name[64];    /* "embed", "layers.3", "head" */
    int first, count; /* tensors */
    int64_t elems;
    int trained_tensors; /* the first trained_tensors train */
    int64_t trained;     /* their elements */
};

/* Low-rank adapters: y += (alpha / rank) (x A^T) B^T for each target. */
struct model_lora {
    int64_t rank; /* 0: none */
    double alpha;
};

struct model {
    const struct model_family *family;
    int64_t vocab, hidden, layers, heads, kv_heads, head_dim, ffn, max_seq;
    int64_t rotary;    /* number of leading elements of a head that are rotated; even */
    int64_t positions; /* rows of the table of learned positions; 0: rotary */
    /* sliding window: tokens that a token attends to, itself included; 0: all.  max_seq is at
       most this, since attention itself has no window */
    int64_t window;
    int64_t layer_period; /* see model_family.layer_kinds */
    char *layer_kind;     /* [layers], owned: each layer's kind; NULL if there are none */
    enum model_norm norm;
    enum model_ffn ffn_type;
    struct model_rope rope;
    double local_theta; /* rotary base of layers with local positions; 0: no such layers */
    double norm_eps, init_std;
    double dropout; /* the largest in the config; dropout is never applied */
    int tied, attention_bias, ffn_bias;
    char dtype[8]; /* torch_dtype in the names of base/dtype.h: "f32", "bf16", "f16", "f64" */
    int units, tensors, visits;
    struct model_unit *unit;     /* [units], owned; NULL for "params" */
    struct model_tensor *tensor; /* [tensors], owned */
    int64_t params;              /* Psi, including adapters */
    int64_t trained;             /* Psi' */
    int first_trained;           /* visit where the backward ends: no earlier visit trains */
    struct model_lora lora;
    struct model_sparse sparse;
    char *partial; /* the pattern of trained tensors (model_train); owned; NULL: all */
    char *config;  /* text of the config.json, owned; NULL for "params" */
};

/*
 * Reads a model.  what: the MODEL argument: a config.json, a folder with one, "-" (stdin), or
 * "params=7e9" (for cost estimates only: no units).  *m is owned by the caller (model_release).
 * An unknown architecture, rope type or key that changes the network is ERR_INPUT, naming file
 * and key; absent keys take the family's defaults.
 */
int model_read(struct model *m, const char *what, struct err *err);
/* Reads config.json of a folder, whatever the folder's name; it must be a regular file. */
int model_read_folder(struct model *m, const char *dir, struct err *err);
/* Parses the text of a config.json; name is for messages. */
int model_parse(struct model *m, const char *name, const char *text, int64_t bytes,
                struct err *err);
void model_release(struct model *m);
/*
 * Sets the tensors that train, in a model for which this has not been done yet.  The text is
 * one of
 *     all
 *     train=PATTERN[,PATTERN]...    only tensors whose names match one (fnmatch(3))
 *     freeze=PATTERN[,PATTERN]...   all but those
 *     lora=RANK[,alpha=A][,targets=WORD[+WORD]...]
 *     sparse=S[,mode=ems|em][,p=P:...][,at=F:...][,every=F][,scheme=unstructured|block4]
 *         [,lambda=L][,seed=N]      the layers' matrices, of which 1 - S is active
 * lora freezes every tensor and adds a pair of adapters to each matrix of a layer whose name
 * has the last part WORD ("q_proj"); without targets to all of them.  alpha is RANK unless
 * given.  ERR_INPUT: grammar, a pattern or word without a match, nothing left to train.
 */
int model_train(struct model *m, const char *what, struct err *err);
int model_unit_of_visit(const struct model *m, int visit);
/* Finds the tensor of that name, or NULL. */
const struct model_tensor *model_find(const struct model *m, const char *name);
/*
 * Finds the weight or the bias of a module of the family's table, in a layer (-1 for a module
 * that occurs once), or NULL.  A tied head's weight is the embedding's.
 */
const struct model_tensor *model_find_module(const struct model *m, int64_t layer, int module,
                                             int bias);
/* The rotary positions of a layer's queries and keys: MODEL_NO_ROPE, MODEL_ROPE or
   MODEL_LOCAL_ROPE. */
int model_layer_rope(const struct model *m, int64_t layer);
/* The first module of that role; -1 if the family has none. */
int model_module(const struct model *m, enum model_role role);
/* Name of the key of config.json that limits a sequence to max_seq. */
const char *model_max_seq_key(const struct model *m);
/* Columns that all modules of that role write into a row. */
int64_t model_width(const struct model *m, enum model_role role);
/*
 * Returns a key of config.json that makes two models different networks, or NULL; and both
 * values as text.  The longest sequence and the trained tensors may differ.
 */
const char *model_difference(const struct model *a, const struct model *b, char in_a[32],
                             char in_b[32]);
/* Elements of the tensor's shape, including inactive ones. */
int64_t model_whole(const struct model_tensor *t);
/* Whether the tensor has a gradient. */
int model_trains(const struct model *m, const struct model_tensor *t);
int model_is_adapter(const struct model_tensor *t);
/* Whether it is an adapter or a mask: not part of published weights. */
int model_is_added(const struct model_tensor *t);
/* Finds the adapter (MODEL_LORA_A or _B) of a matrix, or NULL. */
const struct model_tensor *model_adapter(const struct model *m, const struct model_tensor *t,
                                         enum model_kind kind);
int64_t model_largest_unit(const struct model *m); /* elements */

/*
 * Rotary positions of a sequence of `seq` tokens: pair i of a head, elements i and i + rotary /
 * 2, is rotated by inv_freq[i] (of rotary / 2) per position; cosine and sine are then
 * multiplied by *scale.  The model must not have learned positions.  The length matters only to
 * the type "dynamic".  which: MODEL_ROPE or MODEL_LOCAL_ROPE.
 */
void model_rope_frequencies(const struct model *m, int which, int64_t seq, double *inv_freq,
                            double *scale);
/*
 * Floating-point operations of the FORWARD of one token at sequence length T, matrix products
 * only: 2 Psi_matmul + attention.  Forward and backward together take three times that.  The
 * attention's masked half is counted, as is usual (a dense product computes it).
 */
double model_flops_per_token(const struct model *m, int64_t seq);
/*
 * Initial values of elements first + [0, count) (row-major) of a tensor: element i is init_mean
 * + init_std * rng_normal(seed, rng_stream(name), i).  Fills out[count].
 */
void model_init_values(const struct model_tensor *t, uint64_t seed, int64_t first,
                       int64_t count, float *out);

#endif
