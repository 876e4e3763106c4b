/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MODEL_MODEL_FAMILY_H
#define MODEL_MODEL_FAMILY_H

#include <stddef.h>
#include <stdint.h>

/*
 * A family of models is one table, struct model_family, in a file of its own: the keys of its
 * config.json and the modules of its network.  The reader of configs, the network, the planner
 * and the checkpoint format read the table; none of them tests for a family's name.
 *
 * To add a family: write its table in a file of its own and add its name to MODEL_FAMILIES.
 */

/* The role of a module in a decoder.  The first five are products with a matrix, and the stages
   of a forward in their order (net/net_shape.h). */
enum model_role {
    MODEL_QKV, /* queries, keys and values, in this order, in one matrix or in three */
    MODEL_OUT, /* the heads' outputs to the residual stream */
    MODEL_FFN, /* gate, then up; or up alone */
    MODEL_DOWN,
    MODEL_HEAD,           /* to logits; has no tensor if embeddings are tied */
    MODEL_NORM_ATTENTION, /* norm of the input of MODEL_QKV */
    MODEL_NORM_FFN,       /* norm of the input of MODEL_FFN */
    MODEL_NORM_LAST,      /* norm of the input of MODEL_HEAD */
    MODEL_NORM_Q,         /* norm of each head's queries, before rotation; optional */
    MODEL_NORM_K,         /* norm of each head's keys */
    MODEL_NORM_OUT,       /* norm of the output of MODEL_OUT, before it is added; optional */
    MODEL_NORM_DOWN,      /* norm of the output of MODEL_DOWN */
    MODEL_EMBED,
    MODEL_POSITIONS /* a table of learned positions */
};

/* The length of one side of a tensor. */
enum model_size {
    SIZE_NONE,
    SIZE_HIDDEN,
    SIZE_HEAD_DIM,
    SIZE_HEADS, /* heads * head_dim */
    SIZE_KV,    /* kv_heads * head_dim */
    SIZE_QKV,   /* (heads + 2 kv_heads) * head_dim */
    SIZE_FFN,
    SIZE_GATE_UP, /* twice SIZE_FFN */
    SIZE_VOCAB,
    SIZE_POSITIONS
};

enum model_bias { BIAS_NONE, BIAS_ALWAYS, BIAS_IF_ATTENTION, BIAS_IF_FFN /* a key decides */ };

/* A module: a weight (out, in), or a vector (out) if `in` is SIZE_NONE; and its bias. */
struct model_module {
    /* Hugging Face's name, without ".weight" or ".bias".  "%" stands for the layer's number; a
       module without it occurs once */
    const char *name;
    enum model_role role;
    enum model_size out, in;
    enum model_bias bias;
    const char *gguf; /* its name in GGUF files, from ggml's list of names */
};

enum model_norm { MODEL_NORM_RMS, MODEL_NORM_LAYER }; /* x / rms * w, or LayerNorm */
/* The first two are gated, the others plain. */
enum model_ffn { MODEL_FFN_SWIGLU, MODEL_FFN_GEGLU, MODEL_FFN_GELU_TANH, MODEL_FFN_GELU };

enum model_key_type {
    KEY_IGNORED,     /* does not change the network */
    KEY_FIXED,       /* a number, or false (0) or true (1): the only supported value */
    KEY_INT,         /* a whole number from 1, int64_t */
    KEY_INT_OR_NULL, /* null is 0.  model_config.c derives a value for 0 */
    KEY_SAME,        /* another name of an earlier key: null, or equal to it */
    KEY_POSITIVE,    /* a number above 0, double */
    KEY_NUMBER,      /* a number, 0 or above, double */
    KEY_BOOL,        /* int */
    KEY_ACTIVATION,  /* a word of the family's activations */
    KEY_DROPOUT,     /* a probability; model.dropout is the largest */
    KEY_FULL,        /* a list in which each word is "full_attention" */
    KEY_LAYERS       /* a list with each layer's kind, one of the family's layer_kinds */
};

struct model_key {
    const char *name;
    enum model_key_type type;
    size_t at;    /* offset in struct model: MODEL_AT(hidden) */
    double value; /* default if the key is absent; for KEY_FIXED the only value */
};

#define MODEL_AT(field) offsetof(struct model, field)

struct model_activation {
    const char *word;
    enum model_ffn ffn;
};

/* A kind of layers: if the config has no list, every layer_period-th layer is of the second
   kind and all others of the first. */
struct model_layer_kind {
    const char *word; /* its word in the list; or a number, as text */
    int rope;         /* rotary positions of its queries and keys */
};
/* None; model.rope; unscaled positions with base model.local_theta. */
enum { MODEL_NO_ROPE = -1, MODEL_ROPE, MODEL_LOCAL_ROPE, MODEL_ROPES };

struct model_family {
    const char *name, *architecture; /* "llama", "LlamaForCausalLM" */
    const char *base; /* prefix of names that may be missing in files; NULL: must be present */
    /* Each list ends with a NULL name. */
    const struct model_key *keys; /* in the order in which they are read */
    const struct model_module *modules;
    struct model_activation activations[4]; /* the first is the default */
    struct model_layer_kind layer_kinds[3]; /* two; or none: all layers are alike */
    const char *buffers[3]; /* constants stored in old files, which are no parameters */
    enum model_norm norm;
    double norm_plus; /* added to the weights of RMS norms */
    int embed_scaled; /* embeddings times sqrt(hidden) */
    int transposed;   /* matrices of layers are stored as (in, out) */
    /* initial values of MODEL_OUT and MODEL_DOWN are divided by sqrt(2 layers) */
    int small_residuals;
    double rope_theta;  /* default base of rotary positions; 0: learned positions */
    int partial_rotary; /* only a part of each head may rotate: partial_rotary_factor */
    const char *gguf;   /* general.architecture of GGUF files; NULL: no such format */
    int gguf_pairs;     /* a rotary pair is two adjacent rows in GGUF, not half a head apart */
    /* the rope type that llama.cpp applies to it: MODEL_ROPE_LLAMA3, MODEL_ROPE_LONG; or 0 */
    int gguf_rope;
    int gguf_period; /* in GGUF every gguf_period-th layer is of the second layer kind */
    int gguf_window; /* GGUF files have a sliding window (0: none); 2: llama.cpp applies it */
};

/* All families: each is model_family_NAME. */
#define MODEL_FAMILIES(F)                                                                      \
    F(llama) F(mistral) F(qwen2) F(qwen3) F(smollm3) F(phi3) F(gemma3_text) F(gpt2)

#define MODEL_FAMILY_DECLARE(name) extern const struct model_family model_family_##name;
MODEL_FAMILIES(MODEL_FAMILY_DECLARE)
/* a number of parameters without a config */
extern const struct model_family model_family_params;

#endif
