/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests the local executor over every conversion between layouts, every algorithm and ragged
 * shapes, on integer-valued floats (sums are exact in any order, so that results are compared
 * bit for bit).  Coded places: the same bits where numbers are small enough for the code; with
 * any numbers, equal copies, and nothing lost but what the residuals have.
 */
#include "unit.h"

#include "schedule_fixture.h"

#include "base/rng.h"
#include "exec/exec_mpi_native.h"
#include "exec_local_fixture.h"

struct fixture {
    struct layout l;
    struct coll_spec spec;
    int sum; /* a reduction: contributions differ by rank */
    struct local on;
};

/* The contribution of a rank to element x; a copy's value does not depend on the rank. */
static float value(const struct fixture *f, int rank, int64_t x)
{
    if (f->spec.code) /* sums of 11 stay below 128: the code has them exactly */
        return (float)(x % 8 + (f->sum ? rank % 4 : 0));
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

static void prepare(struct fixture *f)
{
    assert_ok(local_open(&f->on, &f->l, &f->spec));
}

static void run_local(const struct fixture *f, int keep)
{
    assert_ok(exec_local_run(&f->on, keep));
}

static void run(struct fixture *f, enum letter done)
{
    float *expect = mem_new((size_t)f->spec.elems + 1, sizeof *expect);

    prepare(f);
    for (int r = 0; r < f->on.ranks; r++)
        fill(f, r, f->spec.from, f->spec.from, f->on.in[r]);
    run_local(f, 1);
    for (int r = 0; r < f->on.ranks; r++) {
        int64_t have = layout_elems(&f->l, f->spec.to, r, f->spec.elems);
        fill(f, r, f->spec.to, done, expect);
        if (f->spec.redop == DTYPE_AVG)
            dtype_scale(expect, DTYPE_F32, f->l.groups.ranks, have);
        assert_memory_equal(f->on.out[r], expect, (size_t)have * sizeof(float));
        for (int64_t i = 0; i < f->on.rows[r].residual_elems; i++)
            assert_true(f->on.residual[r][i] == 0);
    }
    local_close(&f->on);
    mem_free(expect);
}

static void all_conversions(const char *groups, int64_t elems, int64_t chunk_bytes,
                            enum exec_code code)
{
    struct fixture f = {
        .spec = {.elems = elems, .type = DTYPE_F32, .chunk_bytes = chunk_bytes, .code = code}};
    enum letter done;

    shape(&f.l, groups);
    for (int algo = 0; algo < SCHEDULE_ALGOS; algo++)
        for (int i = 0; i < LOCAL_CONVERSIONS; i++) {
            f.spec.algo = (enum schedule_algo)algo;
            f.sum = local_conversion(&f.spec, i, &done);
            run(&f, done);
            if (f.sum && done == LETTER_G && f.spec.from == LETTER_N && !code) {
                f.spec.redop = DTYPE_AVG;
                run(&f, done);
                f.spec.redop = DTYPE_SUM;
            }
        }
    layout_release(&f.l);
}

TEST(test_conversions)
{
    static const char *const shapes[] = {"1x1", "2x2",   "[3,2]",   "4x2",    "1x5",
                                         "3x1", "[1,4]", "[4,4,3]", "[2,3,1]"};
    static const int64_t lengths[] = {0, 1, 7, 64, 997};

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t j = 0; j < sizeof lengths / sizeof *lengths; j++) {
            for (int code = 0; code <= EXEC_CODE_INT8; code++) {
                all_conversions(shapes[i], lengths[j], 0, (enum exec_code)code);
                all_conversions(shapes[i], lengths[j], 64, (enum exec_code)code);
            }
        }
}

/* Any numbers, each block of its own size. */
static float any(int rank, int64_t x)
{
    return (float)ldexp(rng_normal(3, (uint64_t)rank, (uint64_t)x), (int)(x / 100 % 40) - 20);
}

/* Where rank has element x under a letter, or NULL. */
static const float *element(const struct fixture *f, void *const *buffer, int rank,
                            enum letter letter, int64_t x)
{
    struct range r[64];
    int n = layout_ranges(&f->l, letter, rank, f->spec.elems, r);
    int64_t at = layout_offset(r, n, x);

    return at < 0 ? NULL : (const float *)buffer[rank] + at;
}

static void fill_any(struct fixture *f)
{
    struct range r[64];

    for (int rank = 0; rank < f->l.groups.ranks; rank++) {
        int n = layout_ranges(&f->l, f->spec.from, rank, f->spec.elems, r);
        float *v = f->on.in[rank];
        for (int i = 0; i < n; i++)
            for (int64_t x = r[i].lo; x < r[i].hi; x++)
                *v++ = any(f->sum ? rank : 0, x);
    }
}

