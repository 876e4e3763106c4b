/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the verifier against wrong rows: every one-field mutation of a row, and every row left
 * out, must be refused; and the text of schedules.
 */
#include "unit.h"

#include "schedule_fixture.h"
#include "words_fixture.h"

/* A second opinion on a mutant that passes: an add that takes another way to the same sum is
 * right.  Rank r contributes 8^r, so that a sum tells how often each rank is in it. */
static int adds_up(const struct schedule *s)
{
    int n = s->groups.ranks, right = 1, slots = s->chunks * (1 + s->planes);
    uint64_t *v = mem_new((size_t)n * (size_t)slots, sizeof *v), all = 0;

    for (int r = 0; r < n; r++)
        all += (uint64_t)1 << 3 * r;
    for (int c = 0; c < s->chunks; c++)
        for (int r = 0; r < n; r++) {
            int owner = s->phases == SCHEDULE_BROADCAST ? s->root : s->holder[c / s->subchunks];
            v[r * slots + c] = s->phases & SCHEDULE_REDUCE_INSIDE ? (uint64_t)1 << 3 * r
                               : owner == r                       ? all
                                                                  : 0;
        }
    for (int64_t i = 0; i < s->rows; i++) {
        const struct schedule_row *row = &s->row[i];
        uint64_t *to = &v[row->dst * slots + row->into];
        uint64_t from = v[row->src * slots + row->chunk];
        *to = row->op == SCHEDULE_ADD ? *to + from : from;
    }
    for (int c = 0; c < s->chunks; c++)
        for (int r = 0; r < n; r++)
            if (s->phases != SCHEDULE_REDUCE_SCATTER || s->holder[c / s->subchunks] == r)
                right = right && v[r * slots + c] == all;
    mem_free(v);
    return right;
}

/* The row moves behind those of the next step, and into that step; returns its new place. */
static int64_t delay(struct schedule *s, int64_t at)
{
    struct schedule_row row = s->row[at];
    int64_t to = at;

    while (to + 1 < s->rows && s->row[to + 1].step == row.step)
        to++;
    if (to + 1 < s->rows)
        for (int next = s->row[to + 1].step; to + 1 < s->rows && s->row[to + 1].step == next;)
            to++;
    memmove(s->row + at, s->row + at + 1, (size_t)(to - at) * sizeof row);
    row.step = to > at ? s->row[to - 1].step : s->steps;
    s->row[to] = row;
    return to;
}

/* Changes one row in one field, or two that belong together; returns where the row is then. */
static int64_t mutate(struct schedule *s, int64_t at, int field)
{
    struct schedule_row *row = &s->row[at];
    int slots = s->chunks * (1 + s->planes);
    int *const fields[] = {&row->src, &row->dst, &row->chunk, &row->into};
    const int below[] = {s->groups.ranks, s->groups.ranks, slots, slots};

    if (field < 4)
        *fields[field] = (*fields[field] + 1) % below[field];
    if (field == 4) { /* another chunk, in the same planes */
        row->chunk += (row->chunk + 1) % s->chunks ? 1 : 1 - s->chunks;
        row->into += (row->into + 1) % s->chunks ? 1 : 1 - s->chunks;
    }
    if (field == 5 || field == 6) /* from, or into, another plane */
        *fields[field - 3] = (*fields[field - 3] + s->chunks) % slots;
    if (field == 7)
        row->op = row->op == SCHEDULE_ADD ? SCHEDULE_COPY : SCHEDULE_ADD;
    if (field == 9)
        row->step = s->steps;
    return field == 8 ? delay(s, at) : at;
}

enum { FIELDS = 10 };

/* All mutants of a schedule are refused, or right; returns how many were refused. */
static int64_t refused(struct schedule *s, const char *what)
{
    struct schedule_row *was = mem_new((size_t)s->rows, sizeof *was);
    int64_t refused = 0;

    memcpy(was, s->row, (size_t)s->rows * sizeof *was);
    for (int64_t at = 0; at < s->rows; at++)
        for (int field = 0; field < FIELDS; field++) {
            err = (struct err){0};
            int64_t now = mutate(s, at, field);
            int same = memcmp(was, s->row, (size_t)s->rows * sizeof *was) == 0;
            int passes = schedule_verify(s, &err) == 0;
            if (passes && !adds_up(s))
                fail_msg("%s %s phases %u: row %d (now %d), field %d changed, not refused",
                         what, schedule_algo_name(s->algo), s->phases, (int)at, (int)now,
                         field);
            /* Another source, destination or time may be another way to the same sums. */
            if (passes && !same && field > 1 && field != 8)
                fail_msg("%s %s phases %u: row %d, field %d changed, passes", what,
                         schedule_algo_name(s->algo), s->phases, (int)at, field);
            refused += !passes;
            memcpy(s->row, was, (size_t)s->rows * sizeof *was);
        }
    mem_free(was);
    return refused;
}

