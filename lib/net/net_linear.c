/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The products with weights.  Of a weight W (out, in): forward y = x W^T, backward dx = dy W
 * and dW += dy^T x; of one stored as (in, out) the same with W^T for W, nothing is copied.
 * With an adapter, low = s x A^T (s = alpha / rank; (R,rank)):
 *
 *     y += low B^T      dlow = s dy B      dx += dlow A      dA += dlow^T x      dB += dy^T low
 *
 * low is computed again in the backward: of the adapter's seven products it is one, and x,
 * which dA needs as well, is there; kept it would take a place per line and layer.
 *
 * Computed in bf16, each operand is rounded first, into a room whose rows are PAD elements
 * wider than they need be: where rows are 2 KiB apart or a multiple of it, what a product reads
 * of a column falls into few sets of the cache (measured on llama-10m: 7 % of a step).
 */
#include "net/net_parts.h"

enum { PAD = 32 }; /* a cache line */

static int64_t operand_ld(const struct net *net, int64_t columns)
{
    return net->options.compute == DTYPE_F32 ? columns : columns + PAD;
}

int64_t net_rows(const struct net *net, enum net_stage_name stage)
{
    return stage == NET_HEAD && net->options.forward_only ? net->options.batch : net->rows;
}

/* Columns of the weight as it is stored. */
static int64_t stored(const struct net *net, const struct net_line *l)
{
    return l->transposed ? l->out : net->buffers->shape.stage[l->stage].in;
}

/* Of a product that the network will not run nothing is prepared. */
static int wanted(const struct net *net, const struct net_line *l, enum net_product p)
{
    int forward = p == NET_Y || p == NET_LOW || p == NET_RISE;

    return (forward || !net->options.forward_only) && (p <= NET_DW || l->adapted);
}

static struct kern_product_shape shape_of(const struct net *net, int line, enum net_product p)
{
    const struct net_line *l = &net->buffers->shape.line[line];
    const struct net_stage *s = &net->buffers->shape.stage[l->stage];
    int64_t R = net_rows(net, l->stage), in = s->in, out = l->out, r = net->model->lora.rank;
    int64_t x = operand_ld(net, in), dy = operand_ld(net, s->ld), low = operand_ld(net, r);
    int64_t w = operand_ld(net, stored(net, l));
    char t = l->transposed ? 'N' : 'T', not_t = l->transposed ? 'T' : 'N';
    enum dtype type = net->options.compute;
    const struct kern_product_shape shape[NET_PRODUCTS] = {
        [NET_Y] = {'N', t, R, out, in, x, w, s->ld, s->add, type, DTYPE_F32},
        [NET_DX] = {'N', not_t, R, in, out, dy, w, in, line > s->first, type, DTYPE_F32},
        [NET_DW] = l->transposed ? (struct kern_product_shape){'T', 'N', in, out, R, x, dy, out,
                                                               1, type, DTYPE_F32}
                                 : (struct kern_product_shape){'T', 'N', out, in, R, dy, x, in,
                                                               1, type, DTYPE_F32},
        [NET_LOW] = {'N', 'T', R, r, in, x, x, r, 0, type, DTYPE_F32},
        [NET_RISE] = {'N', 'T', R, out, r, low, low, s->ld, 1, type, DTYPE_F32},
        [NET_DLOW] = {'N', 'N', R, r, out, dy, low, r, 0, type, DTYPE_F32},
        [NET_DXA] = {'N', 'N', R, in, r, low, x, in, 1, type, DTYPE_F32},
        [NET_DA] = {'T', 'N', r, in, R, low, x, in, 1, type, DTYPE_F32},
        [NET_DB] = {'T', 'N', out, r, R, dy, low, r, 1, type, DTYPE_F32},
    };

    return shape[p];
}

int net_linear_init(struct net *net, struct err *err)
{
    struct net_buffers *n = net->buffers;

    for (int i = 0; i < n->shape.lines; i++)
        for (enum net_product p = NET_Y; p < NET_PRODUCTS; p++) {
            struct kern_product_shape s = shape_of(net, i, p);

            if (wanted(net, &n->shape.line[i], p) &&
                kern_product_new(&n->shape.line[i].product[p], &s, err))
                return -1;
        }
    return 0;
}

