/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef EXEC_EXEC_H
#define EXEC_EXEC_H

#include <stdint.h>

#include "base/dtype.h"
#include "base/err.h"
#include "exec/exec_code.h"
#include "schedule/schedule.h"

/*
 * Prepares a schedule for execution: from a schedule that contains at least one rank's rows it
 * derives that rank's own rows, each with the rows it waits for and the memory it reads and
 * writes.  exec_mpi.h and exec_nccl.h run prepared rows.
 *
 * A chunk has up to three spots on a rank: in `in` (never written), in `out`, or, where out has
 * no space for it, in scratch that the handle owns.  A row reads `in` until some row has
 * written the chunk, and the accumulator acc afterwards:
 *
 *     first add      acc = in + arrived         acc is out or scratch
 *     later adds     acc = acc + arrived
 *     copies         acc = arrived
 *     sends          in before the first write, acc after it
 *
 * A chunk that is in both `in` and `out` and that no row writes is copied from `in` to `out`.
 * The scratch chunks of a schedule are always in scratch.  The SLOTS are all chunks of the
 * schedule, followed by its scratch chunks, the same on every rank.
 *
 * CODED places: a row that crosses groups carries the code of its chunk (exec/exec_code.h),
 * and the receiver decodes it, or decodes and adds.  Rows inside groups carry plain elements.
 *
 *     copies alone   (gathers, broadcasts)  Passing a code on loses nothing.  Copies are equal
 *                    on all ranks if the owner's chunk was rounded first: exec_rows_round
 *                    before the run.
 *     sums           Each sender of a partial sum rounds it.  The rank that completes a sum
 *                    which is then gathered across groups rounds it too, before any row reads
 *                    it.
 *     residuals      The rounding error can be kept and added before the next rounding, by each
 *                    sender of partial sums, each rank that completes a sum, and each owner of
 *                    a chunk to be copied: residual_elems floats, zero at first, owned by the
 *                    caller.
 *     not coded      Schedules with scratch chunks (all-reduce by recursive doubling): both
 *                    ends of a row would keep their own part unrounded, and the results would
 *                    differ.
 */
/* Combines n elements: to[i] = to[i] op arrived[i].  The operation must be commutative. */
typedef void (*exec_combine)(void *to, const void *arrived, int64_t n, void *arg);

/* Memory of one rank's chunks.  The arrays are owned: exec_places_init makes them. */
struct exec_places {
    int chunks;          /* the schedule's, without scratch chunks */
    enum exec_code code; /* of rows between groups; no effect where none are coded (above) */
    enum dtype type;
    enum dtype_op redop; /* adds; DTYPE_AVG divides complete sums by the ranks */
    int elem_bytes;      /* type's, or those of combine's operands; copies need no type */
    /* NULL: redop; required if elem_bytes is not type's.  With it redop is DTYPE_SUM and code
       is EXEC_CODE_SAME. */
    exec_combine combine;
    void *combine_arg;
    int64_t *elems;  /* [chunks] length; 0: the chunk is empty and its rows are dropped */
    int64_t *in_at;  /* [chunks] element offset in `in`, or -1 */
    int64_t *out_at; /* [chunks] element offset in `out`, or -1 */
};

/* Initializes: lengths 0, offsets -1, adds are sums of `type`. */
void exec_places_init(struct exec_places *p, int chunks, enum dtype type);
void exec_places_release(struct exec_places *p);

enum exec_where { EXEC_IN, EXEC_OUT, EXEC_SCRATCH };

struct exec_spot {
    enum exec_where where;
    int64_t at; /* byte offset */
};

enum exec_kind { EXEC_SEND, EXEC_RECV, EXEC_LOCAL };

/* A row that this rank sends, receives, or (src = dst) executes locally. */
struct exec_row {
    enum exec_kind kind;
    int lane, peer, step;
    int slot;   /* slot that is sent or written */
    int source; /* local: slot that is read; otherwise the sender's slot */
    enum schedule_op op;
    /* The row starts when this many own rows have written its slot and, unless it sends, this
       many have read it. */
    int wrote, read;
    int source_wrote; /* local: number of earlier own rows that write the source */
    int after;        /* number of own rows that must finish before this one starts (barrier) */
    int complete;     /* an add after which the sum is complete */
    int coded;        /* the wire carries the chunk's code */
    int rounded;      /* the complete sum is rounded to the values of its code */
    int64_t bytes, wire_bytes;
    /* index of the row's first residual (coded sends of adds, rounded sums), or -1 */
    int64_t residual;
    struct exec_spot from; /* send, local: source */
    struct exec_spot base; /* receive, local, of an add: first operand */
    struct exec_spot to;   /* receive, local: destination */
};

struct exec_self { /* a local copy from in to out, in bytes */
    int64_t from, to, bytes;
};

struct exec_span { /* a chunk of a coded gather: element offsets in `in` and `out`, or -1 */
    int64_t at[2], elems;
    int64_t residual; /* if the chunk is in `in`: index of its first residual */
};

/* One rank's rows in the order of the schedule; the arrays are owned. */
struct exec_rows {
    int rows, selves, spans, slots, ranks;
    int lanes; /* lanes of the schedule, the same on every rank */
    enum exec_code code;
    enum dtype type;
    enum dtype_op redop;
    int elem_bytes;
    exec_combine combine; /* NULL or the operation of adds, as in exec_places */
    void *combine_arg;
    struct exec_row *row;
    struct exec_self *self;
    struct exec_span *span;
    int64_t residual_elems;            /* this rank's residual floats */
    int64_t scratch_bytes, most_bytes; /* most_bytes: the largest chunk of the schedule */
    /* sent to, received from other groups by this rank in one run */
    int64_t slow_bytes, slow_in_bytes;
    int64_t fast_bytes; /* sent inside the group by this rank in one run */
};

/*
 * Prepares the rows of one rank.  s: the schedule as schedule_gen gives it for that rank,
 * borrowed during the call.  places is copied, so it may be released afterwards; combine_arg
 * stays borrowed.  *r is written on success only, and owned by the caller.  ERR_MISMATCH if a
 * row reads a chunk that the places do not have; ERR_INPUT with a code if the type is not
 * f32 or bf16, or the reduction is not a sum or average.
 */
int exec_rows_init(struct exec_rows *r, const struct schedule *s, int rank,
                   const struct exec_places *places, struct err *err);
void exec_rows_release(struct exec_rows *r);
/*
 * For a coded gather or broadcast, rounds the chunks that this rank has in `buffer` to the
 * values of their codes; otherwise does nothing.  `where` says whether buffer is `in` or `out`.
 * Round `in` before a run so that copies equal the original; round `out` to get the contents
 * that a run would leave there.  residual: [residual_elems] for `in`, or NULL to keep none;
 * NULL for `out`.
 */
void exec_rows_round(const struct exec_rows *r, enum exec_where where, void *buffer,
                     float *residual);
/* Encodes the chunk at `from` of a coded row into code, wire_bytes long.  residual:
   [residual_elems] of this data, or NULL to keep none. */
void exec_row_code(const struct exec_rows *r, const struct exec_row *row, void *code,
                   const void *from, float *residual);
/*
 * Finishes a receive or local row: writes to `to` the arrived chunk, or base op arrived for an
 * add.  Decodes `arrived` if the row is coded, divides a complete average, and rounds the
 * result where row->rounded.  residual as in exec_row_code.
 */
void exec_row_land(const struct exec_rows *r, const struct exec_row *row, void *to,
                   const void *base, const void *arrived, float *residual);

#endif
