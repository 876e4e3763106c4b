/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Computes one decoder layer, forward and backward, of any family:
 *
 *     x_mid = x + [norm] attention(rope(norm(x) Wqkv^T)) Wo^T
 *     out   = x_mid + [norm] f(norm(x_mid) Win^T) Wdown^T
 *
 * f is silu(g) u or gelu(g) u of two halves, or gelu of one.  Only some families have the norms
 * in brackets.  rope is left out with learned positions and in layers without it; in families
 * that normalise each head's queries and keys it follows those norms.  Each product may have a
 * bias and an adapter.  The backward ends where no earlier tensor trains.
 */
#include "net/net_parts.h"

/* ---- operations by row or by element, of the model's kind ---- */

void net_norm(const struct net *net, int which, const struct net_hand *hand, void *y,
              const struct net_norm_kept *kept, const void *x, int64_t rows, int again)
{
    const struct model *m = net->model;
    struct kern *k = net->options.kern;
    int64_t b = hand->at->norm_b[which];

    k->op->norm(k, y, kept->mean, kept->rstd, x, net_w(net, hand, hand->at->norm_w[which]),
                b >= 0 ? net_w(net, hand, b) : NULL, (float)m->family->norm_plus, rows,
                m->hidden, (float)m->norm_eps, again);
}

void net_norm_backward(const struct net *net, int which, const struct net_hand *hand, void *dx,
                       const void *dy, const struct net_norm_kept *kept, const void *x)
{
    struct kern *k = net->options.kern;
    int64_t w = hand->at->norm_w[which];

    k->op->norm_backward(k, dx, net_grad(hand, w), net_grad(hand, hand->at->norm_b[which]), dy,
                         kept->mean, kept->rstd, x, net_w(net, hand, w),
                         (float)net->model->family->norm_plus, net->rows, net->model->hidden);
}

static void act(const struct net *net, void *y, void *ffn)
{
    struct kern *k = net->options.kern;
    int64_t R = net->rows, F = net->model->ffn;

    if (net->model->ffn_type <= MODEL_FFN_GEGLU)
        k->op->gated(k, y, ffn, (char *)ffn + net_act_bytes(net, F), R, F, 2 * F,
                     net->model->ffn_type == MODEL_FFN_GEGLU);
    else
        k->op->gelu(k, y, ffn, R * F, net->model->ffn_type == MODEL_FFN_GELU_TANH);
}

/* In place: ffn becomes its gradient, dy becomes y. */
static void act_backward(const struct net *net, void *dy, void *ffn)
{
    struct kern *k = net->options.kern;
    int64_t R = net->rows, F = net->model->ffn;

    if (net->model->ffn_type <= MODEL_FFN_GEGLU)
        k->op->gated_backward(k, dy, ffn, (char *)ffn + net_act_bytes(net, F), R, F, 2 * F,
                              net->model->ffn_type == MODEL_FFN_GEGLU);
    else
        k->op->gelu_backward(k, dy, ffn, R * F, net->model->ffn_type == MODEL_FFN_GELU_TANH);
}

static void layer_rotate(const struct net *net, const struct net_hand *hand, void *qkv,
                         int back)
{
    const struct model *m = net->model;
    const struct net_buffers *n = net->buffers;
    struct kern *k = net->options.kern;
    int64_t batch = net->options.batch;

    if (hand->at->rope >= 0)
        k->op->rope(k, qkv, n->shape.stage[NET_QKV].ld,
                    n->rope[hand->at->rope] + net->from * m->rotary, batch, net->rows / batch,
                    m->heads + m->kv_heads, m->head_dim, m->rotary, back);
}

/* The heads that one norm covers, in rows of queries, keys and values. */
struct heads {
    char *in_qkv;
    int64_t heads, bytes, ld; /* their number; bytes of them in a row, of a whole row */
};

static struct heads heads_of(const struct net *net, int which, void *qkv)
{
    const struct model *m = net->model;
    int64_t heads = which == NET_Q ? m->heads : m->kv_heads;
    int64_t before = which == NET_Q ? 0 : net_act_bytes(net, m->heads * m->head_dim);

    return (struct heads){(char *)qkv + before, heads, net_act_bytes(net, heads * m->head_dim),
                          net_act_bytes(net, net->buffers->shape.stage[NET_QKV].ld)};
}

/* Normalises queries and keys, each head by itself.  Uses attention's output buffer as scratch,
   which is written later. */
static void norm_heads(const struct net *net, const struct net_hand *hand,
                       const struct net_layer_kept *kept, void *qkv)
{
    const struct model *m = net->model;
    struct kern *k = net->options.kern;

    for (int which = NET_Q; which <= NET_K; which++) {
        struct heads s = heads_of(net, which, qkv);
        int64_t w = hand->at->norm_w[which];

        if (w < 0)
            continue;
        device_copy_rows(k->queue, kept->raw[which], s.bytes, s.in_qkv, s.ld, s.bytes,
                         net->rows);
        k->op->norm(k, kept->att, NULL, kept->norm[which].rstd, kept->raw[which],
                    net_w(net, hand, w), NULL, (float)m->family->norm_plus, net->rows * s.heads,
                    m->head_dim, (float)m->norm_eps, 0);
        device_copy_rows(k->queue, s.in_qkv, s.ld, kept->att, s.bytes, s.bytes, net->rows);
    }
}

