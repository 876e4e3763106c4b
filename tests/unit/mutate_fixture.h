/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MUTATE_FIXTURE_H
#define MUTATE_FIXTURE_H

/*
 * Texts that are nearly right: true ones, with bytes, words and lines changed, the same ones
 * for the same seed.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

enum { MUTATE_TEXT_MAX = 1 << 15 };

struct mutate_text {
    char *at; /* owned by whoever made it */
    size_t bytes;
};

struct mutate {
    const struct mutate_text *from; /* [count] the true texts */
    int count;
    const char *const *words; /* [word_count] what takes a word's place */
    size_t word_count;
    const char *ends; /* what stands between words, the line's end among it */
    uint64_t seed, stream, drawn;
    char text[2 * MUTATE_TEXT_MAX]; /* the case */
    size_t bytes;
};

static size_t mutate_draw(struct mutate *m, size_t below)
{
    return below ? (size_t)(rng_u64(m->seed, m->stream, m->drawn++) % below) : 0;
}

/* Puts words in the place of bytes from..to of the case; too long a case stays as it is. */
static void mutate_splice(struct mutate *m, size_t from, size_t to, const char *words, size_t n)
{
    if (m->bytes - (to - from) + n > sizeof m->text)
        return;
    memmove(m->text + from + n, m->text + to, m->bytes - to);
    memcpy(m->text + from, words, n);
    m->bytes = m->bytes - (to - from) + n;
}

/* The line, or the word, around a byte of a text: from..to; a line with its end. */
static void mutate_around(const struct mutate *m, const char *text, size_t bytes, size_t at,
                          int line, size_t *from, size_t *to)
{
    const char *ends = line ? "\n" : m->ends;

    *from = *to = at;
    while (*from > 0 && !strchr(ends, text[*from - 1]))
        --*from;
    while (*to < bytes && !strchr(ends, text[*to]))
        ++*to;
    *to += line && *to < bytes;
}

static void mutate_once(struct mutate *m)
{
    const struct mutate_text *other = &m->from[mutate_draw(m, (size_t)m->count)];
    size_t from, to, other_from, other_to, at = mutate_draw(m, m->bytes);
    char byte = (char)mutate_draw(m, 256), copy[MUTATE_TEXT_MAX];
    int line = mutate_draw(m, 2) == 0;

    mutate_around(m, m->text, m->bytes, at, line, &from, &to);
    mutate_around(m, other->at, other->bytes, mutate_draw(m, other->bytes), line, &other_from,
                  &other_to);
    switch (mutate_draw(m, 8)) {
    case 0: /* any byte */
        if (m->bytes)
            m->text[at] = byte;
        break;
    case 1: /* a part is gone */
        mutate_splice(m, from, to, "", 0);
        break;
    case 2: /* a part comes twice */
        if (to - from <= sizeof copy) {
            memcpy(copy, m->text + from, to - from);
            mutate_splice(m, to, to, copy, to - from);
        }
        break;
    case 3: /* a part of another text comes in, or replaces one */
        mutate_splice(m, from, mutate_draw(m, 2) ? to : from, other->at + other_from,
                      other_to - other_from);
        break;
    case 4:
        m->bytes = mutate_draw(m, 16) ? m->bytes : at;
        break;
    default: /* another word */
        mutate_around(m, m->text, m->bytes, at, 0, &from, &to);
        at = mutate_draw(m, m->word_count);
        mutate_splice(m, from, to, m->words[at], strlen(m->words[at]));
    }
}

/* Case number m->stream: one of the texts, changed in one to three places. */
static void mutate_case(struct mutate *m)
{
    m->drawn = 0;
    const struct mutate_text *t = &m->from[mutate_draw(m, (size_t)m->count)];
    memcpy(m->text, t->at, t->bytes);
    m->bytes = t->bytes;
    for (size_t n = 1 + mutate_draw(m, 3); n; n--)
        mutate_once(m);
}

#endif
