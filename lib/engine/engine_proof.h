/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ENGINE_ENGINE_PROOF_H
#define ENGINE_ENGINE_PROOF_H

#include "engine/engine.h"

/* Checks that the engine computes the same as plain data parallelism: every function is
   collective. */

/*
 * engine_proof.c.  Checks the placement: every element of every state is held by exactly the
 * ranks that its letter requires, as the engine has placed it (not as layout computes it): N by
 * each rank, I by one rank of each group, G by one rank.  Collective; ERR_MISMATCH names state,
 * unit, range.
 */
int engine_audit(struct engine *e, struct err *err);
/*
 * Hashes parameters, master and moments of all ranks, each element once, whatever the layout:
 * equal states have equal hashes.  Collective; ERR_MISMATCH if two copies of a state differ,
 * naming state and unit.
 */
int engine_hash(struct engine *e, uint64_t *hash, struct err *err);

/*
 * engine_against.c: compares `first` with `second`, an engine of another strategy on the same
 * ranks and data; both are borrowed.  Before each step the second engine takes over the first
 * one's states.  After it, the first one's states must lie in the intervals that any order of
 * summation could produce, computed by interval arithmetic over the gradient
 * (paro-method(7), STEP; the file derives the bound).  If both are exact, they run side by
 * side and every bit must agree.  ERR_MISMATCH names tensor, range and values.
 */
struct engine_against;
int engine_against_open(struct engine_against **out, struct engine *first,
                        struct engine *second, struct err *err);
void engine_against_close(struct engine_against *a); /* closes neither engine */
int engine_against_begin(struct engine_against *a, struct err *err);
int engine_against_end(struct engine_against *a, engine_batch batch, void *arg,
                       const struct engine_optim *optim, const struct engine_report *first,
                       struct err *err);

/*
 * Result of the steps so far, over all ranks.  compared: steps with a finite gradient.
 * largest: for exp_avg, which is linear in the gradient, the largest distance of a value from
 * the middle of its interval, over half of the interval's width; at most 1, and 0 where sums
 * are exact.
 */
struct engine_against_report {
    int64_t steps, compared;
    double largest;
};
int engine_against_report(struct engine_against *a, struct engine_against_report *out,
                          struct err *err);

/* Until the next call, micro-batches contribute the absolute values of their gradients, so that
   a step without optim computes the sum of them, for the bounds of engine_against. */
void engine_magnitudes(struct engine *e, int on);

#endif
