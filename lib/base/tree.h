/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_TREE_H
#define BASE_TREE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/*
 * A text of YAML or JSON as a tree, strictly: one document, in YAML without aliases, anchors
 * and tags.  Errors are ERR_INPUT with file, line and the key's path ("levels[1].port_Bps").
 *
 *     struct tree t;
 *     tree_parse(&t, "fabric.yaml", text, bytes, err);
 *     tree_keys(&t, t.root, "name size rates?", err);
 *     tree_i64(&t, tree_get(t.root, "size"), 1, 99, &size, err);
 *     tree_list(&t, tree_get(t.root, "rates"), 1, 8, err);
 *     tree_release(&t);
 *
 * A getter takes NULL for a key that is absent and then leaves *out as it is.  In JSON a text
 * is no number and a number no text, and null is as if absent.
 */
enum { TREE_DEPTH_MAX = 32 };

enum tree_kind { TREE_SCALAR, TREE_MAP, TREE_LIST, TREE_NULL };

struct tree_node {
    enum tree_kind kind;
    int line;   /* of the key or the item, from 1 */
    int items;  /* of a mapping or a list */
    int quoted; /* in JSON: a text */
    char *key;  /* of a value in a mapping, else NULL; owned */
    char *text; /* of a scalar, else NULL; owned */
    struct tree_node *parent, *child, *last, *next; /* NULL: none; last: of the children */
};

struct tree {
    char *name; /* owned: the path, or "stdin" */
    int json;
    struct tree_node *root;
};

int tree_parse(struct tree *t, const char *name, const char *text, int64_t bytes,
               struct err *err);
/* `line`: of the text's beginning in the file. */
int tree_parse_json(struct tree *t, const char *name, int line, const char *text, int64_t bytes,
                    struct err *err);
void tree_release(struct tree *t);

/* "file:line: 'PATH.KEY' ..."; key NULL: the node's own path.  Returns -1. */
int tree_fail(const struct tree *t, const struct tree_node *n, const char *key, struct err *err,
              const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* The value of a key; NULL where it is absent or null, or n is no mapping or NULL. */
const struct tree_node *tree_get(const struct tree_node *n, const char *key);
/*
 * n is a mapping of these keys, blank-separated: each at most once, and those without a '?'
 * exactly once.
 */
int tree_keys(const struct tree *t, const struct tree_node *n, const char *keys,
              struct err *err);
/* n, a mapping whose other keys are of no interest, has the key at most once. */
int tree_once(const struct tree *t, const struct tree_node *n, const char *key,
              struct err *err);
/* n, unless NULL, is a list of so many items. */
int tree_list(const struct tree *t, const struct tree_node *n, int64_t least, int64_t most,
              struct err *err);
/* A scalar of so many bytes; *out is borrowed from the tree. */
int tree_text(const struct tree *t, const struct tree_node *n, size_t least, size_t most,
              const char **out, struct err *err);
/* A text that is not empty and has no control characters, copied into out[room]. */
int tree_word(const struct tree *t, const struct tree_node *n, char *out, size_t room,
              struct err *err);
/* Strict numbers (base/num.h); where hi is above 2^31 a whole one may have an exponent. */
int tree_i64(const struct tree *t, const struct tree_node *n, int64_t lo, int64_t hi,
             int64_t *out, struct err *err);
int tree_int(const struct tree *t, const struct tree_node *n, int lo, int hi, int *out,
             struct err *err);
/* true or false, of JSON. */
int tree_bool(const struct tree *t, const struct tree_node *n, int *out, struct err *err);
int tree_f64(const struct tree *t, const struct tree_node *n, double lo, double hi, double *out,
             struct err *err);
/* One of `count` words: its index. */
int tree_choice(const struct tree *t, const struct tree_node *n, const char *const *words,
                int count, int *out, struct err *err);

#endif
