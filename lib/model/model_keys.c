/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads values of a config.json, and reports those that do not fit. */
#include "model/model_keys.h"

#include <string.h>

const struct tree_node *keys_find(const struct config *c, const char *key)
{
    return tree_find(c->tree->root, key);
}

int keys_int(const struct config *c, const char *key, int64_t hi, int null_ok, int64_t *out)
{
    const struct tree_node *v = keys_find(c, key);
    int64_t n = 0;

    if (!v || (null_ok && v->kind == TREE_NULL))
        return 0;
    if (!tree_is_whole(v, &n) || n < 1 || n > hi)
        return KEY_FAIL(c, key, "is %.60s, expected a whole number from 1 to %" PRId64,
                        tree_shown(c->tree, v), hi);
    *out = n;
    return 0;
}

int keys_num(const struct config *c, const char *key, int zero_ok, double *out)
{
    const struct tree_node *v = keys_find(c, key);
    double d = -1;

    if (!v)
        return 0;
    if (!tree_is_number(v, &d) || d < 0 || (d == 0 && !zero_ok) || d > 1e30)
        return KEY_FAIL(c, key, "is %.60s, expected %s", tree_shown(c->tree, v),
                        zero_ok ? "a number, 0 or above" : "a number above 0");
    *out = d;
    return 0;
}

int keys_word(const struct config *c, const char *key, const char *const *words, int *out)
{
    int count = 0;

    while (words[count])
        count++;
    return tree_choice(c->tree, keys_find(c, key), words, count, out, c->err);
}
