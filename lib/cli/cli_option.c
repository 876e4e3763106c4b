/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Converts a table of options to fields of the arguments, help and error messages.  argp splits
 * the command line; its own messages, which take several lines, are not used.
 */
#include "cli/cli_option.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "cli/cli.h"

struct any_args {
    struct cli cli;
};
#define CLI_ARGS struct any_args

static const struct cli_option common[] = {
    {"json", 0, NULL, 0, "Print JSON (errors too, on standard error)", CLI_FLAG(cli.json)},
    {"help", 'h', "all", CLI_EVERYDAY | OPTION_ARG_OPTIONAL,
     "Print the everyday options, or all of them", CLI_NOTED},
    {NULL, '?', NULL, CLI_EVERYDAY | OPTION_ALIAS, NULL, CLI_NOTED},
    {"version", 'V', NULL, 0, "Print the version", CLI_NOTED},
    {"dump-options", 0, NULL, OPTION_HIDDEN, NULL, CLI_NOTED}};

enum {
    COMMON = sizeof common / sizeof *common,
    KEY = 0x100, /* key of row 0 */
    GROUP_JSON = 90,
    GROUP_HELP = 91,  /* below all others */
    EVERYDAY_MAX = 20 /* options that fit a screen of 24 lines */
};

/* The state of parsing a command line; rows: the command's, then the common ones. */
struct parser {
    struct cli *cli;
    const struct cli_command *command;
    int own, rows; /* rows of the command; all rows */
    struct argp_option shown[CLI_ROWS_MAX + 1];
};

static int own_rows(const struct cli_command *c)
{
    int n = 0;

    while (c->options[n].name || c->options[n].text)
        n++;
    assert(n + COMMON <= CLI_ROWS_MAX);
    return n;
}

static const struct cli_option *option_row_of(const struct cli_command *c, int own, int i)
{
    return i < own ? &c->options[i] : &common[i - own];
}

static const struct cli_option *row_at(const struct parser *p, int i)
{
    return option_row_of(p->command, p->own, i);
}

/* ---- names ---- */

/* Finds the row of an option name of n bytes, which must exist. */
static int find_row(const struct cli_command *c, const char *name, size_t n)
{
    int own = own_rows(c);

    for (int i = 0; i < own + COMMON; i++) {
        const char *found = option_row_of(c, own, i)->name;
        if (found && strncmp(found, name, n) == 0 && found[n] == 0)
            return i;
    }
    assert(!"an option of this name");
    abort();
}

const char *cli_given(const struct cli *cli, const char *option)
{
    return cli->given[find_row(cli->command, option, strlen(option))];
}

/* Whether the option in "name", "name=value" or "name value", n bytes, was given. */
static int is_given(const struct cli *cli, const char *word, size_t n)
{
    size_t name = strcspn(word, "= ");

    name = name < n ? name : n;
    const char *value = cli->given[find_row(cli->command, word, name)];
    return value && (name == n || (strlen(value) == n - name - 1 &&
                                   strncmp(value, word + name + 1, n - name - 1) == 0));
}

/* Copies the first name of a list that was given (wanted 1) or not given (0) to `word`. */
static int option_find_name(const struct cli *cli, const char *names, int wanted, char word[64])
{
    for (const char *s = names ? names : ""; *s;) {
        size_t n = strcspn(s, " ");
        if (is_given(cli, s, n) == wanted) {
            snprintf(word, 64, "%.*s", (int)n, s);
            return 1;
        }
        s += n + (s[n] == ' ');
    }
    return 0;
}

/* Formats a list with separators as "a, b or c". */
static void join_list(const char *list, char separator, const char *dashes, char text[512])
{
    const char by[2] = {separator, 0};
    size_t at = 0;

    *text = 0;
    for (const char *s = list; *s && at < 512;) {
        size_t n = strcspn(s, by);
        int last = !s[n];
        const char *before = s == list ? "" : last ? " or " : ", ";
        at += (size_t)snprintf(text + at, 512 - at, "%s%s%.*s", before, dashes, (int)n, s);
        s += n + !last;
    }
}

