/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every generator against the verifier, over equal and ragged shapes; every one-field mutation
 * of a row must be refused; bytes per tier against the closed forms of paro.md section 5.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/mem.h"
#include "layout/layout.h"
#include "schedule/schedule.h"

static const unsigned all_phases[] = {SCHEDULE_ALL_GATHER,
                                      SCHEDULE_REDUCE_SCATTER,
                                      SCHEDULE_ALL_REDUCE,
                                      SCHEDULE_REDUCE_INSIDE,
                                      SCHEDULE_REDUCE_ACROSS,
                                      SCHEDULE_GATHER_ACROSS,
                                      SCHEDULE_GATHER_INSIDE,
                                      SCHEDULE_REDUCE_ACROSS | SCHEDULE_GATHER_ACROSS,
                                      SCHEDULE_REDUCE_SCATTER | SCHEDULE_GATHER_ACROSS,
                                      SCHEDULE_REDUCE_ACROSS | SCHEDULE_ALL_GATHER};

enum { PHASES = sizeof all_phases / sizeof *all_phases };

static void gen(struct schedule *s, const struct layout *l, enum schedule_algo algo,
                unsigned phases, int subchunks, int rank)
{
    struct schedule_spec spec = {.algo = algo,
                                 .phases = phases,
                                 .groups = &l->groups,
                                 .segments = l->segments,
                                 .holder = l->holder,
                                 .subchunks = subchunks};
    struct err err = {0};

    if (schedule_gen(&spec, rank, s, &err))
        fail_msg("%s", err.text);
}

static void shape(struct layout *l, const char *text)
{
    struct groups g;
    struct err err = {0};

    if (groups_parse(&g, text, &err))
        fail_msg("%s", err.text);
    layout_init(l, &g);
    groups_release(&g);
}

static void verify_shape(const char *text, int subchunks)
{
    struct layout l;

    shape(&l, text);
    for (int a = SCHEDULE_RING; a <= SCHEDULE_HO_RING; a++)
        for (int p = 0; p < PHASES; p++) {
            struct schedule s;
            struct err err = {0};
            gen(&s, &l, (enum schedule_algo)a, all_phases[p], subchunks, -1);
            if (schedule_verify(&s, &err))
                fail_msg("%s %s phases %u subchunks %d: %s", text,
                         schedule_algo_name((enum schedule_algo)a), all_phases[p], subchunks,
                         err.text);
            schedule_release(&s);
        }
    layout_release(&l);
}

static void test_equal_shapes(void **state)
{
    (void)state;
    char text[32];

    for (int n = 1; n <= 33; n++) {
        snprintf(text, sizeof text, "1x%d", n);
        verify_shape(text, 1);
        snprintf(text, sizeof text, "%dx1", n);
        verify_shape(text, 1);
        for (int g = 2; g <= n / 2; g++)
            if (n % g == 0) {
                snprintf(text, sizeof text, "%dx%d", g, n / g);
                verify_shape(text, 1 + n % 3);
            }
    }
}

static void test_ragged_shapes(void **state)
{
    static const char *const shapes[] = {
        "[3,2]",   "[2,3]",       "[4,4,3]", "[8,8,7]",     "[7,6,5,3]", "[1,5]",
        "[5,1,1]", "[1,2,3,4,5]", "[11,7]",  "[2,3,5,7,2]", "[13,1,13]", "[9,8,7,6,3]"};

    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int c = 1; c <= 3; c++)
            verify_shape(shapes[i], c);
    /* all member counts 1..3 in three groups */
    for (int i = 0; i < 27; i++) {
        char text[32];
        snprintf(text, sizeof text, "[%d,%d,%d]", 1 + i % 3, 1 + i / 3 % 3, 1 + i / 9);
        verify_shape(text, 2);
    }
}

static void test_by_node(void **state)
{
    int group_of[5] = {0, 1, 0, 1, 0};
    struct groups g;
    struct layout l;
    struct schedule s;
    struct err err = {0};

    (void)state;
    assert_int_equal(groups_init_of(&g, 5, group_of, &err), 0);
    layout_init(&l, &g);
    for (int a = SCHEDULE_RING; a <= SCHEDULE_HO_RING; a++) {
        gen(&s, &l, (enum schedule_algo)a, SCHEDULE_ALL_REDUCE, 2, -1);
        assert_int_equal(schedule_verify(&s, &err), 0);
        schedule_release(&s);
    }
    layout_release(&l);
    groups_release(&g);
}

