/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how a Hugging Face folder with a model's first values is written. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "ckpt/ckpt_parts.h"
#include "ckpt/st.h"
#include "ckpt/tool.h"

enum { CHUNK = 1 << 18 }; /* elements drawn at a time: 1 MiB */

struct init {
    const struct model *m;
    uint64_t seed;
    const atomic_int *stop;
    enum dtype type;
    float *values; /* [CHUNK] */
    void *cast;    /* [CHUNK] of type */
};

static int put_values(const struct init *in, int fd, int64_t at, const struct model_tensor *t,
                      struct err *err)
{
    for (int64_t lo = 0; lo < t->elems; lo += CHUNK) {
        int64_t n = t->elems - lo < CHUNK ? t->elems - lo : CHUNK;
        model_init_values(t, in->seed, lo, n, in->values);
        dtype_convert(in->cast, in->type, in->values, DTYPE_F32, n);
        if (ckpt_stopped(in->stop, err))
            return -1;
        if (io_pwrite_all(fd, in->cast, n * dtype_bytes(in->type),
                          at + lo * dtype_bytes(in->type), err))
            return -1;
    }
    return 0;
}

void ckpt_model_header(const struct model *m, enum dtype type, int adapters, char **head,
                       int64_t *bytes, int64_t *elems)
{
    struct st_tensor *tensor = mem_new((size_t)m->tensors, sizeof *tensor);
    int count = 0;

    *elems = 0;
    for (int i = 0; i < m->tensors; i++) {
        const struct model_tensor *t = &m->tensor[i];
        if (model_is_adapter(t) != adapters)
            continue;
        *elems += t->elems;
        tensor[count++] = (struct st_tensor){.name = (char *)t->name,
                                             .type = st_type_of(type),
                                             .dims = t->dims,
                                             .shape = {t->shape[0], t->shape[1]}};
    }
    st_header(tensor, count, head, bytes);
    mem_free(tensor);
}

static int put_weights(const struct init *in, const struct io_dir *dir, const char *path,
                       struct err *err)
{
    char *head = NULL;
    int64_t at = 0, elems = 0;
    int fd = -1, rc = io_dir_open(dir, path, O_WRONLY | O_CREAT, 0666, &fd, err);

    if (rc)
        return -1;
    ckpt_model_header(in->m, in->type, 0, &head, &at, &elems);
    rc = io_pwrite_all(fd, head, at, 0, err);
    for (int i = 0; rc == 0 && i < in->m->tensors; i++) {
        rc = put_values(in, fd, at, &in->m->tensor[i], err);
        at += in->m->tensor[i].elems * dtype_bytes(in->type);
    }
    if (rc)
        err_prefix(err, "%s: ", path);
    else if (fsync(fd))
        rc = err_sys(err, "cannot write '%s'", path);
    close(fd);
    mem_free(head);
    return rc;
}

int tool_init(const struct model *m, uint64_t seed, const atomic_int *stop,
              struct tool_target to, struct err *err)
{
    struct init in = {.m = m, .seed = seed, .stop = stop};
    struct io_dir dir;

    if (!m->unit)
        return err_set(err, ERR_INPUT,
                       "the model is a number of parameters, expected a config.json");
    if (dtype_parse(m->dtype, &in.type, err) || io_dir_create(&dir, to.dir, to.force, err))
        return -1;
    in.values = mem_new(CHUNK, sizeof *in.values);
    in.cast = mem_new(CHUNK, (size_t)dtype_bytes(in.type));
    char *path = io_join(dir.temp, "model.safetensors");
    int rc = put_weights(&in, &dir, path, err);
    if (rc == 0)
        rc = io_dir_put(&dir, "config.json", m->config, (int64_t)strlen(m->config), err);
    rc = io_dir_end(&dir, rc, err);
    mem_free(path);
    mem_free(in.values);
    mem_free(in.cast);
    return rc;
}
