/* SPDX-License-Identifier: BSD-3-Clause */
/* paro-shard: checkpoints and Hugging Face folders into one another, checked and compared. */
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "ckpt/tool.h"
#include "cli/cli.h"
#include "plan/plan.h"

enum { KEY_SEED = 0x100, KEY_FORCE, KEY_QUICK, KEY_ADAPTER, KEY_FUSE };
enum {
    HAS_MODEL = 1,
    HAS_SEED = 2,
    HAS_PLAN = 4,
    HAS_OUTPUT = 8,
    HAS_FORCE = 16,
    HAS_QUICK = 32,
    HAS_ADAPTER = 64,
    HAS_FUSE = 128
};

struct args {
    struct cli cli;
    int has; /* HAS_... that were given */
    const char *model, *plan, *adapter;
    struct tool_target output;
    int64_t seed;
    const struct verb *verb;
    int count; /* of operands */
    const char *operand[2];
};

/* Each runs its verb and returns 0, 1 (the answer is no) or -1. */
static int run_init(const struct args *a, struct err *err)
{
    struct model m;

    if (model_read(&m, a->model, err))
        return -1;
    int rc = tool_init(&m, (uint64_t)a->seed, a->output, err);
    model_release(&m);
    return rc;
}

static int run_split(const struct args *a, struct err *err)
{
    struct plan p;
    char strategy[4];

    if (plan_read(&p, a->plan, err))
        return -1;
    plan_strategy_name(p.strategy, strategy);
    struct tool_splitting what = {.model = &p.model,
                                  .groups = &p.groups,
                                  .strategy = strategy,
                                  .adapter = a->adapter,
                                  .seed = (uint64_t)a->seed};
    int rc = tool_split(a->operand[0], &what, a->output, err);
    plan_release(&p);
    return rc;
}

static int run_merge(const struct args *a, struct err *err)
{
    return tool_merge(a->operand[0], !!(a->has & HAS_FUSE), a->output, err);
}

static int run_verify(const struct args *a, struct err *err)
{
    int bad = 0;

    if (tool_verify(a->operand[0], !!(a->has & HAS_QUICK), a->cli.json, stdout, &bad, err))
        return -1;
    return bad > 0;
}

static int run_ls(const struct args *a, struct err *err)
{
    return tool_ls(a->operand[0], a->cli.json, stdout, err);
}

static int run_diff(const struct args *a, struct err *err)
{
    int differ = 0;

    if (tool_diff(a->operand[0], a->operand[1], a->cli.json, stdout, &differ, err))
        return -1;
    return differ > 0;
}

static const struct verb {
    const char *name, *usage;
    int operands, needs, may;
    int (*run)(const struct args *a, struct err *err);
} verbs[] = {
    {"init", "init -m CONFIG [--seed S] -o DIR", 0, HAS_MODEL | HAS_OUTPUT,
     HAS_SEED | HAS_FORCE, run_init},
    {"split", "split DIR|FILE -p PLAN [--adapter DIR] [--seed S] -o DIR", 1,
     HAS_PLAN | HAS_OUTPUT, HAS_FORCE | HAS_ADAPTER | HAS_SEED, run_split},
    {"merge", "merge DIR [--fuse] -o DIR", 1, HAS_OUTPUT, HAS_FORCE | HAS_FUSE, run_merge},
    {"verify", "verify DIR|FILE [--quick]", 1, 0, HAS_QUICK, run_verify},
    {"ls", "ls DIR|FILE", 1, 0, 0, run_ls},
    {"diff", "diff A B", 2, 0, 0, run_diff},
};

static const struct argp_option options[] = {
    {"model", 'm', "CONFIG", 0, "init: the config.json, or a folder with one", 0},
    {"seed", KEY_SEED, "S", 0, "init, split: which values to draw (default 1)", 0},
    {"adapter", KEY_ADAPTER, "DIR", 0, "split: a PEFT folder with the plan's adapters", 0},
    {"fuse", KEY_FUSE, 0, 0, "merge: add the adapters into the weights", 0},
    {"plan", 'p', "PLAN", 0, "split: the plan, - for standard input", 0},
    {"output", 'o', "DIR", 0, "init, split, merge: the folder to write", 0},
    {"force", KEY_FORCE, 0, 0, "Replace DIR if it is there", 0},
    {"quick", KEY_QUICK, 0, 0, "verify: sizes and headers, not the data", 0},
    CLI_OPTIONS,
    {0}};

static error_t take_operand(struct args *a, const char *arg)
{
    if (!a->verb) {
        for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
            if (strcmp(verbs[i].name, arg) == 0)
                a->verb = &verbs[i];
        return a->verb ? 0
                       : cli_usage(&a->cli,
                                   "verb '%s', expected init, split, merge, verify, ls or "
                                   "diff",
                                   arg);
    }
    if (a->count == a->verb->operands)
        return cli_usage(&a->cli, "unexpected argument '%s', expected paro-shard %s", arg,
                         a->verb->usage);
    a->operand[a->count++] = arg;
    return 0;
}

static error_t check_usage(struct args *a)
{
    const struct verb *v = a->verb;

    if (!v)
        return cli_usage(&a->cli, "no verb, expected init, split, merge, verify, ls or diff");
    if (a->count < v->operands || (a->has & v->needs) != v->needs)
        return cli_usage(&a->cli, "too little given, expected paro-shard %s", v->usage);
    if (a->has & ~(v->needs | v->may))
        return cli_usage(&a->cli, "an option that '%s' does not have, expected paro-shard %s",
                         v->name, v->usage);
    return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;

    switch (key) {
    case 'm':
        a->has |= HAS_MODEL;
        a->model = arg;
        return 0;
    case KEY_SEED:
        a->has |= HAS_SEED;
        return cli_check(&a->cli, num_i64(arg, 0, INT64_MAX, &a->seed, &a->cli.err), "--seed");
    case KEY_ADAPTER:
        a->has |= HAS_ADAPTER;
        a->adapter = arg;
        return 0;
    case KEY_FUSE:
        a->has |= HAS_FUSE;
        return 0;
    case 'p':
        a->has |= HAS_PLAN;
        a->plan = arg;
        return 0;
    case 'o':
        a->has |= HAS_OUTPUT;
        a->output.dir = arg;
        return 0;
    case KEY_FORCE:
        a->has |= HAS_FORCE;
        a->output.force = 1;
        return 0;
    case KEY_QUICK:
        a->has |= HAS_QUICK;
        return 0;
    case ARGP_KEY_ARG:
        return take_operand(a, arg);
    case ARGP_KEY_END:
        return check_usage(a);
    default:
        return cli_option(&a->cli, key, arg, state);
    }
}

static const struct argp argp = {
    options,
    parse,
    "init -m CONFIG [--seed S] -o DIR\n"
    "split DIR|FILE -p PLAN [--adapter DIR] [--seed S] -o DIR\nmerge DIR [--fuse] -o DIR\n"
    "verify DIR|FILE [--quick]\nls DIR|FILE\ndiff A B",
    "Checkpoints and Hugging Face folders: make, split, merge, check, list, compare.",
    NULL,
    NULL,
    NULL};

int main(int argc, char **argv)
{
    struct args a = {.cli = CLI_INIT("paro-shard"), .seed = 1};
    struct err err;

    cli_parse(&a.cli, &argp, argc, argv);
    int rc = a.verb->run(&a, &err);
    if (rc < 0)
        return cli_fail(&a.cli, &err);
    return cli_finish(&a.cli, rc);
}
