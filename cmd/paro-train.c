/* SPDX-License-Identifier: BSD-3-Clause */
/* paro-train(1): trains a model by a plan, under mpirun or alone. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/jout.h"
#include "base/num.h"
#include "base/tick.h"
#include "cli/cli_world.h"
#include "data/data.h"
#include "train/train_plot.h"
#include "train/train.h"
#include "train/train_generate.h"

enum {
    KEY_SETTING = 0x5000,
    KEY_INIT = 0x6000,
    KEY_WEIGHTS,
    KEY_TOKENIZER,
    KEY_TOKENIZE,
    KEY_RESUME,
    KEY_DRY,
    KEY_CONFIG,
    KEY_LOG,
    KEY_ALGO,
    KEY_TUNING,
    KEY_AGAINST,
    KEY_EXACT,
    KEY_TRACE,
    KEY_FORCE,
    KEY_NEW_DATA,
    KEY_PRINT,
    KEY_PROGRESS,
    KEY_PEAK,
    KEY_DEVICE,
    KEY_TRANSPORT,
    KEY_FASTEST,
    KEY_GRAPHS,
    KEY_GENERATE,
    KEY_LENGTH,
    KEY_TEMPERATURE,
    KEY_TOP_P,
    KEY_END
};

enum { KEYS_MAX = 64 }; /* more than there are options */

struct args {
    struct cli cli;
    struct train_run run;
    struct train_prompt prompt;
    const char *data[ORDER_SOURCES_MAX]; /* run.data */
    const char *tokenize;
    int print_config;
    const char *progress;
    const char *word[TRAIN_PLOT_RUNS]; /* the plan, or logs */
    int words;
    const char *after_resume; /* the word after a --resume without a value; NULL: none */
    int key[KEYS_MAX], keys;  /* of options given, for check_modes */
};

static volatile int stop; /* the one thing a signal touches */

/* The flags of a setting. */
#define EVERYDAY(k)                                                                            \
    ((k) == TRAIN_SETTING_steps || (k) == TRAIN_SETTING_lr || (k) == TRAIN_SETTING_save_every  \
         ? CLI_EVERYDAY                                                                        \
         : 0)

/* What a setting of each kind takes. */
#define VALUE_F "NUMBER"
#define VALUE_I "NUMBER"
#define VALUE_S "cosine|linear|wsd|constant"

