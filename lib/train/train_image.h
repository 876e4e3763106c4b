/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRAIN_TRAIN_IMAGE_H
#define TRAIN_TRAIN_IMAGE_H

#include "base/mem.h"
#include "ckpt/ckpt_write.h"
#include "world/world.h"

/*
 * Inside train/: provides the values of the shard files that a rank writes: its own, and copies
 * of other ranks'.  They are copied first, so that training continues while they are written;
 * the owner of a shard sends the parts of a copy that this rank's states lack.
 *
 *                     PART_TRAINED               PART_FROZEN
 *     own shard       | unit 0 | unit 1 | ...    read in place; copied if a holder lacks it
 *     copy of 2's     | unit 0 | unit 1 | ...    read in place, or sent by rank 2
 *
 * A unit's trained part is its master and both moments, and with periods the outer momentum, in
 * f32.  With periods the moments are the group's: a rank writes its I shard of them.
 */
enum train_part { PART_TRAINED, PART_FROZEN, PARTS };
enum { TRAIN_STATES = 4 };

struct train_image {
    struct train_images *set; /* borrowed */
    int rank, k;              /* copy k of rank's shard */
    int lacks[PARTS];         /* a copy, and this rank's states lack some of it */
    float *data[PARTS];       /* borrowed from the arena; NULL: read in place */
    int64_t bytes[PARTS];
    /* [units], owned: pointers into data; the last one: frozen */
    float *(*state)[TRAIN_STATES + 1];
};

struct train_images {
    struct train *train;            /* borrowed */
    const struct ckpt_shape *shape; /* borrowed */
    struct train_image *image;      /* [images], owned; the first is this rank's own */
    int images;
    size_t space;
    struct arena arena;
    struct world_parcel *parcel; /* owned: parts of copies that this rank receives and sends */
    int parcels;
    int copied; /* files are written from the copied values, not in place */
};

void train_images_add(struct train_images *s, int rank, int k);
/* Collective: allocates memory for the copied values of all added images; `what` is for
   errors. */
int train_images_place(struct train_images *s, const char *what, struct err *err);
/* Copies this rank's current values. */
int train_images_take(struct train_images *s, struct err *err);
/* A ckpt_fill function; arg is a struct train_image. */
int train_image_fill(void *arg, int unit, int state, struct range at, void *out,
                     struct err *err);
void train_images_release(struct train_images *s);

#endif