/* ---- modes ---- */

enum mode_kind { VERB, OPTION, PHRASE };

static enum mode_kind mode_kind(const struct cli_mode *m)
{
    return m->name[0] == '-' ? OPTION : strchr(m->name, ' ') ? PHRASE : VERB;
}

/* Lists the modes in `bits`, or only the verbs among them: "a, b or c". */
static void name_modes(const struct cli_mode *m, unsigned bits, int verbs, char text[512])
{
    char list[512] = "";
    size_t at = 0;

    for (int i = 0; m[i].name; i++)
        if ((bits >> i & 1) && (!verbs || mode_kind(&m[i]) == VERB) && at < sizeof list)
            at +=
                (size_t)snprintf(list + at, sizeof list - at, "%s%s", at ? "|" : "", m[i].name);
    join_list(list, '|', "", text);
}

static int choose_mode(struct cli *cli)
{
    const struct cli_mode *m = cli->command->modes;
    int phrase = -1;
    char verbs[512];

    for (int i = 0; m[i].name; i++) {
        enum mode_kind kind = mode_kind(&m[i]);
        if (kind == PHRASE)
            phrase = i;
        else if (kind == OPTION ? is_given(cli, m[i].name + 2, strlen(m[i].name + 2))
                                : cli->words && strcmp(cli->word[0], m[i].name) == 0) {
            cli->mode = i;
            cli->word += kind == VERB;
            cli->words -= kind == VERB;
            return 0;
        }
    }
    cli->mode = phrase;
    if (phrase >= 0)
        return 0;
    name_modes(m, ~0u, 1, verbs);
    return cli->words
               ? cli_usage(cli, "verb '%s', expected %s (see --help)", cli->word[0], verbs)
               : cli_usage(cli, "missing verb, expected %s (see --help)", verbs);
}

/* ---- checks of rows ---- */

/* The modes in which a row is allowed: the mode that it selects, those that it names, or
   all. */
static unsigned modes_of(const struct cli_mode *modes, const struct cli_option *o)
{
    unsigned all = 0;

    for (int i = 0; modes[i].name; i++) {
        if (mode_kind(&modes[i]) == OPTION && strcmp(modes[i].name + 2, o->name) == 0)
            return 1u << i;
        all |= modes[i].strict ? 0 : 1u << i;
    }
    return o->modes ? o->modes : all;
}

static int refuse_mode(struct cli *cli, const struct cli_option *o, unsigned bits)
{
    const struct cli_mode *modes = cli->command->modes, *m = &modes[cli->mode];
    const char *quote = mode_kind(m) == VERB ? "'" : "";
    char expected[512];

    if (!o->modes && mode_kind(m) == OPTION && (bits & (bits - 1)) == 0)
        return cli_usage(cli, "%s and --%s, expected one of them", m->name, o->name);
    name_modes(modes, bits, 0, expected);
    return cli_usage(cli, "--%s is not an option of %s%s%s%s%s", o->name, quote, m->name, quote,
                     o->modes ? ", expected it with " : "", o->modes ? expected : "");
}

static int option_check_row(struct cli *cli, const struct cli_option *o)
{
    unsigned bits = modes_of(cli->command->modes, o);
    char word[64], list[512];

    if (!(bits >> cli->mode & 1))
        return refuse_mode(cli, o, bits);
    if (option_find_name(cli, o->excludes, 1, word)) {
        char *value = strchr(word, '=');
        if (value)
            *value++ = ' ';
        int bare = value && strcmp(value, "-") == 0; /* --svg to standard output */
        return cli_usage(cli, "--%s and --%.*s%s, expected one of them", o->name,
                         bare ? (int)(value - word) - 1 : 64, word,
                         bare ? " without a file" : "");
    }
    if (!o->needs || option_find_name(cli, o->needs, 1, word))
        return 0;
    join_list(o->needs, ' ', "--", list);
    return cli_usage(cli, "--%s without %s, expected %s", o->name, list,
                     strchr(o->needs, ' ') ? "one of them" : "both");
}

