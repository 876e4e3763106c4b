/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows the pieces of a vocabulary and their merges, and how JSON spells both:
 *
 *     {"!": 0, "\"": 1, ...}        and        ["t h", ...]    or    [["t", "h"], ...]
 *
 * They are most of a file, and read where they are; the rest of it becomes a tree.
 */
#include <assert.h>
#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

#include "base/jin.h"
#include "base/mem.h"
#include "token/token_parts.h"

/* ---- pieces ---- */

static const char *piece_text(const struct token_vocab *v, int32_t id)
{
    return v->text + v->piece[id].at;
}

/* The slot of a text: of its piece, or free. */
static int32_t *piece_slot(const struct token_vocab *v, const char *text, int64_t bytes)
{
    uint64_t i = XXH3_64bits(text, (size_t)bytes);

    for (;; i++) {
        int32_t *slot = &v->slot[i & v->slot_mask];
        if (*slot < 0 || (v->piece[*slot].bytes == bytes &&
                          memcmp(piece_text(v, *slot), text, (size_t)bytes) == 0))
            return slot;
    }
}

int32_t token_vocab_find(const struct token_vocab *v, const char *text, int64_t bytes)
{
    return v->slot ? *piece_slot(v, text, bytes) : -1;
}

/* At least twice as many slots as numbers of pieces. */
static void grow_slots(struct token_vocab *v)
{
    uint32_t slots = 1024;

    while (slots < 2 * (uint32_t)v->count)
        slots *= 2;
    if (v->slot && slots <= v->slot_mask + 1)
        return;
    mem_free(v->slot);
    v->slot = mem_new(slots, sizeof *v->slot);
    v->slot_mask = slots - 1;
    memset(v->slot, -1, slots * sizeof *v->slot);
    for (int32_t i = 0; i < v->count; i++)
        if (v->piece[i].kind != TOKENIZER_UNUSED)
            *piece_slot(v, piece_text(v, i), v->piece[i].bytes) = i;
}

int token_vocab_add(struct token_vocab *v, const char *text, int64_t bytes, int32_t id,
                    enum tokenizer_kind kind, int32_t *old)
{
    if (id < v->count && v->piece[id].kind != TOKENIZER_UNUSED) {
        *old = id;
        return 1;
    }
    if ((*old = token_vocab_find(v, text, bytes)) >= 0)
        return -1;
    if (id >= v->count) {
        v->piece = mem_grow(v->piece, &v->piece_room, (size_t)id + 1, sizeof *v->piece);
        memset(v->piece + v->count, 0, (size_t)(id + 1 - v->count) * sizeof *v->piece);
        v->count = id + 1;
    }
    v->text = mem_grow(v->text, &v->text_room, v->text_bytes + (size_t)bytes, 1);
    memcpy(v->text + v->text_bytes, text, (size_t)bytes);
    v->piece[id] = (struct token_piece){(int64_t)v->text_bytes, (int32_t)bytes, kind,
                                        kind != TOKENIZER_NORMAL};
    v->text_bytes += (size_t)bytes;
    grow_slots(v);
    *piece_slot(v, text, bytes) = id;
    return 0;
}

/* ---- merges ---- */

static uint32_t merge_place(const struct token_vocab *v, int32_t left, int32_t right)
{
    uint64_t x = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15u;
    uint32_t i = (uint32_t)(x >> 32) & v->mask;

    while (v->merge[i].left >= 0 && (v->merge[i].left != left || v->merge[i].right != right))
        i = (i + 1) & v->mask;
    return i;
}

const struct token_merge *token_vocab_pair(const struct token_vocab *v, int32_t left,
                                           int32_t right)
{
    const struct token_merge *m = &v->merge[merge_place(v, left, right)];

    return m->left < 0 ? NULL : m;
}

void token_vocab_merge(struct token_vocab *v, int32_t left, int32_t right, int32_t to)
{
    v->list = mem_grow(v->list, &v->list_room, (size_t)v->merges + 1, sizeof *v->list);
    v->list[v->merges] = (struct token_merge){left, right, v->merges, to};
    v->merges++;
}

int32_t token_vocab_index(struct token_vocab *v, int32_t *before)
{
    uint32_t places = 16;
    int32_t again = -1;

    while (places < 2 * (uint32_t)v->merges)
        places *= 2;
    v->mask = places - 1;
    v->merge = mem_new(places, sizeof *v->merge);
    for (uint32_t i = 0; i < places; i++)
        v->merge[i].left = -1;
    for (int32_t i = 0; i < v->merges; i++) {
        uint32_t at = merge_place(v, v->list[i].left, v->list[i].right);
        if (v->merge[at].left >= 0 && again < 0) {
            again = i;
            *before = v->merge[at].rank;
        }
        v->merge[at] = v->list[i];
    }
    return again;
}

