/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * paro-sched: prints the rows of a collective, proves rows right, times them on a fabric, and
 * draws that.
 */
#include <inttypes.h>
#include <string.h>

#include "base/jout.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/cli.h"
#include "pick/pick.h"
#include "pick/pick_draw.h"
#include "pick/pick_simulate.h"
#include "pick/pick_table.h"
#include "schedule/schedule_msccl.h"

enum { KEY_CHUNKS = 0x100, KEY_ROOT = 0x180, KEY_OP, KEY_TABLE, KEY_TUNING, KEY_FORMAT };
enum { WORDS_MAX = 4, CHUNKS_MAX = 1 << 14, FACTOR_MAX = 1 << 20 };

struct args {
    struct cli cli;
    const char *word[WORDS_MAX];
    int words;
    int64_t chunks, root;
    int has_chunks, has_root;
    int has_format, msccl; /* --format was given; it was msccl */
    const char *topo;
    int64_t bytes; /* 0: not given */
    struct pick_request pick;
    const char *of_pick; /* an option that is pick's alone, the last one given, or NULL */
};

static const struct argp_option options[] = {
    {0, 0, 0, 0, "Common options:", 1},
    {"input", 'i', "TOPO", CLI_EVERYDAY,
     "simulate, draw, pick: read the fabric from a file, - or synth:SPEC", 1},
    {"bytes", 'b', "BYTES", CLI_EVERYDAY,
     "simulate, draw: size of the vector (default: 64Mi); pick: smallest size (default: 1Ki)",
     1},
    {"chunks", KEY_CHUNKS, "C", CLI_EVERYDAY,
     "Divide each part of the vector into C sub-chunks: faster for large vectors (default: 1)",
     1},
    CLI_OPTIONS_SVG("simulate, draw: draw a timeline as SVG to FILE or standard output", 0, 1),
    {"root", KEY_ROOT, "R", 0, "gen, simulate, draw: broadcast from rank R (default: 0)", 1},
    {"format", KEY_FORMAT, "FORMAT", 0,
     "gen: print rows, or msccl, a program for MSCCL in XML (default: rows)", 1},
    {0, 0, 0, 0, "Options of pick:", 2},
    {"op", KEY_OP, "OPS", 0,
     "Consider only these operations, a comma-separated list (default: all that ls prints)", 2},
    {"max", 'e', "BYTES", CLI_EVERYDAY, "pick: largest size (default: 1Gi)", 2},
    {"factor", 'f', "F", 0, "Multiply the size by F each time (default: 2)", 2},
    {"table", KEY_TABLE, 0, 0, "Print a tuning table (YAML) for paro-bench and paro-train", 2},
    {"tuning", KEY_TUNING, "FILE", 0, "Read this tuning table instead of simulating", 2},
    CLI_OPTIONS,
    {0}};

