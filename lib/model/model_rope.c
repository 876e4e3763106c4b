/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads and computes rotary positions: the keys of rope_scaling (transformers 4) and
 * rope_parameters (transformers 5), and the frequencies that each type gives, as transformers'
 * modeling_rope_utils.py computes them.  Sources: Su et al. 2021 (default); Chen et al. 2023,
 * "Extending Context Window" (linear); NTK-aware scaling by the sequence (dynamic); Peng et al.
 * 2023, "YaRN"; the Llama 3.1 release (llama3); Ding et al. 2024, "LongRoPE".
 */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/mem.h"
#include "model/model_keys.h"

static const char *const types[] = {"default", "linear",   "dynamic", "llama3",
                                    "yarn",    "longrope", NULL};

enum {
    PLAIN = 1 << MODEL_ROPE_DEFAULT,
    LINEAR = 1 << MODEL_ROPE_LINEAR,
    DYNAMIC = 1 << MODEL_ROPE_DYNAMIC,
    LLAMA3 = 1 << MODEL_ROPE_LLAMA3,
    YARN = 1 << MODEL_ROPE_YARN,
    LONG = 1 << MODEL_ROPE_LONG,
    ALL = PLAIN | LINEAR | DYNAMIC | LLAMA3 | YARN | LONG
};

/* Far beyond all values in use; within them, and with theta >= 1, no frequency overflows. */
#define NUMBER_MIN 1e-6
#define NUMBER_MAX 1e30

enum { NULL_NONE = 1, ZERO_NONE = 2 }; /* values that mean an absent key */

static const struct rope_key {
    const char *name;
    size_t at;           /* in struct model_rope */
    unsigned needs, may; /* types that require it, that allow it */
    int none;
} rope_keys[] = {
    {"rope_theta", offsetof(struct model_rope, theta), 0, ALL, 0},
    {"factor", offsetof(struct model_rope, factor), LINEAR | DYNAMIC | LLAMA3 | YARN, LONG,
     NULL_NONE /* YARN and LONG only */},
    {"low_freq_factor", offsetof(struct model_rope, low_freq_factor), LLAMA3, 0, 0},
    {"high_freq_factor", offsetof(struct model_rope, high_freq_factor), LLAMA3, 0, 0},
    {"original_max_position_embeddings", offsetof(struct model_rope, original_max), 0,
     LLAMA3 | YARN | LONG, 0},
    {"attention_factor", offsetof(struct model_rope, attention_factor), 0, YARN | LONG,
     NULL_NONE},
    {"partial_rotary_factor", offsetof(struct model_rope, partial), 0, ALL, NULL_NONE},
    {"beta_fast", offsetof(struct model_rope, beta_fast), 0, YARN, NULL_NONE | ZERO_NONE},
    {"beta_slow", offsetof(struct model_rope, beta_slow), 0, YARN, NULL_NONE | ZERO_NONE},
    {"mscale", offsetof(struct model_rope, mscale), 0, YARN, NULL_NONE | ZERO_NONE},
    {"mscale_all_dim", offsetof(struct model_rope, mscale_all_dim), 0, YARN,
     NULL_NONE | ZERO_NONE},
};

enum { ROPE_KEYS = sizeof rope_keys / sizeof *rope_keys };

static const struct rope_key *rope_find_key(const char *name)
{
    for (int i = 0; i < ROPE_KEYS; i++)
        if (strcmp(rope_keys[i].name, name) == 0)
            return &rope_keys[i];
    return NULL;
}

static int read_type(const struct config *c, const char *key, const struct tree_node *rope,
                     enum model_rope_type *out)
{
    static const char *const names[] = {"type", "rope_type"};
    const char *seen = NULL;

    for (int k = 0; k < 2; k++) {
        const struct tree_node *v = tree_find(rope, names[k]);
        int i = 0;
        if (!v)
            continue;
        const char *text = tree_string(v), *word = text ? text : tree_shown(c->tree, v);
        while (types[i] && strcmp(types[i], word))
            i++;
        if (!types[i])
            return KEY_FAIL(c, key,
                            "has %s \"%.60s\", expected default, linear, dynamic, llama3, "
                            "yarn or longrope",
                            names[k], word);
        if (seen && strcmp(seen, word))
            return KEY_FAIL(c, key, "has rope_type \"%s\", but type \"%s\"", word, seen);
        seen = word;
        *out = (enum model_rope_type)i;
    }
    return 0;
}

static const char *const factor_lists[MODEL_ROPE_LENGTHS] = {"short_factor", "long_factor"};

static int read_factors(const struct config *c, const char *key, const struct tree_node *list,
                        struct model_rope *r, int which)
{
    double *to = mem_new((size_t)tree_count(list, TREE_LIST) + 1, sizeof *to);

