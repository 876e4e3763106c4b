/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOKEN_PARTS_H
#define TOKEN_PARTS_H

/* Internal to token/: declares a tokenizer's tables and a thread's state. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "value/value_tree.h"
#include "token/token_words.h"
#include "token/token.h"

/*
 * Patterns are matched in a window of this many bytes from the beginning of a word, and longer
 * words are cut here, so encoding a word takes at most 64 MiB.
 */
enum { TOKEN_WORD_MAX = 1 << 20 };
/* Limit on the steps of a match: an alternative may backtrack over each byte of the longest
   word. */
enum { TOKEN_STEPS_MAX = 4 * TOKEN_WORD_MAX };

/* ---- the vocabulary: token_vocab.c ---- */

struct token_piece {
    int64_t at; /* offset in vocab.text */
    int32_t bytes;
    enum tokenizer_kind kind;
    int added; /* an added token: words do not produce it */
};

struct token_merge {
    int32_t left, right; /* left < 0: a free slot */
    int32_t rank, to;
};

struct token_vocab {
    char *text; /* all pieces, one after the other */
    size_t text_space, text_bytes;
    struct token_piece *piece; /* [count] */
    size_t piece_space;
    int32_t count;
    struct token_slot *slot; /* [slot_mask + 1] hash table of pieces by text */
    uint32_t slot_mask;
    struct token_merge *merge; /* [mask + 1] hash table by left and right */
    uint32_t mask;
    struct token_merge *list; /* [merges] sorted by rank */
    size_t list_space;
    int32_t merges;
    char *both; /* scratch: the text of a merge */
    size_t both_space;
};

/* Adds a piece.  -1: the piece has another number already; 1: the number has a piece, *old. */
int token_vocab_add(struct token_vocab *v, const char *text, int64_t bytes, int32_t id,
                    enum tokenizer_kind kind, int32_t *old);
int32_t token_vocab_find(const struct token_vocab *v, const char *text, int64_t bytes);
/* Adds a merge; lower ranks are applied first, among equal ones the leftmost in the text. */
void token_vocab_merge(struct token_vocab *v, int32_t left, int32_t right, int32_t to,
                       int32_t rank);
/* Adds "LEFT RIGHT", a merge of the next rank; errors give the reason without file and line. */
int token_vocab_join_text(struct token_vocab *v, const char *text, size_t bytes,
                          struct err *err);
/* Call after all merges are added.  Of several merges of a pair the last one counts. */
void token_vocab_index(struct token_vocab *v);
const struct token_merge *token_vocab_pair(const struct token_vocab *v, int32_t left,
                                           int32_t right);
/* Reads {"TOKEN": NUMBER, ...}; the second function, called after it, a list of merges. */
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
 * Compiles a regular expression in Oniguruma's syntax, or a literal text.  Errors name the
 * unsupported feature without file and line.
 */
int token_regex_compile(struct token_regex *r, const char *pattern, int literal,
                        struct err *err);
void token_regex_release(struct token_regex *r);

/* ---- steps of a tokenizer ---- */

enum token_step_kind {
    TOKEN_SEQUENCE, /* a list of steps, in the file only */
    /* normalizers; REPLACE is also a decoder */
    TOKEN_NFC,
    TOKEN_NFD,
    TOKEN_NFKC,
    TOKEN_NFKD,
    TOKEN_LOWERCASE,
    TOKEN_PREPEND, /* adds `to` in front */
    TOKEN_REPLACE, /* replaces `from`, or regex, by `to` */
    TOKEN_STRIP,   /* left, right: whether; in a decoder the number of `from` to remove */
    /* pre-tokenizers; BYTE_LEVEL and METASPACE are also decoders */
    TOKEN_BYTE_LEVEL, /* add: a space in front; finally characters represent bytes */
    TOKEN_SPLIT,      /* uses from or regex; behavior, invert */
    TOKEN_METASPACE,  /* to: the replacement of a space; uses add, behavior */
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
    const struct token_pattern *known; /* NULL: the pattern is none of these */
    char *from, *to;                   /* owned; NULL: none */
    struct token_regex regex;          /* code NULL: none */
};

struct token_steps {
    struct token_step *step; /* [count] */
    size_t space;
    int count;
};

/* An added token.  normalized: 0, 1 or TOKEN_AS_SPELLED: the text is normalized, the token is
   not. */
enum { TOKEN_AS_SPELLED = 2 };
struct token_added {
    int32_t id;
    int special, lstrip, rstrip, single_word, normalized;
};

struct token_model {
    int byte_fallback, fuse_unk, ignore_merges;
    int all_bytes; /* every byte has a token */
    int32_t unk;   /* the unknown token, -1: none */
    /* Token of the byte's character, or with byte fallback of <0x00> ...; -1: none */
    int32_t byte[256];
};

enum { TOKEN_CODES = 256 + 68 };

struct token_finder;

