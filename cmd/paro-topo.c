/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads or measures a fabric, and prints it, its differences from an older one, or a report of
 * what slows it down.
 */
#include <stdio.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/cli_world.h"
#include "coll/coll_options.h"
#include "health/health_doctor.h"
#include "probe/probe.h"
#include "topo/topo_import.h"

struct args {
    struct cli cli;
    const char *input, *old, *model, *device, *transport, *type;
    int64_t seq, micro_batch;
    enum topo_format format;
    int discover, doctor, ring;
    struct topo_settings settings;
    double tolerance, deadline_s;
};

enum { FABRIC, DOCTOR };
static const struct cli_mode modes[] = {[FABRIC] = {"a fabric", NULL, 0, 0, NULL, 0},
                                        [DOCTOR] = {"--doctor", NULL, 0, 0, NULL, 1},
                                        {0}};

#define CLI_ARGS struct args
static int bind_given(const char *text, void *field, struct err *err)
{
    return topo_given_parse(field, text, err);
}

static const struct cli_option options[] = {
    {.text = "Read a fabric and print it:"},
    {"input", 'i', "INPUT", CLI_EVERYDAY,
     "Read the fabric from INPUT: a file (YAML, XML of NCCL or hwloc, text of ibnetdiscover or"
     " nvidia-smi topo -m), standard input ('-'), synth:SPEC for a synthetic fabric, a type of"
     " machine as 16xaws-p5, or nvml: for this machine's GPUs",
     CLI_TEXT(input), .modes = 1 << FABRIC | 1 << DOCTOR},
    {"format", 0, "FORMAT", CLI_EVERYDAY,
     "Print the fabric as FORMAT: yaml, json, table, svg, hostfile, rankfile, or nccl for"
     " one machine's XML (default: yaml)",
     CLI_CHOICE(format, "yaml|json|table|svg|hostfile|rankfile|nccl")},
    {CLI_OPTION_SVG("Draw the fabric as SVG to FILE or standard output", 0),
     .excludes = "json"},
    {CLI_OPTION_SVG_FORCE},
    {"diff", 0, "OLD", 0,
     "Print only what differs from the fabric OLD, with status 1 if anything does; use it to"
     " notice that a cluster has changed",
     CLI_TEXT(old)},
    {"tolerance", 0, "PERCENT", 0,
     "Ignore differences of --diff up to PERCENT of the old value, as two measurements always"
     " differ a little (default: 0)",
     CLI_NUMBER(tolerance, 0, 100)},
    {"doctor", 0, NULL, CLI_EVERYDAY,
     "Print what makes this machine's fabric slow, or that of a folder INPUT with its sys and"
     " proc",
     CLI_FLAG(doctor)},
    {.text = "Complete or extend what INPUT describes:"},
    {"set", 0, "WORDS", 0,
     "Add figures that INPUT lacks, or replace them: LEVEL=RATE[/rank][:LATENCY], nvlink=RATE,"
     " nic=RATE, memory=BYTES, flops=N, separated by commas",
     CLI_PARSED(given, settings.given), .excludes = "format=nccl"},
    {"nodes", 0, "N", CLI_EVERYDAY,
     "Describe N machines like the one in INPUT, to plan for a cluster that does not exist yet",
     CLI_INT(settings.nodes, 1, GROUPS_RANKS_MAX), .excludes = "format=nccl"},
    {"ranks", 0, "N", 0, "Put N ranks on each host, if INPUT does not count GPUs",
     CLI_INT(settings.ranks, 1, GROUPS_RANKS_MAX), .excludes = "format=nccl"},
    {"hosts", 0, "LIST", 0, "Name the machines, such as node[0-3]", CLI_TEXT(settings.hosts),
     .excludes = "format=nccl"},
    {"only", 0, "LIST", 0, "Keep these hosts of INPUT and drop the others",
     CLI_TEXT(settings.only), .excludes = "format=nccl"},
    {.text = "Measure the fabric under mpirun (without -i):"},
    {"device", 0, "cpu|cuda|cuda:N", CLI_EVERYDAY,
     "Measure the processor, one GPU for each rank of a host, or GPU N; choose what you will"
     " train on (default: cpu)",
     CLI_TEXT(device)},
    {"transport", 0, "mpi|nccl|auto", 0,
     "Send between GPUs over MPI or NCCL, as paro-train will; auto chooses NCCL where several"
     " ranks have a GPU each (default: auto)",
     CLI_TEXT(transport)},
    {"discover", 0, NULL, 0,
     "Find the groups and the levels above them by measurement, if host names do not show which"
     " ranks are near each other",
     CLI_FLAG(discover), .excludes = "input ring"},
    {"ring", 0, NULL, 0,
     "The hosts are cabled in a ring without a switch, each to the next and the last to the"
     " first, in the order of their ranks",
     CLI_FLAG(ring), .excludes = "input"},
    {"model", 'm', "MODEL", CLI_EVERYDAY,
     "Measure the compute rate with the matrix sizes of MODEL, for a closer prediction: a"
     " config.json, or a folder with one",
     CLI_TEXT(model)},
    {"seq", 0, "T", 0,
     "With -m: measure with sequences of T tokens (default: 256, or the model's maximum if that"
     " is less)",
     CLI_WHOLE(seq, 1, INT32_MAX), .needs = "model"},
    {"micro-batch", 0, "B", 0, "With -m: measure with B sequences per micro-step (default: 1)",
     CLI_WHOLE(micro_batch, 1, INT32_MAX), .needs = "model"},
    {"compute-type", 0, "TYPE", 0,
     "Measure matrix products in TYPE only, f32 or bf16 (default: f32; also bf16 if processors"
     " have instructions for it; on a GPU bf16)",
     CLI_TEXT(type)},
    {CLI_OPTION_DEADLINE(deadline_s)},
    {0}};

