/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CKPT_CKPT_H
#define CKPT_CKPT_H

#include <stdint.h>

#include "base/dtype.h"
#include "base/err.h"
#include "base/groups.h"
#include "base/io.h"
#include "ckpt/ckpt_limits.h"
#include "layout/layout.h"
#include "model/model.h"

/*
 * Reads a checkpoint: a folder written by n ranks and readable by any other number of them
 * (paro-checkpoint(5)).
 *
 *     manifest.json             written last: the place and checksum of each block
 *     config.json               the model's, as it was given
 *     shard-RRRRR.safetensors   one per rank: for each unit and state its G shard, packed
 *     source/                   what merge needs to give back the folder that was split
 *
 * With copies, K of them:
 *
 *     shard-HHHHH.copy-RRRRR.safetensors   rank R's shard again, byte for byte, for rank H to
 *                                          hold (ckpt_copy_holder)
 *     copy-1/ ... copy-K/                  manifest.json, config.json and source/ again
 *
 * A UNIT is the tensors of a layer, or of the embedding, flattened and sharded as one vector
 * (model/model.h); a STATE is one kind of value per parameter, such as "params" or "exp_avg". A
 * rank's G shard is its share of a unit when the unit is split over all ranks.  Layouts N, I
 * and G all contain it, so whatever the strategy every block is written once and the work is
 * even.  (Of a state that each group has of its own, a rank writes its I shard.)  A BLOCK is
 * the part of a shard's range inside one tensor, at most CKPT_BLOCK_ELEMS elements; every read
 * reads whole blocks and compares their checksums.
 */
enum { CKPT_BLOCK_ELEMS = 4 << 20, CKPT_STATES_MAX = 8 };

struct ckpt_state {
    /* "params"; in a run's checkpoint also "master", "exp_avg", ..., which hold trained
       parameters only */
    char name[16];
    enum dtype type;
    /* Above 1: this many groups have one of their own, one after the other: element x of group
       k is k * trained + x.  Such are the moments with periods (paro-method(7), PERIODS). */
    int groups;
};

/* Progress of a training run. */
struct ckpt_run {
    int64_t step, tokens;
    int64_t position; /* position in the data */
    uint64_t seed, data_sum;
    /* The data that the run was trained on: tokens, and sequence length (0: unknown) */
    int64_t data_tokens, data_seq;
};

/* Elements of a unit in a state: of all parameters in "params", of the trained ones in other
   states, once for each group that has its own. */
int64_t ckpt_state_elems(const struct model *m, int unit, const struct ckpt_state *state);
/* The element of the unit that an element of a state belongs to. */
int64_t ckpt_element(const struct model *m, int unit, const struct ckpt_state *state,
                     int64_t at);

struct ckpt_block {
    int unit, state, file;
    int tensor;            /* index of the model's tensor that contains the block */
    int64_t lo, hi;        /* elements [lo, hi) of the unit */
    int64_t offset, bytes; /* position and size in the file */
    char hash[33];         /* XXH3-128 of the block, in hex */
};

enum { CKPT_COPIES_MAX = 64, CKPT_FILE_NAME = 48 };

struct ckpt_file {
    char name[CKPT_FILE_NAME];
    int64_t bytes, header_bytes;
    char header_hash[33];
};

/* The kinds of entries that source/ keeps for merge. */
enum ckpt_keep {
    CKPT_KEEP_FILE,   /* a complete file */
    CKPT_KEEP_HEADER, /* the header of a weights file; its data lies in the shards */
    CKPT_KEEP_REST    /* data of those of its tensors that are not parameters */
};

struct ckpt_source {
    /* The file's name, relative to the folder that was split; checked to stay inside it */
    char *name;
    enum ckpt_keep keep;
    int64_t bytes; /* bytes kept here */
    int64_t whole; /* size of the original file: more than `bytes` for CKPT_KEEP_HEADER */
    char hash[33]; /* XXH3-128 of the bytes kept */
};

struct ckpt_sources {
    int count;
    struct ckpt_source *item; /* [count] */
    const atomic_int *stop;   /* borrowed: polled while files are copied; not 0 aborts */
};

/* Counts the blocks and files read from another copy because the first copy is damaged or
   missing. */
struct ckpt_repaired {
    int64_t blocks, files; /* files: manifest.json, config.json, files of source/ */
    struct err first;      /* the error that the first of them caused */
};

/* Writes a line for people to text, "3 blocks were read from copies, ...", and returns its
   length, as snprintf does; returns 0 and leaves text alone if there were no repairs. */
int ckpt_repaired_print(const struct ckpt_repaired *h, const char *dir, char *text,
                        size_t space);

/*
 * Reads block b from one of several places, for a checkpoint whose files are in more than one
 * folder.  Called with attempt 0, the closest place, to c->copies until one succeeds, if turn
 * is 0.  The caller compares the checksum.  ERR_ABSENT: this place has no such block, the next
 * is tried.  ERR_PEER, or scarce memory: none is tried after it.
 */
typedef int (*ckpt_fetch)(void *arg, const struct ckpt_block *b, int attempt, void *out,
                          struct err *err);

/* An open checkpoint, for one thread at a time.  Fields are read-only unless marked "set by the
   reader". */
