/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The local executor over every conversion between layouts, every algorithm and ragged shapes,
 * on integer-valued floats (sums are exact in any order, so that results are compared bit for
 * bit).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/mem.h"
#include "coll/coll.h"

struct fixture {
    struct layout l;
    struct coll_spec spec;
    int sum; /* a reduction: contributions differ by rank */
    float *in[32], *out[32];
};

/* What rank contributes to element x; a copy's value does not depend on the rank. */
static float value(const struct fixture *f, int rank, int64_t x)
{
    return (float)(x % 1000 + (f->sum ? 3 * rank + 1 : 0));
}

/* The sum over the ranks whose contributions `letter` says are in there already. */
static float summed(const struct fixture *f, enum letter letter, int rank, int64_t x)
{
    const struct groups *g = &f->l.groups;
    float sum = 0;

    if (!f->sum || letter == LETTER_N)
        return value(f, rank, x);
    for (int r = 0; r < g->ranks; r++)
        if (letter == LETTER_G || g->group_of[r] == g->group_of[rank])
            sum += value(f, r, x);
    return sum;
}

static void fill(struct fixture *f, int rank, enum letter letter, enum letter level, float *v)
{
    struct range r[64];
    int n = layout_ranges(&f->l, letter, rank, f->spec.elems, r);

    for (int i = 0; i < n; i++)
        for (int64_t x = r[i].lo; x < r[i].hi; x++)
            *v++ = summed(f, level, rank, x);
}

static void run(struct fixture *f, enum letter done)
{
    int n = f->l.groups.ranks, subchunks = coll_subchunks(&f->l, &f->spec);
    struct schedule_spec want = {.algo = f->spec.algo,
                                 .phases = coll_phases(&f->spec),
                                 .groups = &f->l.groups,
                                 .segments = f->l.segments,
                                 .holder = f->l.holder,
                                 .subchunks = subchunks};
    struct exec_rows *rows = mem_new((size_t)n, sizeof *rows);
    float *expect = mem_new((size_t)f->spec.elems + 1, sizeof *expect);
    struct err err = {0};

    for (int r = 0; r < n; r++) {
        struct schedule s;
        struct exec_places p;
        assert_int_equal(schedule_gen(&want, r, &s, &err), 0);
        coll_places(&f->l, &f->spec, r, subchunks, &p);
        if (exec_rows_init(&rows[r], &s, r, &p, &err))
            fail_msg("%s", err.text);
        schedule_release(&s);
        exec_places_release(&p);
        f->in[r] = mem_new((size_t)f->spec.elems + 1, sizeof(float));
        f->out[r] = mem_new((size_t)f->spec.elems + 1, sizeof(float));
        fill(f, r, f->spec.from, f->spec.from, f->in[r]);
    }
    if (exec_local_run(rows, n, (void **)f->in, (void **)f->out, &err))
        fail_msg("%s", err.text);
    for (int r = 0; r < n; r++) {
        int64_t have = layout_elems(&f->l, f->spec.to, r, f->spec.elems);
        fill(f, r, f->spec.to, done, expect);
        assert_memory_equal(f->out[r], expect, (size_t)have * sizeof(float));
        exec_rows_release(&rows[r]);
        mem_free(f->in[r]);
        mem_free(f->out[r]);
    }
    mem_free(rows);
    mem_free(expect);
}

static void all_conversions(const char *shape, int64_t elems, int64_t chunk_bytes)
{
    struct fixture f = {
        .spec = {.elems = elems, .type = DTYPE_F32, .chunk_bytes = chunk_bytes}};
    struct groups g;
    struct err err = {0};

    assert_int_equal(groups_parse(&g, shape, &err), 0);
    layout_init(&f.l, &g);
    groups_release(&g);
    for (int algo = 0; algo < SCHEDULE_ALGOS; algo++)
        for (int a = 0; a < 3; a++) {
            f.spec.algo = (enum schedule_algo)algo;
            for (int b = 0; b < 3; b++) {
                f.spec.from = (enum letter)a;
                f.spec.to = (enum letter)b;
                f.sum = 1;
                f.spec.moves = layout_moves_sum(f.spec.from, f.spec.to);
                run(&f, LETTER_G);
                f.sum = 0;
                f.spec.moves = layout_moves_copy(f.spec.from, f.spec.to);
                if (a >= b) /* coarser to finer is slicing: no collective */
                    run(&f, LETTER_N);
            }
            f.sum = 1;
            f.spec.from = LETTER_N;
            f.spec.to = (enum letter)a;
            f.spec.moves = layout_moves_micro(f.spec.to);
            run(&f, f.spec.to);
        }
    layout_release(&f.l);
}

static void test_conversions(void **state)
{
    static const char *const shapes[] = {"1x1", "2x2",   "[3,2]",   "4x2",    "1x5",
                                         "3x1", "[1,4]", "[4,4,3]", "[2,3,1]"};
    static const int64_t lengths[] = {0, 1, 7, 64, 997};

    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t j = 0; j < sizeof lengths / sizeof *lengths; j++) {
            all_conversions(shapes[i], lengths[j], 0);
            all_conversions(shapes[i], lengths[j], 64);
        }
}

