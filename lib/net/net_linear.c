/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Computes the products with weights.  For W (out, in): forward y = x W^T, backward dx = dy W
 * and dW += dy^T x; for a weight stored as (in, out) the same with W^T for W, without a copy.
 * With an adapter, low = s x A^T (s = alpha / rank; (R,rank)):
 *
 *     y += low B^T      dlow = s dy B      dx += dlow A      dA += dlow^T x      dB += dy^T low
 *
 * For a sparse W, products run over its active places, or W is expanded for each of the three
 * (net_sparse.c).
 *
 * low is recomputed in the backward: that is one of the adapter's seven products, and needs
 * only x, which dA needs as well; keeping it would take a buffer per line and layer.
 *
 * An operand of another type than that of products (on a CPU every operand, with compute bf16)
 * is rounded first, into a buffer whose rows are PAD elements wider than necessary: if rows are
 * a multiple of 2 KiB apart, a product's reads of a column fall into few sets of the cache
 * (measured on llama-10m: 7 % of a step).  Not padded on a GPU, where each row would be a
 * launch: there one launch rounds a weight.
 */
#include <string.h>

#include "net/net_parts.h"

const void *net_w(const struct net *net, const struct net_hand *hand, int64_t offset)
{
    return (const char *)hand->w + offset * dtype_bytes(net->options.kern->weight);
}

/* Whether the network will run the product; others are not prepared. */
static int wanted(const struct net *net, const struct net_line *l, enum net_product p)
{
    int forward = p == NET_Y || p == NET_LOW || p == NET_RISE;

    return (forward || !net->options.forward_only) && (p <= NET_DW || l->adapted);
}

static struct kern_product_shape linear_shape_of(const struct net *net, int line,
                                                 enum net_product p)
{
    const struct net_line *l = &net->buffers->shape.line[line];
    const struct net_stage *s = &net->buffers->shape.stage[l->stage];
    int64_t R = net_rows(net, l->stage), in = s->in, out = l->out, r = net->model->lora.rank;
    int64_t x = net_operand_ld(net, in), dy = net_operand_ld(net, s->ld),
            low = net_operand_ld(net, r);
    int64_t w = net_weight_ld(net, net_stored(net, l)), wx = net_weight_ld(net, in),
            wr = net_weight_ld(net, r);
    char t = l->transposed ? 'N' : 'T', not_t = l->transposed ? 'T' : 'N';
    enum dtype type = net->options.compute, act = net->options.kern->act, sum = DTYPE_F32;
    const struct kern_product_shape shape[NET_PRODUCTS] = {
        [NET_Y] = {'N', t, R, out, in, x, w, s->ld, s->add, type, act},
        [NET_DX] = {'N', not_t, R, in, out, dy, w, in, line > s->first, type, act},
        [NET_DW] =
            l->transposed
                ? (struct kern_product_shape){'T', 'N', in, out, R, x, dy, out, 1, type, sum}
                : (struct kern_product_shape){'T', 'N', out, in, R, dy, x, in, 1, type, sum},
        [NET_LOW] = {'N', 'T', R, r, in, x, wx, r, 0, type, act},
        [NET_RISE] = {'N', 'T', R, out, r, low, wr, s->ld, 1, type, act},
        [NET_DLOW] = {'N', 'N', R, r, out, dy, wr, r, 0, type, act},
        [NET_DXA] = {'N', 'N', R, in, r, low, wx, in, 1, type, act},
        [NET_DA] = {'T', 'N', r, in, R, low, x, in, 1, type, sum},
        [NET_DB] = {'T', 'N', out, r, R, dy, low, r, 1, type, sum},
    };

    return shape[p];
}

int net_linear_init(struct net *net, struct err *err)
{
    struct net_buffers *n = net->buffers;
    struct kern *k = net->options.kern;

    for (int i = 0; i < n->shape.lines; i++)
        for (enum net_product p = NET_Y; p < NET_PRODUCTS; p++) {
            struct kern_product_shape s = linear_shape_of(net, i, p);

            if (wanted(net, &n->shape.line[i], p) &&
                k->op->product_new(k, &n->shape.line[i].product[p], &s, err))
                return -1;
        }
    return 0;
}

