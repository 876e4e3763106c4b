/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists the options of the health check, and determines the place of its state. */
#include "check/check.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/num.h"
#include "check/check_launch.h"
#include "health/health_data.h"

#define mark_option "mark-answer"

enum { CHECK, REPLAY, QUICK };
enum { MEASURED = 1 << CHECK | 1 << REPLAY };

static const struct cli_mode modes[] = {
    [CHECK] = {"a check", "[-- LAUNCHER [ARG...]]", 0, 0, NULL, 0},
    [REPLAY] = {"--replay", NULL, 0, 0, NULL, 0},
    [QUICK] = {"--level quick", NULL, 0, 0, NULL, 0},
    {0}};

#define CLI_ARGS struct check
CLI_PARSER(health_range_parse_rate)

static int bind_disable(const char *text, void *config, struct err *err)
{
    return health_config_disable(config, text, err);
}

static int bind_notify(const char *text, void *o, struct err *err)
{
    return health_parse_notify(o, text, err);
}

static const struct cli_option options[] = {
    {"baseline", 'b', "FILE", CLI_EVERYDAY,
     "Compare with the rates in FILE; with --learn, write it (default: compare the hosts with "
     "each other)",
     CLI_TEXT(o.baseline), .modes = MEASURED},
    {"warning", 'w', "RANGE", CLI_EVERYDAY,
     "Report WARNING when that percentage leaves RANGE (default: 96:)",
     CLI_PARSED(health_range_parse_rate, o.rules.warn)},
    {"critical", 'c', "RANGE", CLI_EVERYDAY,
     "Report CRITICAL when a port's rate, in percent of the expected one, leaves RANGE "
     "(default: 75:)",
     CLI_PARSED(health_range_parse_rate, o.rules.crit)},
    {"timeout", 't', "SECONDS", CLI_EVERYDAY,
     "Answer within SECONDS; unfinished checks are UNKNOWN (default: 10)",
     CLI_NUMBER(o.deadline_s, 1, 86400)},
    {"level", 0, "LEVEL", CLI_EVERYDAY,
     "quick: only this host's links, in milliseconds, for cron; normal: about 3 s; deep: about "
     "6 s (default: normal)",
     CLI_CHOICE(o.level, "quick|normal|deep")},
    {"learn", 0, NULL, CLI_EVERYDAY,
     "Measure a healthy network and print its baseline, or write it to the FILE of -b",
     CLI_FLAG(o.learn), .modes = 1 << CHECK, .excludes = "svg=-"},
    {"verbose", 'v', NULL, CLI_EVERYDAY,
     "Print a line per finding; -vv: also links, -vvv: all ports", CLI_MORE(o.verbose, 3)},
    {.text = "What to check:"},
    {"accept-baseline", 0, NULL, 0,
     "Update the baseline with the measured rates; with --level=quick, expect the links as "
     "they are",
     CLI_FLAG(o.accept), .modes = 1 << CHECK | 1 << QUICK},
    {"disable", 0, "CHECK", 0, "Skip a check, such as errors, speed or HC-203; may be repeated",
     CLI_PARSED(disable, o.config)},
    {"config", 0, "FILE", 0,
     "Read disabled checks, known problems and expected links from FILE", CLI_TEXT(config)},
    {"max-load", 0, "LOAD", 0,
     "Do not measure where the one-minute load per processor is above LOAD (default: no "
     "limit)",
     CLI_NUMBER(o.max_load, 0.01, 1e6), .modes = MEASURED},
    {"max-bytes", 0, "BYTES", 0,
     "Let no port carry more than BYTES, to spare a busy network (default: no limit)",
     CLI_BYTES(o.cap_bytes, 1, INT64_MAX), .modes = MEASURED},
    {"force", 0, NULL, 0, "Measure even while other jobs run, and under any load",
     CLI_FLAG(o.force)},
    {"device", 0, "cpu|cuda|cuda:N", 0,
     "Measure between host memories, between GPUs, one per rank, or between GPU N of each host "
     "(default: cpu)",
     CLI_TEXT(o.device), .modes = 1 << CHECK},
    {.text = "What to remember and output:"},
    {"state", 0, "DIR", 0,
     "Remember findings in DIR, or nothing with none (default: with --level=quick or --notify, "
     "a folder of the user)",
     CLI_TEXT(state)},
    {"notify", 0, "WORDS", 0,
     "change: print only changes, for cron; change,remind=12h: repeat problems every 12 h",
     CLI_PARSED(notify, o)},
    {"suggest", 0, NULL, 0, "Print the scontrol command that drains a broken host",
     CLI_FLAG(o.suggest)},
    {"prom", 0, "FILE", 0, "Also write FILE for the textfile collector of node_exporter",
     CLI_TEXT(o.prom)},
    {CLI_OPTION_SVG("Draw ports and pairs as SVG to FILE or standard output", 0),
     .modes = MEASURED},
    {"record", 0, "FILE", 0, "Write all measurements to FILE, for --replay", CLI_TEXT(o.record),
     .modes = 1 << CHECK},
    {"replay", 0, "FILE", 0,
     "Judge a record again, or a synthetic one (synth:64,in=7:80), and measure nothing",
     CLI_TEXT(replay)},
    {"sys", 0, "DIR", 0, "Read links from DIR, in a container (default: /sys)",
     CLI_TEXT(o.sys)},
    {"proc", 0, "DIR", 0,
     "Read host name, boot and load from DIR, in a container (default: /proc)",
     CLI_TEXT(o.proc)},
    {mark_option, 0, NULL, OPTION_HIDDEN, NULL, CLI_FLAG(marks)},
    {0}};

