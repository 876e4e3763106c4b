/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records layers as graphs of a GPU, and decides when a layer becomes one.  A graph contains
 * the addresses that its kernels use.  All are fixed memory of the net, except for parameters
 * and gradients, which alternate between a few addresses, and the kernels' own memory, which
 * moves when it must grow.
 *
 *     layer 0   forward    params a   params b         each direct at first, then a graph
 *               backward   params a, grads   params b, grads
 *     layer 1   ...
 */
#include "net/net.h"

#include "net/net_parts.h"

enum { WAYS = 2 }; /* forward, back */

static int places(const struct net *net)
{
    return net->options.places > 1 ? net->options.places : 1;
}

static int64_t entries(const struct net *net)
{
    return net_together(net) * net->model->layers * WAYS * places(net);
}

void net_graph_init(struct net *net)
{
    struct net_graph_table *t = &net->buffers->graphs;

    t->on = net->options.graphs && device_kind(net->options.kern->device) != DEVICE_CPU;
    if (t->on)
        t->at = mem_new((size_t)entries(net), sizeof *t->at);
}

void net_graph_release(struct net *net)
{
    struct net_graph_table *t = &net->buffers->graphs;

    for (int64_t i = 0; t->at && i < entries(net); i++)
        device_graph_free(t->at[i].graph);
    mem_free(t->at);
}

/* Returns the entry with these arguments, or a free one; NULL if all are taken. */
static struct net_graph *graph_entry_of(struct net *net, int64_t layer, const void *params,
                                        const float *grads, int back)
{
    struct net_graph_table *t = &net->buffers->graphs;
    int64_t visit = net->buffers->using * net->model->layers + layer;
    struct net_graph *at = t->at + (visit * WAYS + back) * places(net);

    for (int i = 0; t->on && i < places(net); i++)
        if (!at[i].requested || (at[i].params == params && at[i].grads == grads))
            return &at[i];
    return NULL;
}

static void graph_issue_layer(struct net *net, int64_t layer, const void *params, float *grads,
                              int back)
{
    struct net_buffers *n = net->buffers;

    if (back)
        net_layer_backward(net, layer, params, grads);
    else
        net_layer_forward(net, layer, params,
                          layer + 1 < net->model->layers ? n->kept[layer + 1].x : n->x_last);
}

/* Whether a valid graph exists, recording it if possible. */
static int graph_is_there(struct net *net, struct net_graph *g, int64_t layer, int back)
{
    struct net_graph_table *t = &net->buffers->graphs;
    struct kern *k = net->options.kern;
    struct err err;

    if (g->requested && g->kern_bytes != k->bytes) {
        device_graph_free(g->graph); /* allocating memory has waited for all its runs */
        g->graph = NULL;
        g->requested = 0;
    }
    if (g->graph || !g->requested)
        return g->graph != NULL;
    int rc = device_graph_begin(k->queue, &err);
    if (rc == 0) {
        graph_issue_layer(net, layer, g->params, g->grads, back);
        rc = device_graph_end(k->queue, &g->graph, &err);
    }
    t->written += rc == 0;
    if (rc)
        t->on = 0; /* from now on all layers are issued directly, in one way */
    if (rc && err.code == ERR_ABSENT)
        t->refused = err;
    return g->graph != NULL;
}

void net_graph_layer(struct net *net, int64_t layer, const void *params, float *grads, int back)
{
    struct net_graph_table *t = &net->buffers->graphs;
    struct net_graph *g = graph_entry_of(net, layer, params, grads, back);
    struct kern *k = net->options.kern;

    if (g && graph_is_there(net, g, layer, back)) {
        device_graph_run(k->queue, g->graph);
        t->runs++;
    } else {
        graph_issue_layer(net, layer, params, grads, back);
        if (g)
            *g = (struct net_graph){params, grads, k->bytes, 1, NULL};
    }
}

struct net_graphs_report net_graphs_said(const struct net *net)
{
    const struct net_graph_table *t = &net->buffers->graphs;

    return (struct net_graphs_report){t->written, t->runs, t->refused.text};
}
