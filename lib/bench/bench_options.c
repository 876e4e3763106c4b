/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses the options of a measurement. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "bench/bench_parts.h"

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

    for (int a = BENCH_NCCL; a <= BENCH_MPI; a++)
        if (strcmp(text, bench_algo_name(a)) == 0) {
            *algo = a;
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

/* Parses words separated by commas into list[*count]; a repeated value is an error. */
static int options_parse_list(const char *text, const char *what,
                              int (*parse)(const char *word, int *value, struct err *err),
                              int *list, int *count, struct err *err)
{
    char *copy = mem_dup(text), *rest = copy;
    int rc = 0, value = 0;

    *count = 0;
    for (char *word; rc == 0 && (word = strsep(&rest, ","));) {
        rc = parse(word, &value, err);
        for (int i = 0; rc == 0 && i < *count; i++)
            if (list[i] == value)
                rc = err_set(err, ERR_INPUT, "%s '%s' twice, expected each once", what, word);
        if (rc == 0)
            list[(*count)++] = value;
    }
    mem_free(copy);
    return rc;
}

static int parse_op(const char *word, int *op, struct err *err)
{
    unsigned phases = 0;
    int rc = schedule_phases_parse(word, &phases, err);

    *op = (int)phases;
    return rc;
}

int bench_parse_ops(const char *text, struct bench_options *o, struct err *err)
{
    return options_parse_list(text, "operation", parse_op, o->op, &o->ops, err);
}

int bench_parse_algos(const char *text, struct bench_options *o, struct err *err)
{
    return options_parse_list(text, "algorithm", bench_algo_parse, o->algo, &o->algos, err);
}

int bench_parse_type(const char *text, enum dtype *type, struct err *err)
{
    static const char *const nccl[DTYPE_COUNT] = {
        [DTYPE_F32] = "float",  [DTYPE_BF16] = "bfloat16", [DTYPE_F16] = "half",
        [DTYPE_F64] = "double", [DTYPE_I32] = "int32",     [DTYPE_U8] = "uint8"};

    for (int t = 0; t < DTYPE_COUNT; t++) {
        if (strcmp(text, nccl[t]) == 0) {
            *type = (enum dtype)t;
            return 0;
        }
    }
    return dtype_parse(text, type, err);
}

int bench_parse_setting(const char *text, const char **out, struct err *err)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "0123456789-_.+/";
    size_t n = strlen(text);

    if (n && n < BENCH_SETTING_SPACE && strspn(text, good) == n) {
        *out = text;
        return 0;
    }
    return err_set(err, ERR_INPUT,
                   "'%.40s', expected 1 to %d letters, digits or any of '-_.+/'", text,
                   BENCH_SETTING_SPACE - 1);
}

int bench_check_fact(const char *text, struct err *err)
{
    size_t n = strlen(text), good = 0;

    while (text[good] >= ' ' && text[good] <= '~' && !strchr("\",\\", text[good]))
        good++;
    if (n && n < BENCH_FACT_SPACE && good == n)
        return 0;
    return err_set(err, ERR_INPUT, "expected 1 to %d printable characters, none of '\",\\'",
                   BENCH_FACT_SPACE - 1);
}