/* Attention's output and its gradient are not needed any more: their buffers are scratch. */
static void norm_heads_backward(const struct net *net, const struct net_hand *hand,
                                const struct net_layer_kept *kept)
{
    const struct net_buffers *n = net->buffers;
    struct kern *k = net->options.kern;

    for (int which = NET_Q; which <= NET_K; which++) {
        struct heads s = heads_of(net, which, n->dqkv);
        int64_t w = hand->at->norm_w[which];

        if (w < 0)
            continue;
        device_copy_rows(k->queue, n->datt, s.bytes, s.in_qkv, s.ld, s.bytes, net->rows);
        device_zero(k->queue, kept->att, net->rows * s.bytes);
        k->op->norm_backward(k, kept->att, net_grad(hand, w), NULL, n->datt, NULL,
                             kept->norm[which].rstd, kept->raw[which], net_w(net, hand, w),
                             (float)net->model->family->norm_plus, net->rows * s.heads,
                             net->model->head_dim);
        device_copy_rows(k->queue, s.in_qkv, s.ld, kept->att, s.bytes, s.bytes, net->rows);
    }
}

/* Calls `part` for each document of the micro-batch: rows first ... first + rows - 1 of it. */
void net_each_document(const struct net *net, net_document *part, void *arg)
{
    int64_t T = net->options.seq;
    const int32_t *begins = net->buffers->begins;

    for (int64_t first = 0, next; first < net->rows; first = next) {
        next = first + 1;
        while (next % T && begins[next] == begins[first])
            next++;
        part(net, first, next - first, arg);
    }
}

struct attention { /* a layer's attention */
    const struct net_layer_kept *kept;
    int64_t batch; /* sequences, each of seq rows */
    int back;
};

/* The rows of a document begin at row `first` of every kept array. */
static void attend(const struct net *net, int64_t first, int64_t seq, void *arg)
{
    const struct attention *a = arg;
    const struct net_layer_kept *k = a->kept;
    const struct net_buffers *n = net->buffers;
    struct kern_heads s = n->heads;
    struct kern *table = net->options.kern;
    int64_t out = net_act_bytes(net, first * s.heads * s.head_dim);
    int64_t qkv = net_act_bytes(net, first * n->shape.stage[NET_QKV].ld);
    float *lse = k->lse + first * s.heads;

    s.batch = a->batch;
    s.seq = seq;
    if (a->back)
        table->op->attention_backward(table, &s, (char *)n->dqkv + qkv, (char *)n->datt + out,
                                      (char *)k->att + out, lse, (char *)k->qkv + qkv,
                                      n->scores);
    else
        table->op->attention(table, &s, (char *)k->att + out, lse, (char *)k->qkv + qkv,
                             n->scores);
}

/* A document is a batch of one sequence. */
static void layer_attention(const struct net *net, const struct net_layer_kept *k, int back)
{
    const struct kern_heads *heads = &net->buffers->heads;

    if (net->options.begins)
        net_each_document(net, attend, &(struct attention){k, 1, back});
    else
        attend(net, 0, heads->seq, &(struct attention){k, heads->batch, back});
}

/* out = from + OUT or DOWN of x, through the norm that follows, if there is one. */
static void add_stage(const struct net *net, enum net_stage_name stage, int which,
                      const struct net_hand *hand, const struct net_layer_kept *k,
                      const void *x, const void *from, void *out)
{
    struct kern *table = net->options.kern;

    if (hand->at->norm_w[which] < 0) {
        net_stage_forward(net, stage, hand, x, from, out);
        return;
    }
    net_stage_forward(net, stage, hand, x, NULL, k->raw[which]);
    net_norm(net, which, hand, out, &k->norm[which], k->raw[which], net->rows, 0);
    table->op->add(table, out, from, net->rows * net->model->hidden);
}

/* The gradient of the output of OUT or DOWN. */
static const void *given(const struct net *net, int which, const struct net_hand *hand,
                         const struct net_layer_kept *k)
{
    const struct net_buffers *n = net->buffers;

    if (hand->at->norm_w[which] < 0)
        return n->dx;
    device_zero(net->options.kern->queue, n->dafter,
                net_act_bytes(net, net->rows * net->model->hidden));
    net_norm_backward(net, which, hand, n->dafter, n->dx, &k->norm[which], k->raw[which]);
    return n->dafter;
}

/* Computes all arrays that the backward needs: the forward up to the input of the
   activation. */
