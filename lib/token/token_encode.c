/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows the way of a text through a tokenizer:
 *
 *     text         Once <|x|>upon a time
 *     segments     Once |<|x|>|upon a time     added tokens, as the text spells them
 *     normalized   _Once |<|x|>|_upon_a_time   then added tokens that are normalized, too
 *     pieces       _Once |<|x|>|_upon|_a|_time pre-tokenizers, one after the other
 *     tokens       by token_merge.c
 *
 * What is no UTF-8 is a piece of its own, and is not normalized.
 */
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "token/token_parts.h"

/* What a part of the way comes back with. */
enum way {
    FAILED = -1,
    ENDED,  /* all is encoded */
    LANDED, /* up to the stop, where a piece begins */
    MISSED  /* no piece begins at the stop */
};

/*
 * A piece that begins inside another one of an earlier step: whether the earlier steps would
 * find the rest of theirs as they did, if the text began with the piece.  That is so between
 * the matches of a pattern, but not within a match.
 */
struct piece {
    const char *text;
    int64_t bytes;
    int sure;
};

static enum way run_steps(struct tokenizer *t, int level, struct piece p, struct err *err);

/* A piece that begins at the stop is not encoded. */
static enum way put_piece(struct tokenizer *t, int level, struct piece p, int sure,
                          struct err *err)
{
    if (t->stop && p.text >= t->stop)
        return p.text == t->stop && sure ? LANDED : MISSED;
    return p.bytes ? run_steps(t, level + 1, p, err) : ENDED;
}

/* ---- a pre-tokenizer ---- */

/* Pieces as they come; the last one may still grow. */
struct cutting {
    const struct token_step *step;
    int level, sure;
    struct piece last;
    int has_last, last_matches;
    struct err *err;
};

static enum way put_last(struct tokenizer *t, struct cutting *c)
{
    int removed = c->step->behavior == TOKEN_REMOVED && c->last_matches;
    int has = c->has_last;

    c->has_last = 0;
    return has && !removed ? put_piece(t, c->level, c->last, c->sure, c->err) : ENDED;
}

/* A match, or what lies between two. */
static enum way add_piece(struct tokenizer *t, struct cutting *c, const char *from,
                          const char *to, int matches)
{
    int gap = !matches, join = 0;

    matches ^= c->step->invert;
    if (c->step->behavior == TOKEN_CONTIGUOUS)
        join = matches == c->last_matches;
    else if (c->step->behavior == TOKEN_MERGED_WITH_PREVIOUS)
        join = matches && !c->last_matches;
    else if (c->step->behavior == TOKEN_MERGED_WITH_NEXT)
        join = !matches && c->last_matches;
    if (c->has_last && join) {
        c->last.bytes += to - from;
        c->last.sure = 0;
        c->last_matches = matches;
        return ENDED;
    }
    enum way way = put_last(t, c);
    c->last = (struct piece){from, to - from, c->sure && gap};
    c->last_matches = matches;
    c->has_last = 1;
    return way;
}

static enum way cut_piece(struct tokenizer *t, const struct token_step *s, int level,
                          struct piece p, struct err *err)
{
    struct cutting c = {.step = s, .level = level, .sure = p.sure, .err = err};
    int64_t at = 0, done = 0, from, to, last = -1;
    enum way way = ENDED;

    while (way == ENDED && at <= p.bytes) {
        int found = token_regex_next(t, &s->regex, p.text, p.bytes, at, &from, &to, err);
        if (found < 0)
            return FAILED;
        if (!found)
            break;
        if (from == to && to == last) { /* nothing, where a match has just ended */
            int n = 1;
            if (at < p.bytes)
                token_code_at(p.text + at, &n);
            at += n;
            continue;
        }
        if (done < from)
            way = add_piece(t, &c, p.text + done, p.text + from, 0);
        if (way == ENDED)
            way = add_piece(t, &c, p.text + from, p.text + to, 1);
        done = at = last = to;
    }
    if (way == ENDED && done < p.bytes)
        way = add_piece(t, &c, p.text + done, p.text + p.bytes, 0);
    return way == ENDED ? put_last(t, &c) : way;
}

static enum way run_steps(struct tokenizer *t, int level, struct piece p, struct err *err)
{
    const struct token_steps *steps = &t->tables->pre;

    if (level == steps->count)
        return token_stretch(t, p.text, p.bytes, p.sure) ? LANDED : ENDED;
    const struct token_step *s = &steps->step[level];
    if (s->kind == TOKEN_BYTE_LEVEL && s->add && *p.text != ' ') {
        t->prefixed.bytes = 0;
        token_buffer_add(&t->prefixed, " ", 1);
        token_buffer_add(&t->prefixed, p.text, p.bytes);
        p = (struct piece){t->prefixed.text, t->prefixed.bytes, 0};
    }
    if (s->behavior == TOKEN_WHOLE)
        return run_steps(t, level + 1, p, err);
    return cut_piece(t, s, level, p, err);
}

/* ---- segments ---- */

static void put_id(struct tokenizer *t, int32_t id)
{
    t->ids = mem_grow(t->ids, &t->ids_room, (size_t)t->count + 1, sizeof *t->ids);
    t->ids[t->count++] = id;
}

