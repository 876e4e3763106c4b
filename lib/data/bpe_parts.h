/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DATA_BPE_PARTS_H
#define DATA_BPE_PARTS_H

/* Inside bpe: the tables of a vocabulary and what encoding needs beside them. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "data/bpe.h"

/* Words are cut here, so that one takes 64 MiB at most to encode. */
enum { BPE_WORD_MAX = 1 << 20 };

struct bpe_merge {
    int32_t left, right; /* left < 0: a free place */
    int32_t rank, to;
};

/* What was found for words so short: most words of a text are among few. */
enum { BPE_CACHE_SLOTS = 1 << 15, BPE_CACHE_BYTES = 16 };

struct bpe_cached {
    unsigned char bytes, count; /* 0: empty */
    char word[BPE_CACHE_BYTES];
    int32_t ids[BPE_CACHE_BYTES];
};

/* A part of a word: parts are linked in order, and go as they are merged. */
struct bpe_part {
    int32_t id; /* < 0: merged into the one before */
    int32_t before, behind;
};

/* A merge that could be done, in a heap: the lowest rank first, of these the leftmost. */
struct bpe_pair {
    int32_t rank, at; /* the left part */
    int32_t left, right, to;
};

struct bpe {
    char *bytes; /* of all tokens, one behind the other */
    int64_t *at; /* [count + 1]: token i is bytes[at[i]] .. bytes[at[i + 1]] */
    int32_t count;
    int32_t end;             /* <|endoftext|>, or -1 */
    int32_t byte[256];       /* the token of each byte */
    struct bpe_merge *merge; /* [mask + 1] hashed by left and right */
    uint32_t mask;
    struct bpe_cached *cache; /* [BPE_CACHE_SLOTS] */
    struct bpe_part *part;    /* of the word at hand */
    struct bpe_pair *heap;
    int32_t *ids;
    size_t part_room, heap_room, ids_room, pairs;
    pcre2_code *pattern;
    pcre2_match_data *match;
};

/* The merge of two tokens, or NULL. */
const struct bpe_merge *bpe_find_merge(const struct bpe *b, int32_t left, int32_t right);
/* bpe_encode.c: the pattern, and the memory that encoding needs. */
void bpe_words_init(struct bpe *b);
void bpe_words_release(struct bpe *b);

#endif
