/* SPDX-License-Identifier: BSD-3-Clause */
/* Converts checkpoints and Hugging Face folders into one another, and checks and compares
   them. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/run_folder.h"
#include "shard/shard.h"
#include "cli/cli.h"
#include "cli/cli_hub.h"
#include "cli/cli_progress.h"
#include "plan/plan.h"

enum { JOBS_MAX = 256, RULES_MAX = 64 /* RULES_MAX: rules of each kind */ };

/* Formats for --format, types for --type. */
enum format { SAFETENSORS, GGUF };
struct weight_type {
    enum dtype type;
    int q8_0; /* set instead of a type */
};

struct args {
    struct cli cli;
    struct cli_progress *line;      /* for verbs that take long */
    struct ckpt_repaired *repaired; /* [2], one for each operand */
    const char *model, *plan, *adapter, *optimizer;
    struct shard_target output;
    int64_t seed, buffer, max_shard;
    int jobs, copies, quick, fuse, progress, dry;
    struct cli_list rules[SHARD_EDITS];
    enum format format;
    struct weight_type type;
    struct ckpt_limits limits;
    char *operand[2]; /* owned */
};

enum { INIT, SPLIT, MERGE, RESHARD, REPAIR, EDIT, VERIFY, LS, DIFF };
enum {
    MOVERS = 1 << SPLIT | 1 << MERGE | 1 << RESHARD | 1 << REPAIR | 1 << EDIT,
    WRITERS = MOVERS | 1 << INIT,
    READERS = MOVERS | 1 << VERIFY | 1 << LS | 1 << DIFF
};

static const struct cli_mode modes[] = {
    [INIT] = {"init", "init -m CONFIG -o DIR", 0, 0, "model output", 0},
    [SPLIT] = {"split", "split DIR|FILE -p PLAN -o DIR", 1, 1, "plan output", 0},
    [MERGE] = {"merge", "merge DIR|FILE -o DIR|FILE", 1, 1, "output", 0},
    [RESHARD] = {"reshard", "reshard DIR -p PLAN -o DIR", 1, 1, "plan output", 0},
    [REPAIR] = {"repair", "repair DIR -o DIR", 1, 1, "output", 0},
    [EDIT] = {"edit", "edit DIR|FILE -o DIR", 1, 1, NULL, 0},
    [VERIFY] = {"verify", "verify DIR|FILE", 1, 1, NULL, 0},
    [LS] = {"ls", "ls DIR|FILE", 1, 1, NULL, 0},
    [DIFF] = {"diff", "diff A B", 2, 2, NULL, 0},
    {0}};

/* Bounds: a number that fits 32 bits, and a header larger than any memory. */
#define COUNT_MAX      1000000000
#define SIZE_BYTES_MAX (INT64_C(1) << 40)

static int bind_type(const char *text, void *type, struct err *err)
{
    struct weight_type *t = type;
    struct err other;

    t->q8_0 = strcmp(text, "q8_0") == 0;
    if (t->q8_0 || (dtype_parse(text, &t->type, &other) == 0 && t->type != DTYPE_I32 &&
                    t->type != DTYPE_U8))
        return 0;
    return err_set(err, ERR_INPUT, "'%s', expected f32, bf16, f16 or f64, or q8_0 for gguf",
                   text);
}

