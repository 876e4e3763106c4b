/* SPDX-License-Identifier: BSD-3-Clause */
/* Predicts which run will end best from the losses logged so far. */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/cli.h"
#include "rank/rank.h"

#define MANY       (INT64_C(1) << 40) /* steps or samples */
#define EPOCHS_MAX (INT64_C(1) << 53)

struct args {
    struct cli cli;
    struct rank_options o;
};

static const struct cli_mode modes[] = {{"a ranking", "LOG...", 1, CLI_MANY, NULL, 0}, {0}};

/* A whole number, or a part: a percentage, or a fraction between 0 and 1. */
static int parse_part(const char *text, int64_t most, int64_t *count, double *part,
                      struct err *err)
{
    size_t n = strlen(text);
    int percent = n && text[n - 1] == '%';
    char *number = mem_dup(text);
    struct err why;

    *count = 0;
    *part = 0;
    if (percent)
        number[n - 1] = 0;
    int whole = !percent && num_i64(text, 1, most, count, &why) == 0;
    int part_of = !whole && num_f64(number, 0, percent ? 100 : 1, part, &why) == 0 &&
                  *part > 0 && (percent || *part < 1);
    mem_free(number);
    if (!whole && !part_of)
        return err_set(err, ERR_INPUT,
                       "'%s', expected a number from 1 to %" PRId64
                       ", or a part such as 50%% or 0.5, up to 100%%",
                       text, most);
    *part /= percent ? 100 : 1;
    return 0;
}

static int bind_budget(const char *text, void *field, struct err *err)
{
    struct rank_options *o = field;

    return parse_part(text, EPOCHS_MAX, &o->epochs, &o->fraction, err);
}

static int bind_stop_below(const char *text, void *field, struct err *err)
{
    struct rank_options *o = field;

    return parse_part(text, RANK_RUNS_MAX, &o->stop_below, &o->stop_share, err);
}

#define CLI_ARGS struct args
static const struct cli_option options[] = {
    {"method", 0, "METHOD", CLI_EVERYDAY,
     "Score by tse, tse-e, tse-ema, ema-code, sotl or last (default: tse-ema)",
     CLI_CHOICE(o.how.method, "tse|tse-e|tse-ema|ema-code|sotl|last")},
    {"steps-per-epoch", 0, "STEPS", CLI_EVERYDAY,
     "Steps per epoch; more make tse-e less noisy (default: 1)",
     CLI_COUNT(o.per_epoch, 1, MANY)},
    {"budget", 'T', "T", CLI_EVERYDAY,
     "Compare after T epochs (10), or after a part of what all runs have (50%, 100%)",
     CLI_PARSED(budget, o)},
    {"stop-below", 0, "K", CLI_EVERYDAY,
     "For scripts: exit with status 1 unless the first LOG is among the best K (3), or in the "
     "best part (50%)",
     CLI_PARSED(stop_below, o)},
    {CLI_OPTION_SVG("Draw the loss curves as SVG to FILE or standard output", CLI_EVERYDAY)},
    {.text = "More options for ranking:"},
    {"last-epochs", 0, "E", 0, "With tse-e: number of epochs that count (default: 1)",
     CLI_WHOLE(o.how.e, 1, EPOCHS_MAX)},
    {"gamma", 0, "GAMMA", 0,
     "With tse-ema: weight of an epoch relative to the next (default: 0.999)",
     CLI_NUMBER(o.how.gamma, 0, 1)},
    {"regex", 0, "RE", 0,
     "Read other logs: find step and loss in a line by this expression, as groups of these "
     "names, or the first two",
     CLI_TEXT(o.regex)},
    {"noise", 0, "SD", 0,
     "Standard deviation of a score between seeds; runs within twice that share a rank",
     CLI_NUMBER(o.noise, 0, 1e100)},
    {"finals", 0, "FILE", 0,
     "Print how well scores predict the final results in FILE, one run and result per line",
     CLI_TEXT(o.finals)},
    {"force", 0, NULL, 0,
     "Rank runs of different lengths or batches, and let --svg replace a file",
     CLI_FLAG(o.force)},
    {0}};

static int check(void *args)
{
    struct args *a = args;
    struct cli *cli = &a->cli;

    if (a->o.finals && cli->words < 2)
        return cli_usage(cli, "--finals with one LOG, expected several");
    if (cli_given(cli, "last-epochs") && a->o.how.method != RANK_TSE_E)
        return cli_usage(cli, "--last-epochs with %s, expected --method tse-e",
                         rank_method_name(a->o.how.method));
    if (cli_given(cli, "gamma") && a->o.how.method != RANK_TSE_EMA)
        return cli_usage(cli, "--gamma with %s, expected --method tse-ema",
                         rank_method_name(a->o.how.method));
    return 0;
}

static const struct cli_command command = {
    options, modes,
    "Rank training runs by how fast their losses fell, from their logs, best first."
    "\vA LOG is of paro-train, llm.c, modded-nanogpt, or any format that --regex reads; - is"
    " standard input.",
    check};

static int rank(struct args *a, int *answer, struct err *err)
{
    a->o.plot = a->cli.svg;
    a->o.log = (const char *const *)a->cli.word;
    a->o.logs = a->cli.words > RANK_RUNS_MAX ? RANK_RUNS_MAX + 1 : a->cli.words;
    a->o.json = a->cli.json;
    return rank_report(&a->o, stdout, answer, err);
}

int main(int argc, char **argv)
{
    struct args a = {.cli = CLI_INIT("paro-rank"),
                     .o = {.how = {RANK_TSE_EMA, 1, 0.999}, .per_epoch = 1}};
    struct err err = {0};
    int answer = 0;

    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "blr") == 0) {
            err_set(&err, ERR_INPUT,
                    "'blr' is now the program 'bayes evidence' in examples/bayes; a log of this"
                    " name is './blr'");
            return cli_fail(&a.cli, &err);
        }
    cli_parse(&a.cli, &command, argc, argv);
    int rc = rank(&a, &answer, &err);
    return rc ? cli_fail(&a.cli, &err) : cli_finish(&a.cli, answer);
}
