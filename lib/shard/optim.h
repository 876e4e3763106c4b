/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHARD_OPTIM_H
#define SHARD_OPTIM_H

#include "ckpt/st.h"
#include "model/model.h"

/*
 * An optimizer's state in one .safetensors file, for programs that have no other format:
 *
 *     NAME/master, NAME/exp_avg, NAME/exp_avg_sq   floats of the shape of NAME, which trains
 *     step, tokens                                 I64, one number each: where the run stood
 *
 * or in a checkpoint of another trainer (ckpt/foreign.h), whose parameters, if it has them, are
 * the master.
 */
enum { OPTIM_STATES = 3 };

struct optim {
    struct st st;              /* path NULL: not open */
    const struct model *model; /* borrowed */
    const struct st_tensor *
        *place; /* [tensors * OPTIM_STATES], owned; NULL: of what does not train */
    int64_t step, tokens;
};

const char *optim_state_name(int state); /* "master", "exp_avg", "exp_avg_sq" */

/*
 * The file, or folder, must have all states of all tensors that train, and no other keys but
 * states of tensors that do not.  The model must live as long.
 */
int optim_open(struct optim *o, const char *path, const struct ckpt_limits *limits,
               const struct model *m, struct err *err);
void optim_release(struct optim *o);
/* The file's tensor of that state; NULL: there is none. */
const struct st_tensor *optim_find(const struct optim *o, const struct model_tensor *t,
                                   int state);
/* Elements [first, first + count) of the state of the model's tensor t, in F32. */
int optim_read(const struct optim *o, const struct model_tensor *t, int state, int64_t first,
               int64_t count, float *out, struct err *err);

#endif
