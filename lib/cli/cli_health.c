/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows the options of the health check, and where its state lies. */
#include "cli/cli_health.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/cli_launch.h"
#include "health/health_name.h"

enum {
    KEY_LEVEL = 0x100,
    KEY_PROM,
    KEY_LEARN,
    KEY_RECORD,
    KEY_REPLAY,
    KEY_STATE,
    KEY_NOTIFY,
    KEY_SUGGEST,
    KEY_CONFIG,
    KEY_DISABLE,
    KEY_ACCEPT,
    KEY_LOAD,
    KEY_BYTES,
    KEY_FORCE,
    KEY_DEVICE,
    KEY_SYS,
    KEY_PROC,
    KEY_MARK
};

#define mark_option "mark-answer"

static const struct argp_option options[] = {
    {"baseline", 'b', "FILE", CLI_EVERYDAY,
     "Compare with the rates in FILE; with --learn, write it (default: compare the hosts with "
     "each other)",
     1},
    {"warning", 'w', "RANGE", CLI_EVERYDAY,
     "Report WARNING when that percentage leaves RANGE (default: 96:)", 1},
    {"critical", 'c', "RANGE", CLI_EVERYDAY,
     "Report CRITICAL when a port's rate, in percent of the expected one, leaves RANGE "
     "(default: 75:)",
     1},
    {"timeout", 't', "SECONDS", CLI_EVERYDAY,
     "Answer within SECONDS; unfinished checks are UNKNOWN (default: 10)", 1},
    {"level", KEY_LEVEL, "LEVEL", CLI_EVERYDAY,
     "quick: only this host's links, in milliseconds, for cron; normal: about 3 s; deep: about "
     "6 s (default: normal)",
     1},
    {"learn", KEY_LEARN, 0, CLI_EVERYDAY,
     "Measure a healthy network and print its baseline, or write it to the FILE of -b", 1},
    {"verbose", 'v', 0, CLI_EVERYDAY,
     "Print a line per finding; -vv: also links, -vvv: all ports", 1},
    {0, 0, 0, 0, "What to check:", 2},
    {"accept-baseline", KEY_ACCEPT, 0, 0,
     "Update the baseline with the measured rates; with --level=quick, expect the links as "
     "they are",
     3},
    {"disable", KEY_DISABLE, "CHECK", 0,
     "Skip a check, such as errors, speed or HC-203; may be repeated", 3},
    {"config", KEY_CONFIG, "FILE", 0,
     "Read disabled checks, known problems and expected links from FILE", 3},
    {"max-load", KEY_LOAD, "LOAD", 0,
     "Do not measure where the one-minute load per processor is above LOAD (default: no "
     "limit)",
     3},
    {"max-bytes", KEY_BYTES, "BYTES", 0,
     "Let no port carry more than BYTES, to spare a busy network (default: no limit)", 3},
    {"force", KEY_FORCE, 0, 0, "Measure even while other jobs run, and under any load", 3},
    {"device", KEY_DEVICE, "cpu|cuda|cuda:N", 0,
     "Measure between host memories, between GPUs, one per rank, or between GPU N of each host "
     "(default: cpu)",
     3},
    {0, 0, 0, 0, "What to remember and output:", 4},
    {"state", KEY_STATE, "DIR", 0,
     "Remember findings in DIR, or nothing with none (default: with --level=quick or --notify, "
     "a folder of the user)",
     5},
    {"notify", KEY_NOTIFY, "WORDS", 0,
     "change: print only changes, for cron; change,remind=12h: repeat problems every 12 h", 5},
    {"suggest", KEY_SUGGEST, 0, 0, "Print the scontrol command that drains a broken host", 5},
    {"prom", KEY_PROM, "FILE", 0, "Also write FILE for the textfile collector of node_exporter",
     5},
    CLI_OPTION_SVG("Draw ports and pairs as SVG to FILE or standard output", 0, 5),
    {"record", KEY_RECORD, "FILE", 0, "Write all measurements to FILE, for --replay", 5},
    {"replay", KEY_REPLAY, "FILE", 0,
     "Judge a record again, or a synthetic one (synth:64,in=7:80), and measure nothing", 5},
    {"sys", KEY_SYS, "DIR", 0, "Read links from DIR, in a container (default: /sys)", 5},
    {"proc", KEY_PROC, "DIR", 0,
     "Read host name, boot and load from DIR, in a container (default: /proc)", 5},
    {mark_option, KEY_MARK, 0, OPTION_HIDDEN, 0, 5}, /* of one that a launcher is to start */
    CLI_OPTIONS,
    {0}};

