/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens the folders of sharded checkpoints that PyTorch and DeepSpeed write.  References:
 * torch/distributed/checkpoint/metadata.py, filesystem.py, hf_storage.py; deepspeed/checkpoint/
 * ds_to_universal.py.
 */
#include "ckpt/ckpt_foreign.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "value/value_tree.h"
#include "ckpt/ckpt_write.h"
#include "ckpt/ckpt_pieces.h"
#include "ckpt/ckpt_torch.h"

/* Largest overhead of an archive with one tensor: its directory and its pickle, each below 1
   KiB. */
enum { ONE_TENSOR = 1 << 16 };

#define METADATA ".metadata"
struct folder {
    struct st *st;
    const struct ckpt_limits *limits;
    int64_t left; /* number of pieces that may still be added */
    struct err *err;
};

#define REFUSE(f, key, ...) err_at((f)->err, (f)->st->path, 0, key, __VA_ARGS__)

/* --- values of torch.save --- */

/* Adds the step, or a tensor that is a piece, from bytes [first, first + bytes) of a file. */
static int add_saved(struct folder *f, const char *key, int number, int64_t first,
                     int64_t bytes, const int64_t *from, const int64_t *want,
                     const int64_t *whole, int dims)
{
    struct pieces *p = f->st->pieces;
    struct torch_file file = {.path = p->file[number], .first = first, .bytes = bytes};
    struct torch_record record;
    struct st_tensor t;
    int64_t step = 0;

    if (ckpt_stopped(f->limits->stop, f->err) ||
        torch_file_open(&file, &p->id[number], ONE_TENSOR, f->err))
        return -1;
    const struct pickle *v = file.pickle.root, *param = pickle_get(v, "param");
    int rc = 0;
    if (pieces_is_step(key)) {
        rc = err_any(torch_file_number(&file, v, &step, f->err) ||
                     pieces_step(p, key, step, file.path, f->err));
    } else if (torch_file_tensor(&file, param ? param : v, &t, &record, f->err)) {
        rc = -1;
    } else if (want && (t.dims != dims || memcmp(t.shape, want, (size_t)dims * sizeof *want))) {
        rc = err_at(f->err, file.path, 0, key, "has not the shape that '%s' states", METADATA);
    } else {
        pieces_add(p, key, &t, from, whole, number, &record);
    }
    torch_file_close(&file);
    return rc;
}

/* --- .metadata --- */

/* A pair of storage_data: the stored item, and its location. */
struct stored {
    const struct pickle *name, *offset, *info;
};

static int by_stored(const void *a, const void *b)
{
    const struct stored *x = a, *y = b;
    int64_t n = x->name->n < y->name->n ? x->name->n : y->name->n;
    int64_t p[ST_DIMS_MAX], q[ST_DIMS_MAX];
    int dims[2] = {0}, order = memcmp(x->name->text, y->name->text, (size_t)n);

    if (order == 0)
        order = (x->name->n > y->name->n) - (x->name->n < y->name->n);
    torch_size(x->offset, p, &dims[0]);
    torch_size(y->offset, q, &dims[1]);
    if (order == 0)
        order = dims[0] - dims[1];
    for (int d = 0; order == 0 && d < dims[0]; d++)
        order = (p[d] > q[d]) - (p[d] < q[d]);
    return order;
}

static int list_stored(struct folder *f, const struct pickle *data, struct stored **out)
{
    *out = mem_new((size_t)data->n / 2, sizeof **out);
    for (int64_t i = 0; i < data->n; i += 2) {
        struct stored *s = &(*out)[i / 2];
        *s = (struct stored){pickle_get(data->item[i], "fqn"),
                             pickle_get(data->item[i], "offset"), data->item[i + 1]};
        if (ckpt_stopped(f->limits->stop, f->err))
            return -1;
        if (!s->name || s->name->kind != PICKLE_TEXT || data->item[i]->kind != PICKLE_OBJECT)
            return REFUSE(f, METADATA, "has an entry of storage_data without a name");
    }
    if (data->n)
        qsort(*out, (size_t)data->n / 2, sizeof **out, by_stored);
    return 0;
}

