/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Describes the network without its arithmetic: the lines of each stage, the offsets of their
 * tensors in the units, and where the backward of each visit may end.
 */
#include <assert.h>
#include <string.h>

#include "net/net_shape.h"

static int64_t offset_of(const struct model_tensor *t)
{
    return t ? t->offset : -1;
}

/* Offset of the weight of a module that occurs once. */
static int64_t offset_at(const struct model *m, enum model_role role)
{
    return offset_of(model_find_module(m, -1, model_module(m, role), 0));
}

/* Lines in the order of the family's table, from the shapes of the first layer's tensors. */
static void lines(struct net_shape *n, const struct model *m)
{
    const struct model_module *modules = m->family->modules;

    for (int i = 0; modules[i].name; i++) {
        if (modules[i].role > MODEL_HEAD)
            continue;
        enum net_stage_name s = (enum net_stage_name)modules[i].role;
        struct net_stage *stage = &n->stage[s];
        const struct model_tensor *t = model_find_module(m, 0, i, 0);
        struct net_line *l = &n->line[n->lines];

        *l = (struct net_line){.stage = s,
                               .module = i,
                               .transposed = t->transposed,
                               .out = t->shape[t->transposed ? 1 : 0]};
        if (!stage->count)
            *stage = (struct net_stage){
                .first = n->lines,
                .in = t->shape[t->transposed ? 0 : 1],
                .add = (s == NET_OUT && model_module(m, MODEL_NORM_OUT) < 0) ||
                       (s == NET_DOWN && model_module(m, MODEL_NORM_DOWN) < 0)};
        l->column = stage->ld;
        stage->ld += l->out;
        stage->count++;
        n->lines++;
        for (int64_t layer = 0; layer < m->layers; layer++)
            l->adapted |=
                model_adapter(m, model_find_module(m, layer, i, 0), MODEL_LORA_A) != NULL;
    }
}

static void norm_at(struct net_at *at, int which, const struct model *m, int64_t layer,
                    enum model_role role)
{
    int module = model_module(m, role);

    at->norm_w[which] = offset_of(model_find_module(m, layer, module, 0));
    at->norm_b[which] = offset_of(model_find_module(m, layer, module, 1));
    assert(at->norm_w[which] >= 0 ? (at->norm_b[which] >= 0) == (m->norm == MODEL_NORM_LAYER)
                                  : which >= NET_Q);
}

/* Finds the tensors of layer `layer`, or of the head: layer = layers. */
static void tensors(struct net_shape *n, const struct model *m, int64_t layer)
{
    struct net_at *at = &n->at[layer];
    int head = layer == m->layers;

    at->trained = m->unit[model_unit_of_visit(m, (int)layer + 1)].trained;
    at->rope = head ? MODEL_NO_ROPE : model_layer_rope(m, layer);
    norm_at(at, 0, m, layer, head ? MODEL_NORM_LAST : MODEL_NORM_ATTENTION);
    if (!head) {
        norm_at(at, 1, m, layer, MODEL_NORM_FFN);
        norm_at(at, NET_Q, m, layer, MODEL_NORM_Q);
        norm_at(at, NET_K, m, layer, MODEL_NORM_K);
        norm_at(at, NET_AFTER_OUT, m, layer, MODEL_NORM_OUT);
        norm_at(at, NET_AFTER_DOWN, m, layer, MODEL_NORM_DOWN);
    }
    for (int i = 0; i < n->lines; i++) {
        int module = n->line[i].module;

        if ((n->line[i].stage == NET_HEAD) != head)
            continue;
        const struct model_tensor *t = model_find_module(m, layer, module, 0);
        at->line[i] =
            (struct net_line_at){.w = t->offset,
                                 .bias = offset_of(model_find_module(m, layer, module, 1)),
                                 .a = offset_of(model_adapter(m, t, MODEL_LORA_A)),
                                 .b = offset_of(model_adapter(m, t, MODEL_LORA_B)),
                                 .sparse = t->block ? t : NULL};
    }
}

static int trains(const struct net_at *at, int64_t offset)
{
    return offset >= 0 && offset < at->trained;
}

static int stage_trains(const struct net_shape *n, const struct net_at *at,
                        enum net_stage_name stage)
{
    const struct net_stage *s = &n->stage[stage];

    for (int i = s->first; i < s->first + s->count; i++) {
        const struct net_line_at *l = &at->line[i];
        if (trains(at, l->w) || trains(at, l->bias) || trains(at, l->a) || trains(at, l->b))
            return 1;
    }
    return 0;
}

static int norm_trains(const struct net_at *at, int which)
{
    return trains(at, at->norm_w[which]) || trains(at, at->norm_b[which]);
}