void net_linear_release(struct net *net)
{
    for (int i = 0; i < net->buffers->shape.lines; i++)
        for (int p = 0; p < NET_PRODUCTS; p++)
            kern_product_free(net->buffers->shape.line[i].product[p]);
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void rooms_place(struct net *net, struct arena *arena)
{
    struct net_buffers *n = net->buffers;
    int64_t bytes = dtype_bytes(net->options.compute), r = net->model->lora.rank;
    int64_t low = net->rows * operand_ld(net, r), x = 0, dy = 0, w = 0;

    for (int i = 0; i < n->shape.lines; i++) {
        const struct net_line *l = &n->shape.line[i];
        const struct net_stage *s = &n->shape.stage[l->stage];
        int64_t rows = net_rows(net, l->stage), across = stored(net, l);

        x = larger(x, rows * operand_ld(net, s->in));
        dy = larger(dy, rows * operand_ld(net, s->ld));
        w = larger(w, s->in * l->out / across * operand_ld(net, across));
        if (l->adapted) /* A, B */
            w = larger(w, larger(r * operand_ld(net, s->in), l->out * operand_ld(net, r)));
    }
    n->x_room = arena_take(arena, bytes * x);
    if (!net->options.forward_only)
        n->dy_room = arena_take(arena, bytes * dy);
    n->w_room = arena_take(arena, bytes * w);
    if (r)
        n->low_room = arena_take(arena, bytes * low);
    if (r && !net->options.forward_only)
        n->dlow_room = arena_take(arena, bytes * low);
}

void net_linear_place(struct net *net, struct arena *arena)
{
    int64_t low = net->rows * net->model->lora.rank * (int64_t)sizeof(float);

    if (low)
        net->buffers->low = arena_take(arena, low);
    if (low && !net->options.forward_only)
        net->buffers->dlow = arena_take(arena, low);
    if (net->options.compute != DTYPE_F32)
        rooms_place(net, arena);
}

const void *net_operand(const struct net *net, const float *x, int64_t rows, int64_t columns,
                        void *room)
{
    enum dtype type = net->options.compute;
    int64_t row = operand_ld(net, columns) * dtype_bytes(type);

    if (type == DTYPE_F32)
        return x;
    for (int64_t i = 0; i < rows; i++)
        dtype_convert((char *)room + i * row, type, x + i * columns, DTYPE_F32, columns);
    return room;
}

/* The columns of a line from those of its stage's array on. */
static struct net_dy part(const struct net *net, const struct net_dy *dy, int64_t column)
{
    return (struct net_dy){dy->f32 + column, (const char *)dy->operand +
                                                 column * dtype_bytes(net->options.compute)};
}

static const void *weight(const struct net *net, const float *w, int64_t rows, int64_t columns)
{
    return net_operand(net, w, rows, columns, net->buffers->w_room);
}

static const void *line_weight(const struct net *net, const struct net_line *l, const float *w)
{
    int64_t columns = stored(net, l), in = net->buffers->shape.stage[l->stage].in;

    return weight(net, w, in * l->out / columns, columns);
}

/* s rows, as an operand. */
static const void *scaled(const struct net *net, float *low, int64_t rows, void *room)
{
    const struct model_lora *a = &net->model->lora;

    kern_scale(low, (float)(a->alpha / (double)a->rank), rows * a->rank);
    return net_operand(net, low, rows, a->rank, room);
}

static const void *low_of(const struct net *net, int line, const struct net_hand *hand,
                          const void *x)
{
    const struct net_buffers *n = net->buffers;
    const struct net_line *l = &n->shape.line[line];
    const float *a = hand->w + hand->at->line[line].a;

    kern_product_run(l->product[NET_LOW], x,
                     weight(net, a, net->model->lora.rank, n->shape.stage[l->stage].in), n->low,
                     NULL, n->low);
    return scaled(net, n->low, net_rows(net, l->stage), n->low_room);
}

static void line_forward(const struct net *net, int line, const struct net_hand *hand,
                         const void *x, float *y)
{
    const struct net_buffers *n = net->buffers;
    const struct net_line *l = &n->shape.line[line];
    const struct net_line_at *at = &hand->at->line[line];

    kern_product_run(l->product[NET_Y], x, line_weight(net, l, hand->w + at->w), y, NULL, y);
    if (at->bias >= 0)
        kern_bias(y, n->shape.stage[l->stage].ld, hand->w + at->bias, net_rows(net, l->stage),
                  l->out);
    if (at->a >= 0) {
        const void *low = low_of(net, line, hand, x);

        kern_product_run(l->product[NET_RISE], low,
                         weight(net, hand->w + at->b, l->out, net->model->lora.rank), y, NULL,
                         y);
    }
}

void net_stage_forward(const struct net *net, enum net_stage_name stage,
                       const struct net_hand *hand, const float *x, float *const *y)
{
    const struct net_buffers *n = net->buffers;
    const struct net_stage *s = &n->shape.stage[stage];
    const void *operand = net_operand(net, x, net_rows(net, stage), s->in, n->x_room);

    for (int i = s->first; i < s->first + s->count; i++)
        line_forward(net, i, hand, operand,
                     y[n->shape.line[i].array] + n->shape.line[i].column);
}

void net_line_dx(const struct net *net, int line, const struct net_hand *hand,
                 const struct net_dy *dy, float *dx)
{
    const struct net_buffers *n = net->buffers;
    const struct net_line *l = &n->shape.line[line];
    const struct net_line_at *at = &hand->at->line[line];
    int64_t r = net->model->lora.rank;

    if (dx)
        kern_product_run(l->product[NET_DX], dy->operand, line_weight(net, l, hand->w + at->w),
                         dx, NULL, dx);
    if (at->a < 0)
        return;
    kern_product_run(l->product[NET_DLOW], dy->operand, weight(net, hand->w + at->b, l->out, r),
                     n->dlow, NULL, n->dlow);
    const void *dlow = scaled(net, n->dlow, net->rows, n->dlow_room);
    if (dx)
        kern_product_run(l->product[NET_DXA], dlow,
                         weight(net, hand->w + at->a, r, n->shape.stage[l->stage].in), dx, NULL,
                         dx);
}

void net_line_dw(const struct net *net, int line, const struct net_hand *hand,
                 const struct net_dy *dy, const void *x)
{
    const struct net_buffers *n = net->buffers;
    const struct net_line *l = &n->shape.line[line];
    const struct net_line_at *at = &hand->at->line[line];
    float *w = net_grad(hand, at->w), *bias = net_grad(hand, at->bias);
    float *a = net_grad(hand, at->a), *b = net_grad(hand, at->b);

    if (w && l->transposed)
        kern_product_run(l->product[NET_DW], x, dy->operand, w, NULL, w);
    else if (w)
        kern_product_run(l->product[NET_DW], dy->operand, x, w, NULL, w);
    if (bias)
        kern_bias_backward(bias, dy->f32, n->shape.stage[l->stage].ld, net->rows, l->out);
    if (b)
        kern_product_run(l->product[NET_DB], dy->operand, low_of(net, line, hand, x), b, NULL,
                         b);
    if (a) /* what net_line_dx left */
        kern_product_run(l->product[NET_DA], n->dlow_room ? n->dlow_room : n->dlow, x, a, NULL,
                         a);
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
                        const struct net_hand *hand, const float *const *dy, const float *x,
                        float *dx)
{
    const struct net_buffers *n = net->buffers;
    const struct net_stage *s = &n->shape.stage[stage];
    struct net_dy whole = {0};
    const void *operand = NULL;

    if (x && net_stage_needs_x(net, stage, hand))
        operand = net_operand(net, x, net->rows, s->in, n->x_room);
    for (int i = s->first; i < s->first + s->count; i++) {
        const struct net_line *l = &n->shape.line[i];
        const float *f32 = dy[l->array];

        if (whole.f32 != f32)
            whole = (struct net_dy){f32, net_operand(net, f32, net->rows, s->ld, n->dy_room)};
        struct net_dy own = part(net, &whole, l->column);
        net_line_dx(net, i, hand, &own, dx);
        net_line_dw(net, i, hand, &own, operand);
    }
}
