/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_SIM_PARTS_H
#define SIM_SIM_PARTS_H

/* Inside sim/: rows become messages in queues, queues share resources, events move time on. */
#include "sim/sim.h"

/* A row, and where it lands: its own dst, or the rank that stands for that (sim_spec.c). */
struct sim_row {
    int lane, step, src, dst, chunk;
    int at, into; /* the rank it lands on, and the chunk there */
};

/* One thing that is shared: a link, a port, one way of it. */
struct sim_resource {
    double Bps, bytes; /* bytes: of the whole run */
    int level, binds;  /* binds 0: others are always narrower */
    int first, active; /* slots of the queues that send through it now */
    int stamp, dirty;
    double left_Bps; /* while rates are set */
    int open, tight;
};

/* A queue's place in one resource's list. */
struct sim_slot {
    int resource, queue, next, before;
};

struct sim_queue {
    int lane, src, dst, at; /* as of its rows */
    int first, count;       /* its messages */
    int sent, landed;       /* of them, so far */
    double alpha_s, message_s, flow_Bps;
    int slot, slots; /* the resources that bind it */
    /* the message being sent */
    int busy, version, stamp, set; /* version: of its rate, so that old events are known */
    double left, Bps, since_s;
};

struct sim_message {
    double bytes, start_s, end_s;
    int queue, step, phase;    /* phase: barriers before it */
    int start_wait, land_wait; /* edges that must end before it starts, lands */
    int on_sent, on_landed;    /* edges: what waits for it; -1: none */
    int arrived;
};

/* 2 * message, or + 1: its landing; and the next edge of the same list. */
struct sim_edge {
    int to, next;
};

/* All of a rank's rows before a barrier. */
struct sim_gate {
    int left, first; /* halves of messages unfinished; edges that wait */
};

/* The event of id: of a queue, at its rate's version; or of a queue or a message. */
enum { SIM_ARRIVES = -1, SIM_IS_TAKEN = -2, SIM_GOES = -3 };
struct sim_event {
    double t;
    int id, version; /* version >= 0: the queue has sent */
};

struct sim {
    const struct topo *t;
    const struct schedule *s; /* chunks, planes, barriers; its rows are not looked at */
    const double *bytes;      /* [chunks] */
    const struct sim_row *row;
    int rows;
    int *message_of; /* [rows]; -1: empty */

    struct sim_resource *resource;
    int resources;
    struct sim_slot *slot;
    int slots;
    size_t slot_space;
    struct sim_queue *queue;
    int queues;
    size_t queue_space;
    struct sim_message *message;
    int messages;
    size_t message_space;
    struct sim_edge *edge;
    int edges;
    size_t edge_space;
    struct sim_gate *gate; /* [ranks][barriers] */

    double now, *free_s;     /* [ranks] from when on a rank's processor is free */
    struct sim_event *event; /* a heap */
    int events;
    size_t event_space;
    int *todo; /* queues to look at */
    int todos;
    size_t todo_space;
    int *dirty; /* [resources] whose rates are to be set anew */
    int dirties, stamp;
    int *reached_queue,
        *reached_resource; /* [queues], [resources]: those that a change reaches */
};

/* Resources of a fabric; a queue's way through them. */
void sim_share_init(struct sim *x);
void sim_share_route(struct sim *x, struct sim_queue *q, double bytes);
/* A queue begins or ends to send; then all rates that this changes, with events for them. */
void sim_share_enter(struct sim *x, int queue);
void sim_share_leave(struct sim *x, int queue);
void sim_share_update(struct sim *x);

void sim_run_push(struct sim *x, struct sim_event event);
/* ERR_MISMATCH when messages wait for each other. */
int sim_run(struct sim *x, struct err *err);

/* Rows of chunks of bytes[c]: messages, what they wait for, the run, and its times. */
int sim_rows_run(const struct schedule *s, const struct topo *t, const double *bytes,
                 const struct sim_row *row, int64_t rows, int every_row, struct sim_times *out,
                 struct err *err);

#endif
