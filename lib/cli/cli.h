/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdio.h>

#include "base/err.h"
#include "base/io.h"
#include "cli/cli_option.h"

/*
 * Provides what every command has in common: one table of options (cli_option.h), --help,
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
    int silent; /* another rank speaks: this one prints nothing and ends with 0 on error */
    int status; /* of usage and other errors: 2; horing-check has 3 */
    const char *plugin; /* "HORING": an error is an answer on stdout, "HORING UNKNOWN - ..." */
    const char *svg; /* of --svg: a file, "-" for standard output, NULL where it is not given */
    int force;       /* --svg may replace its file */
    const struct cli_command *command;
    int mode;          /* index in command->modes */
    char *const *word; /* [words], operands, without the verb */
    int words;
    const char *given[CLI_ROWS_MAX]; /* the last value of each row, "" of a flag; or NULL */
    struct err err;
};

#define CLI_INIT(name_)                                                                        \
    {                                                                                          \
        .name = (name_), .status = 2                                                           \
    }

/* Parses; on an error prints one line and exits with cli->status.  cli begins the arguments. */
void cli_parse(struct cli *cli, const struct cli_command *command, int argc, char **argv);
/* The value of an option, "" of a flag, NULL if it was not given. */
const char *cli_given(const struct cli *cli, const char *option);
/* -1 with an error of its own. */
int cli_usage(struct cli *cli, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * Where a picture goes: *to becomes standard output, or the file of --svg, which appears when
 * cli_svg_close is given a 0; it returns what it was given, or -1.
 */
int cli_svg_open(const struct cli *cli, struct io_out *file, FILE **to, struct err *err);
int cli_svg_close(struct io_out *file, int rc, struct err *err);

/* Prints the error, one line or one JSON object, and returns the exit status. */
int cli_fail(struct cli *cli, const struct err *err);
/* Flushes stdout; a disk that is full turns any status into cli->status.  Returns the status.
 */
int cli_finish(struct cli *cli, int status);
/* Whether a launcher (mpirun, srun) started this process as one of its ranks. */
int cli_launched(void);
/* Talk on stderr, one line, "name: ..."; nothing when silent. */
void cli_say(const struct cli *cli, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
