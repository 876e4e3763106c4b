/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how a folder of weights becomes a checkpoint.  In source/:
 *
 *     headers/NAME   the first bytes of each weights file, up to its data, verbatim
 *     rest/NAME      the data of its tensors that are no parameters, one after the other
 *     files/NAME     every other file of the folder, verbatim
 *
 * so that merge needs to add nothing but the data, which the shards hold.  Where adapters
 * train, merge gives them alone, and nothing is kept.
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

struct filling {
    struct hf *hf;
    const struct tool_splitting *what;
    struct peft peft;
    float *first; /* [CHUNK]: values of adapters that are new */
};

enum { CHUNK = 1 << 16, REST_BYTES = 1 << 20 };

/* Elements of an adapter: from its folder, or its first values. */
static int fill_adapter(struct filling *f, const struct model_tensor *t, int64_t first,
                        int64_t count, void *out, struct err *err)
{
    enum dtype type = f->hf->type;
    char *to = out;

    if (f->what->adapter)
        return peft_read(&f->peft, t, first, count, type, out, err);
    for (int64_t at = 0, n; at < count; at += n) {
        n = count - at < CHUNK ? count - at : CHUNK;
        model_init_values(t, f->what->seed, first + at, n, f->first);
        dtype_convert(to + at * dtype_bytes(type), type, f->first, DTYPE_F32, n);
    }
    return 0;
}

/* A block lies in one tensor. */
static int fill_from_folder(void *arg, int unit, int state, struct range at, void *out,
                            struct err *err)
{
    struct filling *f = arg;
    const struct model *m = f->hf->model;
    const struct model_tensor *t = &m->tensor[ckpt_tensor_at(m, unit, at.lo)];

    (void)state;
    if (model_is_adapter(t))
        return fill_adapter(f, t, at.lo - t->offset, at.hi - at.lo, out, err);
    return hf_read(f->hf, unit, at, out, err);
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
        *s = (struct ckpt_source){
            mem_dup(name), CKPT_KEEP_HEADER, st->data, st->file_bytes, {0}};
        ckpt_hash(head, st->data, s->hash);
    }
    mem_free(head);
    return rc;
}

/* The data of a file's buffers into a file of their own; *bytes 0: there are none. */
static int put_rest(const char *dir, const struct hf *hf, int file, int64_t *bytes,
                    struct err *err)
{
    const struct st *st = &hf->file[file];
    const struct model_tensor *t;
    char *path = io_join(dir, hf->name[file]), *buffer = mem_new(REST_BYTES, 1);
    int fd = -1, rc = 0;

    *bytes = 0;
    for (int i = 0; rc == 0 && i < st->count; i++) {
        const struct st_tensor *b = &st->tensor[i];
        if (hf_role(hf->model, b->name, &t) != HF_BUFFER)
            continue;
        if (fd < 0) {
            rc = io_mkdir(dir, err);
            fd = rc ? -1 : open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
            if (rc == 0 && fd < 0)
                rc = err_sys(err, "cannot create '%s'", path);
        }
        for (int64_t at = 0, n; rc == 0 && at < b->last - b->first; at += n) {
            n = b->last - b->first - at < REST_BYTES ? b->last - b->first - at : REST_BYTES;
            rc = st_read(st, b, at, n, buffer, err) || io_pwrite_all(fd, buffer, n, *bytes, err)
                     ? -1
                     : 0;
            *bytes += n;
        }
    }
    if (fd >= 0 && rc == 0 && fsync(fd))
        rc = err_sys(err, "cannot write '%s'", path);
    if (fd >= 0)
        close(fd);
    mem_free(buffer);
    mem_free(path);
    return rc;
}

static int keep_rest(const char *dir, const struct hf *hf, int file, struct ckpt_sources *list,
                     struct err *err)
{
    struct ckpt_source *s = &list->item[list->count];
    char *folder = io_join(dir, ckpt_source_folder(CKPT_KEEP_REST));
    char *path = io_join(folder, hf->name[file]);
    int rc = put_rest(folder, hf, file, &s->bytes, err);

