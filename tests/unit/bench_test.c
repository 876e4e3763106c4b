/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests that the benchmark's data is exact and tells wrong from right, and that rows follow
 * from times.
 */
#include "unit.h"

#include "bench/bench_parts.h"
#include "xml_fixture.h"

enum { ELEMS = 3000 };

/* All givers' data reduced in the type itself, forwards or backwards. */
static void reduce_all(void *to, enum dtype type, enum dtype_op op, int givers, int backwards)
{
    void *one = mem_new(ELEMS, 8);

    for (int i = 0; i < givers; i++) {
        struct bench_data d;
        bench_data_init(&d, op, type, backwards ? givers - 1 - i : i, givers);
        bench_data_fill(&d, i ? one : to, 0, ELEMS);
        if (i)
            dtype_reduce(to, to, one, type, op, ELEMS);
    }
    mem_free(one);
}

/* Four laps of 4 MiB through a port of 6.25 MB/s. */
TEST(no_flow_is_faster_than_its_bytes_in_its_time)
{
    static const double lap = 4 << 20, real_s = 4 * lap / 6.25e6;
    /* The receiver was late: its curve says 9.4 MB/s. */
    struct probe_result late = {.rank_Bps = 9.4e6, .took_s = real_s};
    /* A burst came first, and the curve is of what came after it. */
    struct probe_result burst = {.rank_Bps = 6.25e6, .took_s = 0.9 * real_s};
    struct probe_result short_one = {.took_s = real_s}; /* it has no curve */

    assert_float_equal(bench_port_lap_s(&late, lap, 4), real_s / 4, 1e-6);
    assert_float_equal(bench_port_lap_s(&burst, lap, 4), real_s / 4, 1e-6);
    assert_float_equal(bench_port_lap_s(&short_one, lap, 4), real_s / 4, 1e-6);
}

TEST(reductions_are_exact_in_every_type_and_order)
{
    static const int givers[] = {1, 2, 5, 128, 257, 700};
    void *to = mem_new(ELEMS, 8);

    for (int t = 0; t < DTYPE_COUNT; t++)
        for (int op = 0; op < DTYPE_OPS; op++)
            for (size_t n = 0; n < sizeof givers / sizeof *givers; n++)
                for (int backwards = 0; backwards < 2; backwards++) {
                    struct bench_data d;
                    bench_data_init(&d, (enum dtype_op)op, (enum dtype)t, 0, givers[n]);
                    reduce_all(to, (enum dtype)t, (enum dtype_op)op, givers[n], backwards);
                    if (op == DTYPE_AVG)
                        dtype_scale(to, (enum dtype)t, givers[n], ELEMS);
                    assert_int_equal(bench_data_wrong(&d, to, 0, ELEMS), 0);
                }
    mem_free(to);
}

/* A second opinion on averages: of whole numbers, in double, by division. */
TEST(an_average_is_the_sum_over_the_number)
{
    struct bench_data d;
    double sum[ELEMS] = {0}, one[ELEMS];
    float want[ELEMS];

    for (int i = 0; i < 7; i++) {
        bench_data_init(&d, DTYPE_AVG, DTYPE_F64, i, 7);
        bench_data_fill(&d, one, 0, ELEMS);
        for (int x = 0; x < ELEMS; x++)
            sum[x] += one[x];
    }
    for (int x = 0; x < ELEMS; x++)
        want[x] = (float)(sum[x] / 7);
    bench_data_init(&d, DTYPE_AVG, DTYPE_F32, 0, 7);
    assert_int_equal(bench_data_wrong(&d, want, 0, ELEMS), 0);
    want[5] = nextafterf(want[5], 100);
    assert_int_equal(bench_data_wrong(&d, want, 0, ELEMS), 1);
}

/* One giver left out, or room of zeros taken for one, must not go unseen. */
TEST(every_giver_is_needed)
{
    enum { GIVERS = 5 };
    float all[GIVERS][ELEMS], to[ELEMS];

    for (int op = 0; op < DTYPE_AVG; op++) {
        struct bench_data d;
        for (int i = 0; i < GIVERS; i++) {
            bench_data_init(&d, (enum dtype_op)op, DTYPE_F32, i, GIVERS);
            bench_data_fill(&d, all[i], 0, ELEMS);
        }
        for (int without = 0; without < GIVERS; without++) {
            memcpy(to, all[without ? 0 : 1], sizeof to);
            for (int i = without ? 1 : 2; i < GIVERS; i++)
                if (i != without)
                    dtype_reduce(to, to, all[i], DTYPE_F32, (enum dtype_op)op, ELEMS);
            assert_true(bench_data_wrong(&d, to, 0, ELEMS) > ELEMS / (3 * GIVERS));
        }
        for (int x = 0; x < ELEMS && op != DTYPE_SUM; x++)
            assert_true(op == DTYPE_MAX ? all[0][x] < 0 : all[0][x] > 0);
    }
}