/* Every copy of x is the same; the first of them. */
static float copies(const struct fixture *f, int64_t x)
{
    const float *first = NULL, *v;

    for (int r = 0; r < f->l.groups.ranks; r++) {
        if (!(v = element(f, f->on.out, r, f->spec.to, x)))
            continue;
        first = first ? first : v;
        assert_memory_equal(first, v, sizeof *v);
    }
    assert_non_null(first);
    return *first;
}

/* One run: rounded before, where that has to be. */
static void run_coded(struct fixture *f, int keep)
{
    fill_any(f);
    for (int r = 0; r < f->on.ranks; r++)
        exec_rows_round(&f->on.rows[r], EXEC_IN, f->on.in[r], keep ? f->on.residual[r] : NULL);
    run_local(f, keep);
}

/* Copies are what the first one, rounded, is; and the rounded place of a copy is the same. */
static void coded_gather(struct fixture *f)
{
    int64_t off = 0;

    prepare(f);
    run_coded(f, 0);
    for (int64_t x = 0; x < f->spec.elems; x++) {
        float v = copies(f, x);
        off += v != any(0, x);
        for (int r = 0; r < f->l.groups.ranks; r++) {
            const float *own = element(f, f->on.in, r, f->spec.from, x);
            assert_true(!own || *own == v);
        }
    }
    int crosses = f->spec.phases & SCHEDULE_GATHER_ACROSS && f->l.groups.count > 1;
    assert_int_equal(off > f->spec.elems / 4, crosses);
    for (int r = 0; r < f->l.groups.ranks; r++) { /* what a run leaves can be had without one */
        struct range to[64];
        int n = layout_ranges(&f->l, f->spec.to, r, f->spec.elems, to);
        float *whole = mem_new((size_t)f->spec.elems + 1, sizeof *whole), *v = whole;
        for (int i = 0; i < n; i++)
            for (int64_t x = to[i].lo; x < to[i].hi; x++)
                *v++ = any(0, x);
        exec_rows_round(&f->on.rows[r], EXEC_OUT, whole, NULL);
        assert_memory_equal(whole, f->on.out[r], (size_t)(v - whole) * sizeof *v);
        mem_free(whole);
    }
    local_close(&f->on);
}

/* Nothing is lost: over all elements, what came out of RUNS runs and what the residuals have is
 * what went in.  Each of the n - 1 adds of an element, and the one of a residual to it in each
 * of at most n codings, rounds by 2^-24 of at most n times the largest (and 2^-7 of that more).
 * Copies of a gather are no sums: what comes in, once, goes out. */
static void coded_sum(struct fixture *f, int keep)
{
    enum { RUNS = 3 };
    int n = f->l.groups.ranks, lossy = 0;
    double in = 0, out = 0, most = 0;

    prepare(f);
    for (int turn = 0; turn < RUNS; turn++) {
        run_coded(f, keep);
        for (int64_t x = 0; x < f->spec.elems; x++)
            out += (double)copies(f, x);
    }
    fill_any(f);
    for (int r = 0; r < n; r++) {
        lossy |= f->on.rows[r].residual_elems > 0;
        for (int64_t i = 0; i < f->on.rows[r].residual_elems; i++)
            out += (double)f->on.residual[r][i];
    }
    for (int64_t x = 0; x < f->spec.elems; x++) {
        double largest = 0;
        for (int r = 0; r < n; r++) {
            const float *v = element(f, f->on.in, r, f->spec.from, x);
            in += v ? RUNS * (double)*v : 0;
            largest = fmax(largest, v ? fabs((double)*v) : 0);
        }
        most += n * largest;
    }
    double bound = RUNS * 2 * n * 0x1.1p-24 * most;
    const unsigned across = SCHEDULE_REDUCE_ACROSS | SCHEDULE_GATHER_ACROSS;
    int exchange =
        (f->spec.algo == SCHEDULE_DOUBLING || f->spec.algo == SCHEDULE_TWO_LEVEL_DOUBLING) &&
        (f->spec.phases & across) == across;
    assert_int_equal(lossy, f->l.groups.count > 1 && !exchange && f->spec.phases & across);
    if (keep || !lossy)
        assert_true(fabs(out - in) <= bound);
    else if (f->spec.code == EXEC_CODE_INT8) /* what bf16 loses is not always more */
        assert_true(fabs(out - in) > bound);
    local_close(&f->on);
}

TEST(test_coded)
{
    static const char *const shapes[] = {"2x2", "[3,2]", "4x2", "1x3", "3x1", "[4,4,3]"};

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int at = 0; at < 2 * SCHEDULE_ALGOS; at++) {
            int algo = at / 2;
            struct fixture f = {.spec = LIST(.elems = 1501, .type = DTYPE_F32,
                                             .chunk_bytes = algo % 2 ? 0 : 1200,
                                             .algo = (enum schedule_algo)algo,
                                             .code = at % 2 ? EXEC_CODE_INT8 : EXEC_CODE_BF16)};
            shape(&f.l, shapes[i]);
            for (int c = 0; c < LOCAL_MICRO; c++) {
                enum letter done;
                f.sum = local_conversion(&f.spec, c, &done);
                if (f.sum) {
                    coded_sum(&f, 0);
                    coded_sum(&f, 1);
                } else if (f.spec.from != f.spec.to) {
                    coded_gather(&f);
                }
            }
            layout_release(&f.l);
        }
}

