/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CKPT_CKPT_STATES_H
#define CKPT_CKPT_STATES_H

#include "ckpt/ckpt_weights.h"

/*
 * Reads the states that a run begins with, for the engine: weights of the model's network, of
 * which another part may have been trained, or first values.  Units of a checkpoint hold the
 * same tensors in another order.
 *
 *     checkpoint's unit   | a b c d |                all trains
 *     model's unit        | c A B | a b d |          adapters A B beside a, or c alone trains
 *
 * A folder or a file has each tensor by its name, and of states the params alone, number 0.
 */
struct states {
    struct weights *weights;   /* borrowed; NULL: first values */
    const struct model *model; /* borrowed; states_check_model was content with it */
    int state[3];              /* of the weights: parameters (or master), exp_avg, exp_avg_sq */
    int params;                /* of the weights */
    uint64_t seed;             /* of first values */
    int threads;               /* that make them; 0: one */
    /* Owned (states_release): of a sparse matrix whose weights are whole, the values of its
       first mask, and the mask. */
    const struct model_tensor *matrix;
    float *value, *mask;
};
void states_release(struct states *s);

/*
 * ERR_MISMATCH naming folder and key when two readings of a config.json are not of one network:
 * they must agree where the tensors' shapes do not show it, too.
 */
int states_check_network(const char *folder, const struct model *own, const struct model *plan,
                         struct err *err);
/* ERR_MISMATCH naming the folder when `own` and the plan's model do not train the same. */
int states_check_trains(const char *folder, const struct model *own, const struct model *plan,
                        struct err *err);
/*
 * ERR_MISMATCH naming the folder and a key or tensor: another network, adapters of another
 * rank or alpha, another sparse model, or adapters or masks in the checkpoint that the model
 * lacks, whose training would be lost.  The model must live as long as the weights.
 */
int states_check_model(struct weights *w, const struct model *m, struct err *err);
/*
 * Elements of the model's unit as f32; state 0 parameters, 1 exp_avg, 2 exp_avg_sq.  Only they
 * are read, and of a checkpoint the blocks in which they lie; of whole weights that become
 * sparse the matrix, whose largest values are active then.  What the state lacks: a master is
 * the parameters, a moment 0, and what is in no state (an adapter) has its first values.
 * states is a struct states.
 */
int states_read(void *states, int unit, int state, struct range at, float *out,
                struct err *err);
/* Where what is read at once with element `at` ends: a block's end, or the tensor's. */
int64_t states_end(void *states, int unit, int state, int64_t at);

#endif
