/* SPDX-License-Identifier: BSD-3-Clause */
/* Trains a model by a plan, under mpirun or alone (paro-train(1)). */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "value/value_json_out.h"
#include "base/tick.h"
#include "cli/cli_hub.h"
#include "cli/cli_progress.h"
#include "cli/cli_world.h"
#include "data/data_chat.h"
#include "data/data.h"
#include "train/train.h"

struct args {
    struct cli cli;
    struct train_run run;
    struct train_prompt prompt;
    const char *source[ORDER_SOURCES_MAX];
    struct cli_list data; /* data sources */
    /* after_resume: the word after a --resume without value */
    const char *tokenize, *after_resume;
    int progress;
};

static volatile int stop; /* the only variable that the signal handler writes */

enum { RUN, GENERATE, TOKENIZE, PLOT, PRINT };
enum { RUNS = 1 << RUN | 1 << PRINT };

static const struct cli_mode modes[] = {
    [RUN] = {"a run", "PLAN -d DATA -o DIR", 1, 2, "data output", 0},
    [GENERATE] = {"--generate", "--generate TEXT --init DIR", 0, 0, "init", 1},
    [TOKENIZE] = {"--tokenize", "--tokenize OUT -d TEXT --tokenizer DIR", 0, 0,
                  "data tokenizer", 1},
    [PLOT] = {"--svg", "--svg[=FILE] LOG...", 1, CLI_MANY, NULL, 1},
    [PRINT] = {"--print-config", NULL, 0, 2, NULL, 0},
    {0}};

/* Names of the values of settings of each kind, and the flags and modes of some. */
#define VALUE_F "NUMBER"
#define VALUE_I "NUMBER"
#define VALUE_N "NUMBER"
#define VALUE_S "cosine|linear|wsd|constant"
#define VALUE_D "join|isolate"
#define EVERYDAY(k)                                                                            \
    ((k) == TRAIN_SETTING_steps || (k) == TRAIN_SETTING_lr || (k) == TRAIN_SETTING_save_every  \
         ? CLI_EVERYDAY                                                                        \
         : 0)
#define MODES(k) ((k) == TRAIN_SETTING_seed ? RUNS | 1 << GENERATE : 0)

