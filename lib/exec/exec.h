/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXEC_EXEC_H
#define EXEC_EXEC_H

#include <stdint.h>

#include "base/dtype.h"
#include "base/err.h"
#include "schedule/schedule.h"

/*
 * Running a schedule.  A chunk lives in three places of a rank: `in` (never written), `out`,
 * or, where out has no room for it, scratch that the handle owns.  A row reads `in` until a row
 * has written the chunk, and what was written afterwards:
 *
 *     first add      acc = in + arrived         acc is out or scratch
 *     later adds     acc = acc + arrived
 *     copies         acc = arrived
 *     sends          in before the first write, acc after it
 *
 * A chunk that is in both `in` and `out` and that no row writes is copied from one to the
 * other.  The scratch chunks of a schedule are scratch here too: a rank's slots (`rooms`) are
 * its chunks and its scratch chunks.
 *
 * CODED places: a row that crosses groups carries the code of its chunk (exec/exec_block8.h),
 * which is decoded, or decoded and added, where it arrives; rows inside groups stay as they
 * are.
 *
 *     copies alone   (gathers, broadcasts)  What is passed on loses nothing, so that copies are
 *                    equal if the first of them was rounded: exec_rows_round, before.
 *     sums           Each sender of a part of a sum rounds it, and so does the rank that
 *                    completes a sum which is to be gathered across groups again, before
 *                    anybody reads it.
 *     residuals      What rounding lost can be kept and added before the next rounding, by
 *                    each sender of its parts, each owner of what it completed or gives away:
 *                    residual_elems floats, zero at first, that the caller owns.
 *     not coded      Schedules with scratch chunks (all-reduce by recursive doubling): there
 *                    both ends of a row would keep their own part as it is, and differ.
 */
/* to[i] = to[i] op arrived[i], of n elements; any op whose operands may change places. */
typedef void (*exec_combine)(void *to, const void *arrived, int64_t n, void *arg);

struct exec_places {
    int chunks;
    int coded;
    enum dtype type;
    enum dtype_op
        redop;      /* the operation of adds; DTYPE_AVG divides complete sums by the ranks */
    int elem_bytes; /* the type's, or another's that `combine` takes; copies need no type */
    exec_combine combine; /* NULL: an add is redop's; never NULL if elem_bytes is not type's */
    void *combine_arg;
    int64_t *elems;  /* [chunks] length; 0: nothing to move, all its rows are dropped */
    int64_t *in_at;  /* [chunks] element offset in `in`, or -1 */
    int64_t *out_at; /* [chunks] element offset in `out`, or -1 */
};

/* elems 0, offsets -1, sums of the type. */
void exec_places_init(struct exec_places *p, int chunks, enum dtype type);
void exec_places_release(struct exec_places *p);

/* One rank's rows, ready to run: what each waits for, and where each reads and writes. */
enum exec_where { EXEC_IN, EXEC_OUT, EXEC_SCRATCH };

struct exec_spot {
    enum exec_where where;
    int64_t at; /* bytes */
};

enum exec_kind { EXEC_SEND, EXEC_RECV, EXEC_LOCAL };

struct exec_row {
    enum exec_kind kind;
    int lane, peer, step;
    int slot;   /* the slot sent, or written */
    int source; /* local: the slot that is read; else the sender's slot */
    enum schedule_op op;
    int wrote, read;  /* own rows before that write, read the slot */
    int source_wrote; /* local: own rows before that write the source */
    int after;        /* own rows that must be done before any of this one (barrier) */
    int complete;     /* the sum is complete behind this row */
    int coded;        /* the wire carries the code */
    int rounded;      /* the complete sum is rounded to what its code says */
    int64_t bytes, wire_bytes;
    int64_t residual; /* coded adds at the sender, rounded sums: its first float; else -1 */
    struct exec_spot from; /* send, local: what is moved */
    struct exec_spot base; /* receive, local, of an add: the first operand */
    struct exec_spot to;   /* receive, local: where the result goes */
};

struct exec_self { /* a local copy from in to out */
    int64_t from, to, bytes;
};

struct exec_span { /* a chunk of a coded gather: element offsets in `in` and `out`, or -1 */
    int64_t at[2], elems;
    int64_t residual; /* of a chunk in `in`: its first float */
};

struct exec_rows {
    int rows, selves, spans, slots, ranks;
    int lanes; /* of the schedule: as many on every rank */
    enum dtype type;
    enum dtype_op redop;
    int elem_bytes;
    exec_combine combine; /* as in the places */
    void *combine_arg;
    struct exec_row *row;
    struct exec_self *self;
    struct exec_span *span;
    int64_t residual_elems;            /* of this rank */
    int64_t scratch_bytes, most_bytes; /* most_bytes: of the largest chunk, anybody's */
    int64_t slow_bytes, slow_in_bytes; /* to and from other groups, this rank, one run */
    int64_t fast_bytes;                /* sent inside the group */
};

/*
 * From the rows of one rank (schedule_gen with that rank).  ERR_MISMATCH when a row reads a
 * chunk that the places do not have; ERR_INPUT for a type or an operation that has no code.
 */
int exec_rows_init(struct exec_rows *r, const struct schedule *s, int rank,
                   const struct exec_places *places, struct err *err);
void exec_rows_release(struct exec_rows *r);
/*
 * Rounds the chunks of `buffer`, which is this rank's `in` or `out`, to what their codes say;
 * nothing unless the rows are a coded gather.  Round `in` before a run, if copies are to be
 * equal; round `out` to have what a run would leave there.  residual: of `in`; or NULL: none is
 * kept.
 */
void exec_rows_round(const struct exec_rows *r, enum exec_where where, void *buffer,
                     float *residual);
/* The code of a coded row, wire_bytes long.  residual: of the run, or NULL: none is kept. */
void exec_row_code(const struct exec_rows *r, const struct exec_row *row, void *code,
                   const void *from, float *residual);
/*
 * Lands what arrived at `to`: a copy, or base and arrived reduced, divided when complete, and
 * rounded when it is to be.
 */
void exec_row_land(const struct exec_rows *r, const struct exec_row *row, void *to,
                   const void *base, const void *arrived, float *residual);

#endif
