/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads a fabric, or measures one, and prints it or where it differs from an older one. */
#include <stdio.h>
#include <unistd.h>

#include "base/num.h"
#include "cli/cli.h"
#include "cli/cli_world.h"
#include "probe/probe.h"
#include "topo/topo.h"

struct args {
    struct cli cli;
    const char *input, *old;
    enum topo_format format;
    int has_format;
    double tolerance;
};

enum { KEY_FORMAT = 0x100, KEY_DIFF, KEY_TOLERANCE };

static const struct argp_option options[] = {
    {"input", 'i', "INPUT", 0,
     "Read the fabric: a YAML file, - for standard input, or synth:SPEC", 0},
    {"format", KEY_FORMAT, "FORMAT", 0, "Print it as yaml (default), json or table", 0},
    {"diff", KEY_DIFF, "OLD", 0, "Print where it differs from OLD instead; exit 1 if it does",
     0},
    {"tolerance", KEY_TOLERANCE, "PERCENT", 0,
     "With --diff: rates and latencies this near to the old value are the same (default 0)", 0},
    CLI_OPTIONS,
    {0}};

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
    case KEY_TOLERANCE:
        return cli_check(&a->cli, num_f64(arg, 0, 100, &a->tolerance, err), "--tolerance");
    case ARGP_KEY_END:
        if (a->cli.json && a->has_format && a->format != TOPO_JSON)
            return cli_usage(&a->cli, "--json and another --format, expected one of them");
        if (a->cli.json)
            a->format = TOPO_JSON;
        return 0;
    default:
        return cli_option(&a->cli, key, arg, state);
    }
}

static const struct argp argp = {
    options,
    parse,
    NULL,
    "Measure a fabric (under mpirun) or read one (-i), and print it as YAML, JSON or a table.",
    NULL,
    NULL,
    NULL};

/* The one place where a fabric comes from.  *w is NULL unless it is measured. */
static int load(const struct args *a, struct world **w, struct topo *t, struct err *err)
{
    if (!a->input && cli_launched())
        return world_open(w, err) ? -1 : probe_topo(*w, t, err);
    if (!a->input && isatty(STDIN_FILENO))
        return err_set(err, ERR_INPUT,
                       "no fabric, expected -i FILE, -i synth:SPEC, one on"
                       " standard input, or mpirun to measure one");
    return topo_read(t, a->input ? a->input : "-", err);
}

int main(int argc, char **argv)
{
    struct args a = {.cli = CLI_INIT("paro-topo")};
    struct topo t = {0}, old = {0};
    struct world *w = NULL;
    struct err err;
    int differs = 0;

    cli_parse(&a.cli, &argp, argc, argv);
    if (load(&a, &w, &t, &err))
        return cli_fail_ranks(&a.cli, w, &err);
    world_close(w);
    if (a.old && !a.cli.silent && topo_read(&old, a.old, &err)) {
        topo_release(&t);
        return cli_fail(&a.cli, &err);
    }
    if (a.old && !a.cli.silent)
        differs = topo_diff(&old, &t, a.tolerance / 100, a.format, stdout) != 0;
    else
        topo_print(&t, a.format, stdout);
    topo_release(&old);
    topo_release(&t);
    return cli_finish(&a.cli, differs);
}
