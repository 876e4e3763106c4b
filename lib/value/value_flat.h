/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VALUE_VALUE_FLAT_H
#define VALUE_VALUE_FLAT_H

#include "value/value_tree.h"

/*
 * Parse settings of other programs into one mapping (value/value_tree.h); lines in errors are
 * those of the text.
 *
 * TOML: keys are dotted, "parallelism.tensor_parallel_degree".  The subset: tables, comments,
 * keys of words and dots, texts of one line, numbers, booleans, arrays.  Arrays of tables,
 * inline tables and texts of several lines are errors.
 *
 * Flags: --NAME, --NAME VALUE..., --NAME=VALUE, with quotes, comments from # on, and a \ before
 * the end of a line.  Keys are "--NAME"; a flag without a value has "true".
 */
int flat_parse_toml(struct tree *t, const char *name, const char *text, struct err *err);
int flat_parse_flags(struct tree *t, const char *name, const char *text, struct err *err);

#endif
