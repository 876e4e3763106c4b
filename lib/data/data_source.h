/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DATA_DATA_SOURCE_H
#define DATA_DATA_SOURCE_H

#include <stdint.h>

#include "base/err.h"
#include "data/data_chat.h"
#include "data/data_spans.h"
#include "token/token.h"

/*
 * Reads one file of tokens (paro-data(5)), when tokens are requested, not mapped: one that is
 * cut meanwhile is an error then, and no signal.  The tokens of a text that is encoded are in a
 * file without a name, in memory.  What a file is, its content says:
 *
 *     NAME.idx beside NAME.bin, or the path is without .bin    Megatron's
 *     a name of JSON Lines (data_jsonl.h)                            JSON Lines
 *     llm.c's magic in its first four bytes                     llm.c's
 *     a name that ends in .bin                                  nanoGPT's
 *     anything else                                             text
 */
enum source_format {
    SOURCE_TEXT,
    SOURCE_JSONL,
    SOURCE_ENCODED,
    SOURCE_LLMC,
    SOURCE_NANOGPT,
    SOURCE_MEGATRON
};
/* Little-endian. */
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
    char *path; /* of the file with the tokens; owned */
    enum source_format format;
    enum source_type type;
    int fd;
    int64_t tokens;
    int64_t offset; /* of the first token in the file */
    int64_t file_bytes;
    struct spans spans;
    struct chat_guess guess; /* encode_done's */
};

/* Where tokens are in a file of `bytes`, by a header. */
struct source_place {
    enum source_type type;
    int64_t offset, tokens;
};

/*
 * Opens and checks all of the file but its tokens' size.  The tokens of a text are its bytes,
 * and of JSON Lines there are none, until it is encoded.
 */
int source_open(struct source *s, const char *path, struct err *err);
/* A text or JSON Lines (data_encode.h).  t NULL: bytes are tokens; template NULL, or
   a name. */
int source_encode(struct source *s, struct tokenizer *t, const char *template, struct err *err);
void source_close(struct source *s);
/* Reads all.  ERR_INPUT names the first that is not in 0 .. vocab - 1, and its place. */
int source_check(const struct source *s, int64_t vocab, struct err *err);
/*
 * Tokens at .. at + count - 1.  ERR_INPUT where the file is no longer that long, or has one
 * that does not fit; what is written then is not said.
 */
int source_read(const struct source *s, int64_t at, int64_t count, int32_t *to,
                struct err *err);
/* The same of seq tokens, and of the one behind each, all in one read where seq is below 2^14.
 */
int source_read_window(const struct source *s, int64_t at, int seq, int32_t *tokens,
                       int32_t *targets, struct err *err);

int source_type_bytes(enum source_type type);
/* "text", "llm.c", ... */
const char *source_format_name(enum source_format format);

/* Whether bytes begin as one of llm.c's files do. */
int source_llmc_is(const unsigned char *head, int64_t bytes);
/* The header of an llm.c file of file_bytes, of which `bytes` are at head. */
int source_llmc_parse(const char *name, const unsigned char *head, int64_t bytes,
                      int64_t file_bytes, struct source_place *place, struct err *err);
/*
 * A Megatron index whose tokens are in the file bin_name of bin_bytes.  spans: its sequences,
 * with document bounds, and contexts where modes are not 0.
 */
int source_idx_parse(const char *name, const unsigned char *idx, int64_t bytes,
                     const char *bin_name, int64_t bin_bytes, struct source_place *place,
                     struct spans *spans, struct err *err);

#endif
