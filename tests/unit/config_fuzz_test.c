/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of a model's config.json under texts that are nearly right. */
#include "reader_fuzz_fixture.h"

static const char *const words[] = {"0",
                                    "-1",
                                    "1",
                                    "2",
                                    "1e3",
                                    "1.5",
                                    "null",
                                    "true",
                                    "\"x\"",
                                    "[]",
                                    "{}",
                                    "16384",
                                    "16385",
                                    "1048576",
                                    "16777216",
                                    "16777217",
                                    "2147483648",
                                    "9223372036854775807",
                                    "9223372036854775808",
                                    "1e308",
                                    "1e-320",
                                    "\"head_dim\"",
                                    "\"rope_theta\"",
                                    "\"hidden_size\"",
                                    "\"rope_scaling\"",
                                    "\"num_hidden_layers\"",
                                    "\xff",
                                    "\\u0000"};

int main(int argc, char **argv)
{
    struct fuzz_texts t = {.words = words,
                           .word_count = sizeof words / sizeof *words,
                           .ends = " \n:,{}[]",
                           .cases = 8000,
                           .seed = 1,
                           .part = 20};

    fuzz_add_file(&t, "examples/models/llama-tiny.json");
    fuzz_add_file(&t, "tests/data/llama_tied.json");
    fuzz_add_file(&t, "tests/data/llama_untied.json");
    return fuzz_main(&t, argc, argv);
}
