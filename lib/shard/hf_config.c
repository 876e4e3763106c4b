/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows where a config.json says of which type the weights are. */
#include "shard/shard_parts.h"

#include <stdio.h>
#include <string.h>

#include "base/jin.h"
#include "base/mem.h"
#include "ckpt/ckpt_write.h"

static const char *name_of(enum dtype type)
{
    switch (type) {
    case DTYPE_BF16:
        return "bfloat16";
    case DTYPE_F16:
        return "float16";
    case DTYPE_F64:
        return "float64";
    default:
        return "float32";
    }
}

void hf_config_as(const char *config, enum dtype type, char **text, int64_t *bytes)
{
    struct jin j = {.text = config, .bytes = (int64_t)strlen(config)};
    size_t used = 0;
    int64_t from = 0; /* what is copied */
    FILE *f = mem_stream(text, &used);
    int n = 0, said = 0;

    /* The text was read before: what is no JSON here is left as it is. */
    if (jin_take(&j, '{') == 0) {
        int64_t first = j.at;
        while (jin_item(&j, '}', &n) > 0 && jin_text(&j) == 0 && jin_take(&j, ':') == 0) {
            int ours = strcmp(j.word, "torch_dtype") == 0 || strcmp(j.word, "dtype") == 0;
            jin_next(&j);
            int64_t at = j.at;
            if (jin_skip(&j))
                break;
            if (!ours)
                continue;
            fprintf(f, "%.*s\"%s\"", (int)(at - from), config + from, name_of(type));
            from = j.at;
            said = 1;
        }
        if (!said) {
            fprintf(f, "%.*s\"torch_dtype\": \"%s\"%s", (int)first, config, name_of(type),
                    n ? ", " : "");
            from = first;
        }
    }
    fputs(config + from, f);
    fclose(f);
    jin_release(&j);
    *bytes = (int64_t)used;
}
