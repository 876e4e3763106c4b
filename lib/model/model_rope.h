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
    double original_max; /* llama3, yarn, longrope: sequence length of the original training */
    /* yarn, longrope; attention_factor 0: from the formula */
    double beta_fast, beta_slow, attention_factor;
    double mscale, mscale_all_dim; /* yarn; 0: none */
    int no_truncate;               /* yarn */
    double partial;                /* share of a head that is rotated */
    /* longrope: a factor for each pair, owned.  The long ones are for sequences above
       original_max, which are rejected here; GGUF files store them. */
    double *pair_factor[MODEL_ROPE_LENGTHS];
    int64_t pair_factors[MODEL_ROPE_LENGTHS];
    int64_t longest; /* longest sequence, before limits by longrope's factors and windows */
};

#endif
