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
enum { HF_FILES_MAX = 10000 };

struct hf {
    char *dir;
    int alone; /* one file was named, not a folder */
    int files; /* of weights */
    char **name;
    struct st *file;
    int others;
    char **other;              /* the rest: names within dir, sorted */
    const struct model *model; /* borrowed, from hf_match on */
    struct hf_place {
        int file;
        const struct st_tensor *t;
    } * place;       /* [model->tensors], owned */
    enum dtype type; /* of all of them */
};

/* Opens and checks each file, and that the index, if any, tells the truth. */
int hf_open(struct hf *hf, const char *path, struct err *err);
/*
 * Finds the model's tensors: none missing, none more, each of the shape that the config gives,
 * all of one floating type.  The model must live as long as hf.
 */
int hf_match(struct hf *hf, const struct model *m, struct err *err);
void hf_release(struct hf *hf);
/* The file's number and the tensor, or NULL. */
const struct st_tensor *hf_find(const struct hf *hf, const char *name, int *file);
/* Elements [at.lo, at.hi) of a unit, in hf->type; after hf_match. */
int hf_read(const struct hf *hf, int unit, struct range at, void *out, struct err *err);

#endif
