/* SPDX-License-Identifier: BSD-3-Clause */
/* paro-bench: times collectives beside each other and beside the bound of the fabric. */
#include "base/num.h"
#include "bench/bench.h"
#include "bench/bench_emit.h"
#include "cli/cli_world.h"

#include <stdio.h>
#include <string.h>

enum {
    KEY_OP = 0x100,
    KEY_ALGO,
    KEY_REDOP,
    KEY_ROOT,
    KEY_CHUNK,
    KEY_WINDOW,
    KEY_GROUPS,
    KEY_MPI_NAME,
    KEY_NCCL_NAME,
    KEY_DEVICE,
    KEY_TRANSPORT,
    KEY_TUNING,
    KEY_CSV,
    KEY_PERCENTILES,
    KEY_FLOOR,
    KEY_OVERLAP,
    KEY_SIMULATE,
    KEY_TABLE,
    KEY_READ,
    KEY_EMIT
};

enum { FILES_MAX = 1024 };

struct args {
    struct cli cli;
    struct bench_options o;
    int has_min, has_max, has_factor, has_iters, has_warmup, has_op, has_algo;
    int csv, overlap, simulate, table, reads, emits;
    enum bench_emit emit;
    char asks[32]; /* the last option given that says what is measured, or "" */
    char runs[32]; /* the same of those that only a run needs */
    double deadline_s;
    const char *file[FILES_MAX];
    int files;
};

static const struct argp_option options[] = {
    {0, 0, 0, 0, "Common options:", 1},
    {"op", KEY_OP, "OPS", CLI_EVERYDAY,
     "Time these operations: all-gather, reduce-scatter, all-reduce, broadcast (default: all)",
     1},
    {"algo", KEY_ALGO, "ALGOS", CLI_EVERYDAY,
     "Compare these algorithms: those of paro-sched ls, auto, mpi, and on a GPU nccl"
     " (default: ho-ring,ring,mpi)",
     1},
    {"min", 'b', "SIZE", CLI_EVERYDAY,
     "Start with vectors of SIZE bytes (default: that of -e, or 32M; with --table 256)", 1},
    {"max", 'e', "SIZE", CLI_EVERYDAY,
     "Stop at vectors of SIZE bytes (default: that of -b; with --table 64M)", 1},
    {"factor", 'f', "N", CLI_EVERYDAY,
     "Multiply the size by N each time (default: 2; with --table 4)", 1},
    {"iters", 'n', "N", CLI_EVERYDAY,
     "Time N iterations; more if times vary (default: 20; with --table as many as fit into 2 s,"
     " 5 to 200)",
     1},
    {"input", 'i', "TOPO", 0,
     "Read port rates from a topology instead of measuring them, and predict times: a file, -"
     " or synth:SPEC",
     1},
    {0, 0, 0, 0, "Output:", 2},
    {"csv", KEY_CSV, 0, 0, "Print CSV with a header line, for spreadsheets and scripts", 2},
    {"percentiles", KEY_PERCENTILES, 0, 0,
     "Add columns p10, p25, p75, p90 and p99 to the text, to see how much times vary", 2},
    CLI_OPTIONS_SVG("Draw the rows as SVG to FILE or standard output", CLI_EVERYDAY, 2),
    {"floor", KEY_FLOOR, "F", 0,
     "Exit with status 1 if a row of paro's algorithms is below the fraction F of the bound;"
     " for scripts that test a fabric",
     2},
    {0, 0, 0, 0, "Other modes:", 3},
    {"overlap", KEY_OVERLAP, 0, 0,
     "Time the intra-group part, the inter-group part and both together, to see how well they"
     " overlap",
     3},
    {"simulate", KEY_SIMULATE, 0, 0,
     "Predict the rows for TOPO without running anything, for a fabric that you do not have",
     3},
    {"table", KEY_TABLE, 0, 0,
     "Measure which algorithm auto should use at each size, and print a tuning table", 3},
    {"read", KEY_READ, "FILE", 0,
     "Print or draw rows that --json printed earlier (repeatable, - is standard input)", 3},
    {"emit", KEY_EMIT, "TARGET", 0,
     "With --read, print the fastest choices as a library's configuration: nccl-tuner,"
     " ompi-tuned, ompi-tuned-json or ucc-tune",
     3},
    {0, 0, 0, 0, "Details of the run:", 4},
    {"warmup", 'w', "N", 0, "Run N untimed iterations first (default: 5; with --table 1)", 4},
    {"type", 'd', "TYPE", 0, "Element type: f32, bf16, f16, f64, i32 or u8 (default: f32)", 4},
    {"redop", KEY_REDOP, "OP", 0, "Reduce with sum, max, min or avg (default: sum)", 4},
    {"root", KEY_ROOT, "RANK", 0, "Broadcast from this rank (default: 0)", 4},
    {"tuning", KEY_TUNING, "FILE", 0,
     "Let auto choose from this tuning table of --table or paro-sched pick (default: by"
     " simulation)",
     4},
    {"groups", KEY_GROUPS, "SHAPE", 0,
     "Divide the ranks into groups such as 4x2 or [3,2] (default: by host)", 4},
    {"chunk", KEY_CHUNK, "SIZE", 0, "Send messages of SIZE bytes (default: 60Ki)", 4},
    {"window", KEY_WINDOW, "SIZE", 0,
     "Keep at most SIZE bytes in flight per lane, peer and direction (default: 256Ki to 2Mi)",
     4},
    {"mpi-name", KEY_MPI_NAME, "NAME", 0,
     "Label the rows of mpi as mpi:NAME, to compare settings of the library", 4},
    {"nccl-name", KEY_NCCL_NAME, "NAME", 0,
     "Label the rows of nccl as nccl:NAME, to compare settings of the library", 4},
    {"device", KEY_DEVICE, "cpu|cuda|cuda:N", 0,
     "Place the buffers in host memory, on a GPU for each rank of a host, or on GPU N"
     " (default: cpu)",
     4},
    {"transport", KEY_TRANSPORT, "mpi|nccl|auto", 0,
     "Send between GPUs through host memory (mpi) or directly (nccl) (default: auto, nccl if"
     " several ranks have a GPU each)",
     4},
    CLI_OPTION_DEADLINE,
    CLI_OPTIONS,
    {0}};

