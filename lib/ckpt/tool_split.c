/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how a folder of weights becomes a checkpoint and comes back byte for byte.  In source/:
 *
 *     headers/NAME   the first bytes of each weights file, up to its data, verbatim
 *     files/NAME     every other file of the folder, verbatim
 *
 * so that merge needs to add nothing but the data, which the shards hold.
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
#include "ckpt/tool.h"

/* --- split --- */

static int fill_from_folder(void *arg, int unit, int state, struct range at, void *out,
                            struct err *err)
{
    (void)state;
    return hf_read(arg, unit, at, out, err);
}

int tool_check_same(const char *folder, const struct model *own, const struct model *plan,
                    struct err *err)
{
    const struct model_rope *a = &own->rope, *b = &plan->rope;
    const struct {
        const char *key;
        double own, plan;
    } row[] = {
        {"num_hidden_layers", (double)own->layers, (double)plan->layers},
        {"hidden_size", (double)own->hidden, (double)plan->hidden},
        {"intermediate_size", (double)own->ffn, (double)plan->ffn},
        {"vocab_size", (double)own->vocab, (double)plan->vocab},
        {"num_attention_heads", (double)own->heads, (double)plan->heads},
        {"num_key_value_heads", (double)own->kv_heads, (double)plan->kv_heads},
        {"head_dim", (double)own->head_dim, (double)plan->head_dim},
        {"tie_word_embeddings", own->tied, plan->tied},
        {"n_positions", (double)own->positions, (double)plan->positions},
        {"rms_norm_eps", own->norm_eps, plan->norm_eps},
        {"attention_bias", own->attention_bias, plan->attention_bias},
        {"mlp_bias", own->ffn_bias, plan->ffn_bias},
        {"activation_function", (double)own->ffn_type, (double)plan->ffn_type},
        {"rope_theta", a->theta, b->theta},
        {"rope_type", (double)a->type, (double)b->type},
        {"factor", a->factor, b->factor},
        {"low_freq_factor", a->low_freq_factor, b->low_freq_factor},
        {"high_freq_factor", a->high_freq_factor, b->high_freq_factor},
        {"original_max_position_embeddings", a->original_max, b->original_max},
        {"attention_factor", a->attention_factor, b->attention_factor},
        {"beta_fast", a->beta_fast, b->beta_fast},
        {"beta_slow", a->beta_slow, b->beta_slow},
        {"mscale", a->mscale, b->mscale},
        {"mscale_all_dim", a->mscale_all_dim, b->mscale_all_dim},
        {"truncate", !a->no_truncate, !b->no_truncate},
    };

    if (strcmp(own->family, plan->family)) {
        err_at(err, folder, 0, "model_type",
               "is %s in its config.json, but %s in the plan's "
               "model",
               own->family, plan->family);
        err->code = ERR_MISMATCH;
        return -1;
    }
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        if (row[i].own == row[i].plan)
            continue;
        err_at(err, folder, 0, row[i].key,
               "is %g in its config.json, but %g in the plan's model", row[i].own, row[i].plan);
        err->code = ERR_MISMATCH;
        return -1;
    }
    return 0;
}

static int put_header(const char *dir, const struct st *st, const char *name,
                      struct ckpt_source *s, struct err *err)
{
    void *head = NULL;
    int rc = mem_data(st->data, "a safetensors header", &head, err);

    if (rc == 0 && io_pread_all(st->fd, head, st->data, 0, err))
        rc = err_prefix(err, "%s: ", st->path);
    if (rc == 0)
        rc = ckpt_put_file(dir, name, head, st->data, err);
    if (rc == 0) {
        *s = (struct ckpt_source){mem_dup(name), 1, st->data, st->file_bytes, {0}};
        ckpt_hash(head, st->data, s->hash);
    }
    mem_free(head);
    return rc;
}

/* Puts all that merge needs into dir/source and lists it; the list is what got there. */
static int put_source(const char *dir, const struct hf *hf, struct ckpt_sources *list,
                      struct err *err)
{
    char *headers = io_join(dir, "source/headers"), *files = io_join(dir, "source/files");
    int rc = io_mkdir(headers, err);