static const struct argp_option options[] = {
    {"data", 'd', "FILE", CLI_EVERYDAY,
     "Train on FILE: a text, or tokens of llm.c, nanoGPT or Megatron; may be repeated", 1},
    {"output", 'o', "DIR", CLI_EVERYDAY, "Keep log and checkpoints in DIR", 1},
    {"init", KEY_INIT, "DIR", CLI_EVERYDAY,
     "Start with the weights in DIR, a checkpoint or a Hugging Face folder (default: fresh)",
     1},
    {"resume", KEY_RESUME, "auto|PATH", CLI_EVERYDAY | OPTION_ARG_OPTIONAL,
     "Resume from the newest checkpoint in DIR, or PATH", 1},
    {"dry-run", KEY_DRY, 0, CLI_EVERYDAY, "Check plan, data, memory and ranks; train nothing",
     1},
    {"config", KEY_CONFIG, "FILE", 0, "Read settings from a YAML file; options override it", 1},
    {"force", KEY_FORCE, 0, 0,
     "Start a new run in a folder that already has one, or let --svg replace FILE", 1},
    {"device", KEY_DEVICE, "cpu|cuda|cuda:N", CLI_EVERYDAY,
     "Train on the processor, on one GPU per rank, or on GPU N of each host (default: cpu)", 1},
    {"progress", KEY_PROGRESS, "auto|always|never", 0,
     "Show progress on standard error (default: auto, if that is a terminal)", 1},
    {0, 0, 0, 0, "More options for training:", 2},
    {"data-weights", KEY_WEIGHTS, "W,...", 0,
     "Mix the files in this ratio of samples (default: that of their token counts)", 3},
    {"tokenizer", KEY_TOKENIZER, "DIR|bytes", 0,
     "Encode texts as GPT-2 does, with the files in DIR (default: those of the model, "
     "else a token is a byte)",
     3},
    {"new-data", KEY_NEW_DATA, 0, 0, "With --resume: resume even if the data have changed", 3},
    {"log", KEY_LOG, "FILE", 0,
     "Write the log to FILE; - is standard output (default: DIR/log.jsonl)", 3},
    {"peak", KEY_PEAK, "FLOPS", 0,
     "Peak FLOP/s of a rank, to log the share of it that is used (mfu)", 3},
    {"algo", KEY_ALGO, "ALGO", 0,
     "Run the collectives by ALGO: ring, two-level, ho-ring or auto (default: the plan's)", 3},
    {"tuning", KEY_TUNING, "FILE", 0,
     "With --algo=auto: choose algorithms and chunk sizes by this table of paro-bench or "
     "paro-sched",
     3},
    {"transport", KEY_TRANSPORT, "mpi|nccl|auto", 0,
     "Send GPU memory by MPI through the hosts, or by NCCL (default: auto, NCCL if each of "
     "several ranks has a GPU)",
     3},
    {"cuda-graphs", KEY_GRAPHS, "auto|always|never", 0,
     "Launch the kernels of a layer in one call, to save processor time (default: auto, where "
     "the GPU waits for launches)",
     3},
    {"fastest", KEY_FASTEST, 0, 0,
     "On a GPU: use the fastest kernels, although the last bits may differ from run to run", 3},
    {"trace-step", KEY_TRACE, "K", 0,
     "Write a trace of step K to DIR, as JSON and SVG, to see what waits for what", 3},
    {"against", KEY_AGAINST, "XYZ", 0,
     "Verify the plan's strategy against strategy XYZ; fail if states differ", 3},
    {"exact", KEY_EXACT, 0, 0,
     "Make sums independent of their order and log a hash of each step, to compare runs bit "
     "for bit",
     3},
    {"print-config", KEY_PRINT, 0, 0, "Print the settings as YAML and exit", 3},
    {0, 0, 0, 0, "Instead of training:", 4},
    CLI_OPTION_SVG(
        "Draw loss, tokens/s and exposed communication of up to 8 runs as SVG to FILE or"
        " standard output",
        0, 5),
    {"generate", KEY_GENERATE, "TEXT", 0,
     "Continue TEXT with the model of --init: a checkpoint, a run or a Hugging Face folder", 5},
    {"length", KEY_LENGTH, "N", 0, "Generate at most N tokens (default: 256)", 5},
    {"temperature", KEY_TEMPERATURE, "T", 0, "Sampling temperature; 0 is greedy (default: 0)",
     5},
    {"top-p", KEY_TOP_P, "P", 0,
     "Sample from the most likely tokens with a total probability of P (default: 1, all)", 5},
    {"tokenize", KEY_TOKENIZE, "OUT", 0,
     "Encode a large text once, and write its tokens to OUT for later runs", 5},
    {0, 0, 0, 0, "Settings:", 6},
#define X_OPTION(name, option, kind, value, least, most, text)                                 \
    {option,                                                                                   \
     KEY_SETTING + TRAIN_SETTING_##name,                                                       \
     VALUE_##kind,                                                                             \
     EVERYDAY(TRAIN_SETTING_##name),                                                           \
     text " (default: " value ")",                                                             \
     7},
    TRAIN_SETTINGS(X_OPTION)
#undef X_OPTION
        CLI_OPTIONS,
    {0}};

static error_t check_progress(struct args *a)
{
    static const char *const words[] = {"auto", "always", "never"};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(a->progress, words[i]) == 0)
            return 0;
    return cli_usage(&a->cli, "--progress: '%s', expected auto, always or never", a->progress);
}

/* Under a launcher standard output looks like a terminal, wherever it goes. */
static void choose_progress(struct args *a)
{
    const char *how = a->progress ? a->progress : "auto", *term = getenv("TERM");
    int dumb = !term || !*term || !strcmp(term, "dumb");

    a->run.progress =
        !strcmp(how, "always") || (!strcmp(how, "auto") && isatty(STDERR_FILENO) && !dumb);
    a->run.brief = isatty(STDOUT_FILENO) && isatty(STDERR_FILENO) && !cli_launched();
}

