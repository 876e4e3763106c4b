/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SCHEDULE_SCHEDULE_GEN_H
#define SCHEDULE_SCHEDULE_GEN_H

/* Inside schedule/: what the generator families share. */
#include "schedule/schedule.h"

/*
 * A schedule is put together from stages, one after the other on the clock.  The families run
 * twice: dry, to know how many steps there are, then to emit.
 */
struct schedule_gen {
    const struct schedule_spec *spec;
    struct schedule *out;
    size_t space;
    int rank;     /* emit only rows that name it; -1: all */
    int reverse;  /* the rows are a gather's: emit the reduction that is its time reversal */
    int dry;      /* count the steps only */
    int64_t span; /* steps of this stage */
    int64_t base; /* first step of this stage */
    int64_t next; /* first step after it */
};

/* Begins a stage of `span` steps after the last; returns whether its rows are wanted. */
int schedule_gen_stage(struct schedule_gen *g, int64_t span);

/* Emits a row of a gather, or its reversal; rows that do not name the rank are dropped. */
void schedule_gen_emit(struct schedule_gen *g, int lane, int64_t step, int src, int dst,
                       int chunk);
/* Emits a row, never reversed, its step counted from the stage's first; rows that do not name
 * the rank are dropped. */
void schedule_gen_row(struct schedule_gen *g, struct schedule_row row);

/*
 * The blocks of a fabric as runs of groups.  Level 1 has the groups as its units, level
 * rails + 1 one unit; in between are the blocks.  A rail runs among the units of a level that
 * lie in one unit of the next.
 */
struct schedule_blocks {
    int rails;  /* levels with a rail: 1 .. rails */
    int *order; /* [groups] group at each place, owned, as the others */
    int *at;    /* [groups] place of each group */
    int *unit;  /* [rails+2][groups] the unit of a place, counted through each level; [0] unused
                 */
    int *start; /* [rails+2][groups+1] the first place of a unit */
    int *radix; /* [rails+2] the most units of this level in one of the next */
};

/* backward: the groups stand the other way round. */
void schedule_blocks_init(struct schedule_blocks *b, const struct schedule_spec *spec,
                          int backward);
void schedule_blocks_release(struct schedule_blocks *b);
/*
 * All groups, `group` first, then the rest of its block, then of the block around it: each
 * block is contiguous.  [count]: the number of groups; owned by the caller.
 */
int *schedule_blocks_chain(const struct schedule_blocks *b, int count, int group);
int *schedule_gen_groups_chain(const struct schedule_gen *g); /* from the root's group on */
int *schedule_gen_ranks_chain(const struct schedule_gen *g);  /* from the root on */

/* Rows that are emitted from now on wait for all rows of the stages so far. */
void schedule_gen_barrier(struct schedule_gen *g);

/* HO-Ring's stage of the segments that all groups share; across, inside: whether rows between
 * groups, inside groups, are wanted (both: overlapped). */
void schedule_gen_ho(struct schedule_gen *g, int across, int inside);
/* Algorithms of few rounds: every collective but a broadcast. */
void schedule_gen_few(struct schedule_gen *g);
/* A broadcast. */
void schedule_gen_few_cast(struct schedule_gen *g);

/*
 * Those who move items in rounds: participant i is rank[i] and begins with item i, the chunks
 * of place[first[i]] .. place[first[i+1]-1] (place: segment * groups + part).
 */
struct schedule_team {
    struct schedule_gen *gen;
    int count;   /* participants */
    int *rank;   /* [count], owned, as the others */
    int *first;  /* [count+1] */
    int *place;  /* [first[count]] */
    int me;      /* the participant whose rows are wanted; -1: all */
    int scatter; /* items that the scatter brought are not sent again */
};

/*
 * The parts of an algorithm: stages of its own (half and cast), or, in few rounds, a way to
 * move items among participants (rounds and run), which schedule_gen_few.c applies to ranks or
 * groups.
 */
struct schedule_generator {
    /* The stages of a gather or, where g->reverse is set, of the reduction that reverses it. */
    void (*half)(struct schedule_gen *g, int across, int inside);
    void (*cast)(struct schedule_gen *g); /* of a broadcast */
    int barrier;                          /* between a reduction and a gather */
    int (*rounds)(int n);                 /* among n participants */
    /* Each receives each item once, and sends it once a round at most; not so fold and
       exchange, which are no gathers. */
    void (*run)(struct schedule_team *t);
};

#define SCHEDULE_GENERATOR(NAME, name, flat, generator, text)                                  \
    extern const struct schedule_generator schedule_generator_##generator;
SCHEDULE_ALGO_LIST(SCHEDULE_GENERATOR)
/* From participant 0: item i to i; all items to all by a tree; all items to all at once. */
extern const struct schedule_generator schedule_generator_scatter, schedule_generator_spread,
    schedule_generator_fan;
/* The all-reduce of recursive doubling: those beyond a power of two, the others. */
extern const struct schedule_generator schedule_generator_fold, schedule_generator_exchange;
enum { SCHEDULE_EXCHANGE_PLANES = 2 }; /* of scratch: one is filled, one is added */

const struct schedule_generator *schedule_algo_generator(enum schedule_algo algo);

#endif
