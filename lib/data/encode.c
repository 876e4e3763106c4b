/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how a text becomes a file of tokens, once and for all runs. */
#include <inttypes.h>
#include <stdio.h>

#include "base/io.h"
#include "data/data.h"

/* llm.c's header, with its count. */
static int write_head(FILE *f, enum source_type type, int64_t tokens)
{
    const uint32_t head[256] = {type == SOURCE_U16 ? 20240520 : 20240801,
                                type == SOURCE_U16 ? 1 : 7, (uint32_t)tokens};

    for (int i = 0; i < 256; i++)
        for (int b = 0; b < 4; b++)
            putc((int)(head[i] >> 8 * b & 255), f);
    return ferror(f);
}

static int write_tokens(FILE *f, const struct source *s, const char *out, struct err *err)
{
    size_t bytes = (size_t)(s->tokens * source_type_bytes(s->type));

    if (s->format != SOURCE_ENCODED)
        return err_set(err, ERR_INPUT, "'%s' is %s data, expected a text", s->path,
                       source_format_name(s->format));
    if (s->tokens > INT32_MAX)
        return err_set(err, ERR_INPUT,
                       "'%s' has %" PRId64 " tokens, expected at most %d, the limit of llm.c's "
                       "header: split the text",
                       s->path, s->tokens, INT32_MAX);
    if (write_head(f, s->type, s->tokens) || (bytes && fwrite(s->memory, 1, bytes, f) != bytes))
        return err_sys(err, "cannot write '%s'", out);
    return 0;
}

int data_encode(const char *text, const char *tokenizer, const char *out, int force,
                struct data_encoded *done, struct err *err)
{
    struct source s = {0};
    struct bpe *bpe = NULL;
    struct io_out to;

    if (bpe_open(&bpe, tokenizer, err))
        return -1;
    /* First the file, which may be there: what follows takes long. */
    int rc = io_create(&to, out, force, err);
    if (rc == 0) {
        rc = source_open(&s, text, bpe, err) || write_tokens(to.file, &s, out, err);
        if (rc)
            io_abandon(&to);
        else
            rc = io_commit(&to, err);
    }
    bpe_close(bpe);
    if (rc == 0)
        *done = (struct data_encoded){s.file_bytes, s.tokens};
    source_close(&s);
    return rc ? -1 : 0;
}
