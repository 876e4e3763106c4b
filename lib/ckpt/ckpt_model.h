/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CKPT_CKPT_MODEL_H
#define CKPT_CKPT_MODEL_H

#include "ckpt/weights.h"

/*
 * Weights for a model of their network, of which another part may train: units of a checkpoint
 * hold the same tensors in another order.
 *
 *     checkpoint's unit   | a b c d |                all trains
 *     model's unit        | c A B | a b d |          adapters A B beside a, or c alone trains
 *
 * A folder or a file has each tensor by its name, and of states the params alone, number 0.
 *
 * What the state has not (an adapter, a moment of what did not train) is asked of `absent`:
 * elements [first, first + count) of the tensor, in `type`.
 */
typedef int (*ckpt_absent)(void *arg, const struct model_tensor *t, int64_t first,
                           int64_t count, enum dtype type, void *out, struct err *err);
struct ckpt_view {
    struct weights *from;      /* borrowed */
    const struct model *model; /* borrowed; ckpt_check_model was content with it */
    ckpt_absent absent;        /* NULL: nothing is */
    void *arg;
};
/*
 * ERR_MISMATCH naming the folder and a key or tensor: another network, adapters of another
 * rank or alpha, or adapters in the checkpoint that the model has not, whose training would be
 * lost.  The model must live as long as the weights.
 */
int ckpt_check_model(struct weights *w, const struct model *m, struct err *err);
/*
 * Elements in ranges of the model's unit, one after the other, converted to `type`.  Only they
 * are read, and of a checkpoint the blocks in which they lie.
 */
int ckpt_read_model(const struct ckpt_view *v, int unit, int state, const struct range *ranges,
                    int n, enum dtype type, void *out, struct err *err);
/* Where what is read at once with element `at` ends: a block's end, or the tensor's. */
int64_t ckpt_model_end_at(const struct ckpt_view *v, int unit, int state, int64_t at);

#endif
