/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Votes of simulated workers, and the merging of votes (Dawid and Skene 1979):
 * each word of a question is a keyword or not, and each worker is right with two probabilities.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "crowdtsc.h"

enum { CROWD = 12, RATINGS = 10, ROUNDS = 5000 };

struct opinion { /* what people said of a word, from -4 to 4 */
    int n, rating[RATINGS];
};

/*
 * A simulated worker holds of a word one of the ratings people gave it in the lexicon (word,
 * mean, deviation, [3, -1]), and marks most words rated toward the label and few others.
 */
void crowd_simulate(const struct options *o, FILE *out)
{
    struct rows r = {.path = o->file[0]};
    struct words w = {0};
    struct opinion *opinion = NULL;
    uint64_t state = (uint64_t)o->x[SEED];
    double marks[CROWD], slips[CROWD];
    int known = 0;

    while (rows_next(&r, 4)) {
        struct opinion p = {0};
        char *s = r.field[3], *end = s;
        for (; p.n < RATINGS && (*s == '[' || *s == ','); s = end)
            p.rating[p.n++] = (int)strtol(s + 1, &end, 10);
        if (p.n == 0 || strcmp(end, "]"))
            errx(2, "%s:%d: ratings '%.40s', expected 1 to %d as in [3, -1]", r.path, r.line,
                 r.field[3], RATINGS);
        if (words_find(&w, r.field[0]) < known) /* a word again: the first row counts */
            continue;
        opinion = grow(opinion, known, sizeof(*opinion));
        opinion[known++] = p;
    }
    if (o->x[VOTES] > CROWD)
        errx(2, "--votes is %.0f, expected at most the %d workers", o->x[VOTES], CROWD);
    struct texts t = texts_read(o->file[1], 3, &w);
    fprintf(out, "# SIMULATED votes: nobody was asked.  Seed %.0f, opinions from '%s'.\n",
            o->x[SEED], o->file[0]);
    for (int i = 0; i < CROWD; i++) { /* every fourth is careless */
        marks[i] = (i % 4 == 3 ? 0.3 : 0.7) + 0.25 * uniform(&state);
        slips[i] = (i % 4 == 3 ? 0.1 : 0) + 0.03 * uniform(&state);
        fprintf(out, "# simulated worker w%d: right on %.4f of keywords and %.4f of the rest\n",
                i + 1, marks[i], 1 - slips[i]);
    }
    for (int i = 0; i < t.n; i++) {
        int *order = shuffled(CROWD, &state);
        for (int k = 0; k < (int)o->x[VOTES]; k++) {
            for (int j = 0; j < t.at[i]->n; j++) {
                int word = t.at[i]->word[j], one = (int)(uniform(&state) * 1e9);
                int rating = word < known ? opinion[word].rating[one % opinion[word].n] : 0;
                int holds = t.at[i]->positive ? rating > 0 : rating < 0;
                t.at[i]->keyword[j] = uniform(&state) < (holds ? marks : slips)[order[k]];
            }
            fprintf(out, "w%d\t%s\t", order[k] + 1, t.at[i]->id);
            keywords_print(t.at[i], out);
        }
        free(order);
    }
}

struct mark { /* a worker's answer on one word of the questions */
    int worker, word, yes;
};
struct crowd {
    struct words names; /* of the workers */
    struct mark *mark;
    double (*right)[2]; /* probability to be right on other words, on keywords */
    double *belief;     /* [words] that it is a keyword */
    int marks, words;
};

