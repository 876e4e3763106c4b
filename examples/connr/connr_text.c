/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Texts, vectors of their words, and views.  A word is a run of ASCII letters and digits or of
 * bytes above 127, without regard to case.  Also memory and random numbers.
 */
#include <ctype.h>
#include <math.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "connr.h"

enum { TEXTS_LEAST = 3, LSA_ROUNDS = 8 }; /* of words that carry weight; of the analysis */

void *zeros(int64_t n, size_t bytes)
{
    void *p = calloc((size_t)n + 1, bytes);

    if (p == NULL)
        errx(2, "no memory for %lld items of %zu bytes", (long long)n, bytes);
    return p;
}

void release(void *variable)
{
    free(*(void **)variable);
}

uint64_t stream(uint64_t seed, uint64_t which)
{
    return (uint64_t)(uniform(&seed) * 0x1p53) ^ (which + 1) * 0xd1342543de82ef95;
}

double uniform(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

/* x = the sum of the vectors of a view's tokens, times idf; returns the sum of idf^2. */
static double sum_view(const struct texts *t, int i, const struct view *v, int side, float *x)
{
    uint64_t state = stream(v->seed, 2 * (uint64_t)i + (uint64_t)side);
    double all = (double)(t->from[i + 1] - t->from[i]), square = 0;
    double length = ceil((v->crop + (1 - v->crop) * uniform(&state)) * all);
    int64_t at = t->from[i] + (int64_t)(uniform(&state) * (all - length + 1));

    memset(x, 0, (size_t)t->dim * sizeof *x);
    for (int64_t end = at + (int64_t)length; at < end; at++) {
        const float *idf = &t->idf[t->token[at]];
        if (uniform(&state) < v->drop && (square > 0 || at < end - 1)) /* one always stays */
            continue;
        square += *idf * *idf;
        for (int j = 0; j<t->dim && * idf> 0; j++)
            x[j] += *idf * t->theme[(int64_t)t->token[at] * t->dim + j];
    }
    return square;
}

/* Makes columns unit vectors at right angles (Gram-Schmidt); dependent ones become 0. */
static void orthonormalise(float *e, int64_t rows, int d)
{
    for (int a = 0; a < d; a++)
        for (int b = 0; b <= a; b++) {
            double dot = 0;
            for (int64_t i = 0; i < rows * d; i += d)
                dot += (double)e[i + a] * e[i + b];
            double scale = b < a ? 1 : dot > 1e-9 ? 1 / sqrt(dot) : 0, less = b < a ? dot : 0;
            for (int64_t i = 0; i < rows * d; i += d)
                e[i + a] = (float)(scale * e[i + a] - less * e[i + b]);
        }
}

/* Latent semantic analysis: E becomes X^T X E in each round, X: the tf-idf of the texts. */
static void learn_themes(struct texts *t, uint64_t seed)
{
    static const struct view whole = {.crop = 1};
    uint64_t state = stream(seed, 0);
    int64_t size = (int64_t)t->words * t->dim;
    SCOPED float *x = zeros(t->dim, sizeof *x);

    t->theme = zeros(size, sizeof *t->theme);
    for (int64_t i = 0; i < size; i++)
        t->theme[i] = (float)(uniform(&state) - 0.5);
    for (int round = 0; round < LSA_ROUNDS; round++) {
        float *new = zeros(size, sizeof *new);
        for (int i = 0; i < t->n; i++) {
            double square = sum_view(t, i, &whole, 0, x);
            for (int64_t at = t->from[i]; square > 0 && at < t->from[i + 1]; at++)
                for (int64_t j = 0, w = t->token[at]; j < t->dim; j++)
                    new[w * t->dim + j] += (float)(t->idf[w] / square * x[j]);
        }
        orthonormalise(new, t->words, t->dim);
        free(t->theme);
        t->theme = new;
    }
}

/* Numbers n names from 0 in the order in which they appear. */
static int number(struct hsearch_data *names, int *n, char *name)
{
    ENTRY *found, new = {.key = name, .data = (void *)(intptr_t)*n};

    if (!hsearch_r(new, ENTER, &found, names))
        err(2, "no memory for %d names", *n);
    *n += found->data == new.data;
    return (int)(intptr_t)found->data;
}

/* Adds the words of a line, and to texts[w] the words that it has; last: the lines of these. */
static void read_words(struct texts *t, struct hsearch_data *names, char *s, int *texts,
                       int *last)
{
    for (char *c = s; *c; c++)
        if (!(*c & 128))
            *c = (char)(isalnum((unsigned char)*c) ? tolower(*c) : ' ');
    for (char *name; (name = strsep(&s, " ")) != NULL;)
        if (*name) {
            int word = number(names, &t->words, name);
            t->token[t->from[t->n]++] = word;
            texts[word] += last[word] != t->n;
            last[word] = t->n;
        }
}

static void read_numbers(struct texts *t, const char *path, char *s)
{
    float *to = &t->vector[(int64_t)(t->n - 1) * 2 * t->dim];
    int64_t n = 0;

    for (char *end; *(s += strspn(s, " \t\r")); s = end) {
        to[n++] = strtof(s, &end);
        if (end == s || !isfinite(to[n - 1]) || !strchr(" \t\r", *end))
            errx(2, "%s:%d: '%.40s', expected a number", path, t->n, s);
    }
    t->dim = t->n == 1 ? (int)(n / 2) : t->dim;
    if (n == 0 || n != 2 * t->dim)
        errx(2, "%s:%d: %lld numbers, expected two views of the same size in all lines", path,
             t->n, (long long)n);
}

void texts_read(struct texts *t, const char *path, int vectors, int dim, uint64_t seed)
{
    FILE *file = fopen(path, "r");
    struct hsearch_data classes = {0}, words = {0};
    SCOPED char *all = NULL;
    char *text, *line;
    size_t bytes = 0;
    int64_t found = file ? getdelim(&all, &bytes, '\0', file) : 0; /* -1: nothing */
    int64_t most = found / 2 + 1;                                  /* words, numbers */

    if (file == NULL || ferror(file))
        err(2, "cannot read '%s'", path);
    if (getc(file) != EOF || fclose(file))
        errx(2, "%s: a byte 0, expected text", path);
    if (!hcreate_r((size_t)most, &classes) || !hcreate_r((size_t)most, &words))
        errx(2, "no memory for %lld words", (long long)most);
    SCOPED int *texts = zeros(most, sizeof *texts), *last = zeros(most, sizeof *last);
    t->dim = vectors ? 0 : dim;
    t->label = zeros(most, sizeof *t->label);
    t->from = zeros(most + 1, sizeof *t->from);
    t->token = vectors ? NULL : zeros(most, sizeof *t->token);
    t->vector = vectors ? zeros(most, sizeof *t->vector) : NULL;
    for (text = found > 0 ? all : NULL; (line = strsep(&text, "\n")) && (text || *line);) {
        char *rest = strchr(line, '\t');
        if (rest == NULL || rest == line || t->n == INT32_MAX)
            errx(2, "%s:%d: '%.40s', expected a class, a tab and a text", path, t->n + 1, line);
        *rest++ = '\0';
        t->label[t->n++] = number(&classes, &t->classes, line);
        t->from[t->n] = t->from[t->n - 1];
        if (vectors)
            read_numbers(t, path, rest);
        else
            read_words(t, &words, rest, texts, last);
    }
    if (t->classes < 2)
        errx(2, "%s: %d classes, expected at least 2", path, t->classes);
    t->idf = zeros(t->words, sizeof *t->idf);
    for (int w = 0; w < t->words; w++)
        t->idf[w] = texts[w] < TEXTS_LEAST ? 0 : logf((float)t->n / (float)texts[w]);
    if (!vectors)
        learn_themes(t, seed);
    hdestroy_r(&classes);
    hdestroy_r(&words);
}

void texts_view(const struct texts *t, const int *which, int rows, const struct view *v,
                int side, float *x)
{
    int64_t d = t->dim;

    for (int r = 0; r < rows; r++) {
        int i = which ? which[r] : r;
        const float *pair = t->vector ? t->vector + 2 * i * d : NULL;
        if (t->vector == NULL)
            sum_view(t, i, v, side, &x[r * d]);
        for (int64_t j = 0; t->vector && j < d; j++)
            x[r * d + j] = v->crop < 1 ? pair[side * d + j] : pair[j] + pair[d + j];
    }
    normalise(x, rows, t->dim);
}
