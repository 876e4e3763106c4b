/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of a folder's index of weights under texts that are nearly right. */
#include "reader_fuzz_fixture.h"

static char words[] =
    "a.safetensors b.safetensors \"x\" \"y\" \"z\" \"weight_map\" \"../a.safetensors\" "
    "\"/dev/zero\" \".\" \"\" null 0 {} [] \\u0000 \xff";

int main(int argc, char **argv)
{
    struct fuzz_texts t = {
        .list = words, .ends = " \n:,{}\"", .cases = 4000, .seed = 1, .part = 50};

    fuzz_add_file(&t, "tests/fuzz/corpus/index/both");
    fuzz_add_file(&t, "tests/fuzz/corpus/index/one");
    return fuzz_main(&t, argc, argv);
}