#define CLI_ARGS struct args
static const struct cli_option options[] = {
    {.text = "Common options:"},
    {"output", 'o', "DIR", CLI_EVERYDAY, "Write to the folder DIR; of gguf a file",
     CLI_TEXT(output.dir), .modes = WRITERS},
    {"model", 'm', "CONFIG", CLI_EVERYDAY, "init: the model, a config.json or its folder",
     CLI_TEXT(model), .modes = 1 << INIT},
    {"plan", 'p', "PLAN", CLI_EVERYDAY, "split, reshard: the plan; - is standard input",
     CLI_TEXT(plan), .modes = 1 << SPLIT | 1 << RESHARD},
    {"type", 0, "TYPE", CLI_EVERYDAY,
     "split, merge, reshard: convert the weights to f32, bf16, f16, f64, or of gguf q8_0",
     CLI_PARSED(type, type), .modes = 1 << SPLIT | 1 << MERGE | 1 << RESHARD},
    {"force", 0, NULL, CLI_EVERYDAY, "Replace DIR if it exists", CLI_FLAG(output.force),
     .modes = WRITERS},
    {"quick", 0, NULL, 0,
     "verify: check sizes and headers only; faster, but does not read the data",
     CLI_FLAG(quick), .modes = 1 << VERIFY},
    {.text = "Options of single verbs:"},
    {"format", 0, "FORMAT", CLI_EVERYDAY,
     "merge: write safetensors, or gguf for llama.cpp (default: safetensors)",
     CLI_CHOICE(format, "safetensors|gguf"), .modes = 1 << MERGE},
    {"seed", 0, "S", CLI_EVERYDAY, "init, split: seed of initial values (default: 1)",
     CLI_WHOLE(seed, 0, INT64_MAX), .modes = 1 << INIT | 1 << SPLIT},
    {"adapter", 0, "DIR", 0,
     "split: read the adapters from a PEFT folder, to continue training them",
     CLI_TEXT(adapter), .modes = 1 << SPLIT},
    {"optimizer", 0, "FILE|DIR", 0,
     "split: read the optimizer's state from a .safetensors file or another program's"
     " checkpoint, to resume its run",
     CLI_TEXT(optimizer), .modes = 1 << SPLIT},
    {"copies", 0, "K", 0,
     "split, reshard: write K additional copies of each file, in other groups first, to survive"
     " the loss of nodes (default: 0)",
     CLI_INT(copies, 0, CKPT_COPIES_MAX), .modes = 1 << SPLIT | 1 << RESHARD},
    {"fuse", 0, NULL, 0,
     "merge: add the adapters to the weights, for programs that do not load adapters",
     CLI_FLAG(fuse), .modes = 1 << MERGE},
    {"max-shard", 0, "BYTES", 0,
     "merge: split the weights into files of at most BYTES (default: one file)",
     CLI_BYTES(max_shard, 1, INT64_MAX), .modes = 1 << MERGE, .excludes = "format=gguf"},
    {"drop", 0, "REGEX", 0, "edit: leave out the tensors whose names match",
     CLI_LIST(rules[SHARD_DROP]), .modes = 1 << EDIT},
    {"rename", 0, "REGEX=TEXT", 0,
     "edit: replace the match in names by TEXT, in which $1 is the first group",
     CLI_LIST(rules[SHARD_RENAME]), .modes = 1 << EDIT},
    {"cast", 0, "REGEX=TYPE", 0,
     "edit: convert the tensors whose names match to f32, bf16, f16 or f64",
     CLI_LIST(rules[SHARD_CAST]), .modes = 1 << EDIT},
    {"dry-run", 0, NULL, 0, "edit: print what would be done, and write nothing", CLI_FLAG(dry),
     .modes = 1 << EDIT, .excludes = "output"},
    {.text = "Speed and memory of split, merge, reshard, repair and edit:"},
    {"buffer", 0, "BYTES", 0, "Hold at most BYTES of states in memory (default: 64Mi)",
     CLI_BYTES(buffer, 1, INT64_MAX), .modes = MOVERS},
    {"jobs", 'j', "N", 0, "Read and write with N threads (default: one per processor, 4 to 16)",
     CLI_INT(jobs, 1, JOBS_MAX), .modes = MOVERS},
    {CLI_OPTION_PROGRESS(progress), .modes = MOVERS},
    {.text = "Limits for files that are larger than expected:"},
    {"max-header", 0, "BYTES", 0, "Accept headers and indexes up to BYTES (default: 100MB)",
     CLI_BYTES(limits.header_bytes, 2, SIZE_BYTES_MAX), .modes = READERS},
    {"max-tensors", 0, "N", 0, "Accept up to N tensors in a file (default: 1e6)",
     CLI_COUNT(limits.tensors, 1, COUNT_MAX), .modes = READERS},
    {"max-name", 0, "BYTES", 0, "Accept tensor names up to BYTES (default: 4096)",
     CLI_BYTES(limits.name_bytes, 1, SIZE_BYTES_MAX), .modes = READERS},
    {"max-files", 0, "N", 0,
     "Accept up to N files in an index, or next to the weights (default: 10000)",
     CLI_COUNT(limits.files, 1, COUNT_MAX), .modes = READERS},
    {"max-manifest", 0, "BYTES", 0, "Accept a manifest up to BYTES (default: 256Mi)",
     CLI_BYTES(limits.manifest_bytes, 1, SIZE_BYTES_MAX), .modes = READERS},
    {0}};

