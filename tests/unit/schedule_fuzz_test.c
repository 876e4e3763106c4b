/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reader of schedules under texts that are nearly right: the generators' own, with bytes,
 * words, numbers and lines changed.  The same cases every time, or others by
 *
 *     build/unit/schedule_fuzz_test CASES SEED
 *
 * `make fuzz` runs the same checks under libFuzzer (CONTRIBUTING.md).
 */
#include "schedule_fixture.h"

#include "../fuzz/schedule_fuzz.h"
#include "base/rng.h"

static const char *const shapes[] = {"1x1", "2x2", "[3,1,2]"};
enum { SHAPES = sizeof shapes / sizeof *shapes, TEXT_MAX = 1 << 15 };
enum { SEEDS = SHAPES * SCHEDULE_ALGOS * WHOLE };

struct text {
    char *at;
    size_t bytes;
};

struct fuzz {
    uint64_t seed, drawn, stream;
    struct text from[SEEDS]; /* owned */
    int count;
    char text[2 * TEXT_MAX]; /* the case */
    size_t bytes;
};

static uint64_t cases = 4000, seed = 1;

static size_t draw(struct fuzz *f, size_t below)
{
    return below ? (size_t)(rng_u64(f->seed, f->stream, f->drawn++) % below) : 0;
}

static void add_seed(struct fuzz *f, const char *shape_text, enum schedule_algo algo,
                     unsigned phases)
{
    struct layout l;
    struct schedule s;
    struct text *t = &f->from[f->count];

    shape(&l, shape_text);
    gen(&s, &l, algo, phases, 1 + f->count % 2, -1);
    FILE *out = open_memstream(&t->at, &t->bytes);
    schedule_print(&s, out);
    fclose(out);
    assert_true(t->bytes < TEXT_MAX);
    assert_int_equal(schedule_fuzz_case((const uint8_t *)t->at, t->bytes), FUZZ_PROVEN);
    f->count++;
    schedule_release(&s);
    layout_release(&l);
}

static void add_seeds(struct fuzz *f)
{
    for (int i = 0; i < SHAPES; i++)
        for (int algo = 0; algo < SCHEDULE_ALGOS; algo++)
            for (int p = 0; p < WHOLE; p++)
                add_seed(f, shapes[i], (enum schedule_algo)algo, all_phases[p]);
}

/* Puts words in the place of bytes from..to of the case; too long a case stays as it is. */
static void splice(struct fuzz *f, size_t from, size_t to, const char *words, size_t n)
{
    if (f->bytes - (to - from) + n > sizeof f->text)
        return;
    memmove(f->text + from + n, f->text + to, f->bytes - to);
    memcpy(f->text + from, words, n);
    f->bytes = f->bytes - (to - from) + n;
}

/* The line, or the word, around a byte of a text: from..to, its last '\n' or blank included. */
static void around(const char *text, size_t bytes, size_t at, int line, size_t *from,
                   size_t *to)
{
    const char *ends = line ? "\n" : " \n";

    *from = *to = at;
    while (*from > 0 && !strchr(ends, text[*from - 1]))
        --*from;
    while (*to < bytes && !strchr(ends, text[*to]))
        ++*to;
    *to += line && *to < bytes;
}

static void mutate_number(struct fuzz *f, size_t from, size_t to)
{
    static const char *const numbers[] = {
        "0",          "1",         "2",          "3",          "4",
        "5",          "7",         "-1",         "12",         "63",
        "64",         "1024",      "1025",       "999999",     "1e3",
        "1000000",    "1048576",   "2147483646", "2147483647", "4>5",
        "0>99",       "3>",        ">",          "copy",       "add",
        "4294967296", "end",       "rows",       "root",       "planes",
        "barrier",    "broadcast", "group",      "9e99",       "18446744073709551616"};
    const char *n = numbers[draw(f, sizeof numbers / sizeof *numbers)];

    splice(f, from, to, n, strlen(n));
}

static void mutate(struct fuzz *f)
{
    const struct text *other = &f->from[draw(f, (size_t)f->count)];
    size_t from, to, other_from, other_to, at = draw(f, f->bytes);
    char byte = (char)draw(f, 256), copy[TEXT_MAX];
    int line = draw(f, 2) == 0;

    around(f->text, f->bytes, at, line, &from, &to);
    around(other->at, other->bytes, draw(f, other->bytes), line, &other_from, &other_to);
    switch (draw(f, 8)) {
    case 0: /* any byte */
        if (f->bytes)
            f->text[at] = byte;
        break;
    case 1: /* a part is gone */
        splice(f, from, to, "", 0);
        break;
    case 2: /* a part comes twice */
        if (to - from <= sizeof copy) {
            memcpy(copy, f->text + from, to - from);
            splice(f, to, to, copy, to - from);
        }
        break;
    case 3: /* a part of another text comes in, or replaces one */
        splice(f, from, draw(f, 2) ? to : from, other->at + other_from, other_to - other_from);
        break;
    case 4:
        f->bytes = draw(f, 16) ? f->bytes : at;
        break;
    default:
        around(f->text, f->bytes, at, 0, &from, &to);
        mutate_number(f, from, to);
    }
}

static void mutations_are_read_or_refused(void **state)
{
    static struct fuzz f;
    int outcomes[3] = {0};

    (void)state;
    f.seed = seed;
    add_seeds(&f);
    for (f.stream = 0; f.stream < cases; f.stream++) {
        f.drawn = 0;
        const struct text *t = &f.from[draw(&f, (size_t)f.count)];
        memcpy(f.text, t->at, t->bytes);
        f.bytes = t->bytes;
        for (size_t n = 1 + draw(&f, 3); n; n--)
            mutate(&f);
        outcomes[schedule_fuzz_case((const uint8_t *)f.text, f.bytes)]++;
    }
    for (int i = 0; i < f.count; i++)
        free(f.from[i].at);
    /* Mutations that are all refused at the first line would test the first line. */
    for (int o = 0; o < 3; o++)
        if (outcomes[o] < (int)(cases / 50))
            fail_msg("%d refused, %d wrong, %d proven: too few", outcomes[0], outcomes[1],
                     outcomes[2]);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(mutations_are_read_or_refused)};

    if (argc > 1)
        cases = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        seed = strtoull(argv[2], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
