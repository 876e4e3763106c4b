/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOKEN_TOKEN_H
#define TOKEN_TOKEN_H

#include <stdint.h>

#include "base/err.h"

/*
 * Turns text into tokens and back, as the tokenizer of a model's folder does it: byte-pair
 * encoding by a tokenizer.json of Hugging Face's tokenizers, SentencePiece's tokenizer.model,
 * or GPT-2's vocab.json and merges.txt.
 *
 *     struct tokenizer *t;
 *     if (tokenizer_open(&t, "model", &err)) ...
 *     int32_t *ids;
 *     int64_t n = tokenizer_encode(t, text, bytes, 0, &ids, &err);          -1: an error
 *     struct tokenizer_stream s = {0};
 *     for (i...) { p = tokenizer_decode(t, &s, ids[i], &count); fwrite(p, 1, count, stdout); }
 *     mem_free(ids);
 *     tokenizer_close(t);
 *
 * A text is any bytes.  Bytes that are not UTF-8 are encoded one by one where the tokenizer has
 * tokens of bytes.  A token may end within a character.
 *
 * A struct tokenizer is used by one thread at a time; tokenizer_share makes one for another
 * thread.
 */
struct tokenizer;

/*
 * path is a folder, or a file of the first two kinds; the second has ".model" in its name.  A
 * folder has tokenizer.json, tokenizer.model, or encoder.json (vocab.json, gpt2-encoder.json)
 * and vocab.bpe (merges.txt, gpt2-vocab.bpe); the first of these is read.  Of a tokenizer.model
 * tokenizer_config.json says which tokens surround a text (add_bos_token, add_eos_token) and
 * how it is spaced, as in transformers 4; tokens that it does not have are an error.
 * *t is the caller's: tokenizer_close.  ERR_INPUT names what is not supported.
 */
int tokenizer_open(struct tokenizer **t, const char *path, struct err *err);
/* The text of the file of that name in the folder, borrowed; NULL: there is none. */
typedef const char *tokenizer_text(const void *arg, const char *name, int64_t *bytes);
/* The same of files that the caller has read: `dir` is theirs, for messages. */
int tokenizer_open_read(struct tokenizer **t, const char *dir, tokenizer_text *text,
                        const void *arg, struct err *err);
/*
 * Whether dir has these files: 1, 0, or ERR_INPUT where it has a tokenizer in files that cannot
 * be read here.
 */
int tokenizer_find(const char *dir, struct err *err);
/* The same from memory; the names are for messages. */
int tokenizer_parse(struct tokenizer **t, const char *name, const char *text, int64_t bytes,
                    struct err *err);
int tokenizer_parse_gpt2(struct tokenizer **t, const char *vocab_name, const char *vocab,
                         int64_t vocab_bytes, const char *merges_name, const char *merges,
                         int64_t merges_bytes, struct err *err);
/* Another that shares the tables of t, which must be open for as long. */
struct tokenizer *tokenizer_share(const struct tokenizer *t);
void tokenizer_close(struct tokenizer *t); /* NULL is fine */

/* ---- the vocabulary ---- */

/* Tokens are 0 .. tokenizer_count - 1; some of them may be unused. */
int32_t tokenizer_count(const struct tokenizer *t);
/*
 * The tokens of the end and of the beginning of a text, or -1: tokenizer_config.json's
 * eos_token and bos_token; else the first of generation_config.json's or config.json's
 * eos_token_id and bos_token_id; else the end is <|endoftext|>, if there is one.
 */
int32_t tokenizer_end(const struct tokenizer *t);
int32_t tokenizer_begin(const struct tokenizer *t);
/* The token that the file spells so, <|im_start|> for example; -1: none. */
int32_t tokenizer_id(const struct tokenizer *t, const char *piece);
/* The chat template of its folder, a text of Jinja, borrowed from t; NULL: none. */
const char *tokenizer_template(const struct tokenizer *t);

enum tokenizer_kind {
    TOKENIZER_UNUSED,  /* a number without a token */
    TOKENIZER_NORMAL,  /* of the vocabulary */
    TOKENIZER_UNKNOWN, /* the unk_token */
    TOKENIZER_CONTROL, /* an added token that is special */
    TOKENIZER_USER,    /* any other added token */
    TOKENIZER_BYTE     /* <0x00> to <0xFF>, where bytes are the fallback */
};
enum tokenizer_kind tokenizer_kind(const struct tokenizer *t, int32_t id);
/* A token as the file spells it: *bytes of UTF-8, not 0-terminated; NULL: there is none. */
const char *tokenizer_piece(const struct tokenizer *t, int32_t id, int64_t *bytes);
/* The merges, first to last: merge i joins the tokens *left and *right.  Returns its rank: of
   equal ones the leftmost is made first. */
int32_t tokenizer_merges(const struct tokenizer *t);
int32_t tokenizer_merge(const struct tokenizer *t, int32_t i, int32_t *left, int32_t *right);
/* The tokens that TOKENIZER_WRAP puts before and after a text; borrowed from t. */
const int32_t *tokenizer_prefix(const struct tokenizer *t, int *count);
const int32_t *tokenizer_suffix(const struct tokenizer *t, int *count);

/* How a text is cut into words. */
enum tokenizer_words {
    TOKENIZER_OTHER,
    TOKENIZER_GPT2,         /* GPT-2's pattern, bytes */
    TOKENIZER_LLAMA3,       /* Llama 3's pattern, bytes */
    TOKENIZER_QWEN2,        /* Qwen2's pattern, after NFC, bytes */
    TOKENIZER_SMOLLM,       /* digits one by one, then GPT-2's pattern, bytes */
    TOKENIZER_SENTENCEPIECE /* a space is U+2581, characters, with bytes as the fallback */
};
enum tokenizer_words tokenizer_words(const struct tokenizer *t);
/* With TOKENIZER_SENTENCEPIECE: whether a text gets a space before its first word. */
int tokenizer_adds_space(const struct tokenizer *t);

/* ---- encoding ---- */

enum {
    TOKENIZER_PLAIN = 1,  /* special tokens that a text spells are text: chats of users */
    TOKENIZER_WRAP = 2,   /* add what the post-processor adds: a token of the beginning, ... */
    TOKENIZER_MIDDLE = 4, /* the text follows a special token: it is not the first of all */
    TOKENIZER_CONTINUED = 8 /* it follows another part of the text (tokenizer_cut) */
};

/*
 * The tokens of a text, in order: *ids is the caller's (mem_free).  Returns how many there are,
 * or -1: ERR_INPUT where a pattern of the tokenizer needs too many steps on this text.
 */
int64_t tokenizer_encode(struct tokenizer *t, const char *text, int64_t bytes, int flags,
                         int32_t **ids, struct err *err);
/*
 * The first place from `at` on where the text may be cut: what is before it, and what follows,
 * have the tokens of the whole.  bytes: there is none, or it is not known.
 */
int64_t tokenizer_cut(const struct tokenizer *t, const char *text, int64_t at, int64_t bytes);

/* ---- decoding ---- */

/* The state of decoding from token to token; zeros before the first. */
struct tokenizer_stream {
    int64_t tokens; /* decoded so far */
    int stripped;   /* spaces removed at the beginning, or -1: the text has begun */
};

/*
 * The bytes that a token adds to the text, *count of them (it may be 0), not 0-terminated,
 * valid until the next call with t; NULL: there is no such token.  Bytes that are no UTF-8 are
 * returned as they are.
 */
const char *tokenizer_decode(struct tokenizer *t, struct tokenizer_stream *s, int32_t id,
                             int64_t *count);

#endif
