/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows the file in which another program hands over an optimizer's state; nothing of where it
 * goes.
 */
#include "shard/optim.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "ckpt/foreign.h"
#include "ckpt/hf.h"
#include "ckpt/pieces.h"

static const char *const states[OPTIM_STATES] = {"master", "exp_avg", "exp_avg_sq"};

const char *optim_state_name(int state)
{
    return states[state];
}

/* The model's tensor whose master copy a folder's weights of that name are, or NULL. */
static const struct model_tensor *find_master(const struct optim *o, const char *name)
{
    const struct model_tensor *t = NULL;
    enum hf_role role = hf_role(o->model, name, &t);

    return role == HF_OURS || (role == HF_TIED && !hf_has_embedding(o->model, &o->st)) ? t
                                                                                       : NULL;
}

/* The model's tensor and the state that "NAME/STATE" names, or NULL. */
static const struct model_tensor *find_tensor(const struct optim *o, const char *name,
                                              int *state)
{
    const struct model *m = o->model;
    const char *slash = strrchr(name, '/');
    char own[sizeof m->tensor->name];

    if (!slash || slash - name >= (int)sizeof own)
        return NULL;
    for (*state = 0; *state < OPTIM_STATES; ++*state)
        if (strcmp(slash + 1, states[*state]) == 0)
            break;
    snprintf(own, sizeof own, "%.*s", (int)(slash - name), name);
    return *state < OPTIM_STATES ? find_master(o, own) : NULL;
}

static int read_number(const struct st *st, const char *name, int64_t *out, struct err *err)
{
    const struct st_tensor *t = st_find(st, name);
    unsigned char bytes[8];

    if (!t)
        return err_at(err, st->path, 0, name, "is missing, expected one number of type I64");
    if (strcmp(st_type_name(t->type), "I64") || t->elems != 1) {
        char have[256];
        st_print_shape(t, have, sizeof have);
        return err_at(err, st->path, 0, name, "is %s, expected one number of type I64", have);
    }
    if (st_read(st, t, 0, sizeof bytes, bytes, err))
        return -1;
    int64_t value = (int64_t)io_le64(bytes);
    if (value < 0 || value > CKPT_RUN_MAX)
        return err_at(err, st->path, 0, name, "is %" PRId64 ", expected 0 to 1e18", value);
    *out = value;
    return 0;
}

/* Each tensor of the file its place, and each place a tensor. */
static int match_tensors(struct optim *o, const struct ckpt_limits *limits, struct err *err)
{
    const struct model *m = o->model;
    const struct model_tensor *t;

    for (int i = 0; i < o->st.count; i++) {
        const struct st_tensor *have = &o->st.tensor[i];
        int state = 0, weights = o->st.pieces && !pieces_state(have->name);
        if (!o->st.pieces && (!strcmp(have->name, "step") || !strcmp(have->name, "tokens")))
            continue;
        t = weights ? find_master(o, have->name) : find_tensor(o, have->name, &state);
        if (weights && !t)
            continue;
        if (!t)
            return err_at(err, o->st.path, 0, have->name,
                          "is not a state of the model, expected NAME/master, NAME/exp_avg or "
                          "NAME/exp_avg_sq");
        hf_unflatten(&o->st, have, t);
        if (hf_check_shape(&o->st, have, t, err))
            return -1;
        const struct st_tensor **at = &o->place[(t - m->tensor) * OPTIM_STATES + state];
        if (*at)
            return err_at(err, o->st.path, 0, have->name, "appears twice, also as '%s'",
                          (*at)->name);
        *at = have;
    }
    for (int i = 0; i < m->tensors * OPTIM_STATES; i++) {
        t = &m->tensor[i / OPTIM_STATES];
        if (!o->place[i] && model_trains(m, t) && !(o->st.pieces && i % OPTIM_STATES == 0))
            return err_set(err, ERR_MISMATCH, "%s: '%s/%s' is missing, but '%s' trains",
                           o->st.path, t->name, states[i % OPTIM_STATES], t->name);
    }
    if (o->st.pieces)
        return foreign_step(&o->st, limits, &o->step, err);
    return err_any(read_number(&o->st, "step", &o->step, err) ||
                   read_number(&o->st, "tokens", &o->tokens, err));
}

int optim_open(struct optim *o, const char *path, const struct ckpt_limits *limits,
               const struct model *m, struct err *err)
{
    *o = (struct optim){.model = m};
    if (foreign_is(path) ? foreign_open(&o->st, path, limits, err)
                         : st_open(&o->st, path, limits, err))
        return -1;
    o->place = mem_new((size_t)m->tensors * OPTIM_STATES, sizeof *o->place);
    if (match_tensors(o, limits, err) == 0)
        return 0;
    optim_release(o);
    return -1;
}

void optim_release(struct optim *o)
{
    st_release(&o->st);
    mem_free(o->place);
    *o = (struct optim){0};
}

const struct st_tensor *optim_find(const struct optim *o, const struct model_tensor *t,
                                   int state)
{
    return o->place[(t - o->model->tensor) * OPTIM_STATES + state];
}

int optim_read(const struct optim *o, const struct model_tensor *t, int state, int64_t first,
               int64_t count, float *out, struct err *err)
{
    return st_read_as(&o->st, optim_find(o, t, state), first, count, DTYPE_F32, out, err);
}
