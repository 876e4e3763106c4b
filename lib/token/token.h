/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOKEN_TOKEN_H
#define TOKEN_TOKEN_H

#include <stdint.h>

#include "base/err.h"

/*
 * Converts text to tokens and back with the tokenizer of a model's folder: byte-pair encoding
 * by a tokenizer.json of Hugging Face's tokenizers, SentencePiece's tokenizer.model, or GPT-2's
 * vocab.json and merges.txt.
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
 * A text may contain any bytes.  Bytes that are not UTF-8 are encoded one by one if the
 * tokenizer has tokens for bytes.  A token may end inside a character.
 *
 * Use a struct tokenizer in one thread at a time; tokenizer_share makes another one for a
 * second thread.
 */
struct tokenizer;

/*
 * Opens a tokenizer.  path is a folder, or a file of the first two kinds; the second must have
 * ".model" in its name.  In a folder it reads the first that exists of tokenizer.json,
 * tokenizer.model, and encoder.json (vocab.json, gpt2-encoder.json) with vocab.bpe (merges.txt,
 * gpt2-vocab.bpe).  With a tokenizer.model, tokenizer_config.json gives the tokens around a
 * text (add_bos_token, add_eos_token) and its spacing, as in transformers 4; it may not name
 * tokens that the model lacks.  The caller closes *t with tokenizer_close.  ERR_INPUT names
 * unsupported features.
 */
int tokenizer_open(struct tokenizer **t, const char *path, struct err *err);
/* Returns the text of a file of the folder, borrowed; NULL: absent. */
typedef const char *tokenizer_text(const void *arg, const char *name, int64_t *bytes);
/* As tokenizer_open, with files that the caller has read; `dir` is for messages. */
int tokenizer_open_read(struct tokenizer **t, const char *dir, tokenizer_text *text,
                        const void *arg, struct err *err);
/*
 * Whether dir has these files: 1, 0, or ERR_INPUT if its tokenizer has an unsupported format.
 */
int tokenizer_find(const char *dir, struct err *err);
/* Open a tokenizer from texts in memory; the names are for messages. */
int tokenizer_parse(struct tokenizer **t, const char *name, const char *text, int64_t bytes,
                    struct err *err);
int tokenizer_parse_gpt2(struct tokenizer **t, const char *vocab_name, const char *vocab,
                         int64_t vocab_bytes, const char *merges_name, const char *merges,
                         int64_t merges_bytes, struct err *err);
/* Makes another tokenizer with the tables of t, which must stay open as long. */
struct tokenizer *tokenizer_share(const struct tokenizer *t);
void tokenizer_close(struct tokenizer *t); /* NULL is allowed */

/* ---- the vocabulary ---- */

/* Token numbers are 0 .. tokenizer_count - 1; some may be unused. */
int32_t tokenizer_count(const struct tokenizer *t);
/*
 * The tokens that end and begin a text, or -1: those of tokenizer_config.json (eos_token,
 * bos_token); else the first of generation_config.json's or config.json's eos_token_id and
 * bos_token_id; else the end is <|endoftext|>, if it exists.
 */
int32_t tokenizer_end(const struct tokenizer *t);
int32_t tokenizer_begin(const struct tokenizer *t);
/* The token with this spelling in the file, such as <|im_start|>; -1: none. */
int32_t tokenizer_id(const struct tokenizer *t, const char *piece);
/* The folder's chat template, a Jinja text, borrowed from t; NULL: none. */
const char *tokenizer_template(const struct tokenizer *t);

enum tokenizer_kind {
    TOKENIZER_UNUSED,  /* a number without a token */
    TOKENIZER_NORMAL,  /* in the vocabulary */
    TOKENIZER_UNKNOWN, /* the unk_token */
    TOKENIZER_CONTROL, /* an added token that is special */
    TOKENIZER_USER,    /* any other added token */
    TOKENIZER_BYTE     /* <0x00> to <0xFF>, for tokenizers with byte fallback */
};
enum tokenizer_kind tokenizer_kind(const struct tokenizer *t, int32_t id);
/* A token's spelling in the file: *bytes bytes of UTF-8, not 0-terminated; NULL: unused
   number. */
const char *tokenizer_piece(const struct tokenizer *t, int32_t id, int64_t *bytes);
/* The merges by rank: merge i joins the tokens *left and *right.  Returns its rank; among equal
   ranks the leftmost merge in the text is applied first. */
int32_t tokenizer_merges(const struct tokenizer *t);
int32_t tokenizer_merge(const struct tokenizer *t, int32_t i, int32_t *left, int32_t *right);
/* The tokens that TOKENIZER_WRAP adds before and after a text; borrowed from t. */
const int32_t *tokenizer_prefix(const struct tokenizer *t, int *count);
const int32_t *tokenizer_suffix(const struct tokenizer *t, int *count);

/* How a text is split into words (the pre-tokenizer). */
enum tokenizer_words {
    TOKENIZER_OTHER,
    TOKENIZER_GPT2,         /* GPT-2's pattern, bytes */
    TOKENIZER_LLAMA3,       /* Llama 3's pattern, bytes */
    TOKENIZER_QWEN2,        /* Qwen2's pattern, after NFC, bytes */
    TOKENIZER_SMOLLM,       /* digits one by one, then GPT-2's pattern, bytes */
    TOKENIZER_SENTENCEPIECE /* spaces become U+2581; characters, with byte fallback */
};
enum tokenizer_words tokenizer_words(const struct tokenizer *t);
/* With TOKENIZER_SENTENCEPIECE: whether a space is added before a text's first word. */
int tokenizer_adds_space(const struct tokenizer *t);

/* ---- encoding ---- */

enum {
    /* Spellings of special tokens are ordinary text: for chats of users */
    TOKENIZER_PLAIN = 1,
    TOKENIZER_WRAP = 2, /* add the post-processor's tokens, such as the beginning token */
    /* The text comes after a special token and does not begin the whole */
    TOKENIZER_MIDDLE = 4,
    TOKENIZER_CONTINUED = 8 /* the text continues an earlier part of it (tokenizer_cut) */
};

/*
 * Encodes a text: *ids are its tokens in order (mem_free).  Returns their number, or -1:
 * ERR_INPUT if a pattern of the tokenizer needs too many steps on this text, ERR_SYS without
 * memory for the tokens.
 */
int64_t tokenizer_encode(struct tokenizer *t, const char *text, int64_t bytes, int flags,
                         int32_t **ids, struct err *err);
/*
 * The first position from `at` on at which the text may be cut: encoding both parts gives the
 * tokens of the whole.  `bytes`: there is none, or it is unknown.
 */
int64_t tokenizer_cut(const struct tokenizer *t, const char *text, int64_t at, int64_t bytes);

/* ---- decoding ---- */

/* The state of decoding a sequence of tokens; all zeros before the first. */
struct tokenizer_stream {
    int64_t tokens; /* tokens decoded so far */
    int stripped;   /* spaces removed at the beginning; -1: the text has begun */
};

/*
 * Returns the bytes that a token adds to the text: *count bytes (may be 0), not 0-terminated,
 * valid until the next call with t; NULL: no such token.  Invalid UTF-8 is returned unchanged.
 */
const char *tokenizer_decode(struct tokenizer *t, struct tokenizer_stream *s, int32_t id,
                             int64_t *count);

#endif