/* Adds a piece that .metadata locates. */
static int add_stored(struct folder *f, const char *key, const struct stored *s,
                      const int64_t *from, const int64_t *want, const int64_t *whole, int dims)
{
    const struct pickle *first = pickle_get(s->info, "offset");
    const struct pickle *bytes = pickle_get(s->info, "length");
    const struct pickle *how = pickle_get(s->info, "transform_descriptors");
    char *name = pickle_text(pickle_get(s->info, "relative_path"));
    int rc = 0;

    if (!name || !ckpt_name_ok(name) || strchr(name, '/'))
        rc = REFUSE(f, key, "is in '%.96s', expected the name of a file of this folder",
                    name ? name : "(not a text)");
    else if (!first || !bytes || first->kind != PICKLE_INT || bytes->kind != PICKLE_INT ||
             first->n < 0 || bytes->n < 0)
        rc = REFUSE(f, key, "has no offset and length in '%s'", name);
    else if (how && how->kind != PICKLE_NONE && how->n)
        rc = REFUSE(f, key, "is compressed, expected uncompressed tensors");
    else
        rc = add_saved(f, key, pieces_file(f->st->pieces, f->st->path, name, 1), first->n,
                       bytes->n, from, want, whole, dims);
    mem_free(name);
    return rc;
}

static int add_chunks(struct folder *f, const struct pickle *name, const char *key,
                      const struct pickle *entry, const struct stored *stored, int64_t n)
{
    const struct pickle *chunks = pickle_get(entry, "chunks");
    int64_t whole[ST_DIMS_MAX], from[ST_DIMS_MAX], size[ST_DIMS_MAX];
    int dims = 0, a = 0, b = 0;

    if (torch_size(pickle_get(entry, "size"), whole, &dims) || !chunks ||
        chunks->kind != PICKLE_LIST)
        return REFUSE(f, key, "has no size and chunks in " METADATA);
    for (int64_t i = 0; i < chunks->n; i++) {
        const struct pickle *c = chunks->item[i];
        struct stored want = {name, pickle_get(c, "offsets"), NULL}, *found;
        if (torch_size(want.offset, from, &a) || torch_size(pickle_get(c, "sizes"), size, &b) ||
            a != dims || b != dims)
            return REFUSE(f, key, "has a chunk without offsets and sizes in " METADATA);
        found = bsearch(&want, stored, (size_t)n, sizeof *stored, by_stored);
        if (!found || f->left-- == 0)
            return REFUSE(f, key, "has a chunk in " METADATA " that is not stored");
        if (add_stored(f, key, found, from, size, whole, dims))
            return -1;
    }
    return 0;
}

static int add_metadata(struct folder *f, const struct pickle *root)
{
    const struct pickle *tensors = pickle_get(root, "state_dict_metadata");
    const struct pickle *data = pickle_get(root, "storage_data");
    struct stored *stored = NULL;

    if (!tensors || !data || tensors->kind != PICKLE_DICT || data->kind != PICKLE_DICT)
        return REFUSE(f, METADATA, "has no state_dict_metadata and storage_data");
    int rc = list_stored(f, data, &stored);
    f->left = data->n / 2;
    for (int64_t i = 0; rc == 0 && i < tensors->n; i += 2) {
        const struct pickle *entry = tensors->item[i + 1];
        struct stored want = {tensors->item[i], NULL, NULL}, *found = NULL;
        char *key = pickle_text(tensors->item[i]);
        if (!key)
            rc = REFUSE(f, METADATA, "has a tensor whose name is no text");
        else if (pickle_call(entry, "TensorStorageMetadata"))
            rc = add_chunks(f, tensors->item[i], key, entry, stored, data->n / 2);
        else if (pieces_is_step(key)) /* a step that is not a tensor */
            found = bsearch(&want, stored, (size_t)data->n / 2, sizeof *stored, by_stored);
        if (found)
            rc = add_stored(f, key, found, NULL, NULL, NULL, 0);
        mem_free(key);
    }
    mem_free(stored);
    return rc;
}

