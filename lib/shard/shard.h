/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SHARD_SHARD_H
#define SHARD_SHARD_H

#include <stdio.h>

#include "ckpt/ckpt.h"

/*
 * Implements the verbs of paro-shard, one function each.  A target folder is written in a
 * staging directory next to it and then renamed; an existing target is rejected without force.
 * Memory is bounded by `buffer` if the verb uses one, else by two blocks (CKPT_BLOCK_ELEMS
 * elements of at most 8 bytes: 64 MiB together), plus 20 times the headers.
 */

struct shard_target {
    const char *dir;
    int force; /* replace dir if it exists */
};

/* Options of the verbs that move bytes; borrowed.  Defaults are 0, except for `buffer`. */
struct shard_options {
    int64_t buffer; /* bytes in flight; at least 20 KiB */
    int jobs;       /* threads; 0: one per processor, between 4 and 16 */
    /* NULL: ckpt_limits_usual; limits->stop aborts the verb */
    const struct ckpt_limits *limits;
    void (*progress)(void *progress_arg, int64_t done, int64_t all); /* or NULL */
    void *progress_arg;
    struct ckpt_repaired *repaired; /* output: repairs made while reading; NULL: not wanted */
};

/*
 * Writes a Hugging Face folder with the model's initial values: config.json, model.safetensors.
 * stop: as in ckpt_limits.
 */
int shard_init(const struct model *m, uint64_t seed, const atomic_int *stop,
               struct shard_target to, struct err *err);

/* The checkpoint for split and reshard to write; borrowed. */
struct shard_request {
    const struct model
        *model; /* the plan's model and trained parameters; for reshard the checkpoint's own */
    const struct groups *groups;
    const char *strategy;
    const enum dtype *type; /* type of the params; NULL: the source's */
    int copies; /* number of copies of each file; copies in the source are not kept */
    /* For split only. */
    const char *adapter; /* a PEFT folder with the model's adapters; NULL: initial values */
    uint64_t seed;       /* seed of initial values */
    /* File or folder with the optimizer's state (see shard_split.c), for resuming a run; NULL:
       none */
    const char *optimizer;
    struct shard_options options;
};

/*
 * Converts a Hugging Face folder, or one .safetensors file, to a checkpoint.  A config.json in
 * the folder must describe the same network as the plan.  If the type of the params changes,
 * merge later writes new headers instead of the original ones.
 */
int shard_split(const char *from, const struct shard_request *what, struct shard_target to,
                struct err *err);

/* Settings of merge; borrowed. */
struct shard_merging {
    int fuse;               /* add adapters to the matrices that they adapt */
    const enum dtype *type; /* type of the weights; NULL: the checkpoint's */
    int64_t max_shard;      /* limit on the data of a file, in bytes; 0: one file */
    struct shard_options options;
    /* For shard_gguf only. */
    int q8_0; /* blocks of 32 bytes with a scale, instead of `type` */
    struct shard_gguf_notes *gguf_notes;
};

/*
 * Converts a checkpoint back: byte for byte to the folder that was split, or, from a run's
 * checkpoint, to a folder with config.json and model.safetensors from its params.  If adapters
 * train, writes a PEFT folder; with fuse, the whole model with the adapters added to its
 * matrices.  With another type or with max_shard the weights get new headers, also those of a
 * split folder.
 */
int shard_merge(const char *from, const struct shard_merging *what, struct shard_target to,
                struct err *err);

/* Deviations of shard_gguf from the request; output. */
struct shard_gguf_notes {
    /* Matrices in f16 instead of q8_0, because 32 does not divide their row length */
    int ragged;
    char first[64];   /* the first of these matrices */
    int no_tokenizer; /* the weights come without a tokenizer, so the file has none */
};
/*
 * Converts a checkpoint's params, or a Hugging Face folder, to one GGUF file for llama.cpp;
 * to.dir is the file.  ERR_INPUT if adapters train and are not fused, or if GGUF cannot
 * represent the family, its position encoding or the type.
 */
int shard_gguf(const char *from, const struct shard_merging *what, struct shard_target to,
               struct err *err);

/* Kinds of edits of tensors; patterns are PCRE2's, found anywhere in a name. */
enum shard_edit_kind {
    SHARD_DROP,   /* "PATTERN" */
    SHARD_CAST,   /* "PATTERN=TYPE"; the last match counts; matches original names */
    SHARD_RENAME, /* "PATTERN=REPLACEMENT" of the first match; all rules apply in order */
    SHARD_EDITS
};
struct shard_edit_list {
    int count;
    const char **item;
};
struct shard_editing {
    struct shard_edit_list list[SHARD_EDITS];
    FILE *dry; /* print the edits to this file and write nothing; NULL: edit */
    struct shard_options options;
};
/*
 * Writes a folder or file with edited tensors, names and types; copies all other files.
 * ERR_INPUT if a pattern matches nothing, or two tensors get the same name.
 */
int shard_edit(const char *from, const struct shard_editing *what, struct shard_target to,
               struct err *err);

/*
 * Converts a checkpoint to another strategy, other groups or another number of ranks; states,
 * run and source are kept.  ERR_MISMATCH if the model differs.
 */
int shard_reshard(const char *from, const struct shard_request *what, struct shard_target to,
                  struct err *err);

/*
 * Checks a checkpoint's checksums and completeness (quick: only sizes and headers).  A folder
 * or file has no checksums: checks its structure, and that the folder's config matches.  Prints
 * each problem on out as a line, or with json as an item of one document; *bad is their number.
 */
int shard_verify(const char *path, const struct shard_options *options, int quick, int json,
                 FILE *out, int *bad, struct err *err);

/*
 * Writes a checkpoint and its copies again from their intact parts, and prints the rebuilt
 * parts on out, as lines or as one JSON document.  *lost is the number of parts without an
 * intact copy: in that case prints these instead, and writes nothing.
 */
int shard_repair(const char *from, const struct shard_options *options, int json, FILE *out,
                 struct shard_target to, int *lost, struct err *err);

/* Lists the tensors of a checkpoint, folder or file as a table or JSON. */
int shard_ls(const char *path, const struct shard_options *options, int json, FILE *out,
             struct err *err);

/*
 * Prints the differences between two checkpoints, folders or files, tensor by tensor; *differ
 * is their number.  options->repaired has two items.
 */
int shard_diff(const char *a, const char *b, const struct shard_options *options, int json,
               FILE *out, int *differ, struct err *err);

#endif