static error_t parse_size(struct args *a, const char *text, const char *option, int64_t lo,
                          int64_t *out)
{
    /* An int64_t of bytes, doubled for two buffers, stays far from overflow. */
    return cli_check(&a->cli, num_bytes(text, lo, INT64_C(1) << 48, out, &a->cli.err), option);
}

static error_t parse_int(struct args *a, const char *text, const char *option, int lo, int *out)
{
    int64_t v = 0;
    error_t rc = cli_check(&a->cli, num_i64(text, lo, 1000000, &v, &a->cli.err), option);

    *out = (int)v;
    return rc;
}

static int has_algo(const struct bench_options *o, int algo)
{
    for (int i = 0; i < o->algos; i++)
        if (o->algo[i] == algo)
            return 1;
    return 0;
}

static int has_op(const struct bench_options *o, unsigned op)
{
    for (int i = 0; i < o->ops; i++)
        if (o->op[i] == op)
            return 1;
    return 0;
}

static error_t finish_sizes(struct args *a)
{
    struct bench_options *o = &a->o;
    int64_t size = dtype_bytes(o->type);

    if (a->has_min && !a->has_max)
        o->max_bytes = o->min_bytes;
    if (a->has_max && !a->has_min)
        o->min_bytes = o->max_bytes;
    if (o->min_bytes > o->max_bytes)
        return cli_usage(&a->cli,
                         "--min of %lld bytes and --max of %lld, expected --max no smaller",
                         (long long)o->min_bytes, (long long)o->max_bytes);
    if (o->min_bytes && o->min_bytes < size)
        return cli_usage(&a->cli,
                         "--min of %lld bytes, expected 0 or at least one element (%lld)",
                         (long long)o->min_bytes, (long long)size);
    return 0;
}

static error_t finish_read(struct args *a)
{
    if (a->files && !a->reads)
        return cli_usage(&a->cli, "unexpected argument '%s' (see --help)", a->file[0]);
    if (a->reads && a->asks[0])
        return cli_usage(&a->cli, "%s does not apply to --read", a->asks);
    return 0;
}

