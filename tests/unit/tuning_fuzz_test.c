/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of tables of choices under texts that are nearly right. */
#include "reader_fuzz_fixture.h"

static const char made[] =
    "format: paro-tuning/1\nmembers: [2, 1]\nrules:\n"
    "  - op: all-gather\n    from_bytes: 0\n    below_bytes: 118784\n    algo: bruck\n"
    "    chunk_bytes: 61440\n    at_bytes: 1024\n    time_s: 1.202736e-05\n"
    "    runner_up: direct\n    runner_up_s: 1.202736e-05\n"
    "  - op: all-gather\n    from_bytes: 118784\n    algo: ho-ring\n    chunk_bytes: 65536\n"
    "  - op: reduce-scatter\n    from_bytes: 0\n    algo: two-level\n    chunk_bytes: 61440\n"
    "    at_bytes: 1024\n    time_s: 1.5e-05\n    timed: measured\n";
static const char least[] = "format: paro-tuning/1\nmembers: [2, 2]\nrules:\n"
                            "  - op: all-reduce\n    from_bytes: 0\n"
                            "    algo: ring\n    chunk_bytes: whole\n";
/* clang-format off */
static const char *const words[] = {
    "0", "-1", "1e999", "nan", "12abc", "1e3", "whole", "auto", "ring", "bruck", "mesh", "\"",
    "[1, 1]", "broadcast", "{", "measured", "simulated", "~", "118785", "9223372036854775807",
    "paro-tuning/2"};
/* clang-format on */

int main(int argc, char **argv)
{
    struct fuzz_texts t = FUZZ_TEXTS(words, " \n:,[]", 6000, 20);

    fuzz_add(&t, made, sizeof made - 1);
    fuzz_add(&t, least, sizeof least - 1);
    return fuzz_main(&t, argc, argv);
}
