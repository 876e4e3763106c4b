/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MODEL_MODEL_FAMILY_H
#define MODEL_MODEL_FAMILY_H

#include <stddef.h>
#include <stdint.h>

/*
 * A family of models is one table, struct model_family, in a file of its own: the keys of its
 * config.json and the modules of its network.  The reader of configs, the network, the planner
 * and the checkpoint format ask the table; none of them knows a family by its name.
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
    MODEL_HEAD,           /* to logits; where embeddings are tied it has no tensor */
    MODEL_NORM_ATTENTION, /* of what MODEL_QKV reads */
    MODEL_NORM_FFN,       /* of what MODEL_FFN reads */
    MODEL_NORM_LAST,      /* of what MODEL_HEAD reads */
    MODEL_NORM_Q,         /* of each head's queries, before they turn; or none */
    MODEL_NORM_K,         /* of each head's keys */
    MODEL_NORM_OUT,       /* of what MODEL_OUT gives, before it is added; or none */
    MODEL_NORM_DOWN,      /* of what MODEL_DOWN gives */
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
    SIZE_QKV,   /* all three: heads + 2 kv_heads */
    SIZE_FFN,
    SIZE_GATE_UP, /* twice SIZE_FFN */
    SIZE_VOCAB,
    SIZE_POSITIONS
};

enum model_bias { BIAS_NONE, BIAS_ALWAYS, BIAS_IF_ATTENTION, BIAS_IF_FFN /* as a key says */ };

/* A module: a weight (out, in), or a vector (out) where `in` is SIZE_NONE; and its bias. */
struct model_module {
    const char *name; /* in Hugging Face's files ".weight" or ".bias" follows.  "%" stands for
                         the number of a layer; a module without it is there once */
    enum model_role role;
    enum model_size out, in;
    enum model_bias bias;
    const char *gguf; /* its name in GGUF files, which ggml's list of names has */
};

enum model_norm { MODEL_NORM_RMS, MODEL_NORM_LAYER }; /* x / rms * w, or LayerNorm */
/* The first two are gated, the others plain. */
enum model_ffn { MODEL_FFN_SWIGLU, MODEL_FFN_GEGLU, MODEL_FFN_GELU_TANH, MODEL_FFN_GELU };

enum model_key_type {
    KEY_IGNORED,     /* does not change the network */
    KEY_FIXED,       /* a number, or false (0) or true (1): another value is not supported */
    KEY_INT,         /* a whole number from 1, int64_t */
    KEY_INT_OR_NULL, /* null is 0.  0 takes the value that model_config.c derives */
    KEY_SAME,        /* another name of an earlier key: null, or equal to it */
    KEY_POSITIVE,    /* a number above 0, double */
    KEY_NUMBER,      /* a number, 0 or above, double */
    KEY_BOOL,        /* int */
    KEY_ACTIVATION,  /* a word of the family's activations */
    KEY_DROPOUT,     /* a probability; model.dropout is the largest */
    KEY_FULL,        /* a list in which each word is "full_attention" */
    KEY_LAYERS       /* a list with the kind of each layer, of the family's layer_kinds */
};

struct model_key {
    const char *name;
    enum model_key_type type;
    size_t at;    /* the field of struct model: MODEL_AT(hidden) */
    double value; /* if the key is absent; of KEY_FIXED the only one */
};

#define MODEL_AT(field) offsetof(struct model, field)

struct model_activation {
    const char *word;
    enum model_ffn ffn;
};

/* Layers of one kind: the first kind is most layers', the second every layer_period-th one's
   where the config lists none. */
struct model_layer_kind {
    const char *word; /* in the list; or a number, as text */
    int rope;         /* the rotary positions of its queries and keys */
};
/* Nothing; model.rope; the plain positions of model.local_theta. */
enum { MODEL_NO_ROPE = -1, MODEL_ROPE, MODEL_LOCAL_ROPE, MODEL_ROPES };

struct model_family {
    const char *name, *architecture; /* "llama", "LlamaForCausalLM" */
    const char *base; /* prefix of names that files may lack; NULL: none may be missing */
    /* Each list ends with a NULL name. */
    const struct model_key *keys; /* in the order in which they are read */
    const struct model_module *modules;
    const struct model_activation *activations; /* the first is the default */
    const struct model_layer_kind *layer_kinds; /* NULL: all layers are alike */
    const char *const *buffers; /* constants that old files hold: no parameters; or NULL */
    enum model_norm norm;
    double norm_plus;    /* added to the weights of its norms, of RMS alone */
    int embed_scaled;    /* embeddings times sqrt(hidden) */
    int transposed;      /* matrices of layers are stored as (in, out) */
    int small_residuals; /* first values of MODEL_OUT and MODEL_DOWN over sqrt(2 layers) */
    double rope_theta;   /* default base of rotary positions; 0: learned positions */
    int partial_rotary;  /* a part of each head may turn: partial_rotary_factor */
    const char *gguf;    /* general.architecture of GGUF files; NULL: has no such form */
    int gguf_pairs;      /* there a rotary pair is two rows one after the other, not half a head
                            apart */
    int gguf_rope;   /* the rope type of these that llama.cpp applies to it: MODEL_ROPE_LLAMA3,
                            MODEL_ROPE_LONG; or 0 */
    int gguf_period; /* there every so many layers are of the second of layer_kinds */
    int gguf_window; /* files have a sliding window, 0 is none; 2: llama.cpp applies it */
};

/* All families: each is model_family_NAME. */
#define MODEL_FAMILIES(F)                                                                      \
    F(llama) F(mistral) F(qwen2) F(qwen3) F(smollm3) F(phi3) F(gemma3_text) F(gpt2)

#define MODEL_FAMILY_DECLARE(name) extern const struct model_family model_family_##name;
MODEL_FAMILIES(MODEL_FAMILY_DECLARE)
extern const struct model_family model_family_params; /* a bare number of parameters */

#endif