    list->item = mem_new((size_t)(hf->files + hf->others), sizeof *list->item);
    for (int i = 0; rc == 0 && i < hf->files; i++) {
        rc = put_header(headers, &hf->file[i], hf->name[i], &list->item[list->count], err);
        list->count += rc == 0;
    }
    for (int i = 0; rc == 0 && i < hf->others; i++) {
        struct ckpt_source *s = &list->item[list->count];
        rc = ckpt_copy_file(hf->dir, files, hf->other[i], &s->bytes, s->hash, err);
        if (rc == 0) {
            s->name = mem_dup(hf->other[i]);
            s->whole = s->bytes;
            list->count++;
        }
    }
    mem_free(headers);
    mem_free(files);
    return rc;
}

/* Everything of the checkpoint but its name. */
static int fill_folder(const char *dir, struct hf *hf, const struct ckpt_shape *shape,
                       struct err *err)
{
    int ranks = shape->layout->groups.ranks;
    struct ckpt_sources list = {0};
    char **entry = mem_new((size_t)ranks, sizeof *entry);
    const char *config = shape->model->config;
    int rc = put_source(dir, hf, &list, err);

    for (int r = 0; rc == 0 && r < ranks; r++)
        rc = ckpt_write_shard(dir, r, shape, fill_from_folder, hf, &entry[r], err);
    if (rc == 0)
        rc = ckpt_put_file(dir, "config.json", config, (int64_t)strlen(config), err);
    if (rc == 0)
        rc = ckpt_manifest_write(dir, shape, (const char *const *)entry, NULL, &list, err);
    for (int r = 0; r < ranks; r++)
        mem_free(entry[r]);
    for (int i = 0; i < list.count; i++)
        mem_free(list.item[i].name);
    mem_free(entry);
    mem_free(list.item);
    return rc;
}

/* The folder's own config.json, where there is one, else the plan's model. */
static int pick_model(const struct hf *hf, const struct model *plan, struct model *own,
                      const struct model **out, struct err *err)
{
    char *path = io_join(hf->dir, "config.json");
    int rc = 0;

    *out = plan;
    if (!hf->alone && access(path, F_OK) == 0) {
        rc = model_read(own, path, err) || tool_check_same(hf->dir, own, plan, err) ? -1 : 0;
        *out = own;
    }
    mem_free(path);
    return rc;
}

int tool_split(const char *from, const struct model *m, const struct groups *groups,
               const char *strategy, struct tool_target to, struct err *err)
{
    struct hf hf = {0};
    struct model own = {0};
    struct layout layout;
    struct ckpt_shape shape = {.layout = &layout, .strategy = strategy, .states = 1};
    struct io_dir dir;
    int rc = -1;

    if (!m->unit)
        return err_set(err, ERR_INPUT,
                       "the plan's model is a number of parameters, expected one "
                       "with a config.json");
    layout_init(&layout, groups);
    if (hf_open(&hf, from, err) || pick_model(&hf, m, &own, &shape.model, err) ||
        hf_match(&hf, shape.model, err))
        goto done;
    strcpy(shape.state[0].name, "params");
    shape.state[0].type = hf.type;
    if (io_dir_create(&dir, to.dir, to.force, err))
        goto done;
    rc = fill_folder(dir.temp, &hf, &shape, err);
    if (rc)
        io_dir_abandon(&dir);
    else
        rc = io_dir_commit(&dir, err);
done:
    hf_release(&hf);
    model_release(&own);
    layout_release(&layout);
    return rc;
}

/* --- merge --- */

/* The data of one tensor, to fd at `at`. */
static int put_tensor(struct ckpt *c, const struct model_tensor *t, int fd, int64_t at,
                      void *buffer, struct err *err)
{
    int params = ckpt_find_state(c, "params");
    enum dtype type = c->state[params].type;

    for (int64_t lo = 0, hi; lo < t->elems; lo = hi) {
        hi = lo + CKPT_BLOCK_ELEMS < t->elems ? lo + CKPT_BLOCK_ELEMS : t->elems;
        struct range range = {t->offset + lo, t->offset + hi};
        if (ckpt_read_ranges(c, t->unit, params, &range, 1, type, buffer, err))
            return -1;
        if (io_pwrite_all(fd, buffer, (hi - lo) * dtype_bytes(type),
                          at + lo * dtype_bytes(type), err))
            return err_prefix(err, "'%s': ", t->name);
    }
    return 0;
}

