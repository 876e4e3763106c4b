/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the final losses of runs, and computes how well their scores predicted the order. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "rank/rank.h"
#include "rank/rank_line.h"

enum { FILE_MAX = 16 << 20, BUDGETS = 10 };

static char *finals_trim(char *from, char *to)
{
    while (from < to && strchr(" \t\r", *from))
        from++;
    while (to > from && strchr(" \t\r", to[-1]))
        to--;
    *to = 0;
    return from;
}

/* Splits "NAME<tab, comma or blank>VALUE": returns 1; 0: an empty line; -1: one word. */
static int finals_cut(char *line, char *end, char **name, char **value)
{
    char *text = finals_trim(line, end), *at = text + strlen(text);

    if (*text == 0 || *text == '#')
        return 0;
    while (at > text && !strchr("\t, ", at[-1]))
        at--;
    if (at == text)
        return -1;
    *value = at;
    /* In "NAME, VALUE" there may be several separators. */
    for (at--; at > text && strchr("\t, ", at[-1]); at--)
        ;
    *name = finals_trim(text, at);
    size_t n = strlen(*name);
    if (n > 1 && **name == '"' && (*name)[n - 1] == '"') {
        (*name)[n - 1] = 0;
        ++*name;
    }
    return 1;
}

int rank_finals_read(const struct rank_options *o, double *value, struct err *err)
{
    char *text = NULL;
    int64_t bytes = 0;
    int line = 1;

    for (int i = 0; i < o->logs; i++)
        value[i] = NAN;
    if (io_read_text(o->finals, FILE_MAX, &text, &bytes, err))
        return -1;
    struct rank_name *names = rank_names_new(o->log, o->logs);
    int mark = rank_line_mark(text, bytes, o->finals, err), rc = mark < 0 ? -1 : 0;
    for (char *p = text + mark, *next; rc == 0 && p; p = next, line++) {
        char *end = strchr(p, '\n'), *name = NULL, *number = NULL;
        struct err why;
        double v = 0;
        next = end ? end + 1 : NULL;
        int got = finals_cut(p, end ? end : p + strlen(p), &name, &number);
        if (got < 0)
            rc = err_at(err, o->finals, line, NULL,
                        "has one word, expected the name of a run and its value");
        if (got <= 0)
            continue;
        if (num_f64(number, -1e300, 1e300, &v, &why)) {
            if (line > 1) /* the first line may name the columns */
                rc = err_at(err, o->finals, line, name, "%s", why.text);
            continue;
        }
        int at = rank_names_find(names, o->logs, name);
        if (at >= 0 && !isnan(value[at]))
            rc = err_at(err, o->finals, line, name, "again, expected each run once");
        else if (at >= 0)
            value[at] = v;
    }
    mem_free(names);
    mem_free(text);
    for (int i = 0; i < o->logs && rc == 0; i++)
        if (isnan(value[i]))
            rc = err_at(err, o->finals, 0, NULL, "has no line for '%s', expected one for each",
                        o->log[i]);
    return rc;
}

struct item {
    double v;
    int at;
};

static int finals_by_value(const void *x, const void *y)
{
    return MEM_ORDER((const struct item *)x, (const struct item *)y, v);
}

/* Computes to[i], the rank of v[i] from 1 on; equal values have the mean of their ranks. */
static void mean_ranks(const double *v, int n, double *to)
{
    struct item *item = mem_new((size_t)n, sizeof *item);

    for (int i = 0; i < n; i++)
        item[i] = (struct item){v[i], i};
    qsort(item, (size_t)n, sizeof *item, finals_by_value);
    for (int i = 0, k; i < n; i = k) {
        for (k = i + 1; k < n && item[k].v == item[i].v;)
            k++;
        for (int m = i; m < k; m++)
            to[item[m].at] = 0.5 * (i + 1 + k);
    }
    mem_free(item);
}

double rank_spearman(const double *x, const double *y, int n)
{
    double *a = mem_new((size_t)n, sizeof *a), *b = mem_new((size_t)n, sizeof *b);
    double mean = 0.5 * (n + 1), ab = 0, aa = 0, bb = 0;

    mean_ranks(x, n, a);
    mean_ranks(y, n, b);
    for (int i = 0; i < n; i++) {
        ab += (a[i] - mean) * (b[i] - mean);
        aa += (a[i] - mean) * (a[i] - mean);
        bb += (b[i] - mean) * (b[i] - mean);
    }
    mem_free(a);
    mem_free(b);
    return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : NAN;
}

double rank_kendall(const double *x, const double *y, int n)
{
    double both = 0, in_x = 0, in_y = 0; /* numbers of pairs; integers below 2^53 */

    for (int i = 0; i < n; i++)
        for (int k = 0; k < i; k++) {
            int a = (x[i] > x[k]) - (x[i] < x[k]), b = (y[i] > y[k]) - (y[i] < y[k]);
            both += a * b;
            in_x += a != 0;
            in_y += b != 0;
        }
    return in_x > 0 && in_y > 0 ? both / sqrt(in_x * in_y) : NAN;
}

void rank_finals_hold(struct rank_result *r, const double *value)
{
    int n = 0, logs = r->o->logs;
    double *score = mem_new((size_t)logs, sizeof *score);
    double *end = mem_new((size_t)logs, sizeof *end);

    r->tau = mem_new(BUDGETS, sizeof *r->tau);
    for (int b = 1; b <= BUDGETS; b++) {
        int64_t t = r->epochs / BUDGETS * b + r->epochs % BUDGETS * b / BUDGETS;
        if (t < 1 || (r->taus && t == r->tau[r->taus - 1].epochs))
            continue;
        n = 0;
        for (int i = 0; i < logs; i++) {
            if (rank_curve_epochs(&r->run[i].curve) < t)
                continue;
            double s = rank_curve_score(&r->run[i].curve, &r->o->how, t);
            score[n] = isfinite(s) ? s : INFINITY;
            end[n++] = value[i];
        }
        r->tau[r->taus++] =
            (struct rank_tau){t, rank_spearman(score, end, n), rank_kendall(score, end, n)};
    }
    mem_free(score);
    mem_free(end);
}