/* What comes after normalization: added tokens that are, and between them the words. */
static enum way put_normalized(struct tokenizer *t, const char *text, int64_t bytes,
                               enum token_begins begins, struct err *err)
{
    const struct token_tables *a = t->tables;
    const char *done = text, *p = text, *end = text + bytes;
    struct token_found f;
    enum way way = ENDED;

    for (int found = 1; found && way == ENDED; begins = TOKEN_SEGMENT) {
        found = a->find[1] && token_finder_next(a->find[1], text, done, p, end, t->plain, &f);
        const char *from = done, *to = found ? f.from : end;
        int64_t n = to - from;
        if (a->find[1] && n > 0 &&
            token_normalize(t, &a->late, t->late, begins, &from, &n, err))
            return FAILED;
        if (n > 0 && t->stop && from >= t->stop)
            return from == t->stop ? LANDED : MISSED;
        if (n > 0)
            way = run_steps(t, 0, (struct piece){from, n, 1}, err);
        if (!found || way != ENDED)
            continue;
        if (t->stop && f.from >= t->stop)
            return f.from == t->stop ? LANDED : MISSED;
        put_id(t, f.id);
        done = f.to > done ? f.to : done;
        p = f.next;
    }
    return way;
}

/* A part of a segment through its normalizers, added to t->whole. */
static int add_whole(struct tokenizer *t, const char *text, int64_t bytes,
                     enum token_begins begins, struct err *err)
{
    const struct token_tables *a = t->tables;

    if (token_normalize(t, &a->normal, t->normal, begins, &text, &bytes, err) ||
        (!a->find[1] && token_normalize(t, &a->late, t->late, begins, &text, &bytes, err)))
        return -1;
    token_buffer_add(&t->whole, text, bytes);
    return 0;
}

/* UTF-8 without added tokens that are not normalized; stop: in it, or NULL. */
static enum way put_text(struct tokenizer *t, const char *text, const char *end,
                         const char *stop, enum token_begins begins, struct err *err)
{
    const struct token_tables *a = t->tables;
    int64_t bytes = end - text, before;

    t->stop = stop;
    if (a->normal.count || (a->late.count && !a->find[1])) {
        t->whole.bytes = 0;
        token_buffer_add(&t->whole, "", 0); /* memory, though all may be removed */
        if (add_whole(t, text, (stop ? stop : end) - text, begins, err))
            return FAILED;
        before = t->whole.bytes;
        if (stop && add_whole(t, stop, end - stop, TOKEN_MIDDLE, err))
            return FAILED;
        text = t->whole.text;
        bytes = t->whole.bytes;
        t->stop = stop ? text + before : NULL;
    }
    enum way way = put_normalized(t, text, bytes, begins, err);
    return way == ENDED && t->stop ? MISSED : way;
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

/* The end of the bytes from p on that are UTF-8, or (valid 0) that are none. */
static const char *utf8_end(const char *p, const char *end, int valid)
{
    while (p < end) {
        uint64_t eight;
        if (valid && end - p >= 8 && (memcpy(&eight, p, 8), !(eight & 0x8080808080808080u))) {
            p += 8;
            continue;
        }
        int step = (unsigned char)*p < 0x80 ? 1 : utf8_step(p, end - p);
        if ((step > 0) != valid)
            break;
        p += valid ? step : 1;
    }
    return p;
}

static enum way put_segment(struct tokenizer *t, const char *p, const char *end,
                            const char *stop, enum token_begins begins, struct err *err)
{
    for (int valid = 1; p < end; valid = !valid, begins = TOKEN_MIDDLE) {
        const char *next = utf8_end(p, end, valid);
        enum way way = ENDED;
        if (p == next)
            continue;
        if (valid)
            way = put_text(t, p, next, stop && stop < next ? stop : NULL, begins, err);
        else if (stop && stop < next)
            way = MISSED;
        else
            token_word(t, p, next - p);
        if (way != ENDED)
            return way;
        p = next;
        if (p == stop)
            return LANDED;
    }
    return ENDED;
}

int token_encode_part(struct tokenizer *t, const char *text, int64_t from, int64_t cut,
                      int64_t end, struct err *err)
{
    const struct token_tables *a = t->tables;
    const char *done = text + from, *p = done, *stop = cut < end ? text + cut : NULL;
    enum token_begins begins = from ? TOKEN_MIDDLE : t->middle ? TOKEN_SEGMENT : TOKEN_TEXT;
    struct token_found f;

    token_state_prepare(t);
    t->count = 0;
    for (int found = 1; found; begins = TOKEN_SEGMENT) {
        found = a->find[0] &&
                token_finder_next(a->find[0], text, done, p, text + end, t->plain, &f);
        enum way way = put_segment(t, done, found ? f.from : text + end, stop, begins, err);
        if (way != ENDED)
            return way == LANDED ? 1 : way == MISSED ? 0 : -1;
        if (!found)
            break;
        if (stop && f.from >= stop)
            return f.from == stop;
        put_id(t, f.id);
        done = f.to > done ? f.to : done;
        p = f.next;
        /* What follows the token would be the middle of a segment to who begins there. */
        if (stop && done >= stop)
            return 0;
    }
    return stop == NULL;
}
