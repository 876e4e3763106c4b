/* SPDX-License-Identifier: BSD-3-Clause */
/* Reports the rank that slows down a running program, from records of its collectives. */
#include <stdlib.h>
#include <string.h>

#include "base/fnv.h"
#include "base/mem.h"
#include "base/tick.h"
#include "cli/cli.h"
#include "watch/watch.h"

enum { FILES_MAX = 4096 };

struct args {
    struct cli cli;
    struct watch_rules rules;
    const char *prom;
    double every_s; /* 0: report once */
    int verbose;
};

static const struct cli_mode modes[] = {{"a verdict", "[FILE|DIR]...", 0, FILES_MAX, NULL, 0},
                                        {0}};

#define CLI_ARGS struct args
CLI_PARSER(health_range_parse)

static const struct cli_option options[] = {
    {"warning", 'w', "RANGE", CLI_EVERYDAY,
     "Report WARNING when a rank's lateness in percent leaves RANGE (default: 5)",
     CLI_PARSED(health_range_parse, rules.warn)},
    {"critical", 'c', "RANGE", CLI_EVERYDAY,
     "Report CRITICAL when that percentage leaves RANGE (default: 25)",
     CLI_PARSED(health_range_parse, rules.crit)},
    {"hang", 0, "SECONDS", CLI_EVERYDAY,
     "Report a wait of more than SECONDS as a hang (default: 60)",
     CLI_NUMBER(rules.hang_s, 0.1, 1e6)},
    {"follow", 0, "SECONDS", CLI_EVERYDAY | OPTION_ARG_OPTIONAL,
     "Read again every SECONDS (10), and print what changes, until the run ends",
     CLI_NUMBER(every_s, 0.1, 1e6), .absent = "10", .excludes = "svg"},
    {"verbose", 'v', NULL, CLI_EVERYDAY,
     "Print a line per finding, clock and late rank; -vv: all ranks", CLI_MORE(verbose, 2)},
    {.text = "Output:"},
    {"prom", 0, "FILE", 0, "Also write FILE for the textfile collector of node_exporter",
     CLI_TEXT(prom)},
    {CLI_OPTION_SVG("Draw ranks over time as SVG to FILE or standard output", 0)},
    {CLI_OPTION_SVG_FORCE},
    {0}};

static int check(void *args)
{
    struct cli *cli = &((struct args *)args)->cli;

    return health_range_check(cli_given(cli, "warning"), cli_given(cli, "critical"), &cli->err);
}

static const struct cli_command command = {
    options, modes,
    "Name the rank that makes a running program slow, or that it waits for, by the records of"
    " its collectives."
    "\vA FILE is of PARO_METER, NCCL Inspector or RAS, PyTorch's flight recorder or profiler; a"
    " DIR has such files (default: the folder that PARO_METER names).",
    check};

/* Prints the line, JSON or drawing on standard output, and writes the files. */
static int report(const struct args *a, const struct watch_report *r, FILE *out,
                  struct err *err)
{
    struct io_out file;
    FILE *to = NULL;

    if (a->prom && watch_write_prom(r, a->prom, err))
        return -1;
    if (a->cli.svg) {
        if (cli_svg_open(&a->cli, &file, &to, err))
            return -1;
        watch_draw(r, to);
        if (cli_svg_close(&file, 0, err))
            return -1;
    }
    if (to != stdout)
        (a->cli.json ? watch_print_json : watch_print_line)(r, out);
    return 0;
}

struct answer {
    enum health_state state;
    uint64_t key; /* hash of the findings without numbers: a change is news */
    int over;     /* all processes have ended */
};

static int judge(const struct args *a, FILE *out, struct answer *answer, struct err *err)
{
    const char *env = getenv("PARO_METER");
    const char *const *path = a->cli.words ? (const char *const *)a->cli.word : &env;
    struct watch_verdict v;
    struct watch w;

    if (!a->cli.words && (!env || !*env))
        return err_set(err, ERR_INPUT, "no FILE or DIR, and PARO_METER is not set");
    if (watch_read(&w, path, a->cli.words ? a->cli.words : 1, err))
        return -1;
    watch_judge(&w, &a->rules, &v);
    int rc = report(a, &(struct watch_report){&w, &v, &a->rules, a->verbose}, out, err);
    *answer = (struct answer){v.state, fnv_mix(FNV_BASIS, v.state), w.ended >= w.processes};
    for (int i = 0; i < v.findings; i++)
        answer->key =
            fnv_mix(fnv_mix(answer->key, v.finding[i].kind), (uint64_t)(v.finding[i].rank + 2));
    watch_verdict_release(&v);
    watch_release(&w);
    return rc;
}

/* Prints the report if it has changed.  A run that has not begun has no records yet. */
static int follow(const struct args *a, struct answer *answer, struct err *err)
{
    for (uint64_t before = 0; !answer->over; before = answer->key) {
        char *text = NULL;
        size_t bytes = 0;
        FILE *out = mem_stream(&text, &bytes);
        int rc = judge(a, out, answer, err);
        if (rc && (err->code == ERR_INPUT || err->code == ERR_ABSENT)) {
            fprintf(out, "WATCH UNKNOWN - %s\n", err->text);
            *answer = (struct answer){.state = HEALTH_UNKNOWN,
                                      .key = fnv_bytes(err->text, strlen(err->text))};
            rc = 0;
        }
        fclose(out);
        if (rc == 0 && answer->key != before) {
            fputs(text, stdout);
            fflush(stdout);
        }
        mem_free(text);
        if (rc)
            return rc;
        if (!answer->over)
            tick_sleep_s(a->every_s);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct args a = {.cli = CLI_INIT("horing-watch")};
    struct answer answer = {.state = HEALTH_UNKNOWN};
    struct err err = {0};

    a.cli.status = HEALTH_UNKNOWN;
    a.cli.plugin = "WATCH";
    watch_rules_init(&a.rules);
    cli_parse(&a.cli, &command, argc, argv);
    int rc = a.every_s > 0 ? follow(&a, &answer, &err) : judge(&a, stdout, &answer, &err);
    return rc ? cli_fail(&a.cli, &err) : cli_finish(&a.cli, (int)answer.state);
}