static const char version_name[] = "HORING_CHECK_VERSION";

int cli_health_hand_over(struct err *err)
{
    return setenv(version_name, PARO_VERSION, 1) ? err_sys(err, "cannot allocate memory") : 0;
}

int cli_health_take_over(struct err *err)
{
    const char *of = getenv(version_name);

    if (!of || strcmp(of, PARO_VERSION) == 0)
        return 0;
    return err_set(err, ERR_INPUT,
                   "horing-check has version %.40s and horing-rounds %s, expected the same", of,
                   PARO_VERSION);
}

int cli_health_measures(const struct cli_health *a)
{
    return a->o.level != HEALTH_QUICK && !a->replay;
}

/* ---- the environment ---- */

/* $STATE_DIRECTORY may be several, with colons. */
static int state_from_systemd(struct cli_health *a)
{
    const char *dir = getenv("STATE_DIRECTORY");
    size_t n = dir ? strcspn(dir, ":") : 0;

    if (n == 0 || n >= sizeof a->folder)
        return 0;
    memcpy(a->folder, dir, n);
    return 1;
}

static void state_of_user(struct cli_health *a)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

    if (geteuid() == 0)
        snprintf(a->folder, sizeof a->folder, "/var/lib/horing-check");
    else if (state && state[0] == '/')
        snprintf(a->folder, sizeof a->folder, "%s/horing-check", state);
    else if (home && home[0] == '/')
        snprintf(a->folder, sizeof a->folder, "%s/.local/state/horing-check", home);
}

/*
 * Quick checks count from the last run on.  Others stand for themselves unless they are asked
 * to remember: who measures by hand what he has just mended wants no word of before.
 */
static void choose_state(struct cli_health *a)
{
    struct health_ops *ops = &a->ops;

    if (a->has_state) {
        ops->state = strcmp(a->state, "none") ? a->state : NULL;
        return;
    }
    if (a->replay || a->o.learn)
        return;
    if (state_from_systemd(a))
        ops->state = a->folder;
    else if (a->o.level == HEALTH_QUICK || ops->notify) {
        state_of_user(a);
        ops->state = a->folder[0] ? a->folder : NULL;
    }
}

/* The present, or what SOURCE_DATE_EPOCH says for it. */
static int choose_time(struct cli_health *a)
{
    const char *text = getenv("SOURCE_DATE_EPOCH");

    a->ops.now_s = (int64_t)time(NULL);
    return text ? cli_check(&a->cli,
                            num_i64(text, 0, (int64_t)1 << 38, &a->ops.now_s, &a->cli.err),
                            "SOURCE_DATE_EPOCH")
                : 0;
}

static void choose_host(struct health_ops *ops)
{
    char path[512], name[512] = "";

    snprintf(path, sizeof path, "%s/sys/kernel/hostname", ops->proc);
    FILE *f = fopen(path, "re");
    if (!f || !fgets(name, sizeof name, f))
        gethostname(name, sizeof name - 1);
    if (f)
        fclose(f);
    name[strcspn(name, "\n")] = 0;
    health_name_make(name, ops->host, sizeof ops->host);
}

/* ---- words ---- */

