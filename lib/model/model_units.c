/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how units are put together from tensors, and taken apart again into what trains and
 * what is frozen.  Does not know any family's tensors.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "model/model_parts.h"

void model_units_room(struct model *m, int64_t units, int64_t tensors)
{
    m->unit = mem_new((size_t)units, sizeof *m->unit);
    m->tensor = mem_new((size_t)tensors, sizeof *m->tensor);
}

void model_unit_open(struct model *m, const char *name)
{
    struct model_unit *u = &m->unit[m->units++];

    *u = (struct model_unit){.first = m->tensors};
    snprintf(u->name, sizeof u->name, "%.63s", name);
}

struct model_tensor *model_tensor_add(struct model *m, const char *name, enum model_kind kind,
                                      int64_t rows, int64_t cols)
{
    struct model_tensor *t = &m->tensor[m->tensors++];

    *t = (struct model_tensor){.kind = kind,
                               .unit = m->units - 1,
                               .elems = rows ? rows * cols : cols,
                               .dims = rows ? 2 : 1,
                               .shape = {rows ? rows : cols, rows ? cols : 0},
                               .init_std = kind == MODEL_VECTOR ? 0 : m->init_std,
                               .init_mean = kind == MODEL_VECTOR};
    assert(strlen(name) < sizeof t->name);
    strcpy(t->name, name);
    m->unit[m->units - 1].count++;
    return t;
}

/* Those of unit u that train first, each part in the order it had. */
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
