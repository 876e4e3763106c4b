/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads a fabric, or measures one, and prints it or where it differs from an older one. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "cli/cli.h"
#include "cli/cli_world.h"
#include "coll/coll_options.h"
#include "probe/probe.h"
#include "topo/topo_import.h"

struct args {
    struct cli cli;
    const char *input, *old, *model, *device, *transport, *type;
    int64_t seq, micro_batch;
    enum topo_format format;
    int has_format, has_ask, discover;
    struct topo_ask ask;
    double tolerance, deadline_s; /* deadline_s: 0: not given */
};

enum {
    KEY_FORMAT = 0x100,
    KEY_DIFF,
    KEY_TOLERANCE,
    KEY_SET,
    KEY_NODES,
    KEY_RANKS,
    KEY_HOSTS,
    KEY_DISCOVER,
    KEY_SEQ,
    KEY_BATCH,
    KEY_DEVICE,
    KEY_TRANSPORT,
    KEY_COMPUTE
};

static const struct argp_option options[] = {
    {0, 0, 0, 0, "Read a fabric and print it:", 1},
    {"input", 'i', "INPUT", CLI_EVERYDAY,
     "Read the fabric from INPUT: a file (YAML, XML of NCCL or hwloc, text of ibnetdiscover or"
     " nvidia-smi topo -m), standard input ('-'), synth:SPEC for a synthetic fabric, or nvml:"
     " for this machine's GPUs",
     0},
    {"format", KEY_FORMAT, "FORMAT", CLI_EVERYDAY,
     "Print the fabric as FORMAT: yaml, json, table, dot, svg, hostfile, rankfile, or nccl for"
     " one machine's XML (default: yaml)",
     0},
    CLI_OPTIONS_SVG("Draw the fabric as SVG to FILE or standard output", 0, 0),
    {"diff", KEY_DIFF, "OLD", 0,
     "Print only what differs from the fabric OLD, with status 1 if anything does; use it to"
     " notice that a cluster has changed",
     0},
    {"tolerance", KEY_TOLERANCE, "PERCENT", 0,
     "Ignore differences of --diff up to PERCENT of the old value, as two measurements always"
     " differ a little (default: 0)",
     0},
    {0, 0, 0, 0, "Complete or extend what INPUT describes:", 2},
    {"set", KEY_SET, "WORDS", 0,
     "Add figures that INPUT lacks, or replace them: LEVEL=RATE[/rank][:LATENCY], nvlink=RATE,"
     " nic=RATE, memory=BYTES, flops=N, separated by commas",
     0},
    {"nodes", KEY_NODES, "N", CLI_EVERYDAY,
     "Describe N machines like the one in INPUT, to plan for a cluster that does not exist yet",
     0},
    {"ranks", KEY_RANKS, "N", 0, "Put N ranks on each host, if INPUT does not count GPUs", 0},
    {"hosts", KEY_HOSTS, "LIST", 0, "Name the machines, such as node[0-3]", 0},
    {0, 0, 0, 0, "Measure the fabric under mpirun (without -i):", 3},
    {"device", KEY_DEVICE, "cpu|cuda|cuda:N", CLI_EVERYDAY,
     "Measure the processor, one GPU for each rank of a host, or GPU N; choose what you will"
     " train on (default: cpu)",
     0},
    {"transport", KEY_TRANSPORT, "mpi|nccl|auto", 0,
     "Send between GPUs over MPI or NCCL, as paro-train will; auto chooses NCCL where several"
     " ranks have a GPU each (default: auto)",
     0},
    {"discover", KEY_DISCOVER, NULL, 0,
     "Find the groups and the levels above them by measurement, if host names do not show which"
     " ranks are near each other",
     0},
    {"model", 'm', "MODEL", CLI_EVERYDAY,
     "Measure the compute rate with the matrix sizes of MODEL, for a closer prediction: a"
     " config.json, or a folder with one",
     0},
    {"seq", KEY_SEQ, "T", 0,
     "With -m: measure with sequences of T tokens (default: 256, or the model's maximum if that"
     " is less)",
     0},
    {"micro-batch", KEY_BATCH, "B", 0,
     "With -m: measure with B sequences per micro-step (default: 1)", 0},
    {"compute-type", KEY_COMPUTE, "TYPE", 0,
     "Measure matrix products in TYPE, f32 or bf16 (default: f32, on a GPU bf16)", 0},
    CLI_OPTION_DEADLINE,
    CLI_OPTIONS,
    {0}};

static error_t parse_count(struct args *a, const char *arg, int *out, const char *option)
{
    int64_t n = 0;

    a->has_ask = 1;
    if (num_i64(arg, 1, GROUPS_RANKS_MAX, &n, &a->cli.err))
        return cli_check(&a->cli, -1, option);
    *out = (int)n;
    return 0;
}