static error_t check_words(struct cli_health *a)
{
    struct cli *cli = &a->cli;
    const int quick = a->o.level == HEALTH_QUICK && !a->replay;

    if (a->o.learn && (quick || a->replay))
        return cli_usage(cli, "--learn and %s, expected one of them",
                         quick ? "--level quick" : "--replay");
    if (quick && a->o.baseline)
        return cli_usage(cli, "--level quick and --baseline, expected one of them");
    if (quick && (a->o.record || a->ops.svg))
        return cli_usage(cli,
                         "--level quick and %s, expected one of them: it measures no rates",
                         a->o.record ? "--record" : "--svg");
    if (a->ops.svg && strcmp(a->ops.svg, "-") == 0 && (cli->json || a->o.learn))
        return cli_usage(cli, "--svg without a file and %s, expected one of them",
                         cli->json ? "--json" : "--learn");
    if (quick && (a->ops.max_load > 0 || a->o.cap_bytes))
        return cli_usage(cli, "--level quick and %s, expected one of them: it loads nothing",
                         a->o.cap_bytes ? "--max-bytes" : "--max-load");
    if (a->o.device && (quick || a->replay))
        return cli_usage(cli, "--device and %s, expected one of them",
                         quick ? "--level quick" : "--replay");
    if (a->replay && a->o.record)
        return cli_usage(cli, "--replay and --record, expected one of them");
    if (a->ops.accept && !quick && !a->o.baseline)
        return cli_usage(cli, "--accept-baseline alone, expected --baseline FILE with it");
    if (a->ops.accept && a->replay)
        return cli_usage(cli, "--accept-baseline and --replay, expected one of them");
    if (a->no_launcher)
        return cli_usage(cli, "nothing after --, expected a launcher such as mpirun");
    if (a->launch && (quick || a->replay))
        return cli_usage(cli, "%s and a launcher, expected one of them",
                         quick ? "--level quick" : "--replay");
    choose_state(a);
    if (a->ops.notify && !a->ops.state)
        return cli_usage(cli, "--notify without a state, expected --state DIR");
    if (a->ops.accept && quick && !a->ops.state)
        return cli_usage(cli, "--accept-baseline without a state, expected --state DIR");
    return 0;
}

/* ---- the time ---- */

/* Another signal of that number is not the timer's. */
static void too_late(int number, siginfo_t *info, void *context)
{
    const struct cli_health *a = info->si_value.sival_ptr;

    (void)number;
    (void)context;
    if (info->si_code != SI_TIMER)
        return;
    int fd = a->cli.plugin && !a->cli.json ? STDOUT_FILENO : STDERR_FILENO;
    if (write(fd, a->late, strlen(a->late)) < 0)
        _exit(a->cli.status); /* nobody reads it */
    _exit(a->cli.status);
}

/*
 * A kernel, or a file system, that does not answer: what it is asked for here is soon told.
 * A record may be as long as it likes, unless somebody says how long he waits.
 */
static void start_timer(struct cli_health *a)
{
    struct sigaction action = {.sa_sigaction = too_late, .sa_flags = SA_SIGINFO};
    struct sigevent event = {
        .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM, .sigev_value.sival_ptr = a};
    struct itimerspec at = {.it_value.tv_sec = (time_t)a->o.deadline_s};
    char text[64];

    at.it_value.tv_nsec = (long)(1e9 * (a->o.deadline_s - (double)at.it_value.tv_sec));
    snprintf(text, sizeof text, "no answer within %.3g s", a->o.deadline_s);
    if (a->cli.json)
        snprintf(a->late, sizeof a->late,
                 "{\"error\":{\"code\":\"%s\",\"text\":\"%s\",\"file\":null,\"line\":null,"
                 "\"key\":null}}\n",
                 err_code_name(ERR_SYS), text);
    else
        snprintf(a->late, sizeof a->late, "%s%s\n",
                 a->cli.plugin ? "HORING UNKNOWN - " : "horing-check: ", text);
    if (a->cli.silent || (a->replay && !a->has_timeout) || sigaction(SIGALRM, &action, NULL))
        return;
    a->timed = timer_create(CLOCK_MONOTONIC, &event, &a->timer) == 0;
    if (a->timed)
        timer_settime(a->timer, 0, &at, NULL);
}