/* Options of the verb pick alone; ARGP_ERR_UNKNOWN for the rest. */
static error_t parse_pick(struct args *a, int key, char *arg)
{
    struct pick_request *p = &a->pick;
    struct err *err = &a->cli.err;

    switch (key) {
    case KEY_OP:
        a->of_pick = "--op";
        p->ops = arg;
        return 0;
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

static error_t parse_format(struct args *a, const char *text)
{
    a->has_format = 1;
    a->msccl = strcmp(text, "msccl") == 0;
    if (a->msccl || strcmp(text, "rows") == 0)
        return 0;
    return cli_usage(&a->cli, "--format: '%s', expected rows or msccl", text);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;

    switch (key) {
    case KEY_CHUNKS:
        a->has_chunks = 1;
        return cli_check(&a->cli, num_i64(arg, 1, CHUNKS_MAX, &a->chunks, &a->cli.err),
                         "--chunks");
    case KEY_ROOT:
        a->has_root = 1;
        return cli_check(&a->cli, num_i64(arg, 0, GROUPS_RANKS_MAX - 1, &a->root, &a->cli.err),
                         "--root");
    case KEY_FORMAT:
        return parse_format(a, arg);
    case 'i':
        a->topo = arg;
        return 0;
    case 'b':
        return cli_check(&a->cli,
                         num_bytes(arg, 1, PICK_SIMULATE_BYTES_MAX, &a->bytes, &a->cli.err),
                         "--bytes");
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
    "gen OP ALGO SHAPE\nverify [FILE]\nsimulate -i TOPO [FILE | OP ALGO]\n"
    "draw -i TOPO [FILE | OP ALGO]\nls\npick -i TOPO\npick --tuning FILE",
    "Print the schedule of a collective (gen), prove a schedule correct (verify), simulate how"
    " long it takes on a fabric (simulate), draw that as a timeline in SVG (draw), list the"
    " operations and algorithms (ls), or find the fastest algorithm for each size on a fabric"
    " (pick)."
    "\vOP and ALGO are names that ls prints.  SHAPE gives the groups, as 4x8 or [8,8,7], or"
    " blocks of groups, outermost first: 2x4x8, 2x[8,8,7].",
    NULL,
    NULL,
    NULL};

static int print_msccl(const struct schedule *s, struct err *err)
{
    int64_t *units = mem_new((size_t)s->chunks, sizeof *units);
    int rc = pick_chunk_units(s, units, err);

    if (rc == 0)
        rc = schedule_print_msccl(s, units, stdout, err);
    mem_free(units);
    return rc;
}

static int gen(const struct args *a, struct err *err)
{
    enum schedule_algo algo = SCHEDULE_AUTO;
    struct schedule s = {0};
    struct topo topo = {0};
    unsigned phases = 0;

    if (a->words != 4)
        return err_set(err, ERR_INPUT, "gen with %d operands, expected OP ALGO SHAPE",
                       a->words - 1);
    if (pick_parse(a->word[1], a->word[2], &phases, &algo, err))
        return -1;
    if (a->has_root && phases != SCHEDULE_BROADCAST)
        return err_set(err, ERR_INPUT, "--root with %s, expected it with broadcast",
                       a->word[1]);
    if (a->msccl && a->cli.json)
        return err_set(err, ERR_INPUT, "--json and --format msccl, expected one of them");
    if (topo_parse_shape(&topo, a->word[3], err))
        return -1;
    int rc = pick_check_root((int)a->root, topo.groups.ranks, err);
    if (rc == 0)
        rc = pick_schedule_on(phases, algo, &topo, (int)a->root, (int)a->chunks, &s, err);
    if (rc == 0 && a->msccl)
        rc = print_msccl(&s, err);
    else if (rc == 0)
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

/* simulate and draw ask alike. */
static int on_fabric(const struct args *a,
                     int (*door)(const struct pick_simulate *, FILE *, struct err *),
                     struct err *err)
{
    const char *verb = a->word[0];
    struct pick_simulate ask = {.topo = a->topo,
                                .file = a->words == 2 ? a->word[1] : "-",
                                .subchunks = (int)a->chunks,
                                .root = (int)a->root,
                                .bytes = a->bytes ? a->bytes : PICK_SIMULATE_BYTES,
                                .json = a->cli.json};
    struct io_out out;
    FILE *to;

    if (!a->topo)
        return err_set(err, ERR_INPUT, "%s without a topology, expected -i TOPO", verb);
    if (a->words > 3)
        return err_set(err, ERR_INPUT, "%s with %d operands, expected FILE or OP ALGO", verb,
                       a->words - 1);
    if (a->words == 3) {
        ask.file = NULL;
        ask.op = a->word[1];
        ask.algo = a->word[2];
        if (a->has_root && strcmp(ask.op, "broadcast"))
            return err_set(err, ERR_INPUT, "--root with %s, expected it with broadcast",
                           ask.op);
    } else if (a->has_chunks || a->has_root) {
        return err_set(err, ERR_INPUT,
                       "%s with a schedule, which states its own, expected OP ALGO",
                       a->has_chunks ? "--chunks" : "--root");
    }
    return cli_svg_open(&a->cli, &out, &to, err)
               ? -1
               : cli_svg_close(&out, door(&ask, to, err), err);
}

static int simulate(const struct args *a, struct err *err)
{
    return on_fabric(a, a->cli.svg ? pick_draw : pick_simulate, err);
}

static int draw(const struct args *a, struct err *err)
{
    return on_fabric(a, pick_draw, err);
}

static const unsigned ops[] = {SCHEDULE_ALL_GATHER, SCHEDULE_REDUCE_SCATTER,
                               SCHEDULE_ALL_REDUCE, SCHEDULE_BROADCAST};
enum { OPS = sizeof ops / sizeof *ops };

static int ls(const struct args *a, struct err *err)
{
    struct jout j = {.file = stdout, .pretty = 1};

    if (a->words > 1)
        return err_set(err, ERR_INPUT, "unexpected argument '%s' after ls", a->word[1]);
    if (!a->cli.json) {
        for (int i = 0; i < OPS; i++)
            printf("op    %s\n", schedule_phases_name(ops[i]));
        for (int i = 0; i < SCHEDULE_ALGOS; i++)
            printf("algo  %-18s  %s\n", schedule_algo_name((enum schedule_algo)i),
                   schedule_algo_text((enum schedule_algo)i));
        return 0;
    }
    jout_open(&j, NULL, '{');
    jout_text(&j, "schema", "paro.sched.list/1");
    jout_open(&j, "ops", '[');
    for (int i = 0; i < OPS; i++)
        jout_text(&j, NULL, schedule_phases_name(ops[i]));
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
    if (a->words > 1)
        return err_set(err, ERR_INPUT, "unexpected argument '%s' after pick", a->word[1]);
    if (!r.topo == !r.tuning)
        return err_set(err, ERR_INPUT, "pick with %s, expected --input or --tuning",
                       r.topo ? "both --input and --tuning" : "neither a fabric nor a table");
    if (r.tuning && (r.ops || r.min_bytes || r.max_bytes || r.factor))
        return err_set(err, ERR_INPUT,
                       "--tuning with --op, --bytes, --max or --factor, expected none of them:"
                       " the table states its own");
    return pick_report(&r, stdout, err);
}

static const struct verb {
    const char *name;
    int (*run)(const struct args *, struct err *);
    int gens, fabric; /* takes --chunks and --root; --input and --bytes */
    int choice;       /* takes what is pick's alone */
} verbs[] = {
    {"gen", gen, 1, 0, 0},   {"verify", verify, 0, 0, 0}, {"simulate", simulate, 1, 1, 0},
    {"draw", draw, 1, 1, 0}, {"ls", ls, 0, 0, 0},         {"pick", pick, 0, 1, 1}};

static const struct verb *find_verb(const struct args *a, struct err *err)
{
    const char *word = a->words ? a->word[0] : "";

    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        const struct verb *v = &verbs[i];
        if (strcmp(word, v->name))
            continue;
        if ((a->has_chunks || a->has_root) && !v->gens)
            err_set(err, ERR_INPUT, "%s with verb '%s', expected it with gen, simulate or draw",
                    a->has_chunks ? "--chunks" : "--root", word);
        else if (a->has_format && v->run != gen)
            err_set(err, ERR_INPUT, "--format with verb '%s', expected it with gen", word);
        else if ((a->topo || a->bytes) && !v->fabric)
            err_set(err, ERR_INPUT,
                    "%s with verb '%s', expected it with simulate, draw or pick",
                    a->topo ? "--input" : "--bytes", word);
        else if (a->cli.svg && v->run != simulate && v->run != draw)
            err_set(err, ERR_INPUT, "--svg with verb '%s', expected it with simulate or draw",
                    word);
        else if (a->of_pick && !v->choice)
            err_set(err, ERR_INPUT, "%s with verb '%s', expected it with pick", a->of_pick,
                    word);
        else
            return v;
        return NULL;
    }
    err_set(err, ERR_INPUT,
            "verb '%s', expected gen, verify, simulate, draw, ls or pick (see --help)", word);
    return NULL;
}

int main(int argc, char **argv)
{
    struct args a = {.cli = CLI_INIT("paro-sched"), .chunks = 1};
    struct err err = {0};

    cli_parse(&a.cli, &argp, argc, argv);
    if (cli_check_svg(&a.cli))
        return cli_fail(&a.cli, &a.cli.err);
    const struct verb *verb = find_verb(&a, &err);
    int rc = verb ? verb->run(&a, &err) : -1;
    return rc < 0 ? cli_fail(&a.cli, &err) : cli_finish(&a.cli, rc);
}