/* The first part that trains; NET_PARTS if none does. */
static int first_part(const struct net_shape *n, const struct net_at *at, int head)
{
    static const enum net_stage_name stage[NET_PARTS] = {[NET_P_QKV] = NET_QKV,
                                                         [NET_P_OUT] = NET_OUT,
                                                         [NET_P_FFN] = NET_FFN,
                                                         [NET_P_DOWN] = NET_DOWN};

    for (int p = 0; p < NET_PARTS; p++) {
        int yes = p == NET_NORM_1       ? norm_trains(at, 0)
                  : head                ? p == NET_P_QKV && stage_trains(n, at, NET_HEAD)
                  : p == NET_NORM_OUT   ? norm_trains(at, NET_AFTER_OUT)
                  : p == NET_NORM_2     ? norm_trains(at, 1)
                  : p == NET_NORM_DOWN  ? norm_trains(at, NET_AFTER_DOWN)
                  : p == NET_NORM_HEADS ? norm_trains(at, NET_Q) || norm_trains(at, NET_K)
                                        : stage_trains(n, at, stage[p]);
        if (yes)
            return p;
    }
    return NET_PARTS;
}

/* Whether line i + 1 of a layer only adds columns to line i. */
static int goes_on(const struct net_shape *n, const struct net_at *at, int i)
{
    const struct net_line_at *a = &at->line[i], *b = &at->line[i + 1];
    int64_t elems =
        a->sparse ? a->sparse->elems : n->line[i].out * n->stage[n->line[i].stage].in;

    return b->w == a->w + elems && a->bias < 0 && b->bias < 0 &&
           trains(at, a->w) == trains(at, b->w);
}

static int joined(const struct net_shape *n, const struct model *m,
                  const struct net_stage *stage)
{
    for (int i = stage->first; i < stage->first + stage->count; i++)
        if (n->line[i].transposed || n->line[i].adapted)
            return 0;
    for (int64_t layer = 0; layer < m->layers; layer++)
        for (int i = stage->first; i + 1 < stage->first + stage->count; i++)
            if (!goes_on(n, &n->at[layer], i))
                return 0;
    return stage->count > 1;
}

/* Joins a stage's lines into its first; later lines move up. */
static void join_lines(struct net_shape *n, const struct model *m, struct net_stage *stage)
{
    int first = stage->first, removed = stage->count - 1,
        left = n->lines - first - stage->count;

    n->line[first].out = stage->ld;
    memmove(&n->line[first + 1], &n->line[first + 1 + removed], (size_t)left * sizeof *n->line);
    for (int64_t layer = 0; layer <= m->layers; layer++) {
        struct net_line_at *at = n->at[layer].line;

        memmove(&at[first + 1], &at[first + 1 + removed], (size_t)left * sizeof *at);
    }
    stage->count = 1;
    n->lines -= removed;
    for (int s = 0; s < NET_STAGES; s++)
        if (n->stage[s].first > first)
            n->stage[s].first -= removed;
}

/* Finds where each visit's backward may end. */
static void shape_stops(struct net_shape *n, const struct model *m)
{
    int found = n->embed_at < n->embed_trained ||
                (n->positions_at >= 0 && n->positions_at < n->embed_trained);

    n->floor = found ? 0 : -1;
    for (int64_t i = 0; i <= m->layers; i++) {
        struct net_at *at = &n->at[i];

        at->stop = -1;
        if (found)
            continue;
        at->stop = first_part(n, at, i == m->layers);
        found = at->stop < NET_PARTS;
        if (found)
            n->floor = (int)i + 1;
    }
    if (!found) /* nothing trains, so there is no backward */
        n->floor = m->visits;
}

void net_shape_read(struct net_shape *n, const struct model *m, int join, int row_elems)
{
    struct net_stage *head = &n->stage[NET_HEAD];

    lines(n, m);
    head->ld = (head->ld + row_elems - 1) / row_elems * row_elems;
    n->embed_at = offset_at(m, MODEL_EMBED);
    n->positions_at = offset_at(m, MODEL_POSITIONS);
    n->embed_trained = m->unit[0].trained;
    assert((n->positions_at >= 0) == (m->positions > 0));
    for (int64_t i = 0; i <= m->layers; i++)
        tensors(n, m, i);
    shape_stops(n, m);
    for (int s = 0; join && s < NET_HEAD; s++)
        if (joined(n, m, &n->stage[s]))
            join_lines(n, m, &n->stage[s]);
}

float *net_grad(const struct net_hand *hand, int64_t offset)
{
    return trains(hand->at, offset) ? hand->g + offset : NULL;
}
