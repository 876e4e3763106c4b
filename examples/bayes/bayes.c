/* SPDX-License-Identifier: BSD-3-Clause */
/* bayes: the evidence of models by how fast they learn.  Options, data and output. */
#include "bayes.h"

#include <argp.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct verb {
    const char *name;
    int files; /* at most */
    void (*run)(const struct options *o, FILE *out);
} verbs[] = {{"evidence", 256, bayes_evidence},
             {"features", 0, bayes_features},
             {"variance", 0, bayes_variance},
             {"limit", 0, bayes_limit},
             {"networks", 0, bayes_networks}};

static const char *const kernels[] = {"linear", "relu", "ntk", "gram"};

enum { KEY = 0x100, VERBS = 5 }; /* no option has a letter */

static const struct argp_option table[] = {
    {"prior-var", KEY + PRIOR, "V", 0, "evidence: prior variance (default: 1)", 1},
    {"noise-var", KEY + NOISE, "V", 0, "evidence: variance of the noise on y (default: 1)", 1},
    {"kernel", KEY + KERNEL, "KERNEL", 0,
     "evidence: linear, relu or ntk of the features, or gram: DATA are Gram matrices (default: "
     "linear)",
     1},
    {"width", KEY + WIDTH, "N", 0,
     "evidence: hidden units of relu and ntk, 0: infinitely many (default: 0)", 1},
    {"items", KEY + ITEMS, NULL, 0, "evidence: also print the contribution of each row", 1},
    {"k", KEY + K, "N", 0, "Samples of the bound L_k (default: 10)", 2},
    {"samples", KEY + SAMPLES, "N", 0, "Runs of sample-then-optimise (default: 10)", 2},
    {"seed", KEY + SEED, "N", 0, "Seed of all random numbers (default: 1)", 2},
    {0}};

/* V: a number above 0, N: a whole one, no argument: 1 */
static error_t parse(int key, char *arg, struct argp_state *state)
{
    static const double least[OPTIONS] = {1e-100, 1e-100, 0, 0, 1, 2, 0, 0};
    struct options *o = state->input;
    char *end = "";
    int at = 0, i = key - KEY;

    if (i < 0 || i >= OPTIONS)
        return ARGP_ERR_UNKNOWN;
    while (table[at].key != key)
        at++;
    const struct argp_option *of = &table[at];
    if (i == KERNEL) {
        for (o->x[i] = 0; o->x[i] < 4 && strcmp(arg, kernels[(int)o->x[i]]) != 0;)
            o->x[i]++;
        if (o->x[i] == 4)
            errx(2, "--kernel is '%.40s', expected linear, relu, ntk or gram", arg);
        return 0;
    }
    double x = o->x[i] = arg ? strtod(arg, &end) : 1;
    int whole = of->arg && *of->arg == 'N';
    double most = whole ? 1e6 : 1e100;
    if (end == arg || *end || !(x >= least[i] && x <= most) || (whole && x != (int)x))
        errx(2, "--%s is '%.40s', expected a %snumber from %g to %g", of->name, arg,
             whole ? "whole " : "", least[i], most);
    return 0;
}

double *zeros(int64_t rows, int64_t n)
{
    double *p = calloc((size_t)(rows * n) + 1, sizeof *p);

    if (p == NULL)
        errx(2, "no memory for %g numbers", (double)rows * (double)n);
    return p;
}

/* SplitMix64. */
double uniform(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

/* Box and Muller; 1 - uniform() is never 0. */
double normal(uint64_t *state)
{
    double r = sqrt(-2 * log(1 - uniform(state)));

    return r * cos(8 * atan(1) * uniform(state));
}

/* The numbers of a line, with tabs between; 0 for a comment or an empty line. */
static int numbers(const char *path, int line, char *s, double **x)
{
    int n = 0;

    s[strcspn(s, "\r\n")] = 0;
    if (*s == '#' || *s == 0)
        return 0;
    for (char *word; (word = strsep(&s, "\t")) != NULL; n++) {
        char *end;
        *x = reallocarray(*x, (size_t)n + 1, sizeof **x);
        if (*x == NULL)
            errx(2, "no memory for %d columns", n);
        (*x)[n] = strtod(word, &end);
        if (end == word || *end || !(fabs((*x)[n]) <= 1e100))
            errx(2, "%s:%d: column %d is '%.40s', expected a number from -1e100 to 1e100", path,
                 line, n + 1, word);
    }
    return n;
}

struct data data_read(const char *path)
{
    struct data d = {.name = path};
    FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
    char *text = NULL;
    double *row = NULL;
    size_t bytes = 0;
    int line = 0;

    if (f == NULL)
        err(2, "cannot open '%s'", path);
    while (getline(&text, &bytes, f) >= 0) {
        int n = numbers(path, ++line, text, &row);
        if (n == 0)
            continue;
        if (n < 2 || (d.n && n != d.d + 1))
            errx(2, "%s:%d: %d columns, expected %d: features and y", path, line, n,
                 d.n ? d.d + 1 : 2);
        if (d.n == ROWS_MAX)
            errx(2, "%s:%d: row %d, expected at most %d", path, line, d.n + 1, ROWS_MAX);
        d.d = n - 1;
        d.x = reallocarray(d.x, (size_t)(d.n + 1) * (size_t)d.d, sizeof *d.x);
        d.y = reallocarray(d.y, (size_t)d.n + 1, sizeof *d.y);
        if (d.x == NULL || d.y == NULL)
            errx(2, "no memory for %d rows", d.n);
        memcpy(d.x + (int64_t)d.n * d.d, row, (size_t)d.d * sizeof *row);
        d.y[d.n++] = row[d.d];
    }
    if (ferror(f))
        err(2, "cannot read '%s'", path);
    if (d.n == 0)
        errx(2, "%s: no rows, expected at least 1", path);
    if (f != stdin)
        fclose(f);
    free(text);
    free(row);
    return d;
}

int main(int argc, char **argv)
{
    static const struct argp argp = {
        .options = table,
        .parser = parse,
        .args_doc = "evidence DATA...\nfeatures\nvariance\nlimit\nnetworks",
        .doc =
            "Compare models by the evidence and by how fast they learn.\v"
            "evidence ranks models of the same y, one DATA each: rows of features and y, with "
            "tabs between. features and variance do so for linear models of generated data, "
            "limit for networks of growing width. networks trains small networks and a linear "
            "combination of them together. Exit status after an error: 2."};
    struct options o = {.x = {1, 1, LINEAR, 0, 10, 10, 0, 1}}; /* in the order of the enum */
    const struct verb *verb = verbs, *end = verbs + VERBS;
    char *text = NULL;
    size_t bytes = 0;
    int first;

    argp_err_exit_status = 2;
    argp_parse(&argp, argc, argv, 0, &first, &o);
    while (verb < end && (first == argc || strcmp(argv[first], verb->name) != 0))
        verb++;
    if (verb == end)
        errx(2, "verb '%.40s', expected evidence, features, variance, limit or networks",
             first < argc ? argv[first] : "");
    o.file = argv + first + 1;
    o.files = argc - first - 1;
    if (o.files > verb->files || (o.files == 0 && verb->files))
        errx(2, "%d files for %s, expected %s", o.files, verb->name,
             verb->files ? "1 to 256" : "none");
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL)
        errx(2, "no memory for the output");
    verb->run(&o, out);
    if (fclose(out) || fwrite(text, 1, bytes, stdout) != bytes || fclose(stdout))
        errx(2, "cannot write to standard output");
    return 0;
}
