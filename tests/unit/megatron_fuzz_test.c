/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of Megatron's indices under bytes that are nearly right. */
#include "reader_fuzz_fixture.h"

/* Lengths 3, 0, 2; tokens of two bytes; documents of sequences 0, 1 and 2. */
static const char two[] = "MMIDIDX\0\0\1\0\0\0\0\0\0\0\10\3\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0"
                          "\3\0\0\0\0\0\0\0\2\0\0\0"
                          "\0\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0"
                          "\0\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0";
/* One of four bytes, one sequence with a mode, no bounds. */
static const char four[] = "MMIDIDX\0\0\1\0\0\0\0\0\0\0\4\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                           "\7\0\0\0\0\0\0\0\0\0\0\0\0";
static const char *const words[] = {"MMIDIDX", "TNTIDX",   "\1",
                                    "\2",      "\3",       "\5",
                                    "\10",     "\6",       "\xff\xff\xff\xff",
                                    "\x80",    "\x7f\xff", "\xff\xff\xff\xff\xff\xff\xff\x7f"};

int main(int argc, char **argv)
{
    struct fuzz_texts t = {.words = words,
                           .word_count = sizeof words / sizeof *words,
                           .ends = "\n",
                           .cases = 20000,
                           .seed = 1,
                           .part = 50};

    fuzz_add(&t, two, sizeof two - 1);
    fuzz_add(&t, four, sizeof four - 1);
    return fuzz_main(&t, argc, argv);
}
