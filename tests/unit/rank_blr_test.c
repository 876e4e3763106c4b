/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of features and y: what is passed over, what is refused and where; what is shown.
 * A Gaussian linear model's evidence against values worked out apart, and against the marginal
 * covariance v_n I + v_0 X X' of all rows at once in 113 bits.
 */
#include "unit.h"

#include <fcntl.h>
#include <float.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rng.h"
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

TEST(rows_are_read)
{
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

TEST(what_is_no_row_is_refused)
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

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refused(bad[i].text, (int64_t)strlen(bad[i].text), bad[i].line, bad[i].why);
    refused("1\t2\n1\t\0002\n", 9, 2, "t.tsv:2: has a zero byte");
}

TEST(what_is_too_large_is_refused)
{
    size_t bytes = 2 * (RANK_BLR_FEATURES_MAX + 2);
    char *text = mem_new(RANK_BLR_LINE_MAX + 3, 1), why[80];

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
TEST(files_are_read)
{
    enum { ROWS = 5000 };
    char path[TEMP_PATH];
    int fd = temp_file(path, "blr"), in = dup(0);
    FILE *f = fdopen(fd, "w");
    struct rank_blr_data d = {0};
    const char *name;
    struct err err;

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
TEST(files_are_bounded_together)
{
    char path[2][TEMP_PATH];
    const char *name[2] = {path[0], path[1]};
    struct rank_blr_data d[2] = {0};
    struct err err = {0};

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
static char *shown(const struct rank_blr_data *d, int models, const struct rank_blr_options *o,
                   int json)
{
    struct rank_blr_weights w = {0};
    struct err err;
    size_t bytes = 0;
    char *text = NULL;
    FILE *f = mem_stream(&text, &bytes);

    assert_int_equal(rank_blr_weigh(d, models, o, &w, &err), 0);
    (json ? rank_blr_print_json : rank_blr_print)(&w, f);
    rank_blr_weights_release(&w);
    fclose(f);
    return text;
}

static void has(char *text, const char *what)
{
    if (!strstr(text, what))
        fail_msg("'%s' is not in\n%s", what, text);
    mem_free(text);
}

/* Numbers of six decimals, worked out apart. */
TEST(results_are_shown)
{
    struct rank_blr_data d[] = {blr_parse("line.tsv", line_tsv),
                                blr_parse("a \"b\"", line_tsv)};
    struct rank_blr_options o = line_options;

    has(shown(d, 1, &o, 0),
        "# line.tsv: 8 rows of 2 features, prior variance 1, noise variance 0.25\n"
        "quantity               nats       nats/row\n"
        "log_P             -5.320864      -0.665108  exact\n"
        "L                 -7.617938      -0.952242  exact\n"
        "KL                 2.297074       0.287134  exact\n");
    has(shown(d, 1, &o, 1), "\"schema\": \"paro.rank.blr/1\"");
    has(shown(d, 1, &o, 1), "\"bound_k\": null,\n      \"sampled\": null\n");
    o = (struct rank_blr_options){1, 0.25, 3, 4, 5, 6, 1};
    has(shown(d, 1, &o, 0), "\nL_3 ");
    has(shown(d, 1, &o, 0), " of 6 repeats)\nL_sampled ");
    has(shown(d, 1, &o, 0), " of 4 samples)\n");
    has(shown(d, 1, &o, 0), "        1              0              1      -1.034510");
    has(shown(d, 1, &o, 1), "\"bound_k\": {\n        \"k\": 3,\n        \"value\": ");
    has(shown(d, 1, &o, 1),
        "\"mean\": 0,\n          \"variance\": 1,\n          \"log_p\": -1.03");
    has(shown(d, 2, &o, 0), "L_sampled           +-  evidence      combined features  model\n");
    has(shown(d, 2, &o, 0), "  0.500000      0.51");
    has(shown(d, 2, &o, 1), "\"name\": \"a \\\"b\\\"\",");
    has(shown(d, 2, &o, 1), "\"evidence\": 0.5,\n");
    for (int m = 0; m < 2; m++)
        rank_blr_data_release(&d[m]);
}

/* Data whose features are hard to tell apart; owned by the caller. */
struct hard {
    struct rank_blr_data d;
    double kappa; /* root of v_0 |x|^2 / v_n, at most */
};

enum { HARD_ROWS = 60, HARD_KINDS = 3 };

/* Columns of any sort; powers of a position; one column and 1e-10 of others: condition 1e10. */
static double hard_feature(int kind, int i, int j, int features)
{
    double own = rng_normal(1, (uint64_t)kind, (uint64_t)(i * features + j));

    if (kind == 0)
        return own;
    if (kind == 1)
        return pow((i + 1.0) / HARD_ROWS, j);
    return rng_normal(2, 0, (uint64_t)i) + 1e-10 * own;
}

static struct hard hard_new(int kind, int features, double noise_var)
{
    struct hard h = {.d = {.name = mem_dup("hard"),
                           .x = mem_new((size_t)(HARD_ROWS * features), sizeof(double)),
                           .y = mem_new(HARD_ROWS, sizeof(double)),
                           .rows = HARD_ROWS,
                           .features = features}};

    for (int i = 0; i < HARD_ROWS; i++) {
        double squares = 0, *x = h.d.x + i * features;
        h.d.y[i] = sqrt(noise_var) * rng_normal(3, (uint64_t)kind, (uint64_t)i);
        for (int j = 0; j < features; j++) {
            x[j] = hard_feature(kind, i, j, features);
            h.d.y[i] += x[j] * rng_normal(4, (uint64_t)kind, (uint64_t)j);
            squares += x[j] * x[j];
        }
        h.kappa = fmax(h.kappa, sqrt(squares / noise_var));
    }
    return h;
}

/*
 * The second opinion: M = v_n I + v_0 X X' = L D L' of all rows.  As y ~ N(0, M), L^-1 y are
 * the errors of each row predicted from those before it, and D their variances v_n + q.  In
 * 113 bits: 60 rows lose 60 * 2^-113 * kappa^2 of a variance, 1e-12 of it at kappa 1e10.
 */
static void refer(const struct rank_blr_data *d, const struct rank_blr_options *o, double *q,
                  double *e)
{
    int n = (int)d->rows;
    _Float128 *m = mem_new((size_t)(n * n), sizeof *m), *z = mem_new((size_t)n, sizeof *z);

    for (int i = 0; i < n; i++) {
        z[i] = d->y[i];
        for (int j = 0; j <= i; j++) {
            _Float128 sum = i == j ? o->noise_var : 0;
            for (int k = 0; k < d->features; k++)
                sum += (_Float128)o->prior_var * d->x[i * d->features + k] *
                       d->x[j * d->features + k];
            for (int k = 0; k < j; k++)
                sum -= m[i * n + k] * m[j * n + k] * m[k * n + k];
            m[i * n + j] = i == j ? sum : sum / m[j * n + j];
        }
        for (int j = 0; j < i; j++)
            z[i] -= m[i * n + j] * z[j];
        q[i] = (double)(m[i * n + i] - o->noise_var);
        e[i] = (double)z[i];
    }
    mem_free(m);
    mem_free(z);
}

/*
 * A row rounds an entry of U, which began at sqrt(v_0), d + 4 times at most, and later rows
 * only shrink what is there (|G| <= 1): n rows leave n (d + 4) eps sqrt(v_0) of error, to first
 * order.  Times |x|, in units of sqrt(v_n + q) >= sqrt(v_n), that is n (d + 4) eps kappa of f,
 * and twice that of q = f'f beside v_n + q.  The mean goes the same way from numbers of its own
 * size: no feature's weight here is above 6 sqrt(v_0), so its length is 6 sqrt(d) at most.
 */
static double tolerance(const struct hard *h)
{
    int d = h->d.features;

    return HARD_ROWS * (d + 4) * DBL_EPSILON * h->kappa;
}

static void check_hard(const struct hard *h, const struct rank_blr_options *o)
{
    double q[HARD_ROWS], e[HARD_ROWS], log_p = 0, bound = 0, of_log_p = 0, of_bound = 0;
    double v = o->noise_var, of_q = 2 * tolerance(h);
    double of_e = (1 + 6 * sqrt(h->d.features)) * tolerance(h), of_sum = 0;
    struct rank_blr r = blr_run(&h->d, o);

    refer(&h->d, o, q, e);
    for (int i = 0; i < HARD_ROWS; i++) {
        double all = v + q[i], far = fabs(e[i]) / sqrt(all);
        const struct rank_blr_item *t = &r.item[i];
        assert_true(t->var >= 0 && fabs(t->var - q[i]) <= of_q * all);
        assert_true(fabs(h->d.y[i] - t->mean - e[i]) <= of_e * sqrt(all));
        log_p += -0.5 * (log(2 * PI * all) + far * far);
        bound += -0.5 * (log(2 * PI * v) + (e[i] * e[i] + q[i]) / v);
        /* The derivatives of both by q and e, with the second order of e's square. */
        of_log_p += 0.5 * of_q * (1 + far * far) + (far + of_e) * of_e;
        of_bound += (0.5 * of_q + (far + of_e) * of_e) * all / v;
        assert_true(t->kl >= -16 * DBL_EPSILON * (1 + q[i] / v));
        /* The move that KL measures is a difference of predictions, each as far off as e. */
        of_sum += 2 * of_e * sqrt(all) * fabs(e[i]) / v;
    }
    assert_true(fabs(r.log_p - log_p) <= of_log_p);
    assert_true(fabs(r.bound - bound) <= of_bound);
    /* A row's terms and determinant round d + 8 times, and n of them are added up. */
    of_sum += (HARD_ROWS + h->d.features + 8) * DBL_EPSILON *
              (fabs(r.log_p) + fabs(r.bound) + fabs(r.kl));
    assert_true(fabs(r.log_p - (r.bound + r.kl)) <= of_sum);
    rank_blr_release(&r);
}

/* Largest error of q beside v_n + q where S -= S x (S x)' / (v_n + q) is done as it is written.
 */
static double plain_error(const struct hard *h, const struct rank_blr_options *o)
{
    int d = h->d.features;
    double q[HARD_ROWS], e[HARD_ROWS], worst = 0;
    double *s = mem_new((size_t)(d * d), sizeof *s), *sx = mem_new((size_t)d, sizeof *sx);

    refer(&h->d, o, q, e);
    for (int j = 0; j < d; j++)
        s[j * d + j] = o->prior_var;
    for (int i = 0; i < HARD_ROWS; i++) {
        const double *x = h->d.x + i * d;
        double now = 0;
        for (int j = 0; j < d; j++) {
            sx[j] = rank_blr_dot(s + j * d, x, d);
            now += sx[j] * x[j];
        }
        for (int j = 0; j < d * d; j++)
            s[j] -= sx[j / d] * sx[j % d] / (o->noise_var + now);
        worst = fmax(worst, fabs(now - q[i]) / (o->noise_var + q[i]));
    }
    mem_free(s);
    mem_free(sx);
    return worst;
}

TEST(hard_data_keep_their_digits)
{
    int broken = 0;

    for (int kind = 0; kind < HARD_KINDS; kind++)
        for (int features = 1; features <= 40; features += 13)
            for (double noise_var = 1; noise_var > 1e-21; noise_var *= 1e-4) {
                const struct rank_blr_options o = {1, noise_var, .items = 1};
                struct hard h = hard_new(kind, features, noise_var);
                check_hard(&h, &o);
                /* Data that any recursion can do would show nothing. */
                broken += plain_error(&h, &o) > 2 * tolerance(&h);
                rank_blr_data_release(&h.d);
            }
    assert_true(broken > 20);
}

/* P(D) knows no order; L(D) does, its first rows cost most. */
TEST(evidence_has_no_order)
{
    const struct rank_blr_options o = {.prior_var = 2, .noise_var = 0.01};
    struct hard h = hard_new(0, 7, 0.01);
    struct rank_blr there = blr_run(&h.d, &o);

    for (int i = 0; i < HARD_ROWS / 2; i++) {
        int k = HARD_ROWS - 1 - i, d = h.d.features;
        double y = h.d.y[i];
        h.d.y[i] = h.d.y[k];
        h.d.y[k] = y;
        for (int j = 0; j < d; j++) {
            double x = h.d.x[i * d + j];
            h.d.x[i * d + j] = h.d.x[k * d + j];
            h.d.x[k * d + j] = x;
        }
    }
    struct rank_blr back = blr_run(&h.d, &o);
    /*
     * check_hard's bound of a row at errors within 4 deviations: 1 + 4^2 + 4 (1 + 6 sqrt(7)) <
     * 100 tolerances, root 2 larger as v_0 is 2.
     */
    assert_true(fabs(there.log_p - back.log_p) < 2 * HARD_ROWS * 142 * tolerance(&h));
    assert_true(fabs(there.bound - back.bound) > 1);
    rank_blr_data_release(&h.d);
}

static void refuses(const struct rank_blr_data *d, struct rank_blr_options o, const char *why)
{
    struct rank_blr r = {0};
    struct err err = {0};

    assert_int_equal(rank_blr_run(d, &o, &r, &err), -1);
    if (err.code != ERR_INPUT || !strstr(err.text, why))
        fail_msg("'%s' is not of '%s'", err.text, why);
}

TEST(what_cannot_be_is_refused)
{
    struct rank_blr_data d = blr_parse("line.tsv", line_tsv);
    const int64_t many = 1 << 26;

    refuses(&d, (struct rank_blr_options){0, 1, 0, 0, 0, 0, 0},
            "prior variance is 0, expected");
    refuses(&d, (struct rank_blr_options){NAN, 1, 0, 0, 0, 0, 0}, "prior variance is ");
    refuses(&d, (struct rank_blr_options){1, -1, 0, 0, 0, 0, 0}, "noise variance is -1");
    refuses(&d, (struct rank_blr_options){1, INFINITY, 0, 0, 0, 0, 0}, "noise variance is inf");
    refuses(&d, (struct rank_blr_options){1, 1, -1, 0, 0, 0, 0}, "L_k of -1");
    refuses(&d, (struct rank_blr_options){1, 1, RANK_BLR_K_MAX + 1, 0, 0, 0, 0}, "L_k of ");
    refuses(&d, (struct rank_blr_options){1, 1, 0, 1, 0, 0, 0}, "1 samples, expected 0, or 2");
    refuses(&d, (struct rank_blr_options){1, 1, 0, -2, 0, 0, 0}, "-2 samples");
    refuses(&d, (struct rank_blr_options){1, 1, 5, 0, 0, 1, 0}, "1 repeats");
    refuses(&d, (struct rank_blr_options){1, 1, 0, INT64_MAX, 0, 0, 0}, "samples, expected");
    /* 3 doubles a sample. */
    refuses(&d, (struct rank_blr_options){1, 1, 0, many, 0, 0, 0}, "needs 1.50 GiB of memory");
    rank_blr_data_release(&d);
    d = blr_parse("far.tsv", "1\t0\t1\n0\t1e100\t1\n");
    refuses(&d, (struct rank_blr_options){1e100, 1e-100, 0, 0, 0, 0, 0},
            "'far.tsv': row 2 of 2 overflows");
    rank_blr_data_release(&d);
}