/* One rank's rows are exactly the rows of the whole that name it, in the same order. */
static void test_one_rank(void **state)
{
    struct layout l;

    (void)state;
    shape(&l, "[4,3,2]");
    for (int a = SCHEDULE_RING; a <= SCHEDULE_HO_RING; a++)
        for (int r = 0; r < 9; r++) {
            struct schedule all, own;
            int64_t at = 0;
            gen(&all, &l, (enum schedule_algo)a, SCHEDULE_ALL_REDUCE, 2, -1);
            gen(&own, &l, (enum schedule_algo)a, SCHEDULE_ALL_REDUCE, 2, r);
            for (int64_t i = 0; i < all.rows; i++) {
                if (all.row[i].src != r && all.row[i].dst != r)
                    continue;
                assert_true(at < own.rows);
                assert_memory_equal(&all.row[i], &own.row[at], sizeof own.row[at]);
                at++;
            }
            assert_int_equal(at, own.rows);
            schedule_release(&all);
            schedule_release(&own);
        }
    layout_release(&l);
}

/*
 * A second opinion on a mutant that passes: an add that takes another way to the same sum is
 * right.  Rank r contributes 8^r, so that a sum tells how often each rank is in it.
 */
static int adds_up(const struct schedule *s)
{
    int n = s->groups.ranks, right = 1;
    uint64_t *v = mem_new((size_t)n * (size_t)s->chunks, sizeof *v), all = 0;

    for (int r = 0; r < n; r++)
        all += (uint64_t)1 << 3 * r;
    for (int c = 0; c < s->chunks; c++)
        for (int r = 0; r < n; r++) {
            int owner = s->holder[c / s->subchunks] == r;
            v[r * s->chunks + c] = s->phases & SCHEDULE_REDUCE_INSIDE ? (uint64_t)1 << 3 * r
                                   : owner                            ? all
                                                                      : 0;
        }
    for (int64_t i = 0; i < s->rows; i++) {
        const struct schedule_row *row = &s->row[i];
        uint64_t *to = &v[row->dst * s->chunks + row->chunk];
        uint64_t from = v[row->src * s->chunks + row->chunk];
        *to = row->op == SCHEDULE_ADD ? *to + from : from;
    }
    for (int c = 0; c < s->chunks; c++)
        for (int r = 0; r < n; r++)
            if (s->phases & SCHEDULE_GATHER_INSIDE || s->holder[c / s->subchunks] == r)
                right = right && v[r * s->chunks + c] == all;
    mem_free(v);
    return right;
}

/*
 * Mutants: another source, destination, chunk, operation or step in one row.
 */
static void mutate(const struct schedule *s, int64_t at, int field, struct schedule_row *row)
{
    *row = s->row[at];
    switch (field) {
    case 0:
        row->src = (row->src + 1) % s->groups.ranks;
        break;
    case 1:
        row->dst = (row->dst + 1) % s->groups.ranks;
        break;
    case 2:
        row->chunk = (row->chunk + 1) % s->chunks;
        break;
    case 3:
        row->op = row->op == SCHEDULE_ADD ? SCHEDULE_COPY : SCHEDULE_ADD;
        break;
    case 4:
        row->step = s->steps;
        break;
    default:
        break;
    }
}

static void test_mutants(void **state)
{
    static const char *const shapes[] = {"2x2", "[3,2]", "1x4", "4x1"};
    int64_t tried = 0;

    (void)state;
    for (size_t i = 0; i < 4; i++)
        for (int a = SCHEDULE_RING; a <= SCHEDULE_HO_RING; a++)
            for (int p = 0; p < 3; p++) {
                struct layout l;
                struct schedule s;
                shape(&l, shapes[i]);
                gen(&s, &l, (enum schedule_algo)a, all_phases[p], 1, -1);
                for (int64_t at = 0; at < s.rows; at++)
                    for (int field = 0; field < 5; field++) {
                        struct schedule_row was = s.row[at];
                        struct err err = {0};
                        mutate(&s, at, field, &s.row[at]);
                        if (schedule_verify(&s, &err) == 0 && !adds_up(&s))
                            fail_msg("%s %s phases %u: row %d, field %d changed, not refused",
                                     shapes[i], schedule_algo_name((enum schedule_algo)a),
                                     all_phases[p], (int)at, field);
                        s.row[at] = was;
                        tried++;
                    }
                schedule_release(&s);
                layout_release(&l);
            }
    assert_true(tried > 1000);
}

/* A row left out is a contribution or a part that does not arrive. */
static void test_missing_row(void **state)
{
    struct layout l;

    (void)state;
    shape(&l, "[3,2]");
    for (int p = 0; p < PHASES; p++) {
        struct schedule s;
        gen(&s, &l, SCHEDULE_HO_RING, all_phases[p], 2, -1);
        for (int64_t gone = 0; gone < s.rows; gone++) {
            struct err err = {0};
            struct schedule_row was = s.row[gone];
            memmove(s.row + gone, s.row + gone + 1,
                    (size_t)(s.rows - gone - 1) * sizeof *s.row);
            s.rows--;
            assert_int_equal(schedule_verify(&s, &err), -1);
            memmove(s.row + gone + 1, s.row + gone, (size_t)(s.rows - gone) * sizeof *s.row);
            s.row[gone] = was;
            s.rows++;
        }
        schedule_release(&s);
    }
    layout_release(&l);
}