/* Options that speak of something else that was not asked for. */
static error_t finish_idle(struct args *a)
{
    if (a->o.tuning && !has_algo(&a->o, SCHEDULE_AUTO))
        return cli_usage(&a->cli, "--tuning without --algo auto, expected both");
    if (a->o.setting && !has_algo(&a->o, BENCH_MPI))
        return cli_usage(&a->cli, "--mpi-name without --algo mpi, expected both");
    if (a->o.nccl_setting && !has_algo(&a->o, BENCH_NCCL))
        return cli_usage(&a->cli, "--nccl-name without --algo nccl, expected both");
    if (a->o.root && !has_op(&a->o, SCHEDULE_BROADCAST))
        return cli_usage(&a->cli, "--root without --op broadcast, expected both");
    return 0;
}

static error_t finish_simulate(struct args *a)
{
    struct bench_options *o = &a->o;

    if (!o->topo)
        return cli_usage(&a->cli, "--simulate without a fabric, expected -i TOPO");
    if (a->runs[0])
        return cli_usage(&a->cli, "%s does not apply to --simulate", a->runs);
    if (!a->has_algo)
        o->algos--; /* the last of the default ones is mpi */
    if (has_algo(o, BENCH_NCCL))
        return cli_usage(&a->cli, "--algo nccl does not apply to --simulate");
    if (has_algo(o, BENCH_MPI))
        return cli_usage(&a->cli, "--algo mpi does not apply to --simulate");
    return 0;
}

static error_t finish_overlap(struct args *a)
{
    struct bench_options *o = &a->o;

    if (o->plot || o->floor >= 0 || o->percentiles)
        return cli_usage(&a->cli, "%s does not apply to --overlap",
                         o->plot          ? "--svg"
                         : o->percentiles ? "--percentiles"
                                          : "--floor");
    if (!a->has_op)
        o->ops--; /* the last is broadcast */
    if (!a->has_algo)
        o->algos = 1; /* the first is ho-ring */
    if (has_op(o, SCHEDULE_BROADCAST))
        return cli_usage(&a->cli, "--op broadcast does not apply to --overlap");
    if (has_algo(o, BENCH_NCCL))
        return cli_usage(&a->cli, "--algo nccl does not apply to --overlap");
    if (has_algo(o, BENCH_MPI))
        return cli_usage(&a->cli, "--algo mpi does not apply to --overlap");
    return 0;
}

/* What has no meaning where no rows are printed. */
static const char *not_with_text(const struct args *a)
{
    const struct bench_options *o = &a->o;

    return a->csv           ? "--csv"
           : o->percentiles ? "--percentiles"
           : o->plot        ? "--svg"
           : o->floor >= 0  ? "--floor"
                            : NULL;
}

/* What has no meaning where candidates are the simulator's and a table comes of them. */
static const char *not_with_table(const struct args *a)
{
    const struct bench_options *o = &a->o;

    return a->has_algo       ? "--algo"
           : o->tuning       ? "--tuning"
           : o->chunk_bytes  ? "--chunk"
           : o->setting      ? "--mpi-name"
           : o->nccl_setting ? "--nccl-name"
                             : not_with_text(a);
}

static error_t finish_emit(struct args *a)
{
    const char *wrong = a->cli.json ? "--json" : not_with_text(a);

    if (!a->reads)
        return cli_usage(&a->cli, "--emit without --read, expected measured rows");
    if (wrong)
        return cli_usage(&a->cli, "%s does not apply to --emit", wrong);
    return 0;
}

static error_t finish_table(struct args *a)
{
    struct bench_options *o = &a->o;
    const char *wrong = not_with_table(a);

    if (wrong)
        return cli_usage(&a->cli, "%s does not apply to --table", wrong);
    if (a->has_min && o->min_bytes == 0)
        return cli_usage(&a->cli,
                         "--min of 0 bytes with --table, expected at least one element");
    if (a->has_iters && o->iters < 5)
        return cli_usage(&a->cli, "--iters of %d with --table, expected 5 or more", o->iters);
    o->min_bytes = a->has_min ? o->min_bytes : 256;
    o->max_bytes = a->has_max ? o->max_bytes : 64 << 20;
    a->has_min = a->has_max = 1;
    o->factor = a->has_factor ? o->factor : 4;
    o->iters = a->has_iters ? o->iters : 0; /* by size */
    o->warmup = a->has_warmup ? o->warmup : 1;
    o->algos = 0;
    return 0;
}

