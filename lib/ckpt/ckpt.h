/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CKPT_CKPT_H
#define CKPT_CKPT_H

#include <stdint.h>

#include "base/dtype.h"
#include "base/err.h"
#include "base/groups.h"
#include "ckpt/limits.h"
#include "layout/layout.h"
#include "model/model.h"

/*
 * A checkpoint: a folder written by n ranks and readable by any other number of them
 * (paro-checkpoint(5)).
 *
 *     manifest.json             written last: what is where, and the checksum of each block
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
 * The G shard lies inside what a rank holds under every letter, so each block is written once
 * and the work is spread evenly, whatever the strategy.  A BLOCK is the part of a G shard's
 * range inside one tensor, cut at CKPT_BLOCK_ELEMS; it is read whole and checked on every read.
 */
enum { CKPT_BLOCK_ELEMS = 4 << 20, CKPT_STATES_MAX = 8 };

struct ckpt_state {
    char name[16]; /* "params"; in a run's also "master", "exp_avg", ..: of what trains alone */
    enum dtype type;
};

/* Where a run stood. */
struct ckpt_run {
    int64_t step, tokens;
    int64_t position; /* of the data */
    uint64_t seed, data_sum;
    int64_t data_tokens, data_seq; /* that it was trained on; seq 0: nobody has told */
};

/* Elements that a state has of a unit: all of the params, else those that train. */
int64_t ckpt_state_elems(const struct model *m, int unit, const struct ckpt_state *state);

struct ckpt_block {
    int unit, state, file;
    int tensor;            /* the model's tensor it lies in */
    int64_t lo, hi;        /* elements of the unit */
    int64_t offset, bytes; /* in the file */
    char hash[33];         /* XXH3, 128 bits, in hex */
};

enum { CKPT_COPIES_MAX = 64, CKPT_FILE_NAME = 48 };

struct ckpt_file {
    char name[CKPT_FILE_NAME];
    int64_t bytes, header_bytes;
    char header_hash[33];
};

/* What is kept for merge. */
enum ckpt_keep {
    CKPT_KEEP_FILE,   /* a file as it was */
    CKPT_KEEP_HEADER, /* a weights file up to its data, which lies in the shards */
    CKPT_KEEP_REST    /* the data of those of its tensors that are no parameters */
};

struct ckpt_source {
    char *name; /* of the file, within the folder that was split; never leaves it */
    enum ckpt_keep keep;
    int64_t bytes; /* kept here */
    int64_t whole; /* of the file that was split: more than bytes of a header */
    char hash[33]; /* of the bytes kept */
};

struct ckpt_sources {
    int count;
    struct ckpt_source *item; /* [count] */
    const atomic_int *stop;   /* borrowed: asked while they are copied */
};

/* What was read from another copy because the one whose turn it was is damaged or gone. */
struct ckpt_healed {
    int64_t blocks, files; /* files: manifest.json, config.json, those of source/ */
    struct err first;      /* what was wrong with the first of them */
};

/* "3 blocks were read from copies, ...": a line for people; 0: there is none to tell. */
int ckpt_healed_print(const struct ckpt_healed *h, const char *dir, char *text, size_t room);

enum { CKPT_OPEN_MAX = 32 };

/* An open checkpoint; for one thread at a time.  Fields are for reading. */
struct ckpt {
    char *dir;
    struct model model;
    struct groups groups;
    char strategy[8];
    int states;
    struct ckpt_state state[CKPT_STATES_MAX];
    int has_run;
    struct ckpt_run run;
    struct ckpt_sources source; /* none in a run's checkpoint */
    int copies;                 /* of each file, beside it */
    int files;                  /* one per rank */
    struct ckpt_file *file;
    int64_t blocks;
    struct ckpt_block *block; /* by state, unit, lo: they tile every unit of every state */
    int64_t *first;           /* [states * units + 1] where those of (state, unit) begin */
    int manifest;             /* the copy whose manifest.json it is: 0 its own */
    int turn; /* set by the reader: which copy is read first, modulo their number */
    const atomic_int *stop;    /* borrowed: as the limits had it */
    struct ckpt_healed healed; /* so far: for the reader to tell */
    struct {
        int fd, number;
    } open[CKPT_OPEN_MAX];
    int64_t block_bytes; /* of the largest */
    void *buffer;        /* the block last read, checked; NULL before the first */
    int64_t cached;      /* its number, or -1 */
};

/*
 * Reads the manifest, or where that is damaged or gone a copy of it, and proves that it is
 * complete; the shards are opened when read.
 */
int ckpt_open(struct ckpt *c, const char *dir, struct err *err);
int ckpt_open_within(struct ckpt *c, const char *dir, const struct ckpt_limits *limits,
                     struct err *err); /* NULL: the usual ones */
void ckpt_close(struct ckpt *c);
/* Whether the folder has a manifest.json, or a copy of one. */
int ckpt_is(const char *dir);
/* The state's number, or -1. */
int ckpt_find_state(const struct ckpt *c, const char *name);
/*
 * The wanted ranges of a unit's state, one after the other, converted to `type`.  Any ranges:
 * who wrote them does not matter.  Every block touched is checked; where all copies
 * of one are damaged, ERR_MISMATCH names file, tensor and elements.
 */
int ckpt_read_ranges(struct ckpt *c, int unit, int state, const struct range *ranges, int n,
                     enum dtype type, void *out, struct err *err);
/* XXH3 over all blocks, what they are and hold: whether two ranks have opened the same. */
void ckpt_identity(const struct ckpt *c, char hash[33]);

#endif
