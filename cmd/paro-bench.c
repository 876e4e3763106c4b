/* SPDX-License-Identifier: BSD-3-Clause */
/* Times collectives, and compares them with each other and with the fabric's bound. */
#include <stdio.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/bench_emit.h"
#include "cli/cli_world.h"

enum { FILES_MAX = 1024, COUNT_MAX = 1000000 };
/* Bytes in an int64_t, doubled for two buffers, stay far below overflow. */
#define SIZE_MAX_BYTES (INT64_C(1) << 48)

struct args {
    struct cli cli;
    struct bench_options o;
    int csv;
    enum bench_emit emit;
    double deadline_s;
    const char *file[FILES_MAX];
    struct cli_list files; /* file */
};

enum { RUN, READ, SIMULATE, OVERLAP, TABLE };
enum {
    RUNS = 1 << RUN | 1 << OVERLAP | 1 << TABLE,
    ROWS = 1 << RUN | 1 << SIMULATE | 1 << OVERLAP,
    SINGLE = 1 << RUN | 1 << SIMULATE | 1 << READ /* modes that print rows of one time each */
};

static const struct cli_mode modes[] = {
    [RUN] = {"a run", "", 0, 0, NULL, 0},
    [READ] = {"--read", "--read FILE [FILE...]", 0, CLI_MANY, NULL, 1},
    [SIMULATE] = {"--simulate", NULL, 0, 0, "input", 0},
    [OVERLAP] = {"--overlap", NULL, 0, 0, NULL, 0},
    [TABLE] = {"--table", "--table", 0, 0, NULL, 0},
    {0}};

#define CLI_ARGS struct args
CLI_PARSER(dtype_op_parse)
CLI_PARSER(bench_parse_ops)
CLI_PARSER(bench_parse_algos)
CLI_PARSER(bench_parse_type)
CLI_PARSER(bench_parse_setting)

static const struct cli_option options[] = {
    {.text = "Common options:"},
    {"op", 0, "OPS", CLI_EVERYDAY,
     "Time these operations: all-gather, reduce-scatter, all-reduce, broadcast (default: all)",
     CLI_PARSED(bench_parse_ops, o)},
    {"algo", 0, "ALGOS", CLI_EVERYDAY,
     "Compare these algorithms: those of paro-sched ls, auto, mpi, and on a GPU nccl"
     " (default: ho-ring,ring,mpi)",
     CLI_PARSED(bench_parse_algos, o), .modes = ROWS},
    {"min", 'b', "SIZE", CLI_EVERYDAY,
     "Start with vectors of SIZE bytes (default: that of -e, or 32M; with --table 256)",
     CLI_BYTES(o.min_bytes, 0, SIZE_MAX_BYTES)},
    {"max", 'e', "SIZE", CLI_EVERYDAY,
     "Stop at vectors of SIZE bytes (default: that of -b; with --table 64M)",
     CLI_BYTES(o.max_bytes, 0, SIZE_MAX_BYTES)},
    {"factor", 'f', "N", CLI_EVERYDAY,
     "Multiply the size by N each time (default: 2; with --table 4)",
     CLI_INT(o.factor, 2, COUNT_MAX)},
    {"iters", 'n', "N", CLI_EVERYDAY,
     "Time N iterations; more if times vary (default: 20; with --table as many as fit into 2 s,"
     " 5 to 200)",
     CLI_INT(o.iters, 1, COUNT_MAX), .modes = RUNS},
    {"input", 'i', "TOPO", 0,
     "Read port rates from a topology instead of measuring them, and predict times: a file, -"
     " or synth:SPEC",
     CLI_TEXT(o.topo)},
    {.text = "Output:"},
    {"csv", 0, NULL, 0, "Print CSV with a header line, for spreadsheets and scripts",
     CLI_FLAG(csv), .modes = ROWS | 1 << READ, .excludes = "json svg=-"},
    {"percentiles", 0, NULL, 0,
     "Add columns p10, p25, p75, p90 and p99 to the text, to see how much times vary",
     CLI_FLAG(o.percentiles), .modes = SINGLE},
    {CLI_OPTION_SVG("Draw the rows as SVG to FILE or standard output", CLI_EVERYDAY),
     .modes = SINGLE},
    {CLI_OPTION_SVG_FORCE, .modes = SINGLE},
    {"floor", 0, "F", 0,
     "Exit with status 1 if a row of paro's algorithms is below the fraction F of the bound;"
     " for scripts that test a fabric",
     CLI_NUMBER(o.floor, 0, 1000), .modes = SINGLE},
    {.text = "Other modes:"},
    {"overlap", 0, NULL, 0,
     "Time the intra-group part, the inter-group part and both together, to see how well they"
     " overlap",
     CLI_NOTED},
    {"simulate", 0, NULL, 0,
     "Predict the rows for TOPO without running anything, for a fabric that you do not have",
     CLI_NOTED},
    {"table", 0, NULL, 0,
     "Measure which algorithm auto should use at each size, and print a tuning table",
     CLI_NOTED},
    {"read", 0, "FILE", 0,
     "Print or draw rows that --json printed earlier (repeatable, - is standard input)",
     CLI_LIST(files)},
    {"emit", 0, "TARGET", 0,
     "With --read, print the fastest choices as a library's configuration: nccl-tuner,"
     " ompi-tuned, ompi-tuned-json or ucc-tune",
     CLI_CHOICE(emit, "nccl-tuner|ompi-tuned|ompi-tuned-json|ucc-tune"), .modes = 1 << READ,
     .excludes = "json csv percentiles svg floor"},
    {.text = "Details of the run:"},
    {"warmup", 'w', "N", 0, "Run N untimed iterations first (default: 5; with --table 1)",
     CLI_INT(o.warmup, 0, COUNT_MAX), .modes = RUNS},
    {"type", 'd', "TYPE", 0, "Element type: f32, bf16, f16, f64, i32 or u8 (default: f32)",
     CLI_PARSED(bench_parse_type, o.type)},
    {"redop", 0, "OP", 0, "Reduce with sum, max, min or avg (default: sum)",
     CLI_PARSED(dtype_op_parse, o.redop)},
    {"root", 0, "RANK", 0, "Broadcast from this rank (default: 0)",
     CLI_INT(o.root, 0, COUNT_MAX), .modes = RUNS},
    {"tuning", 0, "FILE", 0,
     "Let auto choose from this tuning table of --table or paro-sched pick (default: by"
     " simulation)",
     CLI_TEXT(o.tuning), .modes = ROWS},
    {"groups", 0, "SHAPE", 0,
     "Divide the ranks into groups such as 4x2 or [3,2] (default: by host)", CLI_TEXT(o.shape),
     .modes = RUNS},
    {"chunk", 0, "SIZE", 0, "Send messages of SIZE bytes (default: 60Ki)",
     CLI_BYTES(o.chunk_bytes, 64, SIZE_MAX_BYTES), .modes = ROWS},
    {"window", 0, "SIZE", 0,
     "Keep at most SIZE bytes in flight per lane, peer and direction (default: 256Ki to 2Mi)",
     CLI_BYTES(o.window_bytes, 1, SIZE_MAX_BYTES), .modes = RUNS},
    {"mpi-name", 0, "NAME", 0,
     "Label the rows of mpi as mpi:NAME, to compare settings of the library",
     CLI_PARSED(bench_parse_setting, o.setting), .modes = 1 << RUN | 1 << OVERLAP},
    {"nccl-name", 0, "NAME", 0,
     "Label the rows of nccl as nccl:NAME, to compare settings of the library",
     CLI_PARSED(bench_parse_setting, o.nccl_setting), .modes = 1 << RUN | 1 << OVERLAP},
    {"device", 0, "cpu|cuda|cuda:N", 0,
     "Place the buffers in host memory, on a GPU for each rank of a host, or on GPU N"
     " (default: cpu)",
     CLI_TEXT(o.device), .modes = RUNS},
    {"transport", 0, "mpi|nccl|auto", 0,
     "Send between GPUs through host memory (mpi) or directly (nccl) (default: auto, nccl if"
     " several ranks have a GPU each)",
     CLI_TEXT(o.transport), .modes = RUNS},
    {CLI_OPTION_DEADLINE(deadline_s), .modes = RUNS},
    {0}};

