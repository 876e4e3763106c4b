/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of paro-bench's rows under texts that are nearly right. */
#include "reader_fuzz_fixture.h"

static const char *const words[] = {"0",
                                    "-1",
                                    "1",
                                    "1e308",
                                    "null",
                                    "true",
                                    "\"\"",
                                    "{}",
                                    "[]",
                                    "\"none\"",
                                    "\"sum\"",
                                    "\"auto\"",
                                    "\"mpi\"",
                                    "\"[2,1]\"",
                                    "\"2x2\"",
                                    "4",
                                    "5",
                                    "1125899906842624",
                                    "9223372036854775807",
                                    "9223372036854775808",
                                    "\"wrong\"",
                                    "\"chosen\"",
                                    "\\u0000",
                                    "\xff",
                                    "\n"};

int main(int argc, char **argv)
{
    struct fuzz_texts t = FUZZ_TEXTS(words, " \n:,{}", 6000, 20);

    fuzz_add_file(&t, "tests/fuzz/corpus/rows/measured");
    fuzz_add_file(&t, "tests/fuzz/corpus/rows/auto");
    return fuzz_main(&t, argc, argv);
}
