/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRAIN_TRAIN_LOCAL_H
#define TRAIN_TRAIN_LOCAL_H

#include "ckpt/ckpt.h"
#include "world/world_service.h"

/*
 * Inside train/: keeps checkpoints in a folder of each host (--local-save).
 *
 *     DIR/HOST.ID/.lock                  HOST is this host's name, ID the run's, which is the
 *     DIR/HOST.ID/step-00000040/           first line of the .lock in the run's folder
 *         manifest.json, config.json     of the whole checkpoint (paro-checkpoint(5))
 *         shard-00002.safetensors        of the ranks of this host alone, ...
 *         shard-00002.copy-00000...      ... and the copies that they hold
 *
 * Together the folders of all hosts are a checkpoint with copies.  At most two steps are there,
 * one of which is complete on all hosts.
 */
struct train;
struct train_source;

struct train_candidate { /* a local checkpoint that some host has */
    int64_t step;
    char sum[33]; /* of its manifest: branches of a run differ */
};

struct train_local {
    char id[17], *base; /* of the run; DIR/HOST.ID, owned, NULL: no run so far */
    int lock;           /* of the first rank of a host; -1: none */
    struct world_peers peers; /* all ranks, for copies */
    struct train_candidate *all;       /* owned: as each rank has listed them */
    struct train_candidate *candidate; /* [candidates], owned, newest first */
    int candidates;
    struct train_source *source; /* owned: of the one that is read; NULL: none */
    char from[160];              /* that was resumed from, for people; "": none */
};

/* Collective, before states are read; nothing without --local-save. */
int train_local_open(struct train *t, struct err *err);
/*
 * Collective, when the run's folder is this run's: makes, locks and clears the hosts' folders.
 * Without --local-save: what hosts keep of earlier runs in this folder is not taken any more.
 */
int train_local_begin(struct train *t, struct err *err);
/* The first rank of a host: but for the newest, no step and no half of one stays. */
int train_local_prune(struct train *t, struct err *err);
/* The run has ended well: nothing stays. */
void train_local_remove(struct train *t);
void train_local_close(struct train *t);

/*
 * train_find.c: collective.  list: what all hosts have; nothing without --local-save.  open: *c
 * reads one of them, from where it is, until train_find_end.  Every shard is on a host that is
 * here, or, of step `newest`, in the run's folder; 1: not so, or the manifest is damaged, which
 * is reported.
 */
int train_find_list(struct train *t, struct err *err);
int train_find_open(struct train *t, const struct train_candidate *want, int64_t newest,
                    struct ckpt *c, struct err *err);
void train_find_end(struct train *t);

#endif
