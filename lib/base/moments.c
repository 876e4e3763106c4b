/* SPDX-License-Identifier: BSD-3-Clause */
/* Names the types in which moments are stored, and computes their sizes. */
#include "base/moments.h"

#include <string.h>

static const char *const names[] = {"f32", "bf16", "int8"};

const char *moments_name(enum moments type)
{
    return names[type];
}

int moments_parse(const char *text, enum moments *out, struct err *err)
{
    for (int i = 0; i <= MOMENTS_INT8; i++)
        if (strcmp(text, names[i]) == 0) {
            *out = (enum moments)i;
            return 0;
        }
    return err_set(err, ERR_INPUT, "'%s', expected f32, bf16 or int8", text);
}

int64_t moments_bytes(enum moments type, int64_t n)
{
    int64_t blocks = (n + MOMENTS_BLOCK - 1) / MOMENTS_BLOCK;

    return type == MOMENTS_F32 ? 4 * n : type == MOMENTS_BF16 ? 2 * n : n + 4 * blocks;
}

int moments_grain(enum moments type)
{
    return type == MOMENTS_INT8 ? MOMENTS_BLOCK : 1;
}
