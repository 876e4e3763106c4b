/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how a command is spoken to and how it answers.  Under mpirun every rank parses the same
 * words: rank 0 alone speaks and returns the status, the others end with 0, so that a wrong
 * option is one line, not one per rank.
 */
#include "cli/cli.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/jout.h"
#include "base/utf8.h"

enum { EVERYDAY_MAX = 20 }; /* options that fit a screen of 24 lines */

/* The rank a launcher gave, before MPI is there to ask; NULL when there is none. */
static const char *launched_as(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                        "SLURM_PROCID"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = getenv(names[i]);
        if (text)
            return text;
    }
    return NULL;
}

int cli_launched(void)
{
    return launched_as() != NULL;
}

/*
 * Open MPI 5 reports each pair of local ranks for which btl/tcp finds no common address family,
 * as on any machine with IPv6, though shared memory serves them.  Between the ranks of one host
 * IPv4 is as good; the user's own setting rules.
 */
static void quiet_local_ranks(void)
{
    const char *all = getenv("OMPI_COMM_WORLD_SIZE"),
               *local = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");

    if (all && local && strcmp(all, local) == 0)
        setenv("OMPI_MCA_btl_tcp_disable_family", "6", 0);
}

static int has_word(int argc, char **argv, const char *word)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
        if (strcmp(argv[i], word) == 0)
            return 1;
    return 0;
}

/* --help and --version exit inside argp: stdout is checked all the same. */
static void check_stdout(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return;
    static const char line[] = "paro: cannot write to standard output\n";
    fputs(line, stderr);
    _Exit(argp_err_exit_status);
}

/* A group's header has neither name nor key, but a text: the end has nothing. */
static int is_option(const struct argp_option *o)
{
    return o->name || o->key || o->doc || o->group;
}

static const struct argp_option *long_option(const struct argp *argp, const char *name,
                                             size_t n)
{
    for (const struct argp_option *o = argp->options; is_option(o); o++)
        if (o->name && strncmp(o->name, name, n) == 0)
            return o;
    return NULL;
}

static const struct argp_option *short_option(const struct argp *argp, int key)
{
    for (const struct argp_option *o = argp->options; is_option(o); o++)
        if (o->key == key)
            return o;
    return NULL;
}

/* argp does not tell which word it could not take, so they are walked once more. */
static error_t find_culprit(struct cli *cli, const struct argp *argp, int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
        const char *word = argv[i], *value = NULL;
        const struct argp_option *o = NULL;
        if (word[0] != '-' || word[1] == 0)
            continue;
        if (word[1] == '-') {
            size_t n = strcspn(word + 2, "=");
            o = long_option(argp, word + 2, n);
            value = word[2 + n] ? word + 3 + n : NULL;
            if (o && value && !o->arg)
                return cli_usage(cli, "option '--%s' takes no value, found '%s'", o->name,
                                 value);
        } else {
            const char *p = word + 1;
            for (o = short_option(argp, *p); o && !o->arg && p[1];)
                o = short_option(argp, *++p);
            value = p[1] ? p + 1 : NULL;
        }
        if (!o)
            return cli_usage(cli, "unknown option '%s' (see --help)", word);
        if (o->arg && !value && !(o->flags & OPTION_ARG_OPTIONAL) && ++i == argc)
            return cli_usage(cli, "option '%s' lacks its value, expected %s", word, o->arg);
    }
    return cli_usage(cli, "an option is unknown or ambiguous (see --help)");
}

/* A closed 0, 1 or 2 would become some file's number: one that refuses all use takes it. */
static void keep_std(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
            open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd)
            _Exit(argp_err_exit_status);
}

void cli_parse(struct cli *cli, const struct argp *argp, int argc, char **argv)
{
    argp_err_exit_status = cli->status;
    keep_std();
    quiet_local_ranks();
    cli->silent = launched_as() && atoi(launched_as()) != 0;
    cli->json = has_word(argc, argv, "--json");
    if (!cli->silent)
        atexit(check_stdout);
    else if (!freopen("/dev/null", "w", stdout))
        exit(cli->status);
    /* Without argp's own help too: under ARGP_NO_ERRS it prints nothing. */
    error_t rc = argp_parse(argp, argc, argv, ARGP_NO_ERRS | ARGP_NO_HELP, NULL, cli);
    if (!rc)
        return;
    if (cli->err.code == ERR_NONE && rc == ENOMEM)
        cli_usage(cli, "cannot allocate memory for the options");
    else if (cli->err.code == ERR_NONE)
        find_culprit(cli, argp, argc, argv);
    exit(cli_fail(cli, &cli->err));
}

/* argp sorts by group: without groups, and their headers, the everyday options are one list. */
static void keep_everyday(const struct argp_option *o, struct argp_option rows[EVERYDAY_MAX])
{
    for (int n = 0; is_option(o); o++)
        if (o->flags & CLI_EVERYDAY) {
            assert(n < EVERYDAY_MAX);
            rows[n] = *o;
            rows[n++].group = 0;
        }
}

