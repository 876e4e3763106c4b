/* SPDX-License-Identifier: BSD-3-Clause */
/* The benchmark's data is exact and tells wrong from right; its model is paro.md's closed
 * forms. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "base/mem.h"
#include "bench/bench_parts.h"

enum { ELEMS = 3000 };

static const enum dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_F64, DTYPE_I32};

/* Sums all ranks' data in the type itself, forwards or backwards. */
static void sum_all(void *sum, enum dtype type, int ranks, int backwards)
{
    void *one = mem_new(ELEMS, 8);

    for (int i = 0; i < ranks; i++) {
        struct bench_data d;
        bench_data_init(&d, 1, type, backwards ? ranks - 1 - i : i, ranks);
        bench_data_fill(&d, i ? one : sum, 0, ELEMS);
        if (i)
            dtype_reduce(sum, sum, one, type, DTYPE_SUM, ELEMS);
    }
    mem_free(one);
}

static void sums_are_exact_in_every_type_and_order(void **state)
{
    static const int ranks[] = {1, 2, 5, 128, 257, 700};
    void *sum = mem_new(ELEMS, 8);

    (void)state;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (size_t n = 0; n < sizeof ranks / sizeof *ranks; n++)
            for (int backwards = 0; backwards < 2; backwards++) {
                struct bench_data d;
                bench_data_init(&d, 1, types[t], 0, ranks[n]);
                sum_all(sum, types[t], ranks[n], backwards);
                assert_int_equal(bench_data_wrong(&d, sum, 0, ELEMS), 0);
            }
    mem_free(sum);
}

static void what_is_wrong_is_counted(void **state)
{
    char *p = mem_new(ELEMS, 8);

    (void)state;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        int size = dtype_bytes(types[t]);
        struct bench_data d;
        bench_data_init(&d, 0, types[t], 0, 4);
        bench_data_fill(&d, p, 100, 100 + ELEMS);
        assert_int_equal(bench_data_wrong(&d, p, 100, 100 + ELEMS), 0);
        memset(p + 7 * size, 0xff, 3 * (size_t)size);
        assert_int_equal(bench_data_wrong(&d, p, 100, 100 + ELEMS), 3);
        /* moved by one element, or by a power of two, nearly all is wrong */
        for (int by = 1; by <= 1024; by *= 2)
            assert_true(bench_data_wrong(&d, p, 100 + by, 100 + by + ELEMS) > ELEMS * 9 / 10);
    }
    mem_free(p);
}

static double predicted(enum schedule_algo algo, int reduce_too, int subchunks)
{
    struct topo t = {0};
    struct err err = {0};
    /* 4 groups of 2, M = 8e6 bytes: q = 1e6; B' = 1e9, alpha_i = 10 us; R = 100e6, alpha_e = 1
     * ms */
    const char *spec = "4x2,intra=1e9:10us,inter=100e6:1ms";
    struct coll_handle h = {.spec = {.elems = 2000000, .type = DTYPE_F32, .algo = algo}};

    assert_int_equal(topo_parse_synth(&t, spec, &err), 0);
    h.spec.moves = reduce_too ? layout_moves_sum(LETTER_N, LETTER_N)
                              : layout_moves_copy(LETTER_G, LETTER_N);
    h.slow_bytes = (reduce_too ? 2 : 1) * 3 * 2 * 1000000;  /* (g-1) m q */
    h.fast_bytes_rank = (reduce_too ? 2 : 1) * 4 * 1000000; /* g (m-1) q */
    double s = bench_model_s(&t, &h, subchunks);
    topo_release(&t);
    return s;
}

static void near(double have, double want)
{
    if (fabs(have / want - 1) > 1e-12)
        fail_msg("%.9g s, expected %.9g s", have, want);
}

static void predictions_are_the_closed_forms(void **state)
{
    const double tau_i = 10e-6 + 1e-3, tau_e = 1e-3 + 1e6 / 50e6;

    (void)state;
    near(predicted(SCHEDULE_TWO_LEVEL, 0, 1), 3 * tau_e + 4 * tau_i);
    near(predicted(SCHEDULE_HO_RING, 0, 1), tau_i + 3 * tau_e);
    near(predicted(SCHEDULE_HO_RING, 1, 1), 2 * (tau_i + 3 * tau_e));
    near(predicted(SCHEDULE_HO_RING, 0, 10), 10e-6 + 1e-4 + 3 * tau_e);
    near(predicted(SCHEDULE_RING, 0, 1), 7 * (1e-3 + 1e6 / 100e6));
}

static void lists_are_strict(void **state)
{
    struct bench_options o;
    struct err err;

    (void)state;
    bench_options_init(&o);
    assert_int_equal(bench_parse_algos(&o, "mpi,two-level", &err), 0);
    assert_int_equal(o.algos, 2);
    assert_int_equal(o.algo[0], BENCH_MPI);
    assert_int_equal(bench_parse_ops(&o, "all-reduce", &err), 0);
    assert_int_equal(o.ops, 1);
    assert_int_equal(o.op[0], SCHEDULE_ALL_REDUCE);
    assert_int_equal(bench_parse_algos(&o, "mpi,", &err), -1);
    assert_int_equal(bench_parse_algos(&o, "", &err), -1);
    assert_int_equal(bench_parse_ops(&o, "all-reduce,all-reduce", &err), -1);
    assert_int_equal(bench_parse_type(&o, "bfloat16", &err), 0);
    assert_int_equal(o.type, DTYPE_BF16);
    assert_int_equal(bench_parse_type(&o, "u8", &err), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_exact_in_every_type_and_order),
        cmocka_unit_test(what_is_wrong_is_counted),
        cmocka_unit_test(predictions_are_the_closed_forms),
        cmocka_unit_test(lists_are_strict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
