/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The readers of NAME_fuzz.c under texts that are nearly right: their seeds, with bytes, words
 * and lines changed.  The same cases every time, or others by
 *
 *     build/unit/NAME_fuzz_test CASES SEED
 *
 * `make check-fuzz` runs the same checks under libFuzzer (CONTRIBUTING.md).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <dirent.h>

#include "base/io.h"
#include "base/rng.h"
#include "reader_fuzz.h"

/* Of cuts: a seed's first bytes, and seeds. */
enum { TEXT_MAX = 1 << 15, CUT_BYTES = 4096, CUT_SEEDS = 16, OUTCOMES_MAX = 3, SETS_MAX = 8 };

struct mutate {
    const struct fuzz_set *set;
    struct fuzz_text *from; /* the seeds; owned, and what they point to */
    size_t count, space, words;
    uint64_t cases, seed, stream, drawn;
    char text[2 * TEXT_MAX]; /* the case */
    size_t bytes;
};

static struct mutate mutate;     /* of the set whose seeds were added last */
static uint64_t cases, seed = 1; /* cases: 0 for as many as the set says */

static size_t draw(struct mutate *m, size_t below)
{
    return below ? (size_t)(rng_u64(m->seed, m->stream, m->drawn++) % below) : 0;
}

/* Puts words in the place of bytes from..to of the case; too long a case stays as it is. */
static void splice(struct mutate *m, size_t from, size_t to, const char *words, size_t n)
{
    if (m->bytes - (to - from) + n > sizeof m->text)
        return;
    memmove(m->text + from + n, m->text + to, m->bytes - to);
    memcpy(m->text + from, words, n);
    m->bytes = m->bytes - (to - from) + n;
}

/* The line, or the word, around a byte of a text: from..to; a line with its end. */
static void around(const struct mutate *m, const char *text, size_t bytes, size_t at, int line,
                   size_t *from, size_t *to)
{
    const char *ends = line ? "\n" : m->set->ends;

    *from = *to = at;
    while (*from > 0 && !strchr(ends, text[*from - 1]))
        --*from;
    while (*to < bytes && !strchr(ends, text[*to]))
        ++*to;
    *to += line && *to < bytes;
}

static void mutate_once(struct mutate *m)
{
    const struct fuzz_text *other = &m->from[draw(m, m->count)];
    size_t from, to, other_from, other_to, at = draw(m, m->bytes);
    char byte = (char)draw(m, 256), copy[TEXT_MAX];
    int line = draw(m, 2) == 0;

    around(m, m->text, m->bytes, at, line, &from, &to);
    around(m, other->at, other->bytes, draw(m, other->bytes), line, &other_from, &other_to);
    switch (draw(m, 8)) {
    case 0: /* any byte */
        if (m->bytes)
            m->text[at] = byte;
        break;
    case 1: /* a part is gone */
        splice(m, from, to, "", 0);
        break;
    case 2: /* a part comes twice */
        if (to - from <= sizeof copy) {
            memcpy(copy, m->text + from, to - from);
            splice(m, to, to, copy, to - from);
        }
        break;
    case 3: /* a part of another text comes in, or replaces one */
        splice(m, from, draw(m, 2) ? to : from, other->at + other_from, other_to - other_from);
        break;
    case 4:
        m->bytes = draw(m, 16) ? m->bytes : at;
        break;
    default: /* another word */
        around(m, m->text, m->bytes, at, 0, &from, &to);
        at = draw(m, m->words);
        splice(m, from, to, m->set->words[at], strlen(m->set->words[at]));
    }
}

static int last_outcome(const struct fuzz_set *set)
{
    return set->outcomes ? set->outcomes - 1 : 1;
}

