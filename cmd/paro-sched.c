/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Prints the rows of a collective, verifies rows, times them on a fabric, and draws the result.
 */
#include <inttypes.h>
#include <string.h>

#include "value/value_json_out.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "pick/pick.h"
#include "pick/pick_simulate.h"
#include "pick/pick_table.h"
#include "plan/plan_rows.h"

enum { CHUNKS_MAX = 1 << 14, FACTOR_MAX = 1 << 20 };

struct args {
    struct cli cli;
    int chunks, root;
    const char *topo;
    int64_t bytes; /* 0: not given */
    struct pick_request pick;
};

enum { GEN, VERIFY, SIMULATE, DRAW, LS, PICK };
enum {
    SCHEDULES = 1 << GEN | 1 << SIMULATE | 1 << DRAW,
    FABRIC = 1 << SIMULATE | 1 << DRAW | 1 << PICK
};

static const struct cli_mode modes[] = {
    [GEN] = {"gen", "gen OP ALGO SHAPE", 3, 3, NULL, 0},
    [VERIFY] = {"verify", "verify [FILE]", 0, 1, NULL, 0},
    [SIMULATE] = {"simulate", "simulate -i TOPO [FILE | OP ALGO]", 0, 2, "input", 0},
    [DRAW] = {"draw", "draw -i TOPO [FILE | OP ALGO]", 0, 2, "input", 0},
    [LS] = {"ls", "ls", 0, 0, NULL, 0},
    [PICK] = {"pick", "pick -i TOPO\npick --tuning FILE", 0, 0, NULL, 0},
    {0}};

#define CLI_ARGS struct args
static const struct cli_option options[] = {
    {.text = "Common options:"},
    {"input", 'i', "TOPO", CLI_EVERYDAY,
     "simulate, draw, pick: read the fabric from a file, - or synth:SPEC", CLI_TEXT(topo),
     .modes = FABRIC},
    {"bytes", 'b', "BYTES", CLI_EVERYDAY,
     "simulate, draw: size of the vector (default: 64Mi); pick: smallest size (default: 1Ki)",
     CLI_BYTES(bytes, 1, PICK_SIMULATE_BYTES_MAX), .modes = FABRIC, .excludes = "tuning"},
    {"chunks", 0, "C", CLI_EVERYDAY,
     "Divide each part of the vector into C sub-chunks: faster for large vectors (default: 1)",
     CLI_INT(chunks, 1, CHUNKS_MAX), .modes = SCHEDULES},
    {CLI_OPTION_SVG("simulate, draw: draw a timeline as SVG to FILE or standard output", 0),
     .modes = 1 << SIMULATE | 1 << DRAW, .excludes = "json"},
    {CLI_OPTION_SVG_FORCE},
    {"root", 0, "R", 0, "gen, simulate, draw: broadcast from rank R (default: 0)",
     CLI_INT(root, 0, GROUPS_RANKS_MAX - 1), .modes = SCHEDULES},
    {.text = "Options of pick:"},
    {"op", 0, "OPS", 0,
     "Consider only these operations, a comma-separated list (default: all that ls prints)",
     CLI_TEXT(pick.ops), .modes = 1 << PICK, .excludes = "tuning"},
    {"max", 'e', "BYTES", CLI_EVERYDAY, "pick: largest size (default: 1Gi)",
     CLI_BYTES(pick.max_bytes, 1, PICK_BYTES_MAX), .modes = 1 << PICK, .excludes = "tuning"},
    {"factor", 'f', "F", 0, "Multiply the size by F each time (default: 2)",
     CLI_WHOLE(pick.factor, 2, FACTOR_MAX), .modes = 1 << PICK, .excludes = "tuning"},
    {"table", 0, NULL, 0, "Print a tuning table (YAML) for paro-bench and paro-train",
     CLI_FLAG(pick.table), .modes = 1 << PICK},
    {"tuning", 0, "FILE", 0, "Read this tuning table instead of simulating",
     CLI_TEXT(pick.tuning), .modes = 1 << PICK, .excludes = "input"},
    {0}};

/* Checks the operation, which is the operand of some verbs. */
static int check(void *args)
{
    struct args *a = args;
    struct cli *cli = &a->cli;
    int generates = cli->mode == GEN || cli->words == 2;
    const char *own = cli_given(cli, "chunks") ? "--chunks" : "--root",
               *root = cli_given(cli, "root");

    if (cli->mode == PICK && !a->topo && !a->pick.tuning)
        return cli_usage(cli, "pick without a fabric or a table, expected --input or --tuning");
    if (!generates && (root || cli_given(cli, "chunks")))
        return cli_usage(cli, "%s with a schedule, which states its own, expected OP ALGO",
                         own);
    if (root && strcmp(cli->word[0], "broadcast"))
        return cli_usage(cli, "--root with %s, expected it with broadcast", cli->word[0]);
    return 0;
}

static const struct cli_command command = {
    options, modes,
    "Print the schedule of a collective (gen), prove a schedule correct (verify), simulate how"
    " long it takes on a fabric (simulate), draw that as a timeline in SVG (draw), list the"
    " operations and algorithms (ls), or find the fastest algorithm for each size on a fabric"
    " (pick)."
    "\vOP and ALGO are names that ls prints.  SHAPE gives the groups, as 4x8 or [8,8,7], or"
    " blocks of groups, outermost first: 2x4x8, 2x[8,8,7].",
    check};

