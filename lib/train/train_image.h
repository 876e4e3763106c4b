/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRAIN_TRAIN_IMAGE_H
#define TRAIN_TRAIN_IMAGE_H

#include "base/mem.h"
#include "ckpt/ckpt_write.h"
#include "world/world.h"

/*
 * Inside train/: provides the values of the shard files that a rank writes: its own, and copies
 * of other ranks'.  They are copied at once, so that training continues while they are written;
 * if this rank's states lack some of a copy, its owner sends them.
 *
 *                     PART_TRAINED               PART_FROZEN
 *     own shard       | unit 0 | unit 1 | ...    where it lies; copied if a holder lacks it
 *     copy of 2's     | unit 0 | unit 1 | ...    where it lies, or sent by rank 2
 *
 * A unit's trained part is its master and both moments, in f32.
 */
enum train_part { PART_TRAINED, PART_FROZEN, PARTS };
enum { TRAIN_STATES = 3 };

struct train_image {
    struct train_images *set; /* borrowed */
    int rank, k;              /* copy k of rank's shard */
    int lacks[PARTS];         /* of a copy: this rank's states have not all of it */
    float *data[PARTS];       /* borrowed of the arena; NULL: nothing is copied */
    int64_t bytes[PARTS];
    float *(*state)[TRAIN_STATES + 1]; /* [units], owned: in the data; the last one: frozen */
};

struct train_images {
    struct train *train;            /* borrowed */
    const struct ckpt_shape *shape; /* borrowed */
    struct train_image *image;      /* [images], owned; the first is this rank's own */
    int images;
    size_t space;
    struct arena arena;
    struct world_parcel *parcel; /* owned: what this rank is sent and sends of copies */
    int parcels;
    int copied; /* files are of the copied values, not of those where they lie */
};

void train_images_add(struct train_images *s, int rank, int k);
/* Collective: memory for the copied values of all that were added; what: for its error. */
int train_images_place(struct train_images *s, const char *what, struct err *err);
/* Copies this rank's values, as they are now. */
int train_images_take(struct train_images *s, struct err *err);
/* A ckpt_fill; arg is a struct train_image. */
int train_image_fill(void *arg, int unit, int state, struct range at, void *out,
                     struct err *err);
void train_images_release(struct train_images *s);

#endif
