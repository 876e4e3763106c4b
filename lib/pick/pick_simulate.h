/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PICK_PICK_SIMULATE_H
#define PICK_PICK_SIMULATE_H

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

/*
 * Simulates one operation on a fabric, and compares with the cut bound.  The schedule is either
 * a text (file, "-" is stdin) or, with op and algo, generated for the fabric's groups and
 * levels, in `subchunks` sub-chunks.
 */
struct pick_simulate {
    const char *topo; /* operand of topo_read */
    const char *file; /* or op and algo */
    char *text;       /* the file's contents, once read; overwritten by parsing */
    int64_t text_bytes;
    const char *op, *algo; /* names; not auto */
    int subchunks, root;   /* for a generated schedule; root: a broadcast's */
    int64_t bytes;         /* the vector's, 2^42 at most */
    int json;
};

enum { PICK_SIMULATE_BYTES = 64 << 20 }; /* default of bytes */
#define PICK_SIMULATE_BYTES_MAX (INT64_C(1) << 42)

/* Prints the result, as text or "paro.sched.simulate/1". */
int pick_simulate(const struct pick_simulate *query, FILE *out, struct err *err);
/*
 * Draws all messages (sim/sim_draw.h), as SVG or "paro.sched.draw/1".  Writes nothing on an
 * error; ERR_INPUT if there is too much to draw.
 */
int pick_draw(const struct pick_simulate *query, FILE *out, struct err *err);

#endif
