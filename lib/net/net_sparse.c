/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Computes the products with sparse weights.  A line's W is one sparse matrix, or several in
 * sequence, each for the next columns of y.  If few places are active, products run over these;
 * otherwise W is expanded, and of its gradient only the active entries' is kept.
 */
#include "kern/kern_sparse.h"
#include "net/net_parts.h"

struct walk {
    const struct net *net;
    const struct net_hand *hand;
    const struct model_tensor *first, *at;
    int64_t in, rows, ld, out, column; /* the line's; column: columns of y before this matrix */
    struct kern_sparse w;
};

static const float *mask_of(const struct walk *k)
{
    return net_w(k->net, k->hand, model_mask_of(k->net->model, k->at)->offset);
}

/* Lists the active places of the current matrix; 0: too many are active. */
static int sparse_find_places(struct walk *k)
{
    const struct net_buffers *n = k->net->buffers;
    int64_t whole = model_whole(k->at), most = kern_sparse_most(k->at->block, whole);
    int64_t values = k->at->elems / k->at->block; /* a mask may come from another file */

    k->w = (struct kern_sparse){.out = whole / k->in,
                                .in = k->in,
                                .block = k->at->block,
                                .start = n->place_start,
                                .column = n->place_column,
                                .value = net_w(k->net, k->hand, k->at->offset)};
    return model_sparse_places(k->at, mask_of(k), most < values ? most : values, n->place_start,
                               n->place_column);
}

/* Lists the places of the first matrix; 0: the line is not sparse, or one has too many
   active. */
static int sparse_begin(struct walk *k, const struct net *net, const struct net_hand *hand,
                        int line)
{
    const struct net_line *l = &net->buffers->shape.line[line];
    const struct net_stage *s = &net->buffers->shape.stage[l->stage];

    *k = (struct walk){.net = net,
                       .hand = hand,
                       .first = hand->at->line[line].sparse,
                       .at = hand->at->line[line].sparse,
                       .in = s->in,
                       .rows = net_rows(net, l->stage),
                       .ld = s->ld,
                       .out = l->out};
    if (!k->first || !net->buffers->place_start)
        return 0;
    for (int64_t out = 0; out < l->out; k->at++)
        out += model_whole(k->at) / k->in;
    while (k->at > k->first) {
        k->at--;
        if (!sparse_find_places(k))
            return 0;
    }
    return 1;
}

/* Lists the places of the next matrix; 0: there is none. */
static int next(struct walk *k)
{
    k->column += k->w.out;
    if (k->column == k->out)
        return 0;
    k->at++;
    return sparse_find_places(k);
}

double net_sparse_share(const struct model *m, enum dtype compute)
{
    const struct model_sparse *s = &m->sparse;
    const int64_t entries = 1 << 20;
    double most = (double)(kern_sparse_most(s->block, entries) * s->block) / (double)entries;

    return s->share > 0 && compute == DTYPE_F32 && most >= 1 - s->share ? most : 0;
}

static const float *at(const void *x, int64_t column)
{
    return x ? (const float *)x + column : NULL;
}

int net_sparse_y(const struct net *net, const struct net_hand *hand, int line, const void *x,
                 const void *from, const void *bias, void *y)
{
    struct walk k;
    int few = sparse_begin(&k, net, hand, line);

    for (int goes_on = few; goes_on; goes_on = next(&k))
        kern_sparse_y(&k.w, x, k.in, k.rows, at(from, k.column), at(bias, k.column),
                      (float *)y + k.column, k.ld, net->buffers->places_space);
    return few;
}

int net_sparse_dx(const struct net *net, const struct net_hand *hand, int line, const void *dy,
                  void *dx)
{
    const struct net_shape *n = &net->buffers->shape;
    int add = line > n->stage[n->line[line].stage].first;
    struct walk k;
    int few = sparse_begin(&k, net, hand, line);

    for (int goes_on = few; goes_on; goes_on = next(&k))
        kern_sparse_dx(&k.w, (const float *)dy + k.column, k.ld, k.rows, add || k.column, dx,
                       k.in, net->buffers->places_space);
    return few;
}

int net_sparse_dw(const struct net *net, const struct net_hand *hand, int line, const void *dy,
                  const void *x, float *dw)
{
    struct walk k;
    int few = sparse_begin(&k, net, hand, line);

    for (int goes_on = few; goes_on; goes_on = next(&k))
        kern_sparse_dw(&k.w, (const float *)dy + k.column, k.ld, x, k.in, k.rows,
                       dw + k.at->offset - k.first->offset, net->buffers->places_space);
    return few;
}

float *net_sparse_whole(const struct net *net, const struct net_hand *hand, int line, float *dw)
{
    const struct net_line *l = &net->buffers->shape.line[line];
    int64_t elems = net->buffers->shape.stage[l->stage].in * l->out;
    const struct model_tensor *first = hand->at->line[line].sparse;
    struct walk k = {.net = net, .hand = hand, .first = first, .at = first};

    for (float *whole = net->buffers->whole, *end = whole + elems; whole < end;
         whole += model_whole(k.at++)) {
        if (dw)
            model_sparse_add(k.at, whole, mask_of(&k), dw + k.at->offset - k.first->offset);
        else
            model_sparse_whole(k.at, net_w(net, hand, k.at->offset), mask_of(&k), whole);
    }
    return net->buffers->whole;
}