/* What is asked for; an option says which of them it is for. */
enum mode { RUN = 1, GENERATE = 2, TOKENIZE = 4, PLOT = 8, PRINT = 16 };

static unsigned modes_of(int key)
{
    switch (key) {
    case KEY_FORCE:
        return RUN | PRINT | TOKENIZE | PLOT;
    case 'd':
        return RUN | PRINT | TOKENIZE;
    case KEY_TOKENIZER:
        return RUN | PRINT | TOKENIZE | GENERATE;
    case KEY_INIT:
    case KEY_SETTING + TRAIN_SETTING_seed:
        return RUN | PRINT | GENERATE;
    case KEY_LENGTH:
    case KEY_TEMPERATURE:
    case KEY_TOP_P:
    case KEY_GENERATE:
        return GENERATE;
    case KEY_TOKENIZE:
        return TOKENIZE;
    case KEY_PRINT:
        return PRINT;
    default:
        return RUN | PRINT;
    }
}

static enum mode mode_of(const struct args *a)
{
    return a->cli.svg        ? PLOT
           : a->print_config ? PRINT
           : a->tokenize     ? TOKENIZE
           : a->prompt.text  ? GENERATE
                             : RUN;
}

static const char *mode_name(enum mode mode)
{
    return mode == PLOT       ? "--svg"
           : mode == PRINT    ? "--print-config"
           : mode == TOKENIZE ? "--tokenize"
           : mode == GENERATE ? "--generate"
                              : "a run";
}

/* An option that would be set aside is refused. */
static error_t check_modes(struct args *a)
{
    enum mode mode = mode_of(a);

    for (int i = 0; options[i].name || options[i].group; i++)
        for (int k = 0; k < a->keys; k++)
            if (options[i].name && options[i].key == a->key[k] && !(modes_of(a->key[k]) & mode))
                return cli_usage(&a->cli, "--%s is not an option of %s", options[i].name,
                                 mode_name(mode));
    return 0;
}

/*
 * "--resume auto PLAN" is as old as "--resume=auto PLAN": of two operands where one is
 * expected, the one after --resume is its value.  So "--resume PLAN" is a plan.
 */
static void take_resume(struct args *a)
{
    int expected = !a->print_config;

    for (int i = 0; a->words == expected + 1 && i < a->words; i++)
        if (a->word[i] == a->after_resume) {
            a->run.resume = a->word[i];
            a->word[i] = a->word[1 - i]; /* two at most */
            a->words--;
        }
}

static error_t check_run(struct args *a)
{
    struct train_run *r = &a->run;

    take_resume(a);
    if (a->words > 1)
        return cli_usage(&a->cli, "second plan '%s', expected one", a->word[1]);
    r->plan = a->words ? a->word[0] : NULL;
    if (!a->print_config && (!r->plan || !r->data || !r->out))
        return cli_usage(&a->cli,
                         "missing operand or option, expected PLAN, -d DATA and -o DIR");
    if (r->new_data && !r->resume)
        return cli_usage(&a->cli, "--new-data without --resume, expected both");
    if (r->resume && r->force)
        return cli_usage(&a->cli, "--resume and --force together, expected one of them");
    return 0;
}

static error_t check_words(struct args *a)
{
    const struct train_run *r = &a->run;
    enum mode mode = mode_of(a);
    error_t rc = check_modes(a);

    if (rc)
        return rc;
    if (mode == PLOT && !a->words)
        return cli_usage(&a->cli, "--svg without a log, expected --svg[=FILE] LOG...");
    if (mode == PLOT)
        return cli_check_svg(&a->cli);
    if (mode == GENERATE && (a->words || !r->init))
        return cli_usage(&a->cli, a->words ? "--generate and a plan, expected one of them"
                                           : "--generate without a model, expected --init DIR");
    if (mode == TOKENIZE && (r->data_count != 1 || !r->tokenizer || a->words))
        return cli_usage(&a->cli,
                         "--tokenize with %d files of data and %s tokenizer, expected "
                         "-d TEXT and --tokenizer DIR%s",
                         r->data_count, r->tokenizer ? "a" : "no", a->words ? " alone" : "");
    return mode == RUN || mode == PRINT ? check_run(a) : 0;
}

