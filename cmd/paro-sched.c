/* SPDX-License-Identifier: BSD-3-Clause */
/* paro-sched: prints the rows of a collective, and proves rows right. */
#include <inttypes.h>
#include <string.h>

#include "base/jout.h"
#include "base/num.h"
#include "cli/cli.h"
#include "pick/pick.h"
#include "pick/pick_table.h"

enum {
    KEY_CHUNKS = 0x100,
    KEY_OP,
    KEY_TABLE,
    KEY_TUNING,
    FACTOR_MAX = 1 << 20,
    WORDS_MAX = 4,
    CHUNKS_MAX = 1 << 14
};

struct args {
    struct cli cli;
    const char *word[WORDS_MAX];
    int words;
    int64_t chunks;
    int has_chunks;
    struct pick_request pick;
    const char *of_pick; /* an option of pick's that was given */
};

static const struct argp_option options[] = {
    {"chunks", KEY_CHUNKS, "C", 0, "With gen: sub-chunks of each part (default 1)", 0},
    {"input", 'i', "TOPO", 0, "With pick: the fabric, a file, - or synth:SPEC", 1},
    {"op", KEY_OP, "OPS", 0, "With pick: these operations, with commas between", 1},
    {"min", 'b', "BYTES", 0, "With pick: smallest size (default 1Ki)", 1},
    {"max", 'e', "BYTES", 0, "With pick: largest size (default 1Gi)", 1},
    {"factor", 'f', "F", 0, "With pick: each size is F times the one before (default 2)", 1},
    {"table", KEY_TABLE, 0, 0, "With pick: print a tuning table (YAML)", 1},
    {"tuning", KEY_TUNING, "FILE", 0, "With pick: read and print a tuning table", 1},
    CLI_OPTIONS,
    {0}};

