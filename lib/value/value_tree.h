/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VALUE_VALUE_TREE_H
#define VALUE_VALUE_TREE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/*
 * A text of YAML or JSON as a tree, strictly: one document, in YAML without aliases, anchors
 * and tags.  Errors are ERR_INPUT with file, line and the key's path ("levels[1].port_Bps").
 * JSON of other programs is read loosely: see tree_parse_loose.
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

enum tree_kind { TREE_SCALAR, TREE_MAP, TREE_LIST, TREE_NULL, TREE_ODD };

/* Nodes and their texts are the tree's. */
struct tree_node {
    enum tree_kind kind;
    int line;         /* of the key or the item, from 1 */
    int items;        /* of a mapping or a list; bytes of a text of JSON */
    int quoted;       /* in JSON: a text */
    const char *key;  /* of a value in a mapping, else NULL */
    const char *text; /* of a scalar and what is odd, as it stands; else NULL */
    struct tree_node *parent, *child, *last, *next; /* NULL: none; last: of the children */
    struct tree_node **sorted; /* the members of a loose tree's mapping by their keys */
};

struct tree {
    char *name; /* owned: the path, or "stdin" */
    int json;
    struct tree_node *root;
    struct tree_part *parts; /* memory of the nodes */
};

int tree_parse(struct tree *t, const char *name, const char *text, int64_t bytes,
               struct err *err);
/* `line`: of the text's beginning in the file; 0: lines are not counted. */
int tree_parse_json(struct tree *t, const char *name, int line, const char *text, int64_t bytes,
                    struct err *err);
/*
 * A text of another program's: a key that is not used never decides.  Depth is JIN_DEPTH_MAX at
 * most.  Members with a 0 byte in their key are left out.  Values that no key may have are
 * TREE_ODD, for which every getter but tree_bytes fails: NaN, numbers beyond 1e308 (1e400,
 * Infinity), a text with a 0 byte, and a key that is given twice.
 */
int tree_parse_loose(struct tree *t, const char *name, int line, const char *text,
                     int64_t bytes, struct err *err);
void tree_release(struct tree *t);

/* "file:line: 'PATH.KEY' ...", the line of the key if it is there; key NULL: the node's own
 * path and line.  Returns -1. */
int tree_fail(const struct tree *t, const struct tree_node *n, const char *key, struct err *err,
              const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* The value of a key; NULL where it is absent, or n is no mapping or NULL. */
const struct tree_node *tree_find(const struct tree_node *n, const char *key);
/* The same; null is as if absent. */
const struct tree_node *tree_get(const struct tree_node *n, const char *key);
/* The first child of a mapping or a list; NULL: n has none, is of another kind, or NULL. */
const struct tree_node *tree_first(const struct tree_node *n, enum tree_kind kind);
/* How many children; 0: as above. */
int tree_count(const struct tree_node *n, enum tree_kind kind);

/* For JSON whose values are taken where they fit: n may be NULL or anything. */
const char *tree_string(const struct tree_node *n);       /* NULL: it is no text */
int tree_is(const struct tree_node *n, const char *word); /* "true", "false" */
int tree_is_bool(const struct tree_node *n);
int tree_is_whole(const struct tree_node *n, int64_t *out); /* of 64 bits */
int tree_is_number(const struct tree_node *n, double *out);
/* For JSON: the same values, in mappings in any order; 1 is 1.0. */
int tree_equal(const struct tree_node *a, const struct tree_node *b);
/* For a message: a number, true and false as they stand, else "a list", "a text", "NaN", ... */
const char *tree_shown(const struct tree *t, const struct tree_node *n);

/*
 * n is a mapping of these keys, blank-separated: each at most once, and those without a '?'
 * exactly once.
 */
int tree_keys(const struct tree *t, const struct tree_node *n, const char *keys,
              struct err *err);
/* The keys of the root, blank-separated, are texts, whole numbers and the like, or absent. */
int tree_no_real(const struct tree *t, const char *keys, struct err *err);
/* n, a mapping whose other keys are of no interest, has the key at most once. */
int tree_once(const struct tree *t, const struct tree_node *n, const char *key,
              struct err *err);
/* n, unless NULL, is a list of so many items. */
int tree_list(const struct tree *t, const struct tree_node *n, int64_t least, int64_t most,
              struct err *err);
/* A scalar of so many bytes; *out is borrowed from the tree. */
int tree_text(const struct tree *t, const struct tree_node *n, size_t least, size_t most,
              const char **out, struct err *err);
/* n, which is there, is a text of JSON: of any bytes in a loose tree, then a 0. */
int tree_bytes(const struct tree *t, const struct tree_node *n, const char **out,
               int64_t *bytes, struct err *err);
/* A text that is not empty and has no control characters, copied into out[room]. */
int tree_word(const struct tree *t, const struct tree_node *n, char *out, size_t space,
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
