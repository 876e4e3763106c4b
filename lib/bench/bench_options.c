/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows the words in which a measurement is asked for. */
#include <string.h>

#include "base/mem.h"
#include "bench/bench.h"
#include "schedule/schedule.h"

static const char *const algo_names[] = {"ring", "two-level", "ho-ring", "mpi"};

void bench_options_init(struct bench_options *o)
{
    *o = (struct bench_options){
        .ops = 3,
        .op = {SCHEDULE_ALL_GATHER, SCHEDULE_REDUCE_SCATTER, SCHEDULE_ALL_REDUCE},
        .algos = 3,
        .algo = {BENCH_HO_RING, BENCH_RING, BENCH_MPI},
        .min_bytes = 32 << 20,
        .max_bytes = 32 << 20,
        .factor = 2,
        .iters = 20,
        .warmup = 5,
        .type = DTYPE_F32,
    };
}

const char *bench_algo_name(enum bench_algo algo)
{
    return algo_names[algo];
}

static int add_op(struct bench_options *o, const char *word, struct err *err)
{
    unsigned op = 0;

    if (schedule_phases_parse(word, &op, err))
        return -1;
    for (int i = 0; i < o->ops; i++)
        if (o->op[i] == op)
            return err_set(err, ERR_INPUT, "operation '%s' twice, expected each once", word);
    o->op[o->ops++] = op;
    return 0;
}

static int add_algo(struct bench_options *o, const char *word, struct err *err)
{
    for (int a = 0; a < BENCH_ALGOS_MAX; a++) {
        if (strcmp(word, algo_names[a]))
            continue;
        for (int i = 0; i < o->algos; i++)
            if ((int)o->algo[i] == a)
                return err_set(err, ERR_INPUT, "algorithm '%s' twice, expected each once",
                               word);
        o->algo[o->algos++] = (enum bench_algo)a;
        return 0;
    }
    return err_set(err, ERR_INPUT, "algorithm '%s', expected ring, two-level, ho-ring or mpi",
                   word);
}

static int each_word(struct bench_options *o, const char *text,
                     int (*add)(struct bench_options *, const char *, struct err *),
                     struct err *err)
{
    char *copy = mem_dup(text), *at = copy;
    int rc = 0;

    while (at && rc == 0) {
        char *comma = strchr(at, ',');
        if (comma)
            *comma = 0;
        rc = add(o, at, err);
        at = comma ? comma + 1 : NULL;
    }
    mem_free(copy);
    return rc;
}

int bench_parse_ops(struct bench_options *o, const char *text, struct err *err)
{
    o->ops = 0;
    return each_word(o, text, add_op, err);
}

int bench_parse_algos(struct bench_options *o, const char *text, struct err *err)
{
    o->algos = 0;
    return each_word(o, text, add_algo, err);
}

int bench_parse_type(struct bench_options *o, const char *text, struct err *err)
{
    static const struct {
        const char *name, *nccl;
        enum dtype type;
    } types[] = {{"f32", "float", DTYPE_F32},
                 {"bf16", "bfloat16", DTYPE_BF16},
                 {"f16", "half", DTYPE_F16},
                 {"f64", "double", DTYPE_F64},
                 {"i32", "int32", DTYPE_I32}};

    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(text, types[i].name) == 0 || strcmp(text, types[i].nccl) == 0) {
            o->type = types[i].type;
            return 0;
        }
    }
    return err_set(err, ERR_INPUT, "type '%s', expected f32, bf16, f16, f64 or i32", text);
}
