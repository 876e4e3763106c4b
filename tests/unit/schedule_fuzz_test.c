/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reader of schedules under texts that are nearly right: the generators' own, with bytes,
 * words, numbers and lines changed.  The same cases every time, or others by
 *
 *     build/unit/schedule_fuzz_test CASES SEED
 *
 * `make check-fuzz` runs the same checks under libFuzzer (CONTRIBUTING.md).
 */
#include "schedule_fixture.h"

#include "../fuzz/schedule_fuzz.h"
#include "mutate_fixture.h"

static const char *const shapes[] = {"1x1", "2x2", "[3,1,2]"};
enum { SHAPES = sizeof shapes / sizeof *shapes };
enum { SEEDS = SHAPES * SCHEDULE_ALGOS * WHOLE };

static const char *const words[] = {
    "0",    "1",       "2",       "3",          "4",          "5",    "7",
    "-1",   "12",      "63",      "64",         "1024",       "1025", "999999",
    "1e3",  "1000000", "1048576", "2147483646", "2147483647", "4>5",  "0>99",
    "3>",   ">",       "copy",    "add",        "4294967296", "end",  "rows",
    "root", "planes",  "barrier", "broadcast",  "group",      "9e99", "18446744073709551616"};

struct fuzz {
    struct mutate_text from[SEEDS]; /* owned */
    int count;
    struct mutate mutate;
};

static uint64_t cases = 4000, seed = 1;

static void add_seed(struct fuzz *f, const char *shape_text, enum schedule_algo algo,
                     unsigned phases)
{
    struct layout l;
    struct schedule s;
    struct mutate_text *t = &f->from[f->count];

    shape(&l, shape_text);
    gen(&s, &l, algo, phases, 1 + f->count % 2, -1);
    FILE *out = open_memstream(&t->at, &t->bytes);
    schedule_print(&s, out);
    fclose(out);
    assert_true(t->bytes < MUTATE_TEXT_MAX);
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

static void mutations_are_read_or_refused(void **state)
{
    static struct fuzz f;
    int outcomes[3] = {0};

    (void)state;
    add_seeds(&f);
    struct mutate *m = &f.mutate;
    *m = (struct mutate){.from = f.from,
                         .count = f.count,
                         .words = words,
                         .word_count = sizeof words / sizeof *words,
                         .ends = " \n",
                         .seed = seed};
    for (m->stream = 0; m->stream < cases; m->stream++) {
        mutate_case(m);
        outcomes[schedule_fuzz_case((const uint8_t *)m->text, m->bytes)]++;
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
