/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PICK_PICK_SIMULATE_H
#define PICK_PICK_SIMULATE_H

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

/*
 * The simulated time of one operation on a fabric, beside the cut bound.  Either a schedule's
 * text (file, "-" is stdin) or, with op and algo, what the generators make of the fabric's
 * groups and levels, in so many sub-chunks.
 */
struct pick_simulate {
    const char *topo; /* as topo_read takes it */
    const char *file; /* or: */
    char *text;       /* the file's, where it has been read; cut up in place */
    int64_t text_bytes;
    const char *op, *algo; /* by name; not auto */
    int subchunks, root;   /* of these; root: of a broadcast */
    int64_t bytes;         /* of the vector, 2^42 at most */
    int json;
};

enum { PICK_SIMULATE_BYTES = 64 << 20 }; /* when nobody says how many */
#define PICK_SIMULATE_BYTES_MAX (INT64_C(1) << 42)

/* Prints it, text or "paro.sched.simulate/1". */
int pick_simulate(const struct pick_simulate *query, FILE *out, struct err *err);
/*
 * The same as a picture of all its messages (sim/sim_draw.h), SVG or "paro.sched.draw/1".
 * Nothing is written on an error; ERR_INPUT when there is too much to draw.
 */
int pick_draw(const struct pick_simulate *query, FILE *out, struct err *err);

#endif
