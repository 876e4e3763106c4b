/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DATA_DATA_ENCODE_H
#define DATA_DATA_ENCODE_H

#include <stdio.h>

#include "data/data_source.h"
#include "token/token.h"

/*
 * Encodes texts as tokens (paro-data(5)).  A text file is one document, encoded unchanged.
 * JSON Lines (data_jsonl.h) have one document in each line: a text gets the tokenizer's prefix
 * and suffix and one end token; a conversation is encoded with a chat template (data_chat.h).
 */
struct encode_done {
    int64_t bytes, tokens; /* bytes of text after decompression; tokens written */
    struct chat_guess guess;
};

/*
 * Writes the tokens of the file `path` to `out`, little-endian, in encode_type, and adds the
 * spans of JSON Lines.  template: a name, or NULL. t NULL, for JSON Lines only: the tokens of a
 * text are its bytes, and a conversation is an error.
 */
int encode_file(const char *path, struct tokenizer *t, const char *template, FILE *out,
                struct spans *spans, struct encode_done *done, struct err *err);
/* SOURCE_U16 if all tokens fit, else SOURCE_I32; without a tokenizer SOURCE_U8. */
enum source_type encode_type(const struct tokenizer *t);
/* Writes Megatron's index of tokens with these spans (paro-data(5)). */
int encode_idx(const struct spans *spans, int64_t tokens, enum source_type type, FILE *out,
               struct err *err);

#endif
