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
/* Before anything in it is read: its owner, and what a run begun anew in its place left. */
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
/*
 * ".NAME.old.paro-tmp", where what is in path goes to make way, until it is removed; mem_free.
 */
char *train_folder_old(const char *path);
/* Whether it is the name of something that a run makes there, or of the half of one. */
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

/*
 * train_anew.c: a new run in an old one's folder (--force).  settle: what such a run left that
 * was killed is finished or removed, but for its log; of rank 0, before anything is read.
 * begin: where there is an old one, home is a new folder (collective).  end: the new run's
 * checkpoint `step` is there, and its folder takes the old one's place.  close: of one that
 * came to none the log is kept, and `why` (NULL: it ends well) says where.
 */
int train_anew_settle(struct train *t, struct err *err);
int train_anew_begin(struct train *t, struct err *err);
int train_anew_end(struct train *t, const char *step, struct err *err);
void train_anew_close(struct train *t, struct err *why);

#endif
