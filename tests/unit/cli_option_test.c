/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests a table of options: every type, bound and rule, against what it should fill or say. */
#include "unit.h"

#include "cli/cli.h"

struct args {
    struct cli cli;
    int flag, more, size, choice, from;
    int64_t whole, count, bytes;
    double number, per_s, rate, half;
    const char *text, *optional, *item[2];
    struct cli_list list;
    char line[256], *words[32]; /* that were parsed */
};

static int parse_half(const char *text, double *out, struct err *why)
{
    if (strcmp(text, "half"))
        return err_set(why, ERR_INPUT, "'%s', expected half", text);
    *out = 0.5;
    return 0;
}

#define CLI_ARGS struct args
CLI_PARSER(parse_half)

enum { PLAIN, LIST, COPY, QUICK };

static const struct cli_mode modes[] = {[PLAIN] = {"a call", "", 0, 1, NULL, 0},
                                        [LIST] = {"--list", "--list", 0, 0, "text", 0},
                                        [COPY] = {"copy", "copy A B", 2, 2, "number", 1},
                                        [QUICK] = {"--choice quick", NULL, 0, 0, NULL, 0},
                                        {0}};

static const struct cli_option options[] = {
    {.text = "Of each type:"},
    {"flag", 'f', NULL, CLI_EVERYDAY, "A flag", CLI_FLAG(flag)},
    {"more", 'v', NULL, 0, "Repeated", CLI_MORE(more, 2)},
    {"text", 't', "TEXT", 0, "A text", CLI_TEXT(text)},
    {"optional", 0, "TEXT", OPTION_ARG_OPTIONAL, "Maybe", CLI_TEXT(optional), .absent = "none"},
    {"list", 0, NULL, 0, "A mode", CLI_NOTED},
    {"item", 0, "FILE", 0, "Repeated", CLI_LIST(list)},
    {"choice", 0, "HOW", 0, "A choice", CLI_CHOICE(choice, "slow|quick|both")},
    {"from", 0, "HOW", 0, "Numbered choice", CLI_CHOICE_FROM(from, -1, "auto|no|yes")},
    {"size", 'n', "N", 0, "An int", CLI_INT(size, 1, 9), .word = "auto", .word_value = -7},
    {"whole", 0, "N", 0, "Whole", CLI_WHOLE(whole, 0, INT64_MAX), .modes = 1 << PLAIN},
    {"count", 0, "N", 0, "Count", CLI_COUNT(count, 1, 1000000), .needs = "flag text"},
    {"bytes", 0, "N", 0, "Bytes", CLI_BYTES(bytes, 1, 1 << 20), .excludes = "choice=both flag"},
    {"number", 0, "N", 0, "Number", CLI_NUMBER(number, 0, 1), .modes = 1 << PLAIN | 1 << COPY},
    {"per-s", 0, "N", 0, "Per second", CLI_PER_S(per_s, 1, 1e15)},
    {"rate", 0, "N", 0, "Rate", CLI_RATE(rate, 1e3, 1e12)},
    {"half", 0, "WORD", 0, "Parsed", CLI_PARSED(parse_half, half)},
    {CLI_OPTION_SVG("Draw", 0)},
    {CLI_OPTION_SVG_FORCE},
    {0}};

static int check(void *args)
{
    struct args *a = args;

    return a->text && strcmp(a->text, "bad") == 0 ? cli_usage(&a->cli, "a bad text") : 0;
}

static const struct cli_command command = {options, modes, "Test.", check};

/* Parses the words of a line; NULL: it was taken, else what is wrong. */
static const char *parse(struct args *a, const char *line)
{
    int n = 1;

    *a = (struct args){.cli = CLI_INIT("test"), .words = {(char *)(uintptr_t) "test"}};
    a->list = (struct cli_list){.item = a->item, .most = 2};
    snprintf(a->line, sizeof a->line, "%s", line);
    for (char *w = strtok(a->line, " "); w; w = strtok(NULL, " "))
        a->words[n++] = w;
    return cli_option_parse(&a->cli, &command, n, a->words) ? a->cli.err.text : NULL;
}