static const char version_name[] = "HORING_CHECK_VERSION";

int check_hand_over(struct err *err)
{
    return setenv(version_name, PARO_VERSION, 1) ? err_sys(err, "cannot allocate memory") : 0;
}

int check_take_over(struct err *err)
{
    const char *of = getenv(version_name);

    if (!of || strcmp(of, PARO_VERSION) == 0)
        return 0;
    return err_set(err, ERR_INPUT,
                   "horing-check has version %.40s and horing-rounds %s, expected the same", of,
                   PARO_VERSION);
}

/* ---- the environment ---- */

/*
 * Quick checks count from the last run on.  Others ignore earlier runs unless a state is
 * requested: after a repair, manual measurements should not be affected by earlier ones.
 */
static void choose_state(struct check *a)
{
    const char *systemd = getenv("STATE_DIRECTORY"), *state = getenv("XDG_STATE_HOME"),
               *home = getenv("HOME");
    const size_t space = sizeof a->folder;
    size_t n = systemd ? strcspn(systemd, ":") : 0; /* may be a list */

    if (a->state) {
        a->o.state = strcmp(a->state, "none") ? a->state : NULL;
        return;
    }
    if (a->replay || a->o.learn)
        return;
    if (n > 0 && n < space)
        snprintf(a->folder, space, "%.*s", (int)n, systemd);
    else if (a->o.level != HEALTH_QUICK && !a->o.notify)
        return;
    else if (geteuid() == 0)
        snprintf(a->folder, space, "/var/lib/horing-check");
    else if (state && state[0] == '/')
        snprintf(a->folder, space, "%s/horing-check", state);
    else if (home && home[0] == '/')
        snprintf(a->folder, space, "%s/.local/state/horing-check", home);
    a->o.state = a->folder[0] ? a->folder : NULL;
}

/* ---- options ---- */

/* Checks that rows cannot express: they depend on the environment, or on the words after
   "--". */
static int check_check_words(struct check *a)
{
    struct cli *cli = &a->cli;

    if (a->state && !*a->state)
        return cli_usage(cli, "--state: is empty, expected a folder or none");
    if (a->o.accept && cli->mode == CHECK && !a->o.baseline)
        return cli_usage(cli, "--accept-baseline alone, expected --baseline FILE with it");
    if (a->no_launcher)
        return cli_usage(cli, "nothing after --, expected a launcher such as mpirun");
    if (a->launch && cli->mode != CHECK)
        return cli_usage(cli, "%s and a launcher, expected one of them", modes[cli->mode].name);
    if (health_range_check(cli_given(cli, "warning"), cli_given(cli, "critical"), &cli->err))
        return -1;
    choose_state(a);
    if (a->o.notify && !a->o.state)
        return cli_usage(cli, "--notify without a state, expected --state DIR");
    if (a->o.accept && cli->mode == QUICK && !a->o.state)
        return cli_usage(cli, "--accept-baseline without a state, expected --state DIR");
    return 0;
}

/* ---- the deadline ---- */