static void try_mutants(struct schedule_spec *spec, const char *text)
{
    struct schedule s;

    gen_spec(&s, spec, -1);
    assert_true(refused(&s, text) >= s.rows * 4);
    schedule_release(&s);
}

TEST(test_mutants)
{
    static const char *const shapes[] = {"2x2", "[3,2]", "1x4", "4x1", "3x1"};

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        each_spec(shapes[i], WHOLE, 1, try_mutants);
}

/* A row left out is a contribution or a part that does not arrive. */
static void leave_out(struct schedule_spec *spec, const char *text)
{
    struct schedule s;

    (void)text;
    gen_spec(&s, spec, -1);
    s.rows--;
    struct schedule_row out = s.row[s.rows]; /* the last first: then each changes places */
    for (int64_t gone = s.rows; gone >= 0; gone--) {
        assert_int_equal(schedule_verify(&s, &err), -1);
        struct schedule_row before = gone ? s.row[gone - 1] : out;
        if (gone)
            s.row[gone - 1] = out;
        out = before;
    }
    schedule_release(&s);
}

TEST(test_missing_row)
{
    each_spec("[3,2]", PHASES, 2, leave_out);
}

static int read_text(const char *text, struct schedule *out)
{
    char *copy = mem_dup(text);
    int rc = schedule_parse(out, copy, (int64_t)strlen(copy), "text", &err);

    mem_free(copy);
    return rc;
}

/* Printed text is read back to the same rows. */
TEST(test_text)
{
    struct layout l;
    struct schedule s, back;
    FILE *f = unit_stream();

    shape(&l, "[3,2]");
    gen(&s, &l, SCHEDULE_TWO_LEVEL, SCHEDULE_ALL_REDUCE, 2, -1);
    schedule_print(&s, f);
    char *text = unit_text(f);
    assert_ok(read_text(text, &back));
    assert_int_equal(back.rows, s.rows);
    assert_memory_equal(back.row, s.row, (size_t)s.rows * sizeof *s.row);
    assert_int_equal(back.barriers, s.barriers);
    assert_ok(schedule_verify(&back, &err));
    free(text);
    schedule_release(&s);
    schedule_release(&back);
    layout_release(&l);
}

/* A line has as many words as a group has ranks. */
TEST(test_text_long_line)
{
    enum { RANKS = 5000 };
    struct schedule s;
    char *text = mem_new(1, 64 * 1024);
    int used = sprintf(text, "paro-schedule/1\nalgo ring\nphases gather-inside\ngroup");

    for (int r = 0; r < RANKS; r++)
        used += sprintf(text + used, " %d", r);
    sprintf(text + used, "\nsegment 0\nsubchunks 1\nrows 0\nend\n");
    assert_ok(read_text(text, &s));
    assert_int_equal(s.groups.members[0], RANKS);
    schedule_release(&s);
    mem_free(text);
}

#define HEAD   "paro-schedule/1\nalgo ring\nphases "
#define INSIDE HEAD "gather-inside\n"

/* Each line as it should not be, and what is said of it. */
TEST(test_text_refusals)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"paro-schedule/1 x\n", "1: expected 'paro-schedule/1'"},
        {"paro-schedule/1\nalgo auto\n", "2: 'auto' expected the algorithm that was taken"},
        {HEAD "broadcast gather-inside\n", "3: 'broadcast' expected no other phase"},
        {INSIDE "group 0 1\ngroup\n", "5: 'group' expected at least one rank"},
        {INSIDE "group 1 0\n", "4: '0' expected each rank in one group only, in rising order"},
        {INSIDE "group 0\ngroup 0\n", "5: '0' expected each rank in one group only"},
        {INSIDE "group 0 2\nsegment 0\n", "rank 1 is in group -1"},
        {INSIDE "group 0 1\nsegment 0 1\n", "5: 'segment' expected one holder"},
        {INSIDE "group 0 1\nsegment 0\nsubchunks 1 2\n", "6: 'subchunks' expected one number"},
        {INSIDE "group 0 1\nsegment 0\nsegment 1\nsubchunks 1048576\n",
         "7: 'subchunks' expected at most 2^20 chunks more than the text has bytes"},
        {INSIDE "group 0\nsegment 0\nsubchunks 1\nplanes 1025\n", "'1025', expected a whole"},
        {INSIDE "group 0\nsegment 0\nsubchunks 1\nbarrier 1 2\n", "7: 'barrier' expected one"},
        {INSIDE "group 0 1\nsegment 0\nsubchunks 1\nrows 1\n3 0 0 1 0 copy\nend\n",
         "8: '3', expected a whole number from 0 to 2"},
        {INSIDE "group 0 1\nsegment 0\nsubchunks 1\nrows 1\n0 2147483647 0 1 0 copy\nend\n",
         "8: '2147483647', expected"},
        {INSIDE "group 0\nsegment 0\nsubchunks 1\nrows 0\nend x\n", "8: expected 'end'"},
        {INSIDE "group 0\nsegment 0\nsubchunks 1\nrows 0\nend\nend\n", "9: expected nothing"},
        {INSIDE "group 0\nsegment 0\nsubchunks 1\nrows 0\n", "8: expected 'end'"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct schedule s;
        assert_says(read_text(cases[i].text, &s), cases[i].says);
    }
}

