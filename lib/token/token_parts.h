/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOKEN_PARTS_H
#define TOKEN_PARTS_H

/* Inside token/: declares the tables of a tokenizer, and what a thread needs besides them. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "value/value_tree.h"
#include "token/token_words.h"
#include "token/token.h"

/*
 * A pattern sees so many bytes from the beginning of a word, a word is cut here, and so a word
 * takes 64 MiB at most to encode.
 */
enum { TOKEN_WORD_MAX = 1 << 20 };
/* The most steps of a match: an alternative may step back over each byte of the longest
   word. */
enum { TOKEN_STEPS_MAX = 4 * TOKEN_WORD_MAX };

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
    size_t text_space, text_bytes;
    struct token_piece *piece; /* [count] */
    size_t piece_space;
    int32_t count;
    int32_t *slot; /* [slot_mask + 1] pieces hashed by their text; -1: free */
    uint32_t slot_mask;
    struct token_merge *merge; /* [mask + 1] hashed by left and right */
    uint32_t mask;
    struct token_merge *list; /* [merges] by rank */
    size_t list_space;
    int32_t merges;
    char *both; /* scratch: a merge as one text */
    size_t both_space;
};

/* Adds a piece; -1: the piece has a number already, 1: the number has a piece, *old. */
int token_vocab_add(struct token_vocab *v, const char *text, int64_t bytes, int32_t id,
                    enum tokenizer_kind kind, int32_t *old);
int32_t token_vocab_find(const struct token_vocab *v, const char *text, int64_t bytes);
/* Adds a merge, lower ranks first; of equal ones the leftmost is made first. */
void token_vocab_merge(struct token_vocab *v, int32_t left, int32_t right, int32_t to,
                       int32_t rank);
/* Adds "LEFT RIGHT", a merge of the next rank; an error says why not, without a place. */
int token_vocab_join_text(struct token_vocab *v, const char *text, size_t bytes,
                          struct err *err);
/* After all merges.  Of those of the same pair the last one counts. */
void token_vocab_index(struct token_vocab *v);
const struct token_merge *token_vocab_pair(const struct token_vocab *v, int32_t left,
                                           int32_t right);
/* Read {"TOKEN": NUMBER, ...}, and after that a list of merges. */
int token_vocab_read(struct token_vocab *v, const struct tree *tree, const struct tree_node *n,
                     struct err *err);
int token_vocab_read_merges(struct token_vocab *v, const struct tree *tree,
                            const struct tree_node *n, struct err *err);
void token_vocab_release(struct token_vocab *v);

/* ---- patterns: token_regex.c ---- */

struct token_regex {
    pcre2_code *code;
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
    enum tokenizer_words words; /* of a known pattern */
    char *from, *to;            /* owned; NULL: none */
    struct token_regex regex;   /* code NULL: none */
};

struct token_steps {
    struct token_step *step; /* [count] */
    size_t space;
    int count;
};

/* An added token, found in texts.  Of `normalized`: the text is, the token is not. */
enum { TOKEN_AS_SPELLED = 2 };
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

struct token_finder;

/* The tables that threads share, read-only once they are open. */
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
    /* From token_tables_prepare: */
    struct token_steps late; /* a first pre-tokenizer's changes of the text, as normalizers */
    struct token_finder *find[2]; /* added tokens before and after normalization; NULL: none */
    uint64_t *joints;
    char *template; /* of the folder, for chats; owned; NULL: it has none */
    int cuttable;   /* texts may be encoded in parts: token_each.c */
};

/* Reads a tokenizer.json; tables may have what is null there.  The caller releases them. */
int token_json_read(struct token_tables *t, const char *name, const char *text, int64_t bytes,
                    struct err *err);
/*
 * The same of a tokenizer.model.  config is what tokenizer_config.json says, or NULL: whether
 * spaces are as of `legacy`, and whether a text gets one (add_prefix_space).
 */
int token_spm_read(struct token_tables *t, const char *name, const char *text, int64_t bytes,
                   const struct tree_node *config, struct err *err);
void token_steps_release(struct token_steps *s);

