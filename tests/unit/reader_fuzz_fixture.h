/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef READER_FUZZ_FIXTURE_H
#define READER_FUZZ_FIXTURE_H

/*
 * A reader (tests/fuzz/reader_fuzz.h) under texts that are nearly right.  The same cases every
 * time, or others by
 *
 *     build/unit/NAME_fuzz_test CASES SEED
 *
 * `make check-fuzz` runs the same checks under libFuzzer (CONTRIBUTING.md).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>

#include "../fuzz/reader_fuzz.h"
#include "base/io.h"
#include "mutate_fixture.h"

enum { FUZZ_SEEDS_MAX = 16 };

/* What a test program says of its reader. */
struct fuzz_texts {
    struct mutate_text from[FUZZ_SEEDS_MAX]; /* true texts; owned */
    int count;
    const char *const *words; /* [word_count] what takes a word's place, ... */
    size_t word_count;
    char *list;       /* ... or such words between blanks: fuzz_main cuts them */
    const char *ends; /* what stands between words */
    uint64_t cases, seed;
    int part; /* at least one case in so many is taken, and one is refused */
};

/* Of words[], a table; the same mutations each time. */
#define FUZZ_TEXTS(words_, ends_, cases_, part_)                                               \
    {                                                                                          \
        .words = (words_), .word_count = sizeof(words_) / sizeof *(words_), .ends = (ends_),   \
        .cases = (cases_), .seed = 1, .part = (part_)                                          \
    }

static inline void fuzz_add(struct fuzz_texts *t, const void *text, size_t bytes)
{
    struct mutate_text *to = &t->from[t->count++];

    assert_true(t->count <= FUZZ_SEEDS_MAX && bytes < MUTATE_TEXT_MAX);
    *to = (struct mutate_text){fuzz_copy(text, bytes), bytes};
    if (!reader_fuzz_case((const uint8_t *)text, bytes))
        fail_msg("a true text is refused: %.200s", (const char *)to->at);
}

static inline void fuzz_add_file(struct fuzz_texts *t, const char *path)
{
    char *text = NULL;
    int64_t bytes = 0;
    struct err err;

    assert_int_equal(io_read_text(path, MUTATE_TEXT_MAX - 1, &text, &bytes, &err), 0);
    fuzz_add(t, text, (size_t)bytes);
    mem_free(text);
}

/* Every beginning of the true texts, each with one byte changed besides. */
static inline void cuts_are_read_or_refused(void **state)
{
    const struct fuzz_texts *t = *state;

    for (int i = 0; i < t->count; i++) {
        uint8_t *copy = (uint8_t *)fuzz_copy(t->from[i].at, t->from[i].bytes);
        for (size_t n = 0; n < t->from[i].bytes && n < 4096; n++) {
            reader_fuzz_case(copy, n);
            copy[n] ^= 1U << (n % 8);
            reader_fuzz_case(copy, n + 1);
            copy[n] ^= 1U << (n % 8);
        }
        mem_free(copy);
    }
}

static inline void mutations_are_read_or_refused(void **state)
{
    static struct mutate m;
    const struct fuzz_texts *t = *state;
    int outcomes[2] = {0};

    m = (struct mutate){.from = t->from,
                        .count = t->count,
                        .words = t->words,
                        .word_count = t->word_count,
                        .ends = t->ends,
                        .seed = t->seed};
    for (m.stream = 0; m.stream < t->cases; m.stream++) {
        mutate_case(&m);
        outcomes[reader_fuzz_case((const uint8_t *)m.text, m.bytes)]++;
    }
    /* Mutations that are all refused at the first line would test the first line. */
    int least = (int)t->cases / t->part;
    if (outcomes[0] < least || outcomes[1] < least)
        fail_msg("%d refused, %d taken: too few", outcomes[0], outcomes[1]);
}

/*
 * Seeds of tests/fuzz/run, and what it once found: the files of tests/fuzz/corpus/NAME, where a
 * program NAME_fuzz_test has any.
 */
static inline void corpus_is_read_or_refused(void **state)
{
    const char *end = strstr(program_invocation_short_name, "_fuzz_test");
    char folder[256], path[600];
    struct err err;

    (void)state;
    assert_non_null(end);
    snprintf(folder, sizeof folder, "tests/fuzz/corpus/%.*s",
             (int)(end - program_invocation_short_name), program_invocation_short_name);
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        char *text = NULL;
        int64_t bytes = 0;
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (io_read_text(path, FUZZ_MAX, &text, &bytes, &err))
            fail_msg("%s", err.text);
        reader_fuzz_case((const uint8_t *)text, (size_t)bytes);
        mem_free(text);
    }
    if (d)
        closedir(d);
}

static inline int fuzz_main(struct fuzz_texts *t, int argc, char **argv)
{
    struct CMUnitTest tests[] = {cmocka_unit_test(corpus_is_read_or_refused),
                                 cmocka_unit_test_prestate(cuts_are_read_or_refused, t),
                                 cmocka_unit_test_prestate(mutations_are_read_or_refused, t)};

    const char *word[64];
    for (char *w = t->list ? strtok(t->list, " ") : NULL; w; w = strtok(NULL, " "))
        word[t->word_count++] = w;
    t->words = t->list ? word : t->words;
    if (argc > 1)
        t->cases = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        t->seed = strtoull(argv[2], NULL, 10);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (int i = 0; i < t->count; i++)
        mem_free(t->from[i].at);
    return failed;
}

#endif