TEST(what_is_wrong_is_counted)
{
    char *p = mem_new(ELEMS, 8);

    for (int t = 0; t < DTYPE_COUNT; t++) {
        int size = dtype_bytes((enum dtype)t);
        struct bench_data d;
        bench_data_init(&d, DTYPE_OPS, (enum dtype)t, 0, 4);
        bench_data_fill(&d, p, 100, 100 + ELEMS);
        assert_int_equal(bench_data_wrong(&d, p, 100, 100 + ELEMS), 0);
        memset(p + 7 * size, 0xff, 3 * (size_t)size);
        assert_int_equal(bench_data_wrong(&d, p, 100, 100 + ELEMS), 3);
        /* moved by one element, or by a power of two, nearly all is wrong */
        for (int by = 1; by <= 1024; by *= 2)
            assert_true(bench_data_wrong(&d, p, 100 + by, 100 + by + ELEMS) > ELEMS * 9 / 10);
        /* memory that nobody wrote to is wrong all over, whatever is reduced */
        memset(p, 0xff, (size_t)ELEMS * 8);
        for (int op = 0; op <= DTYPE_OPS; op++) {
            bench_data_init(&d, (enum dtype_op)op, (enum dtype)t, 0, 4);
            assert_int_equal(bench_data_wrong(&d, p, 0, ELEMS), ELEMS);
        }
    }
    mem_free(p);
}

/* The check values of paro-method(7), HO-RING: 4 groups of 2, M = 8e6 bytes, so q = 1e6, and
 * parts sent whole. */
TEST(a_prediction_is_the_closed_form)
{
    const double tau_i = 10e-6 + 1e-3, tau_e = 1e-3 + 1e6 / 50e6;
    struct pick_choice c = {.algo = SCHEDULE_HO_RING, .chunk_bytes = PICK_CHUNK_WHOLE};
    struct topo t = {0};

    assert_ok(topo_parse_synth(&t, "4x2,intra=1GB/s:10us,inter=100MB/s:1ms", &err));
    assert_ok(bench_predict(&t, SCHEDULE_ALL_GATHER, 8000000, &c, &err));
    assert_float_equal(c.time_s, tau_i + 3 * tau_e, 1e-9);
    assert_ok(bench_predict(&t, SCHEDULE_ALL_GATHER, 0, &c, &err));
    assert_float_equal(c.time_s, 0, 0);
    c.algo = SCHEDULE_AUTO;
    assert_ok(bench_predict(&t, SCHEDULE_ALL_REDUCE, 8000000, &c, &err));
    assert_true(c.algo != SCHEDULE_AUTO && c.time_s > 0);
    topo_release(&t);
    assert_int_equal(bench_chunk_bytes(0, 1 << 20), PICK_CHUNK_USUAL);
    assert_int_equal(bench_chunk_bytes(PICK_CHUNK_WHOLE, 100), 100);
}

TEST(lists_are_strict)
{
    struct bench_options o;
    int algo;

    bench_options_init(&o);
    assert_ok(bench_parse_algos("mpi,two-level", &o, &err));
    assert_int_equal(o.algos, 2);
    assert_int_equal(o.algo[0], BENCH_MPI);
    assert_int_equal(o.algo[1], SCHEDULE_TWO_LEVEL);
    assert_ok(bench_parse_ops("all-reduce", &o, &err));
    assert_int_equal(o.ops, 1);
    assert_int_equal(o.op[0], SCHEDULE_ALL_REDUCE);
    assert_int_equal(bench_parse_algos("mpi,", &o, &err), -1);
    assert_int_equal(bench_parse_algos("", &o, &err), -1);
    assert_int_equal(bench_parse_ops("all-reduce,all-reduce", &o, &err), -1);
    assert_ok(bench_parse_type("bfloat16", &o.type, &err));
    assert_int_equal(o.type, DTYPE_BF16);
    assert_ok(bench_parse_type("u8", &o.type, &err));
    assert_int_equal(o.type, DTYPE_U8);
    assert_int_equal(bench_parse_type("f8", &o.type, &err), -1);
    assert_ok(bench_parse_setting("han-2.1", &o.setting, &err));
    assert_int_equal(bench_parse_setting("", &o.setting, &err), -1);
    assert_int_equal(bench_parse_setting("a,b", &o.setting, &err), -1);
    assert_ok(bench_parse_setting("0123456789012345678901234567890", &o.setting, &err));
    assert_int_equal(bench_parse_setting("01234567890123456789012345678901", &o.setting, &err),
                     -1);
    for (int a = BENCH_NCCL; a <= SCHEDULE_AUTO; a++) { /* each has its place and its name */
        assert_ok(bench_algo_parse(bench_algo_name(a), &algo, &err));
        assert_int_equal(algo, a);
        if (a < SCHEDULE_AUTO)
            continue;
        assert_says(bench_algo_parse("gossip", &algo, &err), "auto, mpi or nccl");
    }
}

