/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHARD_SHARD_H
#define SHARD_SHARD_H

#include <stdio.h>

#include "ckpt/ckpt.h"

/*
 * Provides the verbs of paro-shard, a function each.  Folders are written beside their target
 * and renamed; an existing target is refused without force.  Memory is bounded by the buffer
 * where there is one, else by two blocks (CKPT_BLOCK_ELEMS elements of at most 8 bytes: 64 MiB
 * together), and 20 times the headers.
 */

struct shard_target {
    const char *dir;
    int force; /* exchange it if it is there */
};

/* How the verbs that move bytes work; borrowed.  All 0 but the buffer is usual. */
struct shard_options {
    int64_t buffer;                   /* bytes in flight; 20 KiB or more */
    int jobs;                         /* threads; 0: a processor each, from 4 to 16 */
    const struct ckpt_limits *limits; /* NULL: the usual ones; its stop ends the verb */
    void (*progress)(void *progress_arg, int64_t done, int64_t all); /* or NULL */
    void *progress_arg;
    struct ckpt_repaired *repaired; /* filled in: what was read from copies; NULL: not wanted */
};

/*
 * A Hugging Face folder with the model's first values: config.json, model.safetensors.  stop:
 * as ckpt_limits has it.
 */
int shard_init(const struct model *m, uint64_t seed, const atomic_int *stop,
               struct shard_target to, struct err *err);

/* The checkpoint that split and reshard are to write; borrowed. */
struct shard_request {
    const struct model
        *model; /* the plan's, with what trains; of reshard the checkpoint's own */
    const struct groups *groups;
    const char *strategy;
    const enum dtype *type; /* of the params; NULL: the source's */
    int copies; /* of each file, beside it; those of the source are not carried on */
    /* For split alone. */
    const char *adapter;   /* a PEFT folder with the model's adapters; NULL: first values ... */
    uint64_t seed;         /* ... drawn from this */
    const char *optimizer; /* a file or folder with its state (shard_split.c), from which a run
                              resumes; NULL: none */
    struct shard_options options;
};

/*
 * A Hugging Face folder, or one .safetensors file, into a checkpoint.  A config.json in the
 * folder must describe the same network as the plan.  Where the params are converted, what
 * merge gives back has headers of our own.
 */
int shard_split(const char *from, const struct shard_request *what, struct shard_target to,
                struct err *err);

/* How a checkpoint is merged; borrowed. */
struct shard_merging {
    int fuse;               /* add adapters into the matrices beside which they were trained */
    const enum dtype *type; /* of the weights; NULL: theirs */
    int64_t max_shard;      /* bytes of data in a file; 0: one file */
    struct shard_options options;
    /* For shard_gguf alone. */
    int q8_0; /* instead of type: blocks of 32 bytes with a scale */
    struct shard_gguf_notes *gguf_notes;
};

/*
 * Back: byte for byte what was split, or, from a run's checkpoint, a folder with config.json
 * and model.safetensors from its params.  Where adapters train, a PEFT folder of them; or,
 * with fuse, the whole model with them added into its matrices.  Of another type, or in files
 * of at most max_shard, the weights get headers of our own, what was split too.
 */
int shard_merge(const char *from, const struct shard_merging *what, struct shard_target to,
                struct err *err);

/* The deviations of shard_gguf from the request; filled in. */
struct shard_gguf_notes {
    int ragged; /* matrices that are f16 and not q8_0, since 32 does not divide their rows */
    char first[64];   /* the first of them */
    int no_tokenizer; /* where the weights are: the file has none */
};
/*
 * A checkpoint's params, or a Hugging Face folder, as one GGUF file for llama.cpp: to.dir is
 * the file.  ERR_INPUT where adapters train and are not fused, or the family, its positions or
 * the type have no such form.
 */
int shard_gguf(const char *from, const struct shard_merging *what, struct shard_target to,
               struct err *err);

/* The kinds of edits of tensors; patterns are PCRE2's, found anywhere in a name. */
enum shard_edit_kind {
    SHARD_DROP,   /* "PATTERN" */
    SHARD_CAST,   /* "PATTERN=TYPE", the last that matches; by the names that are there */
    SHARD_RENAME, /* "PATTERN=REPLACEMENT" of the first match, one after the other */
    SHARD_EDITS
};
struct shard_edit_list {
    int count;
    const char **item;
};
struct shard_editing {
    struct shard_edit_list list[SHARD_EDITS];
    FILE *dry; /* print what would be done, and write nothing; NULL: do it */
    struct shard_options options;
};
/*
 * A folder or file with other tensors, names and types; all its other files as they are.
 * ERR_INPUT where a pattern matches nothing, or two tensors get one name.
 */
int shard_edit(const char *from, const struct shard_editing *what, struct shard_target to,
               struct err *err);

/*
 * A checkpoint into one of another strategy, other groups, another number of ranks: all its
 * states, its run and its source as they were.  ERR_MISMATCH where the model is another.
 */
int shard_reshard(const char *from, const struct shard_request *what, struct shard_target to,
                  struct err *err);

/*
 * Checks a checkpoint's checksums and completeness (quick: sizes and headers alone); of a
 * folder or file, which has no checksums, its structure, and that the folder's config fits.
 * Each problem is a line on out, or, with json, an item of one document; *bad counts them.
 */
int shard_verify(const char *path, const struct shard_options *options, int quick, int json,
                 FILE *out, int *bad, struct err *err);

/*
 * Writes a checkpoint and its copies again from whatever is good of them, and prints what was
 * rebuilt on out, in lines or as one JSON document.  *lost counts the parts of which no copy is
 * good: these are printed instead, and nothing is written.
 */
int shard_repair(const char *from, const struct shard_options *options, int json, FILE *out,
                 struct shard_target to, int *lost, struct err *err);

/* The tensors of a checkpoint, folder or file: a table, or JSON. */
int shard_ls(const char *path, const struct shard_options *options, int json, FILE *out,
             struct err *err);

/*
 * Prints what differs between two of them, tensor by tensor; *differ counts.  options->healed
 * has two items.
 */
int shard_diff(const char *a, const char *b, const struct shard_options *options, int json,
               FILE *out, int *differ, struct err *err);

#endif
