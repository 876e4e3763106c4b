/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables, texts and words: reading, checking, printing.  Memory and random numbers. */
#include <ctype.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "crowdtsc.h"

enum { WORDS_MOST = 1000, TEXTS_MOST = 1000000 }; /* of a text, of a file */

void *zeros(size_t n, size_t bytes)
{
    void *p = calloc(n + 1, bytes);

    if (p == NULL)
        errx(2, "no memory for %zu items of %zu bytes", n, bytes);
    return p;
}

void *grow(void *array, int n, size_t bytes)
{
    array = reallocarray(array, (size_t)n + 1, bytes);
    if (array == NULL)
        errx(2, "no memory for %d items of %zu bytes", n, bytes);
    return array;
}

double uniform(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

int *shuffled(int n, uint64_t *state)
{
    int *order = zeros((size_t)n, sizeof(*order));

    for (int i = 0; i < n; i++) {
        int j = (int)(uniform(state) * (i + 1));
        order[i] = order[j];
        order[j] = i;
    }
    return order;
}

int rows_next(struct rows *r, int columns)
{
    ssize_t bytes;
    int found = 0;

    if (r->file == NULL && (r->file = fopen(r->path, "r")) == NULL)
        err(2, "cannot open '%s'", r->path);
    while (r->line++, (bytes = getline(&r->text, &r->bytes, r->file)) > 0 && *r->text == '#')
        if (r->copy)
            fputs(r->text, r->copy);
    if (bytes <= 0 && ferror(r->file))
        err(2, "cannot read '%s'", r->path);
    if (bytes <= 0)
        return 0;
    r->text[strcspn(r->text, "\r\n")] = '\0';
    for (char *s = r->text, *f; (f = strsep(&s, "\t")) != NULL; found++)
        if (found < columns)
            r->field[found] = f;
    if (found != columns)
        errx(2, "%s:%d: %d columns, expected %d", r->path, r->line, found, columns);
    return 1;
}

struct named {
    char *name;
    int number;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

int words_find(struct words *w, const char *name)
{
    struct named key = {(char *)name, w->n}, **found = tfind(&key, &w->tree, by_name), *new;

    if (found)
        return (*found)->number;
    new = zeros(1, sizeof(*new));
    *new = (struct named){strdup(name), w->n};
    tsearch(new, &w->tree, by_name);
    w->name = grow(w->name, w->n, sizeof(*w->name));
    w->name[w->n] = new->name;
    return w->n++;
}

struct texts texts_read(const char *path, int columns, struct words *w)
{
    struct rows r = {.path = path};
    struct texts all = {0};

    while (rows_next(&r, columns)) {
        struct text *t = zeros(1, sizeof(*t));
        *t = (struct text){.positive = *r.field[1] == 'p', .first = all.words};
        if (strcmp(r.field[1], t->positive ? "pos" : "neg"))
            errx(2, "%s:%d: label '%.40s', expected pos or neg", path, r.line, r.field[1]);
        for (char *s = r.field[2], *f; (f = strsep(&s, " ")) != NULL && t->n <= WORDS_MOST;) {
            t->word = grow(t->word, t->n, sizeof(*t->word));
            t->word[t->n++] = words_find(w, f);
        }
        if (t->n > WORDS_MOST || all.n == TEXTS_MOST)
            errx(2, "%s:%d: expected at most %d words in each of %d texts", path, r.line,
                 WORDS_MOST, TEXTS_MOST);
        t->keyword = zeros((size_t)t->n, 1);
        if (columns > 3 && !keywords_parse(r.field[3], t))
            errx(2, "%s:%d: keywords '%.40s', expected positions up to %d as in 1,3 or 0", path,
                 r.line, r.field[3], t->n);
        if (words_find(&all.ids, r.field[0]) < all.n)
            errx(2, "%s:%d: id '%.40s' again, expected it once", path, r.line, r.field[0]);
        all.at = grow(all.at, all.n, sizeof(*all.at));
        t->id = all.ids.name[all.n];
        all.at[all.n++] = t;
        all.words += t->n;
    }
    if (all.n == 0)
        errx(2, "%s: no texts, expected at least 1", path);
    return all;
}

void text_print(const struct text *t, const struct words *w, int end, FILE *out)
{
    fprintf(out, "%s\t%s", t->id, t->positive ? "pos" : "neg");
    for (int j = 0; j < t->n; j++)
        fprintf(out, "%c%s", j ? ' ' : '\t', w->name[t->word[j]]);
    fputc(end, out);
}

int keywords_parse(const char *s, struct text *t)
{
    char *end = "";

    memset(t->keyword, 0, (size_t)t->n);
    do {
        long at = isdigit((unsigned char)*s) ? strtol(s, &end, 10) : -1;
        if (at < 0 || at > t->n || (*end && *end != ','))
            return 0;
        if (at > 0)
            t->keyword[at - 1] = 1;
        s = end + 1;
    } while (*end);
    return 1;
}

void keywords_print(const struct text *t, FILE *out)
{
    for (int j = 0; j < t->n; j++)
        if (t->keyword[j])
            fprintf(out, "%d,", j + 1);
    fputs("0\n", out);
}
