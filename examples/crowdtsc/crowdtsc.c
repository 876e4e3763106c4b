/* SPDX-License-Identifier: BSD-3-Clause */
/* crowdtsc: sentiment classifiers guided by keywords that people name.  Options and output. */
#include <argp.h>
#include <stdlib.h>
#include <string.h>

#include "crowdtsc.h"

static const struct verb {
    const char *name;
    int files;
    void (*run)(const struct options *o, FILE *out);
} verbs[] = {{"ask", 1, crowd_query},
             {"simulate", 2, crowd_simulate},
             {"merge", 2, crowd_merge},
             {"train", 3, crowd_train}};

enum { KEY = 0x100 }; /* no option has a letter */

static const struct argp_option table[] = {
    {"seed", KEY + SEED, "N", 0, "Seed of all random numbers (default: 1)", 0},
    {"budget", KEY + BUDGET, "N", 0, "ask: number of texts (default: 200)", 1},
    {"per-cluster", KEY + EACH, "N", 0, "ask: texts of each cluster (default: 2)", 1},
    {"random", KEY + RANDOM, NULL, 0, "ask: choose at random, without clusters", 1},
    {"votes", KEY + VOTES, "N", 0, "simulate: answers to each question (default: 3)", 2},
    {"prior", KEY + PRIOR, "X", 0, "merge: strength of each worker's prior (default: 1)", 3},
    {"hybrid", KEY + HYBRID, NULL, 0, "train: the hybrid network", 4},
    {"unguided", KEY + PLAIN, NULL, 0, "train: ignore the keywords", 4},
    {"bag", KEY + BAG, NULL, 0, "train: logistic regression on the words, without keywords", 4},
    {"guide", KEY + GUIDE, "X", 0, "train: weight of the attention's loss (default: 1)", 4},
    {"epochs", KEY + EPOCHS, "N", 0, "train: passes over the texts (default: 30)", 4},
    {0}};

/* N: a whole number from 1, X: any from 0, no argument: 1 */
static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;

    if (key < KEY || key >= KEY + OPTIONS)
        return ARGP_ERR_UNKNOWN;
    const struct argp_option *of = &table[key - KEY];
    int whole = of->arg && *of->arg == 'N';
    char *end = "";
    double x = o->x[key - KEY] = arg ? strtod(arg, &end) : 1;
    if (end == arg || *end || !(x >= whole && x <= 1e6) || (whole && x != (int)x))
        errx(2, "--%s is '%.40s', expected a %snumber from %d to 1000000", of->name, arg,
             whole ? "whole " : "", whole);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct argp argp = {
        .options = table,
        .parser = parse,
        .args_doc = "ask TEXTS\nsimulate LEXICON QUESTIONS\nmerge QUESTIONS VOTES\n"
                    "train TEXTS KEYWORDS TEST",
        .doc =
            "Ask people which words decide the sentiment of texts; train with the answers.\v"
            "ask chooses texts and prints questions. simulate answers them instead of people. "
            "merge decides which words are keywords. train, also under mpirun, prints "
            "the accuracy on TEST. TEXTS, TEST: columns id, label (pos, neg) and words, with "
            "tabs between columns and blanks between words. Exit status after an error: 2."};
    struct options o = {
        .x = {1, 200, 2, 0, 3, 1, 0, 0, 0, 1, 30}}; /* in the order of the enum */
    const struct verb *verb = verbs, *end = verbs + 4;
    char *text = NULL;
    size_t bytes = 0;
    int first;

    argp_err_exit_status = 2;
    argp_parse(&argp, argc, argv, 0, &first, &o);
    while (verb < end && (first == argc || strcmp(argv[first], verb->name)))
        verb++;
    if (verb == end)
        errx(2, "verb '%.40s', expected ask, simulate, merge or train",
             first < argc ? argv[first] : "");
    o.file = argv + first + 1;
    if (argc - first - 1 != verb->files)
        errx(2, "%d files for %s, expected them as in --help", argc - first - 1, verb->name);
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL)
        errx(2, "no memory for the output");
    verb->run(&o, out);
    if (fclose(out) || fwrite(text, 1, bytes, stdout) != bytes || fclose(stdout))
        errx(2, "cannot write to standard output");
    return 0;
}
