/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks that two configs describe the same network, and reads weights into a model that trains
 * other parameters.  Matches tensors by name within one unit, since a tensor's unit does not
 * depend on which parameters train.
 */
#include "ckpt/ckpt_states.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"

int states_check_network(const char *folder, const struct model *own, const struct model *plan,
                         struct err *err)
{
    char in_own[32], in_plan[32];
    const char *key = model_difference(own, plan, in_own, in_plan);

    if (!key)
        return 0;
    return err_mismatch(err, folder, key,
                        "is %s in its config.json, but %s in the plan's model", in_own,
                        in_plan);
}

int states_check_trains(const char *folder, const struct model *own, const struct model *plan,
                        struct err *err)
{
    const char *has = own->partial ? own->partial : "all";
    const char *wants = plan->partial ? plan->partial : "all";

    if (strcmp(has, wants) == 0)
        return 0;
    return err_mismatch(err, folder, NULL, "trains '%.200s', but the plan trains '%.200s'", has,
                        wants);
}

/* The tensor of the same name in another model of the network, or NULL. */
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

    if (states_check_network(c->dir, &c->model, m, err))
        return -1;
    for (int i = 0; i < c->model.tensors; i++) {
        const struct model_tensor *t = &c->model.tensor[i];
        if (!model_is_added(t) || find_twin(m, t))
            continue;
        return err_mismatch(err, c->dir, t->name,
                            "is %s of the checkpoint that the plan's model does not have",
                            model_is_adapter(t) ? "an adapter" : "a mask");
    }
    if (c->model.sparse.share > 0 && states_check_trains(c->dir, &c->model, m, err))
        return -1;
    if (!have->rank || (have->rank == want->rank && have->alpha == want->alpha))
        return 0;
    return err_mismatch(err, c->dir, NULL,
                        "has adapters of rank %" PRId64
                        " and alpha %g, the plan's model of rank %" PRId64 " and alpha %g",
                        have->rank, have->alpha, want->rank, want->alpha);
}

/* Checks the folder's own config.json, if there is one, and its tensors. */
static int states_check_folder(struct hf *hf, const struct model *m, struct err *err)
{
    struct model own = {0};
    int rc = 0;

    if (hf_has_config(hf))
        rc = err_any(model_read_folder(&own, hf->dir, err) ||
                     states_check_network(hf->dir, &own, m, err));
    model_release(&own);
    return rc ? rc : hf_match(hf, m, err);
}

int states_check_model(struct weights *w, const struct model *m, struct err *err)
{
    return w->is_ckpt ? check_ckpt(&w->ckpt, m, err) : states_check_folder(&w->hf, m, err);
}

/* The tensor of the same name that the checkpoint has in this state, or NULL. */
static const struct model_tensor *find_there(const struct ckpt *c, const struct model_tensor *t,
                                             int state)
{
    const struct model_tensor *twin = state < 0 ? NULL : find_twin(&c->model, t);

    return twin && twin->offset < ckpt_state_elems(&c->model, t->unit, &c->state[state]) ? twin
                                                                                         : NULL;
}

/*
 * Generates initial values in the model's type, as paro-shard init writes them.  Each value
 * depends only on its position, not on the rank that generates it.
 */
static int make_first(const struct states *s, const struct model_tensor *t, int64_t first,
                      int64_t count, float *out, struct err *err)
{
    enum { PART = 2048 }; /* about 100 us */
    int threads = s->threads > 1 ? s->threads : 1;
    enum dtype type = DTYPE_F32;
    double one; /* large enough for an element of any type */

    if (dtype_parse(s->model->dtype, &type, err))
        return -1;
#pragma omp parallel for num_threads(threads) if (threads > 1 && count > PART)
    for (int64_t at = 0; at < count; at += PART)
        model_init_values(t, s->seed, first + at, count - at < PART ? count - at : PART,
                          out + at);
    for (int64_t x = 0; type != DTYPE_F32 && x < count; x++) {
        dtype_convert(&one, type, out + x, DTYPE_F32, 1);
        dtype_convert(out + x, DTYPE_F32, &one, type, 1);
    }
    return 0;
}

/* Elements of other groups before those of the reader's group. */
static int64_t states_before(const struct states *s, int unit, int number)
{
    const struct ckpt *c = &s->weights->ckpt;
    int groups = c->state[number].groups;

    return groups > 1 ? s->group % groups * c->model.unit[unit].trained : 0;
}

/* Reads elements [first, first + count) of one of the model's tensors; number: state number in
   the weights. */
