/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXEC_EXEC_CODE_H
#define EXEC_EXEC_CODE_H

#include <stdint.h>

#include "base/dtype.h"
#include "base/err.h"

/* Codes of chunks of f32 or bf16 that are sent between groups, in fewer bytes. */
enum exec_code {
    EXEC_CODE_SAME, /* the elements */
    EXEC_CODE_BF16, /* f32 rounded to bf16, to nearest even */
    EXEC_CODE_INT8, /* blocks of int8 (exec_block8.h) */
};

/* Parses "same", "bf16" or "int8". */
int exec_code_parse(const char *text, enum exec_code *out, struct err *err);
const char *exec_code_name(enum exec_code code);

/* Returns the code, or EXEC_CODE_SAME if it is the elements of `type` themselves. */
enum exec_code exec_code_of(enum exec_code code, enum dtype type);
/* Returns the mean number of bytes for each element of long chunks of `type`. */
double exec_code_elem_bytes(enum exec_code code, enum dtype type);

/*
 * The functions below take codes other than EXEC_CODE_SAME, and BF16 for f32 alone: as
 * exec_code_of returns them.
 */
int64_t exec_code_bytes(enum exec_code code, int64_t n); /* length of the code of n elements */
/* Encodes n elements x of `type`.  residual: [n] f32 or NULL.  If given, x + residual is
   encoded and residual becomes the new error, or 0 where that is not finite. */
void exec_code_encode(enum exec_code code, void *to, const void *x, enum dtype type,
                      float *residual, int64_t n);
/* to[i] = a[i] + decoded[i], as dtype_reduce adds, or decoded[i] if a is NULL; to may be a. */
void exec_code_add(enum exec_code code, void *to, const void *a, enum dtype type,
                   const void *from, int64_t n);
/* Replaces x by the decoded values of its code; residual as in exec_code_encode. */
void exec_code_round(enum exec_code code, void *x, enum dtype type, float *residual, int64_t n);

#endif