/* ---- JSON ---- */

/* At j's place. */
static int fail_at(const struct jin *j, const char *name, const char *key, struct err *err,
                   const char *what)
{
    int line = 1;

    for (int64_t i = 0; i < j->at; i++)
        line += j->text[i] == '\n';
    return err_at(err, name, line, key, "%s%s", what, j->wrong ? j->wrong : "another value");
}

int token_vocab_read(struct token_vocab *v, const char *name, const char *text, int64_t bytes,
                     int64_t from, struct err *err)
{
    struct jin j = {.text = text, .bytes = bytes, .at = from};
    int count = 0, more, rc = 0;
    /* Numbers may have gaps, but not more than a text of this size is worth. */
    int64_t id, most = bytes / 2;

    if (jin_take(&j, '{'))
        return fail_at(&j, name, "vocab", err, "expected ");
    while (rc == 0 && (more = jin_item(&j, '}', &count)) != 0) {
        int32_t old;
        int named = more > 0 && jin_text(&j) == 0;
        if (!named || jin_take(&j, ':') || jin_whole(&j, &id)) {
            rc = fail_at(&j, name, named ? j.word : "vocab", err, "expected ");
        } else if (j.word_bytes == 0) {
            rc = err_at(err, name, 0, "vocab", "has an empty token, expected text");
        } else if (id >= most) {
            rc = err_at(err, name, 0, j.word,
                        "is token %" PRId64 ", expected a number below %" PRId64, id, most);
        } else {
            int bad =
                token_vocab_add(v, j.word, j.word_bytes, (int32_t)id, TOKENIZER_NORMAL, &old);
            if (bad > 0)
                rc = err_at(err, name, 0, j.word,
                            "is token %" PRId64 ", and so is '%.*s', expected one of them", id,
                            v->piece[old].bytes, piece_text(v, old));
            else if (bad < 0)
                rc = err_at(err, name, 0, j.word, "is there twice, expected once");
        }
    }
    jin_release(&j);
    return rc;
}

/* What a piece of a merge is, or -1. */
static int32_t merge_piece(const struct token_vocab *v, const char *name, int rank,
                           const char *text, int64_t bytes, struct err *err)
{
    int32_t id = token_vocab_find(v, text, bytes);

    if (id < 0)
        err_at(err, name, 0, "merges", "%d: '%.*s' is not in the vocabulary", rank,
               (int)(bytes < 99 ? bytes : 99), text);
    return id;
}

/* The two texts of a merge, one after the other in *both; *left bytes are the first. */
static int read_pair(struct jin *j, char **both, size_t *room, int64_t *left, int64_t *bytes)
{
    int list = jin_next(j) == '[';

    if ((list && jin_take(j, '[')) || jin_text(j))
        return -1;
    *both = mem_grow(*both, room, (size_t)j->word_bytes + 1, 1);
    memcpy(*both, j->word, (size_t)j->word_bytes);
    *left = *bytes = j->word_bytes;
    if (list) {
        if (jin_take(j, ',') || jin_text(j) || jin_take(j, ']'))
            return -1;
        *bytes += j->word_bytes;
        *both = mem_grow(*both, room, (size_t)*bytes + 1, 1);
        memcpy(*both + *left, j->word, (size_t)j->word_bytes);
    } else {
        char *gap = memchr(*both, ' ', (size_t)*bytes);
        if (!gap || memchr(gap + 1, ' ', (size_t)(*both + *bytes - gap - 1))) {
            j->wrong = "two tokens separated by a space";
            return -1;
        }
        *left = gap - *both;
        memmove(gap, gap + 1, (size_t)(*both + --*bytes - gap));
    }
    j->wrong = "two tokens";
    return *left > 0 && *left < *bytes ? 0 : -1;
}

