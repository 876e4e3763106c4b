/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CKPT_HF_H
#define CKPT_HF_H

#include "ckpt/st.h"
#include "layout/layout.h"
#include "model/model.h"

/*
 * A Hugging Face folder: model.safetensors, or the files that model.safetensors.index.json
 * names; everything else in it is carried along unread.  A single .safetensors file is a
 * folder of that file alone.
 */
#define HF_INDEX_NAME "model.safetensors.index.json"

struct hf {
    char *dir;
    int alone;   /* one file was named, not a folder */
    int files;   /* of weights */
    char **name; /* [files], in order */
    struct st *file;
    const atomic_int *stop; /* borrowed: as the limits had it */
    /* From hf_list on. */
    int others;
    char **other;       /* the rest: names within dir, sorted */
    char *root, *blobs; /* where they lie, without links; blobs NULL: nowhere else */
    /* From hf_match on. */
    const struct model *model; /* borrowed */
    struct hf_place {
        int file;
        const struct st_tensor *t;
    } * place;       /* [model->tensors], owned; t NULL: an adapter */
    enum dtype type; /* of all of them */
};

/* Opens and checks each file, and that the index, if any, tells the truth. */
int hf_open(struct hf *hf, const char *path, struct err *err);
int hf_open_within(struct hf *hf, const char *path, const struct ckpt_limits *limits,
                   struct err *err); /* NULL: the usual ones */
/*
 * Lists the rest of the folder.  ERR_INPUT where something in it, weights too, is a link that
 * leads out of it (but to the blobs of a Hugging Face hub's snapshot), or to a folder, and
 * where there is more of it than the limits allow.
 */
int hf_list(struct hf *hf, const struct ckpt_limits *limits, struct err *err);
/* Opens one of them, or a file by its name; ERR_INPUT for a link out of the folder. */
int hf_open_other(struct hf *hf, int i, int *fd, struct err *err);
int hf_open_named(struct hf *hf, const char *name, int *fd, struct err *err);
/* The number of a file of weights, or -1. */
int hf_find_file(const struct hf *hf, const char *name);
/* What a tensor of a folder is to the model. */
enum hf_role {
    HF_UNKNOWN, /* nothing: the folder is another model's */
    HF_OURS,    /* *t, under its own name or, of GPT-2's, without "transformer." */
    HF_TIED,    /* a second copy of the embedding *t, for the head */
    HF_BUFFER   /* a constant that old versions wrote: a causal mask, rotary frequencies */
};
enum hf_role hf_role(const struct model *m, const char *name, const struct model_tensor **t);
/*
 * Finds the model's tensors: none missing, none more, none twice, each of the shape that the
 * config gives, all of one floating type.  Adapters are not sought.  The model must live as
 * long as hf.
 */
int hf_match(struct hf *hf, const struct model *m, struct err *err);
/* After hf_match: a second copy of a tied embedding must be the same, bit for bit. */
int hf_check_tied(const struct hf *hf, struct err *err);
void hf_release(struct hf *hf);
/* The file's number and the tensor, or NULL. */
const struct st_tensor *hf_find(const struct hf *hf, const char *name, int *file);
/* Elements [at.lo, at.hi) of a unit, none of an adapter, in hf->type; after hf_match. */
int hf_read(const struct hf *hf, int unit, struct range at, void *out, struct err *err);

#endif
