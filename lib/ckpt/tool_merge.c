/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how a checkpoint becomes a folder: the one that was split, byte for byte; or of a run
 * what transformers loads, or PEFT where adapters train.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "ckpt/ckpt_parts.h"
#include "ckpt/hf.h"
#include "ckpt/peft.h"
#include "ckpt/tool.h"

struct merge {
    struct ckpt *c;
    int params; /* the state */
    enum dtype type;
    int fuse;
    void *block; /* room for one */
    int fd;      /* the weights file that is written */
    int rest;    /* the file with its buffers, or -1 */
    int64_t rest_at;
};

/* The data of one of the model's tensors, to `at`. */
static int put_params(struct merge *g, const struct model_tensor *t, int64_t at,
                      struct err *err)
{
    int width = dtype_bytes(g->type);

    if (g->fuse && model_adapter(&g->c->model, t, MODEL_LORA_A))
        return ckpt_fuse(g->c, t, g->fd, at, err);
    for (int64_t lo = 0, hi; lo < t->elems; lo = hi) {
        hi = lo + CKPT_BLOCK_ELEMS < t->elems ? lo + CKPT_BLOCK_ELEMS : t->elems;
        struct range range = {t->offset + lo, t->offset + hi};
        if (ckpt_read_ranges(g->c, t->unit, g->params, &range, 1, g->type, g->block, err))
            return -1;
        int64_t bytes = (hi - lo) * width, to = at + lo * width;
        if (io_pwrite_all(g->fd, g->block, bytes, to, err))
            return err_prefix(err, "'%s': ", t->name);
        ckpt_flush(g->fd, to, bytes);
    }
    return 0;
}

/* The next bytes of source/rest. */
static int put_buffer(struct merge *g, const struct st_tensor *t, int64_t at, struct err *err)
{
    int64_t room = (int64_t)CKPT_BLOCK_ELEMS * dtype_bytes(g->type);

    for (int64_t left = t->last - t->first, n; left > 0; left -= n) {
        n = left < room ? left : room;
        if (io_pread_all(g->rest, g->block, n, g->rest_at, err) ||
            io_pwrite_all(g->fd, g->block, n, at, err))
            return err_prefix(err, "'%.200s': ", t->name);
        g->rest_at += n;
        at += n;
    }
    return 0;
}

static int put_tensor(struct merge *g, const struct st *st, const struct st_tensor *to,
                      struct err *err)
{
    const struct model_tensor *t = NULL;
    enum hf_role role = hf_role(&g->c->model, to->name, &t);

    if (role == HF_BUFFER && g->rest >= 0)
        return put_buffer(g, to, st->data + to->first, err);
    if (!t || t->elems != to->elems || st_type_of(g->type) != to->type)
        return err_at(err, st->path, 0, to->name,
                      "is not as config.json and the manifest have it");
    return put_params(g, t, st->data + to->first, err);
}

/* Writes head and, behind it, the tensors that it lists. */
static int put_weights(struct merge *g, const char *path, const char *head, int64_t bytes,
                       const struct st *st, struct err *err)
{
    int rc = 0;

    g->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (g->fd < 0)
        return err_sys(err, "cannot create '%s'", path);
    if (io_pwrite_all(g->fd, head, bytes, 0, err))
        rc = err_prefix(err, "%s: ", path);
    for (int i = 0; rc == 0 && i < st->count; i++)
        rc = put_tensor(g, st, &st->tensor[i], err);
    if (rc == 0 && fsync(g->fd))
        rc = err_sys(err, "cannot write '%s'", path);
    close(g->fd);
    return rc;
}

static int check_kept(const char *path, const char *hash, const struct ckpt_source *s,
                      struct err *err)
{
    if (strcmp(hash, s->hash) == 0)
        return 0;
    return err_at(err, path, 0, NULL, "is damaged: checksum %s, expected %s", hash, s->hash);
}

/* Opens and checks what was kept of the file's buffers, if there were any. */
static int open_rest(struct merge *g, const char *name, struct err *err)
{
    const struct ckpt_source *s = g->c->source.item, *end = s + g->c->source.count;
    int64_t bytes = 0;
    char hash[33];

    g->rest = -1;
    g->rest_at = 0;
    while (s < end && (s->keep != CKPT_KEEP_REST || strcmp(s->name, name)))
        s++;
    if (s == end)
        return 0;
    char *dir = io_join(g->c->dir, ckpt_source_folder(CKPT_KEEP_REST));
    char *path = io_join(dir, name);
    int rc = ckpt_hash_file(path, &bytes, hash, err) || check_kept(path, hash, s, err) ? -1 : 0;
    if (rc == 0) {
        g->rest = open(path, O_RDONLY | O_CLOEXEC);
        rc = g->rest < 0 ? err_sys(err, "cannot open '%s'", path) : 0;
    }
    mem_free(path);
    mem_free(dir);
    return rc;
}