static void subtract(void *to, const void *arrived, int64_t n, void *arg)
{
    for (int64_t i = 0; i < n; i++)
        ((float *)to)[i] -= ((const float *)arrived)[i];
    *(int *)arg += (int)n;
}

/* Another's operation combines what arrives with the base, which may be the place itself. */
TEST(an_add_of_anothers)
{
    const float base[2] = {7, 5}, arrived[2] = {1, 2};
    int elems = 0;
    const struct exec_rows rows = {
        .type = DTYPE_F32, .elem_bytes = 4, .combine = subtract, .combine_arg = &elems};
    const struct exec_row row = {.op = SCHEDULE_ADD, .bytes = sizeof base};

    for (int in_place = 0; in_place < 2; in_place++) {
        float to[2] = {0};
        if (in_place)
            memcpy(to, base, sizeof base);
        exec_row_land(&rows, &row, to, in_place ? to : base, arrived, NULL);
        assert_true(to[0] == 6);
        assert_true(to[1] == 3);
    }
    assert_int_equal(elems, 4);
}

/* A request without a code is an error. */
TEST(test_no_code)
{
    static const struct {
        enum dtype type;
        enum dtype_op op;
        const char *text;
    } bad[] = {{DTYPE_F16, DTYPE_SUM, "f16, expected f32 or bf16"},
               {DTYPE_F64, DTYPE_SUM, "f64, expected f32 or bf16"},
               {DTYPE_F32, DTYPE_MAX, "max, expected a sum or an average"}};
    struct coll c = {0};

    shape(&c.layout, "2x1");
    for (int i = 0; i < 3; i++) {
        struct coll_spec spec =
            LIST(.phases = layout_phases_sum(LETTER_N, LETTER_G), .to = LETTER_G, .elems = 64,
                 .type = bad[i].type, .redop = bad[i].op, .code = EXEC_CODE_INT8);
        struct exec_rows rows;

        assert_error(coll_rows(&c, &spec, 0, &rows, &err), ERR_INPUT);
        assert_non_null(strstr(err.text, bad[i].text));
    }
    layout_release(&c.layout);
}

/* No element, fewer elements than ranks: no row, no scratch, nothing to wait for. */
TEST(test_empty)
{
    struct coll c = {0};
    struct exec_rows rows;
    struct coll_spec spec =
        LIST(.phases = layout_phases_sum(LETTER_N, LETTER_N), .from = LETTER_N, .to = LETTER_N,
             .type = DTYPE_F32, .algo = SCHEDULE_HO_RING);

    shape(&c.layout, "[3,2]");
    for (spec.elems = 0; spec.elems < 2; spec.elems++) {
        int64_t moved = 0;
        for (int r = 0; r < 5; r++) {
            assert_ok(coll_rows(&c, &spec, r, &rows, &err));
            moved += rows.slow_bytes + rows.fast_bytes;
            for (int i = 0; i < rows.rows; i++)
                assert_int_equal(rows.row[i].bytes, spec.elems * 4);
            assert_true(rows.scratch_bytes == 0); /* out has room for all of it */
            assert_true(spec.elems || rows.rows == 0);
            exec_rows_release(&rows);
        }
        /* One element goes from four ranks to its owner and back. */
        assert_int_equal(moved, spec.elems * 4 * 2 * 4);
    }
    layout_release(&c.layout);
}

/* A row that reads what the input does not have is told, not run: all of it, of a shard. */
TEST(test_absent_input)
{
    struct coll c = {0};
    struct exec_rows rows;
    struct coll_spec spec =
        LIST(.phases = layout_phases_sum(LETTER_N, LETTER_G), .from = LETTER_G, .to = LETTER_G,
             .elems = 64, .type = DTYPE_F32, .algo = SCHEDULE_RING);

    shape(&c.layout, "2x2");
    assert_error(coll_rows(&c, &spec, 0, &rows, &err), ERR_MISMATCH);
    assert_non_null(strstr(err.text, "not in the input"));
    layout_release(&c.layout);
}

/* MPI's own blocks: each begins where the one before ends, and none is larger by two. */
TEST(native_blocks_follow_each_other)
{
    for (int ranks = 1; ranks < 8; ranks++)
        for (int64_t elems = 0; elems < 40; elems++) {
            int64_t end = 0, lo, hi;
            for (int r = 0; r < ranks; r++, end = hi) {
                exec_native_block(elems, r, ranks, &lo, &hi);
                assert_int_equal(lo, end);
                assert_in_range(hi - lo, elems / ranks, elems / ranks + 1);
            }
            assert_int_equal(end, elems);
        }
}
