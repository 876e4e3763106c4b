/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CLI_CLI_OPTION_H
#define CLI_CLI_OPTION_H

#include <argp.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/*
 * Describes the options of a command, one row each.  cli_parse sets the fields of the
 * arguments, checks bounds and choices, and rejects options that the row's modes, needs and
 * excludes do not allow.  --help, --help=all, the completions and the check of the man page use
 * the same rows.
 */
enum cli_type {
    CLI_TYPE_NONE, /* sets no field: use cli_given */
    CLI_TYPE_FLAG,
    CLI_TYPE_MORE, /* number of repetitions */
    CLI_TYPE_TEXT,
    CLI_TYPE_LIST,
    CLI_TYPE_CHOICE, /* index of a choice, plus `least` */
    CLI_TYPE_INT,
    CLI_TYPE_WHOLE,
    CLI_TYPE_COUNT,
    CLI_TYPE_BYTES,
    CLI_TYPE_NUMBER,
    CLI_TYPE_PER_S,
    CLI_TYPE_RATE,
    CLI_TYPE_PARSED
};

struct cli_option {
    const char *name; /* NULL: `text` is a heading for the following rows */
    int letter;       /* or 0 */
    const char *arg;  /* name of the value; NULL: a flag */
    int flags;        /* CLI_EVERYDAY, OPTION_ARG_OPTIONAL, OPTION_HIDDEN */
    const char *text;
    enum cli_type type;
    size_t at;           /* offset of the field in the arguments */
    int64_t least, most; /* bounds of whole numbers */
    double from, to;     /* bounds of other numbers */
    const char *choices; /* "auto|always|never" */
    const char *word;    /* allowed instead of a whole number, such as "auto", with value: */
    int64_t word_value;
    int (*parse)(const char *text, void *field, struct err *err);
    const char *absent; /* value if the option is given without its optional value */
    unsigned modes;     /* bits 1 << mode; 0: all modes that are not strict */
    /* Names separated by spaces: requires at least one of `needs`, and none of `excludes`.
       NAME=VALUE means the option with this value only. */
    const char *needs, *excludes;
};

/* Shown by --help; other options by --help=all.  A bit unused by argp. */
enum { CLI_EVERYDAY = 1 << 16 };

/*
 * The field of CLI_ARGS (the type of the command's arguments) that a row sets.  A field whose
 * type does not match the option causes a compiler warning.
 */
#define CLI_AT(type_, field)                                                                   \
    .at = offsetof(CLI_ARGS, field) + 0 * sizeof((type_ *)0 == &((CLI_ARGS *)0)->field)
#define CLI_NOTED           .type = CLI_TYPE_NONE
#define CLI_FLAG(field)     .type = CLI_TYPE_FLAG, CLI_AT(int, field)
#define CLI_MORE(field, hi) .type = CLI_TYPE_MORE, CLI_AT(int, field), .most = (hi)
#define CLI_TEXT(field)     .type = CLI_TYPE_TEXT, CLI_AT(const char *, field)
#define CLI_LIST(field)     .type = CLI_TYPE_LIST, CLI_AT(struct cli_list, field)
/* For an int or an enum. */
#define CLI_CHOICE(field, choices_) CLI_CHOICE_FROM(field, 0, choices_)
#define CLI_CHOICE_FROM(field, first, choices_)                                                \
    .type = CLI_TYPE_CHOICE, .choices = (choices_), .least = (first),                          \
    .at = offsetof(CLI_ARGS, field) +                                                          \
          0 * sizeof(char[sizeof((CLI_ARGS *)0)->field == sizeof(int) ? 1 : -1])
#define CLI_BOUNDED(kind, type_, field, lo, hi)                                                \
    .type = CLI_TYPE_##kind, CLI_AT(type_, field), .least = (lo), .most = (hi)
#define CLI_INT(field, lo, hi)   CLI_BOUNDED(INT, int, field, lo, hi)
#define CLI_WHOLE(field, lo, hi) CLI_BOUNDED(WHOLE, int64_t, field, lo, hi)
#define CLI_COUNT(field, lo, hi) CLI_BOUNDED(COUNT, int64_t, field, lo, hi) /* 80e9, 7B */
#define CLI_BYTES(field, lo, hi) CLI_BOUNDED(BYTES, int64_t, field, lo, hi) /* 64Mi, 80GB */
#define CLI_REAL(kind, field, lo, hi)                                                          \
    .type = CLI_TYPE_##kind, CLI_AT(double, field), .from = (lo), .to = (hi)
#define CLI_NUMBER(field, lo, hi) CLI_REAL(NUMBER, field, lo, hi)
#define CLI_PER_S(field, lo, hi)  CLI_REAL(PER_S, field, lo, hi) /* 400T */
#define CLI_RATE(field, lo, hi)   CLI_REAL(RATE, field, lo, hi)  /* 25GB/s */
/* For values with a parser f(text, &field, err): CLI_PARSER(f) once, and then: */
#define CLI_PARSED(f, field)                                                                   \
    .type = CLI_TYPE_PARSED, .at = offsetof(CLI_ARGS, field), .parse = bind_##f
#define CLI_PARSER(f)                                                                          \
    static int bind_##f(const char *text, void *field, struct err *why)                        \
    {                                                                                          \
        return f(text, field, why);                                                            \
    }

struct cli_list {      /* values of an option that may be repeated */
    const char **item; /* [most], owned by the command */
    int most, count;
};

/* The common option for drawings; text_ says what it draws. */
#define CLI_OPTION_SVG(text_, flags_)                                                          \
    "svg", 0, "FILE", OPTION_ARG_OPTIONAL | (flags_), text_, CLI_TEXT(cli.svg), .absent = "-"
#define CLI_OPTION_SVG_FORCE                                                                   \
    "force", 0, NULL, 0, "Let --svg replace FILE", CLI_FLAG(cli.force), .excludes = "svg=-",   \
                                                                        .needs = "svg"

/*
 * A mode of a command.  The name is a verb, which is the first operand ("gen"); or an option
 * ("--list", "--level quick"); or a phrase ("a run"; at most one), used if neither is given.
 * The first matching verb or option selects the mode.  An option without value that names a
 * mode is only allowed in that mode.
 */
struct cli_mode {
    const char *name;
    const char *usage;   /* text after the command's name; NULL: not shown */
    int least, most;     /* number of operands after the verb; or CLI_MANY */
    const char *options; /* names of options, all of which are required */
    int strict;          /* only rows that name this mode are allowed */
};

enum { CLI_MANY = INT32_MAX, CLI_ROWS_MAX = 96 };

struct cli_command {
    /* Ends with a row of zeros; --json, --help and --version are added */
    const struct cli_option *options;
    const struct cli_mode *modes; /* ends with a row of zeros */
    const char *doc;              /* the text after \v is shown below the options */
    int (*check)(void *args);     /* further checks: returns 0, or cli_usage; or NULL */
};

/* Used by cli_parse.  struct cli is the first member of CLI_ARGS, so offsets are relative to
   it.  Returns -1 with cli->err. */
struct cli;
int cli_option_parse(struct cli *cli, const struct cli_command *command, int argc, char **argv);

#endif