static int check_args(void *args)
{
    struct args *a = args;

    if (a->type.q8_0 && a->format != GGUF)
        return cli_usage(&a->cli, "--type q8_0 is expected with merge --format gguf only");
    if (a->cli.mode == EDIT && !a->dry && !a->output.dir)
        return cli_usage(&a->cli, "missing --output or --dry-run");
    if (a->cli.mode == EDIT && !a->rules[SHARD_DROP].count && !a->rules[SHARD_CAST].count &&
        !a->rules[SHARD_RENAME].count)
        return cli_usage(&a->cli, "missing --drop, --rename or --cast");
    return 0;
}

static const struct cli_command command = {
    options, modes,
    "Create model weights (init), split them into a checkpoint, merge it, reshard it for "
    "another plan, repair, edit, verify, list (ls) or compare (diff) it.",
    check_args};

static atomic_int stop; /* number of the signal that asked to stop */

static void on_signal(int number)
{
    atomic_store(&stop, number);
}

/* Handles the signals that ask to stop, except those that the parent process ignores
   (nohup). */
static void hear_signals(void)
{
    static const int requests[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct sigaction was;

    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
        if (sigaction(requests[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN)
            sigaction(requests[i], &act, NULL);
}

/* Reports data that was read in spite of damage: a line for each operand with repairs. */
static void tell_repaired(const struct args *a, int operand)
{
    char text[1200];

    if (ckpt_repaired_print(&a->repaired[operand], a->operand[operand], text, sizeof text))
        cli_say(&a->cli, "%s", text);
}

/* Call after cleanup: reports repairs; if a signal stopped the verb, ends with that signal. */
static int end_move(const struct args *a, int rc)
{
    cli_progress_clear(a->line);
    if (rc == 0)
        tell_repaired(a, 0);
    if (rc && atomic_load(&stop)) {
        signal(atomic_load(&stop), SIG_DFL);
        raise(atomic_load(&stop));
    }
    return rc;
}

static struct shard_options options_of(const struct args *a)
{
    hear_signals();
    return (struct shard_options){.buffer = a->buffer,
                                  .jobs = a->jobs,
                                  .limits = &a->limits,
                                  .progress = cli_progress_tell,
                                  .progress_arg = a->line,
                                  .repaired = a->repaired};
}

/* Each function runs its verb and returns 0, 1 (negative result) or -1. */
static int run_init(const struct args *a, struct err *err)
{
    struct model m;

    if (model_read(&m, a->model, err))
        return -1;
    hear_signals();
    int rc = shard_init(&m, (uint64_t)a->seed, &stop, a->output, err);
    model_release(&m);
    return end_move(a, rc);
}

static int run_cut(const struct args *a, struct err *err)
{
    struct plan p;

    if (plan_read(&p, a->plan, err))
        return -1;
    struct shard_request what = {.model = &p.model,
                                 .groups = &p.groups,
                                 .strategy = plan_strategy_name(p.strategy),
                                 .type = cli_given(&a->cli, "type") ? &a->type.type : NULL,
                                 .copies = a->copies,
                                 .adapter = a->adapter,
                                 .seed = (uint64_t)a->seed,
                                 .optimizer = a->optimizer,
                                 .options = options_of(a)};
    int rc = (a->cli.mode == SPLIT ? shard_split : shard_reshard)(a->operand[0], &what,
                                                                  a->output, err);
    plan_release(&p);
    return end_move(a, rc);
}

static int run_merge(const struct args *a, struct err *err)
{
    struct shard_gguf_notes notes = {0};
    struct shard_merging what = {.fuse = a->fuse,
                                 .type = cli_given(&a->cli, "type") ? &a->type.type : NULL,
                                 .q8_0 = a->type.q8_0,
                                 .gguf_notes = &notes,
                                 .max_shard = a->max_shard,
                                 .options = options_of(a)};
    int rc =
        (a->format == GGUF ? shard_gguf : shard_merge)(a->operand[0], &what, a->output, err);

    rc = end_move(a, rc);
    if (rc == 0 && notes.no_tokenizer)
        cli_say(&a->cli, "'%s' has no tokenizer, so '%s' has none", a->operand[0],
                a->output.dir);
    if (rc == 0 && notes.ragged)
        cli_say(&a->cli,
                "%d matrices are f16 instead of q8_0, since 32 does not divide their rows: the "
                "first is '%s'",
                notes.ragged, notes.first);
    return rc;
}

static int run_edit(const struct args *a, struct err *err)
{
    struct shard_editing what = {.dry = a->dry ? stdout : NULL, .options = options_of(a)};

    for (int k = 0; k < SHARD_EDITS; k++)
        what.list[k] = (struct shard_edit_list){a->rules[k].count, a->rules[k].item};
    return end_move(a, shard_edit(a->operand[0], &what, a->output, err));
}

static int run_repair(const struct args *a, struct err *err)
{
    struct shard_options given = options_of(a);
    int lost = 0;

    if (end_move(
            a, shard_repair(a->operand[0], &given, a->cli.json, stdout, a->output, &lost, err)))
        return -1;
    return lost > 0;
}

static int run_verify(const struct args *a, struct err *err)
{
    struct shard_options given = {.buffer = a->buffer, .limits = &a->limits};
    int bad = 0;

    if (shard_verify(a->operand[0], &given, a->quick, a->cli.json, stdout, &bad, err))
        return -1;
    return bad > 0;
}

static int run_ls(const struct args *a, struct err *err)
{
    struct shard_options given = {.limits = &a->limits, .repaired = a->repaired};
    int rc = shard_ls(a->operand[0], &given, a->cli.json, stdout, err);

    if (rc == 0)
        tell_repaired(a, 0);
    return rc;
}

static int run_diff(const struct args *a, struct err *err)
{
    struct shard_options given = {.limits = &a->limits, .repaired = a->repaired};
    int differ = 0;

    if (shard_diff(a->operand[0], a->operand[1], &given, a->cli.json, stdout, &differ, err))
        return -1;
    tell_repaired(a, 0);
    tell_repaired(a, 1);
    return differ > 0;
}

int main(int argc, char **argv)
{
    static int (*const run[])(const struct args *, struct err *) = {
        [INIT] = run_init,     [SPLIT] = run_cut,     [MERGE] = run_merge,
        [RESHARD] = run_cut,   [REPAIR] = run_repair, [EDIT] = run_edit,
        [VERIFY] = run_verify, [LS] = run_ls,         [DIFF] = run_diff};
    struct args a = {.cli = CLI_INIT("paro-shard"),
                     .seed = 1,
                     .buffer = 64 << 20,
                     .limits = ckpt_limits_usual};
    const char *rule[SHARD_EDITS][RULES_MAX];
    struct cli_progress line = {0};
    struct ckpt_repaired repaired[2] = {{0}};
    char hub[CLI_HUB_PATH];
    struct err err;

    for (int k = 0; k < SHARD_EDITS; k++)
        a.rules[k] = (struct cli_list){.item = rule[k], .most = RULES_MAX};
    a.line = &line;
    a.repaired = repaired;
    a.limits.stop = &stop;
    signal(SIGXFSZ, SIG_IGN); /* a write beyond the limit on file size then returns an error */
    cli_parse(&a.cli, &command, argc, argv);
    cli_progress_init(&line, a.progress, modes[a.cli.mode].name);
    for (int i = 0; i < a.cli.words; i++)
        a.operand[i] = run_folder_checkpoint(cli_hub(a.cli.word[i], hub));
    a.model = cli_hub(a.model, hub);
    int rc = run[a.cli.mode](&a, &err);
    mem_free(a.operand[0]);
    mem_free(a.operand[1]);
    return rc < 0 ? cli_fail(&a.cli, &err) : cli_finish(&a.cli, rc);
}
