/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdio.h>

#include "base/err.h"
#include "base/io.h"
#include "cli/cli_option.h"

/*
 * Provides the common parts of all commands: a table of options (cli_option.h), --help,
 * --version, --json, one-line errors, exit status, a checked stdout.  A command's arguments
 * begin with a struct cli:
 *
 *     struct args { struct cli cli; const char *input; int64_t iters; };
 *     #define CLI_ARGS struct args
 *     static const struct cli_option options[] = {
 *         {"input", 'i', "FILE", CLI_EVERYDAY, "Read the topology from FILE", CLI_TEXT(input)},
 *         {"iters", 'n', "N", 0, "Repeat N times (default: 1)", CLI_WHOLE(iters, 1, 99)},
 *         {0}};
 *     static const struct cli_mode modes[] = {{"a run", "[-i FILE]", 0, 0}, {0}};
 *     static const struct cli_command command = {options, modes, "Do it.", NULL};
 *     int main(int argc, char **argv) {
 *         struct args a = {.cli = CLI_INIT("paro-x"), .iters = 1};
 *         struct err err;
 *         cli_parse(&a.cli, &command, argc, argv);
 *         if (door(&a, stdout, &err))
 *             return cli_fail(&a.cli, &err);
 *         return cli_finish(&a.cli, 0);
 *     }
 */
struct cli {
    const char *name;
    int json;
    int silent; /* another rank prints: this one prints nothing and exits with 0 on errors */
    int status; /* exit status of errors: 2; in horing-check 3 */
    const char *plugin; /* "HORING": errors are answers on stdout, "HORING UNKNOWN - ..." */
    const char *svg;    /* --svg: a file, "-" for standard output; NULL: not given */
    int force;          /* --svg may replace its file */
    const struct cli_command *command;
    int mode;          /* index in command->modes */
    char *const *word; /* [words] operands, without the verb */
    int words;
    /* Last value of each row's option, "" for a flag; NULL: not given */
    const char *given[CLI_ROWS_MAX];
    struct err err;
};

#define CLI_INIT(name_)                                                                        \
    {                                                                                          \
        .name = (name_), .status = 2                                                           \
    }

/* Parses the command line; on an error prints one line and exits with cli->status.  cli must be
   the first member of the arguments. */
void cli_parse(struct cli *cli, const struct cli_command *command, int argc, char **argv);
/* The value of an option, "" of a flag, NULL if it was not given. */
const char *cli_given(const struct cli *cli, const char *option);
/* Sets cli->err to a usage error; returns -1. */
int cli_usage(struct cli *cli, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * cli_svg_open sets *to to the destination of a drawing: standard output, or the file of --svg,
 * which appears when cli_svg_close is called with rc 0. cli_svg_close returns rc, or -1.
 */
int cli_svg_open(const struct cli *cli, struct io_out *file, FILE **to, struct err *err);
int cli_svg_close(struct io_out *file, int rc, struct err *err);

/* Prints the error as one line or one JSON object, and returns the exit status. */
int cli_fail(struct cli *cli, const struct err *err);
/* Flushes stdout; returns `status`, or cli->status if writing failed (full disk). */
int cli_finish(struct cli *cli, int status);
/* Whether a launcher (mpirun, srun) started this process as one of its ranks. */
int cli_launched(void);
/* Prints a message on stderr, one line, "name: ..."; nothing if silent. */
void cli_say(const struct cli *cli, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
