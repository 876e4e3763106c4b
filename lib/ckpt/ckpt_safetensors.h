/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CKPT_CKPT_SAFETENSORS_H
#define CKPT_CKPT_SAFETENSORS_H

#include <stdint.h>
#include <stdio.h>

#include "base/dtype.h"
#include "base/err.h"
#include "base/io.h"
#include "ckpt/ckpt_limits.h"

/*
 * Reads and writes one .safetensors file: 8 bytes N (little endian), N bytes of JSON, the data.
 *
 *     | N | {"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}, ...} | a | b | ... |
 *     0   8                                                        8 + N = `data`
 *
 * The header is not trusted: every size is bounded before it is used, the tensors must fill the
 * data from its first byte to its last without a hole or an overlap, and names must be unique.
 * Reading a header takes less than 10 times its size.
 */
enum { ST_DIMS_MAX = 16 };

struct st_tensor {
    char *name; /* owned by the struct st; UTF-8, no control characters */
    int type;   /* number of a type: st_type_name */
    int dims;
    int64_t shape[ST_DIMS_MAX];
    int64_t elems;
    int64_t first, last; /* byte range [first, last) of the data */
};

struct st {
    int fd; /* -1: parsed from a header alone, or closed by st_close_file */
    struct io_id id;
    char *path;
    int64_t file_bytes;
    int64_t data; /* file offset at which the data begins */
    int count;
    struct st_tensor *tensor;   /* [count], owned, in the order of the data */
    struct st_tensor **by_name; /* [count] pointers into tensor, sorted by name */
    char *sharding;             /* DCP_SHARDING_INFO of the metadata, owned; NULL: absent */
    struct pieces *pieces; /* owned; set if path is a folder of tensors in pieces, else NULL */
};

/* Opens and checks a file; errors name the file and, if possible, the tensor.  limits NULL:
   ckpt_limits_usual. */
int st_open(struct st *st, const char *path, const struct ckpt_limits *limits, struct err *err);
/*
 * Parses a header in memory: `bytes` from the beginning of the file, at least 8 + N. file_bytes
 * is the size of the whole file.
 */
int st_parse(struct st *st, const char *path, const char *head, int64_t bytes,
             int64_t file_bytes, const struct ckpt_limits *limits, struct err *err);
/* Reads N from a file's first 8 bytes; an error if it exceeds the limits or the file. */
int st_header_size(const char *path, const char head[8], int64_t file_bytes,
                   const struct ckpt_limits *limits, int64_t *out, struct err *err);
/* The path of file i, from 0 on, of the files that are read; NULL: there are fewer. */
const char *st_path(const struct st *st, int i);
/* The identity of the opened piece file of that name; NULL: st has no such piece. */
const struct io_id *st_piece_id(const struct st *st, const char *name);
/* Opens the file again; ERR_MISMATCH if the path now names another file. */
int st_reopen(const struct st *st, int *fd, struct err *err);
/* Closes the descriptor to save it; st_read then opens the file when needed. */
void st_close_file(struct st *st);
void st_release(struct st *st);
/* The order of by_name, for qsort. */
int st_by_name(const void *a, const void *b);
const struct st_tensor *st_find(const struct st *st, const char *name); /* NULL if absent */
/* Reads `bytes` bytes of a tensor, from byte `first` of the tensor on. */
int st_read(const struct st *st, const struct st_tensor *t, int64_t first, int64_t bytes,
            void *out, struct err *err);
/* Reads elements [first, first + count) of a tensor of floats, converted to `type`. */
int st_read_as(const struct st *st, const struct st_tensor *t, int64_t first, int64_t count,
               enum dtype type, void *out, struct err *err);

const char *st_type_name(int type); /* "F32", "BF16", ... as in the header */
int st_type_bytes(int type);
int st_type_parse(const char *name); /* -1: unknown name */
int st_type_of(enum dtype type);
/* Sets *out and returns 0, or -1 if base/dtype.h has no such type.  There are four float
   types. */
int st_type_dtype(int type, enum dtype *out);
int st_type_is_float(int type);
/* "F32 [4, 8]" for messages: at most `space` bytes at `text`. */
void st_print_shape(const struct st_tensor *t, char *text, int space);

/*
 * Builds N and the header for tensors stored one after the other in the listed order.  Reads
 * name, type, dims and shape; sets elems, first and last.  Adds the metadata {"format": "pt"},
 * which transformers requires.  The data begins at a multiple of 8; *text (owned by the caller,
 * mem_free) has *bytes = 8 + N.
 */
void st_header(struct st_tensor *tensor, int count, char **text, int64_t *bytes);

#endif