static int read_merges(struct token_vocab *v, const char *name, const char *text, int64_t bytes,
                       int64_t from, struct err *err)
{
    struct jin j = {.text = text, .bytes = bytes, .at = from};
    int count = 0, more, rc = 0;
    int64_t left, both_bytes;
    char *both = NULL;
    size_t room = 0;

    if (jin_take(&j, '['))
        return fail_at(&j, name, "merges", err, "expected ");
    while (rc == 0 && (more = jin_item(&j, ']', &count)) != 0) {
        if (more < 0 || read_pair(&j, &both, &room, &left, &both_bytes)) {
            rc = fail_at(&j, name, "merges", err, "expected ");
            break;
        }
        int32_t a = merge_piece(v, name, v->merges, both, left, err);
        int32_t b =
            a < 0 ? -1 : merge_piece(v, name, v->merges, both + left, both_bytes - left, err);
        int32_t to = b < 0 ? -1 : merge_piece(v, name, v->merges, both, both_bytes, err);
        if (to < 0)
            rc = -1;
        else
            token_vocab_merge(v, a, b, to);
    }
    mem_free(both);
    jin_release(&j);
    return rc;
}

/* ---- the file ---- */

/* Values that are no part of the tree, and null there: "model.vocab" and "model.merges". */
struct span {
    int64_t from, to;
};

struct reading {
    const char *name, *text;
    int64_t bytes;
    struct span span[2];
    struct err *err;
};

static int fail_json(const struct reading *r, const struct jin *j)
{
    int line = 1;

    for (int64_t i = 0; i < j->at; i++)
        line += j->text[i] == '\n';
    return err_at(r->err, r->name, line, NULL, "is not JSON: expected %s", j->wrong);
}

/* An object whose values `take` reads, each from j's place on. */
static int read_object(struct reading *r, struct jin *j,
                       int (*take)(struct reading *, struct jin *))
{
    int count = 0, more;

    if (jin_take(j, '{'))
        return fail_json(r, j);
    while ((more = jin_item(j, '}', &count)) > 0) {
        if (jin_text(j) || jin_take(j, ':'))
            return fail_json(r, j);
        jin_next(j);
        if (take(r, j))
            return -1;
    }
    return more < 0 ? fail_json(r, j) : 0;
}

static int take_model(struct reading *r, struct jin *j)
{
    int which = strcmp(j->word, "vocab") == 0 ? 0 : strcmp(j->word, "merges") == 0 ? 1 : -1;
    int64_t from = j->at;
    char open = jin_next(j);

    /* What is of another kind stays, and the tree says so. */
    if (which >= 0 && open == (which ? '[' : '{') && !r->span[which].to)
        r->span[which].from = from;
    else
        which = -1;
    if (jin_skip(j))
        return fail_json(r, j);
    if (which >= 0)
        r->span[which].to = j->at;
    return 0;
}

static int take_top(struct reading *r, struct jin *j)
{
    if (strcmp(j->word, "model") == 0 && jin_next(j) == '{')
        return read_object(r, j, take_model);
    return jin_skip(j) ? fail_json(r, j) : 0;
}

/* The text without the spans, its lines where they were. */
static char *shorten(const struct reading *r, int64_t *bytes)
{
    char *out = mem_new((size_t)r->bytes + 16, 1), *to = out;
    int64_t at = 0;

    for (;;) {
        const struct span *next = NULL;
        for (int i = 0; i < 2; i++)
            if (r->span[i].to && r->span[i].from >= at &&
                (!next || r->span[i].from < next->from))
                next = &r->span[i];
        int64_t end = next ? next->from : r->bytes;
        memcpy(to, r->text + at, (size_t)(end - at));
        to += end - at;
        if (!next)
            break;
        memcpy(to, "null", 4);
        to += 4;
        for (at = end; at < next->to; at++)
            if (r->text[at] == '\n')
                *to++ = '\n';
    }
    *bytes = to - out;
    return out;
}

int token_vocab_read_file(struct token_vocab *v, struct tree *tree, const char *name,
                          const char *text, int64_t bytes, struct err *err)
{
    struct reading r = {.name = name, .text = text, .bytes = bytes, .err = err};
    struct jin j = {.text = text, .bytes = bytes};
    int rc = jin_next(&j) == '{' ? read_object(&r, &j, take_top) : 0;
    int64_t short_bytes = 0;

    jin_release(&j);
    if (rc)
        return -1;
    char *rest = shorten(&r, &short_bytes);
    rc = tree_parse_json(tree, name, 1, rest, short_bytes, err);
    mem_free(rest);
    if (rc)
        return -1;
    if ((r.span[0].to && token_vocab_read(v, name, text, bytes, r.span[0].from, err)) ||
        (r.span[1].to && read_merges(v, name, text, bytes, r.span[1].from, err)))
        return -1;
    return 0;
}

void token_vocab_release(struct token_vocab *v)
{
    mem_free(v->text);
    mem_free(v->piece);
    mem_free(v->slot);
    mem_free(v->merge);
    mem_free(v->list);
    *v = (struct token_vocab){0};
}
