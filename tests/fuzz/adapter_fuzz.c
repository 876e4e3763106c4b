/* SPDX-License-Identifier: BSD-3-Clause */
/* Feeds bytes to the reader of a PEFT folder's adapter_config.json. */
#include "reader_fuzz.h"

#include "ckpt/peft.h"

/* What is read of a true one by the adapters' own writer. */
static void check_own(const struct model *m)
{
    char *text = NULL;
    int64_t bytes = 0;
    struct err err = {0};

    peft_config(m, &text, &bytes);
    assert(peft_check(m, FUZZ_NAME, text, bytes, &err) == 0);
    free(text);
}

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    static const char config[] = "{\"model_type\":\"gpt2\",\"n_embd\":4,\"n_head\":1,"
                                 "\"n_layer\":1,\"vocab_size\":5}";
    struct model m = {0};
    struct err err = {0};

    if (bytes > FUZZ_MAX)
        return 0;
    assert(model_parse(&m, "c", config, sizeof config - 1, &err) == 0);
    assert(model_train(&m, "lora=4,alpha=8,targets=c_attn", &err) == 0);
    char *text = fuzz_copy(data, bytes);
    int rc = peft_check(&m, FUZZ_NAME, text, (int64_t)bytes, &err);
    if (rc && err.code == ERR_MISMATCH) /* another rank or alpha: both of its files are whole */
        err.code = ERR_INPUT;
    fuzz_judge(rc, &err);
    check_own(&m);
    mem_free(text);
    model_release(&m);
    return rc == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    reader_fuzz_case(data, bytes);
    return 0;
}