TEST(marks_are_of_the_nearest_rank)
{
    double hundred[100], two[] = {3, 1}, one[] = {5}, m[BENCH_MARKS];

    for (int i = 0; i < 100; i++)
        hundred[i] = (i * 37) % 100 + 1; /* 1 .. 100 in disorder */
    bench_marks(hundred, 100, m);
    const double want[BENCH_MARKS] = {1, 10, 25, 50.5, 75, 90, 99, 100};
    for (int i = 0; i < BENCH_MARKS; i++)
        assert_float_equal(m[i], want[i], 0);
    bench_marks(two, 2, m);
    const double want_2[BENCH_MARKS] = {1, 1, 1, 2, 3, 3, 3, 3};
    for (int i = 0; i < BENCH_MARKS; i++)
        assert_float_equal(m[i], want_2[i], 0);
    bench_marks(one, 1, m);
    for (int i = 0; i < BENCH_MARKS; i++)
        assert_float_equal(m[i], 5, 0);
}

static struct bench_row row_of(unsigned op, int algo, int64_t bytes, double median_s)
{
    struct bench_row r =
        LIST(.op = op, .algo = algo, .chosen = SCHEDULE_AUTO, .shape = "2x2", .ranks = 4,
             .root = -1, .type = DTYPE_F32, .redop = DTYPE_OPS, .launches = 1,
             .elems = bytes / 4, .bytes = bytes, .limit_s = (double)bytes / 2 / 100e6,
             .predicted_s = NAN, .load = 1);

    for (int m = 0; m < BENCH_MARKS; m++)
        r.time_s[m] = median_s;
    return r;
}

TEST(bandwidths_are_those_of_nccl_tests)
{
    struct bench_row r = row_of(SCHEDULE_ALL_GATHER, SCHEDULE_RING, 1000, 1e-6);
    char label[64];

    assert_float_equal(bench_algbw_Bps(&r), 1e9, 1);
    assert_float_equal(bench_busbw_Bps(&r), 0.75e9, 1);
    assert_float_equal(bench_limit_fraction(&r), 5, 1e-9);
    r.op = SCHEDULE_ALL_REDUCE;
    assert_float_equal(bench_busbw_Bps(&r), 1.5e9, 1);
    r.op = SCHEDULE_BROADCAST;
    assert_float_equal(bench_busbw_Bps(&r), 1e9, 1);
    r.bytes = 0;
    assert_float_equal(bench_algbw_Bps(&r), 0, 0);
    assert_true(isnan(bench_limit_fraction(&r)));
    r.algo = SCHEDULE_AUTO;
    r.chosen = SCHEDULE_BRUCK;
    assert_string_equal(bench_label(&r, label, sizeof label), "auto:bruck");
    r = row_of(SCHEDULE_ALL_GATHER, BENCH_MPI, 1000, 1e-6);
    assert_string_equal(bench_label(&r, label, sizeof label), "mpi");
    strcpy(r.setting, "han");
    assert_string_equal(bench_label(&r, label, sizeof label), "mpi:han");
}

enum { ALGOS = 3, ROWS_MAX = 3 * ALGOS * 16 };

/* All algorithms and `sizes` sizes of n operations. */
static int make_rows(struct bench_row *rows, int n, int sizes)
{
    static const unsigned ops[] = {SCHEDULE_ALL_GATHER, SCHEDULE_REDUCE_SCATTER,
                                   SCHEDULE_ALL_REDUCE};
    int at = 0;

    for (int o = 0; o < n; o++)
        for (int s = 0; s < sizes; s++)
            for (int a = 0; a < ALGOS; a++)
                rows[at++] = row_of(ops[o], a, INT64_C(4096) << s,
                                    1e-4 * (a + 1) + (double)(INT64_C(4096) << s) / 60e6);
    return at;
}

/* Well-formed text; owned by the caller. */
static char *plot(const struct bench_row *rows, int n)
{
    FILE *f = unit_stream();

    bench_plot(rows, n, "a <title>", f);
    char *text = unit_text(f);
    xml_elements(text);
    assert_non_null(strstr(text, "a &lt;title&gt;"));
    assert_null(strstr(text, "\"nan\""));
    assert_null(strstr(text, "\"inf\""));
    return text;
}

