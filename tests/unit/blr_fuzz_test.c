/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of features and y under texts that are nearly right. */
#include "reader_fuzz_fixture.h"

static const char *const words[] = {"0",     "-0",  "1e100", "1e101", "1e-320", "nan",  "inf",
                                    "0x1p3", "010", "1x",    "y",     "#",      "\t",   "\n",
                                    "\r",    " ",   "",      "\t\t",  "+1",     "1e-99"};

int main(int argc, char **argv)
{
    struct fuzz_texts t = FUZZ_TEXTS(words, " \t\n", 8000, 20);

    fuzz_add_file(&t, "tests/fuzz/corpus/blr/line");
    fuzz_add_file(&t, "tests/fuzz/corpus/blr/alone");
    fuzz_add_file(&t, "tests/fuzz/corpus/blr/blanks");
    return fuzz_main(&t, argc, argv);
}