static int check_operands(struct cli *cli)
{
    const struct cli_mode *m = &cli->command->modes[cli->mode];
    const char *usage = m->usage ? m->usage : "";
    const int bytes = (int)strcspn(usage, "\n"); /* of the first usage line */
    char word[64];

    if (cli->words > m->most)
        return bytes ? cli_usage(cli, "unexpected argument '%s', expected %s %.*s",
                                 cli->word[m->most], cli->name, bytes, usage)
                     : cli_usage(cli, "unexpected argument '%s' (see --help)",
                                 cli->word[m->most]);
    if (cli->words < m->least)
        return cli_usage(cli, "missing operand, expected %s %.*s", cli->name, bytes, usage);
    if (!option_find_name(cli, m->options, 0, word))
        return 0;
    return bytes
               ? cli_usage(cli, "missing --%s, expected %s %.*s", word, cli->name, bytes, usage)
               : cli_usage(cli, "missing --%s, expected it with %s", word, m->name);
}

static int option_check_all(struct parser *p)
{
    struct cli *cli = p->cli;

    if (choose_mode(cli))
        return -1;
    for (int i = 0; i < p->own; i++)
        if (cli->given[i] && option_check_row(cli, row_at(p, i)))
            return -1;
    if (cli->json && cli->svg && strcmp(cli->svg, "-") == 0)
        return cli_usage(cli, "--svg without a file and --json, expected one of them");
    if (check_operands(cli))
        return -1;
    return p->command->check ? p->command->check(cli) : 0;
}

/* ---- fields ---- */

static int find_choice(const struct cli_option *o, const char *text, int *out, struct err *err)
{
    char expected[512];
    int i = (int)o->least;

    for (const char *s = o->choices; *s; i++) {
        size_t n = strcspn(s, "|");
        if (strlen(text) == n && strncmp(s, text, n) == 0) {
            *out = i;
            return 0;
        }
        s += n + (s[n] != 0);
    }
    join_list(o->choices, '|', "", expected);
    return err_set(err, ERR_INPUT, "'%s', expected %s", text, expected);
}

static int fill_whole(const struct cli_option *o, const char *text, int64_t *out,
                      struct err *err)
{
    struct err why;

    if (o->word && strcmp(text, o->word) == 0) {
        *out = o->word_value;
        return 0;
    }
    if (num_i64(text, o->least, o->most, out, &why) == 0)
        return 0;
    return err_set(err, ERR_INPUT, "%s%s%s", why.text, o->word ? ", or " : "",
                   o->word ? o->word : "");
}

static int fill_field(const struct cli_option *o, const char *text, void *field,
                      struct err *err)
{
    struct cli_list *list = field; /* by the type */
    double *rate = field;
    int64_t whole = 0;

    switch (o->type) {
    case CLI_TYPE_NONE:
        return 0;
    case CLI_TYPE_FLAG:
        *(int *)field = 1;
        return 0;
    case CLI_TYPE_MORE:
        *(int *)field += *(int *)field < o->most;
        return 0;
    case CLI_TYPE_TEXT:
        *(const char **)field = text;
        return 0;
    case CLI_TYPE_LIST:
        if (list->count == list->most)
            return err_set(err, ERR_INPUT, "'%s' is one too many, expected at most %d", text,
                           list->most);
        list->item[list->count++] = text;
        return 0;
    case CLI_TYPE_CHOICE:
        return find_choice(o, text, field, err);
    case CLI_TYPE_INT:
        if (fill_whole(o, text, &whole, err))
            return -1;
        *(int *)field = (int)whole;
        return 0;
    case CLI_TYPE_WHOLE:
        return fill_whole(o, text, field, err);
    case CLI_TYPE_COUNT:
        return num_count(text, o->least, o->most, field, err);
    case CLI_TYPE_BYTES:
        return num_bytes(text, o->least, o->most, field, err);
    case CLI_TYPE_NUMBER:
        return num_f64(text, o->from, o->to, field, err);
    case CLI_TYPE_PER_S:
        return num_per_s(text, o->from, o->to, field, err);
    case CLI_TYPE_RATE:
        if (num_rate(text, rate, err))
            return -1;
        return *rate >= o->from && *rate <= o->to
                   ? 0
                   : err_set(err, ERR_INPUT, "'%s', expected a rate from %g to %g B/s", text,
                             o->from, o->to);
    case CLI_TYPE_PARSED:
        return o->parse(text, field, err);
    }
    abort();
}

