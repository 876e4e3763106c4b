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
 *         shard-00002.safetensors        only those of this host's ranks, ...
 *         shard-00002.copy-00000...      ... and the copies that they hold
 *
 * Together the folders of all hosts are a checkpoint with copies.  There are at most two steps,
 * one of which is complete on all hosts.
 */
struct train;
struct train_source;

struct train_candidate { /* a local checkpoint on some host */
    int64_t step;
    char sum[33]; /* checksum of its manifest: tells branches of a run apart */
};

struct train_local {
    char id[17], *base;          /* id of the run; DIR/HOST.ID, owned, NULL: no run so far */
    int lock;                    /* on the first rank of a host; -1: none */
    struct world_peers peers;    /* all ranks, for copies */
    struct train_candidate *all; /* owned: as listed by each rank */
    struct train_candidate *candidate; /* [candidates], owned, newest first */
    int candidates;
    struct train_source *source; /* owned: the checkpoint being read; NULL: none */
    char from[160];              /* the one resumed from, for messages; "": none */
};

/* Collective, before states are read; does nothing without --local-save. */
int train_local_open(struct train *t, struct err *err);
/*
 * Collective, when this run owns its folder: makes, locks and clears the hosts' folders.
 * Without --local-save: invalidates local checkpoints of earlier runs in this folder.
 */
int train_local_begin(struct train *t, struct err *err);
/* First rank of a host: removes all complete and incomplete steps but the newest. */
int train_local_prune(struct train *t, struct err *err);
/* The run has ended well: removes all. */
void train_local_remove(struct train *t);
void train_local_close(struct train *t);

/*
 * train_find.c: collective.  list: finds the local checkpoints of all hosts; none without
 * --local-save.  open: opens one of them as *c, in place, until train_find_end.  Every shard
 * must be on some host of this run, or, for step `newest`, in the run's folder; returns 1 if
 * one is missing, or if the manifest is damaged, which is reported.
 */
int train_find_list(struct train *t, struct err *err);
int train_find_open(struct train *t, const struct train_candidate *want, int64_t newest,
                    struct ckpt *c, struct err *err);
void train_find_end(struct train *t);

#endif