/* Ignores signals of this number that are not from the timer. */
static void too_late(int number, siginfo_t *info, void *context)
{
    const struct check *a = info->si_value.sival_ptr;

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
 * Requests to a kernel or a file system end soon unless it hangs.  Reading a record may take
 * any time unless a deadline was given.
 */
static void start_timer(struct check *a)
{
    struct sigaction action = {.sa_sigaction = too_late, .sa_flags = SA_SIGINFO};
    struct sigevent event = {
        .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM, .sigev_value.sival_ptr = a};
    struct itimerspec at = {.it_value.tv_sec = (time_t)a->o.deadline_s};

    at.it_value.tv_nsec = (long)(1e9 * (a->o.deadline_s - (double)at.it_value.tv_sec));
    if (a->cli.json)
        snprintf(
            a->late, sizeof a->late,
            "{\"error\":{\"code\":\"%s\",\"text\":\"no answer within %.3g s\",\"file\":null,"
            "\"line\":null,\"key\":null}}\n",
            err_code_name(ERR_SYS), a->o.deadline_s);
    else
        snprintf(a->late, sizeof a->late, "%sno answer within %.3g s\n",
                 a->cli.plugin ? "HORING UNKNOWN - " : "horing-check: ", a->o.deadline_s);
    if (a->cli.silent || (a->replay && !cli_given(&a->cli, "timeout")) ||
        sigaction(SIGALRM, &action, NULL))
        return;
    a->timed = timer_create(CLOCK_MONOTONIC, &event, &a->timer) == 0;
    if (a->timed)
        timer_settime(a->timer, 0, &at, NULL);
}

void check_stop_timer(struct check *a)
{
    if (a->timed)
        timer_delete(a->timer);
    a->timed = 0;
}

/* ---- parsing ---- */

static int check_check(void *args)
{
    struct check *a = args;
    const char *now = getenv("SOURCE_DATE_EPOCH"); /* else the current time */
    int rc = check_check_words(a);

    a->o.svg = a->cli.svg;
    start_timer(a);
    a->o.now_s = (int64_t)time(NULL);
    if (rc == 0 && now && num_i64(now, 0, (int64_t)1 << 38, &a->o.now_s, &a->cli.err))
        rc = err_prefix(&a->cli.err, "SOURCE_DATE_EPOCH: ");
    char path[512], name[512] = "";
    snprintf(path, sizeof path, "%s/sys/kernel/hostname", a->o.proc);
    FILE *f = fopen(path, "re");
    if (!f || !fgets(name, sizeof name, f))
        gethostname(name, sizeof name - 1);
    if (f)
        fclose(f);
    name[strcspn(name, "\n")] = 0;
    health_name_make(name, a->o.host, sizeof a->o.host);
    /* The Slurm job of this check is not a job that it would disturb. */
    a->o.jobs = getenv("SLURM_JOB_ID");
    a->o.json = a->cli.json;
    return rc;
}

static const struct cli_command command = {
    options, modes,
    "Measure the network ports of hosts, compare them with a baseline or with each other, and"
    " print one line for a monitoring system.  Run it under mpirun, or give it a LAUNCHER.",
    check_check};

/* LAUNCHER ARG... COMMAND --mark-answer OPTION..., NULL; options are argv[1 .. words - 1]. */
static char **line_of(int argc, char **argv, int words)
{
    char **line = mem_new((size_t)argc + 2, sizeof *line);
    int n = argc - words - 1;

    memcpy(line, argv + words + 1, (size_t)n * sizeof *line);
    line[n] = argv[0];
    line[n + 1] = (char *)(uintptr_t) "--" mark_option;
    memcpy(line + n + 2, argv + 1, (size_t)(words - 1) * sizeof *line);
    return line;
}

void check_parse(struct check *a, int argc, char **argv)
{
    int words = 1;

    *a = (struct check){.cli = CLI_INIT("horing-check"), .memory = {.lock = -1}};
    a->cli.status = HEALTH_UNKNOWN;
    a->cli.plugin = "HORING";
    for (; words < argc && strcmp(argv[words], "--"); words++)
        /* The output is then a baseline and no answer */
        if (strcmp(argv[words], "--learn") == 0)
            a->cli.plugin = NULL;
    if (words + 1 < argc)
        a->launch = line_of(argc, argv, words);
    a->no_launcher = words + 1 == argc;
    argc = words;
    health_options_init(&a->o);
    a->o.memory = &a->memory;
    cli_parse(&a->cli, &command, argc, argv);
    if (!a->config)
        return;
    struct err err;
    if (health_config_read(&a->o.config, a->config, &err))
        exit(check_fail(a, &err));
}

/* ---- the answer ---- */

int check_begin(struct check *a, struct err *err)
{
    a->answer = open_memstream(&a->text, &a->text_bytes);
    return a->answer ? 0 : err_sys(err, "cannot allocate memory for the answer");
}

static void mark_begin(const struct check *a)
{
    if (a->marks)
        printf("%c%c", CHECK_LAUNCH_MARK, CHECK_LAUNCH_BEGIN);
}

int check_print(struct check *a, int rc, struct err *err)
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

void check_note_learned(const struct check *a, int hosts)
{
    if (a->cli.silent || hosts > 2 || !(a->o.learn || a->o.accept))
        return;
    fputs("horing-check: two hosts have no peers: check that out_Bps and in_Bps in the baseline"
          " are what the ports should reach; later checks of these two cannot tell a slow port"
          " from a slow path\n",
          stderr);
}

int check_fail(struct check *a, const struct err *err)
{
    struct err ignored;

    check_stop_timer(a);
    /* If another check or a job prevented the measurement, there is no new result to write. */
    if (!a->cli.silent && a->o.prom && !a->o.learn && err->code != ERR_MISMATCH)
        health_write_prom(NULL, a->o.prom, a->o.now_s, &ignored);
    mark_begin(a);
    cli_fail(&a->cli, err);
    return check_finish(a, HEALTH_UNKNOWN);
}

int check_finish(struct check *a, int status)
{
    if (a->marks)
        printf("%c%d", CHECK_LAUNCH_MARK, status);
    return cli_finish(&a->cli, status);
}

int check_relay(struct check *a, struct err *err)
{
    char *text = NULL;
    int status = 0;

    check_stop_timer(a);
    if (check_launch(a->launch, a->o.deadline_s, &text, &status, err))
        return check_fail(a, err);
    fputs(text, stdout);
    mem_free(text);
    return cli_finish(&a->cli, status);
}

int check_close(struct check *a, int status)
{
    health_memory_close(&a->memory);
    health_config_release(&a->o.config);
    mem_free(a->launch);
    return status;
}
