/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Builds units from a family's modules, and splits them into trained and frozen parts.
 *
 *   unit      modules, each a weight and perhaps a bias, flattened one after the other
 *   embed     MODEL_EMBED, MODEL_POSITIONS     (tied: and MODEL_NORM_LAST)
 *   layers.N  those of a layer, in the order of the family's table
 *   head      MODEL_NORM_LAST, MODEL_HEAD      (tied: none)
 */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "model/model_parts.h"

/* Allocates space for at most this many. */
static void units_init(struct model *m, int64_t units, int64_t tensors)
{
    m->unit = mem_new((size_t)units, sizeof *m->unit);
    m->tensor = mem_new((size_t)tensors, sizeof *m->tensor);
}

/* Opens the unit that the following tensors are added to. */
static void unit_open(struct model *m, const char *name)
{
    struct model_unit *u = &m->unit[m->units++];

    *u = (struct model_unit){.first = m->tensors};
    snprintf(u->name, sizeof u->name, "%.63s", name);
}

struct model_tensor *model_tensor_add(struct model *m, const char *name, enum model_kind kind,
                                      int64_t rows, int64_t cols)
{
    struct model_tensor *t = &m->tensor[m->tensors++];

    *t =
        (struct model_tensor){.kind = kind,
                              .unit = m->units - 1,
                              .elems = rows ? rows * cols : cols,
                              .dims = rows ? 2 : 1,
                              .shape = {rows ? rows : cols, rows ? cols : 0},
                              .init_std = kind == MODEL_VECTOR ? 0 : m->init_std,
                              .init_mean = kind == MODEL_VECTOR ? 1 - m->family->norm_plus : 0};
    assert(strlen(name) < sizeof t->name);
    strcpy(t->name, name);
    m->unit[m->units - 1].count++;
    return t;
}

/* --- a family's units --- */

static int64_t units_size_of(const struct model *m, enum model_size size)
{
    const int64_t sizes[] = {
        [SIZE_NONE] = 0,
        [SIZE_HIDDEN] = m->hidden,
        [SIZE_HEAD_DIM] = m->head_dim,
        [SIZE_HEADS] = m->heads * m->head_dim,
        [SIZE_KV] = m->kv_heads * m->head_dim,
        [SIZE_QKV] = (m->heads + 2 * m->kv_heads) * m->head_dim,
        [SIZE_FFN] = m->ffn,
        [SIZE_GATE_UP] = 2 * m->ffn,
        [SIZE_VOCAB] = m->vocab,
        [SIZE_POSITIONS] = m->positions,
    };

    return sizes[size];
}

int64_t model_width(const struct model *m, enum model_role role)
{
    int64_t sum = 0;

    for (const struct model_module *p = m->family->modules; p && p->name; p++)
        sum += p->role == role ? units_size_of(m, p->out) : 0;
    return sum;
}

/* The unit of a module: -1 stands for the layers', -2 if a tied model has none. */
enum { IN_LAYERS = -1, IN_NONE = -2 };

static int units_unit_of(const struct model *m, const struct model_module *p)
{
    if (strchr(p->name, '%'))
        return IN_LAYERS;
    if (p->role == MODEL_EMBED || p->role == MODEL_POSITIONS)
        return 0;
    if (m->tied)
        return p->role == MODEL_HEAD ? IN_NONE : 0;
    return (int)m->layers + 1;
}

static void add_module(struct model *m, int module, int64_t layer)
{
    const struct model_family *f = m->family;
    const struct model_module *p = &f->modules[module];
    int64_t out = units_size_of(m, p->out), in = units_size_of(m, p->in);
    int in_layer = strchr(p->name, '%') != NULL, before = (int)strcspn(p->name, "%");
    int transposed = f->transposed && in_layer && in > 0;
    enum model_kind kind = p->role == MODEL_EMBED || p->role == MODEL_POSITIONS
                               ? MODEL_EMBEDDING
                           : in ? MODEL_MATRIX
                                : MODEL_VECTOR;
    char base[96], name[128];
    struct model_tensor *t;

    if (in_layer)
        snprintf(base, sizeof base, "%.*s%" PRId64 "%s", before, p->name, layer,
                 p->name + before + 1);
    else
        snprintf(base, sizeof base, "%s", p->name);
    snprintf(name, sizeof name, "%s.weight", base);
    t = kind == MODEL_VECTOR ? model_tensor_add(m, name, kind, 0, out)
        : transposed         ? model_tensor_add(m, name, kind, in, out)
                             : model_tensor_add(m, name, kind, out, in);
    t->module = module;
    t->transposed = transposed;
    if (f->small_residuals && (p->role == MODEL_OUT || p->role == MODEL_DOWN))
        t->init_std /= sqrt(2.0 * (double)m->layers);
    if (!(p->bias == BIAS_ALWAYS || (p->bias == BIAS_IF_ATTENTION && m->attention_bias) ||
          (p->bias == BIAS_IF_FFN && m->ffn_bias)))
        return;
    snprintf(name, sizeof name, "%s.bias", base);
    t = model_tensor_add(m, name, MODEL_VECTOR, 0, out);
    t->module = module;
    t->bias = 1;
    t->init_mean = 0;
}

