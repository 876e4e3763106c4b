/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of a tokenizer's vocabulary and merges under texts that are nearly right. */
#include "reader_fuzz_fixture.h"

static const char *const words[] = {"0",
                                    "-1",
                                    "999",
                                    "1000",
                                    "1e3",
                                    "9223372036854775808",
                                    "\"a\"",
                                    "\"\\u0120\"",
                                    "\"\\u0000\"",
                                    "\xc4\xa0",
                                    "\xff",
                                    "t",
                                    "h",
                                    "#version: 0.2",
                                    "<|endoftext|>",
                                    "",
                                    "{",
                                    "}",
                                    "\n"};

/* The two files as one: a line of JSON, and what is behind it. */
static void add_pair(struct fuzz_texts *t, const char *merges, int64_t bytes)
{
    char *vocab = NULL, *both = NULL;
    int64_t first = 0;
    struct err err;

    assert_int_equal(
        io_read_text("tests/data/bpe/encoder.json", MUTATE_TEXT_MAX, &vocab, &first, &err), 0);
    int n = asprintf(&both, "%s\n%.*s", vocab, (int)bytes, merges);
    assert_true(n > 0);
    fuzz_add(t, both, (size_t)n);
    free(both);
    mem_free(vocab);
}

int main(int argc, char **argv)
{
    struct fuzz_texts t = {.words = words,
                           .word_count = sizeof words / sizeof *words,
                           .ends = " \n:,{}\"",
                           .cases = 2000,
                           .seed = 1,
                           .part = 20};
    char *merges = NULL;
    int64_t bytes = 0;
    struct err err;

    assert_int_equal(
        io_read_text("tests/data/bpe/vocab.bpe", MUTATE_TEXT_MAX, &merges, &bytes, &err), 0);
    add_pair(&t, merges, bytes);
    add_pair(&t, merges, strchr(merges + 100, '\n') + 1 - merges); /* a few of them */
    mem_free(merges);
    return fuzz_main(&t, argc, argv);
}
