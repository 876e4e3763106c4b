/* SPDX-License-Identifier: BSD-3-Clause */
/* paro-shard: checkpoints and Hugging Face folders into one another, checked and compared. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/run_folder.h"
#include "ckpt/tool.h"
#include "cli/cli.h"
#include "cli/cli_progress.h"
#include "plan/plan.h"

enum {
    KEY_SEED = 0x100,
    KEY_FORCE,
    KEY_QUICK,
    KEY_ADAPTER,
    KEY_FUSE,
    KEY_BUFFER,
    KEY_TYPE,
    KEY_MAX_SHARD,
    KEY_COPIES,
    KEY_PROGRESS,
    KEY_MAX_HEADER,
    KEY_MAX_TENSORS,
    KEY_MAX_NAME,
    KEY_MAX_FILES,
    KEY_MAX_MANIFEST,
    KEY_OPTIMIZER
};
enum {
    HAS_MODEL = 1,
    HAS_SEED = 2,
    HAS_PLAN = 4,
    HAS_OUTPUT = 8,
    HAS_FORCE = 16,
    HAS_QUICK = 32,
    HAS_ADAPTER = 64,
    HAS_FUSE = 128,
    HAS_BUFFER = 256,
    HAS_JOBS = 512,
    HAS_TYPE = 1024,
    HAS_MAX_SHARD = 2048,
    HAS_LIMITS = 4096,
    HAS_COPIES = 8192,
    HAS_PROGRESS = 16384,
    HAS_OPTIMIZER = 32768
};

enum { JOBS_MAX = 256, COPIES_MAX = CKPT_COPIES_MAX };

struct args {
    struct cli cli;
    struct cli_progress *progress; /* of the verbs that take long */
    struct ckpt_healed *healed;    /* [2], of the operands */
    int has;                       /* HAS_... that were given */
    const char *model, *plan, *adapter, *optimizer;
    struct tool_target output;
    int64_t seed, buffer, jobs, copies, max_shard;
    enum dtype type;
    struct ckpt_limits limits;
    const struct verb *verb;
    int count;        /* of operands */
    char *operand[2]; /* owned */
};

static atomic_int stop; /* the signal that asks for it */

static void on_signal(int number)
{
    atomic_store(&stop, number);
}