static error_t print_help(struct cli *cli, const struct argp *argp, const char *arg)
{
    struct argp_option rows[EVERYDAY_MAX + 1] = {{0}};
    struct argp shown = *argp;
    char doc[2048];

    if (arg && strcmp(arg, "all"))
        return cli_usage(cli, "--help: '%s', expected all", arg);
    /* Else argp adds three lines: a short option takes the value of its long one. */
    setenv("ARGP_HELP_FMT", "no-dup-args-note", 0);
    if (!arg) {
        keep_everyday(argp->options, rows);
        /* What follows the first \v stands below the options. */
        snprintf(doc, sizeof doc, "%s%s%s --help=all lists every option; man %s explains them.",
                 argp->doc, strchr(argp->doc, '\v') ? "\n" : "\v", cli->name, cli->name);
        shown.options = rows;
        shown.doc = doc;
    }
    argp_help(&shown, stdout, ARGP_HELP_STD_HELP, (char *)(uintptr_t)cli->name);
    exit(0); /* through check_stdout */
}

error_t cli_option(struct cli *cli, int key, char *arg, struct argp_state *state)
{
    switch (key) {
    case 'h':
    case '?':
        return print_help(cli, state->root_argp, arg);
    case 'V':
        printf("%s %s\n", cli->name, PARO_VERSION);
        exit(0);
    case CLI_KEY_JSON:
        cli->json = 1;
        return 0;
    case CLI_KEY_SVG:
        cli->svg = arg ? arg : "-";
        return 0;
    case CLI_KEY_FORCE:
        cli->force = 1;
        return 0;
    case ARGP_KEY_ARG:
        return cli_usage(cli, "unexpected argument '%s' (see --help)", arg);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

error_t cli_check(struct cli *cli, int rc, const char *option)
{
    if (rc == 0)
        return 0;
    err_prefix(&cli->err, "%s: ", option);
    return EINVAL;
}

static int has_svg_file(const struct cli *cli)
{
    return cli->svg && strcmp(cli->svg, "-");
}

error_t cli_check_svg(struct cli *cli)
{
    if (cli->force && !has_svg_file(cli))
        return cli_usage(cli, "--force without a file to replace, expected --svg=FILE");
    if (cli->svg && cli->json)
        return cli_usage(cli, "--svg and --json, expected one of them");
    return 0;
}

int cli_svg_open(const struct cli *cli, struct io_out *file, FILE **to, struct err *err)
{
    *file = (struct io_out){0};
    *to = stdout;
    if (!has_svg_file(cli))
        return 0;
    if (io_create(file, cli->svg, cli->force, err))
        return -1;
    *to = file->file;
    return 0;
}

int cli_svg_close(struct io_out *file, int rc, struct err *err)
{
    if (!file->path)
        return rc;
    if (rc == 0)
        return io_commit(file, err);
    io_abandon(file);
    return rc;
}

error_t cli_usage(struct cli *cli, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    err_set(&cli->err, ERR_INPUT, "%s", text);
    return EINVAL;
}

static void fail_json(const struct err *err)
{
    struct jout j = {.file = stderr};

    jout_open(&j, NULL, '{');
    jout_open(&j, "error", '{');
    jout_text(&j, "code", err_code_name(err->code));
    jout_text(&j, "text", err->text);
    jout_text(&j, "file", err->file[0] ? err->file : NULL);
    if (err->line)
        jout_int(&j, "line", err->line);
    else
        jout_null(&j, "line");
    jout_text(&j, "key", err->key[0] ? err->key : NULL);
    jout_close(&j, '}');
    jout_close(&j, '}');
}

/* One line, whatever a name in it holds; behind a bar were perfdata. */
static void fail_plugin(const struct cli *cli, const struct err *err)
{
    printf("%s UNKNOWN - ", cli->plugin);
    utf8_put(err->text, "|", stdout);
    putchar('\n');
}

int cli_fail(struct cli *cli, const struct err *err)
{
    if (cli->silent)
        return 0;
    /* One line is said: what standard output could not take is not said behind it. */
    if (fflush(stdout) || ferror(stdout)) {
        __fpurge(stdout);
        clearerr(stdout);
    }
    if (cli->json)
        fail_json(err);
    else if (cli->plugin) /* whoever runs plugins reads nothing else */
        fail_plugin(cli, err);
    else
        fprintf(stderr, "%s: %s\n", cli->name, err->text);
    return cli->status;
}

int cli_finish(struct cli *cli, int status)
{
    if (cli->silent)
        return 0;
    if (fflush(stdout) || ferror(stdout)) {
        struct err err;
        err_sys(&err, "cannot write to standard output");
        clearerr(stdout); /* said once: not again at exit */
        cli->plugin = NULL;
        int rc = cli_fail(cli, &err);
        fflush(stderr);
        _Exit(rc);
    }
    return status;
}

void cli_say(const struct cli *cli, const char *fmt, ...)
{
    char text[2048];
    va_list ap;

    if (cli->silent)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    utf8_clean(text);
    fprintf(stderr, "%s: %s\n", cli->name, text);
}