static void add(const void *text, size_t bytes)
{
    struct mutate *m = &mutate;

    assert_true(bytes < TEXT_MAX);
    m->from = mem_grow(m->from, &m->space, m->count + 1, sizeof *m->from);
    m->from[m->count++] = (struct fuzz_text){fuzz_copy(text, bytes), bytes};
    if (reader_fuzz_case(text, bytes) != last_outcome(m->set))
        fail_msg("a true text is refused: %.200s", m->from[m->count - 1].at);
}

static void seeds_are_taken(void **state)
{
    const struct fuzz_set *set = *state;

    for (size_t i = 0; i < mutate.count; i++)
        mem_free((char *)mutate.from[i].at);
    mem_free(mutate.from);
    mutate = (struct mutate){.set = set, .cases = cases ? cases : (uint64_t)set->cases};
    mutate.seed = seed;
    while (set->words[mutate.words])
        mutate.words++;
    fuzz_add_seeds(set, add);
}

/* Every beginning of the seeds, each with one byte changed besides. */
static void cuts_are_read_or_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < mutate.count && i < CUT_SEEDS; i++) {
        const struct fuzz_text *t = &mutate.from[i];
        uint8_t *copy = (uint8_t *)fuzz_copy(t->at, t->bytes);
        for (size_t n = 0; n < t->bytes && n < CUT_BYTES; n++) {
            reader_fuzz_case(copy, n);
            copy[n] ^= 1U << (n % 8);
            reader_fuzz_case(copy, n + 1);
            copy[n] ^= 1U << (n % 8);
        }
        mem_free(copy);
    }
}

/* Each case is one of the seeds, changed in one to three places. */
static void mutations_are_read_or_refused(void **state)
{
    struct mutate *m = &mutate;
    int outcomes[OUTCOMES_MAX] = {0};
    uint64_t least = m->cases / (uint64_t)(m->set->part ? m->set->part : 20);

    (void)state;
    for (m->stream = 0; m->stream < m->cases; m->stream++) {
        m->drawn = 0;
        const struct fuzz_text *t = &m->from[draw(m, m->count)];
        memcpy(m->text, t->at, t->bytes);
        m->bytes = t->bytes;
        for (size_t n = 1 + draw(m, 3); n; n--)
            mutate_once(m);
        outcomes[reader_fuzz_case((const uint8_t *)m->text, m->bytes)]++;
    }
    /* Mutations that are all refused at the first line would test the first line. */
    for (int o = 0; o <= last_outcome(m->set); o++)
        if ((uint64_t)outcomes[o] < least)
            fail_msg("%s: %d refused, %d and %d taken: too few", m->set->name, outcomes[0],
                     outcomes[1], outcomes[2]);
}

/* What libFuzzer begins from, and what it once found. */
static void corpus_is_read_or_refused(void **state)
{
    char folder[256], path[600];
    struct err err;

    (void)state;
    snprintf(folder, sizeof folder, "tests/fuzz/corpus/%s", mutate.set->name);
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        char *text = NULL;
        int64_t bytes = 0;
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (io_read_text(path, FUZZ_MAX, &text, &bytes, &err))
            fail_msg("%s", err.text);
        reader_fuzz_case((const uint8_t *)text, (size_t)bytes);
        mem_free(text);
    }
    if (d)
        closedir(d);
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[4 * SETS_MAX];
    size_t n = 0;

    if (argc > 1)
        cases = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        seed = strtoull(argv[2], NULL, 10);
    for (const struct fuzz_set *s = fuzz_sets; s->name; s++) {
        tests[n++] = (struct CMUnitTest)cmocka_unit_test_prestate(seeds_are_taken, (void *)s);
        tests[n++] = (struct CMUnitTest)cmocka_unit_test(corpus_is_read_or_refused);
        tests[n++] = (struct CMUnitTest)cmocka_unit_test(cuts_are_read_or_refused);
        tests[n++] = (struct CMUnitTest)cmocka_unit_test(mutations_are_read_or_refused);
    }
    /* cmocka_run_group_tests takes an array whose length the compiler knows. */
    return _cmocka_run_group_tests("readers", tests, n, NULL, NULL);
}
