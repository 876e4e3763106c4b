/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of the monitoring plugins' ranges under texts that are nearly right. */
#include "reader_fuzz_fixture.h"

static const char *const true_ones[] = {"10", "10:", "~:10", "@10:20", "-1e15:.5", ":", "~:"};
static const char *const words[] = {"@", "~",    ":",     "0",   "-0", "10",  "1e15",
                                    ".", "-1e3", "1e-30", "nan", " ",  "010", "\xff"};

int main(int argc, char **argv)
{
    struct fuzz_texts t = {.words = words,
                           .word_count = sizeof words / sizeof *words,
                           .ends = "@~:.e\n",
                           .cases = 60000,
                           .seed = 1,
                           .part = 50};

    for (size_t i = 0; i < sizeof true_ones / sizeof *true_ones; i++)
        fuzz_add(&t, true_ones[i], strlen(true_ones[i]));
    return fuzz_main(&t, argc, argv);
}
