/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Encodes a text with a tokenizer:
 *
 *     text         Once <|x|>upon a time
 *     segments     Once |<|x|>|upon a time     added tokens, as spelled in the text
 *     normalized   _Once |<|x|>|_upon_a_time   then normalized added tokens
 *     pieces       _Once |<|x|>|_upon|_a|_time pre-tokenizers, one after the other
 *     tokens       by token_merge.c
 *
 * Bytes that are not UTF-8 form a separate piece and are not normalized.
 */
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "token/token_find.h"

struct piece {
    const char *text;
    int64_t bytes;
};

static int encode_run_steps(struct tokenizer *t, int level, struct piece p, struct err *err);

/* ---- a pre-tokenizer ---- */

/* Pieces in order; the last one may still grow. */
struct cutting {
    const struct token_step *step;
    int level;
    struct piece last;
    int has_last, last_matches;
    struct err *err;
};

static int put_last(struct tokenizer *t, struct cutting *c)
{
    int removed = c->step->behavior == TOKEN_REMOVED && c->last_matches;
    int has = c->has_last && !removed && c->last.bytes;

    c->has_last = 0;
    return has ? encode_run_steps(t, c->level + 1, c->last, c->err) : 0;
}

/* Adds a match, or the text between two matches. */
static int encode_add_piece(struct tokenizer *t, struct cutting *c, const char *from,
                            const char *to, int matches)
{
    int join = 0;

    matches ^= c->step->invert;
    if (c->step->behavior == TOKEN_CONTIGUOUS)
        join = matches == c->last_matches;
    else if (c->step->behavior == TOKEN_MERGED_WITH_PREVIOUS)
        join = matches && !c->last_matches;
    else if (c->step->behavior == TOKEN_MERGED_WITH_NEXT)
        join = !matches && c->last_matches;
    if (c->has_last && join) {
        c->last.bytes += to - from;
        c->last_matches = matches;
        return 0;
    }
    int rc = put_last(t, c);
    c->last = (struct piece){from, to - from};
    c->last_matches = matches;
    c->has_last = 1;
    return rc;
}

/* Whether the pieces of a step are words, of bytes. */
static int makes_words(const struct token_tables *a, int level)
{
    const struct token_step *next = &a->pre.step[level + 1];
    int left = a->pre.count - level - 1;

    return a->bytes && (!left || (left == 1 && next->behavior == TOKEN_WHOLE && !next->add));
}

/* Cuts at the matches of a known pattern, which cover the text. */
static int cut_known(struct tokenizer *t, const struct token_step *s, int level, struct piece p,
                     struct err *err)
{
    const char *end = p.text + p.bytes, *to[TOKEN_WORDS];
    int words = makes_words(t->tables, level), rc = 0, n;

    for (; rc == 0 && p.text < end; p.text = to[n - 1]) {
        const char *from = p.text;
        for (n = 0; n <= TOKEN_WORDS - TOKEN_BLOCK && from < end; from = to[n - 1]) {
            int found = token_pattern_ends(s->known, from, end, to + n);
            if (found) {
                n += found;
                continue;
            }
            /* A longer piece that is no word is for the following steps to cut. */
            const char *near =
                words && end - from > TOKEN_WORD_MAX ? from + TOKEN_WORD_MAX : end;
            to[n] = token_pattern_end(s->known, t->tables->class, from, near);
            if (to[n] >= near && near < end)
                to[n] = token_pattern_end(s->known, t->tables->class, from,
                                          token_window(from, end));
            n++;
        }
        if (words)
            token_words(t, p.text, to, n);
        from = p.text;
        for (int i = 0; !words && rc == 0 && i < n; from = to[i++])
            rc = encode_run_steps(t, level + 1, (struct piece){from, to[i] - from}, err);
    }
    return rc;
}

static int cut_piece(struct tokenizer *t, const struct token_step *s, int level, struct piece p,
                     struct err *err)
{
    struct cutting c = {.step = s, .level = level, .err = err};
    int64_t at = 0, done = 0, from, to, last = -1;
    int rc = 0;

    while (rc == 0 && at <= p.bytes) {
        int found = token_regex_next(t, &s->regex, p.text, p.bytes, at, &from, &to, err);
        if (found < 0)
            return -1;
        if (!found)
            break;
        if (from == to && to == last) { /* an empty match right after a match */
            int n = 1;
            if (at < p.bytes)
                token_code_at(p.text + at, &n);
            at += n;
            continue;
        }
        if (done < from)
            rc = encode_add_piece(t, &c, p.text + done, p.text + from, 0);
        if (rc == 0)
            rc = encode_add_piece(t, &c, p.text + from, p.text + to, 1);
        done = at = last = to;
    }
    if (rc == 0 && done < p.bytes)
        rc = encode_add_piece(t, &c, p.text + done, p.text + p.bytes, 0);
    return rc ? rc : put_last(t, &c);
}

