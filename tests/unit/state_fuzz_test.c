/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of what a health check remembers under texts that are nearly right. */
#include "reader_fuzz_fixture.h"

static const char full[] =
    "paro-health-state/1\nrun 17 1795000000 1794999700 node3 0d1b-22\nsaid 2 1794990000\n"
    "nic eth0 0 1 1 1 10000 0 2000 1 2 1 10000 0 0 12 0 0 7 -1 -1 -1\n"
    "loss eth0 1794999000 1\nloss eth0 1794999900 2\nrecent eth0 1794999700 4 2000\n"
    "nic mlx5_0/1 1 1 1 0 400000 4 -1 0 -1 1 400000 4 65535 0 0 0 0 0 -1 -1\n"
    "problem 204 2 1 2 1794999000 1795000000 1794999000 -1 node3 eth0 - node3 port eth0\n"
    "problem 304 1 0 1 1794999000 1795000000 0 1 node3 - node4 \n"
    "rate node3 0 5.98e+07 5.97e+07\nrate node3 1\n";
static const char least[] = "paro-health-state/1\nrun 0 0 0 - -\nsaid 0 0\n";
static const char *const words[] = {"0",    "-1",   "1e9",     "nan",   "9223372036854775807",
                                    "eth0", "nic",  "problem", "rate",  "loss",
                                    "-",    "sum",  "run",     "12abc", "4",
                                    "\n",   "said", "999",     "1000",  "recent"};

int main(int argc, char **argv)
{
    struct fuzz_texts t = {.words = words,
                           .word_count = sizeof words / sizeof *words,
                           .ends = " \n",
                           .cases = 20000,
                           .seed = 1,
                           .part = 20};

    fuzz_add(&t, full, sizeof full - 1);
    fuzz_add(&t, least, sizeof least - 1);
    return fuzz_main(&t, argc, argv);
}