void model_units_add(struct model *m)
{
    int modules = 0, units = (int)m->layers + (m->tied ? 1 : 2);

    while (m->family->modules[modules].name)
        modules++;
    units_init(m, units, (m->layers + 1) * 2 * modules);
    for (int u = 0; u < units; u++) {
        int layer = u > 0 && u <= m->layers;
        char name[32];

        snprintf(name, sizeof name, "layers.%d", u - 1);
        unit_open(m, layer ? name : u ? "head" : "embed");
        for (int i = 0; i < modules; i++)
            if (units_unit_of(m, &m->family->modules[i]) == (layer ? IN_LAYERS : u))
                add_module(m, i, u - 1);
    }
}

int model_module(const struct model *m, enum model_role role)
{
    const struct model_module *p = m->family->modules;
    int i = 0;

    while (p[i].name && p[i].role != role)
        i++;
    return p[i].name ? i : -1;
}

const struct model_tensor *model_find_module(const struct model *m, int64_t layer, int module,
                                             int bias)
{
    int unit = module < 0 ? IN_NONE : units_unit_of(m, &m->family->modules[module]);

    if (unit == IN_NONE) {
        if (module < 0 || bias)
            return NULL;
        module = model_module(m, MODEL_EMBED);
        unit = 0;
    }
    if (unit == IN_LAYERS)
        unit = (int)layer + 1;
    for (int i = m->unit[unit].first; i < m->unit[unit].first + m->unit[unit].count; i++) {
        const struct model_tensor *t = &m->tensor[i];

        if (t->module == module && t->bias == bias && !model_is_added(t))
            return t;
    }
    return NULL;
}

/* --- trained and frozen parts --- */

/* Sorts the tensors of unit u: first those that train, each part in its order. */
static void sort_unit(struct model *m, int u, const char *frozen, struct model_tensor *scratch)
{
    struct model_unit *unit = &m->unit[u];
    int n = 0;

    unit->elems = unit->trained = 0;
    for (int part = 0; part < 2; part++) {
        for (int i = unit->first; i < unit->first + unit->count; i++) {
            if ((frozen && frozen[i]) != part)
                continue;
            scratch[n] = m->tensor[i];
            scratch[n++].offset = unit->elems;
            unit->elems += m->tensor[i].elems;
        }
        if (part == 0) {
            unit->trained_tensors = n;
            unit->trained = unit->elems;
        }
    }
    memcpy(m->tensor + unit->first, scratch, (size_t)n * sizeof *scratch);
}

void model_units_close(struct model *m, const char *frozen)
{
    struct model_tensor *scratch = mem_new((size_t)m->tensors, sizeof *scratch);

    m->params = m->trained = 0;
    for (int u = 0; u < m->units; u++) {
        sort_unit(m, u, frozen, scratch);
        m->params += m->unit[u].elems;
        m->trained += m->unit[u].trained;
    }
    mem_free(scratch);
    m->visits = (int)m->layers + 2;
    m->first_trained = 0;
    while (m->first_trained < m->visits - 1 &&
           m->unit[model_unit_of_visit(m, m->first_trained)].trained == 0)
        m->first_trained++;
}

void model_units_extend(struct model *m, int frozen,
                        void (*add)(struct model *m, int number, const void *arg),
                        const void *arg)
{
    struct model old = *m;
    char *is_frozen = mem_new((size_t)old.tensors * 3, 1);

    m->units = m->tensors = 0;
    units_init(m, old.units, (int64_t)old.tensors * 3);
    for (int u = 0; u < old.units; u++) {
        unit_open(m, old.unit[u].name);
        for (int i = old.unit[u].first; i < old.unit[u].first + old.unit[u].count; i++) {
            is_frozen[m->tensors] = (char)frozen;
            m->tensor[m->tensors++] = old.tensor[i];
            m->unit[u].count++;
            int first = m->tensors;
            add(m, i, arg);
            memset(is_frozen + first, !frozen, (size_t)(m->tensors - first));
        }
    }
    model_units_close(m, is_frozen);
    MEM_FREE(is_frozen, old.unit, old.tensor);
}
