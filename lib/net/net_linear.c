/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The products with weights.  A weight is (out, in): forward y = x W^T, backward dx = dy W and
 * dW += dy^T x.  Computed in bf16, each operand is rounded first, into a room whose rows are
 * PAD elements wider than they need be: where rows are 2 KiB apart or a multiple of it, what a
 * product reads of a column falls into few sets of the cache (measured on llama-10m: 7 % of a
 * step).
 */
#include "net/net_parts.h"

enum { PAD = 32 }; /* a cache line */

/* x (R,in); y (R,out), rows ld apart; whether y and dx are added to. */
struct shape {
    int64_t in, out, ld;
    int add, add_back;
};

static struct shape shape_of(const struct model *m, enum net_line line)
{
    int64_t C = m->hidden, F = m->ffn, V = m->vocab;
    int64_t q = m->heads * m->head_dim, kv = m->kv_heads * m->head_dim, Q = q + 2 * kv;
    const struct shape shape[NET_LINES] = {
        [NET_Q] = {C, q, Q, 0, 0},    [NET_KV] = {C, kv, Q, 0, 1}, [NET_O] = {q, C, C, 1, 0},
        [NET_GATE] = {C, F, F, 0, 0}, [NET_UP] = {C, F, F, 0, 1},  [NET_DOWN] = {F, C, C, 1, 0},
        [NET_HEAD] = {C, V, V, 0, 0},
    };

    return shape[line];
}

static int64_t operand_ld(const struct net *net, int64_t columns)
{
    return net->options.compute == DTYPE_F32 ? columns : columns + PAD;
}

int net_linear_init(struct net *net, struct err *err)
{
    enum dtype type = net->options.compute;
    int64_t R = net->rows;

    for (int i = 0; i < NET_LINES; i++) {
        struct shape s = shape_of(net->model, (enum net_line)i);
        struct net_linear *l = &net->buffers->linear[i];
        int64_t x = operand_ld(net, s.in), dy = operand_ld(net, s.ld);
        struct kern_product_shape each[3] = {
            {'N', 'T', R, s.out, s.in, x, x, s.ld, s.add, type},
            {'N', 'N', R, s.in, s.out, dy, x, s.in, s.add_back, type},
            {'T', 'N', s.out, s.in, R, dy, x, s.in, 1, type},
        };

        *l = (struct net_linear){.in = s.in, .out = s.out};
        if (kern_product_new(&l->y, &each[0], err) || kern_product_new(&l->dx, &each[1], err) ||
            kern_product_new(&l->dw, &each[2], err))
            return -1;
    }
    return 0;
}

void net_linear_release(struct net *net)
{
    for (int i = 0; i < NET_LINES; i++) {
        struct net_linear *l = &net->buffers->linear[i];

        kern_product_free(l->y);
        kern_product_free(l->dx);
        kern_product_free(l->dw);
    }
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

void net_linear_place(struct net *net, struct arena *arena)
{
    struct net_buffers *n = net->buffers;
    int64_t bytes = dtype_bytes(net->options.compute), x = 0, dy = 0, w = 0;

    if (net->options.compute == DTYPE_F32)
        return;
    for (int i = 0; i < NET_LINES; i++) {
        struct shape s = shape_of(net->model, (enum net_line)i);

        x = larger(x, net->rows * operand_ld(net, s.in));
        dy = larger(dy, net->rows * operand_ld(net, s.ld));
        w = larger(w, s.out * operand_ld(net, s.in));
    }
    n->x_room = arena_take(arena, bytes * x);
    n->dy_room = arena_take(arena, bytes * dy);
    n->w_room = arena_take(arena, bytes * w);
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

const void *net_operand_from(const struct net *net, const void *operand, int64_t column)
{
    return (const char *)operand + column * dtype_bytes(net->options.compute);
}

static const void *weight(const struct net *net, const struct net_linear *l, const float *w)
{
    return net_operand(net, w, l->out, l->in, net->buffers->w_room);
}

void net_linear(const struct net *net, enum net_line line, const void *x, const float *w,
                float *y)
{
    const struct net_linear *l = &net->buffers->linear[line];

    kern_product_run(l->y, x, weight(net, l, w), y);
}

void net_linear_dx(const struct net *net, enum net_line line, const void *dy, const float *w,
                   float *dx)
{
    const struct net_linear *l = &net->buffers->linear[line];

    kern_product_run(l->dx, dy, weight(net, l, w), dx);
}

void net_linear_dw(const struct net *net, enum net_line line, const void *dy, const void *x,
                   float *dw)
{
    kern_product_run(net->buffers->linear[line].dw, dy, x, dw);
}