static error_t check_words(struct args *a)
{
    if (cli_check_svg(&a->cli))
        return EINVAL;
    if (a->cli.svg && a->has_format && a->format != TOPO_SVG)
        return cli_usage(&a->cli, "--svg and another --format, expected one of them");
    if (a->cli.svg)
        a->format = TOPO_SVG;
    if (a->cli.json && a->has_format && a->format != TOPO_JSON)
        return cli_usage(&a->cli, "--json and another --format, expected one of them");
    if (a->cli.json)
        a->format = TOPO_JSON;
    if (a->old && a->format > TOPO_TABLE)
        return cli_usage(&a->cli, "--diff and that --format, expected text or --json");
    if (a->format == TOPO_NCCL && a->has_ask)
        return cli_usage(&a->cli, "--format nccl and --set, --nodes, --ranks or --hosts,"
                                  " expected one machine as it is");
    if (a->discover && a->input)
        return cli_usage(&a->cli, "--discover and -i, expected a fabric to measure (mpirun)"
                                  " or one to read");
    if ((a->seq || a->micro_batch) && !a->model)
        return cli_usage(&a->cli, "--seq or --micro-batch and no model, expected -m MODEL");
    return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;
    struct err *err = &a->cli.err;

    switch (key) {
    case 'i':
        a->input = arg;
        return 0;
    case KEY_FORMAT:
        a->has_format = 1;
        return cli_check(&a->cli, topo_parse_format(arg, &a->format, err), "--format");
    case KEY_DIFF:
        a->old = arg;
        return 0;
    case KEY_SET:
        a->has_ask = 1;
        return cli_check(&a->cli, topo_given_parse(&a->ask.given, arg, err), "--set");
    case KEY_NODES:
        return parse_count(a, arg, &a->ask.nodes, "--nodes");
    case KEY_RANKS:
        return parse_count(a, arg, &a->ask.ranks, "--ranks");
    case KEY_HOSTS:
        a->has_ask = 1;
        a->ask.hosts = arg;
        return 0;
    case KEY_DISCOVER:
        a->discover = 1;
        return 0;
    case 'm':
        a->model = arg;
        return 0;
    case KEY_SEQ:
        return cli_check(&a->cli, num_i64(arg, 1, INT32_MAX, &a->seq, err), "--seq");
    case KEY_BATCH:
        return cli_check(&a->cli, num_i64(arg, 1, INT32_MAX, &a->micro_batch, err),
                         "--micro-batch");
    case KEY_DEVICE:
        a->device = arg;
        return 0;
    case KEY_TRANSPORT:
        a->transport = arg;
        return 0;
    case KEY_COMPUTE:
        a->type = arg;
        return 0;
    case CLI_KEY_DEADLINE:
        return cli_deadline(&a->cli, arg, &a->deadline_s);
    case KEY_TOLERANCE:
        return cli_check(&a->cli, num_f64(arg, 0, 100, &a->tolerance, err), "--tolerance");
    case ARGP_KEY_END:
        return check_words(a);
    default:
        return cli_option(&a->cli, key, arg, state);
    }
}

static const struct argp argp = {
    options,
    parse,
    NULL,
    "Measure the fabric that this runs on (under mpirun), or read one (-i), and print it.",
    NULL,
    NULL,
    NULL};

static int type_of(const struct args *a, const struct device *d, enum dtype *out,
                   struct err *err)
{
    *out = device_kind(d) == DEVICE_CPU ? DTYPE_F32 : DTYPE_BF16;
    if (!a->type)
        return 0;
    return dtype_parse_compute(a->type, out, err) ? err_prefix(err, "--compute-type: ") : 0;
}

static int choose_transport(const struct args *a, const char *name, const struct world *w,
                            struct probe_ask *ask, struct err *err)
{
    enum coll_transport transport;

    if (coll_transport_choose(&transport, a->transport, name, ask->device, w->ranks, err))
        return -1;
    ask->transport = transport == COLL_NCCL ? TOPO_OVER_NCCL : TOPO_OVER_MPI;
    return 0;
}

/* Collective.  What a rank lacks comes before what is asked of all. */
static int open_device(const struct args *a, struct world *w, struct probe_ask *ask,
                       struct err *err)
{
    const char *name = a->device ? a->device : "cpu";

    if (world_agree(w, device_open(&ask->device, name, w->node_rank, err), err))
        return -1;
    int rc = type_of(a, ask->device, &ask->type, err);
    rc = rc ? rc : choose_transport(a, name, w, ask, err);
    return world_agree(w, rc, err);
}

