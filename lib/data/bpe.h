/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DATA_BPE_H
#define DATA_BPE_H

#include <stdint.h>

#include "base/err.h"

/*
 * GPT-2's byte-pair encoding: text to tokens and back, by a user's vocabulary and merges.
 *
 *     struct bpe *bpe;
 *     if (bpe_open(&bpe, "tokenizer", &err)) ...
 *     int64_t n = bpe_encode(bpe, text, bytes, ids);        ids has room for `bytes`
 *     for (i...) { p = bpe_decode(bpe, ids[i], &count); fwrite(p, 1, count, stdout); }
 *     bpe_close(bpe);
 *
 * Tokens are strings of bytes, not of characters: what the tokens of any bytes stand for is
 * these bytes again.  A token may end within a character.  Text is cut into words by GPT-2's
 * pattern; bytes that are no UTF-8 are words of their own.  <|endoftext|> in a text is that
 * token, where the vocabulary has it.  A struct bpe is used by one thread at a time.
 */
struct bpe;

/*
 * dir has encoder.json (or vocab.json, gpt2-encoder.json) and vocab.bpe (or merges.txt,
 * gpt2-vocab.bpe).  *bpe is the caller's: bpe_close.
 */
int bpe_open(struct bpe **bpe, const char *dir, struct err *err);
/*
 * Whether dir has these files: 1, 0, or ERR_INPUT where it has a tokenizer in files that cannot
 * be read here.
 */
int bpe_find(const char *dir, struct err *err);
/* The same from memory; the names are for messages. */
int bpe_parse(struct bpe **bpe, const char *vocab_name, const char *vocab, int64_t vocab_bytes,
              const char *merges_name, const char *merges, int64_t merges_bytes,
              struct err *err);
void bpe_close(struct bpe *bpe); /* NULL is fine */

/* Tokens are 0 .. bpe_count - 1. */
int32_t bpe_count(const struct bpe *bpe);
/* The token <|endoftext|>, or -1: there is none. */
int32_t bpe_end(const struct bpe *bpe);

/*
 * The tokens of a text, in order; ids has room for as many as the text has bytes, which is
 * never too few.  Returns how many there are.  The text is any bytes.
 */
int64_t bpe_encode(struct bpe *bpe, const char *text, int64_t bytes, int32_t *ids);
/* The same a word's tokens at a time, for what does not fit; ends early where put fails. */
typedef int bpe_put(void *arg, const int32_t *ids, int64_t count, struct err *err);
int bpe_each(struct bpe *bpe, const char *text, int64_t bytes, bpe_put *put, void *arg,
             struct err *err);

/* The bytes of a token, *count of them, not 0-terminated, borrowed from bpe; NULL: no such one.
 */
const char *bpe_decode(const struct bpe *bpe, int32_t id, int64_t *count);

#endif