static int check(void *args)
{
    struct args *a = args;
    enum topo_format only = a->cli.svg ? TOPO_SVG : TOPO_JSON;

    if ((a->cli.svg || a->cli.json) && cli_given(&a->cli, "format") && a->format != only)
        return cli_usage(&a->cli, "--%s and another --format, expected one of them",
                         a->cli.svg ? "svg" : "json");
    if (a->cli.svg || a->cli.json)
        a->format = only;
    if (a->old && a->format > TOPO_TABLE)
        return cli_usage(&a->cli, "--diff and that --format, expected text or --json");
    return 0;
}

static const struct cli_command command = {
    options, modes, "Measure the fabric that this runs on, or read one (-i), and print it.",
    check};

/* Measures with the hosts as groups or with detected groups, as requested. */
static int measure_fabric(const struct args *a, struct world *w,
                          struct probe_settings *settings, struct topo *t, struct err *err)
{
    const char *name = a->device ? a->device : "cpu";
    enum coll_transport transport = COLL_MPI;
    struct probe_views found;
    int rc = 0;

    /* Reports a device that a rank lacks before options that all ranks share. */
    if (world_agree(w, device_open(&settings->device, name, w->node_rank, err), err))
        return -1;
    settings->all_types = !a->type && device_kind(settings->device) == DEVICE_CPU;
    settings->type = device_kind(settings->device) == DEVICE_CPU ? DTYPE_F32 : DTYPE_BF16;
    if (a->type && dtype_parse_compute(a->type, &settings->type, err))
        rc = err_prefix(err, "--compute-type: ");
    rc = rc ? rc
            : coll_transport_choose(&transport, a->transport, name, settings->device, w->ranks,
                                    err);
    settings->transport = transport == COLL_NCCL ? TOPO_OVER_NCCL : TOPO_OVER_MPI;
    if (world_agree(w, rc, err))
        return -1;
    if (a->model &&
        probe_settings_model(w, a->model, a->seq, a->micro_batch ? a->micro_batch : 1,
                             &settings->matrices, err))
        return -1;
    if (!a->discover)
        return probe_topo(w, NULL, settings, t, err);
    if (settings->transport == TOPO_OVER_NCCL)
        cli_say(&a->cli,
                "--discover finds groups by latency between host memories over MPI; their links"
                " are measured over NCCL");
    if (probe_discover(w, &found, err))
        return -1;
    rc = probe_topo(w, &found, settings, t, err);
    probe_views_release(&found);
    return rc;
}