void net_linear_release(struct net *net)
{
    struct kern *k = net->options.kern;

    for (int i = 0; i < net->buffers->shape.lines; i++)
        for (int p = 0; p < NET_PRODUCTS; p++)
            k->op->product_free(k, net->buffers->shape.line[i].product[p]);
}

/* Rounds a matrix of another type into `space`, where rows are `row` elements apart. */
static void linear_rounded(const struct net *net, void *space, int64_t row, const void *x,
                           enum dtype type, int64_t rows, int64_t columns)
{
    struct kern *k = net->options.kern;
    enum dtype to = net->options.compute;

    if (row == columns) {
        columns *= rows;
        rows = 1;
    }
    for (int64_t i = 0; i < rows; i++)
        k->op->convert(k, (char *)space + i * row * dtype_bytes(to), to,
                       (const char *)x + i * columns * dtype_bytes(type), type, columns);
}

const void *net_operand(const struct net *net, const void *x, int64_t rows, int64_t columns,
                        void *space)
{
    enum dtype act = net->options.kern->act;

    if (act == net->options.compute)
        return x;
    linear_rounded(net, space, net_operand_ld(net, columns), x, act, rows, columns);
    return space;
}

static const void *weight(const struct net *net, const void *w, int64_t rows, int64_t columns)
{
    enum dtype type = net->options.kern->weight;

    if (type == net->options.compute)
        return w;
    linear_rounded(net, net->buffers->w_space, net_weight_ld(net, columns), w, type, rows,
                   columns);
    return net->buffers->w_space;
}

static const void *line_weight(const struct net *net, const struct net_hand *hand, int line)
{
    const struct net_line *l = &net->buffers->shape.line[line];
    const struct net_line_at *at = &hand->at->line[line];
    int64_t columns = net_stored(net, l), in = net->buffers->shape.stage[l->stage].in;
    const void *w = net_w(net, hand, at->w);

    if (at->sparse)
        w = net_sparse_whole(net, hand, line, NULL);
    return weight(net, w, in * l->out / columns, columns);
}

static const void *adapter_a(const struct net *net, const struct net_hand *hand, int line)
{
    const struct net_shape *n = &net->buffers->shape;

    return weight(net, net_w(net, hand, hand->at->line[line].a), net->model->lora.rank,
                  n->stage[n->line[line].stage].in);
}

static const void *adapter_b(const struct net *net, const struct net_hand *hand, int line)
{
    return weight(net, net_w(net, hand, hand->at->line[line].b),
                  net->buffers->shape.line[line].out, net->model->lora.rank);
}

/* c = a b, or c += a b if the product adds. */
static void linear_run(const struct net *net, int line, enum net_product p, const void *a,
                       const void *b, void *c)
{
    struct kern *k = net->options.kern;

    k->op->product(k, net->buffers->shape.line[line].product[p], a, b, c, NULL, c);
}

/* Scales low by s, and returns it as an operand. */
static const void *scaled(const struct net *net, void *low, int64_t rows, void *space)
{
    const struct model_lora *a = &net->model->lora;
    struct kern *k = net->options.kern;

    k->op->scale_act(k, low, (float)(a->alpha / (double)a->rank), rows * a->rank);
    return net_operand(net, low, rows, a->rank, space);
}

static const void *low_of(const struct net *net, int line, const struct net_hand *hand,
                          const void *x)
{
    const struct net_buffers *n = net->buffers;

    linear_run(net, line, NET_LOW, x, adapter_a(net, hand, line), n->low);
    return scaled(net, n->low, net_rows(net, n->shape.line[line].stage), n->low_space);
}

void net_stage_forward(const struct net *net, enum net_stage_name stage,
                       const struct net_hand *hand, const void *x, const void *from, void *y)
{
    const struct net_buffers *n = net->buffers;
    const struct net_stage *s = &n->shape.stage[stage];
    const void *operand = net_operand(net, x, net_rows(net, stage), s->in, n->x_space);
    struct kern *k = net->options.kern;

    for (int i = s->first; i < s->first + s->count; i++) {
        const struct net_line_at *at = &hand->at->line[i];
        int64_t column = net_act_bytes(net, n->shape.line[i].column);
        const void *bias = at->bias >= 0 ? net_w(net, hand, at->bias) : NULL;
        const void *own_from = from ? (const char *)from + column : NULL;
        void *own_y = (char *)y + column;

        if (!net_sparse_y(net, hand, i, operand, own_from, bias, own_y))
            k->op->product(k, n->shape.line[i].product[NET_Y], operand,
                           line_weight(net, hand, i), own_from, bias, own_y);
        if (at->a >= 0) {
            const void *low = low_of(net, i, hand, operand);
            linear_run(net, i, NET_RISE, low, adapter_b(net, hand, i), own_y);
        }
    }
}

