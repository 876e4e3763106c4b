/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of safetensors headers under texts that are nearly right. */
#include "reader_fuzz_fixture.h"

static const char three[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                            "\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"
                            "\"b\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[16,22]},"
                            "\"c\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[22,23]}}";
static const char none[] = "{}";
static char words[] =
    "0 -1 1 2 4 16 23 4611686018427387904 F64 BOOL I64 F4 \"a\" \"dtype\" \"shape\" "
    "9223372036854775807 null 1.5 1e99 \\u0000 \xff \"data_offsets\" [] {}";

int main(int argc, char **argv)
{
    struct fuzz_texts t = {
        .list = words, .ends = " \n:,{}[]\"", .cases = 12000, .seed = 1, .part = 50};

    fuzz_add(&t, three, sizeof three - 1);
    fuzz_add(&t, none, sizeof none - 1);
    fuzz_add_file(&t, "tests/data/safetensors/torch.safetensors");
    return fuzz_main(&t, argc, argv);
}