/* Loads the fabric from any source.  *w is NULL unless it is measured. */
static int load(struct args *a, struct world **w, struct topo *t, struct err *err)
{
    if (!a->input && cli_launched()) {
        if (cli_given(&a->cli, "set") || a->settings.nodes || a->settings.ranks ||
            a->settings.hosts || a->settings.only)
            return err_set(
                err, ERR_INPUT,
                "--set, --nodes, --ranks, --hosts and --only apply to a fabric that is read,"
                " expected -i");
        struct probe_settings settings = {0};
        if (cli_world_open(&a->cli, a->deadline_s, w, err))
            return -1;
        int rc = a->ring && (*w)->groups.count < 3
                     ? err_set(err, ERR_INPUT, "--ring with %d hosts, expected 3 or more",
                               (*w)->groups.count)
                     : 0;
        (*w)->groups.ring = a->ring;
        rc = rc ? rc : measure_fabric(a, *w, &settings, t, err);
        device_close(settings.device);
        return rc;
    }
    if (a->discover || a->ring)
        return err_set(err, ERR_INPUT, "--%s without a fabric to measure, expected mpirun",
                       a->ring ? "ring" : "discover");
    if (a->device || a->transport || a->type || cli_given(&a->cli, "deadline"))
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
    return topo_import(t, a->input ? a->input : "-", &a->settings, err);
}

/* Prints a machine's devices, which needs no rates of levels. */
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

static int print(const struct args *a, const struct topo *t, int *differs, struct err *err)
{
    struct topo old = {0};
    struct topo_settings settings = a->settings;
    struct io_out file;
    FILE *out;

    *differs = 0;
    if (a->cli.silent)
        return 0;
    if (!a->old)
        return cli_svg_open(&a->cli, &file, &out, err)
                   ? -1
                   : cli_svg_close(&file, topo_print(t, a->format, out, err), err);
    /* The same settings complete the other file too, and replace nothing in it. */
    settings.fill = 1;
    if (topo_import(&old, a->old, &settings, err))
        return -1;
    *differs = topo_diff(&old, t, a->tolerance / 100, a->format, stdout) != 0;
    topo_release(&old);
    return 0;
}

int main(int argc, char **argv)
{
    struct args a = {.cli = CLI_INIT("paro-topo"), .deadline_s = WORLD_DEADLINE_S};
    struct topo t = {0};
    struct world *w = NULL;
    struct err err;
    int differs = 0;

    cli_parse(&a.cli, &command, argc, argv);
    if (a.doctor) {
        const char *of = a.input ? a.input : "";
        int rc = a.cli.silent ? 0 : health_doctor(of, a.cli.json, stdout, &differs, &err);
        return rc ? cli_fail(&a.cli, &err) : cli_finish(&a.cli, differs > 0);
    }
    if (a.format == TOPO_NCCL)
        return export(&a, &err) ? cli_fail(&a.cli, &err) : cli_finish(&a.cli, 0);
    if (load(&a, &w, &t, &err))
        return cli_fail_ranks(&a.cli, w, &err);
    world_close(w);
    if (t.open[0])
        cli_say(&a.cli, "%s", t.open);
    if (t.doubt[0])
        cli_say(&a.cli, "doubt: %s", t.doubt);
    int rc = print(&a, &t, &differs, &err);
    topo_release(&t);
    return rc ? cli_fail(&a.cli, &err) : cli_finish(&a.cli, differs);
}
