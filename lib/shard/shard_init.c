/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes a Hugging Face folder with a model's initial values. */
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "ckpt/ckpt_hf.h"
#include "shard/shard_parts.h"

/* elements made at a time; bytes in flight */
enum { CHUNK = 1 << 13, BUFFER = 16 << 20 };

struct init {
    const struct model *m;
    uint64_t seed;
    enum dtype type;
};

/* Builds the header of the file's tensors; *text is freed with mem_free. */
static int put_header(void *arg, int file, char **text, int64_t *bytes, struct err *err)
{
    const struct init *in = arg;
    struct st_tensor *tensor = mem_new((size_t)in->m->tensors, sizeof *tensor);

    (void)file, (void)err;
    for (int i = 0; i < in->m->tensors; i++)
        tensor[i] = hf_tensor(&in->m->tensor[i], st_type_of(in->type));
    st_header(tensor, in->m->tensors, text, bytes);
    mem_free(tensor);
    return 0;
}

static int make_values(void *arg, int64_t tensor, int64_t first, int64_t count, void *out,
                       struct err *err)
{
    const struct init *in = arg;
    char *to = out;
    float values[CHUNK];

    (void)err;
    for (int64_t at = 0, n; at < count; at += n) {
        n = count - at < CHUNK ? count - at : CHUNK;
        model_init_values(&in->m->tensor[tensor], in->seed, first + at, n, values);
        dtype_convert(to + at * dtype_bytes(in->type), in->type, values, DTYPE_F32, n);
    }
    return 0;
}

int shard_init(const struct model *m, uint64_t seed, const atomic_int *stop,
               struct shard_target to, struct err *err)
{
    const struct shard_options options = {.buffer = BUFFER};
    struct init in = {.m = m, .seed = seed};
    struct moves moves = {.options = &options,
                          .stop = stop,
                          .make = make_values,
                          .arg = &in,
                          .head = put_header,
                          .heads = &in};
    struct io_out dir;
    char *head = NULL;
    int64_t at = 0;

    if (!m->unit)
        return err_set(err, ERR_INPUT,
                       "the model is a number of parameters, expected a config.json");
    if (dtype_parse(m->dtype, &in.type, err) || io_dir_create(&dir, to.dir, to.force, err))
        return -1;
    int width = dtype_bytes(in.type);
    put_header(&in, 0, &head, &at, err);
    mem_free(head);
    moves_add_file(&moves.out, at + m->params * width, io_join(dir.temp, "model.safetensors"));
    for (int i = 0; i < m->tensors; i++) {
        int64_t elems = m->tensor[i].elems;
        moves_add_to(&moves, (struct move_to){moves.at, elems * width, 0, at + moves.at,
                                              in.type, in.type, NULL});
        moves_add_made(&moves, i, 0, elems, width);
    }
    int rc = moves_run(&moves, &dir, err);
    moves_release(&moves);
    if (rc == 0)
        rc = io_dir_put(&dir, "config.json", m->config, (int64_t)strlen(m->config), err);
    return io_end(&dir, rc, err);
}
