/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Encodes a word: begins with its characters or bytes and merges the pair with the lowest rank,
 * the leftmost of equals, until no pair can be merged.
 */
#include <endian.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "token/token_parts.h"

/* Finds a piece of the model itself, not an added token. */
static int32_t model_piece(const struct token_tables *a, const char *text, int64_t bytes)
{
    int32_t id = token_vocab_find(&a->vocab, text, bytes);

    return id >= 0 && a->vocab.piece[id].added ? -1 : id;
}

/* ---- merges ---- */

enum { MERGE_FEW = 32 };

static int pair_less(const struct token_pair *a, const struct token_pair *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

/* Adds the merge of the part at `at` and the next part to the heap, if there is one. */
static void heap_push(struct tokenizer *t, int32_t at)
{
    int32_t after = t->part[at].after;

    if (after < 0)
        return;
    const struct token_merge *m =
        token_vocab_pair(&t->tables->vocab, t->part[at].id, t->part[after].id);
    if (!m)
        return;
    struct token_pair new = {m->rank, at, m->left, m->right, m->to};
    t->heap = mem_grow(t->heap, &t->heap_space, t->pairs + 1, sizeof *t->heap);
    size_t i = t->pairs++;
    for (; i > 0 && pair_less(&new, &t->heap[(i - 1) / 2]); i = (i - 1) / 2)
        t->heap[i] = t->heap[(i - 1) / 2];
    t->heap[i] = new;
}

static struct token_pair heap_pop(struct tokenizer *t)
{
    struct token_pair top = t->heap[0], last = t->heap[--t->pairs];
    size_t i = 0, child;

    while ((child = 2 * i + 1) < t->pairs) {
        if (child + 1 < t->pairs && pair_less(&t->heap[child + 1], &t->heap[child]))
            child++;
        if (!pair_less(&t->heap[child], &last))
            break;
        t->heap[i] = t->heap[child];
        i = child;
    }
    t->heap[i] = last;
    return top;
}

/* A merge of two known tokens; rank INT_MAX: there is none. */
struct token_join {
    int32_t rank, to;
};

static inline struct token_join join_of(const struct token_vocab *v, int32_t left,
                                        int32_t right)
{
    const struct token_merge *m = token_vocab_pair(v, left, right);

    return m ? (struct token_join){m->rank, m->to} : (struct token_join){INT_MAX, -1};
}

/*
 * Merges ids[0 .. n) in place; returns their new number.  For few ids.  bytes: the word, if
 * these are the ids of its bytes.
 */
static int32_t merge_few(const struct token_tables *a, const unsigned char *bytes, int32_t *ids,
                         int32_t n)
{
    struct token_join join[MERGE_FEW]; /* of ids i and i + 1 */

    for (int32_t i = 0; i < n - 1; i++)
        join[i] = bytes ? a->byte_merges[bytes[i] << 8 | bytes[i + 1]]
                        : join_of(&a->vocab, ids[i], ids[i + 1]);
    for (;;) {
        int32_t at = -1, rank = INT_MAX;
        for (int32_t i = 0; i < n - 1; i++) {
            at = join[i].rank < rank ? i : at;
            rank = join[i].rank < rank ? join[i].rank : rank;
        }
        if (at < 0)
            return n;
        ids[at] = join[at].to;
        n--;
        memmove(ids + at + 1, ids + at + 2, (size_t)(n - at - 1) * sizeof *ids);
        memmove(join + at, join + at + 1, (size_t)(n - at - 1) * sizeof *join);
        if (at < n - 1)
            join[at] = join_of(&a->vocab, ids[at], ids[at + 1]);
        if (at > 0)
            join[at - 1] = join_of(&a->vocab, ids[at - 1], ids[at]);
    }
}

static int32_t merge_ids(struct tokenizer *t, const char *word, int32_t *ids, int32_t n)
{
    int32_t count = 0;

    if (n <= MERGE_FEW)
        return merge_few(t->tables, t->tables->byte_merges ? (const unsigned char *)word : NULL,
                         ids, n);
    t->part = mem_grow(t->part, &t->part_space, (size_t)n, sizeof *t->part);
    t->pairs = 0;
    for (int32_t i = 0; i < n; i++)
        t->part[i] = (struct token_part){ids[i], i - 1, i + 1 < n ? i + 1 : -1};
    for (int32_t i = 0; i < n; i++)
        heap_push(t, i);
    while (t->pairs) {
        struct token_pair p = heap_pop(t);
        struct token_part *left = &t->part[p.at];
        if (left->id != p.left || left->after < 0 || t->part[left->after].id != p.right)
            continue; /* one of the two has been merged since */
        struct token_part *right = &t->part[left->after];
        left->id = p.to;
        left->after = right->after;
        right->id = -1;
        if (left->after >= 0)
            t->part[left->after].before = p.at;
        heap_push(t, p.at);
        if (left->before >= 0)
            heap_push(t, left->before);
    }
    for (int32_t i = n > 0 ? 0 : -1; i >= 0; i = t->part[i].after)
        ids[count++] = t->part[i].id;
    return count;
}

/* ---- words ---- */

/* Adds the tokens of an unknown character: its bytes, or the unknown token later. */
static int32_t *put_unknown(const struct token_tables *a, const char *p, int bytes,
                            int *unknown, int32_t *to)
{
    const struct token_model *m = &a->model;
    int known = m->byte_fallback && !a->bytes;

    for (int i = 0; i < bytes; i++)
        known &= m->byte[(unsigned char)p[i]] >= 0;
    if (known) {
        for (int i = 0; i < bytes; i++)
            *to++ = m->byte[(unsigned char)p[i]];
        return to;
    }
    if (m->unk < 0)
        return to;
    /* The pending unknown token is written before the next known character, or at the end. */
    if (*unknown && !m->fuse_unk)
        *to++ = m->unk;
    *unknown = 1;
    return to;
}

/* Writes the tokens of a word's characters, at most one for each byte. */
static int32_t first_ids(const struct token_tables *a, const char *word, int32_t bytes,
                         int32_t *ids)
{
    int32_t *to = ids;
    int unknown = 0, step = 1;

    for (int32_t at = 0; at < bytes; at += step) {
        int32_t id;
        if (a->bytes) {
            id = a->model.byte[(unsigned char)word[at]];
        } else {
            char tail[5] = {0};
            memcpy(tail, word + at, (size_t)(bytes - at < 4 ? bytes - at : 4));
            step = utf8_next(tail, NULL);
            id = step ? model_piece(a, tail, step) : -1;
            step = step ? step : 1;
        }
        if (id < 0) {
            to = put_unknown(a, word + at, step, &unknown, to);
            continue;
        }
        if (unknown)
            *to++ = a->model.unk;
        unknown = 0;
        *to++ = id;
    }
    if (unknown)
        *to++ = a->model.unk;
    return (int32_t)(to - ids);
}

/* The token of the whole word, for models that then ignore merges; or -1. */
static int32_t whole_word(const struct token_tables *a, const char *word, int32_t bytes)
{
    char text[256];
    int n = 0;

    if (!a->bytes)
        return model_piece(a, word, bytes);
    if (bytes > (int32_t)sizeof text / 2) {
        char *large = mem_new(2 * (size_t)bytes, 1);
        for (int32_t i = 0; i < bytes; i++)
            n += token_spell_byte(a, (unsigned char)word[i], large + n);
        int32_t id = model_piece(a, large, n);
        mem_free(large);
        return id;
    }
    for (int32_t i = 0; i < bytes; i++)
        n += token_spell_byte(a, (unsigned char)word[i], text + n);
    return model_piece(a, text, n);
}

/* ids has space for one token for each byte of the word. */
static int32_t merge_word(struct tokenizer *t, const char *word, int32_t bytes, int32_t *ids)
{
    const struct token_tables *a = t->tables;
    int32_t whole = a->model.ignore_merges ? whole_word(a, word, bytes) : -1;

    if (whole >= 0) {
        ids[0] = whole;
        return 1;
    }
    return merge_ids(t, word, ids, first_ids(a, word, bytes, ids));
}

/* ---- the cache ---- */

/*
 * Cache of results for short words: texts consist mostly of few distinct words.  Two entries
 * share a cache line; a word may be in either of two, the last one that was added in the first.
 * Words that do not fit an entry have a record {count, ids, bytes of the word} in a ring.
 */
enum { CACHE_BITS = 17, CACHE_BYTES = 255, CACHE_IDS = 3, CACHE_RING = 1 << 19 };

struct cached {
    uint64_t word[2]; /* its bytes, or a hash if there are more than 15; the length on top */
    int32_t count;    /* 0: ids begins with the number of values that preceded the record */
    int32_t ids[CACHE_IDS];
};

struct token_cache {
    struct cached line[1 << CACHE_BITS][2];
    int64_t written; /* number of values in all, the last CACHE_RING of which are in the ring */
    int32_t ring[CACHE_RING];
};

struct token_cache *token_cache_new(void)
{
    void *cache = NULL;
    struct err err;

    (void)mem_buffer(sizeof(struct token_cache), "a cache of words", &cache, &err);
    return memset(mem_have(cache, "a cache of words"), 0, offsetof(struct token_cache, ring));
}

/* A word in the form of the cache, and its entries there. */
struct key {
    uint64_t word[2];
    struct cached *line;
};

/* A word of at most CACHE_BYTES bytes, in a text that ends at `end`. */
static inline struct key key_of(const struct tokenizer *t, const char *word, size_t n,
                                const char *end)
{
    static const uint64_t masks[][2] = {{UINT64_MAX, UINT64_MAX}, {0, 0}};
    uint64_t part[2] = {0}, mask[2];
    struct key key;

    memcpy(mask, (const char *)masks + 16 - (n < 16 ? n : 15), sizeof mask);
    if (n < 16 && end - word < 16)
        memcpy(part, word, n);
    else
        memcpy(part, word, sizeof part);
    if (n >= 16)
        part[0] = XXH3_64bits(word, n);
    key.word[0] = le64toh(part[0] & mask[0]);
    key.word[1] = le64toh(part[1] & mask[1]) | (uint64_t)n << 56;
    uint64_t hash = (key.word[0] ^ key.word[1] * 0xc2b2ae3d27d4eb4fu) * 0x9e3779b97f4a7c15u;
    key.line = t->cache->line[hash >> (64 - CACHE_BITS)]; /* the best bits of a product */
    __builtin_prefetch(key.line);
    return key;
}

/* The record of an entry; NULL: overwritten, or of another word. */
static const int32_t *cached_record(const struct token_cache *cache, const struct cached *c,
                                    const char *word, size_t n)
{
    int64_t at;

    memcpy(&at, c->ids, sizeof at);
    const int32_t *record = &cache->ring[at % CACHE_RING];
    if (cache->written - at > CACHE_RING || (n >= 16 && memcmp(record + 1 + *record, word, n)))
        return NULL;
    return record;
}

static void add_cached(struct token_cache *cache, const struct key *key, const char *word,
                       size_t n, const int32_t *ids, int32_t count)
{
    struct cached *c = key->line;
    int64_t need = 1 + count + (int64_t)(n / sizeof *ids) + 1, at = cache->written;

    c[1] = c[0];
    *c = (struct cached){.word = {key->word[0], key->word[1]}};
    if (n < 16 && count > 0 && count <= CACHE_IDS) {
        c->count = count;
        memcpy(c->ids, ids, (size_t)count * sizeof *ids);
        return;
    }
    if (at % CACHE_RING + need > CACHE_RING) /* records are not split */
        at += CACHE_RING - at % CACHE_RING;
    int32_t *record = &cache->ring[at % CACHE_RING];
    *record = count;
    memcpy(record + 1, ids, (size_t)count * sizeof *ids);
    memcpy(record + 1 + count, word, n);
    memcpy(c->ids, &at, sizeof at);
    cache->written = at + need;
}

/* t->ids has space for CACHE_IDS tokens, and for each byte of the word. */
static inline void put_short(struct tokenizer *t, const char *word, size_t n,
                             const struct key *key)
{
    int32_t *to = t->ids + t->count;
    const int32_t *record;

    for (const struct cached *c = key->line; c < key->line + 2; c++) {
        if (c->word[0] != key->word[0] || c->word[1] != key->word[1])
            continue;
        if (c->count) {
            memcpy(to, c->ids, sizeof c->ids);
            t->count += c->count;
            return;
        }
        if ((record = cached_record(t->cache, c, word, n))) {
            memcpy(to, record + 1, (size_t)*record * sizeof *to);
            t->count += *record;
            return;
        }
    }
    int32_t count = merge_word(t, word, (int32_t)n, to);
    t->count += count;
    add_cached(t->cache, key, word, n, to, count);
}

/* Makes space for the tokens of words of so many bytes. */
static inline void grow_ids(struct tokenizer *t, int64_t bytes)
{
    size_t need = (size_t)(t->count + bytes + CACHE_IDS);

    if (need > t->ids_space)
        t->ids = mem_grow(t->ids, &t->ids_space, need, sizeof *t->ids);
}

void token_word(struct tokenizer *t, const char *word, int64_t bytes)
{
    while (bytes > 0) {
        int64_t n = bytes;
        if (n > TOKEN_WORD_MAX && !t->tables->bytes)
            n = token_code_before(word, word + TOKEN_WORD_MAX + 1) - word;
        if (n > TOKEN_WORD_MAX || n == 0) /* bytes, or invalid UTF-8 */
            n = TOKEN_WORD_MAX;
        grow_ids(t, n);
        if (n <= CACHE_BYTES) {
            struct key key = key_of(t, word, (size_t)n, word + bytes);
            put_short(t, word, (size_t)n, &key);
        } else {
            t->count += merge_word(t, word, (int32_t)n, t->ids + t->count);
        }
        word += n;
        bytes -= n;
    }
}

/* Fetches the entries of the cache from memory together. */
void token_words(struct tokenizer *t, const char *text, const char *const *to, int n)
{
    struct key key[TOKEN_WORDS];
    const char *from = text;
    int64_t bytes = 0;

    for (int i = 0; i < n; from = to[i++]) {
        if (to[i] - from > CACHE_BYTES)
            continue;
        key[i] = key_of(t, from, (size_t)(to[i] - from), to[n - 1]);
        bytes += to[i] - from;
    }
    grow_ids(t, bytes);
    for (int i = 0; i < n; text = to[i++]) {
        if (to[i] - text > CACHE_BYTES) {
            token_word(t, text, to[i] - text);
            grow_ids(t, bytes);
            continue;
        }
        put_short(t, text, (size_t)(to[i] - text), &key[i]);
    }
}

struct token_join *token_byte_merges_new(const struct token_tables *a)
{
    const int32_t *byte = a->model.byte;
    int known = a->bytes;

    for (int b = 0; b < 256; b++)
        known &= byte[b] >= 0;
    struct token_join *merges = known ? mem_new(1 << 16, sizeof *merges) : NULL;
    for (int i = 0; known && i < 1 << 16; i++)
        merges[i] = join_of(&a->vocab, byte[i >> 8], byte[i & 0xff]);
    return merges;
}

/* ---- texts without words ---- */

/*
 * A bit, indexed by a hash, for each pair of adjacent characters inside a token made by a
 * merge.  Between a pair without a bit no merge is ever made, so both sides of the text can be
 * encoded separately.  A hash collision only prevents a cut.
 */
enum { JOINT_BITS = 20 };

static uint32_t merge_joint_of(uint32_t left, uint32_t right)
{
    uint64_t hash = ((uint64_t)left << 21 ^ right) * 0x9e3779b97f4a7c15u;

    return (uint32_t)(hash >> (64 - JOINT_BITS));
}

/* Whether merges join byte-fallback tokens or unknown characters, which the text does not
   show. */
static int merges_others(const struct token_tables *a)
{
    const struct token_vocab *v = &a->vocab;
    char *other = mem_new((size_t)v->count, 1);
    int found = 0;

    for (int b = 0; b < 256; b++)
        if (a->model.byte[b] >= 0)
            other[a->model.byte[b]] = 1;
    if (a->model.unk >= 0)
        other[a->model.unk] = 1;
    for (int32_t i = 0; i < v->merges; i++)
        found |= other[v->list[i].left] | other[v->list[i].right];
    mem_free(other);
    return found;
}

uint64_t *token_joints_new(const struct token_tables *a)
{
    const struct token_vocab *v = &a->vocab;
    const struct token_model *m = &a->model;
    int n;

    /* If unknown characters are dropped or fused, their neighbours become adjacent. */
    if (a->bytes || m->ignore_merges || merges_others(a) ||
        !(m->all_bytes || (m->unk >= 0 && !m->fuse_unk && !m->byte_fallback)))
        return NULL;
    uint64_t *joints = mem_new(1u << (JOINT_BITS - 6), sizeof *joints);
    for (int32_t i = 0; i < v->merges; i++) {
        const struct token_piece *p = &v->piece[v->list[i].to];
        const char *at = v->text + p->at, *end = at + p->bytes;
        uint32_t left = token_code_at(at, &n);
        for (at += n; at < end; at += n) {
            uint32_t right = token_code_at(at, &n), bit = merge_joint_of(left, right);
            joints[bit >> 6] |= UINT64_C(1) << (bit & 63);
            left = right;
        }
    }
    return joints;
}

void token_stretch(struct tokenizer *t, const char *text, int64_t bytes)
{
    const uint64_t *joints = t->tables->joints;
    const char *end = text + bytes, *from = text, *p = text;
    uint32_t left = 0;
    int n;

    for (; joints && p < end; p += n) {
        uint32_t right = token_code_at(p, &n), bit = merge_joint_of(left, right);
        if (p > from && !(joints[bit >> 6] >> (bit & 63) & 1)) {
            token_word(t, from, p - from);
            from = p;
        }
        left = right;
    }
    token_word(t, from, end - from);
}