/* Tables shared by threads; read-only once they are open. */
struct token_tables {
    struct token_vocab vocab;
    struct token_model model;
    struct token_steps normal, pre, decode;
    struct token_added *added; /* [added_count] */
    int added_count;
    int32_t *prefix, *suffix; /* from the post-processor */
    int prefix_count, suffix_count;
    int has_decoder;
    /* Character of a byte in byte-level vocabularies, and the inverse; -1: none */
    uint16_t code_of[256];
    int16_t byte_of[TOKEN_CODES];
    int bytes; /* the model's characters are bytes */
    int32_t begin, end;
    enum tokenizer_words words;
    /* Set by token_tables_prepare: */
    struct token_steps late; /* text changes of the first pre-tokenizer, as normalizers */
    /* Finders of added tokens before and after normalization; NULL: none */
    struct token_finder *find[2];
    uint64_t *joints;
    /* [256 * 256] merges of two bytes; NULL: some have no token */
    struct token_join *byte_merges;
    unsigned char class[TOKEN_CLASSES]; /* if the pre-tokenizers have a known pattern */
    char *template;                     /* the folder's chat template, owned; NULL: none */
    int cuttable;                       /* texts may be encoded in parts: see token_each.c */
};

/* Reads a tokenizer.json; null keys leave tables unchanged.  The caller releases them. */
int token_json_read(struct token_tables *t, const char *name, const char *text, int64_t bytes,
                    struct err *err);
/*
 * Reads a tokenizer.model.  config: tokenizer_config.json, or NULL; its `legacy` and
 * add_prefix_space determine the handling of spaces.
 */
int token_spm_read(struct token_tables *t, const char *name, const char *text, int64_t bytes,
                   const struct tree_node *config, struct err *err);
void token_steps_release(struct token_steps *s);

/* Writes a byte as byte-level vocabularies spell it: 1 or 2 bytes of UTF-8. */
int token_spell_byte(const struct token_tables *t, unsigned char byte, char *to);
/* Converts such spellings back to at most `bytes` bytes; -1: there are other characters. */
int64_t token_bytes_of(const struct token_tables *t, const char *text, int64_t bytes, char *to);

/* ---- state of a thread ---- */

struct token_buffer {
    char *text;
    size_t space;
    int64_t bytes;
};

void token_buffer_add(struct token_buffer *b, const char *text, int64_t bytes);

struct token_cache;

/* A part of a word; parts are linked in order, and removed when they are merged. */
struct token_part {
    int32_t id; /* < 0: merged into the previous part */
    int32_t before, after;
};

/* A possible merge, in a heap: the lowest rank first, among equal ranks the leftmost. */
struct token_pair {
    int32_t rank, at; /* at: index of the left part */
    int32_t left, right, to;
};

struct tokenizer {
    const struct token_tables *tables;
    struct token_tables *owned; /* NULL: owned by another tokenizer */
    struct token_cache *cache;  /* of results for short words */
    struct token_part *part;    /* parts of the current word */
    struct token_pair *heap;
    size_t part_space, heap_space, pairs;
    pcre2_match_data *match;
    pcre2_match_context *limits;
    pcre2_jit_stack *stack;
    struct token_buffer normal[2], late[2], prefixed, decoded;
    int32_t *ids; /* [count] tokens of the text so far */
    size_t ids_space;
    int64_t count;
    int plain; /* TOKENIZER_PLAIN is set */
};

/* token_merge.c: adds the tokens of a word to t->ids. */
struct token_cache *token_cache_new(void); /* mem_free */
void token_word(struct tokenizer *t, const char *word, int64_t bytes);
/* The same for at most TOKEN_WORDS words in a row, which end at to[]. */
enum { TOKEN_WORDS = 128 };
void token_words(struct tokenizer *t, const char *text, const char *const *to, int n);
/* Merges of two bytes, [256 * 256]; NULL: characters are not bytes, or some have no token. */
struct token_join *token_byte_merges_new(const struct token_tables *t);
/* Character pairs inside tokens: between other pairs no token of the model reaches across.
   NULL: unknown. */
uint64_t *token_joints_new(const struct token_tables *t);
/* Adds the tokens of a text that is not split into words; cuts it where no merge is
   possible. */
void token_stretch(struct tokenizer *t, const char *text, int64_t bytes);

/*
 * token_normalize (token_normal.c) applies normalizer steps to *text; the result lies in one of
 * the buffers, or is the text itself if nothing changes.  begins: whether the text begins a
 * whole text, a segment, or neither.
 */
enum token_begins { TOKEN_MIDDLE, TOKEN_SEGMENT, TOKEN_TEXT };

int token_normalize(struct tokenizer *t, const struct token_steps *steps,
                    struct token_buffer buffer[2], enum token_begins begins, const char **text,
                    int64_t *bytes, struct err *err);

/* The end of the window in which patterns are matched (token_regex.c). */
const char *token_window(const char *p, const char *end);
/*
 * token_regex_next (token_regex.c) finds the first match in text[at .. bytes): 1, 0: none;
 * ERR_INPUT: too many steps.
 */
int token_regex_next(struct tokenizer *t, const struct token_regex *r, const char *text,
                     int64_t bytes, int64_t at, int64_t *from, int64_t *to, struct err *err);

/* token_encode.c: appends tokens, and those of a text, to t->ids. */
void token_put_ids(struct tokenizer *t, const int32_t *ids, int count);
int token_encode_text(struct tokenizer *t, const char *text, int64_t bytes,
                      enum token_begins begins, struct err *err);
/* token_each.c: builds the data for encoding, after the tables are read. */
void token_tables_prepare(struct token_tables *t);
void token_tables_release(struct token_tables *t);
void token_state_prepare(struct tokenizer *t);
void token_state_release(struct tokenizer *t);

#endif
