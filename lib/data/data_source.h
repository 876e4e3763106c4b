/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DATA_DATA_SOURCE_H
#define DATA_DATA_SOURCE_H

#include <stdint.h>

#include "base/err.h"
#include "data/data_chat.h"
#include "data/data_spans.h"
#include "token/token.h"

/*
 * Reads one file of tokens (paro-data(5)).  Tokens are read on request and not mapped, so
 * truncating the file causes an error and no signal.  The tokens of an encoded text are in an
 * unnamed file in memory.  The format is recognized as follows:
 *
 *     NAME.idx next to NAME.bin, or the path is without .bin        Megatron's
 *     a name of JSON Lines (data_jsonl.h)                           JSON Lines
 *     llm.c's magic in its first four bytes                         llm.c's
 *     a name that ends in .bin                                      nanoGPT's
 *     anything else                                                 text
 */
enum source_format {
    SOURCE_TEXT,
    SOURCE_JSONL,
    SOURCE_ENCODED,
    SOURCE_LLMC,
    SOURCE_NANOGPT,
    SOURCE_MEGATRON
};
/* Types of tokens in the file, little-endian. */
enum source_type {
    SOURCE_U8,
    SOURCE_I8,
    SOURCE_U16,
    SOURCE_I16,
    SOURCE_U32,
    SOURCE_I32,
    SOURCE_I64
};

struct source {
    char *path; /* path of the file with the tokens; owned */
    enum source_format format;
    enum source_type type;
    int fd;
    int64_t tokens;
    int64_t offset; /* offset of the first token in the file */
    int64_t file_bytes;
    struct spans spans;
    struct chat_guess guess; /* from encode_done */
};

/* The place of the tokens in a file, according to its header. */
struct source_place {
    enum source_type type;
    int64_t offset, tokens;
};

/*
 * Opens a file and checks all but the tokens' values.  The tokens of a text are its bytes; JSON
 * Lines have no tokens before source_encode.
 */
int source_open(struct source *s, const char *path, struct err *err);
/* Encodes a text or JSON Lines (data_encode.h). t NULL: bytes are tokens; template: NULL or a
   name. */
int source_encode(struct source *s, struct tokenizer *t, const char *template, struct err *err);
void source_close(struct source *s);
/* Reads all tokens.  ERR_INPUT names the first outside 0 .. vocab - 1, and its place. */
int source_check(const struct source *s, int64_t vocab, struct err *err);
/*
 * Reads tokens at .. at + count - 1.  ERR_INPUT if the file has become shorter, or a token does
 * not fit int32_t; `to` is then undefined.
 */
int source_read(const struct source *s, int64_t at, int64_t count, int32_t *to,
                struct err *err);
/* Reads seq tokens, and as targets the token after each, in a single read if seq < 2^14. */
int source_read_window(const struct source *s, int64_t at, int seq, int32_t *tokens,
                       int32_t *targets, struct err *err);

int source_type_bytes(enum source_type type);
/* "text", "llm.c", ... */
const char *source_format_name(enum source_format format);

/* Whether bytes begin like an llm.c file. */
int source_llmc_is(const unsigned char *head, int64_t bytes);
/* Parses the header of an llm.c file of file_bytes bytes, of which `bytes` are at head. */
int source_llmc_parse(const char *name, const unsigned char *head, int64_t bytes,
                      int64_t file_bytes, struct source_place *place, struct err *err);
/*
 * Parses a Megatron index for the file bin_name of bin_bytes bytes.  spans: its sequences, with
 * document bounds; those with nonzero mode are context.
 */
int source_idx_parse(const char *name, const unsigned char *idx, int64_t bytes,
                     const char *bin_name, int64_t bin_bytes, struct source_place *place,
                     struct spans *spans, struct err *err);

#endif
