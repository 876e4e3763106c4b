/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how a text becomes tokens: cut at <|endoftext|>, into UTF-8 and what is none, by
 * GPT-2's pattern into words, and within a word merged by rank.  PCRE2 knows which characters
 * are letters and numbers.
 */
#include "data/bpe_parts.h"

#include <assert.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "base/utf8.h"

/*
 * GPT-2's own, but for the spaces: those of Unicode (White_Space), spelt out.  PCRE2's \s has
 * U+180E as well, which no longer is one.
 */
#define SPACES                                                                                 \
    "\\t-\\r \\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}"            \
    "\\x{205f}\\x{3000}"
static const char pattern[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" SPACES
                              "\\p{L}\\p{N}]+|[" SPACES "]+(?![^" SPACES "])|[" SPACES "]+";

void bpe_words_init(struct bpe *b)
{
    int code = 0;
    PCRE2_SIZE at = 0;

    b->pattern = pcre2_compile((PCRE2_SPTR)pattern, sizeof pattern - 1,
                               PCRE2_UTF | PCRE2_ANCHORED, &code, &at, NULL);
    assert(b->pattern);
    /* Where code cannot be made (a kernel that forbids it), matching is slower and the same. */
    pcre2_jit_compile(b->pattern, PCRE2_JIT_COMPLETE);
    b->match = pcre2_match_data_create(1, NULL);
    assert(b->match);
    b->cache = mem_new(BPE_CACHE_SLOTS, sizeof *b->cache);
}

void bpe_words_release(struct bpe *b)
{
    pcre2_match_data_free(b->match);
    pcre2_code_free(b->pattern);
    mem_free(b->cache);
    mem_free(b->part);
    mem_free(b->heap);
    mem_free(b->ids);
}

static int pair_less(const struct bpe_pair *a, const struct bpe_pair *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

/* Into the heap: the merge of the part at `at` and the one behind it, if there is one. */
static void heap_push(struct bpe *b, int32_t at)
{
    int32_t behind = b->part[at].behind;

    if (behind < 0)
        return;
    const struct bpe_merge *m = bpe_find_merge(b, b->part[at].id, b->part[behind].id);
    if (!m)
        return;
    struct bpe_pair new = {m->rank, at, m->left, m->right, m->to};
    b->heap = mem_grow(b->heap, &b->heap_room, b->pairs + 1, sizeof *b->heap);
    size_t i = b->pairs++;
    for (; i > 0 && pair_less(&new, &b->heap[(i - 1) / 2]); i = (i - 1) / 2)
        b->heap[i] = b->heap[(i - 1) / 2];
    b->heap[i] = new;
}

static struct bpe_pair heap_pop(struct bpe *b)
{
    struct bpe_pair top = b->heap[0], last = b->heap[--b->pairs];
    size_t i = 0, child;

    while ((child = 2 * i + 1) < b->pairs) {
        if (child + 1 < b->pairs && pair_less(&b->heap[child + 1], &b->heap[child]))
            child++;
        if (!pair_less(&b->heap[child], &last))
            break;
        b->heap[i] = b->heap[child];
        i = child;
    }
    b->heap[i] = last;
    return top;
}

/* Merges by rank until nothing can be merged; the tokens are in b->ids, their count returned.
 */
static int64_t merge_word(struct bpe *b, const unsigned char *word, int32_t bytes)
{
    int64_t count = 0;

    b->part = mem_grow(b->part, &b->part_room, (size_t)bytes, sizeof *b->part);
    b->ids = mem_grow(b->ids, &b->ids_room, (size_t)bytes, sizeof *b->ids);
    b->pairs = 0;
    for (int32_t i = 0; i < bytes; i++)
        b->part[i] = (struct bpe_part){b->byte[word[i]], i - 1, i + 1 < bytes ? i + 1 : -1};
    for (int32_t i = 0; i < bytes; i++)
        heap_push(b, i);
    while (b->pairs) {
        struct bpe_pair p = heap_pop(b);
        struct bpe_part *left = &b->part[p.at];
        if (left->id != p.left || left->behind < 0 || b->part[left->behind].id != p.right)
            continue; /* one of them has been merged since */
        struct bpe_part *right = &b->part[left->behind];
        left->id = p.to;
        left->behind = right->behind;
        right->id = -1;
        if (left->behind >= 0)
            b->part[left->behind].before = p.at;
        heap_push(b, p.at);
        if (left->before >= 0)
            heap_push(b, left->before);
    }
    for (int32_t i = 0; i >= 0; i = b->part[i].behind)
        b->ids[count++] = b->part[i].id;
    return count;
}

static int put_word(struct bpe *b, const char *word, int32_t bytes, bpe_put *put, void *arg,
                    struct err *err)
{
    if (bytes > BPE_CACHE_BYTES) {
        int64_t count = merge_word(b, (const unsigned char *)word, bytes);
        return put(arg, b->ids, count, err);
    }
    uint64_t slot = XXH3_64bits(word, (size_t)bytes) % BPE_CACHE_SLOTS;
    struct bpe_cached *c = &b->cache[slot];
    if (c->bytes != bytes || memcmp(c->word, word, (size_t)bytes) != 0) {
        c->count = (unsigned char)merge_word(b, (const unsigned char *)word, bytes);
        c->bytes = (unsigned char)bytes;
        memcpy(c->word, word, (size_t)bytes);
        memcpy(c->ids, b->ids, c->count * sizeof *c->ids);
    }
    return put(arg, c->ids, c->count, err);
}

/* A word of any length, in pieces where it is too long. */
static int put_long(struct bpe *b, const char *word, int64_t bytes, bpe_put *put, void *arg,
                    struct err *err)
{
    while (bytes > 0) {
        int32_t n = bytes < BPE_WORD_MAX ? (int32_t)bytes : BPE_WORD_MAX;
        if (put_word(b, word, n, put, arg, err))
            return -1;
        word += n;
        bytes -= n;
    }
    return 0;
}

/* Bytes of the UTF-8 sequence at p, of `left` bytes, or 0. */
static int utf8_step(const char *p, int64_t left)
{
    char tail[5] = {0};

    if (left >= 4)
        return utf8_next(p, NULL);
    memcpy(tail, p, (size_t)left);
    int n = utf8_next(tail, NULL);
    return n <= left ? n : 0;
}

/* Bytes from p that are UTF-8, or (valid 0) from p that are none, up to the next change. */
static int64_t utf8_run(const char *p, int64_t bytes, int valid)
{
    int64_t n = 0;

    while (n < bytes) {
        int step = (unsigned char)p[n] < 0x80 ? 1 : utf8_step(p + n, bytes - n);
        if ((step > 0) != valid)
            break;
        n += valid ? step : 1;
    }
    return n;
}

static int put_words(struct bpe *b, const char *text, int64_t bytes, bpe_put *put, void *arg,
                     struct err *err)
{
    for (int64_t at = 0; at < bytes;) {
        int rc = pcre2_match(b->pattern, (PCRE2_SPTR)text, (PCRE2_SIZE)bytes, (PCRE2_SIZE)at,
                             PCRE2_NO_UTF_CHECK, b->match, NULL);
        const PCRE2_SIZE *range = pcre2_get_ovector_pointer(b->match);
        int64_t end = (int64_t)range[1];
        assert(rc > 0 && end > at && end <= bytes); /* every character begins some word */
        if (put_long(b, text + at, end - at, put, arg, err))
            return -1;
        at = end;
    }
    return 0;
}

/* Up to the next <|endoftext|>. */
static int put_stretch(struct bpe *b, const char *text, int64_t bytes, bpe_put *put, void *arg,
                       struct err *err)
{
    while (bytes > 0) {
        int64_t n = utf8_run(text, bytes, 1);
        if (put_words(b, text, n, put, arg, err))
            return -1;
        text += n;
        bytes -= n;
        n = utf8_run(text, bytes, 0);
        if (put_long(b, text, n, put, arg, err))
            return -1;
        text += n;
        bytes -= n;
    }
    return 0;
}

int bpe_each(struct bpe *b, const char *text, int64_t bytes, bpe_put *put, void *arg,
             struct err *err)
{
    const char *name = b->end < 0 ? NULL : b->bytes + b->at[b->end];
    size_t name_bytes = name ? (size_t)(b->at[b->end + 1] - b->at[b->end]) : 0;

    while (bytes > 0) {
        const char *end = name ? memmem(text, (size_t)bytes, name, name_bytes) : NULL;
        int64_t n = end ? end - text : bytes;
        if (put_stretch(b, text, n, put, arg, err) || (end && put(arg, &b->end, 1, err)))
            return -1;
        n += end ? (int64_t)name_bytes : 0;
        text += n;
        bytes -= n;
    }
    return 0;
}

struct list {
    int32_t *ids;
    int64_t count;
};

static int put_list(void *arg, const int32_t *ids, int64_t count, struct err *err)
{
    struct list *list = arg;

    (void)err;
    memcpy(list->ids + list->count, ids, (size_t)count * sizeof *ids);
    list->count += count;
    return 0;
}

int64_t bpe_encode(struct bpe *b, const char *text, int64_t bytes, int32_t *ids)
{
    struct list list = {ids, 0};
    struct err err;

    bpe_each(b, text, bytes, put_list, &list, &err);
    return list.count;
}
