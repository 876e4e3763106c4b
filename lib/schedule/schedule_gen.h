/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SCHEDULE_SCHEDULE_GEN_H
#define SCHEDULE_SCHEDULE_GEN_H

/* Internal to schedule/: shared by the generators. */
#include "schedule/schedule.h"

/*
 * A schedule is put together from stages, one after the other on the clock.  Generators run
 * twice: dry, to count the steps, then to emit rows.
 */
struct schedule_gen {
    const struct schedule_spec *spec;
    struct schedule *out;
    size_t space;
    int rank;     /* emit only rows that name it; -1: all rows */
    int reverse;  /* emit the time reversal of the gather's rows, which is a reduction */
    int dry;      /* count the steps only */
    int64_t span; /* steps of this stage */
    int64_t base; /* first step of this stage */
    int64_t next; /* first step after this stage */
};

/* Begins a stage of `span` steps after the last one; returns whether to emit its rows. */
int schedule_gen_stage(struct schedule_gen *g, int64_t span);

/* Emits a row of a gather, or its reversal; rows that do not name the rank are dropped. */
void schedule_gen_emit(struct schedule_gen *g, int lane, int64_t step, int src, int dst,
                       int chunk);
/* Emits a row, never reversed, its step counted from the stage's first; rows that do not name
 * the rank are dropped. */
void schedule_gen_row(struct schedule_gen *g, struct schedule_row row);

/*
 * The blocks of a fabric as runs of groups.  The units of level 1 are the groups, level rails +
 * 1 has one unit, the levels in between have the blocks.  A rail runs among the units of a
 * level that lie in one unit of the next level.
 */
struct schedule_blocks {
    int rails;  /* levels with rails: 1 .. rails */
    int *order; /* [groups] group at each place; arrays are owned */
    int *at;    /* [groups] place of each group */
    int *unit;  /* [rails+2][groups] unit of a place, numbered across the level; [0] unused */
    int *start; /* [rails+2][groups+1] first place of a unit */
    int *radix; /* [rails+2] most units of this level within one of the next */
};

/* backward: the groups are in reverse order. */
void schedule_blocks_init(struct schedule_blocks *b, const struct schedule_spec *spec,
                          int backward);
void schedule_blocks_release(struct schedule_blocks *b);
/*
 * Returns all groups, [count]: `group` first, then the rest of its block, then of the block
 * around it, and so on, so that each block is contiguous.  The caller frees the array.
 */
int *schedule_blocks_chain(const struct schedule_blocks *b, int count, int group);
int *schedule_gen_groups_chain(const struct schedule_gen *g); /* groups in order of that chain
                                                                 from the root's on */
int *schedule_gen_ranks_chain(const struct schedule_gen *g);  /* ranks in that order, the root
                                                                 first */

/* Rows emitted from now on wait for all rows of the stages so far. */
void schedule_gen_barrier(struct schedule_gen *g);

/* Adds HO-Ring's stage.  across, inside: whether to emit rows between groups, inside groups
   (both: overlapped). */
void schedule_gen_ho(struct schedule_gen *g, int across, int inside);
/* Adds the stages of a latency-optimal algorithm, for every collective but a broadcast. */
void schedule_gen_few(struct schedule_gen *g);
/* Adds the stages of its broadcast. */
void schedule_gen_few_cast(struct schedule_gen *g);

/*
 * Participants that exchange items in rounds: participant i is rank[i] and begins with item i,
 * the chunks of place[first[i]] .. place[first[i+1]-1] (place: segment * groups + part).
 */
struct schedule_team {
    struct schedule_gen *gen;
    int count;   /* participants */
    int *rank;   /* [count]; arrays are owned */
    int *first;  /* [count+1] */
    int *place;  /* [first[count]] */
    int me;      /* the participant whose rows to emit; -1: all */
    int scatter; /* items that the scatter brought are not sent again */
};

/* Emits a message of `count` items from `item` on, between participants.  Leaves out the items
   that the scatter brought, and what is sent between other ranks than `me`: kernels send by
   this alone. */
void schedule_team_send(struct schedule_team *t, int round, int src, int dst, int item,
                        int count);

/*
 * The functions of an algorithm: either stages of its own (half and cast), or a kernel that
 * exchanges items among participants in rounds (rounds and run), which schedule_gen_few.c
 * applies to ranks or groups.  An algorithm serves every operation, every number of
 * ranks from 1, ragged groups, and phases between or inside groups alone; it cannot refuse.
 */
struct schedule_generator {
    /* The stages of a gather or, where g->reverse is set, of the reduction that reverses it. */
    void (*half)(struct schedule_gen *g, int across, int inside);
    void (*cast)(struct schedule_gen *g); /* emits a broadcast */
    int barrier;                          /* between reduction and gather */
    /* Number of rounds among n participants, 0 for n = 1; run uses rounds 0 .. rounds(n) - 1.
       */
    int (*rounds)(int n);
    /* Emits the rounds.  Each participant receives each item once, and sends it at most once a
       round; except fold and exchange, which are no gathers. */
    void (*run)(struct schedule_team *t);
};

#define SCHEDULE_GENERATOR(NAME, name, flat, generator, text)                                  \
    extern const struct schedule_generator schedule_generator_##generator;
SCHEDULE_ALGO_LIST(SCHEDULE_GENERATOR)
/* Kernels from participant 0: scatter sends item i to participant i, spread all items to all by
   a tree, fan all items to all directly. */
extern const struct schedule_generator schedule_generator_scatter, schedule_generator_spread,
    schedule_generator_fan;
/* Kernels of the all-reduce by recursive doubling: fold for participants beyond a power of two,
   exchange for the core. */
extern const struct schedule_generator schedule_generator_fold, schedule_generator_exchange;
/* Planes of scratch: one is filled while the other is added. */
enum { SCHEDULE_EXCHANGE_PLANES = 2 };

const struct schedule_generator *schedule_algo_generator(enum schedule_algo algo);

#endif