/* As many contributions as the group has ranks, but not theirs. */
TEST(test_foreign_contributions)
{
    struct schedule s;

    assert_ok(read_text(HEAD "reduce-inside\ngroup 0 1\ngroup 2 3\nsegment 0 2\n"
                             "subchunks 1\nrows 4\n0 0 3 0 0 add\n0 0 1 2 0 add\n"
                             "0 0 3 0 1 add\n0 0 1 2 1 add\nend\n",
                        &s));
    assert_error(schedule_verify(&s, &err), ERR_MISMATCH);
    assert_non_null(strstr(err.text, "rank 0 ends with chunk 0 without the contribution of rank"
                                     " 1, expected those of its group"));
    schedule_release(&s);
}

/* One group of `ranks`; its first rank sends chunk 0 to the next `rows` of them. */
static void read_star(struct schedule *s, int ranks, int planes, int rows)
{
    FILE *f = unit_stream();

    fprintf(f, INSIDE "group");
    for (int r = 0; r < ranks; r++)
        fprintf(f, " %d", r);
    fprintf(f, "\nsegment 0\nsubchunks 1000\nplanes %d\nrows %d\n", planes, rows);
    for (int r = 1; r <= rows; r++)
        fprintf(f, "0 0 0 %d 0 copy\n", r);
    fprintf(f, "end\n");
    char *text = unit_text(f);
    assert_ok(schedule_parse(s, text, (int64_t)strlen(text), "star", &err));
    free(text);
}

/* Ranks x planes x sets are beyond any memory, and none of them is named by a row. */
TEST(test_proof_in_proportion)
{
    struct schedule s;

    read_star(&s, 60000, 1024, 1);
    assert_error(schedule_verify(&s, &err), ERR_MISMATCH);
    assert_words(err.text, "rank 2 0 contributions chunk 0 expected 60000");
    schedule_release(&s);
    read_star(&s, 200000, 1, 100000); /* 100001 sets of 25000 bytes */
    assert_error(schedule_verify(&s, &err), ERR_INPUT);
    assert_words(err.text, "chunk 0 100001 200000 ranks 2384 MiB expected 2048");
    schedule_release(&s);
}

/* Groups cabled in a ring: HO-Ring sends to both neighbours, with an even number of sub-chunks
 * as many chunks to the next as to the one before, and to no other group. */
static void prove_ring(struct schedule_spec *spec, const char *text)
{
    int g = spec->groups->count, more[16] = {0}, even = spec->subchunks % 2 == 0;
    struct groups ring;
    struct schedule s;

    groups_copy(&ring, spec->groups);
    ring.ring = 1;
    spec->groups = &ring;
    spec->root = ring.ranks / 2;
    prove(spec, text);
    gen_spec(&s, spec, -1);
    for (int64_t i = 0; spec->algo == SCHEDULE_HO_RING && i < s.rows; i++) {
        int a = ring.group_of[s.row[i].src], hops = ring.group_of[s.row[i].dst] - a + g;
        assert_true((hops + 1) % g <= 2);
        more[a] += hops % g == 0 ? 0 : hops % g == 1 ? 1 : -1;
    }
    for (int k = 0; even && spec->phases != SCHEDULE_BROADCAST && k < g; k++)
        assert_int_equal(more[k], 0);
    schedule_release(&s);
    groups_release(&ring);
}

TEST(test_cabled_in_a_ring)
{
    static const char *const shapes[] = {"3x1", "4x2", "5x3", "[3,2,2]", "[1,4,2,3]", "8x1"};

    for (int i = 0; i < 24; i++)
        each_spec(shapes[i / 4], PHASES, 1 + i % 4, prove_ring);
}
