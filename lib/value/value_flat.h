/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VALUE_VALUE_FLAT_H
#define VALUE_VALUE_FLAT_H

#include "value/value_tree.h"

/*
 * Parse settings of other programs into one mapping (value/value_tree.h).
 *
 * TOML: keys are dotted, "parallelism.tensor_parallel_degree".  The subset: tables, comments,
 * keys of words and dots, texts of one line, numbers, booleans, arrays.
 *
 * Flags, from the first word on: --NAME, --NAME VALUE..., --NAME=VALUE, with quotes, and with
 * comments from # on.  Keys are "--NAME"; a flag without a value has "true".
 */
int flat_parse_toml(struct tree *t, const char *name, const char *text, struct err *err);
int flat_parse_flags(struct tree *t, const char *name, const char *text, struct err *err);

#endif
