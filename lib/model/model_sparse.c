/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chooses which places of a sparse matrix are active, at first and after a change, and keeps
 * their values.
 */
#include "model/model_sparse.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/num.h"
#include "model/model_parts.h"

/* ---- places ---- */

struct grid { /* a matrix as stored */
    int64_t out, in, out_step, in_step;
};

static struct grid sparse_grid_of(const struct model_tensor *t)
{
    int64_t rows = t->shape[0], cols = t->shape[1];

    return t->transposed ? (struct grid){cols, rows, 1, cols}
                         : (struct grid){rows, cols, cols, 1};
}

int64_t model_places(const struct model_tensor *t)
{
    struct grid g = sparse_grid_of(t);

    return (g.out + t->block - 1) / t->block * g.in;
}

/* Number of active places if a share of them is inactive. */
static int64_t active(int64_t places, double share)
{
    return places - llround(share * (double)places);
}

/* Finds the first active place from `place` on; `places`: none.  Accepts values that are no
   mask. */
static int64_t next_active(const float *mask, int64_t place, int64_t places)
{
    while (place < places) {
        float eight = mask[place / MODEL_MASK_BITS];
        unsigned bits = eight >= 0 && eight < 1 << MODEL_MASK_BITS ? (unsigned)eight : 0;

        bits >>= place % MODEL_MASK_BITS;
        if (bits && place + __builtin_ctz(bits) < places)
            return place + __builtin_ctz(bits);
        place += MODEL_MASK_BITS - place % MODEL_MASK_BITS;
    }
    return places;
}

/* Elements of a place inside the matrix: returns their number; they are at *first, `step`
   apart. */
static int elements(const struct grid *g, int block, int64_t place, int64_t *first)
{
    int64_t out = place / g->in * block;

    *first = out * g->out_step + place % g->in * g->in_step;
    return g->out - out < block ? (int)(g->out - out) : block;
}

void model_sparse_whole(const struct model_tensor *t, const float *value, const float *mask,
                        float *whole)
{
    struct grid g = sparse_grid_of(t);
    int64_t places = model_places(t), first;

    const float *end = value + t->elems;

    memset(whole, 0, (size_t)model_whole(t) * sizeof *whole);
    for (int64_t p = next_active(mask, 0, places); p < places && value < end;
         p = next_active(mask, p + 1, places), value += t->block) {
        int n = elements(&g, t->block, p, &first);
        for (int i = 0; i < n; i++)
            whole[first + i * g.out_step] = value[i];
    }
}

void model_sparse_add(const struct model_tensor *t, const float *whole, const float *mask,
                      float *value)
{
    struct grid g = sparse_grid_of(t);
    int64_t places = model_places(t), first;
    const float *end = value + t->elems;

    for (int64_t p = next_active(mask, 0, places); p < places && value < end;
         p = next_active(mask, p + 1, places), value += t->block) {
        int n = elements(&g, t->block, p, &first);
        for (int i = 0; i < n; i++)
            value[i] += whole[first + i * g.out_step];
    }
}

int model_sparse_places(const struct model_tensor *t, const float *mask, int64_t most,
                        int32_t *start, int32_t *column)
{
    struct grid g = sparse_grid_of(t);
    int64_t places = model_places(t);
    int32_t n = 0, block = 0;

    start[0] = 0;
    for (int64_t p = next_active(mask, 0, places); p < places;
         p = next_active(mask, p + 1, places)) {
        while (block < p / g.in)
            start[++block] = n;
        if (n == most)
            return 0;
        column[n++] = (int32_t)(p % g.in);
    }
    while (block < places / g.in)
        start[++block] = n;
    return 1;
}

/* ---- choice ---- */

/* A key that orders places by `by`, descending; equal ones by place, ascending. */
static uint64_t sparse_key_of(uint32_t by, int64_t place)
{
    return (uint64_t)by << 32 | (UINT32_MAX - (uint32_t)place);
}

/* The bit patterns of nonnegative floats are ordered like the floats. */
static uint32_t sparse_bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The count-th largest of n different keys, which are reordered; 1 <= count <= n. */
static uint64_t least_chosen(uint64_t *key, int64_t n, int64_t count)
{
    int64_t lo = 0, hi = n - 1, want = count - 1;

    while (lo < hi) { /* Hoare's selection, the largest first */
        uint64_t middle = key[lo + (hi - lo) / 2];
        int64_t i = lo, j = hi;

        while (i <= j) {
            while (key[i] > middle)
                i++;
            while (key[j] < middle)
                j--;
            if (i <= j) {
                uint64_t other = key[i];
                key[i++] = key[j];
                key[j--] = other;
            }
        }
        if (want <= j)
            hi = j;
        else if (want >= i)
            lo = i;
        else
            break;
    }
    return key[want];
}

