/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows the words in which a measurement is asked for. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "bench/bench_rows.h"

void bench_options_init(struct bench_options *o)
{
    *o = (struct bench_options){
        .ops = 4,
        .op = {SCHEDULE_ALL_GATHER, SCHEDULE_REDUCE_SCATTER, SCHEDULE_ALL_REDUCE,
               SCHEDULE_BROADCAST},
        .algos = 3,
        .algo = {SCHEDULE_HO_RING, SCHEDULE_RING, BENCH_MPI},
        .min_bytes = 32 << 20,
        .max_bytes = 32 << 20,
        .factor = 2,
        .iters = 20,
        .warmup = 5,
        .type = DTYPE_F32,
        .redop = DTYPE_SUM,
        .floor = -1,
    };
}

const char *bench_algo_name(int algo)
{
    return algo == BENCH_MPI    ? "mpi"
           : algo == BENCH_NCCL ? "nccl"
                                : schedule_algo_name((enum schedule_algo)algo);
}

int bench_algo_parse(const char *text, int *algo, struct err *err)
{
    enum schedule_algo ours = SCHEDULE_AUTO;
    char all[512] = "";
    int used = 0;

    if (strcmp(text, "mpi") == 0) {
        *algo = BENCH_MPI;
        return 0;
    }
    if (strcmp(text, "nccl") == 0) {
        *algo = BENCH_NCCL;
        return 0;
    }
    if (schedule_algo_parse(text, &ours, err) == 0) {
        *algo = (int)ours;
        return 0;
    }
    for (int a = 0; a <= SCHEDULE_AUTO && used < (int)sizeof all; a++)
        used += snprintf(all + used, sizeof all - (size_t)used, "%s%s", a ? ", " : "",
                         schedule_algo_name((enum schedule_algo)a));
    return err_set(err, ERR_INPUT, "algorithm '%s', expected %s, mpi or nccl", text, all);
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
    int algo = 0;

    if (bench_algo_parse(word, &algo, err))
        return -1;
    for (int i = 0; i < o->algos; i++)
        if (o->algo[i] == algo)
            return err_set(err, ERR_INPUT, "algorithm '%s' twice, expected each once", word);
    o->algo[o->algos++] = algo;
    return 0;
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
    static const char *const nccl[DTYPE_COUNT] = {
        [DTYPE_F32] = "float",  [DTYPE_BF16] = "bfloat16", [DTYPE_F16] = "half",
        [DTYPE_F64] = "double", [DTYPE_I32] = "int32",     [DTYPE_U8] = "uint8"};

    for (int t = 0; t < DTYPE_COUNT; t++) {
        if (strcmp(text, nccl[t]) == 0) {
            o->type = (enum dtype)t;
            return 0;
        }
    }
    return dtype_parse(text, &o->type, err);
}

int bench_check_setting(const char *text, struct err *err)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "0123456789-_.+/";
    size_t n = strlen(text);

    if (n && n < BENCH_SETTING_ROOM && strspn(text, good) == n)
        return 0;
    return err_set(err, ERR_INPUT,
                   "'%.40s', expected 1 to %d letters, digits or any of '-_.+/'", text,
                   BENCH_SETTING_ROOM - 1);
}

int bench_check_fact(const char *text, struct err *err)
{
    size_t n = strlen(text), good = 0;

    while (text[good] >= ' ' && text[good] <= '~' && !strchr("\",\\", text[good]))
        good++;
    if (n && n < BENCH_FACT_ROOM && good == n)
        return 0;
    return err_set(err, ERR_INPUT, "expected 1 to %d printable characters, none of '\",\\'",
                   BENCH_FACT_ROOM - 1);
}