/* Where the text of an option goes that takes one as it is; NULL: it is another option. */
static const char **text_of(struct args *a, int key)
{
    struct train_run *r = &a->run;

    switch (key) {
    case 'o':
        return &r->out;
    case KEY_WEIGHTS:
        return &r->data_weights;
    case KEY_TOKENIZER:
        return &r->tokenizer;
    case KEY_TOKENIZE:
        return &a->tokenize;
    case KEY_INIT:
        return &r->init;
    case KEY_CONFIG:
        return &r->config;
    case KEY_LOG:
        return &r->log;
    case KEY_ALGO:
        return &r->algo;
    case KEY_TUNING:
        return &r->tuning;
    case KEY_AGAINST:
        return &r->against;
    case KEY_TRACE:
        return &r->trace_step;
    case KEY_DEVICE:
        return &r->device;
    case KEY_TRANSPORT:
        return &r->transport;
    case KEY_GRAPHS:
        return &r->graphs;
    case KEY_GENERATE:
        return &a->prompt.text;
    case KEY_LENGTH:
        return &a->prompt.length;
    case KEY_TEMPERATURE:
        return &a->prompt.temperature;
    case KEY_TOP_P:
        return &a->prompt.top_p;
    default:
        if (key >= KEY_SETTING && key < KEY_SETTING + TRAIN_SETTINGS_COUNT)
            return &r->given[key - KEY_SETTING];
        return NULL;
    }
}

/* Each key once, of the options that are not common to all commands. */
static void note_key(struct args *a, int key)
{
    int own = key == 'd' || key == 'o' || (key >= KEY_SETTING && key < KEY_END);

    for (int i = 0; i < a->keys; i++)
        own &= a->key[i] != key;
    if (own && a->keys < KEYS_MAX)
        a->key[a->keys++] = key;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;
    const char **text = text_of(a, key);

    note_key(a, key);
    if (text) {
        *text = arg;
        return 0;
    }
    switch (key) {
    case KEY_RESUME:
        a->run.resume = arg ? arg : "auto";
        a->after_resume = arg ? NULL : state->argv[state->next]; /* NULL at the end */
        return 0;
    case KEY_DRY:
        a->run.dry = 1;
        return 0;
    case 'd':
        if (a->run.data_count == ORDER_SOURCES_MAX)
            return cli_usage(&a->cli, "data '%s' is one too many, expected at most %d files",
                             arg, ORDER_SOURCES_MAX);
        a->run.data = a->data;
        a->data[a->run.data_count++] = arg;
        return 0;
    case KEY_EXACT:
        a->run.exact = 1;
        return 0;
    case KEY_FASTEST:
        a->run.fastest = 1;
        return 0;
    case KEY_FORCE:
        a->run.force = a->cli.force = 1;
        return 0;
    case KEY_NEW_DATA:
        a->run.new_data = 1;
        return 0;
    case KEY_PRINT:
        a->print_config = 1;
        return 0;
    case KEY_PROGRESS:
        a->progress = arg;
        return check_progress(a);
    case KEY_PEAK:
        return cli_check(&a->cli, num_per_s(arg, 1, 1e18, &a->run.peak, &a->cli.err), "--peak");
    case ARGP_KEY_ARG:
        if (a->words == TRAIN_PLOT_RUNS)
            return cli_usage(&a->cli, "'%s' is one too many, expected at most %d logs", arg,
                             TRAIN_PLOT_RUNS);
        a->word[a->words++] = arg;
        return 0;
    case ARGP_KEY_END:
        return check_words(a);
    default:
        return cli_option(&a->cli, key, arg, state);
    }
}

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "PLAN -d DATA -o DIR\n--generate TEXT --init DIR\n"
                "--tokenize OUT -d TEXT --tokenizer DIR\n--svg[=FILE] LOG...",
    .doc = "Train a model by a plan of paro-plan: under mpirun with as many ranks as the plan"
           " has, or alone with one rank.",
};

