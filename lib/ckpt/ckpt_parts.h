/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CKPT_CKPT_PARTS_H
#define CKPT_CKPT_PARTS_H

#include <stdatomic.h>
#include <stddef.h>

#include "ckpt/ckpt_copy.h"
#include "ckpt/ckpt_write.h"

/* Between the files of this folder. */

/* XXH3, 128 bits, canonical, in hex. */
void ckpt_hash(const void *data, int64_t bytes, char hex[33]);
/* The same of bytes that come bit by bit: end gives the sum, and frees what begin made. */
void *ckpt_hash_begin(void);
void ckpt_hash_more(void *sum, const void *data, int64_t bytes);
void ckpt_hash_end(void *sum, char hex[33]);
/* A stream into memory; *text is freed with mem_free after fclose. */
FILE *ckpt_stream(char **text, size_t *bytes);

/* "shard-00007.safetensors" */
void ckpt_shard_name(int rank, char name[CKPT_FILE_NAME]);
/*
 * Relative, without empty, "." or ".." parts, at most CKPT_DEPTH_MAX folders deep: what may be
 * joined to a folder.
 */
int ckpt_name_ok(const char *name);
/* Whether path lies below the folder; both absolute, without links. */
int ckpt_is_below(const char *path, const char *folder);
/* The tensor of the unit in which element `at` lies. */
int ckpt_tensor_at(const struct model *m, int unit, int64_t at);
/* End of the block that begins at lo, in a range that ends at hi. */
int64_t ckpt_block_end(const struct model *m, int unit, int64_t lo, int64_t hi);

/* Where the block ends in which element `at` of a unit's state lies. */
int64_t ckpt_end_at(const struct ckpt *c, int unit, int state, int64_t at);

/*
 * A shard file that is written: its blocks as they lie in it, all known before the first byte.
 * Who writes puts each block at its offset, in any order, and its checksum here.
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
/* The header, [file.header_bytes] at `head`. */
void ckpt_shard_header(const struct ckpt_shard *s, void *head);
/*
 * The file at a path in dir->temp, or a copy of it, with its header and room for its blocks
 * (holes: as ckpt_make_room has them); the caller syncs and closes fd.
 */
int ckpt_shard_create(const struct ckpt_shard *s, const struct io_dir *dir, const char *path,
                      int holes, int *fd, struct err *err);
/* Its part of the manifest, a line of JSON, when all checksums are there; mem_free. */
char *ckpt_shard_entry(const struct ckpt_shard *s);

/* ERR_MISMATCH naming file, tensor and elements: `hash`, of what path has, is not the block's.
 */
int ckpt_say_damaged(const struct ckpt *c, const struct ckpt_block *b, const char *path,
                     const char *hash, struct err *err);

/* The folder below a checkpoint's in which what is so kept lies. */
const char *ckpt_source_folder(enum ckpt_keep keep);

/*
 * config.json and manifest.json, last of all that is in dir; with copies (shape->copies), they
 * and source/ again in copy-1 ...  source NULL: there is none.
 */
int ckpt_manifest_write(const struct io_dir *dir, const struct ckpt_shape *shape,
                        const char *const *entry, const struct ckpt_run *run,
                        const struct ckpt_sources *source, struct err *err);
/*
 * Fills everything but what belongs to an open one; c->model is there, read from `config`:
 * ERR_MISMATCH where path has the checksum of another.
 */
int ckpt_manifest_read(struct ckpt *c, const char *path, const char *config,
                       const struct ckpt_limits *limits, struct err *err);
/* The same from a text that is in memory, with a 0 behind it; `path` is for messages. */
int ckpt_manifest_parse(struct ckpt *c, const char *path, const char *config,
                        const struct ckpt_limits *limits, const char *text, int64_t bytes,
                        struct err *err);
/*
 * Where reading failed, err is why, and stays so unless it is its own manifest that does not
 * belong here: then err says that.  -1.
 */
int ckpt_blame(struct ckpt *c, struct err *err);
/* ckpt_open_within; doubt: its own manifest may be another run's, if a copy says so. */
int ckpt_open_any(struct ckpt *c, const char *dir, const struct ckpt_limits *limits, int doubt,
                  struct err *err);

/* Whether somebody asks to stop (NULL: nobody may): then -1. */
int ckpt_stopped(const atomic_int *stop, struct err *err);

/*
 * Copies an open file to a path in dir->temp, synced, with its permissions; is->bytes and
 * is->hash are of what was copied.
 */
int ckpt_copy_file(int from, const struct io_dir *dir, const char *to, const atomic_int *stop,
                   struct ckpt_source *is, struct err *err);
/*
 * Makes the new file so long: a disk that is too small says so now; where room cannot be asked
 * for, or is not wanted for the holes that will be in it, when it is full.
 */
int ckpt_make_room(int fd, int64_t bytes, int holes, struct err *err);
/* Sends what was just written to the disk while more is: fsync finds less to wait for. */
void ckpt_flush(int fd, int64_t offset, int64_t bytes);
/*
 * ERR_INPUT where a file is not of that size, or ERR_MISMATCH where it has not the checksum
 * (NULL: the size alone is asked for).
 */
int ckpt_check_file(const char *path, int64_t bytes, const char *hash, const atomic_int *stop,
                    struct err *err);
/* The same numbers of a file that stays where it is. */
int ckpt_hash_file(const char *path, const atomic_int *stop, int64_t *bytes, char hex[33],
                   struct err *err);

/*
 * The header of a weights file: all the model's tensors in the model's order, or its adapters
 * alone, of *elems elements together.
 */
void ckpt_model_header(const struct model *m, enum dtype type, int adapters, char **head,
                       int64_t *bytes, int64_t *elems);

/* The manifest's "run", null where there was none. */
struct jout;
void ckpt_put_run(struct jout *j, const struct ckpt_run *run);

#endif