#define CLI_ARGS struct args
static const struct cli_option options[] = {
    {"data", 'd', "FILE", CLI_EVERYDAY,
     "Train on FILE: a text, JSON Lines, or tokens of llm.c, nanoGPT or Megatron; may be "
     "repeated",
     CLI_LIST(data), .modes = RUNS | 1 << TOKENIZE},
    {"output", 'o', "DIR", CLI_EVERYDAY, "Keep log and checkpoints in DIR", CLI_TEXT(run.out)},
    {"init", 0, "DIR", CLI_EVERYDAY,
     "Start with the weights in DIR, a checkpoint or a Hugging Face folder (default: fresh)",
     CLI_TEXT(run.init), .modes = RUNS | 1 << GENERATE},
    {"resume", 0, "auto|PATH", CLI_EVERYDAY | OPTION_ARG_OPTIONAL,
     "Resume from the newest checkpoint in DIR, or PATH", CLI_TEXT(run.resume),
     .absent = "auto", .excludes = "force"},
    {"dry-run", 0, NULL, CLI_EVERYDAY, "Check plan, data, memory and ranks; train nothing",
     CLI_FLAG(run.dry)},
    {"local-save", 0, "DIR", 0,
     "Also save to DIR on each host every --local-every steps, to lose fewer when hosts fail",
     CLI_TEXT(run.local_save)},
    {"config", 0, "FILE", 0, "Read settings from a YAML file; options override it",
     CLI_TEXT(run.config)},
    {"force", 0, NULL, 0,
     "Start a new run in a folder that already has one, or let --svg replace FILE",
     CLI_FLAG(run.force), .modes = RUNS | 1 << TOKENIZE | 1 << PLOT},
    {"device", 0, "cpu|cuda|cuda:N", CLI_EVERYDAY,
     "Train on the processor, on one GPU per rank, or on GPU N of each host (default: cpu)",
     CLI_TEXT(run.device)},
    {CLI_OPTION_PROGRESS(progress)},
    {.text = "More options for training:"},
    {"data-weights", 0, "W,...", 0,
     "Mix the files in this ratio of samples (default: that of their token counts)",
     CLI_TEXT(run.data_weights)},
    {"tokenizer", 0, "DIR|bytes", 0,
     "Encode texts with the tokenizer in DIR (default: that of the model, else a token is a "
     "byte)",
     CLI_TEXT(run.tokenizer), .modes = RUNS | 1 << TOKENIZE | 1 << GENERATE},
    {"chat-template", 0, "NAME", 0,
     "Encode conversations by the template NAME: " CHAT_NAMES
     " (default: by the tokenizer's special tokens)",
     CLI_TEXT(run.template), .modes = RUNS | 1 << TOKENIZE | 1 << GENERATE},
    {"eval-data", 0, "FILE", 0,
     "With --eval-every: evaluate on FILE, and train on all of the data",
     CLI_TEXT(run.eval_data), .excludes = "eval-split"},
    {"new-data", 0, NULL, 0, "With --resume: resume even if the data have changed",
     CLI_FLAG(run.new_data), .needs = "resume"},
    {"log", 0, "FILE", 0,
     "Write the log to FILE; - is standard output (default: DIR/log.jsonl)", CLI_TEXT(run.log)},
    {"prom", 0, "FILE", 0,
     "Write the metrics of each step to FILE, for Prometheus by node_exporter",
     CLI_TEXT(run.prom)},
    {"tensorboard", 0, "FOLDER", 0,
     "Write the metrics of each step as events for TensorBoard to FOLDER",
     CLI_TEXT(run.tensorboard)},
    {"peak", 0, "FLOPS", 0, "Peak FLOP/s of a rank, to log the share of it that is used (mfu)",
     CLI_PER_S(run.peak, 1, 1e18)},
    {"algo", 0, "ALGO", 0,
     "Run the collectives by ALGO: ring, two-level, ho-ring or auto (default: the plan's)",
     CLI_TEXT(run.algo)},
    {"tuning", 0, "FILE", 0,
     "With --algo=auto: choose algorithms and chunk sizes by this table of paro-bench or "
     "paro-sched",
     CLI_TEXT(run.tuning)},
    {"transport", 0, "mpi|nccl|auto", 0,
     "Send GPU memory by MPI through the hosts, or by NCCL (default: auto, NCCL if each of "
     "several ranks has a GPU)",
     CLI_TEXT(run.transport)},
    {"cuda-graphs", 0, "auto|always|never", 0,
     "Launch the kernels of a layer in one call, to save time between them (default: auto, on "
     "every GPU)",
     CLI_TEXT(run.graphs)},
    {"fastest", 0, NULL, 0,
     "On a GPU: use the fastest kernels, although the last bits may differ from run to run",
     CLI_FLAG(run.fastest)},
    {"trace-step", 0, "K", 0,
     "Write a trace of step K to DIR, as JSON and SVG, to see what waits for what",
     CLI_TEXT(run.trace_step)},
    {"against", 0, "XYZ", 0,
     "Verify the plan's strategy against strategy XYZ; fail if states differ",
     CLI_TEXT(run.against)},
    {"exact", 0, NULL, 0,
     "Make sums independent of their order and log a hash of each step, to compare runs bit "
     "for bit",
     CLI_FLAG(run.exact)},
    {"print-config", 0, NULL, 0, "Print the settings as YAML and exit", CLI_NOTED},
    {.text = "Instead of training:"},
    {CLI_OPTION_SVG(
         "Draw loss, tokens/s and exposed communication of up to 8 runs as SVG to FILE or"
         " standard output",
         0),
     .excludes = "json"},
    {"generate", 0, "TEXT", 0,
     "Continue TEXT with the model of --init: a checkpoint, a run or a Hugging Face folder",
     CLI_TEXT(prompt.text)},
    {"length", 0, "N", 0, "Generate at most N tokens (default: 256)",
     CLI_COUNT(prompt.length, 0, TRAIN_PROMPT_LENGTH_MAX), .modes = 1 << GENERATE},
    {"temperature", 0, "T", 0, "Sampling temperature; 0 is greedy (default: 0)",
     CLI_NUMBER(prompt.temperature, 0, 1e3), .modes = 1 << GENERATE},
    {"top-p", 0, "P", 0,
     "Sample from the most likely tokens with a total probability of P (default: 1, all)",
     CLI_NUMBER(prompt.top_p, 1e-6, 1), .modes = 1 << GENERATE},
    {"chat", 0, NULL, 0, "With --generate: TEXT is a user's message; write the answer to it",
     CLI_FLAG(prompt.chat), .modes = 1 << GENERATE},
    {"system", 0, "TEXT", 0, "With --chat: begin the conversation with this system message",
     CLI_TEXT(prompt.system), .modes = 1 << GENERATE, .needs = "chat"},
    {"tokenize", 0, "OUT", 0,
     "Encode a large text once, and write its tokens to OUT for later runs",
     CLI_TEXT(tokenize)},
    {.text = "Settings:"},
#define X_OPTION(name, option, kind, value, least, most, text)                                 \
    {option,                                                                                   \
     0,                                                                                        \
     VALUE_##kind,                                                                             \
     EVERYDAY(TRAIN_SETTING_##name),                                                           \
     text " (default: " value ")",                                                             \
     CLI_TEXT(run.given[TRAIN_SETTING_##name]),                                                \
     .modes = MODES(TRAIN_SETTING_##name)},
    TRAIN_SETTINGS(X_OPTION)
#undef X_OPTION
        {0}};

/*
 * "--resume auto PLAN" is as old as "--resume=auto PLAN": if there are two operands instead of
 * one, the one after --resume is its value.  So "--resume PLAN" is a plan.
 */
static int take_operands(struct args *a)
{
    const struct cli *cli = &a->cli;
    const char *first = cli->words ? cli->word[0] : NULL,
               *second = cli->words > 1 ? cli->word[1] : NULL;

    if (cli->words == (cli->mode == RUN) + 1 && a->after_resume) {
        if (first == a->after_resume) {
            a->run.resume = first;
            first = second;
            second = NULL;
        } else if (second == a->after_resume) {
            a->run.resume = second;
            second = NULL;
        }
    }
    a->run.plan = first;
    return second ? cli_usage(&a->cli, "second plan '%s', expected one", second) : 0;
}

static int check(void *args)
{
    struct args *a = args;
    struct train_run *r = &a->run;

    a->cli.force = r->force;
    r->data = a->data.count ? a->source : NULL;
    r->data_count = a->data.count;
    if (a->cli.mode == PLOT && a->cli.words > TRAIN_PLOT_RUNS)
        return cli_usage(&a->cli, "'%s' is one too many, expected at most %d logs",
                         a->cli.word[TRAIN_PLOT_RUNS], TRAIN_PLOT_RUNS);
    if (a->cli.mode == PLOT && r->force && strcmp(a->cli.svg, "-") == 0)
        return cli_usage(&a->cli, "--force without a file to replace, expected --svg=FILE");
    if (cli_given(&a->cli, "top-p") && !(a->prompt.temperature > 0))
        return cli_usage(&a->cli,
                         "--top-p without --temperature, expected a temperature above 0"
                         " (0 is greedy)");
    if (r->template && !chat_is(r->template))
        return cli_usage(&a->cli, "--chat-template '%s', expected " CHAT_NAMES, r->template);
    if (a->cli.mode == TOKENIZE && r->data_count != 1)
        return cli_usage(&a->cli, "--tokenize with %d files of data, expected -d TEXT",
                         r->data_count);
    return RUNS >> a->cli.mode & 1 ? take_operands(a) : 0;
}

static const struct cli_command command = {
    options, modes,
    "Train a model by a plan of paro-plan: under mpirun with as many ranks as the plan"
    " has, or alone with one rank.",
    check};

static void on_signal(int number)
{
    (void)number;
    stop = 1;
}

/*
 * The first signal saves and exits, a second one of the same kind kills.  Needs sigaltstack
 * because oneDNN's kernels use the stack pointer for data: a signal frame would overwrite heap
 * memory near it.
 */
static void hear_signals(void)
{
    enum { STACK_BYTES = 256 << 10 }; /* a frame with AVX-512 and AMX registers has 11 KiB */
    static char space[STACK_BYTES];
    static const int requests[] = {SIGTERM, SIGINT, SIGUSR1};
    const stack_t stack = {.ss_sp = space, .ss_size = sizeof space};
    struct sigaction act = {.sa_handler = on_signal,
                            .sa_flags = SA_ONSTACK | SA_RESTART | SA_RESETHAND};

    sigaltstack(&stack, NULL);
    for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
        sigaction(requests[i], &act, NULL);
}

/* A mode that ends without a run, and without MPI. */
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
               : cli_svg_close(
                     &file,
                     train_plot((const char *const *)a->cli.word, a->cli.words, out, err), err);
}

static int generate(struct args *a, struct err *err)
{
    a->prompt.from = a->run.init;
    a->prompt.tokenizer = a->run.tokenizer;
    a->prompt.template = a->run.template;
    a->prompt.seed = a->run.given[TRAIN_SETTING_seed];
    a->prompt.json = a->cli.json;
    a->prompt.out = stdout;
    a->prompt.talk = stderr;
    return train_generate(&a->prompt, err);
}

static int tokenize(struct args *a, struct err *err)
{
    const struct train_run *r = &a->run;
    const struct data_encode e = {.text = a->source[0],
                                  .tokenizer = r->tokenizer,
                                  .template = r->template,
                                  .out = a->tokenize,
                                  .force = r->force};
    struct encode_done done;
    double begin = tick_now_s();

    if (data_encode(&e, &done, err))
        return -1;
    double took = tick_now_s() - begin;
    cli_say(&a->cli, "'%s': %lld tokens of %lld bytes, %.2f s, %.1f MB/s", a->tokenize,
            (long long)done.tokens, (long long)done.bytes, took,
            (double)done.bytes / took / 1e6);
    if (done.guess.name)
        cli_say(&a->cli, "conversations by " CHAT_GUESS, done.guess.name, done.guess.by);
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
    static alone *const without_world[] = {[PLOT] = plot,
                                           [PRINT] = show,
                                           [TOKENIZE] = tokenize,
                                           [GENERATE] = generate,
                                           [RUN] = NULL};
    struct args a = {.cli = CLI_INIT("paro-train"),
                     .prompt = {.length = TRAIN_PROMPT_LENGTH, .top_p = 1}};
    struct world *world = NULL;
    struct err err = {0};
    char hub[2][CLI_HUB_PATH];

    a.data = (struct cli_list){.item = a.source, .most = ORDER_SOURCES_MAX};
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
        if (strcmp(argv[i], "--resume") == 0)
            a.after_resume = argv[i + 1];
    cli_parse(&a.cli, &command, argc, argv);
    a.run.init = cli_hub(a.run.init, hub[0]);
    a.run.tokenizer = cli_hub(a.run.tokenizer, hub[1]);
    alone *instead = without_world[a.cli.mode];
    signal(SIGXFSZ, SIG_IGN); /* a write beyond the limit on file size then returns an error */
    if (instead && instead(&a, &err))
        return cli_fail(&a.cli, &err);
    if (instead)
        return cli_finish(&a.cli, 0);
    /* Before MPI_Init, after which this process looks as if it had been launched; under a
       launcher standard output looks like a terminal, wherever it goes. */
    a.run.progress = cli_progress_wanted(a.progress);
    a.run.brief = isatty(STDOUT_FILENO) && isatty(STDERR_FILENO) && !cli_launched();
    if (cli_world_open(&a.cli, WORLD_DEADLINE_S, &world, &err))
        return cli_fail_ranks(&a.cli, world, &err);
    hear_signals();
    const char *meter = getenv("PARO_METER");
    a.run.meter = meter && *meter ? meter : NULL;
    a.run.json = a.cli.json;
    a.run.lines = stdout;
    a.run.talk = stderr;
    a.run.stop = &stop;
    int status = train_run(world, &a.run, &err);
    if (status == 1) /* a query with a negative result */
        a.cli.status = status;
    if (status < 0 || status == 1)
        return cli_fail_ranks(&a.cli, world, &err);
    world_close(world);
    return cli_finish(&a.cli, status);
}
