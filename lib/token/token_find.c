/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds added tokens in a text: the leftmost, of these the longest; then strips white space
 * around them.
 */
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "token/token_find.h"

struct node { /* of a tree of bytes: children are linked */
    int32_t child, next;
    int32_t added; /* index in token_tables.added of the token that ends here; -1: none */
    unsigned char byte;
};

struct token_finder {
    const struct token_tables *tables;
    struct node *node; /* [nodes], root first */
    size_t space;
    int32_t nodes;
    uint64_t begins[1024]; /* a bit for each pair of bytes that begins a token */
    int first;             /* the byte that begins all tokens; -1: there are several */
};

static int32_t child_of(const struct token_finder *f, int32_t at, unsigned char byte)
{
    for (at = f->node[at].child; at >= 0; at = f->node[at].next)
        if (f->node[at].byte == byte)
            break;
    return at;
}

static int32_t find_add_node(struct token_finder *f, int32_t parent, unsigned char byte)
{
    f->node = mem_grow(f->node, &f->space, (size_t)f->nodes + 1, sizeof *f->node);
    f->node[f->nodes] = (struct node){-1, parent < 0 ? -1 : f->node[parent].child, -1, byte};
    if (parent >= 0)
        f->node[parent].child = f->nodes;
    return f->nodes++;
}

static void add_token(struct token_finder *f, int32_t added, const char *text, int64_t bytes)
{
    int32_t at = 0;
    int first = (unsigned char)*text;

    f->first = f->nodes == 1 || f->first == first ? first : -1;
    for (int64_t i = 0; i < bytes; i++) {
        int32_t next = child_of(f, at, (unsigned char)text[i]);
        at = next >= 0 ? next : find_add_node(f, at, (unsigned char)text[i]);
    }
    if (f->node[at].added < 0) /* two tokens may be equal after normalization */
        f->node[at].added = added;
    for (unsigned second = 0; bytes == 1 && second < 256; second++) {
        unsigned both = (unsigned char)text[0] << 8 | second;
        f->begins[both >> 6] |= UINT64_C(1) << (both & 63);
    }
    if (bytes > 1) {
        unsigned both = (unsigned)(unsigned char)text[0] << 8 | (unsigned char)text[1];
        f->begins[both >> 6] |= UINT64_C(1) << (both & 63);
    }
}

struct token_finder *token_finder_new(const struct token_tables *t, int normalized)
{
    struct token_finder *f = mem_new(1, sizeof *f);
    struct tokenizer scratch = {.tables = t};
    struct err err;

    f->tables = t;
    find_add_node(f, -1, 0);
    for (int32_t i = 0; i < t->added_count; i++) {
        const struct token_piece *p = &t->vocab.piece[t->added[i].id];
        const char *text = t->vocab.text + p->at;
        int64_t bytes = p->bytes;
        if (!t->added[i].normalized != !normalized)
            continue;
        /* If normalization needs too many steps, the token is searched for as spelled. */
        if (t->added[i].normalized == 1 && token_normalize(&scratch, &t->normal, scratch.normal,
                                                           TOKEN_TEXT, &text, &bytes, &err)) {
            text = t->vocab.text + p->at;
            bytes = p->bytes;
        }
        if (bytes)
            add_token(f, i, text, bytes);
    }
    token_state_release(&scratch);
    if (f->nodes > 1)
        return f;
    token_finder_free(f);
    return NULL;
}

void token_finder_free(struct token_finder *f)
{
    if (!f)
        return;
    mem_free(f->node);
    mem_free(f);
}

/* The longest token that begins at p; NULL: none. */
static const struct token_added *match_at(const struct token_finder *f, const char *p,
                                          const char *end, const char **to)
{
    const struct token_added *best = NULL;
    int32_t at = 0;

    while (p < end && (at = child_of(f, at, (unsigned char)*p)) >= 0) {
        p++;
        if (f->node[at].added >= 0) {
            best = &f->tables->added[f->node[at].added];
            *to = p;
        }
    }
    return best;
}

/* The character at p; U+FFFD for an invalid byte. */
static uint32_t code_close_to(const char *p, const char *end)
{
    char tail[5] = {0};
    uint32_t code = 0;

    memcpy(tail, p, (size_t)(end - p < 4 ? end - p : 4));
    return utf8_next(tail, &code) ? code : 0xfffd;
}

static int is_alone(const char *begin, const char *from, const char *to, const char *end)
{
    if (from > begin && token_is_word(code_close_to(token_code_before(begin, from), from)))
        return 0;
    return to == end || !token_is_word(code_close_to(to, end));
}

int token_finder_next(const struct token_finder *f, const char *begin, const char *done,
                      const char *p, const char *end, int plain, struct token_found *found)
{
    const char *to = NULL;

    for (; p < end; p++) {
        if (f->first >= 0 && !(p = memchr(p, f->first, (size_t)(end - p))))
            break;
        unsigned both =
            (unsigned)(unsigned char)p[0] << 8 | (p + 1 < end ? (unsigned char)p[1] : 0);
        if (!(f->begins[both >> 6] >> (both & 63) & 1))
            continue;
        const struct token_added *a = match_at(f, p, end, &to);
        if (!a)
            continue;
        if ((plain && a->special) || (a->single_word && !is_alone(begin, p, to, end))) {
            p = to - 1;
            continue;
        }
        /* Skips a token inside white space that the previous token took, unless it strips white
           space itself. */
        *found = (struct token_found){p < done && a->lstrip ? done : p, to, to, a->id};
        while (a->lstrip && found->from > done) {
            const char *last = token_code_before(done, found->from);
            if (!token_is_space(code_close_to(last, found->from)))
                break;
            found->from = last;
        }
        while (a->rstrip && found->to < end && token_is_space(code_close_to(found->to, end)))
            found->to += (unsigned char)*found->to < 0x80 ? 1 : utf8_next(found->to, NULL);
        if (found->from >= found->to) {
            p = to - 1;
            continue;
        }
        return 1;
    }
    return 0;
}
