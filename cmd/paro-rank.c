/* SPDX-License-Identifier: BSD-3-Clause */
/* paro-rank: which run will end best, by the losses that it logged so far. */
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/cli.h"
#include "rank/rank.h"
#include "rank/rank_blr.h"

enum { KEY_REGEX = 0x100, KEY_FINALS, KEY_NOISE, KEY_STOP, KEY_FORCE };
enum { KEY_METHOD = 0x140, KEY_STEPS, KEY_LAST, KEY_GAMMA };
enum { KEY_PRIOR = 0x180, KEY_NOISE_VAR, KEY_SAMPLES, KEY_REPEATS, KEY_ITEMS, KEY_SEED };

struct args {
    struct cli cli;
    const char **word; /* [words] */
    size_t words, room;
    struct rank_options o;
    struct rank_blr_options blr;
    const char *of_rank, *of_blr; /* an option that is one's alone, or NULL */
    int epochs_given, gamma_given, seeded;
};

static const struct argp_option options[] = {
    {"method", KEY_METHOD, "METHOD", CLI_EVERYDAY,
     "Score by tse, tse-e, tse-ema, ema-code, sotl or last (default: tse-ema)", 0},
    {"steps-per-epoch", KEY_STEPS, "STEPS", CLI_EVERYDAY,
     "Steps per epoch; more make tse-e less noisy (default: 1)", 0},
    {"budget", 'T', "T", CLI_EVERYDAY,
     "Compare after T epochs (10), or after a fraction of what all runs have (0.5, 1.0)", 0},
    {"stop-below", KEY_STOP, "K", CLI_EVERYDAY,
     "For scripts: exit with status 1 unless the first LOG is among the best K (3), or in the "
     "best fraction (0.5)",
     0},
    CLI_OPTION_SVG("Draw the loss curves as SVG to FILE or standard output", CLI_EVERYDAY, 0),
    {0, 0, 0, 0, "More options for ranking:", 1},
    {"last-epochs", KEY_LAST, "E", 0, "With tse-e: number of epochs that count (default: 1)",
     2},
    {"gamma", KEY_GAMMA, "GAMMA", 0,
     "With tse-ema: weight of an epoch relative to the next (default: 0.999)", 2},
    {"regex", KEY_REGEX, "RE", 0,
     "Read other logs: find step and loss in a line by this expression, as groups of these "
     "names, or the first two",
     2},
    {"noise", KEY_NOISE, "SD", 0,
     "Standard deviation of a score between seeds; runs within twice that share a rank", 2},
    {"finals", KEY_FINALS, "FILE", 0,
     "Print how well scores predict the final results in FILE, one run and result per line", 2},
    {"force", KEY_FORCE, 0, 0,
     "Rank runs of different lengths or batches, and let --svg replace a file", 2},
    {0, 0, 0, 0, "With blr:", 3},
    {"prior-var", KEY_PRIOR, "V0", CLI_EVERYDAY, "Prior variance of each coefficient", 4},
    {"noise-var", KEY_NOISE_VAR, "VN", CLI_EVERYDAY, "Variance of the noise on y", 4},
    {"bound-samples", 'k', "K", 0, "Also estimate the bound with K samples", 4},
    {"samples", KEY_SAMPLES, "N", 0,
     "Also estimate the bound from N runs of sample-then-optimise", 4},
    {"repeats", KEY_REPEATS, "N", 0, "With -k: average over N estimates", 4},
    {"items", KEY_ITEMS, 0, 0, "Also print the contribution of each row", 4},
    {"seed", KEY_SEED, "S", 0, "With -k or --samples: seed of the estimates (default: 0)", 4},
    CLI_OPTIONS,
    {0}};

/* A whole number, or a part: with a point in it, above 0 and up to 1. */
static error_t parse_part(struct args *a, const char *arg, const char *option, int64_t most,
                          int64_t *count, double *part)
{
    struct err why;

    *count = 0;
    *part = 0;
    if (!strchr(arg, '.') && num_i64(arg, 1, most, count, &why))
        return cli_usage(&a->cli, "%s: %s, or a fraction above 0.0 up to 1.0", option,
                         why.text);
    if (!strchr(arg, '.'))
        return 0;
    if (num_f64(arg, 0, 1, part, &why) || *part <= 0)
        return cli_usage(&a->cli, "%s: '%s', expected a fraction above 0.0 up to 1.0", option,
                         arg);
    return 0;
}