/* What asks to stop is heard, but for what whoever started us has ignored (nohup). */
static void hear_signals(void)
{
    static const int asks[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct sigaction was;

    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++)
        if (sigaction(asks[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN)
            sigaction(asks[i], &act, NULL);
}

/* What was read all the same is told: a line for each operand of which something was. */
static void tell_healed(const struct args *a, int operand)
{
    char text[1200];

    if (ckpt_healed_print(&a->healed[operand], a->operand[operand], text, sizeof text))
        cli_say(&a->cli, "%s", text);
}

/* All is tidied up: what copies gave is told; what was stopped ends as the signal has it. */
static int end_move(const struct args *a, int rc)
{
    cli_progress_clear(a->progress);
    if (rc == 0)
        tell_healed(a, 0);
    if (rc && atomic_load(&stop)) {
        signal(atomic_load(&stop), SIG_DFL);
        raise(atomic_load(&stop));
    }
    return rc;
}

static struct tool_means means_of(const struct args *a)
{
    hear_signals();
    return (struct tool_means){.buffer = a->buffer,
                               .jobs = (int)a->jobs,
                               .limits = &a->limits,
                               .tell = cli_progress_tell,
                               .ear = a->progress,
                               .healed = a->healed};
}

/* Each runs its verb and returns 0, 1 (the answer is no) or -1. */
static int run_init(const struct args *a, struct err *err)
{
    struct model m;

    if (model_read(&m, a->model, err))
        return -1;
    hear_signals();
    int rc = tool_init(&m, (uint64_t)a->seed, &stop, a->output, err);
    model_release(&m);
    return end_move(a, rc);
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
                                  .optimizer = a->optimizer,
                                  .seed = (uint64_t)a->seed,
                                  .type = a->has & HAS_TYPE ? &a->type : NULL,
                                  .copies = (int)a->copies,
                                  .means = means_of(a)};
    int rc = tool_split(a->operand[0], &what, a->output, err);
    plan_release(&p);
    return end_move(a, rc);
}

static int run_reshard(const struct args *a, struct err *err)
{
    struct plan p;
    char strategy[4];

    if (plan_read(&p, a->plan, err))
        return -1;
    plan_strategy_name(p.strategy, strategy);
    struct tool_resharding what = {.model = &p.model,
                                   .groups = &p.groups,
                                   .strategy = strategy,
                                   .type = a->has & HAS_TYPE ? &a->type : NULL,
                                   .copies = (int)a->copies,
                                   .means = means_of(a)};
    int rc = tool_reshard(a->operand[0], &what, a->output, err);
    plan_release(&p);
    return end_move(a, rc);
}

static int run_merge(const struct args *a, struct err *err)
{
    struct tool_merging what = {.fuse = !!(a->has & HAS_FUSE),
                                .type = a->has & HAS_TYPE ? &a->type : NULL,
                                .max_shard = a->max_shard,
                                .means = means_of(a)};

    return end_move(a, tool_merge(a->operand[0], &what, a->output, err));
}

static int run_repair(const struct args *a, struct err *err)
{
    struct tool_means means = means_of(a);
    int lost = 0;

    if (end_move(
            a, tool_repair(a->operand[0], &means, a->cli.json, stdout, a->output, &lost, err)))
        return -1;
    return lost > 0;
}

static int run_verify(const struct args *a, struct err *err)
{
    int bad = 0;

    if (tool_verify(a->operand[0], &a->limits, !!(a->has & HAS_QUICK), a->cli.json, stdout,
                    &bad, err))
        return -1;
    return bad > 0;
}

static int run_ls(const struct args *a, struct err *err)
{
    struct tool_means means = {.limits = &a->limits, .healed = a->healed};
    int rc = tool_ls(a->operand[0], &means, a->cli.json, stdout, err);

    if (rc == 0)
        tell_healed(a, 0);
    return rc;
}

static int run_diff(const struct args *a, struct err *err)
{
    struct tool_means means = {.limits = &a->limits, .healed = a->healed};
    int differ = 0;

    if (tool_diff(a->operand[0], a->operand[1], &means, a->cli.json, stdout, &differ, err))
        return -1;
    tell_healed(a, 0);
    tell_healed(a, 1);
    return differ > 0;
}

#define SPLIT_USAGE                                                                            \
    "split DIR|FILE -p PLAN [--adapter DIR] [--optimizer FILE] [--seed S] [--type TYPE] "      \
    "[--copies K] -o DIR"
#define MERGE_USAGE   "merge DIR [--fuse] [--type TYPE] [--max-shard BYTES] -o DIR"
#define RESHARD_USAGE "reshard DIR -p PLAN [--type TYPE] [--copies K] -o DIR"
/* What the verbs that move bytes share. */
#define HAS_MEANS (HAS_FORCE | HAS_TYPE | HAS_BUFFER | HAS_JOBS | HAS_PROGRESS | HAS_LIMITS)

#define REPAIR_USAGE "repair DIR -o DIR"

static const struct verb {
    const char *name, *usage;
    int operands, needs, may;
    int (*run)(const struct args *a, struct err *err);
} verbs[] = {
    {"init", "init -m CONFIG [--seed S] -o DIR", 0, HAS_MODEL | HAS_OUTPUT,
     HAS_SEED | HAS_FORCE, run_init},
    {"split", SPLIT_USAGE, 1, HAS_PLAN | HAS_OUTPUT,
     HAS_MEANS | HAS_ADAPTER | HAS_OPTIMIZER | HAS_SEED | HAS_COPIES, run_split},
    {"merge", MERGE_USAGE, 1, HAS_OUTPUT, HAS_MEANS | HAS_FUSE | HAS_MAX_SHARD, run_merge},
    {"reshard", RESHARD_USAGE, 1, HAS_PLAN | HAS_OUTPUT, HAS_MEANS | HAS_COPIES, run_reshard},
    {"repair", REPAIR_USAGE, 1, HAS_OUTPUT, HAS_MEANS & ~HAS_TYPE, run_repair},
    {"verify", "verify DIR|FILE [--quick]", 1, 0, HAS_QUICK | HAS_LIMITS, run_verify},
    {"ls", "ls DIR|FILE", 1, 0, HAS_LIMITS, run_ls},
    {"diff", "diff A B", 2, 0, HAS_LIMITS, run_diff},
};

static const struct argp_option options[] = {
    {0, 0, 0, 0, "Common options:", 1},
    {"output", 'o', "DIR", CLI_EVERYDAY, "Write to the folder DIR", 1},
    {"model", 'm', "CONFIG", CLI_EVERYDAY,
     "init: create weights for this model, a config.json or a folder with one", 1},
    {"plan", 'p', "PLAN", CLI_EVERYDAY,
     "split, reshard: read the strategy and the groups from this plan; - is standard input", 1},
    {"type", KEY_TYPE, "TYPE", CLI_EVERYDAY,
     "split, merge, reshard: convert the weights to f32, bf16, f16 or f64", 1},
    {"force", KEY_FORCE, 0, CLI_EVERYDAY, "Replace DIR if it exists", 1},
    {"quick", KEY_QUICK, 0, 0,
     "verify: check sizes and headers only; faster, but does not read the data", 1},
    {0, 0, 0, 0, "Options of single verbs:", 2},
    {"seed", KEY_SEED, "S", CLI_EVERYDAY,
     "init, split: draw initial values from another seed (default: 1)", 2},
    {"adapter", KEY_ADAPTER, "DIR", 0,
     "split: read the adapters from a PEFT folder, to continue training them", 2},
    {"optimizer", KEY_OPTIMIZER, "FILE", 0,
     "split: read the optimizer's state from a .safetensors file, to resume another program's"
     " run",
     2},
    {"copies", KEY_COPIES, "K", 0,
     "split, reshard: write K additional copies of each file, in other groups first, to survive"
     " the loss of nodes (default: 0)",
     2},
    {"fuse", KEY_FUSE, 0, 0,
     "merge: add the adapters to the weights, for programs that do not load adapters", 2},
    {"max-shard", KEY_MAX_SHARD, "BYTES", 0,
     "merge: split the weights into files of at most BYTES (default: one file)", 2},
    {0, 0, 0, 0, "Speed and memory of split, merge, reshard and repair:", 3},
    {"buffer", KEY_BUFFER, "BYTES", 0, "Hold at most BYTES of states in memory (default: 64Mi)",
     3},
    {"jobs", 'j', "N", 0, "Read and write with N threads (default: one per processor, 4 to 16)",
     3},
    CLI_PROGRESS_OPTION(KEY_PROGRESS),
    {0, 0, 0, 0, "Limits for files that are larger than expected:", 4},
    {"max-header", KEY_MAX_HEADER, "BYTES", 0,
     "Accept headers and indexes up to BYTES (default: 100MB)", 4},
    {"max-tensors", KEY_MAX_TENSORS, "N", 0, "Accept up to N tensors in a file (default: 1e6)",
     4},
    {"max-name", KEY_MAX_NAME, "BYTES", 0, "Accept tensor names up to BYTES (default: 4096)",
     4},
    {"max-files", KEY_MAX_FILES, "N", 0,
     "Accept up to N files in an index, or next to the weights (default: 10000)", 4},
    {"max-manifest", KEY_MAX_MANIFEST, "BYTES", 0,
     "Accept a manifest up to BYTES (default: 256Mi)", 4},
    CLI_OPTIONS,
    {0}};

/* Bounds of the bounds: what 32 bits count, and a header that fits into no memory. */
enum { COUNT_MAX = 1000000000 };
static const int64_t size_max = INT64_C(1) << 40;

static error_t parse_limit(int key, const char *arg, struct args *a)
{
    struct ckpt_limits *l = &a->limits;
    struct err *err = &a->cli.err;

    a->has |= HAS_LIMITS;
    switch (key) {
    case KEY_MAX_HEADER:
        return cli_check(&a->cli, num_bytes(arg, 2, size_max, &l->header_bytes, err),
                         "--max-header");
    case KEY_MAX_TENSORS:
        return cli_check(&a->cli, num_count(arg, 1, COUNT_MAX, &l->tensors, err),
                         "--max-tensors");
    case KEY_MAX_NAME:
        return cli_check(&a->cli, num_bytes(arg, 1, size_max, &l->name_bytes, err),
                         "--max-name");
    case KEY_MAX_FILES:
        return cli_check(&a->cli, num_count(arg, 1, COUNT_MAX, &l->files, err), "--max-files");
    default:
        return cli_check(&a->cli, num_bytes(arg, 1, size_max, &l->manifest_bytes, err),
                         "--max-manifest");
    }
}

static error_t parse_type(const char *arg, struct args *a)
{
    a->has |= HAS_TYPE;
    if (cli_check(&a->cli, dtype_parse(arg, &a->type, &a->cli.err), "--type"))
        return EINVAL;
    if (a->type == DTYPE_I32 || a->type == DTYPE_U8)
        return cli_usage(&a->cli, "--type: '%s', expected f32, bf16, f16 or f64", arg);
    return 0;
}

static error_t take_operand(struct args *a, const char *arg)
{
    if (!a->verb) {
        for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
            if (strcmp(verbs[i].name, arg) == 0)
                a->verb = &verbs[i];
        a->progress->word = arg;
        return a->verb ? 0
                       : cli_usage(
                             &a->cli,
                             "verb '%s', expected init, split, merge, reshard, repair, verify, "
                             "ls or diff",
                             arg);
    }
    if (a->count == a->verb->operands)
        return cli_usage(&a->cli, "unexpected argument '%s', expected paro-shard %s", arg,
                         a->verb->usage);
    a->operand[a->count++] = run_folder_checkpoint(arg);
    return 0;
}

static error_t check_usage(struct args *a)
{
    const struct verb *v = a->verb;

    if (!v)
        return cli_usage(
            &a->cli,
            "missing verb, expected init, split, merge, reshard, repair, verify, ls or diff");
    if (a->count < v->operands || (a->has & v->needs) != v->needs)
        return cli_usage(&a->cli, "missing operand or option, expected paro-shard %s",
                         v->usage);
    if (a->has & ~(v->needs | v->may))
        return cli_usage(&a->cli,
                         "an option that '%s' does not support, expected paro-shard %s",
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
    case KEY_OPTIMIZER:
        a->has |= key == KEY_ADAPTER ? HAS_ADAPTER : HAS_OPTIMIZER;
        *(key == KEY_ADAPTER ? &a->adapter : &a->optimizer) = arg;
        return 0;
    case KEY_FUSE:
        a->has |= HAS_FUSE;
        return 0;
    case KEY_BUFFER:
        a->has |= HAS_BUFFER;
        return cli_check(&a->cli, num_bytes(arg, 1, INT64_MAX, &a->buffer, &a->cli.err),
                         "--buffer");
    case KEY_TYPE:
        return parse_type(arg, a);
    case KEY_MAX_SHARD:
        a->has |= HAS_MAX_SHARD;
        return cli_check(&a->cli, num_bytes(arg, 1, INT64_MAX, &a->max_shard, &a->cli.err),
                         "--max-shard");
    case KEY_MAX_HEADER:
    case KEY_MAX_TENSORS:
    case KEY_MAX_NAME:
    case KEY_MAX_FILES:
    case KEY_MAX_MANIFEST:
        return parse_limit(key, arg, a);
    case KEY_COPIES:
        a->has |= HAS_COPIES;
        return cli_check(&a->cli, num_i64(arg, 0, COPIES_MAX, &a->copies, &a->cli.err),
                         "--copies");
    case KEY_PROGRESS:
        a->has |= HAS_PROGRESS;
        return cli_progress_choose(&a->cli, a->progress, arg);
    case 'j':
        a->has |= HAS_JOBS;
        return cli_check(&a->cli, num_i64(arg, 1, JOBS_MAX, &a->jobs, &a->cli.err), "--jobs");
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
    "init -m CONFIG -o DIR\nsplit DIR|FILE -p PLAN -o DIR\nmerge DIR -o DIR\n"
    "reshard DIR -p PLAN -o DIR\nrepair DIR -o DIR\nverify DIR|FILE\nls DIR|FILE\ndiff A B",
    "Create model weights (init), split them into a checkpoint, merge it, convert it for "
    "another plan (reshard), repair, verify, list (ls) or compare (diff) it.",
    NULL,
    NULL,
    NULL};

int main(int argc, char **argv)
{
    struct args a = {.cli = CLI_INIT("paro-shard"), .seed = 1, .buffer = 64 << 20};
    struct cli_progress progress = {0};
    struct ckpt_healed healed[2] = {{0}};
    struct err err;

    a.progress = &progress;
    a.healed = healed;
    cli_progress_choose(&a.cli, &progress, NULL);
    a.limits = ckpt_limits_usual;
    a.limits.stop = &stop;
    signal(SIGXFSZ, SIG_IGN); /* a file that is too large is an error of the write */
    cli_parse(&a.cli, &argp, argc, argv);
    int rc = a.verb->run(&a, &err);
    mem_free(a.operand[0]);
    mem_free(a.operand[1]);
    if (rc < 0)
        return cli_fail(&a.cli, &err);
    return cli_finish(&a.cli, rc);
}