static error_t finish(struct args *a)
{
    struct bench_options *o = &a->o;
    int ways = (a->reads > 0) + a->simulate + a->overlap + a->table;
    error_t rc = finish_read(a);

    o->plot = a->cli.svg;
    o->force = a->cli.force;
    o->format = o->plot && strcmp(o->plot, "-") == 0 ? BENCH_SVG
                : a->cli.json                        ? BENCH_JSON
                : a->csv                             ? BENCH_CSV
                                                     : BENCH_TEXT;
    /* No MPI need know a GPU's memory; ours goes over NCCL, or through the host. */
    if (o->device && strcmp(o->device, "cpu") != 0 && !a->has_algo && !a->simulate)
        o->algos = 2;
    if (rc == 0 && ways > 1)
        rc = cli_usage(&a->cli,
                       "--read, --simulate, --overlap and --table, expected one of them");
    if (rc == 0 && a->emits)
        rc = finish_emit(a);
    if (rc == 0 && a->csv && a->cli.json)
        rc = cli_usage(&a->cli, "--csv and --json, expected one of them");
    if (rc == 0 && o->force && (!o->plot || o->format == BENCH_SVG))
        rc = cli_usage(&a->cli, "--force without a file to replace, expected --svg=FILE");
    if (rc == 0 && o->format == BENCH_SVG && (a->csv || a->cli.json))
        rc = cli_usage(&a->cli, "--svg without a file and %s, expected one of them",
                       a->csv ? "--csv" : "--json");
    if (rc == 0)
        rc = a->table ? finish_table(a) : finish_idle(a);
    if (rc == 0)
        rc = finish_sizes(a);
    if (rc == 0 && a->simulate)
        rc = finish_simulate(a);
    if (rc == 0 && a->overlap)
        rc = finish_overlap(a);
    if (rc == 0 && o->floor >= 0 && o->algos == 1 && o->algo[0] < 0)
        rc = cli_usage(&a->cli, "--floor with %s alone, expected an algorithm of paro-sched ls",
                       bench_algo_name(o->algo[0]));
    return rc;
}

static error_t parse_floor(struct args *a, const char *text)
{
    return cli_check(&a->cli, num_f64(text, 0, 1000, &a->o.floor, &a->cli.err), "--floor");
}

static error_t add_file(struct args *a, const char *name)
{
    if (a->files == FILES_MAX)
        return cli_usage(&a->cli, "more than %d files to read", FILES_MAX);
    a->file[a->files++] = name;
    return 0;
}

