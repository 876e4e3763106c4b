/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts the products that a step cannot do without. */
#include "net/net_parts.h"

/* Of one line: what it gives forward, what it gives back, what it learns. */
static double line_flops(const struct net *net, const struct net_at *at, int line, int back)
{
    const struct net_buffers *n = net->buffers;
    const struct net_line *l = &n->shape.line[line];
    const struct net_line_at *t = &at->line[line];
    double in = (double)n->shape.stage[l->stage].in, out = (double)l->out;
    double rank = (double)net->model->lora.rank;
    double sum = in * out * (1 + back + (t->w < at->trained));

    if (t->a >= 0) /* dlow is given back to A, whatever else is */
        sum += rank * in * (1 + back + (t->a < at->trained)) +
               rank * out * (1 + (back || t->a < at->trained) + (t->b < at->trained));
    return 2 * (double)net_rows(net, l->stage) * sum;
}

/* The part that a stage is, to compare with where the backward stops. */
static int part_of(enum net_stage_name stage)
{
    static const enum net_part part[NET_STAGES] = {NET_P_QKV, NET_P_OUT, NET_P_FFN, NET_P_DOWN,
                                                   NET_P_QKV};

    return part[stage];
}

double net_flops(const struct net *net)
{
    const struct model *m = net->model;
    const struct net_buffers *n = net->buffers;
    double sum = 0, attention = 4.0 * (double)net->rows * (double)net->options.seq *
                                (double)(m->heads * m->head_dim);

    for (int64_t i = 0; i <= m->layers; i++) {
        const struct net_at *at = &n->shape.at[i];
        int reached = i + 1 >= n->shape.floor && !net->options.forward_only;

        for (int l = 0; l < n->shape.lines; l++)
            if ((n->shape.line[l].stage == NET_HEAD) == (i == m->layers))
                sum += line_flops(net, at, l,
                                  reached && at->stop < part_of(n->shape.line[l].stage));
        if (i < m->layers) /* backward twice the forward's */
            sum += attention * (reached && at->stop < NET_P_OUT ? 3 : 1);
    }
    return sum;
}