static int has(const int *list, int n, int value)
{
    for (int i = 0; i < n; i++)
        if (list[i] == value)
            return 1;
    return 0;
}

static void choose_defaults(struct args *a)
{
    /* The first ones of ho-ring, ring, mpi; --table selects its algorithms itself. */
    static const int algos[] = {
        [RUN] = 3, [READ] = 3, [SIMULATE] = 2, [OVERLAP] = 1, [TABLE] = 0};
    const struct cli *cli = &a->cli;
    struct bench_options *o = &a->o;
    int min = cli_given(cli, "min") != NULL, max = cli_given(cli, "max") != NULL;

    if (cli->mode == OVERLAP && !cli_given(cli, "op"))
        o->ops--; /* drops the last one, broadcast */
    if (!cli_given(cli, "algo"))
        o->algos = algos[cli->mode];
    /* MPI may not support GPU memory; paro sends it with NCCL, or through the host. */
    if (!cli_given(cli, "algo") && o->algos == 3 && o->device && strcmp(o->device, "cpu"))
        o->algos = 2;
    if (cli->mode == TABLE) {
        o->min_bytes = min ? o->min_bytes : 256;
        o->max_bytes = max ? o->max_bytes : 64 << 20;
        o->factor = cli_given(cli, "factor") ? o->factor : 4;
        o->iters = cli_given(cli, "iters") ? o->iters : 0; /* 0: chosen by size */
        o->warmup = cli_given(cli, "warmup") ? o->warmup : 1;
    } else if (min != max) {
        o->min_bytes = o->max_bytes = min ? o->min_bytes : o->max_bytes;
    }
    o->plot = cli->svg;
    o->force = cli->force;
    o->format = o->plot && strcmp(o->plot, "-") == 0 ? BENCH_SVG
                : cli->json                          ? BENCH_JSON
                : a->csv                             ? BENCH_CSV
                                                     : BENCH_TEXT;
}

