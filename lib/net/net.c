/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs the decoder by visits: embedding, layers, head.  net_layer.c computes a layer;
 * net_place.c places activations, and net_shape.c describes how families differ.
 */
#include "net/net.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "net/net_parts.h"

static int net_check(const struct model *m, const struct net_options *o, struct err *err)
{
    if (!m->unit)
        return err_set(err, ERR_INPUT, "model is '%s', expected a config.json",
                       m->family->name);
    if (o->batch < 1)
        return err_set(err, ERR_INPUT, "micro-batch is %d, expected 1 or more", o->batch);
    if (o->seq < 1 || o->seq > m->max_seq)
        return err_set(err, ERR_INPUT,
                       "sequence length is %d, expected 1 to the model's %s, %" PRId64, o->seq,
                       model_max_seq_key(m), m->max_seq);
    if (m->sparse.share > 0 && o->kern->kind != DEVICE_CPU)
        return err_set(err, ERR_ABSENT, "the model is sparse (%s), expected --device=cpu",
                       m->partial);
    assert(!o->begins || (!o->graphs && !o->forward_only));
    assert(o->together <= 1 || !o->forward_only);
    assert(!o->window || (o->forward_only && o->batch == 1 && o->window <= o->seq));
    return 0;
}

int net_init(struct net *net, const struct model *model, const struct net_options *options,
             struct err *err)
{
    struct net new = {0};

    if (net_check(model, options, err))
        return -1;
    net_lay_out(&new, model, options);
    if (options->kern->op->attention_can(options->kern, &new.buffers->heads, err) ||
        net_linear_init(&new, err)) {
        net_release(&new);
        return -1;
    }
    net_graph_init(&new);
    *net = new;
    return 0;
}

void net_release(struct net *net)
{
    if (net->buffers) {
        net_graph_release(net);
        net_linear_release(net);
        net_release_arrays(net);
    }
}

void net_place(struct net *net, struct arena *arena)
{
    const struct model *m = net->model;
    int64_t seq = net->options.seq, elems = seq * m->rotary;

    net_place_arrays(net, arena);
    /* Computes the tables on the host and copies them to the device. */
    for (int i = 0; i < MODEL_ROPES; i++) {
        if (!net->buffers->rope[i])
            continue;
        double *inv_freq = mem_new((size_t)m->head_dim, sizeof *inv_freq), scale;
        float *table = mem_new((size_t)elems, sizeof *table);
        model_rope_frequencies(m, i, seq, inv_freq, &scale);
        kern_rope_table(table, seq, m->rotary, inv_freq, scale);
        device_copy(net->options.kern->queue, net->buffers->rope[i], table,
                    elems * (int64_t)sizeof *table);
        mem_free(table);
        mem_free(inv_freq);
    }
}

static void take_tokens(struct net *net, const int32_t *tokens, const int32_t *targets)
{
    struct net_buffers *n = net->buffers;
    struct kern *k = net->options.kern;

    k->op->tokens(k, &n->tokens, n->tokens_space, tokens, targets, net->rows,
                  net->model->vocab);
}

void net_begin(struct net *net, const int32_t *tokens, const int32_t *targets, float scale)
{
    struct net_micro *own = &net->buffers->micro[net->buffers->using];

    assert(!net->options.forward_only);
    take_tokens(net, tokens, targets);
    own->tokens = net->buffers->tokens;
    if (own->begins)
        memcpy(own->begins, net->options.begins, (size_t)net->rows * sizeof *own->begins);
    net->scale = scale;
}

void net_prompt(struct net *net, const int32_t *tokens, int from, int length)
{
    int rows = (int)(net->rows / net->options.batch), last = net->options.seq - rows;

    assert(net->options.forward_only && length <= net->options.seq);
    net->from = from < last ? from : last;
    assert(net->from >= 0 && length > net->from && length <= net->from + rows);
    take_tokens(net, tokens + net->from, NULL);
    net->last = length - 1 - net->from;
    net->buffers->heads.from = net->from;
    net->buffers->heads.seq = net->from + rows;
}

static struct net_hand head_hand(const struct net *net, const void *params, float *grads)
{
    return (struct net_hand){&net->buffers->shape.at[net->model->layers], params, grads};
}

static void head_forward(struct net *net, const void *params)
{
    struct net_buffers *n = net->buffers;
    const struct net_hand hand = head_hand(net, params, NULL);
    struct kern *k = net->options.kern;
    int64_t row = net_act_bytes(net, net->model->hidden), T = net->rows / net->options.batch;
    char *x = n->x_last;

    /* The head reads the first rows of x_last: all, or one of each sequence. */
    for (int64_t b = 0; net->options.forward_only && b < net->options.batch; b++)
        if (b != b * T + net->last)
            device_copy(k->queue, x + b * row, x + (b * T + net->last) * row, row);
    net_norm(net, 0, &hand, n->h, &n->norm_last, n->x_last, net_rows(net, NET_HEAD), 0);
    net_stage_forward(net, NET_HEAD, &hand, n->h, NULL, n->logits);
    if (!net->options.forward_only)
        k->op->cross_entropy(k, n->logits, net_logits_ld(net), &n->tokens, net->model->vocab,
                             net->scale);
}

/* Learned positions of a document start with the first row of the table. */
static void add_positions(const struct net *net, int64_t first, int64_t rows, void *table)
{
    struct kern *k = net->options.kern;
    int64_t C = net->model->hidden;

    k->op->positions(k, (char *)net->buffers->kept[0].x + net_act_bytes(net, first * C), table,
                     1, rows, C);
}

static void add_positions_backward(const struct net *net, int64_t first, int64_t rows,
                                   void *dtable)
{
    struct kern *k = net->options.kern;
    int64_t C = net->model->hidden;

    k->op->positions_backward(
        k, dtable, (char *)net->buffers->dx + net_act_bytes(net, first * C), 1, rows, C);
}

