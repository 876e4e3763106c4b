/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows when two configs are of one network, and how weights are read into a model of which
 * another part trains: by the names of tensors, within one unit, for a tensor's unit is the
 * same whatever trains.
 */
#include "ckpt/ckpt_model.h"

#include <inttypes.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "ckpt/ckpt_parts.h"
#include "ckpt/tool.h"

static int other_network(const char *folder, const char *key, const char *own, const char *plan,
                         struct err *err)
{
    err_at(err, folder, 0, key, "is %s in its config.json, but %s in the plan's model", own,
           plan);
    err->code = ERR_MISMATCH;
    return -1;
}

/* Where the config has a word. */
static int check_words(const char *folder, const struct model *own, const struct model *plan,
                       struct err *err)
{
    static const char *const ffn[] = {"silu", "gelu_new", "gelu"};
    static const char *const rope[] = {"default", "linear", "dynamic", "llama3", "yarn"};
    const struct {
        const char *key, *own, *plan;
    } row[] = {
        {"model_type", own->family, plan->family},
        {"activation_function", ffn[own->ffn_type], ffn[plan->ffn_type]},
        {"rope_type", rope[own->rope.type], rope[plan->rope.type]},
    };

    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (strcmp(row[i].own, row[i].plan))
            return other_network(folder, row[i].key, row[i].own, row[i].plan, err);
    return 0;
}

int tool_check_same(const char *folder, const struct model *own, const struct model *plan,
                    struct err *err)
{
    const struct model_rope *a = &own->rope, *b = &plan->rope;
    int dynamic = a->type == MODEL_ROPE_DYNAMIC; /* alone it asks for the longest sequence */
    int gpt2 = strcmp(own->family, "gpt2") == 0;
    const struct {
        const char *key;
        double own, plan;
    } row[] = {
        {gpt2 ? "n_layer" : "num_hidden_layers", (double)own->layers, (double)plan->layers},
        {gpt2 ? "n_embd" : "hidden_size", (double)own->hidden, (double)plan->hidden},
        {gpt2 ? "n_inner" : "intermediate_size", (double)own->ffn, (double)plan->ffn},
        {"vocab_size", (double)own->vocab, (double)plan->vocab},
        {gpt2 ? "n_head" : "num_attention_heads", (double)own->heads, (double)plan->heads},
        {"num_key_value_heads", (double)own->kv_heads, (double)plan->kv_heads},
        {"head_dim", (double)own->head_dim, (double)plan->head_dim},
        {"tie_word_embeddings", own->tied, plan->tied},
        {"n_positions", (double)own->positions, (double)plan->positions},
        {gpt2 ? "layer_norm_epsilon" : "rms_norm_eps", own->norm_eps, plan->norm_eps},
        {"attention_bias", own->attention_bias, plan->attention_bias},
        {"mlp_bias", own->ffn_bias, plan->ffn_bias},
        {"max_position_embeddings", dynamic ? (double)own->max_seq : 0,
         dynamic ? (double)plan->max_seq : 0},
        {"rope_theta", a->theta, b->theta},
        {"factor", a->factor, b->factor},
        {"low_freq_factor", a->low_freq_factor, b->low_freq_factor},
        {"high_freq_factor", a->high_freq_factor, b->high_freq_factor},
        {"original_max_position_embeddings", a->original_max, b->original_max},
        {"attention_factor", a->attention_factor, b->attention_factor},
        {"beta_fast", a->beta_fast, b->beta_fast},
        {"beta_slow", a->beta_slow, b->beta_slow},
        {"mscale", a->mscale, b->mscale},
        {"mscale_all_dim", a->mscale_all_dim, b->mscale_all_dim},
        {"truncate", !a->no_truncate, !b->no_truncate},
    };
    char one[32], two[32];

    if (check_words(folder, own, plan, err))
        return -1;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        if (row[i].own == row[i].plan)
            continue;
        snprintf(one, sizeof one, "%g", row[i].own);
        snprintf(two, sizeof two, "%g", row[i].plan);
        return other_network(folder, row[i].key, one, two, err);
    }
    return 0;
}

/* A tensor's twin in another model of the network, or NULL. */
static const struct model_tensor *find_twin(const struct model *m, const struct model_tensor *t)
{
    const struct model_unit *u = &m->unit[t->unit];

    for (int i = u->first; i < u->first + u->count; i++)
        if (strcmp(m->tensor[i].name, t->name) == 0)
            return &m->tensor[i];
    return NULL;
}

