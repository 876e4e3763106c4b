/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows the words for operations and algorithms: the one list of each. */
#include <string.h>

#include "schedule/schedule_gen.h"

static const struct {
    const char *name;
    unsigned phases;
} colls[] = {
    {"all-gather", SCHEDULE_ALL_GATHER},
    {"reduce-scatter", SCHEDULE_REDUCE_SCATTER},
    {"all-reduce", SCHEDULE_ALL_REDUCE},
    {"broadcast", SCHEDULE_BROADCAST},
};

/* The columns: name, one line, whether it knows ranks only, in few rounds by which kernel. */
static const struct {
    const char *name, *text;
    int flat;
    const struct schedule_kernel *kernel;
} algos[] = {
    [SCHEDULE_RING] = {"ring", "one flat ring over all ranks, group after group", 1, NULL},
    [SCHEDULE_TWO_LEVEL] = {"two-level", "across groups and inside them, one after the other",
                            0, NULL},
    [SCHEDULE_HO_RING] = {"ho-ring", "across groups and inside them at the same time (HO-Ring)",
                          0, NULL},
    [SCHEDULE_DOUBLING] = {"recursive-doubling",
                           "partners at distances 1, 2, 4, ... exchange all they have", 1,
                           &schedule_kernel_doubling},
    [SCHEDULE_BRUCK] = {"bruck", "ceil(log2 n) shifts by 1, 2, 4, ... for any number of ranks",
                        1, &schedule_kernel_bruck},
    [SCHEDULE_TREE] = {"tree", "binomial trees to one rank and from it", 1,
                       &schedule_kernel_tree},
    [SCHEDULE_DIRECT] = {"direct", "every rank to every other, without a hop between", 1,
                         &schedule_kernel_direct},
    [SCHEDULE_TWO_LEVEL_DOUBLING] = {"two-level-doubling",
                                     "recursive doubling over the groups, direct inside them",
                                     0, &schedule_kernel_doubling},
    [SCHEDULE_TWO_LEVEL_BRUCK] = {"two-level-bruck",
                                  "bruck over the groups, direct inside them", 0,
                                  &schedule_kernel_bruck},
    [SCHEDULE_TWO_LEVEL_TREE] = {"two-level-tree", "tree over the groups, direct inside them",
                                 0, &schedule_kernel_tree},
    [SCHEDULE_TWO_LEVEL_DIRECT] = {"two-level-direct",
                                   "direct over the groups, direct inside them", 0,
                                   &schedule_kernel_direct},
    [SCHEDULE_AUTO] = {"auto", "the fastest on the fabric at hand", 0, NULL},
};

/* "ring, two-level, ... or auto" */
static void list_algos(char *text, size_t room)
{
    size_t used = 0;

    text[0] = 0;
    for (int i = 0; i <= SCHEDULE_ALGOS && used < room; i++)
        used += (size_t)snprintf(text + used, room - used, "%s%s",
                                 i == SCHEDULE_ALGOS ? " or "
                                 : i                 ? ", "
                                                     : "",
                                 algos[i].name);
}

const char *schedule_phases_name(unsigned phases)
{
    for (size_t i = 0; i < sizeof colls / sizeof *colls; i++)
        if (colls[i].phases == phases)
            return colls[i].name;
    return NULL;
}

/* MPI and NCCL write allgather, PyTorch all_gather. */
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

const struct schedule_kernel *schedule_algo_kernel(enum schedule_algo algo)
{
    return algos[algo].kernel;
}

int schedule_algo_parse(const char *text, enum schedule_algo *out, struct err *err)
{
    char names[256];

    for (int i = 0; i <= SCHEDULE_ALGOS; i++) {
        if (strcmp(text, algos[i].name) == 0) {
            *out = (enum schedule_algo)i;
            return 0;
        }
    }
    list_algos(names, sizeof names);
    return err_set(err, ERR_INPUT, "algorithm '%s', expected %s", text, names);
}
