/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef READER_FUZZ_H
#define READER_FUZZ_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

/*
 * What the programs NAME_fuzz.c share that feed bytes to one reader each.  A reader is given
 * FUZZ_NAME for the name of its file, which every error must tell.
 */
#define FUZZ_NAME "fuzz.file"

/* What a fuzzer finds it finds in short texts. */
enum { FUZZ_MAX = 1 << 16 };

/*
 * Any bytes as what the program's reader takes.  What was accepted must hold together, and
 * where there is a printer read back as the same; a refusal must say why and in which file.
 * Returns whether it was accepted; aborts where not.
 */
int reader_fuzz_case(const uint8_t *data, size_t bytes);

/* The entry that libFuzzer, AFL++ and honggfuzz look for. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
__attribute__((weak)) int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes <= FUZZ_MAX)
        reader_fuzz_case(data, bytes);
    return 0;
}

/* A copy as short as the bytes are, one 0 behind it: a read beyond them is seen. */
static inline char *fuzz_copy(const void *data, size_t bytes)
{
    char *text = mem_new(bytes + 1, 1);

    if (bytes)
        memcpy(text, data, bytes);
    return text;
}

/* What a reader returned, and its error if it refused. */
static inline int fuzz_judge(int rc, const struct err *err)
{
    assert(rc == 0 || (rc == -1 && err->code == ERR_INPUT && strstr(err->text, FUZZ_NAME)));
    return rc;
}

/* Texts of a thing and of what was read back from the first; frees both. */
static inline void fuzz_same(char *first, size_t first_bytes, char *again, size_t again_bytes)
{
    assert(first_bytes == again_bytes && memcmp(first, again, first_bytes) == 0);
    free(first);
    free(again);
}

#endif