/* The L2 norm of a place's values, each |w| + lambda |gradient|. */
static float importance(const float *w, const float *gradient, double lambda, int block)
{
    double sum = 0;

    for (int i = 0; i < block; i++) {
        double x = fabs((double)w[i]) + (gradient ? lambda * fabs((double)gradient[i]) : 0);
        if (block == 1)
            return (float)x;
        sum += x * x;
    }
    return (float)sqrt(sum);
}

/* States of a place during a change. */
enum { IDLE, LEAVES, STAYS, COMES };

/* Changes the state of the `count` places with the largest keys from `from` to `to`; returns
   how many were changed. */
static int64_t sparse_choose(char *fate, const uint64_t *key, int64_t places, int from,
                             int64_t count, int to)
{
    uint64_t *some = mem_new((size_t)places + 1, sizeof *some);
    int64_t n = 0;

    for (int64_t p = 0; p < places; p++)
        if (fate[p] == from)
            some[n++] = key[p];
    if (count > n)
        count = n;
    uint64_t least = count > 0 ? least_chosen(some, n, count) : 0;
    for (int64_t p = 0; count > 0 && p < places; p++)
        if (fate[p] == from && key[p] >= least)
            fate[p] = (char)to;
    mem_free(some);
    return count > 0 ? count : 0;
}

static void write_mask(const char *fate, int64_t places, float *mask, int64_t elems)
{
    memset(mask, 0, (size_t)elems * sizeof *mask);
    for (int64_t p = 0; p < places; p++)
        if (fate[p] != IDLE)
            mask[p / MODEL_MASK_BITS] += (float)(1 << p % MODEL_MASK_BITS);
}

void model_sparse_first(const struct model *m, const struct model_tensor *t, const float *whole,
                        float *value, float *mask)
{
    struct grid g = sparse_grid_of(t);
    int64_t places = model_places(t);
    uint64_t *key = mem_new((size_t)places + 1, sizeof *key);
    char *fate = mem_new((size_t)places + 1, 1);

    for (int64_t p = 0, first; p < places; p++) {
        int n = elements(&g, t->block, p, &first);
        float w[4] = {0};
        for (int i = 0; i < n; i++)
            w[i] = whole[first + i * g.out_step];
        key[p] = sparse_key_of(sparse_bits_of(importance(w, NULL, 0, t->block)), p);
    }
    sparse_choose(fate, key, places, IDLE, active(places, m->sparse.share), STAYS);
    write_mask(fate, places, mask, model_mask_of(m, t)->elems);
    memset(value, 0, (size_t)t->elems * sizeof *value);
    model_sparse_add(t, whole, mask, value);
    mem_free(key);
    mem_free(fate);
}

/* ---- change ---- */

static int64_t sparse_step_of(double share, int64_t steps)
{
    return llround(share * (double)steps);
}

/* p at that step. */
static double exchanged(const struct model_sparse *s, int64_t step, int64_t steps)
{
    int part = 0;

    while (part + 1 < s->parts && step >= sparse_step_of(s->at[part], steps))
        part++;
    return s->p[part];
}

int model_sparse_due(const struct model_sparse *s, int64_t step, int64_t steps)
{
    int64_t every = sparse_step_of(s->every, steps) > 1 ? sparse_step_of(s->every, steps) : 1;

    return step % every == 0 && (exchanged(s, step, steps) > 0 ||
                                 (step > 0 && exchanged(s, step - every, steps) > 0));
}

/* Moves the values in place: those that stay to their new index; added ones and the rest are
   0. */
static void sparse_move(const struct model_tensor *t, const char *fate, const float *mask,
                        float *x)
{
    int64_t places = model_places(t), block = t->block;
    float *old = mem_new((size_t)t->elems + 1, sizeof *old), *from = old, *end = x + t->elems;

    memcpy(old, x, (size_t)t->elems * sizeof *x);
    memset(x, 0, (size_t)t->elems * sizeof *x);
    for (int64_t p = 0; p < places && x < end; p++) {
        if (fate[p] == STAYS)
            memcpy(x, from, (size_t)block * sizeof *x);
        from += next_active(mask, p, p + 1) == p ? block : 0;
        x += fate[p] != IDLE ? block : 0;
    }
    mem_free(old);
}

