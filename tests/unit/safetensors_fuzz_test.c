/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of safetensors headers under texts that are nearly right. */
#include "reader_fuzz_fixture.h"

static const char three[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                            "\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]},"
                            "\"b\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[16,22]},"
                            "\"c\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[22,23]}}";
static const char none[] = "{}";
static const char escapes[] =
    "{\"__metadata__\":{\"k\\u00e9\\ud83d\\ude00\":\"v\\n\"},\"\\\"a\":{\"dtype\":\"F32\","
    "\"shape\":[2, 10],\"data_offsets\":[0,80]} ,\n\"\xc3\xa9\":{\"data_offsets\":[80,81],"
    "\"shape\":[],\"dtype\":\"U8\"}}  ";
static char words[] =
    "0 -1 1 2 4 16 23 4611686018427387904 F64 BOOL I64 F4 \"a\" \"dtype\" \"shape\" "
    "9223372036854775807 null 1.5 1e99 \\u0000 \xff \"data_offsets\" [] {}";

int main(int argc, char **argv)
{
    struct fuzz_texts t = {
        .list = words, .ends = " \n:,{}[]\"", .cases = 12000, .seed = 1, .part = 50};

    fuzz_add(&t, three, sizeof three - 1);
    fuzz_add(&t, escapes, sizeof escapes - 1);
    fuzz_add(&t, none, sizeof none - 1);
    fuzz_add_file(&t, "tests/data/safetensors/torch.safetensors");
    /* Each byte in turn made each of the bytes that matter. */
    static const char with[] = "\"\\{}[],: \n0a18-.eEuU/\x01\x7f\x80\xc3\xed\xf4\xff";
    for (size_t at = 0; at < sizeof escapes - 1; at++)
        for (size_t k = 0; k < sizeof with - 1; k++) {
            char text[sizeof escapes];
            memcpy(text, escapes, sizeof text);
            text[at] = with[k];
            reader_fuzz_case((const uint8_t *)text, sizeof escapes - 1);
        }
    return fuzz_main(&t, argc, argv);
}
