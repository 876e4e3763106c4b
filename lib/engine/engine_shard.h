/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ENGINE_ENGINE_SHARD_H
#define ENGINE_ENGINE_SHARD_H

#include "kern/kern_moments.h"
#include "layout/layout.h"

/* Inside engine/: a rank's packed shards on the device, and copies from and to the host. */
struct engine;

/* This rank's share of a unit's state: ranges of the unit, packed one after the other. */
struct engine_share {
    int64_t elems;
    struct range *range; /* [ranges], owned */
    int ranges;
};

/* A packed shard on the device; coded: int8 moments, instead of at and type, else 0. */
struct engine_shard {
    const void *at;
    enum dtype type;
    const struct engine_share *share; /* borrowed */
    struct kern_moment coded;
};
/* Returns the shard of state 0, the master, or 1, 2, a moment, or 3, the outer momentum. */
struct engine_shard engine_state(const struct engine *e, int unit, int state);
/* Copies elements [at.lo, at.hi) of a shard to `out`, host memory, as to_type (coded: f32). */
int engine_copy(const struct engine *e, void *out, enum dtype to_type, struct engine_shard from,
                struct range at, struct err *err);

/* engine_device.c */
/* Copies n elements to the host, as another type, and waits for them; any thread. */
int engine_get(const struct engine *e, void *to, enum dtype to_type, const void *from,
               enum dtype type, int64_t n, struct err *err);
/* Stores parameters from host f32, rounded to `seen`; n at most ENGINE_PIECE. */
int engine_put_params(const struct engine *e, void *to, enum dtype type, const float *x,
                      enum dtype seen, int64_t n, struct err *err);
/* Copies elements [at, at + n) of an int8 moment to x, host memory; put: stores x, rounded to
   nearest (kern_moment_put). */
int engine_moment(const struct engine *e, const struct kern_moment *m, int64_t at, float *x,
                  int64_t n, int put, struct err *err);

#endif
