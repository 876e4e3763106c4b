/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of a run's log under texts that are nearly right. */
#include "reader_fuzz_fixture.h"

/* clang-format off */
#define STEP(n, skipped)                                                                       \
    "{\"step\":" n ",\"loss\":5.5,\"grad_norm\":1,\"lr\":3e-06,\"tokens\":512,"                \
    "\"step_s\":0.25,\"tokens_per_s\":2048,\"compute_s\":0.125,\"exposed_comm_s\":0.125,"      \
    "\"slow_bytes\":1048576,\"fast_bytes\":2097152,\"state_bytes\":999999,"                    \
    "\"skipped\":" skipped "}\n"
static const char *const words[] = {
    "0", "-1", "1e308", "1e999", "null", "NaN", "true", "[", "]", "{", "}", "\"", ",", "\n",
    "\"step_s\"", "\"skipped\"", "\\u0000", "\xff", "9223372036854775808",
    "\"state_hash\":\"0\","};
/* clang-format on */

static const char three[] = STEP("1", "false") STEP("2", "true") STEP("3", "false");
static const char cut[] = STEP("1", "false") STEP("2", "false") "{\"step\":3,\"lo";

int main(int argc, char **argv)
{
    struct fuzz_texts t = FUZZ_TEXTS(words, " \n:,{}", 8000, 20);

    fuzz_add(&t, three, sizeof three - 1);
    fuzz_add(&t, cut, sizeof cut - 1);
    return fuzz_main(&t, argc, argv);
}
