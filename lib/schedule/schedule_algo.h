/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SCHEDULE_SCHEDULE_ALGO_H
#define SCHEDULE_SCHEDULE_ALGO_H

/*
 * The algorithms, one row each: its constant SCHEDULE_NAME, its name in texts and options,
 * whether it ignores groups (1) or not (0), its generator schedule_generator_GENERATOR
 * (schedule/schedule_gen.h), and one line for `paro-sched ls`.
 */
#define SCHEDULE_ALGO_LIST(ROW)                                                                \
    ROW(RING, "ring", 1, ring, "one flat ring over all ranks, group after group")              \
    ROW(TWO_LEVEL, "two-level", 0, two_level,                                                  \
        "across groups and inside them, one after the other")                                  \
    ROW(HO_RING, "ho-ring", 0, ho_ring,                                                        \
        "across groups and inside them at the same time (HO-Ring)")                            \
    ROW(DOUBLING, "recursive-doubling", 1, doubling,                                           \
        "partners at distances 1, 2, 4, ... exchange all they have")                           \
    ROW(BRUCK, "bruck", 1, bruck,                                                              \
        "ceil(log2 n) shifts by 1, 2, 4, ... for any number of ranks")                         \
    ROW(TREE, "tree", 1, tree, "binomial trees to one rank and from it")                       \
    ROW(DIRECT, "direct", 1, direct, "every rank to every other, without a hop between")       \
    ROW(TWO_LEVEL_DOUBLING, "two-level-doubling", 0, doubling,                                 \
        "recursive doubling over the groups, direct inside them")                              \
    ROW(TWO_LEVEL_BRUCK, "two-level-bruck", 0, bruck,                                          \
        "bruck over the groups, direct inside them")                                           \
    ROW(TWO_LEVEL_TREE, "two-level-tree", 0, tree, "tree over the groups, direct inside them") \
    ROW(TWO_LEVEL_DIRECT, "two-level-direct", 0, direct,                                       \
        "direct over the groups, direct inside them")

#define SCHEDULE_ALGO_CONSTANT(NAME, name, flat, generator, text) SCHEDULE_##NAME,

enum schedule_algo {
    SCHEDULE_ALGO_LIST(SCHEDULE_ALGO_CONSTANT) /* and the choice among them: */
    SCHEDULE_AUTO,
    SCHEDULE_ALGOS = SCHEDULE_AUTO
};

#endif
