/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of a network's baseline under texts that are nearly right. */
#include "reader_fuzz_fixture.h"

static const char two[] =
    "format: paro-baseline/2\nwhen_s: 1700000000\npaths:\n  - path: 1\n    ratio: 1\n"
    "  - path: 3\n    ratio: 0.5\nports:\n"
    "  - host: node0\n    ranks: 2\n    out_Bps: 5.9e+07\n    out_spread: 0.01\n"
    "    in_Bps: 59000000\n    in_spread: 0\n    latency_s: 2e-05\n"
    "  - host: \"1\"\n    ranks: 1\n    out_Bps: 5.9e+07\n    out_spread: 1\n"
    "    in_Bps: 59000000\n    in_spread: 0.5\n    latency_s: 0\n";
static const char *const words[] = {"0",     "-1",      "1e999", "nan", "inf",
                                    "12abc", "node0",   "1",     "~",   "\"",
                                    "host",  "out_Bps", "{",     "}",   "paro-baseline/1"};

int main(int argc, char **argv)
{
    struct fuzz_texts t = {.words = words,
                           .word_count = sizeof words / sizeof *words,
                           .ends = " \n:,",
                           .cases = 8000,
                           .seed = 1,
                           .part = 20};

    fuzz_add(&t, two, sizeof two - 1);
    return fuzz_main(&t, argc, argv);
}