void cli_health_stop_timer(struct cli_health *a)
{
    if (a->timed)
        timer_delete(a->timer);
    a->timed = 0;
}

int cli_health_begin(struct cli_health *a, struct err *err)
{
    a->answer = open_memstream(&a->text, &a->text_bytes);
    return a->answer ? 0 : err_sys(err, "cannot allocate memory for the answer");
}

static void mark_begin(const struct cli_health *a)
{
    if (a->marks)
        printf("%c%c", CLI_LAUNCH_MARK, CLI_LAUNCH_BEGIN);
}

int cli_health_say(struct cli_health *a, int rc, struct err *err)
{
    if (a->answer && fclose(a->answer) && rc == 0)
        rc = err_sys(err, "cannot allocate memory for the answer");
    if (rc == 0) {
        mark_begin(a);
        fwrite(a->text, 1, a->text_bytes, stdout);
    }
    free(a->text);
    a->answer = NULL;
    a->text = NULL;
    return rc;
}

static error_t end(struct cli_health *a)
{
    error_t rc = check_words(a);

    start_timer(a);
    if (rc == 0)
        rc = choose_time(a);
    choose_host(&a->ops);
    /* What a job of Slurm's knows itself by: it is none that it disturbs. */
    a->ops.jobs = getenv("SLURM_JOB_ID");
    a->o.json = a->cli.json;
    return rc;
}

