/* SPDX-License-Identifier: BSD-3-Clause */
/* Feeds bytes to the reader of a PEFT folder's adapter_config.json. */
#include "reader_fuzz.h"

#include "shard/peft.h"

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