static int states_read_part(const struct states *s, const struct model_tensor *t, int state,
                            int number, int64_t first, int64_t count, float *out,
                            struct err *err)
{
    struct weights *w = s->weights;

    if (w && !w->is_ckpt) {
        const struct hf_place *p = &w->hf.place[t - w->hf.model->tensor];
        if (p->t)
            return st_read_as(&w->hf.file[p->file], p->t, first, count, DTYPE_F32, out, err);
    } else if (w) {
        const struct model_tensor *twin = find_there(&w->ckpt, t, number);
        if (twin) {
            int64_t lo = states_before(s, t->unit, number) + twin->offset + first;
            struct range at = {lo, lo + count};
            return ckpt_read_range(&w->ckpt, t->unit, number, at, DTYPE_F32, out, err);
        }
    }
    if (state > 0) {
        memset(out, 0, (size_t)count * sizeof *out);
        return 0;
    }
    if (w && number != s->params)
        return states_read_part(s, t, 0, s->params, first, count, out, err);
    return make_first(s, t, first, count, out, err);
}

/* Whether the tensor is sparse while the weights (or initial values) are dense. */
static int becomes_sparse(const struct states *s, const struct model_tensor *t)
{
    const struct weights *w = s->weights;

    return t->block && !(w && w->is_ckpt && w->ckpt.model.sparse.share > 0);
}

void states_release(struct states *s)
{
    mem_free(s->value);
    mem_free(s->mask);
    s->matrix = NULL;
    s->value = s->mask = NULL;
}

static int make_sparse(struct states *s, const struct model_tensor *t, struct err *err)
{
    const struct model_tensor *mask = model_mask_of(s->model, t);
    void *whole = NULL, *value = NULL, *bits = NULL;

    if (s->matrix == t)
        return 0;
    states_release(s);
    int rc =
        err_any(mem_data(model_whole(t) * (int64_t)sizeof(float), "a matrix", &whole, err) ||
                mem_data((t->elems + 1) * (int64_t)sizeof(float), "a matrix", &value, err) ||
                mem_data(mask->elems * (int64_t)sizeof(float), "a mask", &bits, err) ||
                states_read_part(s, t, 0, s->state[0], 0, model_whole(t), whole, err));
    s->value = value;
    s->mask = bits;
    if (rc == 0) {
        model_sparse_first(s->model, t, whole, value, bits);
        s->matrix = t;
    }
    mem_free(whole);
    return rc;
}

/* Reads a sparse matrix, or its mask. */
static int states_read_sparse(struct states *s, const struct model_tensor *t, int state,
                              int64_t first, int64_t count, float *out, struct err *err)
{
    int mask = t->kind == MODEL_MASK;

    memset(out, 0, (size_t)count * sizeof *out);
    if (state > 0)
        return 0;
    if (make_sparse(s, mask ? model_mask_of(s->model, t) : t, err))
        return -1;
    memcpy(out, (mask ? s->mask : s->value) + first, (size_t)count * sizeof *out);
    return 0;
}

int states_read(void *states, int unit, int state, struct range at, float *out, struct err *err)
{
    struct states *s = states;
    const struct model *m = s->model;

    for (int64_t end; at.lo < at.hi; at.lo = end) {
        const struct model_tensor *t = &m->tensor[ckpt_tensor_at(m, unit, at.lo)];
        int64_t first = at.lo - t->offset, last = at.hi - t->offset;
        int64_t count = (last < t->elems ? last : t->elems) - first;
        if (becomes_sparse(s, t)
                ? states_read_sparse(s, t, state, first, count, out, err)
                : states_read_part(s, t, state, s->state[state], first, count, out, err))
            return -1;
        end = at.lo + count;
        out += count;
    }
    return 0;
}

int64_t states_end(void *states, int unit, int state, int64_t at)
{
    const struct states *s = states;
    const struct model_tensor *t = &s->model->tensor[ckpt_tensor_at(s->model, unit, at)];
    const struct model_tensor *twin;

    if (becomes_sparse(s, t))
        return t->offset + t->elems;
    if (!s->weights->is_ckpt) { /* limited to a block, since a tensor may be large */
        int64_t end = ((at - t->offset) / CKPT_BLOCK_ELEMS + 1) * CKPT_BLOCK_ELEMS;
        return t->offset + (end < t->elems ? end : t->elems);
    }
    twin = find_there(&s->weights->ckpt, t, s->state[state]);
    if (!twin)
        return t->offset + t->elems;
    int64_t before = states_before(s, unit, s->state[state]) + twin->offset - t->offset;
    return ckpt_end_at(&s->weights->ckpt, unit, s->state[state], at + before) - before;
}