static void layer_keep(const struct net *net, int64_t layer, const struct net_hand *hand)
{
    const struct net_buffers *n = net->buffers;
    const struct net_layer_kept *k = &n->kept[layer];
    void *qkv = (char *)k->qkv + net_act_bytes(net, net->from * n->shape.stage[NET_QKV].ld);

    net_norm(net, 0, hand, n->h, &k->norm[0], k->x, net->rows, 0);
    net_stage_forward(net, NET_QKV, hand, n->h, NULL, qkv);
    norm_heads(net, hand, k, qkv);
    layer_rotate(net, hand, qkv, 0);
    layer_attention(net, k, 0);
    add_stage(net, NET_OUT, NET_AFTER_OUT, hand, k, k->att, k->x, k->x_mid);

    net_norm(net, 1, hand, n->h, &k->norm[1], k->x_mid, net->rows, 0);
    net_stage_forward(net, NET_FFN, hand, n->h, NULL, k->ffn);
}

void net_layer_forward(const struct net *net, int64_t layer, const void *params, void *out)
{
    const struct net_buffers *n = net->buffers;
    const struct net_layer_kept *k = &n->kept[layer];
    const struct net_hand hand = {&n->shape.at[layer], params, NULL};

    layer_keep(net, layer, &hand);
    act(net, n->act, k->ffn);
    add_stage(net, NET_DOWN, NET_AFTER_DOWN, &hand, k, n->act, k->x_mid, out);
}

/* DOWN and the activation: the input of DOWN is recomputed in place of its own gradient. */
static void down_backward(const struct net *net, const struct net_layer_kept *k,
                          const struct net_hand *hand)
{
    const struct net_buffers *n = net->buffers;
    const struct net_stage *s = &n->shape.stage[NET_DOWN];
    const void *d = given(net, NET_AFTER_DOWN, hand, k), *x = NULL;
    int last = hand->at->stop == NET_P_DOWN;

    if (hand->at->stop == NET_NORM_DOWN)
        return;
    struct net_dy dy = {d, net_operand(net, d, net->rows, s->ld, n->dy_space)};
    net_line_dx(net, s->first, hand, &dy, last ? NULL : n->act);
    /* If last, this call only recomputes the input of DOWN, in the same bits; its gradients are
       ignored. */
    act_backward(net, n->act, k->ffn);
    if (net_stage_needs_x(net, NET_DOWN, hand))
        x = net_operand(net, n->act, net->rows, s->in, n->x_space);
    net_line_dw(net, s->first, hand, &dy, x);
}

/* Backward of a stage that reads a norm, and of the norm: adds their gradient to dx. */
static void normed_backward(const struct net *net, enum net_stage_name stage, int which,
                            const struct net_hand *hand, const struct net_norm_kept *kept,
                            const void *x, const void *dy)
{
    const struct net_buffers *n = net->buffers;
    int last = hand->at->stop == (which ? NET_P_FFN : NET_P_QKV), needs;

    needs = net_stage_needs_x(net, stage, hand);
    if (needs)
        net_norm(net, which, hand, n->h, kept, x, net->rows, 1);
    net_stage_backward(net, stage, hand, dy, needs ? n->h : NULL, last ? NULL : n->dh);
    if (!last)
        net_norm_backward(net, which, hand, n->dx, n->dh, kept, x);
}

void net_layer_backward(const struct net *net, int64_t layer, const void *params, float *grads)
{
    const struct net_buffers *n = net->buffers;
    const struct net_layer_kept *k = &n->kept[layer];
    const struct net_hand hand = {&n->shape.at[layer], params, grads};
    int stop = hand.at->stop;

    /* The last layer's forward ran last, so its arrays are still valid, for one micro-batch. */
    if (net->options.recompute && (layer < net->model->layers - 1 || net_together(net) > 1)) {
        if (hand.at->norm_w[NET_AFTER_DOWN] >= 0)
            net_layer_forward(net, layer, params, n->h);
        else
            layer_keep(net, layer, &hand);
    }
    down_backward(net, k, &hand);
    if (stop == NET_P_DOWN || stop == NET_NORM_DOWN)
        return;
    normed_backward(net, NET_FFN, 1, &hand, &k->norm[1], k->x_mid, k->ffn);
    if (stop == NET_P_FFN || stop == NET_NORM_2)
        return;
    const void *d = given(net, NET_AFTER_OUT, &hand, k);
    if (stop == NET_NORM_OUT)
        return;
    net_stage_backward(net, NET_OUT, &hand, d, k->att, stop == NET_P_OUT ? NULL : n->datt);
    if (stop == NET_P_OUT)
        return;
    layer_attention(net, k, 1);
    layer_rotate(net, &hand, n->dqkv, 1);
    norm_heads_backward(net, &hand, k);
    if (stop == NET_NORM_HEADS)
        return;
    normed_backward(net, NET_QKV, 0, &hand, &k->norm[0], k->x, n->dqkv);
}