    r->pair_factor[which] = to;
    for (const struct tree_node *v = tree_first(list, TREE_LIST); v; v = v->next) {
        double d = 0;

        tree_is_number(v, &d);
        if (d < NUMBER_MIN || d > NUMBER_MAX)
            return KEY_FAIL(c, key, "has %s with %g, expected numbers from %g to %g",
                            factor_lists[which], d, NUMBER_MIN, NUMBER_MAX);
        to[r->pair_factors[which]++] = d;
    }
    return 0;
}

/* Reads one key of the object, except its type. */
static int rope_read_part(const struct config *c, const char *key, const struct tree_node *v,
                          struct model_rope *r)
{
    const struct rope_key *k = rope_find_key(v->key);
    unsigned bit = 1U << r->type;
    double d = 0;
    int number = tree_is_number(v, &d);

    for (int i = 0; r->type == MODEL_ROPE_LONG && i < MODEL_ROPE_LENGTHS; i++)
        if (strcmp(v->key, factor_lists[i]) == 0)
            return read_factors(c, key, v, r, i);
    if (strcmp(v->key, "truncate") == 0 && r->type == MODEL_ROPE_YARN) {
        r->no_truncate = tree_is(v, "false");
        return tree_is_bool(v) ? 0
                               : KEY_FAIL(c, key, "has truncate %.60s, expected true or false",
                                          tree_shown(c->tree, v));
    }
    if (!k || !((k->needs | k->may) & bit))
        return KEY_FAIL(c, key, "has '%.60s', which type \"%s\" does not have", v->key,
                        types[r->type]);
    if (v->kind == TREE_NULL && (k->none & NULL_NONE) &&
        (r->type == MODEL_ROPE_YARN || r->type == MODEL_ROPE_LONG || k->may == ALL))
        return 0;
    if (number && d == 0 && (k->none & ZERO_NONE))
        return 0;
    if (!number)
        return KEY_FAIL(c, key, "has %s, which is %s, expected a number", v->key,
                        tree_shown(c->tree, v));
    if (d < NUMBER_MIN || d > NUMBER_MAX)
        return KEY_FAIL(c, key, "has %s %g, expected a number from %g to %g", v->key, d,
                        NUMBER_MIN, NUMBER_MAX);
    memcpy((char *)r + k->at, &d, sizeof d);
    return 0;
}

static int read_object(const struct config *c, const char *key, const struct tree_node *rope,
                       struct model_rope *r)
{
    if (read_type(c, key, rope, &r->type))
        return -1;
    for (const struct tree_node *v = tree_first(rope, TREE_MAP); v; v = v->next)
        if (strcmp(v->key, "type") && strcmp(v->key, "rope_type") &&
            rope_read_part(c, key, v, r))
            return -1;
    for (int i = 0; i < ROPE_KEYS; i++)
        if ((rope_keys[i].needs & 1U << r->type) && !tree_find(rope, rope_keys[i].name))
            return KEY_FAIL(c, key, "has no '%s', which type \"%s\" needs", rope_keys[i].name,
                            types[r->type]);
    return 0;
}

/* Rejects numbers outside the domain of the formulas. */
static int rope_check_rope(const struct config *c, const char *key, const struct model *m)
{
    const struct model_rope *r = &m->rope;

    if (r->theta < 1)
        return KEY_FAIL(c, key, "has rope_theta %g, expected 1 or above", r->theta);
    if (r->partial != 1 && !m->family->partial_rotary)
        return KEY_FAIL(c, key,
                        "has partial_rotary_factor %g, expected 1: another value is not "
                        "supported",
                        r->partial);
    for (int i = 0; r->type == MODEL_ROPE_LONG && i < MODEL_ROPE_LENGTHS; i++)
        if (r->pair_factors[i] != m->rotary / 2)
            return KEY_FAIL(c, key,
                            "has %" PRId64 " numbers in %s, expected %" PRId64
                            ", half of the elements of a head that turn",
                            r->pair_factors[i], factor_lists[i], m->rotary / 2);
    if (r->type == MODEL_ROPE_LONG && r->original_max < 2)
        return KEY_FAIL(c, key,
                        "has type \"longrope\" and %g original_max_position_embeddings, "
                        "expected 2 or more",
                        r->original_max);
    if (r->type == MODEL_ROPE_LLAMA3 && r->high_freq_factor <= r->low_freq_factor)
        return KEY_FAIL(c, key, "has high_freq_factor %g, expected above low_freq_factor %g",
                        r->high_freq_factor, r->low_freq_factor);
    if (r->type == MODEL_ROPE_DYNAMIC && m->rotary <= 2)
        return KEY_FAIL(c, key,
                        "has type \"dynamic\" with a head_dim of 2, expected 4 or more");
    if (r->type == MODEL_ROPE_YARN && r->theta <= 1)
        return KEY_FAIL(c, key, "has type \"yarn\" and rope_theta %g, expected above 1",
                        r->theta);
    return 0;
}

