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

/* What the programs NAME_fuzz.c share that feed bytes to one reader each.  A reader is given
 * FUZZ_NAME for the name of its file, which every error must tell. */
#define FUZZ_NAME "fuzz.file"

/* What a fuzzer finds it finds in short texts. */
enum { FUZZ_MAX = 1 << 16 };

/*
 * Any bytes as what the program's reader takes.  What was accepted must hold together, and
 * where there is a printer read back as the same; a refusal must say why and in which file.
 * Returns the outcome: 0 if refused, the last one of the set if all is well; aborts where not.
 */
int reader_fuzz_case(const uint8_t *data, size_t bytes);

typedef void fuzz_add_f(const void *text, size_t bytes);

struct fuzz_text {
    const char *at;
    size_t bytes;
};

/* Texts that the reader accepts, and how they are mutated.  Seeds are copied. */
struct fuzz_set {
    const char *name; /* of its folder tests/fuzz/corpus/NAME: any inputs, past failures too */
    int longest;      /* input of libFuzzer, in bytes; 0: 4096 */
    int outcomes;     /* 0: two, refused and accepted */
    int cases, part;  /* mutations; at least one in `part` (0: 20) has each outcome */
    const char *ends; /* the characters between words */
    const char *const *words;  /* what replaces a word, and libFuzzer's dictionary; to NULL */
    const char *const *files;  /* seeds, to NULL; may be NULL */
    struct fuzz_text text[16]; /* more seeds, to NULL */
    void (*more)(fuzz_add_f *add); /* adds others; may be NULL */
};

/* Of the program, to one without a name; FUZZ_SET of a program that has one. */
extern const struct fuzz_set fuzz_sets[];
#define FUZZ_SET(...) const struct fuzz_set fuzz_sets[] = {{__VA_ARGS__}, {0}}

#define FUZZ_LIST(...) ((const char *const[]){__VA_ARGS__, NULL})
#define FUZZ_TEXT(text)                                                                        \
    {                                                                                          \
        (text), sizeof(text) - 1                                                               \
    }

/* Calls `add` with every seed of a set; `more` last. */
void fuzz_add_seeds(const struct fuzz_set *set, fuzz_add_f *add);

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
