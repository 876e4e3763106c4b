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
    char name[16]; /* "params"; in a run's also "master", "exp_avg", ..: of trained ones only */
    enum dtype type;
};

/* How far a run is. */
struct ckpt_run {
    int64_t step, tokens;
    int64_t position; /* of the data */
    uint64_t seed, data_sum;
    int64_t data_tokens, data_seq; /* that it was trained on; seq 0: not known */
};

/* Elements of a unit in a state: of params all, of others those that train. */
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

/* The kinds of entries that source/ keeps for merge. */
enum ckpt_keep {
    CKPT_KEEP_FILE,   /* a file as it was */
    CKPT_KEEP_HEADER, /* a weights file up to its data, which lies in the shards */
    CKPT_KEEP_REST    /* the data of those of its tensors that are no parameters */
};

struct ckpt_source {
    char *name; /* of the file, within the folder that was split; never leaves it */
    enum ckpt_keep keep;
    int64_t bytes; /* kept here */
    int64_t whole; /* of the file that was split: more than `bytes` for CKPT_KEEP_HEADER */
    char hash[33]; /* of the bytes kept */
};

struct ckpt_sources {
    int count;
    struct ckpt_source *item; /* [count] */
    const atomic_int *stop;   /* borrowed: asked while they are copied */
};

/* The blocks and files read from another copy because the first one is damaged or gone. */
struct ckpt_repaired {
    int64_t blocks, files; /* files: manifest.json, config.json, those of source/ */
    struct err first;      /* the error in the first of them */
};

/* "3 blocks were read from copies, ...": a line for people; 0: nothing was healed. */
int ckpt_repaired_print(const struct ckpt_repaired *h, const char *dir, char *text,
                        size_t space);

/*
 * Reads a block of a checkpoint whose files are in more places than one folder: attempt 0 from
 * the nearest one, 1 from the next, ...; its checksum is for the caller.  ERR_ABSENT: there are
 * no more.
 */
typedef int (*ckpt_fetch)(void *arg, const struct ckpt_block *b, int attempt, void *out,
                          struct err *err);

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
    int turn; /* set by the reader: the copy that is read first, modulo copies + 1 */
    const atomic_int *stop;        /* borrowed: as the limits had it */
    struct ckpt_repaired repaired; /* so far: for the reader to report */
    struct io_kept open;           /* of the files' copies, file by file */
    ckpt_fetch fetch;              /* set by the reader: instead of the files in dir; or NULL */
    void *fetch_arg;
    int64_t block_bytes; /* of the largest */
    void *buffer;        /* the block last read, checked; NULL before the first */
    int64_t cached;      /* its number, or -1 */
};

/*
 * Reads the manifest, or where that is damaged or gone a copy of it, and proves that it is
 * complete; the shards are opened when read.
 */
int ckpt_open(struct ckpt *c, const char *dir, const struct ckpt_limits *limits,
              struct err *err); /* NULL: the usual ones */
void ckpt_close(struct ckpt *c);
/*
 * By the text of a manifest that is not read from dir, of a model with this config; for
 * c->fetch.
 */
int ckpt_open_text(struct ckpt *c, const char *dir, const char *config, const char *text,
                   int64_t bytes, struct err *err);
/* Whether the folder has a manifest.json, or a copy of one. */
int ckpt_is(const char *dir);
int ckpt_expect(const char *dir, struct err *err); /* an error unless it is */
/* The state's number, or -1. */
int ckpt_find_state(const struct ckpt *c, const char *name);
/*
 * Elements of a unit's state, converted to `type`.  Any range: who wrote them does not matter.
 * Every block touched is checked; where all copies of one are damaged, ERR_MISMATCH names file,
 * tensor and elements.
 */
int ckpt_read_range(struct ckpt *c, int unit, int state, struct range at, enum dtype type,
                    void *out, struct err *err);
/* XXH3 over all blocks, what they are and hold: whether two ranks have opened the same. */
void ckpt_identity(const struct ckpt *c, char hash[33]);

/* --- inside an open one --- */

/* The model's number of the tensor in which element `at` of the unit lies. */
int ckpt_tensor_at(const struct model *m, int unit, int64_t at);
/* To write: the end of a block that begins at lo, in a range that ends at hi. */
int64_t ckpt_block_end(const struct model *m, int unit, int64_t lo, int64_t hi);
/* From the manifest: the end of the block in which element `at` of a unit's state lies. */
int64_t ckpt_end_at(const struct ckpt *c, int unit, int state, int64_t at);
/* Reads copy k of block b into c->buffer and checks it. */
int ckpt_load_copy(struct ckpt *c, int64_t b, int k, struct err *err);
/* ERR_MISMATCH naming file, tensor and elements: `hash`, of what path has, is not the block's.
 */
int ckpt_say_damaged(const struct ckpt *c, const struct ckpt_block *b, const char *path,
                     const char *hash, struct err *err);
/* ckpt_open; doubt: also find out whether its own manifest is another run's, by the copies. */
int ckpt_open_any(struct ckpt *c, const char *dir, const struct ckpt_limits *limits, int doubt,
                  struct err *err);
/*
 * After a failed read: if the checkpoint's own manifest belongs to another run, err becomes
 * that, else it stays.  Returns -1.
 */
int ckpt_blame(struct ckpt *c, struct err *err);
/*
 * Fills c from the text of a manifest, but for what only an open checkpoint has; `path` is for
 * messages.  c->model has been read from `config`: ERR_MISMATCH where the manifest has another
 * checksum of that.
 */
int ckpt_manifest_parse(struct ckpt *c, const char *path, const char *config,
                        const struct ckpt_limits *limits, const char *text, int64_t bytes,
                        struct err *err);

/* --- copies --- */

/*
 * ERR_INPUT where there are more copies than other ranks, or than CKPT_COPIES_MAX.
 */
int ckpt_check_copies(const struct groups *g, int copies, struct err *err);
/*
 * The rank that holds copy k of rank's shard; k = 0: rank.  Those of 0 ... K are all different,
 * and of different groups while K < groups: losing any K of them loses nothing.
 */
int ckpt_copy_holder(const struct groups *g, int rank, int k);
/* The file in dir that is copy k of rank's shard, 0: its own; mem_free. */
char *ckpt_shard_path(const char *dir, const struct groups *g, int rank, int k);
/* dir/name, or (k) dir/copy-k/name; mem_free. */
char *ckpt_small_path(const char *dir, int k, const char *name);
/* The number of the file of that name, or `count`. */
int ckpt_source_number(const struct ckpt_sources *list, const char *name);
/*
 * The path (mem_free) of a good copy of a kept file, counted in `healed` unless it is the
 * first; else the error of the first.
 */
int ckpt_find_source(struct ckpt *c, const struct ckpt_source *s, char **path, struct err *err);
/* Counts files or blocks that were read from another copy; cause: the damage of the first. */
void ckpt_repaired_add(struct ckpt_repaired *h, int64_t blocks, int64_t files,
                       const struct err *cause);

#endif
