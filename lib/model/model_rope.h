/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MODEL_MODEL_ROPE_H
#define MODEL_MODEL_ROPE_H

#include <stdint.h>

/* Computes rotary positions: frequencies of a head's pairs, by the config's rope type. */
enum model_rope_type {
    MODEL_ROPE_DEFAULT,
    MODEL_ROPE_LINEAR,
    MODEL_ROPE_DYNAMIC,
    MODEL_ROPE_LLAMA3,
    MODEL_ROPE_YARN,
    MODEL_ROPE_LONG
};

enum { MODEL_ROPE_SHORT_ONES, MODEL_ROPE_LONG_ONES, MODEL_ROPE_LENGTHS };

struct model_rope {
    enum model_rope_type type;
    double theta, factor;
    double low_freq_factor, high_freq_factor; /* llama3 */
    double original_max; /* llama3, yarn, longrope: positions of the first training */
    double beta_fast, beta_slow, attention_factor; /* yarn; attention_factor 0: by the rule;
                                                      of longrope as well */
    double mscale, mscale_all_dim;                 /* yarn; 0: none */
    int no_truncate;                               /* yarn */
    double partial;                                /* share of a head that turns */
    /* longrope: of each pair, owned.  The long ones are those of sequences above original_max,
       which are rejected; a GGUF file has them. */
    double *pair_factor[MODEL_ROPE_LENGTHS];
    int64_t pair_factors[MODEL_ROPE_LENGTHS];
    int64_t longest; /* a sequence, before longrope's factors and windows limit it */
};

#endif