/* Computes how much of a head rotates, rounded as in transformers. */
static int derive_rotary(const struct config *c, const char *key, struct model *m)
{
    double turns = (double)m->head_dim * fmin(m->rope.partial, 1);

    m->rotary = (int64_t)turns;
    if (m->rope.partial > 1 || m->rotary < 2 || m->rotary % 2)
        return KEY_FAIL(c, key,
                        "has partial_rotary_factor %g, expected an even number of a head's "
                        "%" PRId64 " elements to turn",
                        m->rope.partial, m->head_dim);
    return 0;
}

/* For a model with two kinds of layers, transformers 5 has an object for each: *rope becomes
   the one of model.rope; the other gives local_theta. */
static int rope_read_local(const struct config *c, const char *key,
                           const struct tree_node **rope, struct model *m)
{
    const struct tree_node *full = tree_find(*rope, "full_attention"), *v;
    struct model_rope local = {.theta = m->local_theta, .partial = 1};

    if (!m->local_theta || !full)
        return 0;
    for (v = (*rope)->child; v; v = v->next)
        if (v->kind != TREE_MAP || (v != full && strcmp(v->key, "sliding_attention")))
            return KEY_FAIL(c, key,
                            "has '%.60s', which is %s, expected objects full_attention and "
                            "sliding_attention alone",
                            v->key, tree_shown(c->tree, v));
    int rc = read_object(c, key, tree_find(*rope, "sliding_attention"), &local);
    if (rc == 0 && (local.type != MODEL_ROPE_DEFAULT || local.partial != 1 || local.theta < 1))
        rc = KEY_FAIL(c, key,
                      "has sliding_attention of type \"%s\" with rope_theta %g, expected "
                      "default and 1 or above",
                      types[local.type], local.theta);
    for (int i = 0; i < MODEL_ROPE_LENGTHS; i++)
        mem_free(local.pair_factor[i]);
    *rope = full;
    m->local_theta = local.theta;
    return rc;
}

int keys_rope(const struct config *c, struct model *m)
{
    const char *key = "rope_scaling";
    const struct tree_node *rope = tree_get(c->tree->root, key);
    const struct tree_node *other = tree_get(c->tree->root, "rope_parameters");
    int64_t original = 0;

    m->rope = (struct model_rope){
        .theta = m->family->rope_theta, .beta_fast = 32, .beta_slow = 1, .partial = 1};
    if (keys_num(c, "rope_theta", 0, &m->rope.theta) ||
        (m->family->partial_rotary &&
         keys_num(c, "partial_rotary_factor", 0, &m->rope.partial)) ||
        keys_int(c, "original_max_position_embeddings", INT64_C(1) << 31, 1, &original))
        return -1;
    if (tree_count(rope, TREE_MAP) && tree_count(other, TREE_MAP) && !tree_equal(rope, other))
        return KEY_FAIL(c, key, "differs from rope_parameters");
    if (!rope || (rope->kind == TREE_MAP && !rope->items)) {
        key = "rope_parameters";
        rope = other;
    }
    if (m->local_theta && m->local_theta < 1)
        return KEY_FAIL(c, "rope_local_base_freq", "is %g, expected 1 or above",
                        m->local_theta);
    if (m->rope.theta < 1)
        return KEY_FAIL(c, "rope_theta", "is %g, expected 1 or above", m->rope.theta);
    if (!rope)
        return derive_rotary(c, "partial_rotary_factor", m);
    if (rope->kind != TREE_MAP)
        return KEY_FAIL(c, key, "is %s, expected null or an object", tree_shown(c->tree, rope));
    if (rope_read_local(c, key, &rope, m) || read_object(c, key, rope, &m->rope))
        return -1;
    if (derive_rotary(c, key, m))
        return -1;
    if (m->rope.type == MODEL_ROPE_LLAMA3 || m->rope.type == MODEL_ROPE_YARN ||
        m->rope.type == MODEL_ROPE_LONG) {
        if (original) /* outside the object it takes precedence */
            m->rope.original_max = (double)original;
        if (m->rope.original_max == 0)
            m->rope.original_max = (double)m->max_seq;
    }
    if ((m->rope.type == MODEL_ROPE_YARN || m->rope.type == MODEL_ROPE_LONG) &&
        m->rope.factor == 0)
        m->rope.factor = (double)m->max_seq / m->rope.original_max;
    return rope_check_rope(c, key, m);
}

