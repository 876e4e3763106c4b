/* SPDX-License-Identifier: BSD-3-Clause */
/* Feeds bytes to the reader of a PEFT folder's adapter_config.json. */
#include "reader_fuzz.h"

#include "shard/shard_peft.h"

/* What is read of a true one by the adapters' own writer. */
static void check_own(const struct model *m)
{
    char *text = peft_config(m, NULL);
    struct err err = {0};

    assert(peft_check(m, FUZZ_NAME, text, (int64_t)strlen(text), &err) == 0);
    free(text);
}

/* Made once: reading it changes nothing of it. */
static const struct model *model(void)
{
    static const char config[] = "{\"model_type\":\"gpt2\",\"n_embd\":4,\"n_head\":1,"
                                 "\"n_layer\":1,\"vocab_size\":5}";
    static struct model m;
    struct err err = {0};

    if (!m.tensor) {
        int rc = model_parse(&m, "c", config, sizeof config - 1, &err);
        assert(rc == 0);
        rc = model_train(&m, "lora=4,alpha=8,targets=c_attn", &err);
        assert(rc == 0);
        check_own(&m);
    }
    return &m;
}

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    struct err err = {0};

    char *text = fuzz_copy(data, bytes);
    int rc = peft_check(model(), FUZZ_NAME, text, (int64_t)bytes, &err);
    if (rc && err.code == ERR_MISMATCH) /* another rank or alpha: both of its files are whole */
        err.code = ERR_INPUT;
    fuzz_judge(rc, &err);
    mem_free(text);
    return rc == 0;
}

/* As PEFT 0.21 writes it, the long tail of what is off left out. */
static const char text[] = "{\n  \"alpha_pattern\": {},\n  \"auto_mapping\": null,\n"
                           "  \"bias\": \"none\",\n  \"fan_in_fan_out\": true,\n"
                           "  \"init_lora_weights\": true,\n  \"lora_alpha\": 8,\n"
                           "  \"lora_dropout\": 0.05,\n  \"modules_to_save\": null,\n"
                           "  \"peft_type\": \"LORA\",\n  \"r\": 4,\n"
                           "  \"target_modules\": [\n    \"c_attn\"\n  ],\n"
                           "  \"task_type\": \"CAUSAL_LM\",\n  \"use_dora\": false\n}";

FUZZ_SET(.name = "adapter", .cases = 8000, .ends = " \n:,{}[]",
         .words = FUZZ_LIST("4", "8", "0", "-1", "1e308", "8.0", "null", "true", "false", "[]",
                            "{}", "\"x\"", "\"none\"", "\"r\"", "\"LORA\"", "\"bias\"",
                            "[\"x\"]", "\"lora_alpha\"", "\xff", "\\u0000"),
         .text = {FUZZ_TEXT(text)});
