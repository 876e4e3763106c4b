/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ENGINE_ENGINE_PROOF_H
#define ENGINE_ENGINE_PROOF_H

#include "engine/engine.h"

/* That the engine computes what plain data parallelism would: every function is collective. */

/*
 * engine_proof.c.  The audit: every element of every state is held by exactly the ranks its
 * letter says, as the engine has placed it (not as layout computes it): N by each rank, I by
 * one rank of each group, G by one rank.  Collective; ERR_MISMATCH names state, unit, range.
 */
int engine_audit(struct engine *e, struct err *err);
/*
 * A hash of parameters, master and moments of all ranks, each element once, whatever the
 * layout: equal states, equal hashes.  Collective; ERR_MISMATCH when two copies of one state
 * differ (named: state and unit).
 */
int engine_hash(struct engine *e, uint64_t *hash, struct err *err);

/*
 * engine_against.c: a second engine, of another strategy, on the same ranks and data.  Before
 * each step it takes over the first one's states; after it, the first one's are compared with
 * what any order of sums could have made of them, in interval arithmetic over the gradient
 * (paro-method(7), STEP; the bound is derived in the file).  Where both are exact, they run
 * side by side and every bit has to agree.  ERR_MISMATCH names tensor, range and values.
 */
struct engine_against;
int engine_against_open(struct engine_against **out, struct engine *first,
                        struct engine *second, struct err *err);
void engine_against_close(struct engine_against *a); /* neither engine */
int engine_against_begin(struct engine_against *a, struct err *err);
int engine_against_end(struct engine_against *a, engine_batch batch, void *arg,
                       const struct engine_optim *optim, const struct engine_report *first,
                       struct err *err);

/*
 * Result of the steps so far, on all ranks.  compared: those whose gradient was finite.
 * largest: of exp_avg, which is linear in the gradient, the distance of a value from the middle
 * of its tolerance over half of its width; 1 is the most that is allowed, 0 where sums are
 * exact.
 */
struct engine_against_report {
    int64_t steps, compared;
    double largest;
};
int engine_against_report(struct engine_against *a, struct engine_against_report *out,
                          struct err *err);

/* Until the next call, micro-batches hand in the absolute values of their gradients, so that a
   step without optim leaves the sum of them: what the bounds of engine_against want. */
void engine_magnitudes(struct engine *e, int on);

#endif
