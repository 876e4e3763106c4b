/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CKPT_CKPT_WRITE_H
#define CKPT_CKPT_WRITE_H

#include "base/io.h"
#include "value/value_record.h"
#include "ckpt/ckpt.h"

/* The settings that all ranks writing one checkpoint agree on; all borrowed. */
struct ckpt_shape {
    const struct model *model; /* including units and its config */
    const struct layout *layout;
    const char *strategy; /* "IIG": informative; layout does not depend on it */
    int states;
    struct ckpt_state state[CKPT_STATES_MAX];
    int copies; /* number of copies of each file, accepted by ckpt_check_copies */
    int apart;  /* copies go to other folders; each of these has the small files once */
};

/* --- checkpoint of a run: each rank writes its shard, then one rank the manifest --- */

/* Copies elements [at.lo, at.hi) of a unit's state, in the state's type, to out. */
typedef int (*ckpt_fill)(void *arg, int unit, int state, struct range at, void *out,
                         struct err *err);

/*
 * Writes rank's shard file into the staging directory, synced unless shape->apart, or for k > 0
 * copy k of it.  Calls fill for at most CKPT_BLOCK_ELEMS elements at a time, always inside the
 * rank's G shard.  *entry is the file's part of the manifest, a line of JSON (mem_free); pass
 * NULL if not needed.
 */
int ckpt_write_shard(const struct io_out *dir, int rank, int k, const struct ckpt_shape *shape,
                     ckpt_fill fill, void *arg, char **entry, struct err *err);
/*
 * Writes config.json and manifest.json from the entries of all ranks, in rank order; with
 * shape->copies also copies of both and of source/ in copy-1 ... run: NULL without a run
 * (split). source: already in the folder; NULL: none.  Call it last, before committing the
 * folder.
 */
int ckpt_manifest_write(const struct io_out *dir, const struct ckpt_shape *shape,
                        const char *const *entry, const struct ckpt_run *run,
                        const struct ckpt_sources *source, struct err *err);

/* --- single files --- */

/*
 * A shard file being written.  The layout of its blocks is known before the first byte.  The
 * writer stores each block at its offset, in any order, and its checksum here.
 */
struct ckpt_shard {
    const struct ckpt_shape *shape; /* borrowed */
    int rank;
    struct ckpt_file file;
    int64_t blocks;
    struct ckpt_block *block; /* [blocks], owned */
};

void ckpt_shard_init(struct ckpt_shard *s, const struct ckpt_shape *shape, int rank);
void ckpt_shard_release(struct ckpt_shard *s);
/* The text of the file's header, [*bytes]; mem_free. */
void ckpt_shard_header(const struct ckpt_shard *s, char **text, int64_t *bytes);
/* The file's part of the manifest, a line of JSON; call when all checksums are set;
   mem_free. */
char *ckpt_shard_entry(const struct ckpt_shard *s);
/* Fields of struct ckpt_file, without its blocks */
extern const struct record ckpt_file_record[];
/* "shard-00007.safetensors" */
void ckpt_shard_name(int rank, char name[CKPT_FILE_NAME]);

/*
 * Allocates the bytes of a new file, so that a full disk fails at once.  Does nothing with
 * `holes`, or on file systems that cannot allocate.
 */
int ckpt_allocate(int fd, int64_t bytes, int holes, struct err *err);
/*
 * Creates a file at a path in dir->temp, writes its header and allocates the rest.  The caller
 * closes *fd.
 */
int ckpt_create_file(const struct io_out *dir, const char *path, const void *head,
                     int64_t head_bytes, int64_t bytes, int holes, int *fd, struct err *err);
/* Starts writing these bytes to the disk, so that fsync takes less time. */
void ckpt_flush(int fd, int64_t offset, int64_t bytes);

/* The small files, borrowed; source: already in dir->temp; NULL: none. */
struct ckpt_small {
    const char *config;
    const char *manifest;
    int64_t manifest_bytes;
    const struct ckpt_sources *source;
};
/* Writes config.json and manifest.json, and copies of both and of source/ into copy-1 ... */
int ckpt_put_small(const struct io_out *dir, int copies, const struct ckpt_small *what,
                   struct err *err);
/* The checkpoint's folder for files of this kind: "source/files", ... */
const char *ckpt_source_folder(enum ckpt_keep keep);
/* Copies a kept file from an undamaged copy to to/NAME, `to` in dir->temp; to NULL: to its
   place in a checkpoint. */
int ckpt_take_source(struct ckpt *c, const struct ckpt_source *s, const struct io_out *dir,
                     const char *to, struct err *err);
/*
 * Whether a name may be appended to a folder: relative, without empty, "." or ".." parts, at
 * most CKPT_DEPTH_MAX folders deep.
 */
int ckpt_name_ok(const char *name);

/* --- checksums --- */

/* XXH3-128 in canonical byte order, in hex. */
void ckpt_hash(const void *data, int64_t bytes, char hex[33]);
/* The same checksum in parts; ckpt_hash_end returns it and frees the state. */
void *ckpt_hash_begin(void);
void ckpt_hash_more(void *sum, const void *data, int64_t bytes);
void ckpt_hash_end(void *sum, char hex[33]);
/* Size and checksum of a file. */
int ckpt_hash_file(const char *path, const atomic_int *stop, int64_t *bytes, char hex[33],
                   struct err *err);
/*
 * ERR_INPUT if a file has another size, ERR_MISMATCH if it has another checksum; hash NULL:
 * compares the size alone.
 */
int ckpt_check_file(const char *path, int64_t bytes, const char *hash, const atomic_int *stop,
                    struct err *err);
/*
 * Copies an open file to a path in dir->temp, synced, with its permissions.  Sets is->bytes and
 * is->hash to those of the copied bytes.
 */
int ckpt_copy_file(int from, const struct io_out *dir, const char *to, const atomic_int *stop,
                   struct ckpt_source *is, struct err *err);

/* Sets err and returns -1 if *stop is not 0; stop may be NULL. */
int ckpt_stopped(const atomic_int *stop, struct err *err);

#endif