void model_sparse_change(const struct model *m, const struct model_tensor *t, int64_t step,
                         int64_t steps, float *value, float *exp_avg, float *exp_avg_sq,
                         const float *gradient, float *mask)
{
    const struct model_sparse *s = &m->sparse;
    int64_t places = model_places(t), at = 0;
    uint64_t *key = mem_new((size_t)places + 1, sizeof *key), stream = rng_stream(t->name);
    char *fate = mem_new((size_t)places + 1, 1);
    float *const states[] = {value, exp_avg, exp_avg_sq};
    double p = exchanged(s, step, steps), least = s->soft ? s->share : s->share + p;
    double most = s->soft ? s->share - p : s->share;
    for (int64_t i = next_active(mask, 0, places); i < places && at < t->elems;
         i = next_active(mask, i + 1, places), at += t->block) {
        fate[i] = LEAVES;
        key[i] =
            sparse_key_of(sparse_bits_of(importance(value + at, gradient ? gradient + at : NULL,
                                                    s->lambda, t->block)),
                          i);
    }
    int64_t stay = sparse_choose(fate, key, places, LEAVES, active(places, least), STAYS);
    for (int64_t i = 0; i < places; i++) {
        fate[i] = fate[i] == STAYS ? STAYS : IDLE; /* a removed place may be added again */
        if (fate[i] == IDLE && p > 0)
            key[i] = sparse_key_of(
                (uint32_t)(rng_u64(s->seed, stream, (uint64_t)step << 32 | (uint64_t)i) >> 32),
                i);
    }
    if (p > 0)
        sparse_choose(fate, key, places, IDLE, active(places, most) - stay, COMES);
    for (int i = 0; i < 3; i++)
        sparse_move(t, fate, mask, states[i]);
    write_mask(fate, places, mask, model_mask_of(m, t)->elems);
    mem_free(key);
    mem_free(fate);
}

/* ---- parsing of sparse= ---- */

int model_is_added(const struct model_tensor *t)
{
    return model_is_adapter(t) || t->kind == MODEL_MASK;
}

static int is_sparse(const struct model *m, const struct model_tensor *t)
{
    return t->kind == MODEL_MATRIX && m->family->modules[t->module].role < MODEL_HEAD;
}

const struct model_tensor *model_mask_of(const struct model *m, const struct model_tensor *t)
{
    const struct model_unit *u = &m->unit[t->unit];

    for (int i = u->first; i < u->first + u->count; i++)
        if (m->tensor[i].module == t->module && m->tensor[i].block &&
            (m->tensor[i].kind == MODEL_MASK) != (t->kind == MODEL_MASK))
            return &m->tensor[i];
    return NULL;
}

/* The share of inactive places when most are active. */
static double most_of(const struct model_sparse *s)
{
    return s->soft ? s->share - s->p[0] : s->share;
}

static void add_mask(struct model *m, int number, const void *arg)
{
    const struct model_sparse *s = &m->sparse;
    struct model_tensor *t = &m->tensor[m->tensors - 1];
    char name[sizeof t->name];

    (void)number;
    (void)arg;
    if (!is_sparse(m, t))
        return;
    t->block = s->block;
    int64_t places = model_places(t);
    t->elems = active(places, most_of(s)) * s->block;
    snprintf(name, sizeof name, "%.*s_mask", (int)sizeof name - 6, t->name);
    struct model_tensor *mask = model_tensor_add(
        m, name, MODEL_MASK, 0, (places + MODEL_MASK_BITS - 1) / MODEL_MASK_BITS);
    mask->module = t->module;
    mask->block = s->block;
}

/* Reads a list such as "0.05:0.025:0". */
static int read_shares(const char *text, double *out, int *count, struct err *err)
{
    int rc = 0;

    *count = 0;
    for (char *one; rc == 0 && (one = model_next_part(&text, ':')); mem_free(one)) {
        if (*count == MODEL_SPARSE_PARTS)
            rc = err_set(err, ERR_INPUT, "more than %d shares", MODEL_SPARSE_PARTS);
        else
            rc = num_f64(one, 0, 1, &out[(*count)++], err);
    }
    return rc;
}

static int sparse_read_word(const char *text, const char *const words[2], int *out,
                            struct err *err)
{
    *out = strcmp(text, words[1]) == 0;
    if (*out || strcmp(text, words[0]) == 0)
        return 0;
    return err_set(err, ERR_INPUT, "'%s', expected %s or %s", text, words[0], words[1]);
}