static void on_signal(int number)
{
    (void)number;
    stop = 1;
}

/*
 * The first asks for a good end, a second of its kind ends at once.  On a stack of its own: the
 * kernels that oneDNN makes use the stack pointer for data, and a signal's frame would be
 * written into the heap beside them.
 */
static void hear_signals(void)
{
    enum { STACK_BYTES = 256 << 10 }; /* a frame with AVX-512 and AMX registers is 11 KiB */
    static char room[STACK_BYTES];
    static const int asks[] = {SIGTERM, SIGINT, SIGUSR1};
    const stack_t stack = {.ss_sp = room, .ss_size = sizeof room};
    struct sigaction act = {.sa_handler = on_signal,
                            .sa_flags = SA_ONSTACK | SA_RESTART | SA_RESETHAND};

    sigaltstack(&stack, NULL);
    for (size_t i = 0; i < sizeof asks / sizeof *asks; i++)
        sigaction(asks[i], &act, NULL);
}

/* What ends without a run, and without MPI. */
typedef int alone(struct args *a, struct err *err);

static int show(struct args *a, struct err *err)
{
    return train_settings_show(&a->run, stdout, err);
}

static int plot(struct args *a, struct err *err)
{
    struct io_out file;
    FILE *out;

    return cli_svg_open(&a->cli, &file, &out, err)
               ? -1
               : cli_svg_close(&file, train_plot(a->word, a->words, out, err), err);
}

static int generate(struct args *a, struct err *err)
{
    a->prompt.from = a->run.init;
    a->prompt.tokenizer = a->run.tokenizer;
    a->prompt.seed = a->run.given[TRAIN_SETTING_seed];
    a->prompt.json = a->cli.json;
    a->prompt.out = stdout;
    a->prompt.talk = stderr;
    return train_generate(&a->prompt, err);
}

static int tokenize(struct args *a, struct err *err)
{
    const struct train_run *r = &a->run;
    struct data_encoded done;
    double begin = tick_now_s();

    if (data_encode(a->data[0], r->tokenizer, a->tokenize, r->force, &done, err))
        return -1;
    double took = tick_now_s() - begin;
    cli_say(&a->cli, "'%s': %lld tokens of %lld bytes, %.2f s, %.1f MB/s", a->tokenize,
            (long long)done.tokens, (long long)done.bytes, took,
            (double)done.bytes / took / 1e6);
    if (a->cli.json) {
        struct jout j = {.file = stdout};
        jout_open(&j, NULL, '{');
        jout_text(&j, "schema", "paro.tokens/1");
        jout_text(&j, "file", a->tokenize);
        jout_int(&j, "bytes", done.bytes);
        jout_int(&j, "tokens", done.tokens);
        jout_close(&j, '}');
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct args a = {.cli = CLI_INIT("paro-train")};
    struct world *world = NULL;
    struct err err = {0};

    cli_parse(&a.cli, &argp, argc, argv);
    enum mode mode = mode_of(&a);
    alone *instead = mode == PRINT      ? show
                     : mode == PLOT     ? plot
                     : mode == GENERATE ? generate
                     : mode == TOKENIZE ? tokenize
                                        : NULL;
    signal(SIGXFSZ, SIG_IGN); /* a file that is too large is an error of the write */
    if (instead && instead(&a, &err))
        return cli_fail(&a.cli, &err);
    if (instead)
        return cli_finish(&a.cli, 0);
    choose_progress(&a); /* MPI lets this process look as if it had been launched */
    if (cli_world_open(&a.cli, WORLD_DEADLINE_S, &world, &err))
        return cli_fail_ranks(&a.cli, world, &err);
    hear_signals();
    a.run.json = a.cli.json;
    a.run.lines = stdout;
    a.run.talk = stderr;
    a.run.stop = &stop;
    int status = train_run(world, &a.run, &err);
    if (status == 1) /* asked, and the answer is no */
        a.cli.status = status;
    if (status < 0 || status == 1)
        return cli_fail_ranks(&a.cli, world, &err);
    world_close(world);
    return cli_finish(&a.cli, status);
}
