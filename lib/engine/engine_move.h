/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ENGINE_ENGINE_MOVE_H
#define ENGINE_ENGINE_MOVE_H

/* Inside engine/: the transfers of a step, the rows of all lanes but the compute lane. */
#include "coll/coll.h"
#include "dev/dev.h"
#include "step/step_path.h"

struct engine;
struct engine_unit;

/*
 * A transfer in progress: waits for another stream's transfer and for earlier work of the
 * compute queue, packs (if types differ, or src is not in shared memory), runs the collective,
 * stores.  Up to three operations of one stream; the struct stays until the last is done.
 *
 *     after, requested --> src --pack--> send ==collective==> recv --store--> dst
 *
 * send may be src, recv may be dst.
 */
struct engine_move {
    struct engine *engine;          /* borrowed */
    struct device_event *requested; /* borrowed: recorded on the compute queue at the push */
    /* borrowed: recorded on the move queue after an operation's work */
    struct device_event *moved;
    int requests;         /* the current operation has issued its work */
    struct stream *after; /* NULL: no stream to wait for */
    int64_t after_ticket;
    struct coll_call call;
    const void *src;
    enum dtype src_type;
    int64_t src_elems; /* 0: send is filled already */
    void *dst;
    enum dtype dst_type, wire;
    int64_t dst_elems;         /* 0: recv is dst */
    int add;                   /* dst += recv */
    struct engine_unit *outer; /* borrowed: takes the outer step with recv; NULL: none */
    double *start_s, *end_s;   /* to be set, or NULL */
};

/* The transfer of another lane to wait for, in addition to earlier computation, and where to
   record times; either may be NULL. */
struct engine_issue {
    struct stream *after;
    int64_t ticket;
    struct step_time *time;
};
/* Starts a transfer and returns its ticket.  unit, buffer: as in struct step_row. */
int64_t engine_move(struct engine *e, enum step_lane lane, int unit, int buffer,
                    const struct engine_issue *issue);

#endif