TEST(fills_fields)
{
    struct args a;

    assert_null(parse(&a,
                      "-fvvv -t x --optional --item=1 --item 2 --choice=both --from auto -n9"
                      " --whole 9223372036854775807 --count 1e3 --number .5 --per-s 2K"
                      " --rate 1MB/s --half half word"));
    assert_int_equal(a.flag, 1);
    assert_int_equal(a.more, 2);
    assert_string_equal(a.text, "x");
    assert_string_equal(a.optional, "none");
    assert_int_equal(a.list.count, 2);
    assert_string_equal(a.item[1], "2");
    assert_int_equal(a.choice, 2);
    assert_int_equal(a.from, -1);
    assert_int_equal(a.size, 9);
    assert_true(a.whole == INT64_MAX && a.count == 1000);
    assert_true(a.number == 0.5 && a.per_s == 2000 && a.rate == 1e6 && a.half == 0.5);
    assert_string_equal(cli_given(&a.cli, "text"), "x");
    assert_string_equal(cli_given(&a.cli, "flag"), "");
    assert_null(cli_given(&a.cli, "bytes"));
    assert_int_equal(a.cli.words, 1);
    assert_string_equal(a.cli.word[0], "word");
    assert_null(parse(&a, "-n auto --bytes 64Ki --optional=y"));
    assert_int_equal(a.size, -7);
    assert_int_equal(a.bytes, 65536);
    assert_string_equal(a.optional, "y");
}

TEST(finds_modes)
{
    static const struct {
        const char *line;
        int mode, words;
    } lines[] = {{"", PLAIN, 0},
                 {"copy a b --number 1", COPY, 2},
                 {"a", PLAIN, 1},
                 {"-- --flag", PLAIN, 1},
                 {"--list -t x", LIST, 0},
                 {"--choice quick", QUICK, 0},
                 {"--choice slow", PLAIN, 0}};
    struct args a;

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        assert_null(parse(&a, lines[i].line));
        assert_int_equal(a.cli.mode, lines[i].mode);
        assert_int_equal(a.cli.words, lines[i].words);
    }
}

TEST(refuses)
{
    static const char *const lines[][2] = {
        {"--bogus", "unknown option '--bogus' (see --help)"},
        {"-fx", "unknown option '-fx' (see --help)"},
        {"--flag=1", "option '--flag' takes no value, found '1'"},
        {"-t", "option '-t' lacks its value, expected TEXT"},
        {"--item 1 --item 2 --item 3", "--item: '3' is one too many, expected at most 2"},
        {"--choice fast", "--choice: 'fast', expected slow, quick or both"},
        {"-n 10", "--size: '10', expected a whole number from 1 to 9, or auto"},
        {"--half 1", "--half: '1', expected half"},
        {"--rate 1B/s", "--rate: '1B/s', expected a rate from 1000 to 1e+12 B/s"},
        {"--count 1", "--count without --flag or --text, expected one of them"},
        {"--bytes 1 -f", "--bytes and --flag, expected one of them"},
        {"--bytes 1 --choice both", "--bytes and --choice both, expected one of them"},
        {"--force", "--force without --svg, expected both"},
        {"--force --svg", "--force and --svg without a file, expected one of them"},
        {"--svg --json", "--svg without a file and --json, expected one of them"},
        {"--list -t x --whole 1",
         "--whole is not an option of --list, expected it with a call"},
        {"copy a b --flag --number 1", "--flag is not an option of 'copy'"},
        {"--list", "missing --text, expected test --list"},
        {"copy a b", "missing --number, expected test copy A B"},
        {"copy a --number 1", "missing operand, expected test copy A B"},
        {"copy a b c --number 1", "unexpected argument 'c', expected test copy A B"},
        {"a b", "unexpected argument 'b' (see --help)"},
        {"-t bad", "a bad text"},
        {"--help=x", "--help: 'x', expected all"}};
    struct args a;

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        const char *wrong = parse(&a, lines[i][0]);
        assert_non_null(wrong);
        assert_string_equal(wrong, lines[i][1]);
    }
}