/* Writes head and, behind it, the tensors that it lists. */
static int put_weights(struct ckpt *c, const char *path, const char *head, int64_t bytes,
                       const struct st *st, struct err *err)
{
    int params = ckpt_find_state(c, "params");
    enum dtype type = c->state[params].type;
    void *buffer = NULL;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666), rc = 0;

    if (fd < 0)
        return err_sys(err, "cannot create '%s'", path);
    rc = mem_data((int64_t)CKPT_BLOCK_ELEMS * dtype_bytes(type), "a block", &buffer, err);
    if (rc == 0 && io_pwrite_all(fd, head, bytes, 0, err))
        rc = err_prefix(err, "%s: ", path);
    for (int i = 0; rc == 0 && i < st->count; i++) {
        const struct model_tensor *t = model_find(&c->model, st->tensor[i].name);
        if (!t || t->elems != st->tensor[i].elems || st_type_of(type) != st->tensor[i].type)
            rc = err_at(err, st->path, 0, st->tensor[i].name,
                        "is not as config.json and the manifest have it");
        else
            rc = put_tensor(c, t, fd, st->data + st->tensor[i].first, buffer, err);
    }
    if (rc == 0 && fsync(fd))
        rc = err_sys(err, "cannot write '%s'", path);
    close(fd);
    mem_free(buffer);
    return rc;
}

/* A weights file as it was: the header kept in source/, the data from the shards. */
static int restore_weights(struct ckpt *c, const struct ckpt_source *s, const char *to,
                           struct err *err)
{
    char *headers = io_join(c->dir, "source/headers"), *from = io_join(headers, s->name);
    char *path = io_join(to, s->name), *head = NULL, hash[33];
    struct st st = {.fd = -1};
    int64_t bytes = 0;
    int rc = io_read_text(from, ST_HEADER_MAX + 8, &head, &bytes, err);

    if (rc == 0) {
        ckpt_hash(head, bytes, hash);
        if (strcmp(hash, s->hash))
            rc = err_at(err, from, 0, NULL, "is damaged: checksum %s, expected %s", hash,
                        s->hash);
    }
    if (rc == 0)
        rc = st_parse(&st, from, head, bytes, s->whole, err);
    if (rc == 0)
        rc = put_weights(c, path, head, bytes, &st, err);
    st_release(&st);
    mem_free(head);
    mem_free(headers);
    mem_free(from);
    mem_free(path);
    return rc;
}

static int restore_file(struct ckpt *c, const struct ckpt_source *s, const char *to,
                        struct err *err)
{
    char *files = io_join(c->dir, "source/files"), hash[33];
    int64_t bytes = 0;
    int rc = ckpt_copy_file(files, to, s->name, &bytes, hash, err);

    if (rc == 0 && strcmp(hash, s->hash))
        rc = err_at(err, files, 0, s->name, "is damaged: checksum %s, expected %s", hash,
                    s->hash);
    mem_free(files);
    return rc;
}

/* A run's checkpoint has no source: what transformers loads is made from its params. */
static int make_folder(struct ckpt *c, const char *to, struct err *err)
{
    const struct model *m = &c->model;
    enum dtype type = c->state[ckpt_find_state(c, "params")].type;
    char *head = NULL, *path = io_join(to, "model.safetensors");
    struct st st = {.fd = -1};
    int64_t bytes = 0;

    ckpt_model_header(m, type, &head, &bytes);
    int rc = st_parse(&st, path, head, bytes, bytes + m->params * dtype_bytes(type), err);
    if (rc == 0)
        rc = put_weights(c, path, head, bytes, &st, err);
    if (rc == 0)
        rc = ckpt_put_file(to, "config.json", m->config, (int64_t)strlen(m->config), err);
    st_release(&st);
    mem_free(head);
    mem_free(path);
    return rc;
}

int tool_merge(const char *from, struct tool_target to, struct err *err)
{
    struct ckpt c;
    struct io_dir dir;
    int rc = 0;

    if (ckpt_open(&c, from, err))
        return -1;
    if (ckpt_find_state(&c, "params") < 0)
        rc = err_set(err, ERR_INPUT, "'%s' has no state 'params' to merge", from);
    if (rc || io_dir_create(&dir, to.dir, to.force, err)) {
        ckpt_close(&c);
        return -1;
    }
    for (int i = 0; rc == 0 && i < c.source.count; i++)
        rc = c.source.item[i].header ? restore_weights(&c, &c.source.item[i], dir.temp, err)
                                     : restore_file(&c, &c.source.item[i], dir.temp, err);
    if (rc == 0 && c.source.count == 0)
        rc = make_folder(&c, dir.temp, err);
    if (rc)
        io_dir_abandon(&dir);
    else
        rc = io_dir_commit(&dir, err);
    ckpt_close(&c);
    return rc;
}
