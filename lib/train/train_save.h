/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRAIN_TRAIN_SAVE_H
#define TRAIN_TRAIN_SAVE_H

#include "train/train_inside.h"

/*
 * Checkpoints that are written while the run continues.  All but flag and advance are
 * collective.
 */
int train_save_open(struct train *t, struct err *err); /* once the engine is there */
/* One of the step that is done begins.  Without async_save it is there when this returns. */
int train_save_begin(struct train *t, struct err *err);
/* What this rank tells in the exchange; and what follows from what all told. */
int64_t train_save_flag(struct train *t);
void train_save_advance(struct train *t, int64_t flags);
/* The end of a run: all that is in flight is there, and one of the last step. */
int train_save_finish(struct train *t, struct err *err);
int64_t train_save_bytes(const struct train *t); /* of the copy */
/* Rank 0: nothing that is in flight moves `home`. */
void train_save_still(struct train *t);
void train_save_close(struct train *t);

#endif
