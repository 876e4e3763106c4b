/* SPDX-License-Identifier: BSD-3-Clause */
/* paro-bench: times collectives beside each other and beside the bound of the fabric. */
#include "base/num.h"
#include "bench/bench.h"
#include "cli/cli_world.h"

#include <string.h>

enum { KEY_OP = 0x100, KEY_ALGO, KEY_REDOP, KEY_CHUNK, KEY_WINDOW, KEY_GROUPS };

struct args {
    struct cli cli;
    struct bench_options o;
    int has_min, has_max;
};

static const struct argp_option options[] = {
    {"op", KEY_OP, "OPS", 0,
     "Operations, a comma between them: all-gather, reduce-scatter, all-reduce (default: all)",
     0},
    {"algo", KEY_ALGO, "ALGOS", 0,
     "Algorithms, taking turns: ring, two-level, ho-ring, mpi (default ho-ring,ring,mpi)", 0},
    {"min", 'b', "SIZE", 0, "Smallest size of the whole vector (default 32M, or that of -e)",
     0},
    {"max", 'e', "SIZE", 0, "Largest size (default that of -b)", 0},
    {"factor", 'f', "N", 0, "From one size to the next (default 2)", 0},
    {"iters", 'n', "N", 0, "Timed iterations (default 20)", 0},
    {"warmup", 'w', "N", 0, "Untimed iterations before them (default 5)", 0},
    {"type", 'd', "TYPE", 0, "Elements: f32 (default), bf16, f16, f64 or i32", 0},
    {"redop", KEY_REDOP, "OP", 0, "Reduction: sum", 0},
    {"input", 'i', "TOPO", 0,
     "Take port rates and predictions from a topology, a file, - or synth:SPEC; measure none",
     0},
    {"groups", KEY_GROUPS, "SHAPE", 0, "Groups of ranks, as 4x2 or [3,2] (default: by host)",
     0},
    {"chunk", KEY_CHUNK, "SIZE", 0, "Bytes of a message (default 60Ki)", 0},
    {"window", KEY_WINDOW, "SIZE", 0, "Bytes in flight per queue (default 1Mi)", 0},
    CLI_OPTIONS,
    {0}};

static error_t parse_size(struct args *a, const char *text, const char *option, int64_t lo,
                          int64_t *out)
{
    /* An int64_t of bytes, doubled for two buffers, stays far from overflow. */
    return cli_check(&a->cli, num_bytes(text, lo, INT64_C(1) << 48, out, &a->cli.err), option);
}

static error_t parse_int(struct args *a, const char *text, const char *option, int lo, int *out)
{
    int64_t v = 0;
    error_t rc = cli_check(&a->cli, num_i64(text, lo, 1000000, &v, &a->cli.err), option);

    *out = (int)v;
    return rc;
}

static error_t finish(struct args *a)
{
    struct bench_options *o = &a->o;
    int64_t size = dtype_bytes(o->type);

    if (a->has_min && !a->has_max)
        o->max_bytes = o->min_bytes;
    if (a->has_max && !a->has_min)
        o->min_bytes = o->max_bytes;
    if (o->min_bytes > o->max_bytes)
        return cli_usage(&a->cli, "--min of %lld bytes and --max of %lld, expected no less",
                         (long long)o->min_bytes, (long long)o->max_bytes);
    if (o->min_bytes < size)
        return cli_usage(&a->cli, "--min of %lld bytes, expected at least one element (%lld)",
                         (long long)o->min_bytes, (long long)size);
    return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct args *a = state->input;
    struct cli *cli = &a->cli;

    switch (key) {
    case KEY_OP:
        return cli_check(cli, bench_parse_ops(&a->o, arg, &cli->err), "--op");
    case KEY_ALGO:
        return cli_check(cli, bench_parse_algos(&a->o, arg, &cli->err), "--algo");
    case 'b':
        a->has_min = 1;
        return parse_size(a, arg, "--min", 1, &a->o.min_bytes);
    case 'e':
        a->has_max = 1;
        return parse_size(a, arg, "--max", 1, &a->o.max_bytes);
    case 'f':
        return parse_int(a, arg, "--factor", 2, &a->o.factor);
    case 'n':
        return parse_int(a, arg, "--iters", 1, &a->o.iters);
    case 'w':
        return parse_int(a, arg, "--warmup", 0, &a->o.warmup);
    case 'd':
        return cli_check(cli, bench_parse_type(&a->o, arg, &cli->err), "--type");
    case KEY_REDOP:
        if (strcmp(arg, "sum"))
            return cli_usage(cli, "--redop: reduction '%s', expected sum", arg);
        return 0;
    case 'i':
        a->o.topo = arg;
        return 0;
    case KEY_GROUPS:
        a->o.shape = arg;
        return 0;
    case KEY_CHUNK:
        return parse_size(a, arg, "--chunk", 64, &a->o.chunk_bytes);
    case KEY_WINDOW:
        return parse_size(a, arg, "--window", 1, &a->o.window_bytes);
    case ARGP_KEY_END:
        return finish(a);
    default:
        return cli_option(cli, key, arg, state);
    }
}

static const struct argp argp = {options,
                                 parse,
                                 NULL,
                                 "Time collectives under mpirun, check their data, and compare"
                                 " them with the least time that the fabric allows.",
                                 NULL,
                                 NULL,
                                 NULL};

int main(int argc, char **argv)
{
    struct args a = {.cli = CLI_INIT("paro-bench")};
    struct world *world = NULL;
    struct err err = {0};
    int64_t wrong = 0;

    bench_options_init(&a.o);
    cli_parse(&a.cli, &argp, argc, argv);
    a.o.json = a.cli.json;
    if (world_open(&world, &err) || bench_run(world, &a.o, stdout, &wrong, &err))
        return cli_fail_ranks(&a.cli, world, &err);
    world_close(world);
    return cli_finish(&a.cli, wrong > 0);
}
