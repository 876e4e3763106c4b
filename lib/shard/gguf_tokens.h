/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHARD_GGUF_TOKENS_H
#define SHARD_GGUF_TOKENS_H

#include "ckpt/gguf.h"

/*
 * The keys of a folder's tokenizer, for a model of `vocab` tokens.  *none: the folder has none,
 * and the keys say so.  ERR_INPUT where llama.cpp has no such tokenizer.
 */
int gguf_tokens_put(struct gguf_keys *k, const char *dir, int64_t vocab, int *none,
                    struct err *err);

#endif