static int sparse_read_key(struct model_sparse *s, const char *key, const char *text, int *ats,
                           struct err *err)
{
    static const char *const modes[] = {"em", "ems"}, *const schemes[] = {"unstructured",
                                                                          "block4"};
    int64_t seed = 0;
    int rc, block = 0;

    if (strcmp(key, "mode") == 0)
        return sparse_read_word(text, modes, &s->soft, err);
    if (strcmp(key, "p") == 0)
        return read_shares(text, s->p, &s->parts, err);
    if (strcmp(key, "at") == 0)
        return read_shares(text, s->at, ats, err);
    if (strcmp(key, "every") == 0)
        return num_f64(text, 0, 1, &s->every, err);
    if (strcmp(key, "lambda") == 0)
        return num_f64(text, 0, 1e9, &s->lambda, err);
    if (strcmp(key, "scheme") == 0) {
        rc = sparse_read_word(text, schemes, &block, err);
        s->block = block ? 4 : 1;
        return rc;
    }
    if (strcmp(key, "seed") == 0) {
        rc = num_count(text, 0, (int64_t)9e15, &seed, err);
        s->seed = (uint64_t)seed;
        return rc;
    }
    return err_set(err, ERR_INPUT,
                   "'%s' is unknown, expected mode, p, at, every, scheme, lambda or seed", key);
}

/* Checks the numbers against each other. */
static int check_numbers(const struct model_sparse *s, int ats, struct err *err)
{
    if (ats < 0 ? s->parts == 2 || s->parts > 3 : ats != s->parts - 1)
        return err_set(err, ERR_INPUT, "%d of p, but %d of at, expected one less than of p",
                       s->parts, ats < 0 ? 0 : ats);
    for (int i = 1; i < s->parts; i++)
        if (s->p[i] > s->p[i - 1] || (i > 1 && s->at[i - 1] < s->at[i - 2]))
            return err_set(err, ERR_INPUT, "p must not grow, and at not fall");
    /* 1 - share would be rounded: 0.9 + 0.1 is 1. */
    if (s->soft ? s->p[0] <= s->share : s->share + s->p[0] <= 1)
        return 0;
    return err_set(err, ERR_INPUT, "p is %g, expected at most %g", s->p[0],
                   s->soft ? s->share : 1 - s->share);
}

static int sparse_read_sparse(struct model_sparse *s, const char *text, struct err *err)
{
    char *share = model_next_part(&text, ',');
    int ats = -1, rc = num_f64(share, 0, 1, &s->share, err);

    if (rc == 0 && !(s->share > 0 && s->share < 1))
        rc = err_set(err, ERR_INPUT, "'%s', expected a share above 0 and below 1", share);
    mem_free(share);
    for (char *p; rc == 0 && (p = model_next_part(&text, ',')); mem_free(p)) {
        char *value = strchr(p, '=');
        if (value)
            *value++ = 0;
        rc = value ? sparse_read_key(s, p, value, &ats, err)
                   : err_set(err, ERR_INPUT, "'%s', expected KEY=VALUE", p);
        if (rc && value)
            err_prefix(err, "%s: ", p);
    }
    return rc ? rc : check_numbers(s, ats, err);
}

int model_train_sparse(struct model *m, const char *text, struct err *err)
{
    /* The schedule of the released program: at epochs 0, 90, 120 of 160, and every 5 epochs. */
    struct model_sparse s = {.soft = 1,
                             .parts = 3,
                             .p = {0.05, 0.025, 0},
                             .at = {0.5625, 0.75},
                             .every = 0.03125,
                             .block = 1,
                             .seed = 1};
    int any = 0;

    if (sparse_read_sparse(&s, text, err))
        return err_prefix(err, "sparse: ");
    for (int i = 0; i < m->tensors; i++) {
        struct model_tensor t = m->tensor[i];
        if (!is_sparse(m, &t))
            continue;
        any = 1;
        t.block = s.block;
        if (active(model_places(&t), s.soft ? s.share : s.share + s.p[0]) < 1)
            return err_set(err, ERR_INPUT,
                           "sparse: nothing of '%s' would stay active, expected one of its"
                           " %" PRId64 " places at least",
                           t.name, model_places(&t));
        if (model_places(&t) > UINT32_MAX)
            return err_set(err, ERR_INPUT, "sparse: '%s' has more than 2^32 places", t.name);
    }
    if (!any)
        return err_set(err, ERR_INPUT, "sparse: the model has no matrices in layers");
    m->sparse = s;
    model_units_extend(m, 0, add_mask, NULL);
    return 0;
}
