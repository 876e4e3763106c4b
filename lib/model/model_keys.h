/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MODEL_MODEL_KEYS_H
#define MODEL_MODEL_KEYS_H

#include <inttypes.h>
#include <jansson.h>

#include "model/model.h"

/* How the keys of a config.json are read; for the files that know a family's. */

struct config {
    const char *name, *text;
    json_t *root;
    struct err *err;
};

/* A key that must stand at one value: another would be another network, or another training. */
struct model_fixed {
    const char *key; /* NULL ends a list */
    double value;    /* false is 0; null is always taken for the value */
};

struct model_family {
    const char *name, *architecture;
    const char *const *keys; /* read, or without effect on the network; NULL ends it */
    const struct model_fixed *fixed;
    int (*read)(const struct config *c, struct model *m);
    void (*units)(struct model *m);
};

extern const struct model_family model_family_llama, model_family_gpt2;

/* The line of a key of the outermost object: the parser keeps none.  0 if not seen. */
int keys_line(const char *text, const char *key);
const char *keys_kind(const json_t *v); /* "a list" */

#define KEY_FAIL(c, key, ...)                                                                  \
    err_at((c)->err, (c)->name, keys_line((c)->text, key), key, __VA_ARGS__)

/* A whole number from 1 to hi; absent: *out stays.  null_ok: null counts as absent. */
int keys_int(const struct config *c, const char *key, int64_t hi, int null_ok, int64_t *out);
/* A number above 0, or 0 where zero_ok; absent: *out stays. */
int keys_num(const struct config *c, const char *key, int zero_ok, double *out);
/* true or false; absent: *out stays. */
int keys_bool(const struct config *c, const char *key, int *out);
/* *out: the place of the value in words, which a NULL ends; absent: *out stays. */
int keys_word(const struct config *c, const char *key, const char *const *words, int *out);
/* rope_theta, rope_scaling and rope_parameters; after the sizes. */
int keys_rope(const struct config *c, struct model *m);

#endif
