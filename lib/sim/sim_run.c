/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Advances the time: takes events from a heap, a message sent or one arriving; first all events
 * of one instant, then the rates that they change.  Represents dependencies only as counts and
 * lists of waiting messages.
 */
#include "base/mem.h"
#include "sim/sim_parts.h"

static int sooner(const struct sim_event *a, const struct sim_event *b)
{
    if (a->t != b->t)
        return a->t < b->t;
    return a->id != b->id ? a->id < b->id : a->version < b->version;
}

void sim_run_push(struct sim *x, struct sim_event event)
{
    x->event = mem_grow(x->event, &x->event_space, (size_t)x->events + 1, sizeof *x->event);
    int at = x->events++;
    for (; at && sooner(&event, &x->event[(at - 1) / 2]); at = (at - 1) / 2)
        x->event[at] = x->event[(at - 1) / 2];
    x->event[at] = event;
}

static struct sim_event run_pop(struct sim *x)
{
    struct sim_event top = x->event[0], last = x->event[--x->events];
    int at = 0;

    for (int child = 1; child < x->events; child = 2 * at + 1) {
        if (child + 1 < x->events && sooner(&x->event[child + 1], &x->event[child]))
            child++;
        if (!sooner(&x->event[child], &last))
            break;
        x->event[at] = x->event[child];
        at = child;
    }
    if (x->events)
        x->event[at] = last;
    return top;
}

static void look_at(struct sim *x, int queue)
{
    x->todo = mem_grow(x->todo, &x->todo_space, (size_t)x->todos + 1, sizeof *x->todo);
    x->todo[x->todos++] = queue;
}

static void run_release(struct sim *x, int edge)
{
    for (; edge >= 0; edge = x->edge[edge].next) {
        struct sim_message *m = &x->message[x->edge[edge].to / 2];
        int *wait = x->edge[edge].to % 2 ? &m->land_wait : &m->start_wait;
        if (--*wait == 0)
            look_at(x, m->queue);
    }
}

/* One half of a message is done at a rank: notifies the barriers after it. */
static void run_finish(struct sim *x, const struct sim_message *m, int rank)
{
    for (int b = m->phase; b < x->s->barriers; b++) {
        struct sim_gate *gate = &x->gate[rank * x->s->barriers + b];
        if (--gate->left == 0)
            run_release(x, gate->first);
    }
}

static void sent(struct sim *x, struct sim_queue *q)
{
    struct sim_message *m = &x->message[q->first + q->sent++];

    run_release(x, m->on_sent);
    run_finish(x, m, q->src);
}

/* Returns when a rank's processor is done with a message that it may begin now. */
static double busy_until(struct sim *x, int rank, double message_s)
{
    double from_s = x->free_s[rank] > x->now ? x->free_s[rank] : x->now;

    return x->free_s[rank] = from_s + message_s;
}

static void work_queue(struct sim *x, int queue)
{
    struct sim_queue *q = &x->queue[queue];

    while (!q->busy && q->sent < q->count) {
        struct sim_message *m = &x->message[q->first + q->sent];
        if (m->start_wait)
            break;
        m->start_s = x->now;
        q->left = m->bytes;
        if (q->src != q->dst && q->message_s > 0) {
            q->busy = 1;
            double t = busy_until(x, q->src, q->message_s);
            sim_run_push(x, (struct sim_event){t, queue, SIM_GOES});
            break;
        }
        if (q->src != q->dst) {
            sim_share_enter(x, queue);
            break;
        }
        m->arrived = 1;
        sent(x, q);
    }
    while (q->landed < q->sent) {
        struct sim_message *m = &x->message[q->first + q->landed];
        if (!m->arrived || m->land_wait)
            break;
        m->end_s = x->now;
        q->landed++;
        run_release(x, m->on_landed);
        run_finish(x, m, q->at);
    }
}

static void happen(struct sim *x, struct sim_event event)
{
    if (event.version == SIM_GOES) {
        sim_share_enter(x, event.id);
        return;
    }
    if (event.version < 0) {
        struct sim_message *m = &x->message[event.id];
        const struct sim_queue *to = &x->queue[m->queue];
        if (event.version == SIM_ARRIVES && to->message_s > 0) {
            double t = busy_until(x, to->at, to->message_s);
            sim_run_push(x, (struct sim_event){t, event.id, SIM_IS_TAKEN});
            return;
        }
        m->arrived = 1;
        look_at(x, m->queue);
        return;
    }
    struct sim_queue *q = &x->queue[event.id];
    if (!q->busy || event.version != q->version)
        return;
    sim_share_leave(x, event.id);
    sim_run_push(x, (struct sim_event){x->now + q->alpha_s, q->first + q->sent, SIM_ARRIVES});
    sent(x, q);
    look_at(x, event.id);
}

int sim_run(struct sim *x, struct err *err)
{
    /* The executor polls its queues in the order of their first rows. */
    for (int i = 0; i < x->rows; i++) {
        int m = x->message_of[i];
        if (m >= 0 && x->queue[x->message[m].queue].first == m)
            look_at(x, x->message[m].queue);
    }
    do {
        for (int i = 0; i < x->todos; i++) /* first come, first served by the processor */
            work_queue(x, x->todo[i]);
        x->todos = 0;
        if (x->events && x->event[0].t == x->now) {
            happen(x, run_pop(x));
            continue;
        }
        sim_share_update(x);
        if (x->events) {
            x->now = x->event[0].t;
            happen(x, run_pop(x));
        }
    } while (x->events || x->todos || x->dirties);
    int left = 0, first = -1;
    for (int i = 0; i < x->queues; i++) {
        const struct sim_queue *q = &x->queue[i];
        left += q->count - q->landed;
        if (q->landed < q->count && first < 0)
            first = q->first + q->landed;
    }
    if (left == 0)
        return 0;
    const struct sim_message *m = &x->message[first];
    return err_set(err, ERR_MISMATCH,
                   "%d messages wait for each other, among them lane %d, step %d from "
                   "rank %d to rank %d",
                   left, x->queue[m->queue].lane, m->step, x->queue[m->queue].src,
                   x->queue[m->queue].dst);
}