static int open_distcp(struct folder *f)
{
    const int number = pieces_file(f->st->pieces, f->st->path, METADATA, 1);
    const char *path = f->st->pieces->file[number];
    struct pickle_file file = {0};
    char *text = NULL;
    int64_t bytes = 0;
    int rc =
        err_any(io_read_file(path, f->limits->manifest_bytes, "--max-manifest", &text, &bytes,
                             f->err) ||
                pickle_read(&file, path, text, bytes, f->err) || add_metadata(f, file.root));

    pickle_release(&file);
    mem_free(text);
    return rc;
}

/* --- shard-00001-model-00001-of-00001.safetensors --- */

static int is_shard(const char *name)
{
    return strncmp(name, "shard-", 6) == 0 && strstr(name, "-model-") &&
           io_ends_with(name, ".safetensors");
}

/* {"NAME": {"saved_offsets": [0, 4]}} */
static int read_offsets(const struct st *st, const struct st_tensor *t,
                        const struct tree_node *all, int64_t from[ST_DIMS_MAX], struct err *err)
{
    const struct tree_node *list = tree_find(tree_find(all, t->name), "saved_offsets");
    const struct tree_node *at = tree_first(list, TREE_LIST);
    int d = 0;

    for (; at && d < t->dims && tree_is_whole(at, &from[d]) && from[d] >= 0; at = at->next)
        d++;
    return d == t->dims && !at
               ? 0
               : err_at(err, st->path, 0, t->name,
                        "has no saved_offsets of %d whole numbers in DCP_SHARDING_INFO",
                        t->dims);
}

static int add_shard(struct folder *f, const char *name)
{
    int number = pieces_file(f->st->pieces, f->st->path, name, 1);
    const char *path = f->st->pieces->file[number];
    int64_t from[ST_DIMS_MAX];
    struct tree offsets = {0};
    struct st st;

    if (st_open(&st, path, f->limits, f->err))
        return -1;
    int rc = st.sharding
                 ? tree_parse_loose(&offsets, path, 1, st.sharding,
                                    (int64_t)strlen(st.sharding), f->err)
                 : err_at(f->err, path, 0, NULL, "has no DCP_SHARDING_INFO in its metadata");
    for (int i = 0; rc == 0 && i < st.count; i++) {
        struct st_tensor t = st.tensor[i];
        rc = err_any(ckpt_stopped(f->limits->stop, f->err) ||
                     read_offsets(&st, &t, offsets.root, from, f->err));
        t.first += st.data;
        if (rc == 0)
            pieces_add(f->st->pieces, t.name, &t, from, NULL, number, NULL);
    }
    f->st->pieces->id[number] = st.id;
    tree_release(&offsets);
    st_release(&st);
    return rc;
}

/* --- zero/NAME/fp32.pt --- */

static int add_parameter(struct folder *f, const char *name)
{
    static const char *const file[] = {"fp32.pt", "exp_avg.pt", "exp_avg_sq.pt", "step.pt"};
    char *dir = io_join("zero", name);
    int rc = 0;

    for (int i = 0; rc == 0 && i < 4; i++) {
        char *at = io_join(dir, file[i]), *path = io_join(f->st->path, at);
        char *key = mem_new(strlen(name) + 32, 1);
        sprintf(key, "%s%s", i ? "state." : "", name);
        if (i) /* removes ".pt" */
            sprintf(key + strlen(key), ".%.*s", (int)strlen(file[i]) - 3, file[i]);
        if (!io_absent(path))
            rc = add_saved(f, key, pieces_file(f->st->pieces, f->st->path, at, 1), 0, -1, NULL,
                           NULL, NULL, 0);
        MEM_FREE(key, path, at);
    }
    mem_free(dir);
    return rc;
}

