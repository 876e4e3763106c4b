/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of features and y: what is passed over, what is refused and where; what is shown.
 */
#include <fcntl.h>
#include <unistd.h>

#include "base/mem.h"
#include "rank_blr_fixture.h"
#include "temp_fixture.h"

static void check_rows(const char *text, int64_t rows, int features, double last)
{
    struct rank_blr_data d = blr_parse("t", text);

    assert_true(d.rows == rows && d.features == features);
    assert_true(d.y[rows - 1] == last);
    assert_string_equal(d.name, "t");
    rank_blr_data_release(&d);
}

static void rows_are_read(void **state)
{
    (void)state;
    check_rows("1\t2\n", 1, 1, 2);
    check_rows("1\t2", 1, 1, 2);
    check_rows("# what it is\n\n   \na\tb\n1\t2\n#1\t3\n 1 \t 4.5e-1 \r\n", 2, 1, 0.45);
    check_rows("info\tnano\tx-1\n1\t-2\t.5\n", 1, 2, 0.5);
    check_rows("1e100\t-1e100\t+3\n", 1, 2, 3);
    check_rows("\xef\xbb\xbf"
               "1\t2\n3\t4\n",
               2, 1, 4);
    check_rows("\xef\xbb\xbf"
               "a\tb\n1\t2\n",
               1, 1, 2);

    struct rank_blr_data d = blr_parse("t", "1\t2\t3\n4\t5\t6\n");
    assert_true(d.x[0] == 1 && d.x[1] == 2 && d.x[2] == 4 && d.x[3] == 5);
    assert_true(d.y[0] == 3 && d.y[1] == 6);
    rank_blr_data_release(&d);
}

static void refused(const char *text, int64_t bytes, int line, const char *why)
{
    struct rank_blr_data d = {0};
    struct err err = {0};

    assert_int_equal(rank_blr_read_text("t.tsv", text, bytes, &d, &err), -1);
    assert_true(err.code == ERR_INPUT && err.line == line && !d.x && !d.y && !d.name);
    if (!strstr(err.text, why) || strncmp(err.text, "t.tsv", 5) != 0)
        fail_msg("'%s' is not of '%s'", err.text, why);
}

