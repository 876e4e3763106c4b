/* SPDX-License-Identifier: BSD-3-Clause */
/* The simulator and the drawer under schedules that are nearly right. */
#include "reader_fuzz_fixture.h"

static const char *const words[] = {
    "0",      "1",       "2",          "3",      "4",     "7",       "99",
    "300000", "1048576", "2147483646", "4>5",    "0>4",   "copy",    "add",
    "end",    "rows",    "root",       "planes", "group", "segment", "barrier"};

int main(int argc, char **argv)
{
    struct fuzz_texts t = {.words = words,
                           .word_count = sizeof words / sizeof *words,
                           .ends = " \n",
                           .cases = 4000,
                           .seed = 1,
                           .part = 20};

    fuzz_add_file(&t, "tests/fuzz/corpus/draw/ho-ring");
    fuzz_add_file(&t, "tests/fuzz/corpus/draw/two-level");
    fuzz_add_file(&t, "tests/fuzz/corpus/draw/planes");
    fuzz_add_file(&t, "tests/fuzz/corpus/draw/tree");
    return fuzz_main(&t, argc, argv);
}
