/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VALUE_VALUE_TREE_H
#define VALUE_VALUE_TREE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/*
 * Parses YAML or JSON into a tree, strictly: one document, in YAML without aliases, anchors and
 * tags.  Errors are ERR_INPUT with file, line and the key's path ("levels[1].port_Bps").  For
 * JSON of other programs see tree_parse_loose.
 *
 *     struct tree t;
 *     tree_parse(&t, "fabric.yaml", text, bytes, err);
 *     tree_keys(&t, t.root, "name size rates?", err);
 *     tree_i64(&t, tree_get(t.root, "size"), 1, 99, &size, err);
 *     tree_list(&t, tree_get(t.root, "rates"), 1, 8, err);
 *     tree_release(&t);
 *
 * Getters accept n = NULL, an absent key, and then leave *out unchanged.  In JSON a text is not
 * accepted as a number nor a number as a text, and null counts as absent.
 */
enum { TREE_DEPTH_MAX = 32 };

enum tree_kind { TREE_SCALAR, TREE_MAP, TREE_LIST, TREE_NULL, TREE_ODD };

/* Nodes and their texts are owned by the tree. */
struct tree_node {
    enum tree_kind kind;
    int line;         /* line of the key or the item, from 1 */
    int items;        /* items of a mapping or list; bytes of a JSON text */
    int quoted;       /* JSON: the scalar is a text */
    const char *key;  /* the key, for a value in a mapping; else NULL */
    const char *text; /* text of a scalar or TREE_ODD, as written; else NULL */
    struct tree_node *parent, *child, *last, *next; /* NULL: none; last: of the children */
    struct tree_node **sorted; /* a loose tree's mapping: members sorted by key */
};

struct tree {
    char *name; /* owned: the path, or "stdin" */
    int json;
    struct tree_node *root;
    struct tree_part *parts; /* memory blocks of the nodes */
};

int tree_parse(struct tree *t, const char *name, const char *text, int64_t bytes,
               struct err *err);
/* `line`: the text's first line in the file; 0: lines are not counted. */
int tree_parse_json(struct tree *t, const char *name, int line, const char *text, int64_t bytes,
                    struct err *err);
/*
 * Parses another program's text.  Keys that the caller does not use never cause an error.
 * Depth is at most JIN_DEPTH_MAX.  Members with a 0 byte in their key are dropped.  Unusable
 * values are TREE_ODD, on which every getter but tree_bytes fails: NaN, numbers beyond 1e308
 * (1e400, Infinity), texts with a 0 byte, duplicate keys.
 */
int tree_parse_loose(struct tree *t, const char *name, int line, const char *text,
                     int64_t bytes, struct err *err);
void tree_release(struct tree *t);

/* Sets "file:line: 'PATH.KEY' ..." with the line of the key if it is present; key NULL: the
   node's own path and line.  Returns -1. */
int tree_fail(const struct tree *t, const struct tree_node *n, const char *key, struct err *err,
              const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* The value of a key; NULL: it is absent, or n is NULL or not a mapping. */
const struct tree_node *tree_find(const struct tree_node *n, const char *key);
/* As tree_find, but null counts as absent. */
const struct tree_node *tree_get(const struct tree_node *n, const char *key);
/* The first child of a mapping or list; NULL: n has no children, is of another kind, or
   NULL. */
const struct tree_node *tree_first(const struct tree_node *n, enum tree_kind kind);
/* The number of children; 0 in the same cases. */
int tree_count(const struct tree_node *n, enum tree_kind kind);

/* For JSON whose values are used if they fit: n may be NULL or any node. */
const char *tree_string(const struct tree_node *n);       /* NULL: not a text */
int tree_is(const struct tree_node *n, const char *word); /* "true", "false" */
int tree_is_bool(const struct tree_node *n);
int tree_is_whole(const struct tree_node *n, int64_t *out); /* fits int64_t */
int tree_is_number(const struct tree_node *n, double *out);
/* Whether two JSON values are equal; mappings may differ in order; 1 equals 1.0. */
int tree_equal(const struct tree_node *a, const struct tree_node *b);
/* For messages: numbers, true and false as written, else "a list", "a text", "NaN", ... */
const char *tree_shown(const struct tree *t, const struct tree_node *n);

/*
 * Checks that n is a mapping with these keys (separated by blanks): each at most once, those
 * without '?' exactly once, and no others.
 */
int tree_keys(const struct tree *t, const struct tree_node *n, const char *keys,
              struct err *err);
/* Checks that these keys of the root (separated by blanks) are absent or not real numbers. */
int tree_no_real(const struct tree *t, const char *keys, struct err *err);
/* Checks that n, a mapping that may have other keys, has this key at most once. */
int tree_once(const struct tree *t, const struct tree_node *n, const char *key,
              struct err *err);
/* Checks that n is NULL or a list of least .. most items. */
int tree_list(const struct tree *t, const struct tree_node *n, int64_t least, int64_t most,
              struct err *err);
/* A scalar of least .. most bytes; *out is borrowed from the tree. */
int tree_text(const struct tree *t, const struct tree_node *n, size_t least, size_t most,
              const char **out, struct err *err);
/* n, which must exist, is a JSON text: in a loose tree any bytes, then a 0. */
int tree_bytes(const struct tree *t, const struct tree_node *n, const char **out,
               int64_t *bytes, struct err *err);
/* A nonempty text without control characters, copied to out[space]. */
int tree_word(const struct tree *t, const struct tree_node *n, char *out, size_t space,
              struct err *err);
/* Strict numbers (base/num.h) from lo to hi; if hi exceeds 2^31 a whole number may have an
   exponent. */
int tree_i64(const struct tree *t, const struct tree_node *n, int64_t lo, int64_t hi,
             int64_t *out, struct err *err);
int tree_int(const struct tree *t, const struct tree_node *n, int lo, int hi, int *out,
             struct err *err);
/* true or false, JSON only. */
int tree_bool(const struct tree *t, const struct tree_node *n, int *out, struct err *err);
int tree_f64(const struct tree *t, const struct tree_node *n, double lo, double hi, double *out,
             struct err *err);
/* The index of n's text among `count` words. */
int tree_choice(const struct tree *t, const struct tree_node *n, const char *const *words,
                int count, int *out, struct err *err);

#endif
