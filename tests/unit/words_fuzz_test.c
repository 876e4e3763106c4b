/* SPDX-License-Identifier: BSD-3-Clause */
/* The readers of what options are given under texts that are nearly right. */
#include "reader_fuzz_fixture.h"

static const char *const true_ones[] = {
    "g4x8",
    "g[3,2]",
    "s2x2,intra=1GB/s:1us,inter=25GB/s/rank:12us",
    "s4x[8,8,7],memory=80e9,flops=1e14",
    "vinter=25GB/s/rank:12us,memory=80e9,level2=:1us,nic=1gbit",
    "hnode[00-03,7].rack1,login",
    "w1,0.5,2e3",
    "c16..4096",
    "oall-gather,gather-across",
    "mlora=2,alpha=4,targets=c_attn+c_proj",
    "mtrain=*.1.*,*wte*",
    "mfreeze=*[0-9]*",
    "pIIG",
    "phfsdp",
};
static const char *const words[] = {"0",      "-1",     "1e99", "4x8",    "[8,8,7]",    "x",
                                    "[",      "]",      ",",    "=",      ":",          "1us",
                                    "1GB/s",  "/rank",  "..",   "all",    "lora=2",     "*",
                                    "level9", "memory", "+",    "[0-99]", "all-reduce", "ddp"};

int main(int argc, char **argv)
{
    struct fuzz_texts t = {.words = words,
                           .word_count = sizeof words / sizeof *words,
                           .ends = ",=:[]+.x\n",
                           .cases = 20000,
                           .seed = 1,
                           .part = 20};

    for (size_t i = 0; i < sizeof true_ones / sizeof *true_ones; i++)
        fuzz_add(&t, true_ones[i], strlen(true_ones[i]));
    return fuzz_main(&t, argc, argv);
}