static void what_is_no_row_is_refused(void **state)
{
    static const struct {
        const char *text;
        int line;
        const char *why;
    } bad[] = {
        {"", 0, "t.tsv: has no row"},
        {"# nothing\n\n", 0, "has no row"},
        {"x\ty\n", 0, "has no row"},
        {"1\n", 1, "t.tsv:1: has one column"},
        {"1 2\n", 1, "has one column"},
        {"1,2,3\n", 1, "has one column"},
        {"1\t2\n\n1\t2\t3\n", 3, "t.tsv:3: has 3 columns, expected 2"},
        {"1\t2\t3\n1\t2\n", 2, "has 2 columns, expected 3"},
        {"a\tb\tc\n1\t2\n", 2, "has 2 columns, expected 3"},
        {"1\t2\na\tb\n", 2, "t.tsv:2: 'column 1' is 'a', expected a number"},
        {"a\tb\na\tb\n", 2, "'column 1' is 'a'"},
        {"a\t2\n", 1, "'column 1' is 'a'"},
        {"1\t2x\n", 1, "'column 2' is '2x'"},
        {"nan\tinf\n", 1, "'column 1' is 'nan'"},
        {"a\tINFINITY\n", 1, "'column 1' is 'a'"},
        {"1\t0x10\n", 1, "'column 2' is '0x10'"},
        {"1\t010\n", 1, "'column 2' is '010'"},
        {"1\t1e101\n", 1, "from -1e+100 to 1e+100"},
        {"1\t\n", 1, "'column 2' is ''"},
        {"\t\t\n", 1, "'column 1' is ''"},
        {"1\t2\t\n", 1, "'column 3' is ''"},
        {"1\t2 3\n", 1, "'column 2' is '2 3'"},
        {"1\t2\n\xef\xbb\xbf"
         "3\t4\n",
         2, "'column 1' is '"},
        {"\xff\xfe"
         "1",
         1, "t.tsv:1: is UTF-16, expected UTF-8"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refused(bad[i].text, (int64_t)strlen(bad[i].text), bad[i].line, bad[i].why);
    refused("1\t2\n1\t\0002\n", 9, 2, "t.tsv:2: has a zero byte");
}

static void what_is_too_large_is_refused(void **state)
{
    size_t bytes = 2 * (RANK_BLR_FEATURES_MAX + 2);
    char *text = mem_new(RANK_BLR_LINE_MAX + 3, 1), why[80];

    (void)state;
    for (size_t i = 0; i < bytes; i += 2)
        memcpy(text + i, "1\t", 2);
    text[bytes - 1] = '\n';
    snprintf(why, sizeof why, "t.tsv:1: has %d features, expected %d at most",
             RANK_BLR_FEATURES_MAX + 1, RANK_BLR_FEATURES_MAX);
    refused(text, (int64_t)bytes, 1, why);
    text[bytes - 3] = '\n';
    struct rank_blr_data d = {0};
    struct err err;
    assert_int_equal(rank_blr_read_text("t", text, (int64_t)bytes - 2, &d, &err), 0);
    assert_true(d.rows == 1 && d.features == RANK_BLR_FEATURES_MAX);
    rank_blr_data_release(&d);

    memset(text, '#', RANK_BLR_LINE_MAX + 1); /* a comment is a line too */
    text[RANK_BLR_LINE_MAX] = '\n';
    memcpy(text + RANK_BLR_LINE_MAX + 1, "1", 2);
    refused(text, RANK_BLR_LINE_MAX + 2, 2, "has one column");
    text[RANK_BLR_LINE_MAX] = '#';
    refused(text, RANK_BLR_LINE_MAX + 2, 1, "has more than 262144 bytes");
    mem_free(text);
}

/* From a file, whatever its size is, from stdin, and not from where there is nothing. */
static void files_are_read(void **state)
{
    enum { ROWS = 5000 };
    char path[TEMP_PATH];
    int fd = temp_file(path, "blr"), in = dup(0);
    FILE *f = fdopen(fd, "w");
    struct rank_blr_data d = {0};
    const char *name;
    struct err err;

    (void)state;
    for (int i = 0; i < ROWS; i++)
        fprintf(f, "%d\t%d\t%d\n", i, 2 * i, 3 * i);
    fclose(f);
    for (int std = 0; std < 2; std++) {
        if (std) {
            fd = open(path, O_RDONLY);
            assert_int_equal(dup2(fd, 0), 0);
            close(fd);
        }
        name = std ? "-" : path;
        assert_int_equal(rank_blr_read(&name, 1, RANK_BLR_BYTES_MAX, &d, &err), 0);
        assert_string_equal(d.name, std ? "stdin" : path);
        assert_true(d.rows == ROWS && d.features == 2);
        for (int i = 0; i < ROWS; i++)
            assert_true(d.x[2 * i] == i && d.x[2 * i + 1] == 2 * i && d.y[i] == 3 * i);
        rank_blr_data_release(&d);
    }
    assert_true(fcntl(0, F_GETFD) >= 0); /* stdin is not closed */
    dup2(in, 0);
    close(in);
    unlink(path);
    name = path;
    assert_int_equal(rank_blr_read(&name, 1, RANK_BLR_BYTES_MAX, &d, &err), -1);
    assert_true(err.code == ERR_ABSENT && strstr(err.text, path));
    name = "/";
    assert_int_equal(rank_blr_read(&name, 1, RANK_BLR_BYTES_MAX, &d, &err), -1);
    assert_true(err.code == ERR_SYS && strstr(err.text, "'/'"));
}

/* One bound for all, not one for each. */
static void files_are_bounded_together(void **state)
{
    char path[2][TEMP_PATH];
    const char *name[2] = {path[0], path[1]};
    struct rank_blr_data d[2] = {0};
    struct err err = {0};

    (void)state;
    for (int i = 0; i < 2; i++) {
        int fd = temp_file(path[i], "blr");
        assert_int_equal(write(fd, "1\t2\n3\t4\n", 8), 8);
        close(fd);
    }
    assert_int_equal(rank_blr_read(name, 2, 8 * (int64_t)sizeof(double), d, &err), 0);
    assert_true(d[1].rows == 2);
    rank_blr_data_release(&d[0]);
    rank_blr_data_release(&d[1]);
    assert_int_equal(rank_blr_read(name, 2, 8 * (int64_t)sizeof(double) - 1, d, &err), -1);
    assert_true(
        err.code == ERR_INPUT && err.line == 2 && strstr(err.text, path[1]) &&
        strstr(err.text, "is row 2 of 2 columns, expected 63 B of numbers at most, in all"));
    assert_true(!d[0].x && !d[1].x);
    unlink(path[0]);
    unlink(path[1]);
}

/* Owned by the caller. */
static char *shown(const struct rank_blr *r, const struct rank_blr_weights *w, int json)
{
    size_t bytes = 0;
    char *text = NULL;
    FILE *f = mem_stream(&text, &bytes);

    if (r)
        (json ? rank_blr_print_json : rank_blr_print)(r, f);
    else
        (json ? rank_blr_weights_print_json : rank_blr_weights_print)(w, f);
    fclose(f);
    return text;
}

static void has(char *text, const char *what)
{
    if (!strstr(text, what))
        fail_msg("'%s' is not in\n%s", what, text);
    mem_free(text);
}

static void results_are_shown(void **state)
{
    struct rank_blr_data d[] = {blr_parse("line.tsv", line_tsv),
                                blr_parse("a \"b\"", line_tsv)};
    struct rank_blr_options o = line_options;
    struct rank_blr r = blr_run(d, &o);
    struct rank_blr_weights w = {0};
    struct err err;

    (void)state;
    has(shown(&r, NULL, 0),
        "# line.tsv: 8 rows of 2 features, prior variance 1, noise variance 0.25\n"
        "quantity               nats       nats/row\n"
        "log_P             -5.320864      -0.665108  exact\n"
        "L                 -7.617938      -0.952242  exact\n"
        "KL                 2.297074       0.287134  exact\n");
    has(shown(&r, NULL, 1), "\"schema\": \"paro.rank.blr/1\"");
    has(shown(&r, NULL, 1), "\"bound_k\": null,");
    o = (struct rank_blr_options){1, 0.25, 3, 4, 5, 6, 1};
    r = blr_run(d, &o);
    has(shown(&r, NULL, 0), "\nL_3 ");
    has(shown(&r, NULL, 0), " of 6 repeats)\nL_sampled ");
    has(shown(&r, NULL, 0), " of 4 samples)\n");
    has(shown(&r, NULL, 0), "        1              0              1      -1.034510");
    has(shown(&r, NULL, 1), "\"bound_k\": {\n        \"k\": 3,\n        \"value\": ");
    has(shown(&r, NULL, 1),
        "\"mean\": 0,\n          \"variance\": 1,\n          \"log_p\": -1.03");
    rank_blr_release(&r);

    assert_int_equal(rank_blr_weigh(d, 2, &o, &w, &err), 0);
    has(shown(NULL, &w, 0), "L_sampled           +-  evidence      combined features  model\n");
    has(shown(NULL, &w, 0), "  0.500000      0.51");
    has(shown(NULL, &w, 1), "\"name\": \"a \\\"b\\\"\",");
    has(shown(NULL, &w, 1), "\"evidence\": 0.5,\n");
    rank_blr_weights_release(&w);
    for (int m = 0; m < 2; m++)
        rank_blr_data_release(&d[m]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_read),
        cmocka_unit_test(what_is_no_row_is_refused),
        cmocka_unit_test(what_is_too_large_is_refused),
        cmocka_unit_test(files_are_read),
        cmocka_unit_test(files_are_bounded_together),
        cmocka_unit_test(results_are_shown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