static int gen(const struct args *a, struct err *err)
{
    struct schedule_spec how = {.root = a->root, .subchunks = a->chunks};
    struct schedule s = {0};
    struct topo topo = {0};

    if (pick_parse(a->cli.word[0], a->cli.word[1], &how.phases, &how.algo, err) ||
        topo_parse_shape(&topo, a->cli.word[2], err))
        return -1;
    int rc = pick_schedule_on(&how, &topo, "schedule", PICK_ROWS_MAX, &s, err);
    if (rc == 0)
        (a->cli.json ? schedule_print_json : schedule_print)(&s, stdout);
    schedule_release(&s);
    topo_release(&topo);
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
        printf("(segments differ from those of the layouts: chunks are assumed equal)\n");
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

/* 0: proven, 1: wrong (printed), -1: error. */
static int verify(const struct args *a, struct err *err)
{
    const char *name = a->cli.words ? a->cli.word[0] : "-";
    struct schedule s = {0};
    struct pick_traffic traffic = {0};
    char shape[256], *text = NULL;
    int64_t bytes = 0;

    if (io_read_text(name, SCHEDULE_TEXT_MAX, &text, &bytes, err))
        return -1;
    name = strcmp(name, "-") ? name : "stdin";
    if (plan_rows_are(text)) {
        int step = plan_steps_verify(name, text, bytes, a->cli.json, stdout, err);
        mem_free(text);
        return step;
    }
    int rc = schedule_parse(&s, text, bytes, name, err);
    mem_free(text);
    if (rc)
        return -1;
    const char *op = schedule_phases_name(s.phases);
    op = op ? op : "partial collective";
    groups_print(&s.groups, shape, sizeof shape);
    int wrong = schedule_verify(&s, err) != 0;
    if (wrong && err->code != ERR_MISMATCH) {
        schedule_release(&s);
        return -1;
    }
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

/* Draws a schedule, or the rows of a step. */
static int draw_any(const struct args *a, const struct pick_simulate *query, FILE *out,
                    struct err *err)
{
    struct pick_simulate read = *query;
    int rc;

    if (!query->file || (strcmp(query->file, "-") == 0 && strcmp(query->topo, "-") == 0))
        return pick_draw(query, out, err);
    if (io_read_text(query->file, SCHEDULE_TEXT_MAX, &read.text, &read.text_bytes, err))
        return -1;
    read.file = strcmp(query->file, "-") ? query->file : "stdin";
    if (!plan_rows_are(read.text))
        rc = pick_draw(&read, out, err);
    else if (a->bytes)
        rc = err_set(err, ERR_INPUT,
                     "--bytes with the rows of a step, which state their own, expected none");
    else
        rc = plan_steps_draw(read.file, read.text, read.text_bytes, query->topo, query->json,
                             out, err);
    mem_free(read.text);
    return rc;
}

static int simulate(const struct args *a, struct err *err)
{
    const struct cli *cli = &a->cli;
    struct pick_simulate query = {.topo = a->topo,
                                  .subchunks = a->chunks,
                                  .root = a->root,
                                  .bytes = a->bytes ? a->bytes : PICK_SIMULATE_BYTES,
                                  .json = cli->json};
    struct io_out out;
    FILE *to;

    if (cli->words == 2) {
        query.op = cli->word[0];
        query.algo = cli->word[1];
    } else {
        query.file = cli->words ? cli->word[0] : "-";
    }
    if (cli_svg_open(cli, &out, &to, err))
        return -1;
    int rc = cli->mode == DRAW ? draw_any(a, &query, to, err)
                               : (cli->svg ? pick_draw : pick_simulate)(&query, to, err);
    return cli_svg_close(&out, rc, err);
}

static int ls(const struct args *a, struct err *err)
{
    struct jout j = {.file = stdout, .pretty = 1};
    struct pick_query all;

    (void)err;
    pick_query_init(&all);
    if (!a->cli.json) {
        for (int i = 0; i < all.ops; i++)
            printf("op    %s\n", schedule_phases_name(all.op[i]));
        for (int i = 0; i < SCHEDULE_ALGOS; i++)
            printf("algo  %-18s  %s\n", schedule_algo_name((enum schedule_algo)i),
                   schedule_algo_text((enum schedule_algo)i));
        return 0;
    }
    jout_open(&j, NULL, '{');
    jout_text(&j, "schema", "paro.sched.list/1");
    jout_open(&j, "ops", '[');
    for (int i = 0; i < all.ops; i++)
        jout_text(&j, NULL, schedule_phases_name(all.op[i]));
    jout_close(&j, ']');
    jout_open(&j, "algos", '[');
    for (int i = 0; i < SCHEDULE_ALGOS; i++)
        jout_text(&j, NULL, schedule_algo_name((enum schedule_algo)i));
    jout_close(&j, ']');
    jout_close(&j, '}');
    return 0;
}

static int pick(const struct args *a, struct err *err)
{
    struct pick_request r = a->pick;

    r.json = a->cli.json;
    r.topo = a->topo;
    r.min_bytes = a->bytes;
    return pick_report(&r, stdout, err);
}

int main(int argc, char **argv)
{
    static int (*const run[])(const struct args *, struct err *) = {
        [GEN] = gen,       [VERIFY] = verify, [SIMULATE] = simulate,
        [DRAW] = simulate, [LS] = ls,         [PICK] = pick};
    struct args a = {.cli = CLI_INIT("paro-sched"), .chunks = 1};
    struct err err = {0};

    cli_parse(&a.cli, &command, argc, argv);
    int rc = run[a.cli.mode](&a, &err);
    return rc < 0 ? cli_fail(&a.cli, &err) : cli_finish(&a.cli, rc);
}
