/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOKEN_PARTS_H
#define TOKEN_PARTS_H

/* Inside token: the tables of a tokenizer, and what a thread needs besides them. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/tree.h"
#include "token/tokenizer.h"

/*
 * A pattern sees so many bytes from the beginning of a word, a word is cut here, and so a word
 * takes 64 MiB at most to encode.
 */
enum { TOKEN_WORD_MAX = 1 << 20 };

/* ---- the vocabulary: token_vocab.c ---- */

struct token_piece {
    int64_t at; /* in vocab.text */
    int32_t bytes;
    enum tokenizer_kind kind;
    int added; /* it is not the model's: no word has it */
};

struct token_merge {
    int32_t left, right; /* left < 0: a free place */
    int32_t rank, to;
};

struct token_vocab {
    char *text; /* of all pieces, one after the other */
    size_t text_room, text_bytes;
    struct token_piece *piece; /* [count] */
    size_t piece_room;
    int32_t count;
    int32_t *slot; /* [slot_mask + 1] pieces hashed by their text; -1: free */
    uint32_t slot_mask;
    struct token_merge *merge; /* [mask + 1] hashed by left and right */
    uint32_t mask;
    struct token_merge *list; /* [merges] by rank */
    size_t list_room;
    int32_t merges;
};

/* Adds a piece; -1: the piece has a number already, 1: the number has a piece, *old. */
int token_vocab_add(struct token_vocab *v, const char *text, int64_t bytes, int32_t id,
                    enum tokenizer_kind kind, int32_t *old);
int32_t token_vocab_find(const struct token_vocab *v, const char *text, int64_t bytes);
/* Adds a merge of the next rank; after all of them token_vocab_index. */
void token_vocab_merge(struct token_vocab *v, int32_t left, int32_t right, int32_t to);
/* -1, or the first merge of a pair that merge *before has too: the later one counts. */
int32_t token_vocab_index(struct token_vocab *v, int32_t *before);
const struct token_merge *token_vocab_pair(const struct token_vocab *v, int32_t left,
                                           int32_t right);
/* Reads the objects of a vocabulary and of merges as JSON has them. */
int token_vocab_read(struct token_vocab *v, const char *name, const char *text, int64_t bytes,
                     int64_t from, struct err *err);
int token_vocab_read_merges(struct token_vocab *v, const char *name, const char *text,
                            int64_t bytes, int64_t from, struct err *err);
void token_vocab_release(struct token_vocab *v);

/* ---- patterns: token_regex.c ---- */

struct token_regex {
    pcre2_code *code;
    int looks_back; /* what matches somewhere depends on the text before */
};

/*
 * A regular expression of Oniguruma's syntax, or a text that is meant literally.  An error says
 * what is not supported, without a place.
 */
int token_regex_compile(struct token_regex *r, const char *pattern, int literal,
                        struct err *err);
void token_regex_release(struct token_regex *r);

/* ---- steps of a tokenizer ---- */

enum token_step_kind {
    TOKEN_SEQUENCE, /* of others, in the file alone */
    /* normalizers; REPLACE is a decoder, too */
    TOKEN_NFC,
    TOKEN_NFD,
    TOKEN_NFKC,
    TOKEN_NFKD,
    TOKEN_LOWERCASE,
    TOKEN_PREPEND, /* to */
    TOKEN_REPLACE, /* from, or regex: to */
    TOKEN_STRIP,   /* left and right: whether; of a decoder how many of `from` */
    /* pre-tokenizers; BYTE_LEVEL and METASPACE are decoders, too */
    TOKEN_BYTE_LEVEL, /* add: a space first; in the end bytes are the characters */
    TOKEN_SPLIT,      /* from, or regex; behavior, invert */
    TOKEN_METASPACE,  /* to: what a space is; add, behavior */
    /* decoders */
    TOKEN_BYTE_FALLBACK,
    TOKEN_FUSE,
    /* post-processors */
    TOKEN_TEMPLATE
};

enum token_behavior {
    TOKEN_REMOVED,
    TOKEN_ISOLATED,
    TOKEN_MERGED_WITH_PREVIOUS,
    TOKEN_MERGED_WITH_NEXT,
    TOKEN_CONTIGUOUS,
    TOKEN_WHOLE /* not split */
};

enum token_add { TOKEN_NEVER, TOKEN_FIRST, TOKEN_ALWAYS };

struct token_step {
    enum token_step_kind kind;
    enum token_behavior behavior;
    enum token_add add;
    int invert, left, right;
    enum tokenizer_words words; /* a pattern that token_words.c matches */
    char *from, *to;            /* owned; NULL: none */
    struct token_regex regex;   /* code NULL: none */
};

struct token_steps {
    struct token_step *step; /* [count] */
    size_t room;
    int count;
};

/* An added token, found in texts. */
struct token_added {
    int32_t id;
    int special, lstrip, rstrip, single_word, normalized;
};

struct token_model {
    int byte_fallback, fuse_unk, ignore_merges;
    int all_bytes;     /* every byte has a token */
    int32_t unk;       /* -1: none */
    int32_t byte[256]; /* of the byte's character, or with the fallback <0x00> ...; -1: none */
};

enum { TOKEN_CODES = 256 + 68 };

/* What threads share, read-only once it is open. */
struct token_tables {
    struct token_vocab vocab;
    struct token_model model;
    struct token_steps normal, pre, decode;
    struct token_added *added; /* [added_count] */
    int added_count;
    int32_t *prefix, *suffix; /* of the post-processor */
    int prefix_count, suffix_count;
    int has_decoder;
    uint16_t code_of[256]; /* of a byte in byte-level vocabularies, and back; -1: none */
    int16_t byte_of[TOKEN_CODES];
    int bytes; /* the model's characters are bytes */
    int32_t begin, end;
    enum tokenizer_words words;
};

/* Reads a tokenizer.json into tables that are all zero; the caller releases them anyway. */
int token_json_read(struct token_tables *t, const char *name, const char *text, int64_t bytes,
                    struct err *err);
void token_steps_release(struct token_steps *s);

/* Which of the patterns a regular expression is that token_words.c knows. */
enum tokenizer_words token_words_of(const char *regex);

/* A byte as byte-level vocabularies spell it: 1 or 2 bytes of UTF-8. */
int token_spell_byte(const struct token_tables *t, unsigned char byte, char *to);
/* The bytes that a text spells so, never more than it has; -1: it has other characters. */
int64_t token_bytes_of(const struct token_tables *t, const char *text, int64_t bytes, char *to);

struct tokenizer {
    const struct token_tables *tables;
    struct token_tables *owned; /* NULL: tokenizer_share's */
};

#endif
