/* SPDX-License-Identifier: BSD-3-Clause */
/* The readers of numbers, sizes, rates and times under texts that are nearly right. */
#include "reader_fuzz_fixture.h"

static const char *const true_ones[] = {
    "0",
    "-9223372036854775808",
    "80e9",
    "1.5GB",
    "64Ki",
    "2.5MiB",
    "9007199254740993B",
    "3e-4",
    "400Gbit/s",
    "59.8MB/s",
    "25.5kbit",
    "250ns",
    "1.5min",
    "0.50e+2us",
};
static const char *const words[] = {"0",    "9",  ".",  "e", "E-", "+",   "-",   "00",
                                    "1e99", "99", "B",  "K", "Ti", "KiB", "GB",  "/s",
                                    "bit",  "us", "ns", "h", " ",  "x",   "nan", "\xff"};

int main(int argc, char **argv)
{
    struct fuzz_texts t = {.words = words,
                           .word_count = sizeof words / sizeof *words,
                           .ends = ".eEKMGTBbmun\n",
                           .cases = 60000,
                           .seed = 1,
                           .part = 50};

    for (size_t i = 0; i < sizeof true_ones / sizeof *true_ones; i++)
        fuzz_add(&t, true_ones[i], strlen(true_ones[i]));
    return fuzz_main(&t, argc, argv);
}