static int check_ckpt(const struct ckpt *c, const struct model *m, struct err *err)
{
    const struct model_lora *have = &c->model.lora, *want = &m->lora;

    if (tool_check_same(c->dir, &c->model, m, err))
        return -1;
    for (int i = 0; i < c->model.tensors; i++) {
        const struct model_tensor *t = &c->model.tensor[i];
        if (!model_is_adapter(t) || find_twin(m, t))
            continue;
        err_at(err, c->dir, 0, t->name,
               "is an adapter of the checkpoint that the plan's model does not have");
        err->code = ERR_MISMATCH;
        return -1;
    }
    if (!have->rank || (have->rank == want->rank && have->alpha == want->alpha))
        return 0;
    err_at(err, c->dir, 0, NULL,
           "has adapters of rank %" PRId64 " and alpha %g, the plan's model of rank %" PRId64
           " and alpha %g",
           have->rank, have->alpha, want->rank, want->alpha);
    err->code = ERR_MISMATCH;
    return -1;
}

/* The folder's own config.json, where there is one, and its tensors. */
static int check_folder(struct hf *hf, const struct model *m, struct err *err)
{
    struct model own = {0};
    char *path = io_join(hf->dir, "config.json");
    int rc = 0;

    if (!hf->alone && !io_absent(path))
        rc = model_read_folder(&own, hf->dir, err) || tool_check_same(hf->dir, &own, m, err)
                 ? -1
                 : 0;
    mem_free(path);
    model_release(&own);
    return rc ? rc : hf_match(hf, m, err);
}

int ckpt_check_model(struct weights *w, const struct model *m, struct err *err)
{
    return w->is_ckpt ? check_ckpt(&w->ckpt, m, err) : check_folder(&w->hf, m, err);
}

/* Whether a folder has the tensor. */
static int is_in_folder(const struct hf *hf, const struct model_tensor *t)
{
    return hf->place[t - hf->model->tensor].t != NULL;
}

/* A few at a time: what is read is of the file's type. */
static int read_folder(const struct hf *hf, const struct model_tensor *t, int64_t first,
                       int64_t count, enum dtype type, void *out, struct err *err)
{
    enum { PIECE = 8192 };
    double piece[PIECE]; /* of the widest type */
    char *to = out;

    for (int64_t n; count > 0; first += n, count -= n) {
        n = count < PIECE ? count : PIECE;
        struct range at = {t->offset + first, t->offset + first + n};
        if (hf_read(hf, t->unit, at, piece, err))
            return -1;
        dtype_convert(to, type, piece, hf->type, n);
        to += n * dtype_bytes(type);
    }
    return 0;
}

/* A tensor's twin that the checkpoint has in this state, or NULL. */
static const struct model_tensor *find_there(const struct ckpt *c, const struct model_tensor *t,
                                             int state)
{
    const struct model_tensor *twin = find_twin(&c->model, t);

    return twin && twin->offset < ckpt_state_elems(&c->model, t->unit, &c->state[state]) ? twin
                                                                                         : NULL;
}

/* Elements [first, first + count) of one of the model's tensors. */
static int read_part(const struct ckpt_view *v, const struct model_tensor *t, int state,
                     int64_t first, int64_t count, enum dtype type, void *out, struct err *err)
{
    struct weights *w = v->from;
    struct ckpt *c = &w->ckpt;

    if (!w->is_ckpt && is_in_folder(&w->hf, t))
        return read_folder(&w->hf, t, first, count, type, out, err);
    const struct model_tensor *twin = w->is_ckpt ? find_there(c, t, state) : NULL;
    if (!twin)
        return v->absent(v->arg, t, first, count, type, out, err);
    struct range at = {twin->offset + first, twin->offset + first + count};
    return ckpt_read_ranges(c, t->unit, state, &at, 1, type, out, err);
}

int ckpt_read_model(const struct ckpt_view *v, int unit, int state, const struct range *ranges,
                    int n, enum dtype type, void *out, struct err *err)
{
    const struct model *m = v->model;
    char *to = out;

    for (int i = 0; i < n; i++) {
        for (int64_t at = ranges[i].lo, end; at < ranges[i].hi; at = end) {
            const struct model_tensor *t = &m->tensor[ckpt_tensor_at(m, unit, at)];
            end = t->offset + t->elems < ranges[i].hi ? t->offset + t->elems : ranges[i].hi;
            if (read_part(v, t, state, at - t->offset, end - at, type, to, err))
                return -1;
            to += (end - at) * dtype_bytes(type);
        }
    }
    return 0;
}

/* As long as a block: a tensor may be large, and its readers share it. */
static int64_t piece_end(const struct model_tensor *t, int64_t at)
{
    int64_t end = ((at - t->offset) / CKPT_BLOCK_ELEMS + 1) * CKPT_BLOCK_ELEMS;

    return t->offset + (end < t->elems ? end : t->elems);
}

int64_t ckpt_model_end_at(const struct ckpt_view *v, int unit, int state, int64_t at)
{
    const struct model_tensor *t = &v->model->tensor[ckpt_tensor_at(v->model, unit, at)];

    if (!v->from->is_ckpt)
        return piece_end(t, at);
    const struct model_tensor *twin = find_there(&v->from->ckpt, t, state);
    if (!twin)
        return t->offset + t->elems;
    return ckpt_end_at(&v->from->ckpt, unit, state, at - t->offset + twin->offset) -
           twin->offset + t->offset;
}