/* Through a port, of M = n blocks: HO-Ring (g-1)/g M, ring (n-1)/n M (paro.md section 5). */
static void test_traffic(void **state)
{
    static const int shapes[][2] = {{2, 2}, {2, 4}, {4, 2}, {4, 4}, {3, 5}};

    (void)state;
    for (size_t i = 0; i < 5; i++) {
        int g = shapes[i][0], m = shapes[i][1], n = g * m;
        char text[16];
        struct layout l;
        struct schedule s;
        struct schedule_traffic t;
        snprintf(text, sizeof text, "%dx%d", g, m);
        shape(&l, text);
        int64_t *elems = mem_new((size_t)n, sizeof *elems);
        for (int c = 0; c < n; c++)
            elems[c] = 1;
        gen(&s, &l, SCHEDULE_HO_RING, SCHEDULE_ALL_GATHER, 1, -1);
        schedule_traffic(&s, elems, &t);
        assert_int_equal(t.slow_out_max, (g - 1) * m);
        assert_int_equal(t.slow_in_max, (g - 1) * m);
        assert_int_equal(t.fast_rank_max, g * (m - 1));
        schedule_release(&s);
        gen(&s, &l, SCHEDULE_RING, SCHEDULE_ALL_GATHER, 1, -1);
        schedule_traffic(&s, elems, &t);
        assert_int_equal(t.slow_out_max, n - 1);
        schedule_release(&s);
        layout_release(&l);
        mem_free(elems);
    }
}

/* What is printed is read back to the same rows. */
static void test_text(void **state)
{
    struct layout l;
    struct schedule s, back;
    struct err err = {0};
    char path[] = "/tmp/paro-schedule-XXXXXX";
    int fd = mkstemp(path);
    FILE *f = fdopen(fd, "w");

    (void)state;
    shape(&l, "[3,2]");
    gen(&s, &l, SCHEDULE_TWO_LEVEL, SCHEDULE_ALL_REDUCE, 2, -1);
    schedule_print(&s, f);
    fclose(f);
    if (schedule_read(&back, path, &err))
        fail_msg("%s", err.text);
    assert_int_equal(back.rows, s.rows);
    assert_memory_equal(back.row, s.row, (size_t)s.rows * sizeof *s.row);
    assert_int_equal(back.barriers, s.barriers);
    assert_int_equal(schedule_verify(&back, &err), 0);
    unlink(path);
    schedule_release(&s);
    schedule_release(&back);
    layout_release(&l);
}

/* Writes text to a file and reads it as a schedule. */
static int read_text(const char *text, struct schedule *out, struct err *err)
{
    char path[] = "/tmp/paro-schedule-XXXXXX";
    FILE *f = fdopen(mkstemp(path), "w");

    fputs(text, f);
    fclose(f);
    int rc = schedule_read(out, path, err);
    unlink(path);
    return rc;
}

static void test_text_empty_group(void **state)
{
    struct schedule s;
    struct err err = {0};

    (void)state;
    assert_int_equal(read_text("paro-schedule/1\nalgo ring\nphases gather-inside\ngroup 0 1\n"
                               "group\nsegment 0\nsubchunks 1\nrows 0\nend\n",
                               &s, &err),
                     -1);
    assert_non_null(strstr(err.text, "5: 'group' expected at least one rank"));
}

/* A line has as many words as a group has ranks. */
static void test_text_long_line(void **state)
{
    enum { RANKS = 5000 };
    struct schedule s;
    struct err err = {0};
    char *text = mem_new(1, 64 * 1024);
    int used = sprintf(text, "paro-schedule/1\nalgo ring\nphases gather-inside\ngroup");

    (void)state;
    for (int r = 0; r < RANKS; r++)
        used += sprintf(text + used, " %d", r);
    sprintf(text + used, "\nsegment 0\nsubchunks 1\nrows 0\nend\n");
    if (read_text(text, &s, &err))
        fail_msg("%s", err.text);
    assert_int_equal(s.groups.members[0], RANKS);
    schedule_release(&s);
    mem_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_shapes),     cmocka_unit_test(test_ragged_shapes),
        cmocka_unit_test(test_by_node),          cmocka_unit_test(test_one_rank),
        cmocka_unit_test(test_mutants),          cmocka_unit_test(test_missing_row),
        cmocka_unit_test(test_traffic),          cmocka_unit_test(test_text),
        cmocka_unit_test(test_text_empty_group), cmocka_unit_test(test_text_long_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