/* ---- help ---- */

/* The option of this name, else the first whose name begins with it; p->rows: none. */
static const struct argp_option *find_long(const struct parser *p, const char *name, size_t n)
{
    const struct argp_option *begins = &p->shown[p->rows];

    for (int i = p->rows - 1; i >= 0; i--) {
        const struct argp_option *o = &p->shown[i];
        if (!o->name || strncmp(o->name, name, n))
            continue;
        if (!o->name[n])
            return o;
        begins = o;
    }
    return begins;
}

/* argp does not report the word that it rejected, so this walks through the words again. */
static int find_culprit(const struct parser *p, int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
        const char *word = argv[i], *value = NULL;
        const struct argp_option *o = p->shown;
        if (word[0] != '-' || word[1] == 0)
            continue;
        if (word[1] == '-') {
            size_t n = strcspn(word + 2, "=");
            o = find_long(p, word + 2, n);
            value = word[2 + n] ? word + 3 + n : NULL;
            if (o->name && value && !o->arg)
                return cli_usage(p->cli, "option '--%s' takes no value, found '%s'", o->name,
                                 value);
        } else {
            for (const char *letter = word + 1; *letter; letter++) {
                for (o = p->shown; o < &p->shown[p->rows] && o->key != *letter;)
                    o++;
                value = letter[1] ? letter + 1 : NULL;
                if (!o->key || o->arg)
                    break;
            }
        }
        if (o == &p->shown[p->rows])
            return cli_usage(p->cli, "unknown option '%s' (see --help)", word);
        if (o->arg && !value && !(o->flags & OPTION_ARG_OPTIONAL) && ++i == argc)
            return cli_usage(p->cli, "option '%s' lacks its value, expected %s", word, o->arg);
    }
    return cli_usage(p->cli, "an option is unknown or ambiguous (see --help)");
}

static int print_help(struct parser *p, const char *which)
{
    const char *name = p->cli->name, *doc = p->command->doc;
    char text[2048], usage[1024] = "";
    struct argp argp = {.options = p->shown, .args_doc = usage, .doc = doc};

    if (which && strcmp(which, "all"))
        return cli_usage(p->cli, "--help: '%s', expected all", which);
    for (const struct cli_mode *m = p->command->modes; m->name; m++)
        if (m->usage) {
            size_t at = strlen(usage);
            snprintf(usage + at, sizeof usage - at, "%s%s", m == p->command->modes ? "" : "\n",
                     m->usage);
        }
    /* Otherwise argp adds a note of three lines about values of short options. */
    setenv("ARGP_HELP_FMT", "no-dup-args-note", 0);
    if (!which) {
        /* argp sorts by group: without groups and headings the everyday options form one
           list. */
        int n = 0;

        for (int i = 0; i < p->rows; i++)
            if (p->shown[i].flags & CLI_EVERYDAY) {
                p->shown[n] = p->shown[i];
                p->shown[n++].group = 0;
            }
        assert(n <= EVERYDAY_MAX);
        p->shown[n] = (struct argp_option){0};
        snprintf(text, sizeof text,
                 "%s%s%s --help=all lists every option; man %s explains them.", doc,
                 strchr(doc, '\v') ? "\n" : "\v", name, name);
        argp.doc = text;
    }
    argp_help(&argp, stdout, ARGP_HELP_STD_HELP, (char *)(uintptr_t)name);
    exit(0); /* runs the check of stdout */
}

