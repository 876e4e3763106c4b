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
 * Nothing is believed: every size is bounded before it is used, the tensors must fill the data
 * from its first byte to its last without a hole or an overlap, names are unique.  Reading a
 * header takes less than 10 times its size.
 */
enum { ST_DIMS_MAX = 16 };

struct st_tensor {
    char *name; /* owned by the struct st; UTF-8, no control characters */
    int type;   /* see st_type_name */
    int dims;
    int64_t shape[ST_DIMS_MAX];
    int64_t elems;
    int64_t first, last; /* bytes [first, last) of the data */
};

struct st {
    int fd; /* -1: parsed from a header alone, or closed in between */
    struct io_id id;
    char *path;
    int64_t file_bytes;
    int64_t data; /* where the data begins */
    int count;
    struct st_tensor *tensor;   /* [count], owned, in the order of the data */
    struct st_tensor **by_name; /* [count] into tensor, in the order of names */
    char *sharding;        /* DCP_SHARDING_INFO of the metadata, owned; NULL: there is none */
    struct pieces *pieces; /* owned; NULL, but where path is a folder of tensors in pieces */
};

/* Opens and checks; errors name the file and, where one is to blame, the tensor. */
int st_open(struct st *st, const char *path, const struct ckpt_limits *limits,
            struct err *err); /* NULL: the usual ones */
/*
 * The same from `bytes` of the file's beginning (8 + N at least) that are in memory; file_bytes
 * is the size the whole file has or had.
 */
int st_parse(struct st *st, const char *path, const char *head, int64_t bytes,
             int64_t file_bytes, const struct ckpt_limits *limits, struct err *err);
/* N, of a file's first 8 bytes, bounded by the limits and by the file. */
int st_header_size(const char *path, const char head[8], int64_t file_bytes,
                   const struct ckpt_limits *limits, int64_t *out, struct err *err);
/* The files that are read: path i, from 0 on; NULL: there are fewer. */
const char *st_path(const struct st *st, int i);
/* Which file of that name in the folder was opened; NULL: it is none of a folder's pieces. */
const struct io_id *st_piece_id(const struct st *st, const char *name);
/* Opens that file again; ERR_MISMATCH where another has its name. */
int st_reopen(const struct st *st, int *fd, struct err *err);
/* Spares the descriptor; st_read opens the file whenever it needs it. */
void st_close_file(struct st *st);
void st_release(struct st *st);
/* The order of by_name, for qsort. */
int st_by_name(const void *a, const void *b);
const struct st_tensor *st_find(const struct st *st, const char *name); /* NULL if absent */
/* `bytes` from byte `first` within the tensor. */
int st_read(const struct st *st, const struct st_tensor *t, int64_t first, int64_t bytes,
            void *out, struct err *err);
/* Elements [first, first + count) of a tensor of floats, in `type`. */
int st_read_as(const struct st *st, const struct st_tensor *t, int64_t first, int64_t count,
               enum dtype type, void *out, struct err *err);

const char *st_type_name(int type); /* "F32", "BF16", ... as in the header */
int st_type_bytes(int type);
int st_type_parse(const char *name); /* -1: there is none of that name */
int st_type_of(enum dtype type);
/* 0 and *out, or -1 where base/dtype.h has no such type; a float type is one of four. */
int st_type_dtype(int type, enum dtype *out);
int st_type_is_float(int type);
/* "F32 [4, 8]": `room` bytes at `text`, for messages. */
void st_print_shape(const struct st_tensor *t, char *text, int space);

/*
 * Writes N and the header of tensors that lie one after the other as listed: name, type, dims
 * and shape are read; elems, first and last are filled in.  {"format": "pt"} goes into the
 * metadata (transformers asks for it).  The data begins at a multiple of 8; *text (owned by the
 * caller, mem_free) has *bytes = 8 + N.
 */
void st_header(struct st_tensor *tensor, int count, char **text, int64_t *bytes);

#endif