static void votes_read(struct crowd *c, const char *path, struct texts *t, FILE *copy)
{
    struct rows r = {.path = path, .copy = copy};
    struct words seen = {0};
    char *key;

    for (int votes = 0; rows_next(&r, 3); votes++) {
        int question = words_find(&t->ids, r.field[1]);
        struct text *on = question < t->n ? t->at[question] : NULL;
        if (on == NULL || !keywords_parse(r.field[2], on))
            errx(2,
                 "%s:%d: '%.40s' for id '%.40s', expected positions as in 1,3 or 0, "
                 "and a question",
                 path, r.line, r.field[2], r.field[1]);
        int worker = words_find(&c->names, r.field[0]);
        if (asprintf(&key, "%s\t%s", r.field[0], on->id) < 0 || words_find(&seen, key) < votes)
            errx(2, "%s:%d: '%.40s' answers '%.40s' again, expected one answer", path, r.line,
                 r.field[0], on->id);
        free(key);
        for (int j = 0; j < on->n; j++) {
            c->mark = grow(c->mark, c->marks, sizeof(*c->mark));
            c->mark[c->marks++] = (struct mark){worker, on->first + j, on->keyword[j]};
        }
    }
}

/*
 * One round of expectation and maximisation: how good the workers are if the beliefs are right,
 * and the beliefs that follow.  Returns the largest change of a worker's probabilities.
 */
static double crowd_round(struct crowd *c, double prior)
{
    double(*sum)[4] = zeros((size_t)c->names.n, sizeof(*sum)), change = 0, share = 1e-9;

    for (struct mark *m = c->mark; m < c->mark + c->marks; m++) {
        double b[2] = {1 - c->belief[m->word], c->belief[m->word]};
        sum[m->worker][m->yes] += b[m->yes];
        sum[m->worker][2] += b[0];
        sum[m->worker][3] += b[1];
    }
    for (int i = 0; i < 2 * c->names.n; i++) {
        double *s = sum[i / 2], *right = &c->right[i / 2][i % 2], old = *right;
        *right = (s[i % 2] + prior + 1e-9) / (s[2 + i % 2] + 2 * prior + 2e-9); /* no 0 / 0 */
        change = fmax(change, fabs(*right - old));
    }
    for (int i = 0; i < c->words; i++)
        share += (1 - 2e-9) * c->belief[i] / c->words;
    for (int i = 0; i < c->words; i++)
        c->belief[i] = log(share / (1 - share));
    for (struct mark *m = c->mark; m < c->mark + c->marks; m++) {
        const double *right = c->right[m->worker];
        c->belief[m->word] +=
            log(m->yes ? right[1] / (1 - right[0]) : (1 - right[1]) / right[0]);
    }
    for (int i = 0; i < c->words; i++)
        c->belief[i] = 1 / (1 + exp(-c->belief[i]));
    free(sum);
    return change;
}

void crowd_merge(const struct options *o, FILE *out)
{
    struct crowd *c = zeros(1, sizeof(*c));
    struct words w = {0};
    struct texts t = texts_read(o->file[0], 3, &w);
    double *votes = zeros((size_t)t.words, sizeof(*votes));

    votes_read(c, o->file[1], &t, out);
    c->right = zeros((size_t)c->names.n, sizeof(*c->right));
    c->words = t.words;
    c->belief = zeros((size_t)t.words, sizeof(*c->belief));
    for (int i = 0; i < c->marks; i++)
        votes[c->mark[i].word]++;
    for (int i = 0; i < c->marks; i++) /* begin with the share of votes */
        c->belief[c->mark[i].word] += c->mark[i].yes / votes[c->mark[i].word];
    for (int k = 0; k < ROUNDS && crowd_round(c, o->x[PRIOR]) > 1e-10; k++)
        ;
    for (int i = 0; i < c->names.n; i++)
        fprintf(out, "# worker %s: right on %.4f of keywords and %.4f of the rest\n",
                c->names.name[i], c->right[i][1], c->right[i][0]);
    for (int i = 0; i < t.n; i++) {
        for (int j = 0, at = t.at[i]->first; j < t.at[i]->n; j++, at++)
            t.at[i]->keyword[j] = votes[at] > 0 && c->belief[at] > 0.5;
        text_print(t.at[i], &w, '\t', out);
        keywords_print(t.at[i], out);
    }
}
