/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <argp.h>

#include "base/err.h"
#include "base/io.h"

/*
 * What every command has in common: --help, -h, -?, --version, --json, one-line errors, exit
 * status, a checked stdout.  A command's arguments begin with a struct cli:
 *
 *     struct args { struct cli cli; const char *input; int64_t iters; };
 *     static const struct argp_option options[] = {
 *         {"input", 'i', "FILE", CLI_EVERYDAY, "Read the topology from FILE", 0},
 *         {"iters", 'n', "COUNT", 0, "Repeat COUNT times", 0},
 *         CLI_OPTIONS, {0}};
 *     static error_t parse(int key, char *arg, struct argp_state *state) {
 *         struct args *a = state->input;
 *         switch (key) {
 *         case 'i':
 *             a->input = arg;
 *             return 0;
 *         case 'n':
 *             return cli_check(&a->cli, num_i64(arg, 1, 99, &a->iters, &a->cli.err),
 *                              "--iters");
 *         default:
 *             return cli_option(&a->cli, key, arg, state);
 *         }
 *     }
 *     int main(int argc, char **argv) {
 *         struct args a = {.cli = CLI_INIT("paro-x")};
 *         struct err err;
 *         cli_parse(&a.cli, &argp, argc, argv);
 *         if (door(&a, stdout, &err))
 *             return cli_fail(&a.cli, &err);
 *         return cli_finish(&a.cli, 0);
 *     }
 */
struct cli {
    const char *name;
    int json;
    int silent;      /* another rank speaks: this one prints nothing and ends with 0 on error */
    int status;      /* of usage and other errors: 2; horing-check has 3 */
    const char *svg; /* of --svg: a file, "-" for standard output, NULL where it is not given */
    int force;       /* --force, where it is the one of CLI_OPTIONS_SVG */
    const char *plugin; /* "HORING": an error is an answer on stdout, "HORING UNKNOWN - ..." */
    struct err err;
};

enum { CLI_KEY_JSON = 0x4000, CLI_KEY_SVG = 0x4100, CLI_KEY_FORCE };
/*
 * In an option's flags, a bit that argp does not know: --help prints the options that have it,
 * --help=all prints every option.
 */
enum { CLI_EVERYDAY = 1 << 16 };

#define CLI_INIT(name_)                                                                        \
    {                                                                                          \
        .name = (name_), .status = 2                                                           \
    }
#define CLI_OPTIONS                                                                            \
    {"json", CLI_KEY_JSON, 0, 0, "Print JSON (errors too, on standard error)", 90},            \
        {"help",                                                                               \
         'h',                                                                                  \
         "all",                                                                                \
         CLI_EVERYDAY | OPTION_ARG_OPTIONAL,                                                   \
         "Print the everyday options, or all of them",                                         \
         91},                                                                                  \
        {0, '?', 0, CLI_EVERYDAY | OPTION_ALIAS, 0, 91},                                       \
    {                                                                                          \
        "version", 'V', 0, 0, "Print the version", 91                                          \
    }

/* The one option for pictures: what it draws is in `text`. */
#define CLI_OPTION_SVG(text, flags, group)                                                     \
    {                                                                                          \
        "svg", CLI_KEY_SVG, "FILE", OPTION_ARG_OPTIONAL | (flags), text, group                 \
    }
#define CLI_OPTIONS_SVG(text, flags, group)                                                    \
    CLI_OPTION_SVG(text, flags, group),                                                        \
    {                                                                                          \
        "force", CLI_KEY_FORCE, 0, 0, "Let --svg replace FILE", group                          \
    }

/* Parses; on an error prints one line and exits with cli->status.  `input` begins with cli. */
void cli_parse(struct cli *cli, const struct argp *argp, int argc, char **argv);
/* The common options; ARGP_ERR_UNKNOWN for the rest. */
error_t cli_option(struct cli *cli, int key, char *arg, struct argp_state *state);
/* 0, or EINVAL with "option: " put before the error that is already in cli->err. */
error_t cli_check(struct cli *cli, int rc, const char *option);
/* EINVAL where --force has no file to replace, or --json another answer to print. */
error_t cli_check_svg(struct cli *cli);
/*
 * Where a picture goes: *to becomes standard output, or the file of --svg, which appears when
 * cli_svg_close is given a 0; it returns what it was given, or -1.
 */
int cli_svg_open(const struct cli *cli, struct io_out *file, FILE **to, struct err *err);
int cli_svg_close(struct io_out *file, int rc, struct err *err);
/* EINVAL with an error of its own. */
error_t cli_usage(struct cli *cli, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

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
