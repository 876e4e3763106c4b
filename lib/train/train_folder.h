/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRAIN_TRAIN_FOLDER_H
#define TRAIN_TRAIN_FOLDER_H

/* Inside train/: the folder of a run. */
#include "train/train_inside.h"

/*
 * In it: the log of a run that was begun anew there and came to no checkpoint; those of later
 * ones have a number of 8 digits between the two parts.
 */
#define TRAIN_LOG_FAILED    "log.failed.jsonl"
#define TRAIN_FAILED_BEFORE "log.failed-"
#define TRAIN_FAILED_BEHIND ".jsonl"

/* train_folder.c: rank 0's, the run's folder. */
/* Before anything in it is read: what a run begun anew in another's place left is settled. */
int train_folder_settle(struct train *t, struct err *err);
/* Makes and locks it; one that has a run, or is no run's, is refused. */
int train_folder_open(struct train *t, struct err *err);
/* The same questions of a folder that stays as it is. */
int train_folder_check(struct train *t, struct err *err);
/* "step-00000100": a checkpoint's folder. */
void train_folder_name(int64_t step, char name[40]);
/* The step of the checkpoint that `latest` leads to, or is to lead to; -1: not known. */
int64_t train_folder_latest(const struct train *t);
/* *step becomes that of the newest checkpoint before it, -1 where there is none. */
int train_folder_older(struct train *t, int64_t *step, struct err *err);
/* Whether it is the name of something that a run makes there and keeps, or of its half. */
int train_folder_owns(const char *name);
/* All that can fail before the first step has not: what is run is written down. */
int train_folder_begin(struct train *t, struct err *err);
/* `latest` is renamed into place: it is never absent. */
int train_folder_point(struct train *t, const char *name, struct err *err);
/*
 * Removes the checkpoint that another run left under a name that this one comes to.  Where
 * `latest` led to it, it leads to the one that was gone on with, if that is there.
 */
int train_folder_make_way(struct train *t, const char *name, struct err *err);
/* Removes checkpoints: older than the newest `keep`, and later than `step`. */
int train_folder_prune(struct train *t, int64_t keep, int64_t step, struct err *err);
/*
 * Closes it; one in which nothing has begun is as it was before.  `why`: the error that the run
 * ends with, to which is added where the log is that has no checkpoint; NULL: it ends well.
 */
void train_folder_close(struct train *t, struct err *why);

/* train_aside.c: rank 0's, with the folder locked: a new run in an old one's folder (--force).
 */
/* Where there is an old one, home is aside.  Collective. */
int train_aside_begin(struct train *t, struct err *err);
/* The new run's checkpoint `step` is in home: it takes the old one's place. */
int train_aside_end(struct train *t, const char *step, struct err *err);
/* Whether something is aside (1); needs no lock. */
int train_aside_is(const struct train *t, struct err *err);
/*
 * What is aside takes the old one's place if it had begun to, and else is removed (*gone), but
 * for its log: t->kept.
 */
int train_aside_settle(struct train *t, int *gone, struct err *err);
/* Adds to the error of a run that came to no checkpoint where its log is, if it has lines. */
void train_aside_tell(const struct train *t, struct err *why);

/*
 * train_gone.c: rank 0's, with the folder locked.  What is absent is gone.  `needed`: its name
 * is, and what cannot even be renamed is an error; else that stays, and is told at the end.
 */
int train_gone_take(struct train *t, const char *dir, const char *name, int needed,
                    struct err *err);
/* The first path BEFORE%08dBEHIND in dir, from `n` on, that is free; owned by the caller. */
char *train_gone_free(const char *dir, const char *before, const char *behind, int n,
                      struct err *err);
/* Tries again what could not be removed; the first that still cannot is in *stays. */
void train_gone_sweep(struct train *t, struct err *stays);
/* The same for the last time; what stays is said where the run ends well: an error has its
 * line. */
void train_gone_end(struct train *t, int well);

#endif
