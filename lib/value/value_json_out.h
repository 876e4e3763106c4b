/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VALUE_VALUE_JSON_OUT_H
#define VALUE_VALUE_JSON_OUT_H

#include <stdint.h>
#include <stdio.h>

/*
 * Writes one valid document of JSON, or of YAML: commas, quoting and escapes are its business;
 * in JSON NaN and infinity become null; the decimal point is a point.  Bytes that are not UTF-8
 * become U+FFFD.  `key` is NULL inside an array.  Errors stay with the FILE (ferror).
 *
 *     struct jout j = jout_begin(stdout, "paro.topo/1");
 *     jout_open(&j, "levels", '['); ... jout_close(&j, ']');
 *     jout_close(&j, '}');                    a newline follows the last close
 */
struct jout {
    FILE *file;
    int pretty; /* lines and indentation; else one line (JSON Lines) */
    int yaml;   /* YAML instead, in lines; a list of scalars as [1, 2] */
    int depth;
    uint64_t filled;     /* bit d: something stands before at depth d */
    uint64_t list, flow; /* of YAML, bit d: depth d is a list; and one of scalars */
};

/* The beginning of a document in lines: {"schema": "paro.topo/1" */
struct jout jout_begin(FILE *file, const char *schema);
void jout_open(struct jout *j, const char *key, char bracket);     /* '{' or '[' */
void jout_close(struct jout *j, char bracket);                     /* '}' or ']' */
void jout_text(struct jout *j, const char *key, const char *text); /* NULL gives null */
/* A text that YAML needs no quotes for, or whose quotes are not wanted: yes, no. */
void jout_plain(struct jout *j, const char *key, const char *text);
/* A text of lines, in YAML a literal block. */
void jout_block(struct jout *j, const char *key, const char *text);
/* A text that may have zero bytes, one 0 behind it. */
void jout_bytes(struct jout *j, const char *key, const char *text, int64_t bytes);
void jout_int(struct jout *j, const char *key, int64_t value);
void jout_num(struct jout *j, const char *key,
              double value); /* 17 digits at most, shortest that returns */
void jout_bool(struct jout *j, const char *key, int value);
void jout_null(struct jout *j, const char *key);
/* A number from 0 on; below, it is unknown: null. */
void jout_known(struct jout *j, const char *key, int64_t value);

#endif