static error_t parse_blr(struct args *a, int key, const char *arg)
{
    struct err *err = &a->cli.err;
    int64_t v = 0;
    error_t rc;

    switch (key) {
    case KEY_PRIOR:
        a->of_blr = "--prior-var";
        return cli_check(&a->cli,
                         num_f64(arg, 1e-100, RANK_BLR_NUMBER_MAX, &a->blr.prior_var, err),
                         "--prior-var");
    case KEY_NOISE_VAR:
        a->of_blr = "--noise-var";
        return cli_check(&a->cli,
                         num_f64(arg, 1e-100, RANK_BLR_NUMBER_MAX, &a->blr.noise_var, err),
                         "--noise-var");
    case 'k':
        a->of_blr = "--bound-samples";
        rc = cli_check(&a->cli, num_i64(arg, 1, RANK_BLR_K_MAX, &v, err), "--bound-samples");
        a->blr.k = (int)v;
        return rc;
    case KEY_SAMPLES:
        a->of_blr = "--samples";
        return cli_check(&a->cli, num_count(arg, 2, INT64_C(1) << 40, &a->blr.samples, err),
                         "--samples");
    case KEY_REPEATS:
        a->of_blr = "--repeats";
        return cli_check(&a->cli, num_count(arg, 2, INT64_C(1) << 40, &a->blr.repeats, err),
                         "--repeats");
    case KEY_ITEMS:
        a->of_blr = "--items";
        a->blr.items = 1;
        return 0;
    case KEY_SEED:
        a->of_blr = "--seed";
        a->seeded = 1;
        rc = cli_check(&a->cli, num_i64(arg, 0, INT64_MAX, &v, err), "--seed");
        a->blr.seed = (uint64_t)v;
        return rc;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_how(struct args *a, int key, const char *arg)
{
    struct err *err = &a->cli.err;
    struct rank_options *o = &a->o;

    switch (key) {
    case KEY_METHOD:
        a->of_rank = "--method";
        return cli_check(&a->cli, rank_method_parse(arg, &o->how.method, err), "--method");
    case KEY_STEPS:
        a->of_rank = "--steps-per-epoch";
        return cli_check(&a->cli, num_count(arg, 1, INT64_C(1) << 40, &o->per_epoch, err),
                         "--steps-per-epoch");
    case 'T':
        a->of_rank = "--budget";
        return parse_part(a, arg, "--budget", INT64_C(1) << 53, &o->epochs, &o->fraction);
    case KEY_LAST:
        a->of_rank = "--last-epochs";
        a->epochs_given = 1;
        return cli_check(&a->cli, num_i64(arg, 1, INT64_C(1) << 53, &o->how.e, err),
                         "--last-epochs");
    case KEY_GAMMA:
        a->of_rank = "--gamma";
        a->gamma_given = 1;
        return cli_check(&a->cli, num_f64(arg, 0, 1, &o->how.gamma, err), "--gamma");
    case KEY_NOISE:
        a->of_rank = "--noise";
        return cli_check(&a->cli, num_f64(arg, 0, 1e100, &o->noise, err), "--noise");
    case KEY_STOP:
        a->of_rank = "--stop-below";
        return parse_part(a, arg, "--stop-below", RANK_RUNS_MAX, &o->stop_below,
                          &o->stop_share);
    default:
        return parse_blr(a, key, arg);
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;

    switch (key) {
    case KEY_REGEX:
        a->of_rank = "--regex";
        a->o.regex = arg;
        return 0;
    case KEY_FINALS:
        a->of_rank = "--finals";
        a->o.finals = arg;
        return 0;
    case CLI_KEY_SVG:
        a->of_rank = "--svg";
        return cli_option(&a->cli, key, arg, state);
    case KEY_FORCE:
        a->of_rank = "--force";
        a->o.force = 1;
        return 0;
    case ARGP_KEY_ARG:
        a->word = mem_grow(a->word, &a->room, a->words + 1, sizeof *a->word);
        a->word[a->words++] = arg;
        return 0;
    default:
        break;
    }
    error_t rc = parse_how(a, key, arg);
    return rc == ARGP_ERR_UNKNOWN ? cli_option(&a->cli, key, arg, state) : rc;
}

static const struct argp argp = {
    options,
    parse,
    "LOG...\nblr --prior-var V0 --noise-var VN DATA...",
    "Rank training runs by how fast their losses fell, from their logs, best first; or (blr)"
    " rank Gaussian linear models by how fast they learn DATA."
    "\vA LOG is of paro-train, llm.c, modded-nanogpt, or any format that --regex reads; - is"
    " standard input.",
    NULL,
    NULL,
    NULL};

static int rank(struct args *a, int *answer, struct err *err)
{
    if (a->of_blr)
        return err_set(err, ERR_INPUT, "%s without blr, expected blr", a->of_blr);
    if (a->words == 0)
        return err_set(err, ERR_INPUT, "missing operand LOG, expected one or more");
    if (a->o.finals && a->words < 2)
        return err_set(err, ERR_INPUT, "--finals with one LOG, expected several");
    if (a->epochs_given && a->o.how.method != RANK_TSE_E)
        return err_set(err, ERR_INPUT, "--last-epochs with %s, expected --method tse-e",
                       rank_method_name(a->o.how.method));
    if (a->gamma_given && a->o.how.method != RANK_TSE_EMA)
        return err_set(err, ERR_INPUT, "--gamma with %s, expected --method tse-ema",
                       rank_method_name(a->o.how.method));
    a->o.plot = a->cli.svg;
    if (a->o.plot && strcmp(a->o.plot, "-") == 0 && a->cli.json)
        return err_set(err, ERR_INPUT, "--svg without a file and --json, expected one of them");
    a->o.log = a->word;
    a->o.logs = a->words > RANK_RUNS_MAX ? RANK_RUNS_MAX + 1 : (int)a->words;
    a->o.json = a->cli.json;
    return rank_report(&a->o, stdout, answer, err);
}

static int explain(const struct rank_blr_data *data, int models,
                   const struct rank_blr_options *o, int json, struct err *err)
{
    struct rank_blr_weights w = {0};
    struct rank_blr one = {0};

    if (models > 1) {
        if (rank_blr_weigh(data, models, o, &w, err))
            return -1;
        (json ? rank_blr_weights_print_json : rank_blr_weights_print)(&w, stdout);
        rank_blr_weights_release(&w);
        return 0;
    }
    if (rank_blr_run(data, o, &one, err))
        return -1;
    (json ? rank_blr_print_json : rank_blr_print)(&one, stdout);
    rank_blr_release(&one);
    return 0;
}

static int blr(struct args *a, struct err *err)
{
    int models = (int)a->words - 1;

    if (a->of_rank)
        return err_set(err, ERR_INPUT, "%s with blr, expected it without blr", a->of_rank);
    if (models < 1 || models > RANK_RUNS_MAX)
        return err_set(err, ERR_INPUT, "blr with %d files, expected 1 to %d", models,
                       (int)RANK_RUNS_MAX);
    if (!(a->blr.prior_var > 0) || !(a->blr.noise_var > 0))
        return err_set(err, ERR_INPUT,
                       "blr without %s, expected --prior-var V0 and --noise-var VN",
                       a->blr.prior_var > 0 ? "--noise-var" : "--prior-var");
    if (a->blr.repeats && !a->blr.k)
        return err_set(err, ERR_INPUT, "--repeats without --bound-samples, expected -k K");
    if (a->seeded && !a->blr.k && !a->blr.samples)
        return err_set(err, ERR_INPUT,
                       "--seed without an estimate, expected -k K or --samples N");
    if (rank_names_check("data", a->word + 1, models, err))
        return -1;
    struct rank_blr_data *data = mem_new((size_t)models, sizeof *data);
    int rc = rank_blr_read(a->word + 1, models, RANK_BLR_BYTES_MAX, data, err);
    if (rc == 0) {
        rc = explain(data, models, &a->blr, a->cli.json, err);
        for (int m = 0; m < models; m++)
            rank_blr_data_release(&data[m]);
    }
    mem_free(data);
    return rc;
}

int main(int argc, char **argv)
{
    struct args a = {.cli = CLI_INIT("paro-rank"),
                     .o = {.how = {RANK_TSE_EMA, 1, 0.999}, .per_epoch = 1}};
    struct err err = {0};
    int answer = 0;

    cli_parse(&a.cli, &argp, argc, argv);
    int rc = a.words && strcmp(a.word[0], "blr") == 0 ? blr(&a, &err) : rank(&a, &answer, &err);
    mem_free(a.word);
    return rc ? cli_fail(&a.cli, &err) : cli_finish(&a.cli, answer);
}