static error_t parse_more(struct cli_health *a, int key, char *arg, struct argp_state *state)
{
    struct err *err = &a->cli.err;

    switch (key) {
    case KEY_STATE:
        a->has_state = 1;
        a->state = arg;
        return *arg ? 0 : cli_usage(&a->cli, "--state: is empty, expected a folder or none");
    case KEY_NOTIFY:
        return cli_check(&a->cli, health_ops_parse_notify(&a->ops, arg, err), "--notify");
    case KEY_DISABLE:
        return cli_check(&a->cli, health_config_disable(&a->ops.config, arg, err), "--disable");
    case KEY_CONFIG:
        a->config = arg;
        return 0;
    case KEY_LOAD:
        return cli_check(&a->cli, num_f64(arg, 0.01, 1e6, &a->ops.max_load, err), "--max-load");
    case KEY_BYTES:
        return cli_check(&a->cli, num_bytes(arg, 1, INT64_MAX, &a->o.cap_bytes, err),
                         "--max-bytes");
    case KEY_FORCE:
        a->ops.force = 1;
        return 0;
    case KEY_DEVICE:
        a->o.device = arg;
        return 0;
    case KEY_ACCEPT:
        a->ops.accept = 1;
        return 0;
    case KEY_SUGGEST:
        a->ops.suggest = 1;
        return 0;
    case 'v':
        a->ops.verbose += a->ops.verbose < 3;
        return 0;
    case CLI_KEY_SVG:
        a->ops.svg = arg ? arg : "-";
        return 0;
    case KEY_SYS:
        a->ops.sys = arg;
        return 0;
    case KEY_PROC:
        a->ops.proc = arg;
        return 0;
    case KEY_MARK:
        a->marks = 1;
        return 0;
    case ARGP_KEY_END:
        return end(a);
    default:
        return cli_option(&a->cli, key, arg, state);
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct cli_health *a = state->input;
    struct err *err = &a->cli.err;

    switch (key) {
    case 'b':
        a->o.baseline = arg;
        return 0;
    case 'w':
        return cli_check(&a->cli, health_range_parse_rate(arg, &a->o.rules.warn, err),
                         "--warning");
    case 'c':
        return cli_check(&a->cli, health_range_parse_rate(arg, &a->o.rules.crit, err),
                         "--critical");
    case 't':
        a->has_timeout = 1;
        return cli_check(&a->cli, num_f64(arg, 1, 86400, &a->o.deadline_s, err), "--timeout");
    case KEY_LEVEL:
        return cli_check(&a->cli, health_level_parse(arg, &a->o.level, err), "--level");
    case KEY_LEARN:
        a->o.learn = 1;
        return 0;
    case KEY_PROM:
        a->o.prom = arg;
        return 0;
    case KEY_RECORD:
        a->o.record = arg;
        return 0;
    case KEY_REPLAY:
        a->replay = arg;
        return 0;
    default:
        return parse_more(a, key, arg, state);
    }
}

static const struct argp argp = {
    options,
    parse,
    "[-- LAUNCHER [ARG...]]",
    "Measure the network ports of hosts, compare them with a baseline or with each other, and"
    " print one line for a monitoring system.  Run it under mpirun, or give it a LAUNCHER.",
    NULL,
    NULL,
    NULL};

/* LAUNCHER ARG... COMMAND --mark-answer OPTION..., NULL; `words` of argv are the last two. */
static char **line_of(int argc, char **argv, int words)
{
    char **line = mem_new((size_t)argc + 2, sizeof *line);
    int n = 0;

    for (int i = words + 1; i < argc; i++)
        line[n++] = argv[i];
    line[n++] = argv[0];
    line[n++] = (char *)(uintptr_t) "--" mark_option;
    for (int i = 1; i < words; i++)
        line[n++] = argv[i];
    return line;
}

void cli_health_parse(struct cli_health *a, int argc, char **argv)
{
    int words = 1;

    *a = (struct cli_health){.cli = CLI_INIT("horing-check"), .memory = {.lock = -1}};
    a->cli.status = HEALTH_UNKNOWN;
    a->cli.plugin = "HORING";
    for (; words < argc && strcmp(argv[words], "--"); words++)
        if (strcmp(argv[words], "--learn") == 0) /* there a baseline is what is printed */
            a->cli.plugin = NULL;
    if (words + 1 < argc)
        a->launch = line_of(argc, argv, words);
    a->no_launcher = words + 1 == argc;
    argc = words;
    health_options_init(&a->o);
    health_ops_init(&a->ops);
    a->ops.memory = &a->memory;
    a->o.ops = &a->ops;
    cli_parse(&a->cli, &argp, argc, argv);
    if (!a->config)
        return;
    struct err err;
    if (health_config_read(&a->ops.config, a->config, &err))
        exit(cli_health_fail(a, &err));
}

void cli_health_note_learned(const struct cli_health *a, int hosts)
{
    if (a->cli.silent || hosts > 2 || !(a->o.learn || a->ops.accept))
        return;
    fputs("horing-check: two hosts have no peers: check that out_Bps and in_Bps in the baseline"
          " are what the ports should reach; later checks of these two cannot tell a slow port"
          " from a slow path\n",
          stderr);
}

int cli_health_fail(struct cli_health *a, const struct err *err)
{
    struct err ignored;

    cli_health_stop_timer(a);
    /* What another check, or a job, is in the way of is no news of the network. */
    if (!a->cli.silent && a->o.prom && !a->o.learn && err->code != ERR_MISMATCH)
        health_write_prom_unknown(a->o.prom, a->ops.now_s, &ignored);
    mark_begin(a);
    cli_fail(&a->cli, err);
    return cli_health_finish(a, HEALTH_UNKNOWN);
}

int cli_health_finish(struct cli_health *a, int status)
{
    if (a->marks)
        printf("%c%d", CLI_LAUNCH_MARK, status);
    return cli_finish(&a->cli, status);
}

int cli_health_launch(struct cli_health *a, struct err *err)
{
    char *text = NULL;
    int status = 0;

    cli_health_stop_timer(a);
    if (cli_launch(a->launch, a->o.deadline_s, &text, &status, err))
        return cli_health_fail(a, err);
    fputs(text, stdout);
    mem_free(text);
    return cli_finish(&a->cli, status);
}

int cli_health_close(struct cli_health *a, int status)
{
    health_memory_close(&a->memory);
    health_config_release(&a->ops.config);
    mem_free(a->launch);
    return status;
}