/* No element, fewer elements than ranks: no row, no scratch, nothing to wait for. */
static void test_empty(void **state)
{
    struct layout l;
    struct groups g;
    struct schedule s;
    struct exec_places p;
    struct exec_rows rows;
    struct err err = {0};
    struct coll_spec spec = {.moves = layout_moves_sum(LETTER_N, LETTER_N),
                             .from = LETTER_N,
                             .to = LETTER_N,
                             .type = DTYPE_F32,
                             .algo = SCHEDULE_HO_RING};

    (void)state;
    groups_parse(&g, "[3,2]", &err);
    layout_init(&l, &g);
    assert_int_equal(coll_subchunks(&l, &spec), 1);
    struct schedule_spec want = {.algo = spec.algo,
                                 .phases = coll_phases(&spec),
                                 .groups = &l.groups,
                                 .segments = l.segments,
                                 .holder = l.holder,
                                 .subchunks = 1};
    for (int elems = 0; elems < 2; elems++) {
        int64_t moved = 0;
        spec.elems = elems;
        for (int r = 0; r < 5; r++) {
            assert_int_equal(schedule_gen(&want, r, &s, &err), 0);
            coll_places(&l, &spec, r, 1, &p);
            assert_int_equal(exec_rows_init(&rows, &s, r, &p, &err), 0);
            moved += rows.slow_bytes + rows.fast_bytes;
            for (int i = 0; i < rows.rows; i++)
                assert_int_equal(rows.row[i].bytes, elems * 4);
            assert_true(rows.scratch_bytes == 0); /* out has room for all of it */
            assert_true(elems || rows.rows == 0);
            exec_rows_release(&rows);
            exec_places_release(&p);
            schedule_release(&s);
        }
        /* One element goes from four ranks to its owner and back. */
        assert_int_equal(moved, elems * 4 * 2 * 4);
    }
    layout_release(&l);
    groups_release(&g);
}

/* A row that reads what the input does not have is told, not run. */
static void test_absent_input(void **state)
{
    struct layout l;
    struct groups g;
    struct schedule s;
    struct exec_places p;
    struct exec_rows rows;
    struct err err = {0};
    struct coll_spec spec = {.moves = layout_moves_copy(LETTER_G, LETTER_N),
                             .from = LETTER_G,
                             .to = LETTER_N,
                             .elems = 64,
                             .type = DTYPE_F32,
                             .algo = SCHEDULE_RING};

    (void)state;
    groups_parse(&g, "2x2", &err);
    layout_init(&l, &g);
    struct schedule_spec want = {.algo = spec.algo,
                                 .phases = coll_phases(&spec),
                                 .groups = &l.groups,
                                 .segments = l.segments,
                                 .holder = l.holder,
                                 .subchunks = 1};
    assert_int_equal(schedule_gen(&want, 0, &s, &err), 0);
    coll_places(&l, &spec, 0, 1, &p);
    for (int c = 0; c < p.chunks; c++)
        p.in_at[c] = -1;
    assert_int_equal(exec_rows_init(&rows, &s, 0, &p, &err), -1);
    assert_int_equal(err.code, ERR_MISMATCH);
    assert_non_null(strstr(err.text, "not in the input"));
    exec_places_release(&p);
    schedule_release(&s);
    layout_release(&l);
    groups_release(&g);
}

/* paro.md section 5, at the payload rate: 2x2 and [3,2]. */
static void test_cut_bound(void **state)
{
    struct groups g;
    struct err err = {0};
    double port[3] = {100, 100, 50};

    (void)state;
    groups_parse(&g, "2x2", &err);
    assert_float_equal(coll_cut_bound_s(&g, SCHEDULE_ALL_GATHER, 1000, port), 5, 1e-12);
    assert_float_equal(coll_cut_bound_s(&g, SCHEDULE_ALL_REDUCE, 1000, port), 10, 1e-12);
    groups_release(&g);
    groups_parse(&g, "[2,2,2]", &err);
    assert_float_equal(coll_cut_bound_s(&g, SCHEDULE_ALL_GATHER, 1000, port),
                       1000 * 2 / 3.0 / 50, 1e-9);
    assert_float_equal(coll_cut_bound_s(&g, SCHEDULE_ALL_REDUCE, 1000, port), 1000 / 50.0,
                       1e-9);
    /* M once through each port, in or, at the root, out: the slowest has it longest. */
    assert_float_equal(coll_cut_bound_s(&g, SCHEDULE_BROADCAST, 1000, port), 1000 / 50.0, 1e-9);
    port[2] = 400;
    assert_float_equal(coll_cut_bound_s(&g, SCHEDULE_BROADCAST, 1000, port), 1000 / 100.0,
                       1e-9);
    groups_release(&g);
    groups_parse(&g, "[3,2]", &err);
    assert_float_equal(coll_cut_bound_s(&g, SCHEDULE_BROADCAST, 1000, port), 10, 1e-12);
    groups_release(&g);
    groups_parse(&g, "4", &err);
    assert_float_equal(coll_cut_bound_s(&g, SCHEDULE_BROADCAST, 1000, port), 0, 0);
    groups_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conversions),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_absent_input),
        cmocka_unit_test(test_cut_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
