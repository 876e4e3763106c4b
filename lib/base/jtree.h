/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_JTREE_H
#define BASE_JTREE_H

#include <jansson.h>
#include <stdint.h>

#include "base/err.h"

/*
 * A file of other programs as a tree of jansson's.  A key that nobody uses never decides: the
 * tree holds in place of
 *
 *     1000000000000000019884624838656           the nearest real number
 *     1e400, NaN, Infinity, {"a": 1, "a": 2}    a mark, of which jtree_odd tells the kind
 *
 * A mark is a number below any that a key may have, so that it is no text, no list, and out of
 * every range.  Members with a byte 0 in their key are left out, since no key has one.  What
 * jansson does in this process from the first call on aborts where there is no memory, as
 * mem_new does: jansson itself does not look at every allocation.
 *
 * Returns -1 where the text is no JSON: then `why` has line and reason.
 */
json_t *jtree_load(const char *text, int64_t bytes, json_error_t *why);
/* The same; ERR_INPUT with the line of `name`. */
int jtree_read(const char *name, const char *text, int64_t bytes, json_t **root,
               struct err *err);
/* A file of our own: without numbers that lose digits, without marks. */
int jtree_read_own(const char *name, const char *text, int64_t bytes, json_t **root,
                   struct err *err);

const char *jtree_odd(const json_t *v);  /* "NaN", "given twice", ...; NULL: no mark */
const char *jtree_kind(const json_t *v); /* "a list", ...; of a mark as jtree_odd */
int jtree_is_number(const json_t *v);    /* and no mark */
/* The keys of an object, up to a NULL, are texts, whole numbers and the like, or absent. */
int jtree_no_real(const char *name, const json_t *object, const char *const *keys,
                  struct err *err);

#endif
