/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists the names of operations and algorithms, and parses them. */
#include <string.h>

#include "schedule/schedule_gen.h"

const char *const schedule_phase_names[SCHEDULE_PHASES] = {
    "reduce-inside", "reduce-across", "gather-across", "gather-inside", "broadcast"};

static const struct {
    const char *name;
    unsigned phases;
} colls[] = {
    {"all-gather", SCHEDULE_ALL_GATHER},
    {"reduce-scatter", SCHEDULE_REDUCE_SCATTER},
    {"all-reduce", SCHEDULE_ALL_REDUCE},
    {"broadcast", SCHEDULE_BROADCAST},
};

#define ROW(NAME, name, flat, generator, text)                                                 \
    [SCHEDULE_##NAME] = {name, text, flat, &schedule_generator_##generator},

static const struct {
    const char *name, *text;
    int flat; /* 1: ignores groups */
    const struct schedule_generator *generator;
} algos[] = {
    SCHEDULE_ALGO_LIST(ROW) /* and "auto", which chooses among them: */
        [SCHEDULE_AUTO] = {"auto", "the fastest on the fabric at hand", 0, NULL},
};

const char *schedule_phases_name(unsigned phases)
{
    for (size_t i = 0; i < sizeof colls / sizeof *colls; i++)
        if (colls[i].phases == phases)
            return colls[i].name;
    return NULL;
}

/* Compares ignoring dashes: MPI and NCCL write allgather, PyTorch all_gather. */
static int is_spelling(const char *text, const char *name)
{
    for (; *name; name++) {
        if (*name == '-' && *text != '-' && *text != '_')
            continue;
        if (*text != *name && *name != '-')
            return 0;
        text++;
    }
    return *text == 0;
}

int schedule_phases_parse(const char *text, unsigned *out, struct err *err)
{
    for (size_t i = 0; i < sizeof colls / sizeof *colls; i++) {
        if (is_spelling(text, colls[i].name)) {
            *out = colls[i].phases;
            return 0;
        }
    }
    return err_set(err, ERR_INPUT,
                   "operation '%s', expected all-gather, reduce-scatter, all-reduce or "
                   "broadcast",
                   text);
}

const char *schedule_algo_name(enum schedule_algo algo)
{
    return algos[algo].name;
}

const char *schedule_algo_text(enum schedule_algo algo)
{
    return algos[algo].text;
}

int schedule_algo_flat(enum schedule_algo algo)
{
    return algos[algo].flat;
}

const struct schedule_generator *schedule_algo_generator(enum schedule_algo algo)
{
    return algos[algo].generator;
}

int schedule_algo_parse(const char *text, enum schedule_algo *out, struct err *err)
{
    char names[256];
    size_t used = 0;

    for (int i = 0; i <= SCHEDULE_ALGOS; i++) {
        if (strcmp(text, algos[i].name) == 0) {
            *out = (enum schedule_algo)i;
            return 0;
        }
        const char *between = i == SCHEDULE_ALGOS ? " or " : i ? ", " : "";
        used +=
            (size_t)snprintf(names + used, sizeof names - used, "%s%s", between, algos[i].name);
        used = used < sizeof names ? used : sizeof names - 1;
    }
    return err_set(err, ERR_INPUT, "algorithm '%s', expected %s", text, names);
}
