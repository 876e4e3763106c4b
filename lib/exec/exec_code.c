/* SPDX-License-Identifier: BSD-3-Clause */
/* Encodes and decodes chunks that are sent between groups: rounds to bf16, or calls block8. */
#include "exec/exec_code.h"

#include <assert.h>
#include <string.h>

#include "base/clones.h"
#include "exec/exec_block8.h"

static const char *const names[] = {
    [EXEC_CODE_SAME] = "same", [EXEC_CODE_BF16] = "bf16", [EXEC_CODE_INT8] = "int8"};

const char *exec_code_name(enum exec_code code)
{
    return names[code];
}

int exec_code_parse(const char *text, enum exec_code *out, struct err *err)
{
    for (int i = 0; i <= EXEC_CODE_INT8; i++)
        if (strcmp(text, names[i]) == 0) {
            *out = (enum exec_code)i;
            return 0;
        }
    return err_set(err, ERR_INPUT, "'%s', expected same, bf16 or int8", text);
}

enum exec_code exec_code_of(enum exec_code code, enum dtype type)
{
    return code == EXEC_CODE_BF16 && type == DTYPE_BF16 ? EXEC_CODE_SAME : code;
}

double exec_code_elem_bytes(enum exec_code code, enum dtype type)
{
    return code == EXEC_CODE_INT8   ? 1 + 1.0 / BLOCK8_ELEMS
           : code == EXEC_CODE_BF16 ? 2
                                    : dtype_bytes(type);
}

int64_t exec_code_bytes(enum exec_code code, int64_t n)
{
    return code == EXEC_CODE_INT8 ? block8_bytes(n) : 2 * n;
}

KERN_CLONES static void code_feed_bf16(uint16_t *to, const float *x, float *residual, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float v = x[i] + residual[i];
        to[i] = dtype_bf16_of_f32(v);
        float lost = v - dtype_f32_of_bf16(to[i]);
        residual[i] = lost - lost == 0 ? lost : 0;
    }
}

KERN_CLONES static void code_add_bf16(float *to, const float *a, const uint16_t *from,
                                      int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = a[i] + dtype_f32_of_bf16(from[i]);
}

void exec_code_encode(enum exec_code code, void *to, const void *x, enum dtype type,
                      float *residual, int64_t n)
{
    assert(code != EXEC_CODE_SAME && code == exec_code_of(code, type));
    if (code == EXEC_CODE_INT8)
        block8_encode(to, x, type, residual, n);
    else if (residual)
        code_feed_bf16(to, x, residual, n);
    else
        dtype_convert(to, DTYPE_BF16, x, type, n);
}

void exec_code_add(enum exec_code code, void *to, const void *a, enum dtype type,
                   const void *from, int64_t n)
{
    if (code == EXEC_CODE_INT8)
        block8_add(to, a, type, from, n);
    else if (a)
        code_add_bf16(to, a, from, n);
    else
        dtype_convert(to, type, from, DTYPE_BF16, n);
}

void exec_code_round(enum exec_code code, void *x, enum dtype type, float *residual, int64_t n)
{
    enum { PIECE = 32 * BLOCK8_ELEMS };
    _Alignas(2) char piece[2 * PIECE];

    for (int64_t at = 0; at < n; at += PIECE) {
        int64_t part = n - at < PIECE ? n - at : PIECE;
        char *here = (char *)x + at * dtype_bytes(type);
        exec_code_encode(code, piece, here, type, residual ? residual + at : NULL, part);
        exec_code_add(code, here, NULL, type, piece, part);
    }
}
