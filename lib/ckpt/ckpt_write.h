/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CKPT_CKPT_WRITE_H
#define CKPT_CKPT_WRITE_H

#include "base/io.h"
#include "value/value_record.h"
#include "ckpt/ckpt.h"

/* The settings that all ranks writing one checkpoint agree on; all borrowed. */
struct ckpt_shape {
    const struct model *model; /* with units and its config */
    const struct layout *layout;
    const char *strategy; /* "IIG": for people; it places nothing */
    int states;
    struct ckpt_state state[CKPT_STATES_MAX];
    int copies; /* of each file, beside it: ckpt_check_copies was content */
    int apart;  /* they are in other folders, each of which has the small files once */
};

/* --- a run's: each rank its shard, then one the manifest --- */

/* Puts elements [at.lo, at.hi) of a unit's state, in the state's type, into out. */
typedef int (*ckpt_fill)(void *arg, int unit, int state, struct range at, void *out,
                         struct err *err);

/*
 * Writes rank's file into the temporary, synced unless copies are apart, or (k) copy k of it.
 * Asks fill for at most CKPT_BLOCK_ELEMS elements at a time, always inside the rank's G shard.
 * *entry is the file's part of the manifest, a line of JSON, owned by the caller (mem_free);
 * NULL: nobody wants it.
 */
int ckpt_write_shard(const struct io_out *dir, int rank, int k, const struct ckpt_shape *shape,
                     ckpt_fill fill, void *arg, char **entry, struct err *err);
/*
 * Writes config.json and manifest.json from the entries of all ranks, in rank order; with
 * copies (shape->copies), they and source/ again in copy-1 ...  run is NULL where there was
 * none (split); source (NULL: there is none) lies in the folder already.  Last, before the
 * folder is committed.
 */
int ckpt_manifest_write(const struct io_out *dir, const struct ckpt_shape *shape,
                        const char *const *entry, const struct ckpt_run *run,
                        const struct ckpt_sources *source, struct err *err);

/* --- its files, one by one --- */

/*
 * A shard file that is written: its blocks as they lie in it, all known before the first byte.
 * The writer puts each block at its offset, in any order, and its checksum here.
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
/* The text of its header, [*bytes]; mem_free. */
void ckpt_shard_header(const struct ckpt_shard *s, char **text, int64_t *bytes);
/* Its part of the manifest, a line of JSON, when all checksums are there; mem_free. */
char *ckpt_shard_entry(const struct ckpt_shard *s);
extern const struct record ckpt_file_record[]; /* of struct ckpt_file, without its blocks */
/* "shard-00007.safetensors" */
void ckpt_shard_name(int rank, char name[CKPT_FILE_NAME]);

/*
 * Allocates the bytes of a new file, so that a disk that is too small fails at once; not with
 * holes, nor where the file system cannot allocate.
 */
int ckpt_allocate(int fd, int64_t bytes, int holes, struct err *err);
/*
 * Creates a file at a path in dir->temp, writes its header and allocates the rest.  The caller
 * closes fd.
 */
int ckpt_create_file(const struct io_out *dir, const char *path, const void *head,
                     int64_t head_bytes, int64_t bytes, int holes, int *fd, struct err *err);
/* Starts writing these bytes to the disk, so that fsync has less to wait for. */
void ckpt_flush(int fd, int64_t offset, int64_t bytes);

/* The small files, borrowed; source (NULL: there is none) is in dir->temp already. */
struct ckpt_small {
    const char *config;
    const char *manifest;
    int64_t manifest_bytes;
    const struct ckpt_sources *source;
};
/* Writes config.json and manifest.json, and both with source/ into copy-1 ... */
int ckpt_put_small(const struct io_out *dir, int copies, const struct ckpt_small *what,
                   struct err *err);
/* The checkpoint's folder for files that are kept so: "source/files", ... */
const char *ckpt_source_folder(enum ckpt_keep keep);
/* Copies a kept file, from a good copy, to to/NAME, `to` in dir->temp; NULL: where it was. */
int ckpt_take_source(struct ckpt *c, const struct ckpt_source *s, const struct io_out *dir,
                     const char *to, struct err *err);
/*
 * Whether a name may be joined to a folder: relative, without empty, "." or ".." parts, at most
 * CKPT_DEPTH_MAX folders deep.
 */
int ckpt_name_ok(const char *name);

/* --- checksums --- */

/* XXH3, 128 bits, canonical, in hex. */
void ckpt_hash(const void *data, int64_t bytes, char hex[33]);
/* The same in parts: end gives the sum, and frees what begin made. */
void *ckpt_hash_begin(void);
void ckpt_hash_more(void *sum, const void *data, int64_t bytes);
void ckpt_hash_end(void *sum, char hex[33]);
/* Size and sum of a file. */
int ckpt_hash_file(const char *path, const atomic_int *stop, int64_t *bytes, char hex[33],
                   struct err *err);
/*
 * ERR_INPUT where a file is not of that size, or ERR_MISMATCH where it has not the checksum
 * (NULL: the size alone is asked for).
 */
int ckpt_check_file(const char *path, int64_t bytes, const char *hash, const atomic_int *stop,
                    struct err *err);
/*
 * Copies an open file to a path in dir->temp, synced, with its permissions; is->bytes and
 * is->hash are of what was copied.
 */
int ckpt_copy_file(int from, const struct io_out *dir, const char *to, const atomic_int *stop,
                   struct ckpt_source *is, struct err *err);

/* -1 and err where *stop is set; stop may be NULL. */
int ckpt_stopped(const atomic_int *stop, struct err *err);

#endif
