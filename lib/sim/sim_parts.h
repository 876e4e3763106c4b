/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_SIM_PARTS_H
#define SIM_SIM_PARTS_H

/* Internal to sim/: rows become messages in queues, queues share resources, events advance
   time. */
#include "sim/sim.h"

/* A row, and where it lands: on its own dst, or on the rank that represents it (sim_spec.c). */
struct sim_row {
    int lane, step, src, dst, chunk;
    int at, into; /* the rank it lands on, and the chunk there */
};

/* A shared resource: one direction of a link or port. */
struct sim_resource {
    double Bps, bytes; /* bytes: total of the run */
    int level, binds;  /* binds 0: others are always narrower */
    int first, active; /* slots of the queues that currently send through it */
    int stamp, dirty;
    double left_Bps; /* while rates are computed */
    int open, tight;
};

/* A queue's entry in one resource's list. */
struct sim_slot {
    int resource, queue, next, before;
};

struct sim_queue {
    int lane, src, dst, at; /* as in its rows */
    int first, count;       /* its messages */
    int sent, landed;       /* messages sent and landed so far */
    double alpha_s, message_s, flow_Bps;
    int slot, slots; /* the resources that bind it */
    /* the message being sent */
    int busy, version, stamp, set; /* version: of its rate, so that outdated events are
                                      recognized */
    double left, Bps, since_s;
};

struct sim_message {
    double bytes, start_s, end_s;
    int queue, step, phase;    /* phase: barriers before it */
    int start_wait, land_wait; /* edges that must end before it starts, lands */
    int on_sent, on_landed;    /* lists of edges that wait for it; -1: empty */
    int arrived;
};

/* to: 2 * message, or + 1 for its landing; next: the list's next edge. */
struct sim_edge {
    int to, next;
};

/* All of a rank's rows before a barrier. */
struct sim_gate {
    int left, first; /* unfinished halves of messages; edges that wait */
};

/* Kinds of events without a version; id is a queue's or a message's number. */
enum { SIM_ARRIVES = -1, SIM_IS_TAKEN = -2, SIM_GOES = -3 };
struct sim_event {
    double t;
    int id, version; /* version >= 0: the queue has sent */
};

struct sim {
    const struct topo *t;
    const struct schedule *s; /* chunks, planes, barriers; its rows are not read */
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

    double now, *free_s;     /* [ranks] time from which a rank's processor is free */
    struct sim_event *event; /* a heap */
    int events;
    size_t event_space;
    int *todo; /* queues to examine */
    int todos;
    size_t todo_space;
    int *dirty; /* [resources] whose rates must be recomputed */
    int dirties, stamp;
    int *reached_queue,
        *reached_resource; /* [queues], [resources]: those that a change affects */
};

/* Sets up the resources of a fabric; a queue's path through them. */
void sim_share_init(struct sim *x);
void sim_share_route(struct sim *x, struct sim_queue *q, double bytes);
/* A queue begins or ends sending; then recompute all affected rates, with events for them. */
void sim_share_enter(struct sim *x, int queue);
void sim_share_leave(struct sim *x, int queue);
void sim_share_update(struct sim *x);

void sim_run_push(struct sim *x, struct sim_event event);
/* ERR_MISMATCH if messages wait for each other. */
int sim_run(struct sim *x, struct err *err);

/* Simulates rows with chunks of bytes[c]: makes messages and their dependencies, runs them, and
   returns the times. */
int sim_rows_run(const struct schedule *s, const struct topo *t, const double *bytes,
                 const struct sim_row *row, int64_t rows, int every_row, struct sim_times *out,
                 struct err *err);

#endif
