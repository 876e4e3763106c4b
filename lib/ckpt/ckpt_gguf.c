/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes the bytes of a GGUF file and of its type q8_0, following ggml's docs/gguf.md and its
 * reference quantization.
 */
#include "ckpt/ckpt_gguf.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/mem.h"

enum { VERSION = 3, BLOCK_BYTES = 2 + GGUF_BLOCK };

/* --- keys --- */

static void gguf_put(FILE *f, const void *value, size_t bytes)
{
    fwrite(value, 1, bytes, f);
}

static void put_i64(FILE *f, int64_t value)
{
    gguf_put(f, &value, sizeof value);
}

static void put_u32(FILE *f, uint32_t value)
{
    gguf_put(f, &value, sizeof value);
}

static void gguf_put_bytes(FILE *f, const char *text, int64_t bytes)
{
    put_i64(f, bytes);
    gguf_put(f, text, (size_t)bytes);
}

static void gguf_put_key(struct gguf_keys *k, const char *key, enum gguf_value type)
{
    gguf_put_bytes(k->file, key, (int64_t)strlen(key));
    put_u32(k->file, type);
    k->count++;
}

void gguf_keys_init(struct gguf_keys *k)
{
    *k = (struct gguf_keys){0};
    k->file = mem_stream(&k->text, &k->bytes);
}

void gguf_keys_release(struct gguf_keys *k)
{
    if (k->file)
        fclose(k->file);
    mem_free(k->text);
    *k = (struct gguf_keys){0};
}

void gguf_put_u32(struct gguf_keys *k, const char *key, int64_t value)
{
    gguf_put_key(k, key, GGUF_U32);
    put_u32(k->file, (uint32_t)value);
}

void gguf_put_float(struct gguf_keys *k, const char *key, double value)
{
    float f = (float)value;

    gguf_put_key(k, key, GGUF_FLOAT);
    gguf_put(k->file, &f, sizeof f);
}

void gguf_put_bool(struct gguf_keys *k, const char *key, int value)
{
    gguf_put_key(k, key, GGUF_BOOL);
    fputc(value != 0, k->file);
}

void gguf_put_text(struct gguf_keys *k, const char *key, const char *text, int64_t bytes)
{
    gguf_put_key(k, key, GGUF_TEXT);
    gguf_put_bytes(k->file, text, bytes);
}

void gguf_put_words(struct gguf_keys *k, const char *key, const char *text)
{
    gguf_put_text(k, key, text, (int64_t)strlen(text));
}

void gguf_put_list(struct gguf_keys *k, const char *key, enum gguf_value type, int64_t count)
{
    gguf_put_key(k, key, GGUF_LIST);
    put_u32(k->file, type);
    put_i64(k->file, count);
}

void gguf_item(struct gguf_keys *k, const void *value, size_t bytes)
{
    gguf_put(k->file, value, bytes);
}

void gguf_item_text(struct gguf_keys *k, const char *text, int64_t bytes)
{
    gguf_put_bytes(k->file, text, bytes);
}

/* --- header --- */

static int64_t padded(int64_t bytes)
{
    return (bytes + GGUF_ALIGN - 1) / GGUF_ALIGN * GGUF_ALIGN;
}

void gguf_header(struct gguf_keys *k, struct gguf_tensor *tensor, int count, char **text,
                 int64_t *bytes)
{
    size_t used = 0;
    int64_t at = 0;
    FILE *f = mem_stream(text, &used);

    gguf_put(f, "GGUF", 4);
    put_u32(f, VERSION);
    put_i64(f, count);
    put_i64(f, k->count);
    fflush(k->file);
    gguf_put(f, k->text, k->bytes);
    for (int i = 0; i < count; i++) {
        struct gguf_tensor *t = &tensor[i];
        int64_t elems = 1;
        gguf_put_bytes(f, t->name, (int64_t)strlen(t->name));
        put_u32(f, (uint32_t)t->dims);
        for (int d = t->dims - 1; d >= 0; d--) { /* ggml lists the fastest dimension first */
            put_i64(f, t->shape[d]);
            elems *= t->shape[d];
        }
        put_u32(f, t->type);
        put_i64(f, at);
        t->offset = at;
        at = padded(at + gguf_bytes(t->type, elems));
    }
    fflush(f);
    for (int64_t end = padded((int64_t)used), n = (int64_t)used; n < end; n++)
        fputc(0, f);
    fclose(f);
    *bytes = (int64_t)used;
}

/* --- data --- */

int64_t gguf_bytes(enum gguf_type type, int64_t elems)
{
    if (type == GGUF_Q8_0)
        return elems / GGUF_BLOCK * BLOCK_BYTES;
    return elems * (type == GGUF_F32 ? 4 : 2);
}

/* Rounds to nearest, ties away from zero; |x| is below 2^31. */
static inline int8_t round_away(float x)
{
    int whole = (int)x;

    return (int8_t)(whole + (int)(2 * (x - (float)whole)));
}

/* Returns 0, or -1: the block cannot be represented. */
static int encode_block(const float *x, char *out)
{
    float most = 0, sum = 0;

    for (int i = 0; i < GGUF_BLOCK; i++) {
        float a = fabsf(x[i]);
        most = a > most ? a : most;
        sum += a * 0; /* NaN if an element is not finite */
    }
    float d = most / 127, inverse = d > 0 ? 1 / d : 0;
    uint16_t scale = dtype_f16_of_f32(d);
    if (sum != 0 || !isfinite(dtype_f32_of_f16(scale)))
        return -1;
    if (!isfinite(inverse)) /* d is far below the range of f16, where it becomes 0 */
        inverse = 0;
    memcpy(out, &scale, sizeof scale);
    for (int i = 0; i < GGUF_BLOCK; i++)
        out[2 + i] = round_away(x[i] * inverse);
    return 0;
}

int64_t gguf_encode(enum gguf_type type, const float *x, int64_t n, void *out)
{
    if (type != GGUF_Q8_0) {
        dtype_convert(out,
                      type == GGUF_F32   ? DTYPE_F32
                      : type == GGUF_F16 ? DTYPE_F16
                                         : DTYPE_BF16,
                      x, DTYPE_F32, n);
        return -1;
    }
    assert(n % GGUF_BLOCK == 0);
    for (int64_t i = 0; i < n; i += GGUF_BLOCK)
        if (encode_block(x + i, (char *)out + i / GGUF_BLOCK * BLOCK_BYTES))
            return i;
    return -1;
}