struct ckpt {
    char *dir;
    struct model model;
    struct groups groups;
    char strategy[8];
    int states;
    struct ckpt_state state[CKPT_STATES_MAX];
    int has_run;
    struct ckpt_run run;
    struct ckpt_sources source; /* the files kept in source/ */
    int copies;                 /* number of copies of each file, besides the original */
    int files;                  /* one per rank */
    struct ckpt_file *file;
    int64_t blocks;
    /* Sorted by state, unit, lo; the blocks tile every unit of every state */
    struct ckpt_block *block;
    /* [states * units + 1]: index of the first block of (state, unit) */
    int64_t *first;
    /* The copy whose manifest.json was used; 0: the checkpoint's own */
    int manifest;
    int turn; /* set by the reader: number of the copy to read first, modulo copies + 1 */
    const atomic_int *stop; /* borrowed from the limits; reads of ranges do not poll it */
    struct ckpt_repaired repaired; /* repairs so far, for the caller to report */
    struct io_kept open;           /* the open files, for each file and copy */
    ckpt_fetch fetch;              /* set by the reader: replaces the files in dir; or NULL */
    void *fetch_arg;
    int64_t block_bytes; /* bytes of the largest block */
    void *buffer;        /* the last block read, checked; NULL before the first read */
    int64_t cached;      /* number of the block in `buffer`, or -1 */
};

/*
 * Opens a checkpoint: reads its manifest, or a copy of it if that is damaged or missing, and
 * proves that the blocks are complete.  Shards are opened when they are read.  limits NULL:
 * ckpt_limits_usual.  On success the caller closes c with ckpt_close.
 */
int ckpt_open(struct ckpt *c, const char *dir, const struct ckpt_limits *limits,
              struct err *err);
void ckpt_close(struct ckpt *c);
/*
 * Opens a checkpoint from the text of a manifest that was not read from dir, and the text of
 * its config.json; for use with c->fetch.
 */
int ckpt_open_text(struct ckpt *c, const char *dir, const char *config, const char *text,
                   int64_t bytes, struct err *err);
/* Whether the folder contains a manifest.json, or a copy of one. */
int ckpt_is(const char *dir);
int ckpt_expect(const char *dir, struct err *err); /* sets an error if ckpt_is is 0 */
/* The number of a state, or -1. */
int ckpt_find_state(const struct ckpt *c, const char *name);
/*
 * Reads elements [at.lo, at.hi) of a unit's state into out, converted to `type`.  Any range is
 * allowed, regardless of the ranks that wrote it.  Every block touched is checked; if no copy
 * of a block is good, err is that of the copy tried last: ERR_MISMATCH names file, tensor and
 * elements if that one is damaged.  The range must lie inside the state.  After a failure a
 * part of out may be written.
 */
int ckpt_read_range(struct ckpt *c, int unit, int state, struct range at, enum dtype type,
                    void *out, struct err *err);
/* XXH3 over unit, state, range and checksum of all blocks, whatever file they are in, to
   compare the checkpoints that two ranks have opened. */
void ckpt_identity(const struct ckpt *c, char hash[33]);

/* --- internals of an open checkpoint --- */

/* The index of the model's tensor that contains element `at` of the unit. */
int ckpt_tensor_at(const struct model *m, int unit, int64_t at);
/* For writing: the end of a block of a state that begins at lo, in a range that ends at hi. */
int64_t ckpt_block_end(const struct model *m, int unit, const struct ckpt_state *state,
                       int64_t lo, int64_t hi);
/* From the manifest: the end of the block that contains element `at` of a unit's state. */
int64_t ckpt_end_at(const struct ckpt *c, int unit, int state, int64_t at);
/* Reads copy k of block b into c->buffer and checks it. */
int ckpt_load_copy(struct ckpt *c, int64_t b, int k, struct err *err);
/* Sets ERR_MISMATCH with file, tensor and elements: the bytes read from `path` have the
   checksum `hash`, not the block's. */
int ckpt_say_damaged(const struct ckpt *c, const struct ckpt_block *b, const char *path,
                     const char *hash, struct err *err);
/* As ckpt_open; with `doubt` also uses the copies to find out whether the checkpoint's own
   manifest belongs to another run. */
int ckpt_open_any(struct ckpt *c, const char *dir, const struct ckpt_limits *limits, int doubt,
                  struct err *err);
/*
 * Call after a failed read: if the checkpoint's own manifest belongs to another run, replaces
 * err by that error, else keeps err.  Returns -1.
 */
int ckpt_blame(struct ckpt *c, struct err *err);
/*
 * Fills c from the text of a manifest, except for fields of an open checkpoint; `path` is for
 * messages.  c->model has been read from `config`: ERR_MISMATCH if the manifest has a different
 * checksum of the config.
 */
int ckpt_manifest_parse(struct ckpt *c, const char *path, const char *config,
                        const struct ckpt_limits *limits, const char *text, int64_t bytes,
                        struct err *err);

/* --- copies --- */

/* ERR_INPUT if there are more copies than other ranks, or than CKPT_COPIES_MAX. */
int ckpt_check_copies(const struct groups *g, int copies, struct err *err);
/*
 * The rank that holds copy k of rank's shard; k = 0: rank itself.  The holders of copies 0 ...
 * K are all different, and lie in different groups while K < groups, so that no data
 * is lost with any K of these ranks (or groups).
 */
int ckpt_copy_holder(const struct groups *g, int rank, int k);
/* The path of copy k (0: the original) of rank's shard in dir; mem_free. */
char *ckpt_shard_path(const char *dir, const struct groups *g, int rank, int k);
/* dir/name, or for k > 0 dir/copy-k/name; mem_free. */
char *ckpt_small_path(const char *dir, int k, const char *name);
/* The index of the file of that name, or `count`. */
int ckpt_source_number(const struct ckpt_sources *list, const char *name);
/*
 * Finds an undamaged copy of a kept file and returns its path (mem_free). Counts a repair if it
 * is not the original.  If there is none, err is the error of the original.
 */
int ckpt_find_source(struct ckpt *c, const struct ckpt_source *s, char **path, struct err *err);
/* Adds files or blocks that were read from another copy; cause: the damage of the first. */
void ckpt_repaired_add(struct ckpt_repaired *h, int64_t blocks, int64_t files,
                       const struct err *cause);

#endif