/*
 * Prints options for completions and tests, separated by tabs: "verb NAME", and "option LETTER
 * NAME ARG TEXT"; ARG begins with ? if it is optional.
 */
static void dump_options(const struct parser *p)
{
    char word[64];

    for (const struct cli_mode *m = p->command->modes; m->name; m++) {
        option_find_name(p->cli, m->options, -1, word); /* asserts that they exist */
        if (mode_kind(m) == VERB)
            printf("verb\t%s\n", m->name);
    }
    for (int i = 0; i < p->rows; i++) {
        const struct cli_option *o = row_at(p, i);
        option_find_name(p->cli, o->needs, -1, word);
        option_find_name(p->cli, o->excludes, -1, word);
        if (!o->name || (o->flags & OPTION_HIDDEN))
            continue;
        const char letter[2] = {(char)o->letter, 0};
        printf("option\t%s\t%s\t%s%s\t%s\n", letter, o->name,
               o->flags & OPTION_ARG_OPTIONAL ? "?" : "",
               o->choices ? o->choices
               : o->arg   ? o->arg
                          : "",
               o->text);
    }
    exit(0);
}

/* ---- argp ---- */

static error_t take_option(struct parser *p, int row, const char *text)
{
    const struct cli_option *o = row_at(p, row);
    struct cli *cli = p->cli;

    if (o->letter == 'h' || o->letter == '?')
        return print_help(p, text) ? EINVAL : 0;
    if (o->letter == 'V') {
        printf("%s %s\n", cli->name, PARO_VERSION);
        exit(0);
    }
    if (strcmp(o->name, "dump-options") == 0)
        dump_options(p);
    text = text ? text : o->absent;
    cli->given[row] = text ? text : "";
    if (fill_field(o, text, (char *)cli + o->at, &cli->err) == 0)
        return 0;
    err_prefix(&cli->err, "--%s: ", o->name);
    return EINVAL;
}

static error_t parse_key(int key, char *arg, struct argp_state *state)
{
    struct parser *p = state->input;

    switch (key) {
    case ARGP_KEY_ARGS:
        p->cli->word = state->argv + state->next;
        p->cli->words = state->argc - state->next;
        state->next = state->argc;
        return 0;
    case ARGP_KEY_END:
        return option_check_all(p) ? EINVAL : 0;
    default:
        for (int i = 0; i < p->rows && key != ARGP_KEY_ARG; i++) /* 0 is the key of headings */
            if (p->shown[i].key == key)
                return take_option(p, i, arg);
        return ARGP_ERR_UNKNOWN;
    }
}

int cli_option_parse(struct cli *cli, const struct cli_command *command, int argc, char **argv)
{
    struct parser p = {.cli = cli, .command = command, .own = own_rows(command)};

    cli->command = command;
    p.rows = p.own + COMMON;
    for (int i = 0; i < p.rows; i++) {
        const struct cli_option *o = row_at(&p, i);
        p.shown[i] = (struct argp_option){
            .name = o->name,
            .key = o->letter || !o->name ? o->letter : KEY + i,
            .arg = o->arg,
            .flags = o->flags,
            .doc = o->text,
            .group = i < p.own    ? 0
                     : i == p.own ? GROUP_JSON
                                  : GROUP_HELP,
        };
    }
    const struct argp argp = {.options = p.shown, .parser = parse_key};
    /* Without argp's own help: with ARGP_NO_ERRS it prints nothing. */
    error_t rc = argp_parse(&argp, argc, argv, ARGP_NO_ERRS | ARGP_NO_HELP, NULL, &p);
    if (rc && cli->err.code == ERR_NONE)
        return rc == ENOMEM ? cli_usage(cli, "cannot allocate memory for the options")
                            : find_culprit(&p, argc, argv);
    return rc ? -1 : 0;
}