static int check_sizes(struct cli *cli, const struct bench_options *o)
{
    int64_t size = dtype_bytes(o->type);

    if (o->min_bytes > o->max_bytes)
        return cli_usage(cli,
                         "--min of %lld bytes and --max of %lld, expected --max no smaller",
                         (long long)o->min_bytes, (long long)o->max_bytes);
    if (o->min_bytes && o->min_bytes < size)
        return cli_usage(cli, "--min of %lld bytes, expected 0 or at least one element (%lld)",
                         (long long)o->min_bytes, (long long)size);
    if (cli->mode == TABLE && o->min_bytes == 0)
        return cli_usage(cli, "--min of 0 bytes with --table, expected at least one element");
    if (cli->mode == TABLE && cli_given(cli, "iters") && o->iters < 5)
        return cli_usage(cli, "--iters of %d with --table, expected 5 or more", o->iters);
    return 0;
}

/* Rejects options for an algorithm or operation that is not in the lists. */
static int check_lists(struct cli *cli, const struct bench_options *o)
{
    int only_ours = cli->mode == SIMULATE || cli->mode == OVERLAP;
    int mpi = has(o->algo, o->algos, BENCH_MPI), nccl = has(o->algo, o->algos, BENCH_NCCL);
    int broadcast = has(o->op, o->ops, SCHEDULE_BROADCAST);

    if (o->tuning && !has(o->algo, o->algos, SCHEDULE_AUTO))
        return cli_usage(cli, "--tuning without --algo auto, expected both");
    if (o->setting && !mpi)
        return cli_usage(cli, "--mpi-name without --algo mpi, expected both");
    if (o->nccl_setting && !nccl)
        return cli_usage(cli, "--nccl-name without --algo nccl, expected both");
    if (o->root && !broadcast)
        return cli_usage(cli, "--root without --op broadcast, expected both");
    if (cli->mode == OVERLAP && broadcast)
        return cli_usage(cli, "--op broadcast does not apply to --overlap");
    if (only_ours && (mpi || nccl))
        return cli_usage(cli, "--algo %s does not apply to %s", mpi ? "mpi" : "nccl",
                         modes[cli->mode].name);
    if (o->floor >= 0 && o->algos == 1 && o->algo[0] < 0)
        return cli_usage(cli, "--floor with %s alone, expected an algorithm of paro-sched ls",
                         bench_algo_name(o->algo[0]));
    return 0;
}

static int check(void *args)
{
    struct args *a = args;

    for (int i = 0; i < a->cli.words; i++) {
        if (a->files.count == a->files.most)
            return cli_usage(&a->cli, "more than %d files to read", FILES_MAX);
        a->file[a->files.count++] = a->cli.word[i];
    }
    choose_defaults(a);
    return check_sizes(&a->cli, &a->o) || check_lists(&a->cli, &a->o) ? -1 : 0;
}

static const struct cli_command command = {
    options, modes,
    "Time collectives under mpirun, check their data, and compare their times with the limit of"
    " the fabric.",
    check};

static void say(void *cli, const char *line)
{
    cli_say(cli, "%s", line);
}

/* Runs the requested mode; *world stays NULL if nothing is measured. */
static int run(struct args *a, struct world **world, struct bench_result *result,
               struct err *err)
{
    const struct bench_options *o = &a->o;
    const struct bench_talk talk = {.say = say, .with = &a->cli};
    const int mode = a->cli.mode, runs = RUNS >> mode & 1;

    if (runs && cli_world_open(&a->cli, a->deadline_s, world, err))
        return -1;
    if (!runs && a->cli.silent) /* if started under mpirun, only one rank reads and writes */
        return 0;
    if (mode == TABLE)
        return bench_tune(*world, o, !cli_given(&a->cli, "op"), &talk, result->doubt, stdout,
                          err);
    if (mode == SIMULATE)
        return bench_simulate(o, stdout, result, err);
    if (mode == READ)
        return cli_given(&a->cli, "emit")
                   ? bench_emit(a->emit, a->file, a->files.count, &talk, stdout, err)
                   : bench_read(o, a->file, a->files.count, stdout, result, err);
    return (mode == OVERLAP ? bench_overlap : bench_run)(*world, o, stdout, result, err);
}

int main(int argc, char **argv)
{
    struct args a = {.cli = CLI_INIT("paro-bench"), .deadline_s = WORLD_DEADLINE_S};
    struct bench_result result = {0};
    struct world *world = NULL;
    struct err err = {0};

    a.files = (struct cli_list){.item = a.file, .most = FILES_MAX};
    bench_options_init(&a.o);
    cli_parse(&a.cli, &command, argc, argv);
    if (run(&a, &world, &result, &err))
        return cli_fail_ranks(&a.cli, world, &err);
    world_close(world);
    if (result.doubt[0])
        cli_say(&a.cli, "doubt: %s", result.doubt);
    if (result.below[0])
        cli_say(&a.cli, "%s", result.below);
    int status = result.wrong > 0 || result.below[0];
    bench_result_release(&result);
    return cli_finish(&a.cli, status);
}