static int encode_run_steps(struct tokenizer *t, int level, struct piece p, struct err *err)
{
    const struct token_steps *steps = &t->tables->pre;

    if (level == steps->count) {
        token_stretch(t, p.text, p.bytes);
        return 0;
    }
    const struct token_step *s = &steps->step[level];
    if (s->kind == TOKEN_BYTE_LEVEL && s->add && *p.text != ' ') {
        t->prefixed.bytes = 0;
        token_buffer_add(&t->prefixed, " ", 1);
        token_buffer_add(&t->prefixed, p.text, p.bytes);
        p = (struct piece){t->prefixed.text, t->prefixed.bytes};
    }
    if (s->behavior == TOKEN_WHOLE)
        return encode_run_steps(t, level + 1, p, err);
    return s->known && s->behavior == TOKEN_ISOLATED && !s->invert
               ? cut_known(t, s, level, p, err)
               : cut_piece(t, s, level, p, err);
}

/* ---- segments ---- */

void token_put_ids(struct tokenizer *t, const int32_t *ids, int count)
{
    t->ids = mem_grow(t->ids, &t->ids_space, (size_t)(t->count + count), sizeof *t->ids);
    for (int i = 0; i < count; i++)
        t->ids[t->count++] = ids[i];
}

/* Adds a normalized text: normalized added tokens, and the words between them. */
static int put_normalized(struct tokenizer *t, const char *text, int64_t bytes,
                          enum token_begins begins, struct err *err)
{
    const struct token_tables *a = t->tables;
    const char *done = text, *p = text, *end = text + bytes;
    struct token_found f;

    for (int found = 1; found; begins = TOKEN_SEGMENT) {
        found = a->find[1] && token_finder_next(a->find[1], text, done, p, end, t->plain, &f);
        const char *from = done, *to = found ? f.from : end;
        int64_t n = to - from;
        if (a->find[1] && n > 0 &&
            token_normalize(t, &a->late, t->late, begins, &from, &n, err))
            return -1;
        if (n > 0 && encode_run_steps(t, 0, (struct piece){from, n}, err))
            return -1;
        if (!found)
            break;
        token_put_ids(t, &f.id, 1);
        done = f.to > done ? f.to : done;
        p = f.next;
    }
    return 0;
}

/* Adds UTF-8 without unnormalized added tokens. */
static int encode_put_text(struct tokenizer *t, const char *text, int64_t bytes,
                           enum token_begins begins, struct err *err)
{
    const struct token_tables *a = t->tables;

    return token_normalize(t, &a->normal, t->normal, begins, &text, &bytes, err) ||
                   (!a->find[1] &&
                    token_normalize(t, &a->late, t->late, begins, &text, &bytes, err)) ||
                   put_normalized(t, text, bytes, begins, err)
               ? -1
               : 0;
}

/* Length of the UTF-8 sequence at p, where `left` bytes remain, or 0. */
static int utf8_step(const char *p, int64_t left)
{
    char tail[5] = {0};

    if (left >= 4)
        return utf8_next(p, NULL);
    memcpy(tail, p, (size_t)left);
    int n = utf8_next(tail, NULL);
    return n <= left ? n : 0;
}

/* The end of the valid UTF-8 from p on, or with valid 0 of the invalid bytes. */
static const char *utf8_end(const char *p, const char *end, int valid)
{
    while (p < end) {
        if (valid && token_is_ascii(p, end)) {
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

static int put_segment(struct tokenizer *t, const char *p, const char *end,
                       enum token_begins begins, struct err *err)
{
    for (int valid = 1; p < end; valid = !valid, begins = TOKEN_MIDDLE) {
        const char *next = utf8_end(p, end, valid);
        if (p == next)
            continue;
        if (!valid)
            token_word(t, p, next - p);
        else if (encode_put_text(t, p, next - p, begins, err))
            return -1;
        p = next;
    }
    return 0;
}

int token_encode_text(struct tokenizer *t, const char *text, int64_t bytes,
                      enum token_begins begins, struct err *err)
{
    const struct token_tables *a = t->tables;
    const char *done = text, *p = text, *end = text + bytes;
    struct token_found f;

    token_state_prepare(t);
    for (int found = 1; found; begins = TOKEN_SEGMENT) {
        found = a->find[0] && token_finder_next(a->find[0], text, done, p, end, t->plain, &f);
        if (put_segment(t, done, found ? f.from : end, begins, err))
            return -1;
        if (!found)
            break;
        token_put_ids(t, &f.id, 1);
        done = f.to > done ? f.to : done;
        p = f.next;
    }
    return 0;
}