/* As it is asked for: with the hosts for groups, or with those that are found. */
static int measure_fabric(const struct args *a, struct world *w, struct probe_ask *ask,
                          struct topo *t, struct err *err)
{
    struct probe_found found;

    if (open_device(a, w, ask, err))
        return -1;
    if (a->model && probe_ask_model(w, a->model, a->seq, a->micro_batch ? a->micro_batch : 1,
                                    &ask->matrices, err))
        return -1;
    if (!a->discover)
        return probe_topo(w, NULL, ask, t, err);
    if (ask->transport == TOPO_OVER_NCCL)
        cli_say(&a->cli,
                "--discover finds groups by latency between host memories over MPI; their links"
                " are measured over NCCL");
    if (probe_discover(w, &found, err))
        return -1;
    int rc = probe_topo(w, &found, ask, t, err);
    probe_found_release(&found);
    return rc;
}

static int measure(struct args *a, struct world **w, struct topo *t, struct err *err)
{
    double deadline_s = a->deadline_s > 0 ? a->deadline_s : WORLD_DEADLINE_S;
    struct probe_ask ask = {0};

    if (cli_world_open(&a->cli, deadline_s, w, err))
        return -1;
    int rc = measure_fabric(a, *w, &ask, t, err);
    device_close(ask.device);
    return rc;
}

/* The one place where a fabric comes from.  *w is NULL unless it is measured. */
static int load(struct args *a, struct world **w, struct topo *t, struct err *err)
{
    if (!a->input && cli_launched()) {
        if (a->has_ask)
            return err_set(
                err, ERR_INPUT,
                "--set, --nodes, --ranks and --hosts apply to a fabric that is read, expected"
                " -i");
        return measure(a, w, t, err);
    }
    if (a->discover)
        return err_set(err, ERR_INPUT,
                       "--discover without a fabric to measure, expected mpirun");
    if (a->device || a->transport || a->type || a->deadline_s > 0)
        return err_set(
            err, ERR_INPUT,
            "--device, --transport, --compute-type and --deadline apply to a measurement,"
            " expected mpirun and no -i");
    if (a->model)
        return err_set(err, ERR_INPUT,
                       "-m applies to a measurement, expected mpirun and no -i");
    if (!a->input && isatty(STDIN_FILENO))
        return err_set(
            err, ERR_INPUT,
            "no fabric, expected -i FILE, -i synth:SPEC, -i nvml:, a file on standard input,"
            " or mpirun to measure one");
    return topo_import(t, a->input ? a->input : "-", &a->ask, err);
}

/* A machine is printed as it is found: no rate of a level has to be known for that. */
static int export(const struct args *a, struct err *err)
{
    if (!a->input && cli_launched())
        return err_set(
            err, ERR_INPUT,
            "--format nccl applies to a machine that is read, expected -i nvml: or a file");
    if (!a->input && isatty(STDIN_FILENO))
        return err_set(err, ERR_INPUT,
                       "no machine, expected -i nvml:, -i FILE or one on standard input");
    return a->cli.silent ? 0 : topo_export_nccl(a->input ? a->input : "-", stdout, err);
}

/* The words that complete one file complete the other, and replace nothing in it. */
static int load_old(const struct args *a, struct topo *old, struct err *err)
{
    struct topo_ask ask = a->ask;

    ask.fill = 1;
    return topo_import(old, a->old, &ask, err);
}

static int print(const struct args *a, const struct topo *t, int *differs, struct err *err)
{
    struct topo old = {0};
    struct io_out file;
    FILE *out;

    *differs = 0;
    if (a->cli.silent)
        return 0;
    if (!a->old)
        return cli_svg_open(&a->cli, &file, &out, err)
                   ? -1
                   : cli_svg_close(&file, topo_print(t, a->format, out, err), err);
    if (load_old(a, &old, err))
        return -1;
    *differs = topo_diff(&old, t, a->tolerance / 100, a->format, stdout) != 0;
    topo_release(&old);
    return 0;
}

int main(int argc, char **argv)
{
    struct args a = {.cli = CLI_INIT("paro-topo")};
    struct topo t = {0};
    struct world *w = NULL;
    struct err err;
    int differs = 0;

    cli_parse(&a.cli, &argp, argc, argv);
    if (a.format == TOPO_NCCL)
        return export(&a, &err) ? cli_fail(&a.cli, &err) : cli_finish(&a.cli, 0);
    if (load(&a, &w, &t, &err))
        return cli_fail_ranks(&a.cli, w, &err);
    world_close(w);
    if (t.doubt[0])
        cli_say(&a.cli, "%s", t.doubt);
    int rc = print(&a, &t, &differs, &err);
    topo_release(&t);
    return rc ? cli_fail(&a.cli, &err) : cli_finish(&a.cli, differs);
}
