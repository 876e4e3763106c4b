/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_JTREE_H
#define BASE_JTREE_H

#include <jansson.h>
#include <stdint.h>

#include "base/err.h"

/*
 * json_loadb, with JSON_REJECT_DUPLICATES.  From the first call on whatever jansson does in
 * this process aborts where there is no memory, as mem_new does: jansson itself does not look
 * at every allocation, and where one is refused a text may lose a letter, and a number a digit.
 */
json_t *jtree_load(const char *text, int64_t bytes, json_error_t *why);
/* The same; ERR_INPUT with the line of `name` when it is no JSON. */
int jtree_read(const char *name, const char *text, int64_t bytes, json_t **root,
               struct err *err);

#endif