const char *keys_rope_difference(const struct model_rope *a, const struct model_rope *b,
                                 char in_a[32], char in_b[32])
{
    if (a->type != b->type) {
        snprintf(in_a, 32, "%s", types[a->type]);
        snprintf(in_b, 32, "%s", types[b->type]);
        return "rope_type";
    }
    for (int i = 0; i < ROPE_KEYS; i++) {
        double x = *(const double *)(const void *)((const char *)a + rope_keys[i].at);
        double y = *(const double *)(const void *)((const char *)b + rope_keys[i].at);

        snprintf(in_a, 32, "%g", x);
        snprintf(in_b, 32, "%g", y);
        if (x != y)
            return rope_keys[i].name;
    }
    for (int k = 0; k < MODEL_ROPE_LENGTHS; k++)
        for (int64_t i = 0; i < a->pair_factors[k] && i < b->pair_factors[k]; i++) {
            double x = a->pair_factor[k][i], y = b->pair_factor[k][i];

            snprintf(in_a, 32, "%g", x);
            snprintf(in_b, 32, "%g", y);
            if (x != y)
                return factor_lists[k];
        }
    snprintf(in_a, 32, "%d", !a->no_truncate);
    snprintf(in_b, 32, "%d", !b->no_truncate);
    return a->no_truncate != b->no_truncate ? "truncate" : NULL;
}

/* --- frequencies --- */

/* Slow pairs are stretched by the factor, fast ones are not; between them, a ramp. */
static double llama3_frequency(const struct model_rope *r, double f)
{
    /* rotations within the original training's positions */
    double turns = r->original_max * f / (2 * M_PI);

    if (turns < r->low_freq_factor)
        return f / r->factor;
    if (turns > r->high_freq_factor)
        return f;
    double smooth = (turns - r->low_freq_factor) / (r->high_freq_factor - r->low_freq_factor);
    return (1 - smooth) * f / r->factor + smooth * f;
}

/* The pair that rotates `turns` times within the original training's positions; a fraction. */
static double yarn_pair(const struct model *m, double turns)
{
    return (double)m->rotary * log(m->rope.original_max / (turns * 2 * M_PI)) /
           (2 * log(m->rope.theta));
}

static double yarn_frequency(const struct model *m, int64_t i, double f)
{
    double low = yarn_pair(m, m->rope.beta_fast), high = yarn_pair(m, m->rope.beta_slow);

    if (!m->rope.no_truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, (double)m->rotary - 1);
    if (low == high)
        high += 0.001; /* as in the source */
    double stretched = fmin(fmax(((double)i - low) / (high - low), 0), 1);
    return f / m->rope.factor * stretched + f * (1 - stretched);
}

static double yarn_log(double factor, double mscale)
{
    return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

/* The temperature of the attention, put on both cosine and sine. */
static double yarn_scale(const struct model_rope *r)
{
    if (r->attention_factor > 0)
        return r->attention_factor;
    if (r->mscale > 0 && r->mscale_all_dim > 0)
        return yarn_log(r->factor, r->mscale) / yarn_log(r->factor, r->mscale_all_dim);
    return yarn_log(r->factor, 1);
}

static double long_scale(const struct model_rope *r)
{
    if (r->attention_factor > 0)
        return r->attention_factor;
    return r->factor <= 1 ? 1 : sqrt(1 + log(r->factor) / log(r->original_max));
}

void model_rope_frequencies(const struct model *m, int which, int64_t seq, double *inv_freq,
                            double *scale)
{
    const struct model_rope local = {.theta = m->local_theta};
    const struct model_rope *r = which == MODEL_LOCAL_ROPE ? &local : &m->rope;
    double base = r->theta, dim = (double)m->rotary;

    if (r->type == MODEL_ROPE_DYNAMIC && seq > m->max_seq)
        base *= pow(r->factor * (double)seq / (double)m->max_seq - (r->factor - 1),
                    dim / (dim - 2));
    for (int64_t i = 0; i < m->rotary / 2; i++) {
        double f = pow(base, -2.0 * (double)i / dim);
        if (r->type == MODEL_ROPE_LINEAR)
            f /= r->factor;
        else if (r->type == MODEL_ROPE_LLAMA3)
            f = llama3_frequency(r, f);
        else if (r->type == MODEL_ROPE_YARN)
            f = yarn_frequency(m, i, f);
        else if (r->type == MODEL_ROPE_LONG)
            f /= r->pair_factor[MODEL_ROPE_SHORT_ONES][i];
        inv_freq[i] = f;
    }
    *scale = r->type == MODEL_ROPE_YARN   ? yarn_scale(r)
             : r->type == MODEL_ROPE_LONG ? long_scale(r)
                                          : 1;
}