/* Scales embeddings, or the gradient with respect to scaled ones. */
static void scale_embeddings(const struct net *net, void *x)
{
    struct kern *k = net->options.kern;
    int64_t C = net->model->hidden;

    if (net->model->family->embed_scaled)
        k->op->scale_act(k, x, (float)sqrt((double)C), net->rows * C);
}

static void embed_forward(const struct net *net, const void *params)
{
    const struct model *m = net->model;
    const struct net_buffers *n = net->buffers;
    const struct net_hand hand = {NULL, params, NULL};
    int64_t batch = net->options.batch, at = n->shape.positions_at + net->from * m->hidden;
    struct kern *k = net->options.kern;

    k->op->embed(k, n->kept[0].x, net_w(net, &hand, n->shape.embed_at), &n->tokens, m->vocab,
                 m->hidden);
    scale_embeddings(net, n->kept[0].x);
    if (n->shape.positions_at < 0)
        return;
    if (net->options.begins)
        net_each_document(net, add_positions, (void *)net_w(net, &hand, at));
    else
        k->op->positions(k, n->kept[0].x, net_w(net, &hand, at), batch, net->rows / batch,
                         m->hidden);
}

void net_forward(struct net *net, int visit, const void *params)
{
    const struct model *m = net->model;

    assert(visit >= 0 && visit <= m->layers + 1 && net->buffers->logits);
    if (visit == 0)
        embed_forward(net, params);
    else if (visit <= m->layers)
        net_graph_layer(net, visit - 1, params, NULL, 0);
    else
        head_forward(net, params);
}

int net_loss(struct net *net, double *loss, struct err *err)
{
    assert(!net->options.forward_only);
    return net->options.kern->op->loss(net->options.kern, loss, err);
}

const void *net_logits(const struct net *net)
{
    return net->buffers->logits;
}

int64_t net_logits_ld(const struct net *net)
{
    return net->buffers->shape.stage[NET_HEAD].ld;
}

/* The logits have been replaced by their gradients. */
static void head_backward(struct net *net, const void *params, float *grads)
{
    struct net_buffers *n = net->buffers;
    const struct net_hand hand = head_hand(net, params, grads);
    int last = hand.at->stop == NET_P_QKV, needs = net_stage_needs_x(net, NET_HEAD, &hand);

    if (needs)
        net_norm(net, 0, &hand, n->h, &n->norm_last, n->x_last, net->rows, 1);
    net_stage_backward(net, NET_HEAD, &hand, n->logits, needs ? n->h : NULL,
                       last ? NULL : n->dh);
    if (last)
        return;
    device_zero(net->options.kern->queue, n->dx,
                net_act_bytes(net, net->rows * net->model->hidden));
    net_norm_backward(net, 0, &hand, n->dx, n->dh, &n->norm_last, n->x_last);
}

static void net_embed_backward(const struct net *net, float *grads)
{
    const struct net_buffers *n = net->buffers;
    struct kern *k = net->options.kern;
    int64_t C = net->model->hidden;

    scale_embeddings(net, n->dx);
    if (n->shape.embed_at < n->shape.embed_trained)
        k->op->embed_backward(k, grads + n->shape.embed_at, n->dx, &n->tokens, C);
    if (n->shape.positions_at < 0 || n->shape.positions_at >= n->shape.embed_trained)
        return;
    if (net->options.begins)
        net_each_document(net, add_positions_backward, grads + n->shape.positions_at);
    else
        k->op->positions_backward(k, grads + n->shape.positions_at, n->dx, net->options.batch,
                                  net->options.seq, C);
}

void net_backward(struct net *net, int visit, const void *params, float *grads)
{
    const struct model *m = net->model;

    assert(visit >= 0 && visit <= m->layers + 1 && net->buffers->logits);
    assert(!net->options.forward_only && net->scale != 0);
    if (visit < net->buffers->shape.floor)
        return;
    if (visit == 0)
        net_embed_backward(net, grads);
    else if (visit <= m->layers)
        net_graph_layer(net, visit - 1, params, grads, 1);
    else
        head_backward(net, params, grads);
}

const char *net_attention_by(const struct net *net)
{
    const struct kern *k = net->options.kern;

    return k->op->attention_by(k, &net->buffers->heads);
}

/* ---- useful operations ---- */

/* FLOPs of one line: of its output, of its input's gradient, of its weights' gradients. */
static double line_flops(const struct net *net, const struct net_at *at, int line, int back)
{
    const struct net_buffers *n = net->buffers;
    const struct net_line *l = &n->shape.line[line];
    const struct net_line_at *t = &at->line[line];
    double in = (double)n->shape.stage[l->stage].in, out = (double)l->out;
    double rank = (double)net->model->lora.rank;
    double sum = in * out * (1 + back + (t->w < at->trained));

    if (t->a >= 0) /* dlow is propagated to A, whatever else trains */
        sum += rank * in * (1 + back + (t->a < at->trained)) +
               rank * out * (1 + (back || t->a < at->trained) + (t->b < at->trained));
    return 2 * (double)net_rows(net, l->stage) * sum;
}

double net_flops(const struct net *net)
{
    /* The part that a stage belongs to, to compare with the part where the backward stops. */
    static const enum net_part part[NET_STAGES] = {NET_P_QKV, NET_P_OUT, NET_P_FFN, NET_P_DOWN,
                                                   NET_P_QKV};
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
                                  reached && at->stop < (int)part[n->shape.line[l].stage]);
        if (i < m->layers) /* backward: twice the forward's */
            sum += attention * (reached && at->stop < NET_P_OUT ? 3 : 1);
    }
    return sum;
}
