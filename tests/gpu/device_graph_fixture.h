/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DEVICE_GRAPH_FIXTURE_H
#define DEVICE_GRAPH_FIXTURE_H

#include "device_fixture.h"

/* Nothing of it is done before it is asked for, and each time it is all of it. */
static const char *graph_runs(struct device_room *r)
{
    struct device_graph *g = NULL;
    int bad = 0;

    fill(r->host, DEVICE_N, 3);
    device_copy(r->queue, r->x, r->host, DEVICE_N);
    if (device_graph_begin(r->queue, &r->err))
        return "a graph is begun";
    device_copy(r->queue, r->y, r->x, DEVICE_N);
    device_copy(r->queue, r->x, r->z, DEVICE_N);
    device_zero(r->queue, r->y + DEVICE_ODD, 1);
    if (device_graph_end(r->queue, &g, &r->err))
        return "what was asked for became one";
    device_copy(r->queue, r->host, r->y, DEVICE_N);
    bad |= device_sync(r->queue, &r->err) || differs(r->host, DEVICE_N, -1);
    for (int i = 0; i < 2; i++) { /* the second time from what the first one left: zeros */
        device_graph_run(r->queue, g);
        device_copy(r->queue, r->host, r->y, DEVICE_N);
        bad |= device_sync(r->queue, &r->err) || r->host[DEVICE_ODD] != 0;
        r->host[DEVICE_ODD] = i ? 0 : (unsigned char)(1 + (DEVICE_ODD + 3) % 251);
        bad |= differs(r->host, DEVICE_N, i ? -1 : 3) != 0;
    }
    device_graph_free(g);
    return bad ? "it is done when it is asked for, as often" : NULL;
}

/* What cannot be written down is said at the end, and has done no harm. */
static const char *graph_is_refused(struct device *d, struct device_room *r)
{
    struct device_graph *g = NULL;
    struct err at_once = {0};
    void *p = NULL;

    if (device_graph_begin(r->queue, &r->err))
        return "a graph is begun";
    device_zero(r->queue, r->x, DEVICE_N);
    int had = !device_alloc(d, 16, "what is not there yet", &p, &at_once);
    device_zero(r->queue, r->y, DEVICE_N);
    if (!device_graph_end(r->queue, &g, &r->err) || had)
        return "memory is not had while a graph is written down";
    if (r->err.code != ERR_ABSENT || at_once.code != ERR_ABSENT)
        return "that is no failure of the device";
    if (device_alloc(d, 16, "what is there now", &p, &r->err))
        return "and it goes on";
    device_free(d, p);
    return graph_runs(r);
}

static const char *graphs_are_written(struct device *d)
{
    struct device_room r;
    const char *wrong = NULL;

    if (room_open(&r, d))
        return room_close(&r, d, "the memory is there");
    if (device_kind(d) == DEVICE_CPU)
        wrong = device_graph_begin(r.queue, &r.err) && r.err.code == ERR_ABSENT
                    ? NULL
                    : "a CPU has none, and says so";
    else if (!(wrong = graph_runs(&r)))
        wrong = graph_is_refused(d, &r);
    return room_close(&r, d, wrong);
}
#endif
