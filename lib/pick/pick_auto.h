/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PICK_PICK_AUTO_H
#define PICK_PICK_AUTO_H

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "pick/pick.h"
#include "topo/topo.h"

/*
 * Chooses the algorithm and the chunk of an operation by simulated time (sim/sim.h), among all
 * algorithms that can do it on these groups, in chunks of 4 KiB to 4 MiB, and in uncut parts.
 * Each end of a message occupies the processor for message_s of its level; if that is unknown
 * (0) the choice is the largest chunk that loses no more than PICK_GAIN against those from
 * PICK_CHUNK_USUAL up.
 *
 * Not timed are
 *   - an algorithm whose bytes through some port take longer than two others need in all;
 *   - chunks beyond two consecutive ones, up or down from PICK_CHUNK_USUAL, that did not help;
 *   - an algorithm whose schedule is too long to be simulated (sim.h).
 * A cut into more than PICK_FILLED sub-chunks for which a simulation would read more than
 * PICK_WORK rows (all ranks', unless equal groups with equal ports let one group represent all)
 * is derived from two coarser ones: only the fill depends on the number of sub-chunks, as its
 * inverse.  Takes some ms up to 4x8, seconds from thousands of ranks on.
 *
 * Algorithms are compared by weighted times (pick_weigh), which allow for effects outside the
 * model.  The answer depends only on the arguments, so that all ranks get the same; among equal
 * times (1e-9: rounding of sums) the algorithm that is first in schedule.h wins.
 */
enum { PICK_WORK = 1 << 12, PICK_FILLED = 4 };
/*
 * The chunk below the eager limit of Open MPI's TCP (64 KiB), which no latency or rate reveals
 * (lab.md): taken unless another one gains more than PICK_GAIN, and otherwise the nearest one
 * that does not lose more.  5 % is the difference of simulated and measured times.
 */
enum { PICK_CHUNK_USUAL = 60 << 10 };
#define PICK_GAIN        0.05
#define PICK_CHUNK_WHOLE (INT64_C(1) << 62) /* parts are not cut */

struct pick_choice {
    enum schedule_algo algo;
    int64_t chunk_bytes; /* or PICK_CHUNK_WHOLE */
    double time_s;       /* simulated */
};

struct pick_answer {
    unsigned phases;
    int64_t bytes; /* bytes of the whole vector, M */
    struct pick_choice best;
    struct pick_choice second; /* the best of another algorithm; SCHEDULE_AUTO: there is none */
};

/* ERR_INPUT if no algorithm can do it, or none can be simulated. */
int pick_auto(const struct topo *t, unsigned phases, int64_t bytes, struct pick_answer *out,
              struct err *err);
/*
 * Lists the candidates for a choice by measurement, the fastest first, PICK_SHORT_MAX at most:
 * for every algorithm its best chunk and, if it cuts differently, PICK_CHUNK_USUAL, if the
 * weighted time is within PICK_TRUST times the best; ho-ring's faster one always.  The first is
 * the choice of pick_auto.  PICK_TRUST is the simulator's possible error between two
 * algorithms: it does not model that ranks share processors, and with four ranks to a processor
 * its choice was up to 1.7 times slower than the fastest when measured.
 */
enum { PICK_SHORT_MAX = 8 };
#define PICK_TRUST 2.0
int pick_shortlist(const struct topo *t, unsigned phases, int64_t bytes,
                   struct pick_choice out[PICK_SHORT_MAX], int *count, struct err *err);
/*
 * The chunks to try, and the one to take: tried[i] seconds with pick_chunk_at[i], NAN if not
 * timed; messages_cost 0: the fabric does not state the cost of a message.
 */
enum { PICK_CHUNKS = 12 };
extern const int64_t pick_chunk_at[PICK_CHUNKS];
int pick_best_chunk(const double tried[PICK_CHUNKS], int messages_cost);
int pick_messages_cost(const struct topo *t);
/* Simulates one candidate. */
int pick_time(const struct topo *t, unsigned phases, int64_t bytes, enum schedule_algo algo,
              int64_t chunk_bytes, double *time_s, struct err *err);
/*
 * Weights a simulated time for comparing algorithms.  The rings are as fast as simulated
 * (within 5 % on emulated fabrics, tests/bench/simulate.sh).  In all other algorithms several
 * ranks send into one port at once and their queues collide: 1.05 of the time, the least by
 * which those were slower than simulated; and 1.1 if the senders are ranks of several groups: a
 * port that receives from two keeps 0.90 to 0.93 of its rate.
 */
double pick_weigh(enum schedule_algo algo, double time_s);
/* ERR_INPUT with the reason if the algorithm cannot do it on these groups. */
int pick_check(const struct layout *l, unsigned phases, enum schedule_algo algo,
               struct err *err);

/*
 * Returns the operation's name, or its phases joined by '+', "gather-across+gather-inside";
 * *space is the caller's.
 */
struct pick_word {
    char text[80];
};
const char *pick_phases_name(unsigned phases, struct pick_word *space);
int pick_phases_parse(const char *text, unsigned *out, struct err *err);

/* A query: operations, and sizes min_bytes, min_bytes * factor, ... max_bytes. */
enum { PICK_OPS_MAX = 32 };
#define PICK_BYTES_MAX (INT64_C(1) << 50)
struct pick_query {
    int ops;
    unsigned op[PICK_OPS_MAX];
    int64_t min_bytes, max_bytes;
    int factor;
};
/* Sets the four named operations, 1 KiB to 1 GiB by 2. */
void pick_query_init(struct pick_query *a);
/*
 * Sets all conversions between layouts on these groups (layout_phases_*), and the four named
 * operations: a trainer's table needs these.
 */
void pick_query_moves(struct pick_query *a, const struct groups *groups);
/* Parses "all-gather,all-reduce"; a repeated word is an error. */
int pick_query_parse(struct pick_query *a, const char *text, struct err *err);
/* ERR_INPUT if sizes are out of bounds or out of order. */
int pick_query_check(const struct pick_query *a, struct err *err);

/* Answers for every operation and size, grouped by operation; owned by the caller
   (mem_free). */
int pick_list(const struct topo *t, const struct pick_query *a, struct pick_answer **out,
              int *answers, struct err *err);
void pick_list_print(const struct topo *t, const struct pick_answer *list, int answers,
                     FILE *out);
void pick_list_print_json(const struct topo *t, const struct pick_answer *list, int answers,
                          FILE *out); /* "paro.sched.pick/1" */

#endif
