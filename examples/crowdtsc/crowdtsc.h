/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CROWDTSC_H
#define CROWDTSC_H
#include <err.h>
#include <stdint.h>
#include <stdio.h>

enum { SEED, BUDGET, EACH, RANDOM, VOTES, PRIOR, HYBRID, PLAIN, BAG, GUIDE, EPOCHS, OPTIONS };
struct options {
    char **file; /* [files of the verb] */
    double x[OPTIONS];
};

/* The verbs; they write to out, which is printed when they return. */
void crowd_query(const struct options *o, FILE *out);
void crowd_simulate(const struct options *o, FILE *out);
void crowd_merge(const struct options *o, FILE *out);
void crowd_train(const struct options *o, FILE *out);

void *zeros(size_t n, size_t bytes);          /* lives until exit, unless freed */
void *grow(void *array, int n, size_t bytes); /* n items become n + 1 */
double uniform(uint64_t *state);              /* from [0, 1) */
int *shuffled(int n, uint64_t *state);        /* 0 ... n - 1 */

/* A table with tabs between its columns.  Lines that begin with # are comments. */
struct rows {
    const char *path; /* borrowed, as is copy: where comments go, or NULL */
    FILE *file, *copy;
    char *text, *field[4];
    size_t bytes;
    int line;
};
int rows_next(struct rows *r, int columns); /* 0 at the end */

struct words {
    int n;
    char **name;            /* [n] */
    void *tree;             /* of names */
    double *share, *vector; /* [n] in the texts, (n,DIM); of words_learn */
};
enum { DIM = 256 };
int words_find(struct words *w, const char *name); /* its number; new ones are added */

struct text {
    const char *id;
    char *keyword;                 /* [n] 1: a keyword */
    int positive, n, first, *word; /* first: number of words in the texts before */
};
struct texts {
    struct text **at;
    struct words ids; /* in the same order */
    int n, words;
};
/* Columns: id, label (pos, neg), words with blanks between, and as fourth those of keywords. */
struct texts texts_read(const char *path, int columns, struct words *w);
void text_print(const struct text *t, const struct words *w, int end, FILE *out);
int keywords_parse(const char *s, struct text *t); /* "2,5", "0": none; 0: neither */
void keywords_print(const struct text *t, FILE *out);

/* Give words vectors of unit length, without labels; those that are rare get 0. */
void words_learn(struct words *w, const struct texts *t);
#endif
