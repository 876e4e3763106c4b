/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CKPT_CKPT_GGUF_H
#define CKPT_CKPT_GGUF_H

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

/*
 * Writes GGUF, version 3, the file format of llama.cpp and programs built on it.  Numbers are
 * little endian; pad(n) are zeros up to the next multiple of GGUF_ALIGN.
 *
 *     | "GGUF" | 3 | tensors | keys | key, type, value ... | name, shape, type, offset ... |
 *     | pad | tensor 0 | pad | tensor 1 | pad | ...
 *
 * Offsets count from the first tensor.
 */
enum { GGUF_ALIGN = 32, GGUF_BLOCK = 32 /* elements of a block of q8_0 */ };

/* Tensor types, in ggml's numbering. */
enum gguf_type { GGUF_F32 = 0, GGUF_F16 = 1, GGUF_Q8_0 = 8, GGUF_BF16 = 30 };
/* Types of values, in GGUF's numbering. */
enum gguf_value {
    GGUF_U32 = 4,
    GGUF_I32 = 5,
    GGUF_FLOAT = 6,
    GGUF_BOOL = 7,
    GGUF_TEXT = 8,
    GGUF_LIST = 9
};

struct gguf_tensor {
    char name[64]; /* shorter than 64 bytes: ggml's limit */
    enum gguf_type type;
    int dims;
    int64_t shape[2]; /* rows, columns; or the length of a vector */
    int64_t offset;   /* set by gguf_header */
};

/* The keys written so far, in memory. */
struct gguf_keys {
    FILE *file;
    char *text; /* owned */
    size_t bytes;
    int64_t count;
};

void gguf_keys_init(struct gguf_keys *k);
void gguf_keys_release(struct gguf_keys *k);
void gguf_put_u32(struct gguf_keys *k, const char *key, int64_t value);
void gguf_put_float(struct gguf_keys *k, const char *key, double value);
void gguf_put_bool(struct gguf_keys *k, const char *key, int value);
void gguf_put_text(struct gguf_keys *k, const char *key, const char *text, int64_t bytes);
/* Text ends at its 0 byte */
void gguf_put_words(struct gguf_keys *k, const char *key, const char *text);
/* Begins a list of `count` values, which are added with gguf_item and gguf_item_text. */
void gguf_put_list(struct gguf_keys *k, const char *key, enum gguf_value type, int64_t count);
void gguf_item(struct gguf_keys *k, const void *value, size_t bytes);
void gguf_item_text(struct gguf_keys *k, const char *text, int64_t bytes);

/* Builds the part of the file before the first tensor; *text is freed with mem_free. */
void gguf_header(struct gguf_keys *k, struct gguf_tensor *tensor, int count, char **text,
                 int64_t *bytes);

/* Bytes of `elems` elements; q8_0 has whole blocks only. */
int64_t gguf_bytes(enum gguf_type type, int64_t elems);
/*
 * Converts n elements to `type`, rounded once, to nearest.  A block of q8_0 is d = max|x| / 127
 * as f16, then 32 whole numbers x / d.  Returns the first element that q8_0 cannot hold because
 * the element is not finite or d does not fit f16; or -1.
 */
int64_t gguf_encode(enum gguf_type type, const float *x, int64_t n, void *out);

#endif
