/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_YAML_WALK_H
#define BASE_YAML_WALK_H

#include "base/yaml.h"

/*
 * The walk over libyaml's events that yaml.c stands on; others use yaml.h.
 * Bounded: nesting to YAML_DEPTH_MAX, no alias, no anchor, no tag, one document.
 */
enum { YAML_DEPTH_MAX = 32 };

/* Every rule of the schema and every guard; ERR_INPUT with file, line and key. */
int yaml_walk_check(const struct yaml *y, const cyaml_schema_value_t *schema, struct err *err);

/*
 * Looks for the key at `path` ("a.b[2].c").  *line is its line, or that of the nearest parent
 * that is there; *text, unless NULL, a copy of its scalar (mem_free), NULL where it is absent
 * or no scalar.  Ends at the key: what stands behind it is not looked at.
 */
int yaml_walk_seek(const struct yaml *y, const char *path, int *line, char **text,
                   struct err *err);

#endif
