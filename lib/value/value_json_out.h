/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VALUE_VALUE_JSON_OUT_H
#define VALUE_VALUE_JSON_OUT_H

#include <stdint.h>
#include <stdio.h>

/*
 * Writes one valid document of JSON, or of YAML: adds commas, quotes and escapes; in JSON NaN
 * and infinity become null; the decimal separator is a point in any locale.  Bytes that are not
 * UTF-8 become U+FFFD.  `key` is NULL inside an array.  Errors stay with the FILE (ferror).
 *
 *     struct jout j = jout_begin(stdout, "paro.topo/1");
 *     jout_open(&j, "levels", '['); ... jout_close(&j, ']');
 *     jout_end(&j);                           a newline follows the last close
 */
struct jout {
    FILE *file;
    int pretty; /* lines and indentation; else one line (JSON Lines) */
    int yaml;   /* YAML, with line breaks; a list of scalars is [1, 2] */
    int depth;
    uint64_t filled;     /* bit d: depth d has an item already */
    uint64_t list, flow; /* for YAML, bit d: depth d is a list; is a list of scalars */
};

/* Begins a document with line breaks: {"schema": "paro.topo/1" */
struct jout jout_begin(FILE *file, const char *schema);
void jout_open(struct jout *j, const char *key, char bracket);     /* '{' or '[' */
void jout_close(struct jout *j, char bracket);                     /* '}' or ']' */
void jout_end(struct jout *j);                                     /* closes all that is open */
void jout_text(struct jout *j, const char *key, const char *text); /* NULL gives null */
/* A text that needs no quotes in YAML, or must have none: yes, no. */
void jout_plain(struct jout *j, const char *key, const char *text);
/* A text of several lines, in YAML a literal block. */
void jout_block(struct jout *j, const char *key, const char *text);
/* A text that may contain zero bytes; text[bytes] is 0. */
void jout_bytes(struct jout *j, const char *key, const char *text, int64_t bytes);
void jout_int(struct jout *j, const char *key, int64_t value);
void jout_num(struct jout *j, const char *key,
              double value); /* shortest of at most 17 digits that reads back equal */
void jout_bool(struct jout *j, const char *key, int value);
void jout_null(struct jout *j, const char *key);
/* A number >= 0; a negative one is unknown: null. */
void jout_known(struct jout *j, const char *key, int64_t value);

#endif
