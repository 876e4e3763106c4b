/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRAIN_TRAIN_IMAGE_H
#define TRAIN_TRAIN_IMAGE_H

#include "base/mem.h"
#include "ckpt/ckpt_write.h"
#include "world/world_service.h"

/*
 * Inside train/: the values of the shard files that a rank writes: its own, and copies of other
 * ranks'.  Of what trains they are copied at once, so that training continues while they are
 * written.
 *
 *     own shard       | unit 0 | unit 1 | ...     copied
 *     copy of 2's     | unit 0 | unit 1 | ...     copied, if this rank's states have all of the
 *                                                 unit's part; else asked of rank 2
 */
enum { TRAIN_MOMENTS = 3 };

struct train_copy { /* of a unit's G shard of what trains: master and both moments */
    int held;       /* else its owner has it */
    float *state[TRAIN_MOMENTS];
};

struct train_image {
    struct train_images *set; /* borrowed */
    int rank, k;              /* copy k of rank's shard */
    struct train_copy *copy;  /* [units], owned; NULL: nothing is copied */
};

struct train_images {
    struct train *train;            /* borrowed */
    const struct ckpt_shape *shape; /* borrowed */
    struct world_service *service;  /* borrowed; NULL: there are no copies */
    struct train_image *image;      /* [images], owned */
    int images;
    size_t room;
    struct arena arena;
    int copied; /* files are of the copied values, not of those where they lie */
};

void train_images_add(struct train_images *s, int rank, int k);
/* Collective: memory for the copied values of all that were added; what: for its error. */
int train_images_place(struct train_images *s, const char *what, struct err *err);
/* Copies this rank's values, as they are now. */
int train_images_take(struct train_images *s, struct err *err);
/* A ckpt_fill; arg is a struct train_image.  The question to a service: unit, state, lo, hi. */
int train_image_fill(void *arg, int unit, int state, struct range at, void *out,
                     struct err *err);
void train_images_release(struct train_images *s);

#endif