void net_line_dx(const struct net *net, int line, const struct net_hand *hand,
                 const struct net_dy *dy, void *dx)
{
    const struct net_buffers *n = net->buffers;
    const struct net_line_at *at = &hand->at->line[line];

    if (dx && !net_sparse_dx(net, hand, line, dy->operand, dx))
        linear_run(net, line, NET_DX, dy->operand, line_weight(net, hand, line), dx);
    if (at->a < 0)
        return;
    linear_run(net, line, NET_DLOW, dy->operand, adapter_b(net, hand, line), n->dlow);
    const void *dlow = scaled(net, n->dlow, net->rows, n->dlow_space);
    if (dx)
        linear_run(net, line, NET_DXA, dlow, adapter_a(net, hand, line), dx);
}

void net_line_dw(const struct net *net, int line, const struct net_hand *hand,
                 const struct net_dy *dy, const void *x)
{
    const struct net_buffers *n = net->buffers;
    const struct net_line *l = &n->shape.line[line];
    const struct net_line_at *at = &hand->at->line[line];
    float *w = net_grad(hand, at->w), *bias = net_grad(hand, at->bias);
    float *a = net_grad(hand, at->a), *b = net_grad(hand, at->b);
    struct kern *k = net->options.kern;

    if (w && !(at->sparse && net_sparse_dw(net, hand, line, dy->operand, x, w))) {
        float *dw = at->sparse ? n->whole : w;
        if (at->sparse)
            memset(dw, 0, (size_t)(n->shape.stage[l->stage].in * l->out) * sizeof *dw);
        if (l->transposed)
            linear_run(net, line, NET_DW, x, dy->operand, dw);
        else
            linear_run(net, line, NET_DW, dy->operand, x, dw);
        if (at->sparse)
            net_sparse_whole(net, hand, line, w);
    }
    if (bias)
        k->op->bias_backward(k, bias, dy->act, n->shape.stage[l->stage].ld, net->rows, l->out);
    if (b)
        linear_run(net, line, NET_DB, dy->operand, low_of(net, line, hand, x), b);
    if (a) /* dlow was left by net_line_dx */
        linear_run(net, line, NET_DA, n->dlow_space ? n->dlow_space : n->dlow, x, a);
}

int net_stage_needs_x(const struct net *net, enum net_stage_name stage,
                      const struct net_hand *hand)
{
    const struct net_stage *s = &net->buffers->shape.stage[stage];

    for (int i = s->first; i < s->first + s->count; i++) {
        const struct net_line_at *at = &hand->at->line[i];

        if (net_grad(hand, at->w) || net_grad(hand, at->a) || net_grad(hand, at->b))
            return 1;
    }
    return 0;
}

void net_stage_backward(const struct net *net, enum net_stage_name stage,
                        const struct net_hand *hand, const void *dy, const void *x, void *dx)
{
    const struct net_buffers *n = net->buffers;
    const struct net_stage *s = &n->shape.stage[stage];
    const char *rounded_dy = net_operand(net, dy, net->rows, s->ld, n->dy_space);
    const void *operand = NULL;

    if (x && net_stage_needs_x(net, stage, hand))
        operand = net_operand(net, x, net->rows, s->in, n->x_space);
    for (int i = s->first; i < s->first + s->count; i++) {
        int64_t column = n->shape.line[i].column;
        struct net_dy own = {(const char *)dy + net_act_bytes(net, column),
                             rounded_dy + column * dtype_bytes(net->options.compute)};

        net_line_dx(net, i, hand, &own, dx);
        net_line_dw(net, i, hand, &own, operand);
    }
}