/* What is measured; ARGP_ERR_UNKNOWN for the rest. */
static error_t parse_what(struct args *a, int key, char *arg)
{
    struct cli *cli = &a->cli;
    struct bench_options *o = &a->o;

    switch (key) {
    case KEY_OP:
        a->has_op = 1;
        return cli_check(cli, bench_parse_ops(o, arg, &cli->err), "--op");
    case KEY_ALGO:
        a->has_algo = 1;
        return cli_check(cli, bench_parse_algos(o, arg, &cli->err), "--algo");
    case 'b':
        a->has_min = 1;
        return parse_size(a, arg, "--min", 0, &o->min_bytes);
    case 'e':
        a->has_max = 1;
        return parse_size(a, arg, "--max", 0, &o->max_bytes);
    case 'f':
        a->has_factor = 1;
        return parse_int(a, arg, "--factor", 2, &o->factor);
    case 'd':
        return cli_check(cli, bench_parse_type(o, arg, &cli->err), "--type");
    case KEY_REDOP:
        return cli_check(cli, dtype_op_parse(arg, &o->redop, &cli->err), "--redop");
    case 'i':
        o->topo = arg;
        return 0;
    case KEY_TUNING:
        o->tuning = arg;
        return 0;
    case KEY_CHUNK:
        return parse_size(a, arg, "--chunk", 64, &o->chunk_bytes);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* How it is run; ARGP_ERR_UNKNOWN for the rest. */
static error_t parse_run(struct args *a, int key, char *arg)
{
    struct cli *cli = &a->cli;

    switch (key) {
    case 'n':
        a->has_iters = 1;
        return parse_int(a, arg, "--iters", 1, &a->o.iters);
    case 'w':
        a->has_warmup = 1;
        return parse_int(a, arg, "--warmup", 0, &a->o.warmup);
    case KEY_ROOT:
        return parse_int(a, arg, "--root", 0, &a->o.root);
    case KEY_GROUPS:
        a->o.shape = arg;
        return 0;
    case CLI_KEY_DEADLINE:
        return cli_deadline(cli, arg, &a->deadline_s);
    case KEY_WINDOW:
        return parse_size(a, arg, "--window", 1, &a->o.window_bytes);
    case KEY_DEVICE:
        a->o.device = arg;
        return 0;
    case KEY_TRANSPORT:
        a->o.transport = arg;
        return 0;
    case KEY_NCCL_NAME:
        a->o.nccl_setting = arg;
        return cli_check(cli, bench_check_setting(arg, &cli->err), "--nccl-name");
    case KEY_MPI_NAME:
        a->o.setting = arg;
        return cli_check(cli, bench_check_setting(arg, &cli->err), "--mpi-name");
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* What becomes of the rows. */
static error_t parse_rows(struct args *a, int key, char *arg, struct argp_state *state)
{
    switch (key) {
    case KEY_OVERLAP:
        a->overlap = 1;
        return 0;
    case KEY_SIMULATE:
        a->simulate = 1;
        return 0;
    case KEY_TABLE:
        a->table = 1;
        return 0;
    case KEY_READ:
        a->reads++;
        return add_file(a, arg);
    case KEY_EMIT:
        a->emits = 1;
        return cli_check(&a->cli, bench_emit_parse(arg, &a->emit, &a->cli.err), "--emit");
    case KEY_CSV:
        a->csv = 1;
        return 0;
    case KEY_PERCENTILES:
        a->o.percentiles = 1;
        return 0;
    case KEY_FLOOR:
        return parse_floor(a, arg);
    case ARGP_KEY_ARG:
        return add_file(a, arg);
    case ARGP_KEY_END:
        return finish(a);
    default:
        return cli_option(&a->cli, key, arg, state);
    }
}

static const char *name_of(int key)
{
    const struct argp_option *o = options;

    while (o->key != key)
        o++;
    return o->name;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;
    error_t rc = parse_what(a, key, arg);

    if (rc == ARGP_ERR_UNKNOWN) {
        rc = parse_run(a, key, arg);
        if (rc == ARGP_ERR_UNKNOWN)
            return parse_rows(a, key, arg, state);
        snprintf(a->runs, sizeof a->runs, "--%s", name_of(key));
    }
    snprintf(a->asks, sizeof a->asks, "--%s", name_of(key));
    return rc;
}

static const struct argp argp = {options,
                                 parse,
                                 "\n--table\n--read FILE [FILE...]",
                                 "Time collectives under mpirun, check their data, and compare"
                                 " their times with the limit of the fabric.",
                                 NULL,
                                 NULL,
                                 NULL};

static void say(void *cli, const char *line)
{
    cli_say(cli, "%s", line);
}

/* The one door that was asked for; *world stays NULL where nothing runs. */
static int run(struct args *a, struct world **world, struct bench_result *result,
               struct err *err)
{
    const struct bench_options *o = &a->o;
    const struct bench_talk talk = {.say = say, .with = &a->cli};

    if (!a->reads && !a->simulate) {
        if (cli_world_open(&a->cli, a->deadline_s, world, err))
            return -1;
        if (a->table)
            return bench_tune(*world, o, !a->has_op, &talk, stdout, err);
        return (a->overlap ? bench_overlap : bench_run)(*world, o, stdout, result, err);
    }
    if (a->cli.silent) /* under mpirun, for whatever reason: one reads, and one writes */
        return 0;
    if (a->emits)
        return bench_emit(a->emit, a->file, a->files, &talk, stdout, err);
    return a->reads ? bench_read(o, a->file, a->files, stdout, result, err)
                    : bench_simulate(o, stdout, result, err);
}

int main(int argc, char **argv)
{
    struct args a = {.cli = CLI_INIT("paro-bench"), .deadline_s = WORLD_DEADLINE_S};
    struct bench_result result = {0};
    struct world *world = NULL;
    struct err err = {0};

    bench_options_init(&a.o);
    cli_parse(&a.cli, &argp, argc, argv);
    if (run(&a, &world, &result, &err))
        return cli_fail_ranks(&a.cli, world, &err);
    world_close(world);
    if (result.below[0])
        cli_say(&a.cli, "%s", result.below);
    int status = result.wrong > 0 || result.below[0];
    bench_result_release(&result);
    return cli_finish(&a.cli, status);
}
