/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks the network of the hosts it runs on and answers as the monitoring plugins do. */
#include <stdio.h>

#include "base/num.h"
#include "cli/cli_watch.h"
#include "cli/cli_world.h"
#include "health/health.h"

struct args {
    struct cli cli;
    struct health_options o;
};

enum { KEY_LEVEL = 0x100, KEY_PROM, KEY_LEARN };

static const struct argp_option options[] = {
    {"baseline", 'b', "FILE", 0, "Compare with the rates in FILE (made by --learn)", 0},
    {"warning", 'w', "RANGE", 0,
     "WARNING when a port's percentage of what is expected leaves RANGE (default 96:)", 0},
    {"critical", 'c', "RANGE", 0, "CRITICAL when it leaves RANGE (default 75:)", 0},
    {"timeout", 't', "SECONDS", 0, "UNKNOWN when there is no answer by then (default 10)", 0},
    {"level", KEY_LEVEL, "LEVEL", 0,
     "quick: this host's links, milliseconds, no MPI; normal: some 3 s; deep: some 6 s", 0},
    {"learn", KEY_LEARN, 0, 0, "Measure and print a baseline instead of checking", 0},
    {"prom", KEY_PROM, "FILE", 0, "Write FILE for node_exporter's textfile collector too", 0},
    CLI_OPTIONS,
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;
    struct err *err = &a->cli.err;

    switch (key) {
    case 'b':
        a->o.baseline = arg;
        return 0;
    case 'w':
        return cli_check(&a->cli, health_range_parse(arg, &a->o.rules.warn, err), "--warning");
    case 'c':
        return cli_check(&a->cli, health_range_parse(arg, &a->o.rules.crit, err), "--critical");
    case 't':
        return cli_check(&a->cli, num_f64(arg, 1, 86400, &a->o.deadline_s, err), "--timeout");
    case KEY_LEVEL:
        return cli_check(&a->cli, health_level_parse(arg, &a->o.level, err), "--level");
    case KEY_LEARN:
        a->o.learn = 1;
        return 0;
    case KEY_PROM:
        a->o.prom = arg;
        return 0;
    case ARGP_KEY_END:
        if (a->o.learn && (a->o.baseline || a->o.level == HEALTH_QUICK))
            return cli_usage(&a->cli, "--learn and %s, expected one of them",
                             a->o.baseline ? "--baseline" : "--level quick");
        if (a->o.level == HEALTH_QUICK && a->o.baseline)
            return cli_usage(&a->cli, "--level quick and --baseline, expected one of them");
        a->o.json = a->cli.json;
        return 0;
    default:
        return cli_option(&a->cli, key, arg, state);
    }
}

static const struct argp argp = {
    options,
    parse,
    NULL,
    "Measure the ports of the hosts under mpirun, compare them with a baseline or with each"
    " other, and print one line for a monitoring system.",
    NULL,
    NULL,
    NULL};

/* A monitoring system reads stdout alone: an error is an answer there. */
static int answer_error(struct args *a, const struct err *err)
{
    if (!a->cli.silent && !a->o.json && !a->o.learn)
        printf("HORING UNKNOWN - %s\n", err->text);
    else
        cli_fail(&a->cli, err);
    return cli_finish(&a->cli, HEALTH_UNKNOWN);
}

int main(int argc, char **argv)
{
    struct args a = {.cli = CLI_INIT("horing-check")};
    struct world *w = NULL;
    struct err err = {0};
    enum health_state state = HEALTH_UNKNOWN;
    int gone = 0;

    a.cli.status = HEALTH_UNKNOWN;
    health_options_init(&a.o);
    cli_parse(&a.cli, &argp, argc, argv);
    if (a.o.level == HEALTH_QUICK)
        return health_quick(&a.o, "/sys/class/net", stdout, &state, &err)
                   ? answer_error(&a, &err)
                   : cli_finish(&a.cli, (int)state);
    struct cli_watch *watch = cli_watch_start(&a.cli, "HORING", a.o.deadline_s);
    if (world_open(&w, &err))
        return answer_error(&a, &err);
    int rc = health_check(w, &a.o, cli_watch_where(watch), stdout, &state, &gone, &err);
    int status = rc ? answer_error(&a, &err) : cli_finish(&a.cli, (int)state);
    cli_watch_said(watch, status);
    if (gone)
        err.code = ERR_PEER;
    return cli_leave(&a.cli, w, &err, status);
}
