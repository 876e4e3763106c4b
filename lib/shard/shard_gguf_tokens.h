/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHARD_SHARD_GGUF_TOKENS_H
#define SHARD_SHARD_GGUF_TOKENS_H

#include "ckpt/ckpt_gguf.h"
#include "token/token.h"

/* The files of a folder, already read. */
struct gguf_source {
    const char *dir;
    tokenizer_text *text;
    const void *arg;
};

/*
 * Writes the keys of a folder's tokenizer, for a model of `vocab` tokens.  *none: the folder
 * has no tokenizer, and the keys say so.  ERR_INPUT if llama.cpp does not support the
 * tokenizer.
 */
int gguf_tokens_put(struct gguf_keys *k, const struct gguf_source *from, int64_t vocab,
                    int *none, struct err *err);

#endif
