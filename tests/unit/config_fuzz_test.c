/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of a model's config.json under texts that are nearly right. */
#include "reader_fuzz_fixture.h"

static char words[] =
    "0 -1 1 2 1e3 1.5 null true \"x\" [] {} 16384 16385 1048576 16777216 16777217 "
    "2147483648 9223372036854775807 9223372036854775808 1e308 1e-320 \"head_dim\" "
    "\"rope_theta\" \"hidden_size\" \"rope_scaling\" \"num_hidden_layers\" "
    "\"rope_parameters\" \"rope_type\" \"yarn\" \"llama3\" \"dynamic\" \"factor\" "
    "\"gpt2\" \"n_inner\" \"n_ctx\" \xff \\u0000";

static const char *const rope[] = {
    "{\"model_type\": \"llama\",\n \"hidden_size\": 64,\n \"num_attention_heads\": 4,\n"
    " \"num_hidden_layers\": 1,\n \"vocab_size\": 9,\n \"rope_scaling\": {\"type\": "
    "\"yarn\",\n \"factor\": 4.0,\n \"truncate\": false,\n \"beta_fast\": 32,\n "
    "\"mscale\": 1,\n \"mscale_all_dim\": 0.5,\n "
    "\"original_max_position_embeddings\": 1024}}\n",
    "{\"model_type\": \"llama\",\n \"hidden_size\": 64,\n \"num_attention_heads\": 4,\n"
    " \"num_hidden_layers\": 1,\n \"vocab_size\": 9,\n \"rope_parameters\": {"
    "\"rope_type\": \"llama3\",\n \"factor\": 8.0,\n \"low_freq_factor\": 1.0,\n "
    "\"high_freq_factor\": 4.0,\n \"rope_theta\": 500000.0}}\n",
    "{\"model_type\": \"llama\",\n \"hidden_size\": 64,\n \"num_attention_heads\": 4,\n"
    " \"num_hidden_layers\": 1,\n \"vocab_size\": 9,\n \"rope_scaling\": {"
    "\"type\": \"dynamic\",\n \"factor\": 2.0}}\n",
};

int main(int argc, char **argv)
{
    struct fuzz_texts t = {
        .list = words, .ends = " \n:,{}[]", .cases = 8000, .seed = 1, .part = 20};

    fuzz_add_file(&t, "examples/models/llama-tiny.json");
    fuzz_add_file(&t, "tests/data/llama_tied.json");
    fuzz_add_file(&t, "tests/data/llama_untied.json");
    fuzz_add_file(&t, "examples/models/gpt2-tiny.json");
    fuzz_add_file(&t, "examples/models/gpt2-124m.json");
    fuzz_add_file(&t, "tests/data/mistral.json");
    fuzz_add_file(&t, "tests/data/qwen2.json");
    fuzz_add_file(&t, "tests/data/qwen3.json");
    for (size_t i = 0; i < sizeof rope / sizeof *rope; i++)
        fuzz_add(&t, rope[i], strlen(rope[i]));
    return fuzz_main(&t, argc, argv);
}
