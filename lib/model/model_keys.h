/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MODEL_MODEL_KEYS_H
#define MODEL_MODEL_KEYS_H

#include <inttypes.h>

#include "value/value_tree.h"
#include "model/model.h"

/* Reads the keys of a config.json; for the files of families. */

struct config {
    const struct tree *tree;
    struct err *err;
};

#define KEY_FAIL(c, key, ...) tree_fail((c)->tree, (c)->tree->root, key, (c)->err, __VA_ARGS__)

/* Finds the value of a key; NULL if it is absent. */
const struct tree_node *keys_find(const struct config *c, const char *key);
/* Reads a whole number from 1 to hi; absent: *out stays.  null_ok: null counts as absent. */
int keys_int(const struct config *c, const char *key, int64_t hi, int null_ok, int64_t *out);
/* Reads a number above 0, or 0 if zero_ok; absent: *out stays. */
int keys_num(const struct config *c, const char *key, int zero_ok, double *out);
/* *out: index of the value in words, which ends with NULL; absent: *out stays. */
int keys_word(const struct config *c, const char *key, const char *const *words, int *out);
/* Reads rope_theta, rope_scaling and rope_parameters; call it after the sizes are known. */
int keys_rope(const struct config *c, struct model *m);
/* Returns the first key in which a and b differ, or NULL; and both values as text. */
const char *keys_rope_difference(const struct model_rope *a, const struct model_rope *b,
                                 char in_a[32], char in_b[32]);

#endif
