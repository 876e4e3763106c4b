/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_BENCH_TUNE_H
#define BENCH_BENCH_TUNE_H

/* Inside bench/: how a choice is made from measured times, and what becomes of the choices. */
#include "bench/bench_parts.h"

/*
 * Rounds of a contest, of which one takes round_s, all turns together: as many as 2 s hold,
 * from 5 to 200.  Five are the fewest that tell anything apart (bench_tune_choose), and the
 * first five tell round_s; of two hundred one that is slower in 6 of 10 is told.
 */
enum { BENCH_TUNE_LEAST = 5, BENCH_TUNE_MOST = 200 };
int bench_tune_rounds(double round_s);

struct bench_entry { /* of a contest */
    struct pick_choice choice;
    double predicted_s;    /* weighed, pick_weigh */
    const double *seconds; /* [rounds], borrowed */
    double median_s;       /* set by bench_tune_choose */
};
/*
 * Chunks of 60 to 512 KiB are within 2 % when measured (paro-method(7), HO-RING): less than
 * that does not outlast the launch.
 */
#define BENCH_TUNE_SAME 0.02
/*
 * Which entry is taken: that with the least predicted time among the fastest and those that
 * cannot be told from it; ties go to what stands first.  The fastest is that with the least
 * median.  Another one is told from it when its median is more than BENCH_TUNE_SAME above, and
 * it was no slower in so few of the rounds that a fair coin falls so seldom, once in 32 times
 * (five of five) or less: the sign test, which knows nothing of how times are distributed.
 */
int bench_tune_choose(struct bench_entry *e, int entries, int rounds);
/* The least median of another algorithm than that of entry `won`; -1: there is none. */
int bench_tune_second(const struct bench_entry *e, int entries, int won);

/*
 * "all-gather of 1 MiB: ring 2 ms, ho-ring 1.9 ms (0.95x, within noise)": the choice, and the
 * runner-up, which is faster only where no difference was told.
 */
void bench_tune_describe(const struct pick_answer *a, FILE *out);

struct bench_tune {         /* one call of bench_tune */
    struct bench_options o; /* with the iterations of the size that is measured */
    int iters;              /* asked for; 0: bench_tune_rounds */
    int moves;              /* with rules for a trainer's moves */
    struct bench_talk talk;
    struct pick_answer *answer; /* rank 0's, owned */
    size_t room;
    int answers;
};
/* One operation at one size: rank 0 keeps the answer. */
int bench_tune_case(struct bench *b, unsigned op, int64_t elems, struct err *err);
/* On rank 0: the table, printed. */
int bench_tune_print(struct bench *b, struct err *err);

#endif
