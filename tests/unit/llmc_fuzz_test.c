/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of llm.c's headers under bytes that are nearly right. */
#include "reader_fuzz_fixture.h"

static const char gpt2[1024] = "\x88\xd8\x34\1\1\0\0\0\5\0\0\0";
static const char llama[1024 + 8] = "\xa1\xd9\x34\1\7\0\0\0\2\0\0\0";
static const char *const words[] = {"\x88\xd8\x34\1",
                                    "\xa1\xd9\x34\1",
                                    "\x8a\xd8\x34\1",
                                    "\1",
                                    "\7",
                                    "\xff\xff\xff\xff",
                                    "\x7f"};

int main(int argc, char **argv)
{
    struct fuzz_texts t = {.words = words,
                           .word_count = sizeof words / sizeof *words,
                           .ends = "\n",
                           .cases = 20000,
                           .seed = 1,
                           .part = 50};

    fuzz_add(&t, gpt2, sizeof gpt2);
    fuzz_add(&t, llama, sizeof llama);
    return fuzz_main(&t, argc, argv);
}
