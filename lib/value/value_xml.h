/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VALUE_VALUE_XML_H
#define VALUE_VALUE_XML_H

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

/*
 * A tree of XML elements: read with expat, or built and printed.  UTF-8 only.  Documents that
 * declare entities or elements are rejected; external DTDs are ignored.  Errors are ERR_INPUT
 * with file and line.
 *
 *     struct xml x;
 *     xml_take(&x, "nccl.xml", text, bytes, err);
 *     for (const struct xml_node *n = x.root->child; n; n = n->next) ...
 *     xml_release(&x);
 */
enum {
    XML_BYTES_MAX = 16 << 20,
    XML_DEPTH_MAX = 64, /* nested elements */
    XML_NODES_MAX = 1 << 18,
    XML_ATTRS_MAX = 64 /* attributes of one element */
};

struct xml_attr {
    char *name, *value; /* owned */
};

struct xml_node { /* owned by the document */
    char *name;
    char *text; /* from the start tag to the first child or the end tag; "" if empty */
    int line;   /* line of the start tag, from 1; 0: built, not read */
    int index;  /* from 0, in the order of the start tags */
    int attrs;
    struct xml_attr *attr; /* [attrs], in their order */
    size_t attr_space;
    struct xml_node *parent, *child, *last, *next; /* NULL: none; last: of the children */
};

struct xml {
    char *name; /* owned: the path, or "stdin" */
    int nodes;
    struct xml_node *root;
};

/* Parses a text that ends with a 0; frees `text` (mem_free), also on failure; copies `name`. */
int xml_take(struct xml *x, const char *name, char *text, int64_t bytes, struct err *err);
void xml_release(struct xml *x);

/* The next element in document order: n's first child if there is one; NULL at the end. */
struct xml_node *xml_after(const struct xml_node *n);
/* The value of an attribute; NULL: absent. */
const char *xml_find(const struct xml_node *n, const char *attr);
/* The value of an attribute; "" if it is absent or n is NULL. */
const char *xml_word(const struct xml_node *n, const char *attr);
/* Whether n is an element of this name; n may be NULL. */
int xml_is(const struct xml_node *n, const char *name);
/* Whether the attribute exists and has this value. */
int xml_has(const struct xml_node *n, const char *attr, const char *value);
/*
 * Sets ERR_INPUT "file:line: 'NAME.ATTR' ..." with the element's line; attr NULL: "file:line:
 * 'NAME' ...".  Returns -1.
 */
int xml_fail(const struct xml *x, const struct xml_node *n, const char *attr, struct err *err,
             const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* Strict numbers (base/num.h); an absent attribute is an error "is missing". */
int xml_i64(const struct xml *x, const struct xml_node *n, const char *attr, int64_t lo,
            int64_t hi, int64_t *out, struct err *err);
int xml_f64(const struct xml *x, const struct xml_node *n, const char *attr, double lo,
            double hi, double *out, struct err *err);

/* ---- building; initialize x with {0} ---- */

/* Adds a last child to `parent`, or with NULL the root; its text is empty. */
struct xml_node *xml_add(struct xml *x, struct xml_node *parent, const char *name);
void xml_set(struct xml_node *n, const char *attr, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Prints elements and attributes, indented by two; no text. */
void xml_print(const struct xml *x, FILE *out);

#endif