    if (rc == 0 && s->bytes) {
        rc = ckpt_hash_file(path, &s->bytes, s->hash, err);
        s->whole = s->bytes;
        s->keep = CKPT_KEEP_REST;
        s->name = mem_dup(hf->name[file]);
        list->count++;
    }
    mem_free(path);
    mem_free(folder);
    return rc;
}

/* Puts all that merge needs into dir/source and lists it; the list is what got there. */
static int put_source(const char *dir, const struct hf *hf, struct ckpt_sources *list,
                      struct err *err)
{
    char *headers = io_join(dir, ckpt_source_folder(CKPT_KEEP_HEADER));
    char *files = io_join(dir, ckpt_source_folder(CKPT_KEEP_FILE));
    int rc = io_mkdir(headers, err);

    list->item = mem_new((size_t)(2 * hf->files + hf->others), sizeof *list->item);
    for (int i = 0; rc == 0 && i < hf->files; i++) {
        rc = put_header(headers, &hf->file[i], hf->name[i], &list->item[list->count], err);
        list->count += rc == 0;
        if (rc == 0)
            rc = keep_rest(dir, hf, i, list, err);
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
static int fill_folder(const char *dir, struct filling *f, const struct ckpt_shape *shape,
                       struct err *err)
{
    int ranks = shape->layout->groups.ranks;
    struct ckpt_sources list = {0};
    char **entry = mem_new((size_t)ranks, sizeof *entry);
    int rc = shape->model->lora.rank ? 0 : put_source(dir, f->hf, &list, err);

    for (int r = 0; rc == 0 && r < ranks; r++)
        rc = ckpt_write_shard(dir, r, shape, fill_from_folder, f, &entry[r], err);
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
    if (!hf->alone && !io_absent(path)) {
        rc = model_read(own, path, err) || tool_check_same(hf->dir, own, plan, err) ||
                     (plan->partial && model_train(own, plan->partial, err))
                 ? -1
                 : 0;
        *out = own;
    }
    mem_free(path);
    return rc;
}

static int open_adapter(struct filling *f, const struct model *m, struct err *err)
{
    if (!f->what->adapter)
        return 0;
    if (!m->lora.rank)
        return err_set(
            err, ERR_INPUT,
            "the plan's model has no adapters, expected lora=RANK in what it trains");
    return peft_open(&f->peft, f->what->adapter, m, err);
}

int tool_split(const char *from, const struct tool_splitting *what, struct tool_target to,
               struct err *err)
{
    struct hf hf = {0};
    struct model own = {0};
    struct layout layout;
    struct ckpt_shape shape = {.layout = &layout, .strategy = what->strategy, .states = 1};
    struct filling f = {.hf = &hf, .what = what};
    struct io_dir dir;
    int rc = -1;

    if (!what->model->unit)
        return err_set(err, ERR_INPUT,
                       "the plan's model is a number of parameters, expected one "
                       "with a config.json");
    layout_init(&layout, what->groups);
    if (hf_open_within(&hf, from, what->limits, err) ||
        pick_model(&hf, what->model, &own, &shape.model, err) ||
        hf_match(&hf, shape.model, err) || hf_check_tied(&hf, err) ||
        open_adapter(&f, shape.model, err))
        goto done;
    f.first = mem_new(CHUNK, sizeof *f.first);
    strcpy(shape.state[0].name, "params");
    shape.state[0].type = hf.type;
    if (io_dir_create(&dir, to.dir, to.force, err))
        goto done;
    rc = fill_folder(dir.temp, &f, &shape, err);
    if (rc)
        io_dir_abandon(&dir);
    else
        rc = io_dir_commit(&dir, err);
done:
    mem_free(f.first);
    peft_release(&f.peft);
    hf_release(&hf);
    model_release(&own);
    layout_release(&layout);
    return rc;
}
