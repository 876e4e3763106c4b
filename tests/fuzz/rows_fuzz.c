/* SPDX-License-Identifier: BSD-3-Clause */
/* Feeds bytes to the reader of paro-bench's rows (paro-bench --read). */
#include "reader_fuzz.h"

#include <math.h>

#include "bench/bench.h"
#include "bench/bench_parts.h"

static int parse(struct bench_rows *all, const void *data, size_t bytes)
{
    struct err err = {0};
    char *text = fuzz_copy(data, bytes);

    *all = (struct bench_rows){0};
    int rc = fuzz_judge(bench_read_lines(FUZZ_NAME, text, all, &err), &err);
    mem_free(text);
    if (rc)
        mem_free(all->row);
    return rc;
}

static char *print(const struct bench_rows *all, enum bench_format format, size_t *bytes)
{
    const struct bench_options o = {.format = format, .percentiles = 1};
    char *text = NULL;
    FILE *f = mem_stream(&text, bytes);

    for (int i = 0; i < all->rows; i++)
        bench_print_row(&o, &all->row[i], i == 0, f);
    fclose(f);
    return text;
}

static void plot(const struct bench_rows *all)
{
    char *text;
    size_t bytes = 0;
    FILE *f = mem_stream(&text, &bytes);

    bench_plot(all->row, all->rows, "t", f);
    fclose(f);
    assert(strstr(text, "</svg>"));
    int named = 0; /* by a setting, which may be any word */
    for (int i = 0; i < all->rows; i++)
        named |= all->row[i].setting[0];
    assert(named || (!strstr(text, "nan") && !strstr(text, "inf")));
    free(text);
}

static void check(const struct bench_row *r)
{
    struct groups g = {0};
    struct err err;

    assert(r->ranks > 0 && r->bytes >= 0 && r->elems >= 0 && r->launches > 0);
    assert(r->launches <= 1000000);
    assert(r->wrong >= -1 && isfinite(r->time_s[BENCH_MEDIAN]) && r->time_s[BENCH_MEDIAN] >= 0);
    int rc = groups_parse(&g, r->shape, &err);
    assert(rc == 0 && g.ranks == r->ranks);
    groups_release(&g);
}

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    struct bench_rows all, back;
    size_t first_bytes = 0, again_bytes = 0, other_bytes = 0;

    if (parse(&all, data, bytes))
        return 0;
    for (int i = 0; i < all.rows; i++)
        check(&all.row[i]);
    char *first = print(&all, BENCH_JSON, &first_bytes);
    free(print(&all, BENCH_TEXT, &other_bytes));
    free(print(&all, BENCH_CSV, &other_bytes));
    if (all.rows)
        plot(&all);
    int rc = parse(&back, first, first_bytes), rows = all.rows;
    assert(rc == 0 && back.rows == rows);
    char *again = print(&back, BENCH_JSON, &again_bytes);
    fuzz_same(first, first_bytes, again, again_bytes);
    mem_free(all.row);
    mem_free(back.row);
    return rows > 0;
}

FUZZ_SET(.name = "rows", .cases = 6000, .ends = " \n:,{}",
         .words = FUZZ_LIST("0", "-1", "1", "1e308", "null", "true", "\"\"", "{}", "[]",
                            "\"none\"", "\"sum\"", "\"auto\"", "\"mpi\"", "\"[2,1]\"",
                            "\"2x2\"", "4", "5", "1125899906842624", "9223372036854775807",
                            "9223372036854775808", "\"wrong\"", "\"chosen\"", "\\u0000", "\xff",
                            "\n"),
         .files = FUZZ_LIST("tests/fuzz/corpus/rows/measured", "tests/fuzz/corpus/rows/auto"));
