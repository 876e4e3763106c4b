/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of an adapter_config.json under texts that are nearly right. */
#include "reader_fuzz_fixture.h"

static char words[] =
    "4 8 0 -1 1e308 8.0 null true false [] {} \"x\" \"none\" \"r\" \"LORA\" \"bias\" "
    "[\"x\"] \"lora_alpha\" \xff \\u0000";

/* As PEFT 0.21 writes it, the long tail of what is off left out. */
static const char text[] = "{\n  \"alpha_pattern\": {},\n  \"auto_mapping\": null,\n"
                           "  \"bias\": \"none\",\n  \"fan_in_fan_out\": true,\n"
                           "  \"init_lora_weights\": true,\n  \"lora_alpha\": 8,\n"
                           "  \"lora_dropout\": 0.05,\n  \"modules_to_save\": null,\n"
                           "  \"peft_type\": \"LORA\",\n  \"r\": 4,\n"
                           "  \"target_modules\": [\n    \"c_attn\"\n  ],\n"
                           "  \"task_type\": \"CAUSAL_LM\",\n  \"use_dora\": false\n}";

int main(int argc, char **argv)
{
    struct fuzz_texts t = {
        .list = words, .ends = " \n:,{}[]", .cases = 8000, .seed = 1, .part = 20};

    fuzz_add(&t, text, sizeof text - 1);
    return fuzz_main(&t, argc, argv);
}
