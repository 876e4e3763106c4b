/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parses the options of a command and prints its errors and answers.  Under mpirun every rank
 * parses the same words: only rank 0 prints and returns the status, the others exit with 0, so
 * a wrong option gives one line instead of one per rank.
 */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "value/value_json_out.h"
#include "base/utf8.h"

/* The rank given by a launcher, before MPI is initialised; NULL: none. */
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

/* --help and --version exit inside argp: checks stdout there too. */
static void check_stdout(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return;
    static const char line[] = "paro: cannot write to standard output\n";
    fputs(line, stderr);
    _Exit(argp_err_exit_status);
}

void cli_parse(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
    argp_err_exit_status = cli->status;
    /* A closed descriptor 0, 1 or 2 would be reused for some file: opens one that rejects reads
       and writes. */
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
            open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd)
            _Exit(argp_err_exit_status);
    /*
     * Open MPI 5 reports each pair of local ranks for which btl/tcp finds no common address
     * family, as on any machine with IPv6, although they use shared memory.  Between ranks of
     * one host IPv4 is sufficient; the user's own setting has priority.
     */
    const char *all = getenv("OMPI_COMM_WORLD_SIZE"),
               *local = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    if (all && local && strcmp(all, local) == 0)
        setenv("OMPI_MCA_btl_tcp_disable_family", "6", 0);
    cli->silent = launched_as() && atoi(launched_as()) != 0;
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
        cli->json |= strcmp(argv[i], "--json") == 0;
    if (!cli->silent)
        atexit(check_stdout);
    else if (!freopen("/dev/null", "w", stdout))
        exit(cli->status);
    if (cli_option_parse(cli, command, argc, argv))
        exit(cli_fail(cli, &cli->err));
}

int cli_svg_open(const struct cli *cli, struct io_out *file, FILE **to, struct err *err)
{
    *file = (struct io_out){0};
    *to = stdout;
    if (!cli->svg || strcmp(cli->svg, "-") == 0)
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

int cli_usage(struct cli *cli, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_set(&cli->err, ERR_INPUT, "%s", text);
}

int cli_fail(struct cli *cli, const struct err *err)
{
    if (cli->silent)
        return 0;
    /* Prints one line only: discards unwritten output, so that it does not come after the
       error. */
    if (fflush(stdout) || ferror(stdout)) {
        __fpurge(stdout);
        clearerr(stdout);
    }
    if (cli->json) {
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
    } else if (
        cli->plugin) { /* callers of plugins read nothing else; text after a bar is perfdata */
        printf("%s UNKNOWN - ", cli->plugin);
        utf8_put(err->text, "|", stdout);
        putchar('\n');
    } else {
        fprintf(stderr, "%s: %s\n", cli->name, err->text);
    }
    return cli->status;
}

int cli_finish(struct cli *cli, int status)
{
    if (cli->silent)
        return 0;
    if (fflush(stdout) || ferror(stdout)) {
        struct err err;
        err_sys(&err, "cannot write to standard output");
        clearerr(stdout); /* reported already: not again at exit */
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
