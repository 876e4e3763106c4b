/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CKPT_CKPT_HF_H
#define CKPT_CKPT_HF_H

#include "ckpt/ckpt_safetensors.h"
#include "model/model.h"

/*
 * Reads a Hugging Face folder: model.safetensors, or the files that
 * model.safetensors.index.json names.  shard/shard_folder.h handles the folder's other files.
 * A single .safetensors file is treated as a folder with this file alone, and another trainer's
 * checkpoint (ckpt/ckpt_foreign.h) as one file of tensors in pieces, whose optimizer states are
 * not matched.
 */
#define HF_INDEX_NAME "model.safetensors.index.json"

struct hf {
    char *dir;
    int alone;   /* the path was a file, not a folder */
    int files;   /* number of weights files */
    char **name; /* [files], in order */
    struct st *file;
    size_t name_space, file_space;
    const atomic_int *stop; /* borrowed from the limits */
    /* Set by hf_match. */
    const struct model *model; /* borrowed */
    struct hf_place {
        int file;
        const struct st_tensor *t;
    } * place;       /* [model->tensors], owned; t NULL: an adapter */
    enum dtype type; /* the common type of all tensors */
};

/* Opens and checks each file, and that the index, if there is one, agrees with the files.
   limits NULL: ckpt_limits_usual. */
int hf_open(struct hf *hf, const char *path, const struct ckpt_limits *limits, struct err *err);
/* The index of a weights file, or -1. */
int hf_find_file(const struct hf *hf, const char *name);
/* The role of a folder's tensor in the model. */
enum hf_role {
    HF_UNKNOWN, /* none: the folder belongs to another model */
    HF_OURS,    /* *t, under its own name, or in GPT-2 without "transformer." */
    HF_TIED,    /* the embedding *t as the head: a second copy, or the only one */
    HF_BUFFER   /* a constant that old versions wrote: a causal mask, rotary frequencies */
};
enum hf_role hf_role(const struct model *m, const char *name, const struct model_tensor **t);
/* Whether the file has a tied embedding under its own name; a head is then a second copy. */
int hf_has_embedding(const struct model *m, const struct st *st);
/*
 * Finds the model's tensors.  Fails if one is missing, extra or duplicate, has another shape
 * than the config gives, or if they do not share one floating-point type.  Adapters are not
 * searched for.  The model must outlive hf.
 */
int hf_match(struct hf *hf, const struct model *m, struct err *err);
/* Describes a tensor of the model as stored in a file with an st type; its name is the
   model's. */
struct st_tensor hf_tensor(const struct model_tensor *t, int type);
/* Gives a tensor in pieces that was saved flattened the shape of the model's tensor. */
void hf_unflatten(const struct st *st, const struct st_tensor *t,
                  const struct model_tensor *want);
/* ERR_INPUT if a file's tensor has not the shape of the model's, or is not of a float type. */
int hf_check_shape(const struct st *st, const struct st_tensor *is,
                   const struct model_tensor *want, struct err *err);
/* After hf_match: a second copy of a tied embedding must be bit-identical. */
int hf_check_tied(const struct hf *hf, struct err *err);
/* Whether a folder contains weights that hf_open can open. */
int hf_is(const char *dir);
/* Whether the folder has a config.json; 0 if a single file was opened. */
int hf_has_config(const struct hf *hf);
void hf_release(struct hf *hf);
/* Finds a tensor and sets the index of its file; NULL: absent. */
const struct st_tensor *hf_find(const struct hf *hf, const char *name, int *file);

#endif
