/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VALUE_VALUE_YAML_H
#define VALUE_VALUE_YAML_H

#include <stdint.h>
#include <stdio.h>

#include <cyaml/cyaml.h>

#include "base/err.h"
#include "value/value_tree.h"

/*
 * A YAML file: a strict tree (value/value_tree.h), and typed structs from it through a schema
 * of libcyaml's.  Unknown and duplicate keys, aliases, a second or an empty document are errors
 * with file, line and key (its path, as levels[1].port_Bps).  In a schema numbers are strings
 * (base/num.h), since libcyaml takes `12abc` for 12.
 *
 *     struct yaml y;
 *     yaml_read(&y, path, err);                        "-" is stdin; at most YAML_BYTES_MAX
 *     yaml_load(&y, &schema, (void **)&doc, err);
 *     yaml_drop(&schema, doc);  yaml_release(&y);
 */
struct yaml {
    char *text; /* owned */
    int64_t bytes;
    char *name;       /* owned: the path, or "stdin" */
    struct tree tree; /* without a root where the text is not YAML */
    struct err why;   /* then this says so */
};

enum { YAML_BYTES_MAX = 16 << 20 };

int yaml_read(struct yaml *y, const char *path, struct err *err);
/*
 * A text that is there already (a plan embedded in another file, a test): takes `text`, which
 * yaml_release frees (give mem_dup's); copies `name`.
 */
void yaml_take(struct yaml *y, const char *name, char *text, int64_t bytes);
void yaml_release(struct yaml *y);

/*
 * The key `format` must be `format`, as "paro-topology/1": call it first, so that another
 * format or another version is refused by its name and not by its keys.
 */
int yaml_format(const struct yaml *y, const char *format, struct err *err);
/*
 * Loads into structs by a libcyaml schema of mappings, sequences and strings; *out is freed
 * with yaml_drop.
 */
int yaml_load(const struct yaml *y, const cyaml_schema_value_t *schema, void **out,
              struct err *err);
void yaml_drop(const cyaml_schema_value_t *schema, void *data);

/* ERR_INPUT "file:line: 'path' ...", with the line of the nearest parent; returns -1. */
int yaml_fail(const struct yaml *y, const char *path, struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Output: a scalar quoted where YAML needs it. */
void yaml_put_text(FILE *f, const char *text);
/* Shortest decimal that reads back as the same double. */
void yaml_put_f64(FILE *f, double v);

#endif
