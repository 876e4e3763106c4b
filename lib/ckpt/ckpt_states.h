/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CKPT_CKPT_STATES_H
#define CKPT_CKPT_STATES_H

#include "ckpt/ckpt_weights.h"

/*
 * Reads the initial states of a run, for the engine: weights of the model's network, of which
 * other parameters may have been trained, or initial values.  Units of a checkpoint hold the
 * same tensors, but in another order.
 *
 *     checkpoint's unit   | a b c d |                all trains
 *     model's unit        | c A B | a b d |          adapters A B of a, or c alone trains
 *
 * A folder or a file has tensors by name, and only the state "params", number 0.
 */
struct states {
    struct weights *weights;   /* borrowed; NULL: use initial values */
    const struct model *model; /* borrowed; states_check_model has accepted it */
    /* State numbers in the weights: parameters (or master), exp_avg, exp_avg_sq */
    int state[4];  /* and outer momentum; -1: the weights lack it */
    int group;     /* whose moments are read, if the weights have those of groups */
    int params;    /* number of the state "params" in the weights */
    uint64_t seed; /* seed of initial values */
    int threads;   /* threads that generate them; 0: one */
    /* Owned (states_release): for a sparse matrix with dense weights, the values of its initial
       mask, and the mask. */
    const struct model_tensor *matrix;
    float *value, *mask;
};
void states_release(struct states *s);

/*
 * ERR_MISMATCH naming folder and key if two readings of a config.json describe different
 * networks.  They must also agree in settings that do not show in the tensors' shapes.
 */
int states_check_network(const char *folder, const struct model *own, const struct model *plan,
                         struct err *err);
/* ERR_MISMATCH naming the folder if `own` and the plan's model train different parameters. */
int states_check_trains(const char *folder, const struct model *own, const struct model *plan,
                        struct err *err);
/*
 * ERR_MISMATCH naming the folder and a key or tensor: another network, adapters of another rank
 * or alpha, another sparse model, or adapters or masks in the checkpoint that the model lacks
 * and whose training would be lost.  The model must outlive the weights.
 */
int states_check_model(struct weights *w, const struct model *m, struct err *err);
/*
 * Reads elements of the model's unit as f32; state 0: parameters, 1: exp_avg, 2: exp_avg_sq, 3:
 * outer momentum.
 * Reads only these elements; of a checkpoint the blocks that contain them; of dense weights
 * that become sparse the whole matrix, whose largest values become active.  Missing states: a
 * master is copied from the parameters, a moment is 0, and tensors in no state (adapters) get
 * initial values.  states is a struct states.
 */
int states_read(void *states, int unit, int state, struct range at, float *out,
                struct err *err);
/* The end of the range that is read at once with element `at`: the end of a block or of the
   tensor. */
int64_t states_end(void *states, int unit, int state, int64_t at);

#endif
