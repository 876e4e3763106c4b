/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRAIN_TRAIN_FOLDER_H
#define TRAIN_TRAIN_FOLDER_H

/* Inside train/: the folder of a run. */
#include "train/train_inside.h"

/* train_folder.c: rank 0's, the run's folder. */
/* Before anything in it is read: what a run begun anew in another's place left is settled. */
int train_folder_settle(struct train *t, struct err *err);
/* Makes and locks it; one that has a run, or is no run's, is refused. */
int train_folder_open(struct train *t, struct err *err);
/* Whether it is the name of something that a run makes there and keeps, or of its half. */
int train_folder_owns(const char *name);
/* All that can fail before the first step has not: what is run is written down. */
int train_folder_begin(struct train *t, struct err *err);
/* `latest` is renamed into place: it is never absent. */
int train_folder_point(struct train *t, const char *name, struct err *err);
/* Removes checkpoints: older than the newest `keep`, and later than `step`. */
int train_folder_prune(struct train *t, int64_t keep, int64_t step, struct err *err);
/* Closes it; one in which nothing has begun is as it was before. */
void train_folder_close(struct train *t);

/* train_aside.c: rank 0's, with the folder locked: a new run in an old one's folder (--force).
 */
/* Where there is an old one, home is aside.  Collective. */
int train_aside_begin(struct train *t, struct err *err);
/* The new run's checkpoint `step` is in home: it takes the old one's place. */
int train_aside_end(struct train *t, const char *step, struct err *err);
/* Whether something is aside (1); needs no lock. */
int train_aside_is(const struct train *t, struct err *err);
/* What is aside takes the old one's place if it had begun to, and else is removed (*gone). */
int train_aside_settle(struct train *t, int *gone, struct err *err);

#endif
