/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_XML_H
#define BASE_XML_H

#include <stdint.h>

#include "base/err.h"

/*
 * Strict XML 1.0 input, the subset that programs write: elements, attributes, text, comments,
 * the declaration, the five entities and references to characters, in UTF-8.  A document type
 * is passed over if it only names an external one, which is never fetched; one that declares
 * anything is refused, as is every entity beside the five, CDATA and an instruction: nothing in
 * a document can grow it.  Errors are ERR_INPUT with file and line.
 *
 *     struct xml x;
 *     xml_take(&x, "nccl.xml", text, bytes, err);
 *     for (const struct xml_node *n = x.root->child; n; n = n->next) ...
 *     xml_release(&x);
 */
enum {
    XML_BYTES_MAX = 16 << 20,
    XML_DEPTH_MAX = 64, /* elements that are open at once */
    XML_NODES_MAX = 1 << 18,
    XML_ATTRS_MAX = 64 /* of one element */
};

struct xml_attr {
    const char *name, *value; /* value with its entities replaced */
    int line;
};

struct xml_node {
    const char *name;
    const char *text; /* from the start tag to the next tag, entities replaced; "" at least */
    int line;         /* of the start tag, from 1 */
    int attrs;
    const struct xml_attr *attr;                  /* [attrs], in their order */
    const struct xml_node *parent, *child, *next; /* NULL: none; children in their order */
};

struct xml {
    char *name;            /* owned: the path, or "stdin" */
    char *text;            /* owned: all strings lie in it */
    struct xml_node *node; /* [nodes], owned, in the order of their start tags */
    struct xml_attr *attr; /* owned */
    int nodes;
    const struct xml_node *root;
};

/*
 * Parses `bytes` bytes with one 0 behind them; takes `text` (mem_free), also on failure; copies
 * `name`.
 */
int xml_take(struct xml *x, const char *name, char *text, int64_t bytes, struct err *err);
void xml_release(struct xml *x);

/* NULL: absent. */
const char *xml_find(const struct xml_node *n, const char *attr);
/*
 * ERR_INPUT "file:line: 'NAME.ATTR' ..." at the attribute, at the element where it is absent;
 * attr NULL: "file:line: 'NAME' ...".  Returns -1.
 */
int xml_fail(const struct xml *x, const struct xml_node *n, const char *attr, struct err *err,
             const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* Strict numbers (base/num.h); an absent attribute is an error "is missing". */
int xml_i64(const struct xml *x, const struct xml_node *n, const char *attr, int64_t lo,
            int64_t hi, int64_t *out, struct err *err);
int xml_f64(const struct xml *x, const struct xml_node *n, const char *attr, double lo,
            double hi, double *out, struct err *err);

#endif