/* A byte as byte-level vocabularies spell it: 1 or 2 bytes of UTF-8. */
int token_spell_byte(const struct token_tables *t, unsigned char byte, char *to);
/* The bytes that a text spells so, never more than it has; -1: it has other characters. */
int64_t token_bytes_of(const struct token_tables *t, const char *text, int64_t bytes, char *to);

/* ---- what a thread has ---- */

struct token_buffer {
    char *text;
    size_t space;
    int64_t bytes;
};

void token_buffer_add(struct token_buffer *b, const char *text, int64_t bytes);

/* Results for short words: most words of a text are among few.  A line of the cache. */
enum { TOKEN_CACHE_SLOTS = 1 << 17, TOKEN_CACHE_BYTES = 30, TOKEN_CACHE_IDS = 8 };

struct token_cached {
    unsigned char bytes, count; /* bytes 0: empty */
    char word[TOKEN_CACHE_BYTES];
    int32_t ids[TOKEN_CACHE_IDS];
};

/* A part of a word: parts are linked in order, and go as they are merged. */
struct token_part {
    int32_t id; /* < 0: merged into the one before */
    int32_t before, after;
};

/* A merge that could be done, in a heap: the lowest rank first, of these the leftmost. */
struct token_pair {
    int32_t rank, at; /* the left part */
    int32_t left, right, to;
};

struct tokenizer {
    const struct token_tables *tables;
    struct token_tables *owned; /* NULL: tokenizer_share's */
    struct token_cached *cache; /* [TOKEN_CACHE_SLOTS] */
    struct token_part *part;    /* of the word at hand */
    struct token_pair *heap;
    size_t part_space, heap_space, pairs;
    pcre2_match_data *match;
    pcre2_match_context *limits;
    pcre2_jit_stack *stack;
    struct token_buffer normal[2], late[2], prefixed, decoded;
    int32_t *ids; /* of the piece of text at hand */
    size_t ids_space;
    int64_t count;
    int plain; /* TOKENIZER_PLAIN */
};

/* token_merge.c: adds the tokens of a word to t->ids. */
void token_word(struct tokenizer *t, const char *word, int64_t bytes);
/* Between which characters no token of the model ever is; NULL: unknown. */
uint64_t *token_joints_new(const struct token_tables *t);
/* The same of a text without words: it is cut where no merge can be. */
void token_stretch(struct tokenizer *t, const char *text, int64_t bytes);

/*
 * token_normal.c: *text becomes what the steps make of it, in one of the buffers; begins: what
 * begins with it.
 */
enum token_begins { TOKEN_MIDDLE, TOKEN_SEGMENT, TOKEN_TEXT };

int token_normalize(struct tokenizer *t, const struct token_steps *steps,
                    struct token_buffer buffer[2], enum token_begins begins, const char **text,
                    int64_t *bytes, struct err *err);

/*
 * token_regex.c: the first match in text[at .. bytes): 1, 0: none; ERR_INPUT: it takes too many
 * steps.
 */
int token_regex_next(struct tokenizer *t, const struct token_regex *r, const char *text,
                     int64_t bytes, int64_t at, int64_t *from, int64_t *to, struct err *err);

/* token_find.c: added tokens in texts. */
struct token_found {
    const char *from, *to; /* with the white space that it takes */
    const char *next;      /* where the next one may begin */
    int32_t id;
};

/* NULL: there are none. */
struct token_finder *token_finder_new(const struct token_tables *t, int normalized);
void token_finder_free(struct token_finder *f);
/*
 * The next added token from p on in a text that begins at `begin`, of which the tokens up to
 * `done` are found.  0: there is none.
 */
int token_finder_next(const struct token_finder *f, const char *begin, const char *done,
                      const char *p, const char *end, int plain, struct token_found *found);

/* token_encode.c: the tokens of a text, into t->ids. */
int token_encode_text(struct tokenizer *t, const char *text, int64_t bytes,
                      enum token_begins begins, struct err *err);
/* token_each.c, after reading: what encoding needs. */
void token_tables_prepare(struct token_tables *t);
void token_tables_release(struct token_tables *t);
void token_state_prepare(struct tokenizer *t);
void token_state_release(struct tokenizer *t);

#endif