TEST(a_line_per_algorithm_and_the_bound)
{
    struct bench_row rows[ROWS_MAX] = {0};

    for (int n = 1; n <= 3; n++) {
        char *text = plot(rows, make_rows(rows, n, 15));
        assert_int_equal(unit_count(text, "class=\"chart\""), 2 * n);
        assert_int_equal(unit_count(text, "<polyline"), 2 * n * (ALGOS + 1));
        /* of each panel, and of the legend */
        assert_int_equal(unit_count(text, "stroke-dasharray"), 2 * n + 1);
        assert_int_equal(unit_count(text, ">cut bound</text>"), 1);
        for (int a = 0; a < ALGOS; a++) {
            char name[64];
            snprintf(name, sizeof name, ">%s</text>", bench_algo_name(a));
            assert_int_equal(unit_count(text, name), 1);
        }
        assert_non_null(strstr(text, "2x2: 4 ranks, f32; load average 1.0"));
        assert_int_equal(unit_count(text, ">all-gather: time<"), 1);
        free(text);
    }
}

TEST(order_of_rows_does_not_matter_to_lines)
{
    struct bench_row rows[ROWS_MAX], turned[ROWS_MAX];
    int n = make_rows(rows, 1, 15);

    for (int i = 0; i < n; i++) /* sizes from large to small, algorithms as they were */
        turned[i] = rows[(n / ALGOS - 1 - i / ALGOS) * ALGOS + i % ALGOS];
    char *a = plot(rows, n), *b = plot(turned, n);
    assert_string_equal(a, b);
    free(a);
    free(b);
}

TEST(one_size_is_a_picture)
{
    struct bench_row rows[ROWS_MAX] = {0};
    int n = make_rows(rows, 1, 1);

    char *text = plot(rows, n);
    assert_int_equal(unit_count(text, "<polyline"), 0);
    assert_int_equal(unit_count(text, "of the cut bound</title>"), 2 * ALGOS);
    assert_int_equal(unit_count(text, "stroke-dasharray"), 3);
    assert_non_null(strstr(text, ">4 KiB<"));
    free(text);
}

TEST(rows_without_numbers)
{
    static const double bad[] = {NAN, INFINITY, 0, -1};
    struct bench_row rows[ROWS_MAX] = {0};

    char *text = plot(rows, 0);
    assert_int_equal(unit_count(text, "class=\"chart\""), 0);
    free(text);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int n = make_rows(rows, 1, 3);
        rows[4].time_s[BENCH_MEDIAN] =
            bad[i]; /* one point is missing, its line goes on without it */
        rows[0].load = NAN;
        text = plot(rows, n);
        assert_int_equal(unit_count(text, "of the cut bound</title>"), 2 * (n - 1));
        assert_int_equal(unit_count(text, "<polyline"), 2 * (ALGOS + 1));
        free(text);
        for (int k = 0; k < n; k++)
            rows[k].limit_s = bad[i];
        text = plot(rows, n);
        assert_int_equal(unit_count(text, "cut bound"), 0);
        free(text);
    }
}

/* busbw 0: all of it lies on the axis. */
TEST(one_rank)
{
    struct bench_row row = row_of(SCHEDULE_ALL_GATHER, 0, 1 << 20, 1e-3);

    row.ranks = 1;
    row.limit_s = NAN;
    char *text = plot(&row, 1);
    assert_non_null(strstr(text, "1 rank"));
    free(text);
}

TEST(a_line_for_each_setting_and_a_panel_for_each_shape)
{
    static const int algo[] = {SCHEDULE_AUTO, SCHEDULE_RING, BENCH_MPI, BENCH_MPI};
    struct bench_row row[2 * 4 * 3];
    int n = 0;

    for (int op = 0; op < 2; op++)
        for (int a = 0; a < 4; a++)
            for (int size = 0; size < 3; size++) {
                row[n] = row_of(op ? SCHEDULE_ALL_REDUCE : SCHEDULE_ALL_GATHER, algo[a],
                                INT64_C(4096) << 4 * size, 1e-4 * (a + 1) * (size + 1));
                if (algo[a] == SCHEDULE_AUTO)
                    row[n].chosen = size ? SCHEDULE_HO_RING : SCHEDULE_BRUCK;
                if (a == 3)
                    strcpy(row[n].setting, "han");
                n++;
            }
    char *text = plot(row, n);
    assert_int_equal(unit_count(text, ">mpi:han<"), 1); /* in the legend */
    assert_int_equal(unit_count(text, ">mpi<"), 1);
    assert_int_equal(unit_count(text, ">auto<"), 1);
    assert_int_equal(unit_count(text, ">cut bound<"), 1 + 2 * 2); /* and in each panel */
    assert_int_equal(unit_count(text, "mpi:han, "), 2 * 2 * 3);   /* tips, both panels */
    assert_int_equal(unit_count(text, "auto:bruck, "), 2 * 2 * 1);
    free(text);
    strcpy(row[0].shape, "4x2"); /* another shape, other panels */
    text = plot(row, n);
    assert_int_equal(unit_count(text, ">all-gather 2x2: time<"), 1);
    assert_int_equal(unit_count(text, ">all-gather 4x2: time<"), 1);
    free(text);
}
