/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of a run's settings under texts that are nearly right. */
#include "reader_fuzz_fixture.h"

static const char some[] = "format: paro-settings/1\nlr: 3.0e-04\nseed: 7\n";
static const char many[] =
    "format: paro-settings/1\nsteps: 100\nmin_lr: 3e-5\nwarmup: 10\n"
    "beta1: 0.9\nbeta2: 0.95\neps: 1e-8\nweight_decay: 0.1\nclip: 1.0\n"
    "skip_nonfinite: 1\nmax_skipped: 9\nsave_every: 0\nkeep: 2\ndeadline: 600\n";
static char words[] =
    "0 -1 1e999 nan inf 0x10 12abc 1e3 ~ \" yes lr seed { } - 9e15 paro-settings/2";

int main(int argc, char **argv)
{
    struct fuzz_texts t = {.list = words, .ends = " \n:", .cases = 8000, .seed = 1, .part = 20};

    fuzz_add(&t, some, sizeof some - 1);
    fuzz_add(&t, many, sizeof many - 1);
    return fuzz_main(&t, argc, argv);
}