/* A weights file as it was: the header kept in source/, the data from the shards. */
static int restore_weights(struct merge *g, const struct ckpt_source *s, const char *to,
                           struct err *err)
{
    char *headers = io_join(g->c->dir, ckpt_source_folder(CKPT_KEEP_HEADER));
    char *from = io_join(headers, s->name), *path = io_join(to, s->name), *head = NULL;
    struct st st = {.fd = -1};
    char hash[33];
    int64_t bytes = 0;
    int rc = io_read_text(from, ckpt_limits_usual.header_bytes + 8, &head, &bytes, err);

    if (rc == 0) {
        ckpt_hash(head, bytes, hash);
        rc = check_kept(from, hash, s, err);
    }
    if (rc == 0)
        rc = st_parse(&st, from, head, bytes, s->whole, err);
    if (rc == 0)
        rc = open_rest(g, s->name, err);
    if (rc == 0)
        rc = put_weights(g, path, head, bytes, &st, err);
    if (g->rest >= 0)
        close(g->rest);
    g->rest = -1;
    st_release(&st);
    mem_free(head);
    mem_free(headers);
    mem_free(from);
    mem_free(path);
    return rc;
}

static int restore_file(const struct ckpt *c, const struct ckpt_source *s, const char *to,
                        struct err *err)
{
    char *files = io_join(c->dir, ckpt_source_folder(CKPT_KEEP_FILE)), hash[33];
    int64_t bytes = 0;
    int rc = ckpt_copy_file(files, to, s->name, &bytes, hash, err);

    if (rc == 0 && strcmp(hash, s->hash))
        rc = err_at(err, files, 0, s->name, "is damaged: checksum %s, expected %s", hash,
                    s->hash);
    mem_free(files);
    return rc;
}

static int restore(struct merge *g, const char *to, struct err *err)
{
    int rc = 0;

    for (int i = 0; rc == 0 && i < g->c->source.count; i++) {
        const struct ckpt_source *s = &g->c->source.item[i];
        if (s->keep == CKPT_KEEP_HEADER)
            rc = restore_weights(g, s, to, err);
        else if (s->keep == CKPT_KEEP_FILE)
            rc = restore_file(g->c, s, to, err);
    }
    return rc;
}

/* A file of the model's own tensors, or of its adapters. */
static int make_weights(struct merge *g, const char *to, const char *name, int adapters,
                        struct err *err)
{
    char *head = NULL, *path = io_join(to, name);
    struct st st = {.fd = -1};
    int64_t bytes = 0, elems = 0;

    ckpt_model_header(&g->c->model, g->type, adapters, &head, &bytes, &elems);
    int rc = st_parse(&st, path, head, bytes, bytes + elems * dtype_bytes(g->type), err);
    if (rc == 0)
        rc = put_weights(g, path, head, bytes, &st, err);
    st_release(&st);
    mem_free(head);
    mem_free(path);
    return rc;
}

/* There is no source: what transformers loads, or PEFT, is made from the params. */
static int make_folder(struct merge *g, const char *to, struct err *err)
{
    const struct model *m = &g->c->model;
    int adapters = m->lora.rank && !g->fuse;
    const char *weights = adapters ? "adapter_model.safetensors" : "model.safetensors";
    char *text = NULL;
    int64_t bytes = 0;

    if (make_weights(g, to, weights, adapters, err))
        return -1;
    if (!adapters)
        return ckpt_put_file(to, "config.json", m->config, (int64_t)strlen(m->config), err);
    peft_config(m, &text, &bytes);
    int rc = ckpt_put_file(to, "adapter_config.json", text, bytes, err);
    mem_free(text);
    return rc;
}

int tool_merge(const char *from, int fuse, struct tool_target to, struct err *err)
{
    struct ckpt c;
    struct merge g = {.c = &c, .fuse = fuse, .rest = -1};
    struct io_dir dir;
    int rc = 0;

    if (ckpt_open(&c, from, err))
        return -1;
    g.params = ckpt_find_state(&c, "params");
    if (g.params < 0)
        rc = err_set(err, ERR_INPUT, "'%s' has no state 'params' to merge", from);
    else if (fuse && !c.model.lora.rank)
        rc = err_set(err, ERR_INPUT, "'%s' has no adapters to fuse", from);
    if (rc == 0) {
        g.type = c.state[g.params].type;
        rc =
            mem_data((int64_t)CKPT_BLOCK_ELEMS * dtype_bytes(g.type), "a block", &g.block, err);
    }
    if (rc || io_dir_create(&dir, to.dir, to.force, err)) {
        rc = -1;
        goto done;
    }
    rc = c.source.count ? restore(&g, dir.temp, err) : make_folder(&g, dir.temp, err);
    if (rc)
        io_dir_abandon(&dir);
    else
        rc = io_dir_commit(&dir, err);
done:
    mem_free(g.block);
    ckpt_close(&c);
    return rc;
}
