/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Answers questions about a model that has been read: its units, number of operations, initial
 * values.  Leaves config keys to model_config.c and a family's modules to model_units.c.
 */
#include "model/model.h"

#include <assert.h>
#include <string.h>
#include <sys/stat.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/rng.h"
#include "model/model_parts.h"

/* A config.json has a few KB; one with a long id2label some hundred. */
enum { CONFIG_BYTES_MAX = 4 << 20 };

int model_read(struct model *m, const char *what, struct err *err)
{
    struct stat st;
    char *text = NULL;
    int64_t bytes = 0;

    if (strncmp(what, "params=", 7) == 0) {
        struct model new = {.family = &model_family_params, .dtype = "f32"};
        /* 1e15: 1000 times the largest existing model, and bytes still fit 64 bits. */
        if (num_count(what + 7, 1, INT64_C(1000000000000000), &new.params, err))
            return err_prefix(err, "params=: ");
        new.trained = new.params;
        *m = new;
        return 0;
    }
    if (strcmp(what, "-") && stat(what, &st) == 0 && S_ISDIR(st.st_mode))
        return model_read_folder(m, what, err);
    int rc = io_read_text(what, CONFIG_BYTES_MAX, &text, &bytes, err);
    if (rc == 0)
        rc = model_parse(m, strcmp(what, "-") ? what : "stdin", text, bytes, err);
    mem_free(text);
    return rc;
}

int model_read_folder(struct model *m, const char *dir, struct err *err)
{
    char *path = io_join(dir, "config.json"), *text = NULL;
    int64_t bytes = 0;
    int rc = io_read_file(path, CONFIG_BYTES_MAX, NULL, &text, &bytes, err);

    if (rc == 0)
        rc = model_parse(m, path, text, bytes, err);
    mem_free(text);
    mem_free(path);
    return rc;
}

int model_parse(struct model *m, const char *name, const char *text, int64_t bytes,
                struct err *err)
{
    struct model new = {0};

    new.config = mem_new((size_t)bytes + 1, 1); /* a terminating 0 */
    memcpy(new.config, text, (size_t)bytes);
    if (model_config_read(&new, name, new.config, bytes, err)) {
        model_release(&new);
        return -1;
    }
    model_units_add(&new);
    model_units_close(&new, NULL);
    *m = new;
    return 0;
}

void model_release(struct model *m)
{
    MEM_FREE(m->unit, m->tensor, m->config, m->partial, m->layer_kind);
    for (int i = 0; i < MODEL_ROPE_LENGTHS; i++)
        mem_free(m->rope.pair_factor[i]);
    *m = (struct model){0};
}

int model_unit_of_visit(const struct model *m, int visit)
{
    assert(visit >= 0 && visit < m->visits);
    return visit < m->units ? visit : 0; /* tied: the head's matrix is the embedding's */
}

const struct model_tensor *model_find(const struct model *m, const char *name)
{
    for (int i = 0; i < m->tensors; i++)
        if (strcmp(m->tensor[i].name, name) == 0)
            return &m->tensor[i];
    return NULL;
}

int model_layer_rope(const struct model *m, int64_t layer)
{
    if (m->positions)
        return MODEL_NO_ROPE;
    return m->layer_kind ? m->family->layer_kinds[(int)m->layer_kind[layer]].rope : 0;
}

int64_t model_largest_unit(const struct model *m)
{
    int64_t most = m->unit ? 0 : m->params;

    for (int u = 0; u < m->units; u++)
        if (m->unit[u].elems > most)
            most = m->unit[u].elems;
    return most;
}

int64_t model_whole(const struct model_tensor *t)
{
    return t->dims == 2 ? t->shape[0] * t->shape[1] : t->shape[0];
}

double model_flops_per_token(const struct model *m, int64_t seq)
{
    double matmul = 0;

    if (!m->unit)
        return 2.0 * (double)m->params;
    for (int i = 0; i < m->tensors; i++)
        if (m->tensor[i].dims == 2 && m->tensor[i].kind != MODEL_EMBEDDING)
            matmul += (double)model_whole(&m->tensor[i]);
    if (m->tied) /* the embedding serves as the head's matrix */
        matmul += (double)m->vocab * (double)m->hidden;
    /* Scores and their product with V: 2 T (heads head_dim) each, the masked half counted. */
    double attention = 4.0 * (double)seq * (double)m->heads * (double)m->head_dim;
    return 2.0 * matmul + (double)m->layers * attention;
}

void model_init_values(const struct model_tensor *t, uint64_t seed, int64_t first,
                       int64_t count, float *out)
{
    uint64_t stream = rng_stream(t->name);

    assert(first >= 0 && count >= 0 && first + count <= model_whole(t));
    for (int64_t i = 0; i < count; i++) {
        out[i] = (float)t->init_mean;
        if (t->init_std > 0)
            out[i] = (float)(t->init_mean +
                             t->init_std * rng_normal(seed, stream, (uint64_t)(first + i)));
    }
}