/* Options of the verb pick; ARGP_ERR_UNKNOWN for the rest. */
static error_t parse_pick(struct args *a, int key, char *arg)
{
    struct pick_request *p = &a->pick;
    struct err *err = &a->cli.err;

    switch (key) {
    case 'i':
        a->of_pick = "--input";
        p->topo = arg;
        return 0;
    case KEY_OP:
        a->of_pick = "--op";
        p->ops = arg;
        return 0;
    case 'b':
        a->of_pick = "--min";
        return cli_check(&a->cli, num_bytes(arg, 1, PICK_BYTES_MAX, &p->min_bytes, err),
                         "--min");
    case 'e':
        a->of_pick = "--max";
        return cli_check(&a->cli, num_bytes(arg, 1, PICK_BYTES_MAX, &p->max_bytes, err),
                         "--max");
    case 'f':
        a->of_pick = "--factor";
        return cli_check(&a->cli, num_i64(arg, 2, FACTOR_MAX, &p->factor, err), "--factor");
    case KEY_TABLE:
        a->of_pick = "--table";
        p->table = 1;
        return 0;
    case KEY_TUNING:
        a->of_pick = "--tuning";
        p->tuning = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;

    switch (key) {
    case KEY_CHUNKS:
        a->has_chunks = 1;
        return cli_check(&a->cli, num_i64(arg, 1, CHUNKS_MAX, &a->chunks, &a->cli.err),
                         "--chunks");
    case ARGP_KEY_ARG:
        if (a->words == WORDS_MAX)
            return cli_option(&a->cli, key, arg, state);
        a->word[a->words++] = arg;
        return 0;
    default:
        break;
    }
    error_t rc = parse_pick(a, key, arg);
    return rc == ARGP_ERR_UNKNOWN ? cli_option(&a->cli, key, arg, state) : rc;
}

static const struct argp argp = {
    options,
    parse,
    "gen OP ALGO SHAPE\nverify [FILE]\nls\npick -i TOPO\npick --tuning FILE",
    "Print the rows of a collective (gen), prove the rows of a file or of standard input right"
    " (verify), list what there is (ls), or choose for a fabric by simulated time (pick)."
    "\vOP is all-gather, reduce-scatter or all-reduce; ALGO is ring, two-level or ho-ring;"
    " SHAPE is the groups, 4x8 or [8,8,7].",
    NULL,
    NULL,
    NULL};

static int gen(const struct args *a, struct err *err)
{
    enum schedule_algo algo = SCHEDULE_AUTO;
    struct schedule s = {0};
    struct groups groups = {0};
    unsigned phases = 0;

    if (a->words != 4)
        return err_set(err, ERR_INPUT, "gen with %d words, expected OP ALGO SHAPE",
                       a->words - 1);
    if (schedule_phases_parse(a->word[1], &phases, err) ||
        schedule_algo_parse(a->word[2], &algo, err))
        return -1;
    if (algo == SCHEDULE_AUTO)
        return err_set(err, ERR_INPUT, "algorithm 'auto', expected ring, two-level or ho-ring");
    if (groups_parse(&groups, a->word[3], err))
        return -1;
    int rc = pick_schedule(phases, algo, &groups, (int)a->chunks, &s, err);
    if (rc == 0)
        (a->cli.json ? schedule_print_json : schedule_print)(&s, stdout);
    schedule_release(&s);
    groups_release(&groups);
    return rc;
}

static void say_proven(const struct schedule *s, const char *op, const char *shape,
                       const struct pick_traffic *t)
{
    printf("proven: %s %s %s: %d ranks, %d chunks, %d steps, %" PRId64 " rows\n", op,
           schedule_algo_name(s->algo), shape, s->groups.ranks, s->chunks, s->steps, s->rows);
    printf("slow port: %.6f of M out, %.6f in\n", t->slow_out, t->slow_in);
    printf("inside: %.6f of M sent by the busiest rank\n", t->fast_rank);
    if (!t->by_layout)
        printf("(its segments are not those of the layouts: chunks were taken as equal)\n");
}

static void say_json(const struct schedule *s, const char *op, const char *shape,
                     const struct pick_traffic *t, const struct err *wrong)
{
    struct jout j = {.file = stdout, .pretty = 1};

    jout_open(&j, NULL, '{');
    jout_text(&j, "schema", "paro.sched.verify/1");
    jout_bool(&j, "proven", !wrong);
    jout_text(&j, "wrong", wrong ? wrong->text : NULL);
    jout_text(&j, "op", op);
    jout_text(&j, "algo", schedule_algo_name(s->algo));
    jout_text(&j, "groups", shape);
    jout_int(&j, "ranks", s->groups.ranks);
    jout_int(&j, "chunks", s->chunks);
    jout_int(&j, "steps", s->steps);
    jout_int(&j, "rows", s->rows);
    if (!wrong) {
        jout_num(&j, "slow_out_fraction", t->slow_out);
        jout_num(&j, "slow_in_fraction", t->slow_in);
        jout_num(&j, "fast_rank_fraction", t->fast_rank);
        jout_bool(&j, "cut_by_layout", t->by_layout);
    }
    jout_close(&j, '}');
}

/* 0 proven, 1 wrong (said), -1 could not. */
static int verify(const struct args *a, struct err *err)
{
    struct schedule s = {0};
    struct pick_traffic traffic = {0};
    char shape[256];

    if (a->words > 2)
        return err_set(err, ERR_INPUT, "unexpected argument '%s' after verify and one file",
                       a->word[2]);
    if (schedule_read(&s, a->words == 2 ? a->word[1] : "-", err))
        return -1;
    const char *op = schedule_phases_name(s.phases);
    op = op ? op : "partial move";
    groups_print(&s.groups, shape, sizeof shape);
    int wrong = schedule_verify(&s, err) != 0;
    if (!wrong)
        pick_traffic(&s, &traffic);
    if (a->cli.json)
        say_json(&s, op, shape, &traffic, wrong ? err : NULL);
    else if (wrong)
        printf("wrong: %s\n", err->text);
    else
        say_proven(&s, op, shape, &traffic);
    schedule_release(&s);
    return wrong;
}

static const char *const ops[] = {"all-gather", "reduce-scatter", "all-reduce"};
static const struct {
    const char *name, *text;
} algos[] = {{"ring", "one flat ring over all ranks, group after group"},
             {"two-level", "across groups and inside them, one after the other"},
             {"ho-ring", "across groups and inside them at the same time (HO-Ring)"}};

static int ls(const struct args *a, struct err *err)
{
    struct jout j = {.file = stdout, .pretty = 1};

    if (a->words > 1)
        return err_set(err, ERR_INPUT, "unexpected argument '%s' after ls", a->word[1]);
    if (!a->cli.json) {
        for (size_t i = 0; i < 3; i++)
            printf("op    %s\n", ops[i]);
        for (size_t i = 0; i < 3; i++)
            printf("algo  %-10s %s\n", algos[i].name, algos[i].text);
        return 0;
    }
    jout_open(&j, NULL, '{');
    jout_text(&j, "schema", "paro.sched.list/1");
    jout_open(&j, "ops", '[');
    for (size_t i = 0; i < 3; i++)
        jout_text(&j, NULL, ops[i]);
    jout_close(&j, ']');
    jout_open(&j, "algos", '[');
    for (size_t i = 0; i < 3; i++)
        jout_text(&j, NULL, algos[i].name);
    jout_close(&j, ']');
    jout_close(&j, '}');
    return 0;
}

static int pick(const struct args *a, struct err *err)
{
    struct pick_request r = a->pick;

    r.json = a->cli.json;
    if (a->words > 1)
        return err_set(err, ERR_INPUT, "unexpected argument '%s' after pick", a->word[1]);
    if (!r.topo == !r.tuning)
        return err_set(err, ERR_INPUT, "pick with %s, expected --input or --tuning",
                       r.topo ? "both --input and --tuning" : "neither a fabric nor a table");
    if (r.tuning && (r.ops || r.min_bytes || r.max_bytes || r.factor))
        return err_set(err, ERR_INPUT,
                       "--tuning with --op, --min, --max or --factor, expected"
                       " the table's own");
    return pick_report(&r, stdout, err);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(const struct args *, struct err *);
    } verbs[] = {{"gen", gen}, {"verify", verify}, {"ls", ls}, {"pick", pick}};
    struct args a = {.cli = CLI_INIT("paro-sched"), .chunks = 1};
    struct err err = {0};
    int rc = -1;

    cli_parse(&a.cli, &argp, argc, argv);
    const char *verb = a.words ? a.word[0] : "";
    err_set(&err, ERR_INPUT, "verb '%s', expected gen, verify, ls or pick (see --help)", verb);
    if (a.has_chunks && strcmp(verb, "gen")) {
        err_set(&err, ERR_INPUT, "--chunks with verb '%s', expected it with gen", verb);
        return cli_fail(&a.cli, &err);
    }
    if (a.of_pick && strcmp(verb, "pick")) {
        err_set(&err, ERR_INPUT, "%s with verb '%s', expected it with pick", a.of_pick, verb);
        return cli_fail(&a.cli, &err);
    }
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (strcmp(verb, verbs[i].name) == 0)
            rc = verbs[i].run(&a, &err);
    return rc < 0 ? cli_fail(&a.cli, &err) : cli_finish(&a.cli, rc);
}
