/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of a checkpoint's manifest under texts that are nearly right. */
#include "reader_fuzz_fixture.h"

static char words[] =
    "0 1 -1 4124 4125 192 1e3 9223372036854775807 9223372036854775808 null true \"\" "
    "\"x\" [] {} [0,1] \"embed\" \"layers.0\" \"params\" \"bf16\" \"../x\" \"name\" "
    "\"copies\":1 \"shard-00001.safetensors\" \"dbd7391be7b4c51975141c8dd0ba48f9\" \xff "
    "\\u0000";

int main(int argc, char **argv)
{
    struct fuzz_texts t = {
        .list = words, .ends = " \n:,{}[]", .cases = 6000, .seed = 1, .part = 20};

    fuzz_add_file(&t, "tests/fuzz/corpus/manifest/one-rank");
    fuzz_add_file(&t, "tests/fuzz/corpus/manifest/ragged");
    fuzz_add_file(&t, "tests/fuzz/corpus/manifest/run");
    fuzz_add_file(&t, "tests/fuzz/corpus/manifest/adapters");
    return fuzz_main(&t, argc, argv);
}
