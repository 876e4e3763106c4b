/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VALUE_VALUE_YAML_H
#define VALUE_VALUE_YAML_H

#include <stdint.h>
#include <stdio.h>

#include <cyaml/cyaml.h>

#include "base/err.h"
#include "value/value_tree.h"

/*
 * A YAML file: read into a strict tree (value/value_tree.h), from which a libcyaml schema fills
 * typed structs.  Unknown and duplicate keys, aliases, a second or an empty document are errors
 * with file, line and the key's path (levels[1].port_Bps).  Schemas declare numbers as strings
 * (parsed by base/num.h), since libcyaml accepts `12abc` as 12.
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
    struct tree tree; /* without root if the text is not YAML; */
    struct err why;   /* then this is the error */
};

enum { YAML_BYTES_MAX = 16 << 20 };

int yaml_read(struct yaml *y, const char *path, struct err *err);
/*
 * Uses a text in memory (a plan embedded in another file, a test).  Takes ownership of `text`
 * (from mem_new, mem_dup; freed by yaml_release); copies `name`.
 */
void yaml_take(struct yaml *y, const char *name, char *text, int64_t bytes);
void yaml_release(struct yaml *y);

/*
 * Checks that the key `format` has this value, such as "paro-topology/1".  Call it first, so
 * that another format or version is rejected by its name and not by its keys.
 */
int yaml_format(const struct yaml *y, const char *format, struct err *err);
/*
 * Loads structs by a libcyaml schema of mappings, sequences and strings; free *out with
 * yaml_drop.
 */
int yaml_load(const struct yaml *y, const cyaml_schema_value_t *schema, void **out,
              struct err *err);
void yaml_drop(const cyaml_schema_value_t *schema, void *data);

/* Sets ERR_INPUT "file:line: 'path' ...", with the line of the nearest parent; returns -1. */
int yaml_fail(const struct yaml *y, const char *path, struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Prints a scalar, with quotes if YAML needs them. */
void yaml_put_text(FILE *f, const char *text);
/* Prints the shortest decimal that reads back as the same double. */
void yaml_put_f64(FILE *f, double v);

#endif
