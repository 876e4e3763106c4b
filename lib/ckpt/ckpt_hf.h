/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CKPT_CKPT_HF_H
#define CKPT_CKPT_HF_H

#include "ckpt/ckpt_safetensors.h"
#include "model/model.h"

/*
 * Reads a Hugging Face folder: model.safetensors, or the files that
 * model.safetensors.index.json names; what else is in it is shard/shard_folder.h's.  A single
 * .safetensors file is a folder of that file alone, and a checkpoint of another trainer
 * (ckpt/ckpt_foreign.h) one file of tensors in pieces, in which states of an optimizer are not
 * matched.
 */
#define HF_INDEX_NAME "model.safetensors.index.json"

struct hf {
    char *dir;
    int alone;   /* one file was named, not a folder */
    int files;   /* of weights */
    char **name; /* [files], in order */
    struct st *file;
    size_t name_space, file_space;
    const atomic_int *stop; /* borrowed: as the limits had it */
    /* From hf_match on. */
    const struct model *model; /* borrowed */
    struct hf_place {
        int file;
        const struct st_tensor *t;
    } * place;       /* [model->tensors], owned; t NULL: an adapter */
    enum dtype type; /* of all of them */
};

/* Opens and checks each file, and that the index, if any, agrees with them. */
int hf_open(struct hf *hf, const char *path, const struct ckpt_limits *limits,
            struct err *err); /* NULL: the usual ones */
/* The number of a file of weights, or -1. */
int hf_find_file(const struct hf *hf, const char *name);
/* The role of a folder's tensor in the model. */
enum hf_role {
    HF_UNKNOWN, /* nothing: the folder is another model's */
    HF_OURS,    /* *t, under its own name or, of GPT-2's, without "transformer." */
    HF_TIED,    /* the embedding *t for the head: a second copy, or the only one */
    HF_BUFFER   /* a constant that old versions wrote: a causal mask, rotary frequencies */
};
enum hf_role hf_role(const struct model *m, const char *name, const struct model_tensor **t);
/* Whether a tied embedding is in the file under its own name: a head is then a second one. */
int hf_has_embedding(const struct model *m, const struct st *st);
/*
 * Finds the model's tensors: none missing, none more, none twice, each of the shape that the
 * config gives, all of one floating type.  Adapters are not sought.  The model must live as
 * long as hf.
 */
int hf_match(struct hf *hf, const struct model *m, struct err *err);
/* A tensor of the model as a file has it, of an st type; its name is the model's. */
struct st_tensor hf_tensor(const struct model_tensor *t, int type);
/* Gives a tensor in pieces that was saved as one row the shape of the model's. */
void hf_unflatten(const struct st *st, const struct st_tensor *t,
                  const struct model_tensor *want);
/* ERR_INPUT where a file's tensor has not the shape of the model's, or no float type. */
int hf_check_shape(const struct st *st, const struct st_tensor *is,
                   const struct model_tensor *want, struct err *err);
/* After hf_match: a second copy of a tied embedding must be the same, bit for bit. */
int hf_check_tied(const struct hf *hf, struct err *err);
/* Whether a folder has weights that hf_open looks for. */
int hf_is(const char *dir);
/* Whether a folder has a config.json: not where one file was named. */
int hf_has_config(const struct hf *hf);
void hf_release(struct hf *hf);
/* The file's number and the tensor, or NULL. */
const struct st_tensor *hf_find(const struct hf *hf, const char *name, int *file);

#endif
