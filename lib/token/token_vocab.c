/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keeps the pieces of a vocabulary and their merges, and reads both from JSON:
 *
 *     {"!": 0, "\"": 1, ...}        and        ["t h", ...]    or    [["t", "h"], ...]
 */
#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "token/token_parts.h"

/* ---- pieces ---- */

struct token_slot {
    int32_t id; /* -1: free */
    uint32_t hash;
};

static const char *piece_text(const struct token_vocab *v, int32_t id)
{
    return v->text + v->piece[id].at;
}

/* The slot of a text: its piece's, or a free one, for which it sets the hash. */
static struct token_slot *piece_slot(const struct token_vocab *v, const char *text,
                                     int64_t bytes, uint32_t *hash)
{
    uint64_t i = XXH3_64bits(text, (size_t)bytes);

    for (*hash = (uint32_t)(i >> 32);; i++) {
        struct token_slot *slot = &v->slot[i & v->slot_mask];
        if (slot->id < 0 || (slot->hash == *hash && v->piece[slot->id].bytes == bytes &&
                             memcmp(piece_text(v, slot->id), text, (size_t)bytes) == 0))
            return slot;
    }
}

static void set_slot(struct token_vocab *v, const char *text, int64_t bytes, int32_t id)
{
    uint32_t hash;
    struct token_slot *slot = piece_slot(v, text, bytes, &hash);

    *slot = (struct token_slot){id, hash};
}

int32_t token_vocab_find(const struct token_vocab *v, const char *text, int64_t bytes)
{
    uint32_t hash;

    return v->slot ? piece_slot(v, text, bytes, &hash)->id : -1;
}

/* Keeps at least twice as many slots as numbers of pieces. */
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
    memset(v->slot, -1, slots * sizeof *v->slot); /* ids of -1 */
    for (int32_t i = 0; i < v->count; i++)
        if (v->piece[i].kind != TOKENIZER_UNUSED)
            set_slot(v, piece_text(v, i), v->piece[i].bytes, i);
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
        v->piece = mem_grow(v->piece, &v->piece_space, (size_t)id + 1, sizeof *v->piece);
        memset(v->piece + v->count, 0, (size_t)(id + 1 - v->count) * sizeof *v->piece);
        v->count = id + 1;
    }
    v->text = mem_grow(v->text, &v->text_space, v->text_bytes + (size_t)bytes, 1);
    memcpy(v->text + v->text_bytes, text, (size_t)bytes);
    v->piece[id] = (struct token_piece){(int64_t)v->text_bytes, (int32_t)bytes, kind,
                                        kind != TOKENIZER_NORMAL};
    v->text_bytes += (size_t)bytes;
    grow_slots(v);
    set_slot(v, text, bytes, id);
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

void token_vocab_merge(struct token_vocab *v, int32_t left, int32_t right, int32_t to,
                       int32_t rank)
{
    v->list = mem_grow(v->list, &v->list_space, (size_t)v->merges + 1, sizeof *v->list);
    v->list[v->merges++] = (struct token_merge){left, right, rank, to};
}

void token_vocab_index(struct token_vocab *v)
{
    uint32_t places = 16;
    void *merge = NULL;
    struct err err;

    while (places < 2 * (uint32_t)v->merges)
        places *= 2;
    v->mask = places - 1;
    (void)mem_buffer((int64_t)places * (int64_t)sizeof *v->merge, "merges", &merge, &err);
    v->merge = mem_have(merge, "merges");
    for (uint32_t i = 0; i < places; i++)
        v->merge[i].left = -1;
    for (int32_t i = 0; i < v->merges; i++)
        v->merge[merge_place(v, v->list[i].left, v->list[i].right)] = v->list[i];
}

/* ---- files ---- */

int token_vocab_read(struct token_vocab *v, const struct tree *tree, const struct tree_node *n,
                     struct err *err)
{
    /* Numbers may have gaps, but the tables must stay in proportion to the number of tokens. */
    int64_t id = 0, most = 4 * (int64_t)n->items + 1024;
    int32_t old;

    if (n->kind != TREE_MAP || !n->items)
        return tree_fail(tree, n, NULL, err, "has no tokens, expected an object");
    for (const struct tree_node *c = n->child; c; c = c->next) {
        if (!c->key[0])
            return tree_fail(tree, n, NULL, err, "has an empty token, expected text");
        if (c->kind != TREE_SCALAR)
            return tree_fail(tree, c, NULL, err, "is not a number, expected a token's");
        if (tree_i64(tree, c, 0, most, &id, err))
            return -1;
        int bad = token_vocab_add(v, c->key, (int64_t)strlen(c->key), (int32_t)id,
                                  TOKENIZER_NORMAL, &old);
        if (bad > 0)
            return tree_fail(tree, c, NULL, err,
                             "is token %" PRId64 ", and so is '%.*s', expected one of them", id,
                             v->piece[old].bytes, piece_text(v, old));
        if (bad < 0)
            return tree_fail(tree, c, NULL, err, "is there twice, expected once");
    }
    return 0;
}

static int add_merge(struct token_vocab *v, const char *left, size_t left_bytes,
                     const char *right, size_t right_bytes, struct err *err)
{
    size_t bytes = left_bytes + right_bytes;

    v->both = mem_grow(v->both, &v->both_space, bytes + 1, 1);
    memcpy(v->both, left, left_bytes);
    memcpy(v->both + left_bytes, right, right_bytes);
    const char *text[] = {v->both, v->both + left_bytes, v->both};
    const size_t length[] = {left_bytes, right_bytes, bytes};
    int32_t id[3];
    for (int i = 0; i < 3; i++)
        if ((id[i] = token_vocab_find(v, text[i], (int64_t)length[i])) < 0)
            return err_set(err, ERR_INPUT, "'%.*s' is not in the vocabulary",
                           (int)(length[i] < 99 ? length[i] : 99), text[i]);
    token_vocab_merge(v, id[0], id[1], id[2], v->merges);
    return 0;
}

int token_vocab_join_text(struct token_vocab *v, const char *text, size_t bytes,
                          struct err *err)
{
    const char *gap = memchr(text, ' ', bytes);
    size_t left = gap ? (size_t)(gap - text) : bytes, right = gap ? bytes - left - 1 : 0;

    if (!left || !right || memchr(gap + 1, ' ', right))
        return err_set(err, ERR_INPUT,
                       "is not a merge, expected two tokens separated by a space");
    return add_merge(v, text, left, gap + 1, right, err);
}

int token_vocab_read_merges(struct token_vocab *v, const struct tree *tree,
                            const struct tree_node *n, struct err *err)
{
    struct err why;

    if (tree_list(tree, n, 0, INT32_MAX, err))
        return -1;
    for (const struct tree_node *c = n->child; c; c = c->next) {
        const char *left = "", *right = "";
        int pair = c->kind == TREE_LIST && c->items == 2;
        if (pair ? tree_text(tree, c->child, 1, SIZE_MAX, &left, err) ||
                       tree_text(tree, c->last, 1, SIZE_MAX, &right, err)
                 : tree_text(tree, c, 1, SIZE_MAX, &left, err))
            return -1;
        if (pair ? add_merge(v, left, strlen(left), right, strlen(right), &why)
                 : token_vocab_join_text(v, left, strlen(left), &why))
            return tree_fail(tree, c, NULL, err, "%s", why.text);
    }
    return 0;
}

void token_vocab_release(struct token_vocab *v)
{
    mem_free(v->text);
    mem_free(v->piece);
    mem_free(v->slot);
    mem_free(v->merge);
    mem_free(v->list);
    mem_free(v->both);
    *v = (struct token_vocab){0};
}