/* --- all formats --- */

/* Calls `add` for each entry of a folder accepted by `wanted` (NULL: all but files), by
   name. */
static int for_each(struct folder *f, const char *path, int (*wanted)(const char *name),
                    int (*add)(struct folder *f, const char *name))
{
    struct io_names all;
    int64_t seen = 0;
    int rc = io_names_read(&all, -1, path, f->err);

    for (int i = 0; rc == 0 && i < all.count; i++) {
        const char *name = all.entry[i]->d_name;
        if (wanted ? !wanted(name) : io_ends_with(name, ".pt"))
            continue;
        if (seen++ == f->limits->files)
            rc = err_at(f->err, path, 0, NULL, "has more than %" PRId64 " files (--max-files)",
                        f->limits->files);
        else
            rc = add(f, name);
    }
    io_names_free(&all);
    return rc;
}

static int is_model_states(const char *name)
{
    return io_ends_with(name, "model_states.pt");
}

/* Steps skipped for a gradient that is not finite do not count as optimizer steps. */
static int add_model_states(struct folder *f, const char *name)
{
    char *path = io_join(f->st->path, name);
    struct torch_file file = {.path = path, .bytes = -1};
    struct io_id id = {0};
    int64_t all = -1, skipped = -1;
    int rc = torch_file_open(&file, &id, f->limits->header_bytes, f->err);

    if (rc == 0) {
        const struct pickle *root = file.pickle.root, *n = pickle_get(root, "global_steps");
        const struct pickle *s = pickle_get(root, "skipped_steps");
        all = n && n->kind == PICKLE_INT ? n->n : -1;
        skipped = s && s->kind == PICKLE_INT ? s->n : -1;
        if (skipped < 0 || skipped > all)
            rc =
                err_at(f->err, path, 0, NULL,
                       "has global_steps %" PRId64 " and skipped_steps %" PRId64, all, skipped);
        else
            rc = pieces_step(f->st->pieces, "global_steps", all - skipped, path, f->err);
        torch_file_close(&file);
    }
    mem_free(path);
    return rc;
}

int foreign_step(const struct st *st, const struct ckpt_limits *limits, int64_t *step,
                 struct err *err)
{
    struct st own = *st;
    struct folder f = {.st = &own, .limits = limits ? limits : &ckpt_limits_usual, .err = err};

    if (st->pieces->step < 0 && for_each(&f, st->path, is_model_states, add_model_states))
        return -1;
    *step = st->pieces->step;
    return *step >= 0 ? 0
                      : err_at(err, st->path, 0, NULL, "does not state the optimizer's step");
}

static int has_shards(const char *dir)
{
    struct io_names all;
    struct err none;
    int found = 0;

    io_names_read(&all, -1, dir, &none);
    for (int i = 0; i < all.count; i++)
        found |= is_shard(all.entry[i]->d_name);
    io_names_free(&all);
    return found;
}

int foreign_is(const char *dir)
{
    return io_has(dir, METADATA) || io_has(dir, "zero") || has_shards(dir);
}

int foreign_open(struct st *st, const char *dir, const struct ckpt_limits *limits,
                 struct err *err)
{
    struct st new = {.fd = -1, .path = mem_dup(dir)};
    struct folder f = {.st = &new, .limits = limits ? limits : &ckpt_limits_usual, .err = err};
    int rc;

    new.pieces = mem_new(1, sizeof *new.pieces);
    new.pieces->step = -1;
    if (io_has(dir, METADATA)) {
        rc = open_distcp(&f);
    } else if (io_has(dir, "zero")) {
        char *zero = io_join(dir, "zero");
        rc = for_each(&f, zero, NULL, add_parameter);
        mem_free(zero);
    } else {
        rc = for_each(&f, dir, is_shard, add_shard);
    }
    if (rc == 0)
        rc = pieces_end(&new, f.limits, err);
    if (rc)
        st_release(&new);
    else
        *st = new;
    return rc;
}
