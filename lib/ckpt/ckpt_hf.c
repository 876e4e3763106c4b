/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens a Hugging Face folder and maps the model's tensors to its files.  Handles names with or
 * without the family's base prefix, second copies of tied heads, and buffers of old versions
 * that are not parameters.
 */
#include "ckpt/ckpt_hf.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/io.h"
#include "base/mem.h"
#include "value/value_tree.h"
#include "base/utf8.h"
#include "ckpt/ckpt_write.h"
#include "ckpt/ckpt_foreign.h"
#include "ckpt/ckpt_pieces.h"

enum {
    OPEN_MAX = 64, /* files open at the same time: descriptors are scarce */
    CHUNK_BYTES = 1 << 20
};

/* Names are sorted. */
int hf_find_file(const struct hf *hf, const char *name)
{
    char **found =
        hf->files ? bsearch(&name, hf->name, (size_t)hf->files, sizeof *hf->name, mem_by_text)
                  : NULL;

    return found ? (int)(found - hf->name) : -1;
}

/* Takes ownership of st. */
static void add_opened(struct hf *hf, const char *name, struct st st)
{
    hf->name = mem_grow(hf->name, &hf->name_space, (size_t)hf->files + 1, sizeof *hf->name);
    hf->file = mem_grow(hf->file, &hf->file_space, (size_t)hf->files + 1, sizeof *hf->file);
    hf->name[hf->files] = mem_dup(name);
    hf->file[hf->files++] = st;
}

static int add_file(struct hf *hf, const char *path, const char *name,
                    const struct ckpt_limits *limits, struct err *err)
{
    struct st st;

    if (st_open(&st, path, limits, err))
        return -1;
    if (hf->files >= OPEN_MAX)
        st_close_file(&st);
    add_opened(hf, name, st);
    return 0;
}

/* Whether the name is that of a file in the index's folder and is printable. */
static int file_name_ok(const struct tree_node *v)
{
    const char *name = tree_string(v);

    return name && ckpt_name_ok(name) && !strchr(name, '/') &&
           !utf8_controls(name, (int64_t)strlen(name));
}

/*
 * The index must list each tensor of a file, with this file.  Checked after each file is read:
 * an index may name one file through many links, whose header would be held for each.
 */
static int check_file_in_index(const struct hf *hf, int file, const char *path,
                               const struct tree_node *map, struct err *err)
{
    for (int t = 0; t < hf->file[file].count; t++) {
        const char *name = hf->file[file].tensor[t].name;
        const struct tree_node *v = tree_find(map, name);
        if (!v || strcmp(v->text, hf->name[file]))
            return err_at(err, path, v ? v->line : 0, name, "is in '%s', but the index %s%s",
                          hf->name[file], v ? "has it in " : "lacks it", v ? v->text : "");
    }
    return 0;
}

/* Opens the files that the index names, sorted by name. */
static int open_indexed(struct hf *hf, const struct tree *index, const struct tree_node *map,
                        const struct ckpt_limits *limits, struct err *err)
{
    size_t n = (size_t)map->items, i = 0;
    const char **names = mem_new(n, sizeof *names), *path = index->name;
    int64_t all = 0;
    int rc = 0;

    for (const struct tree_node *v = map->child; v; v = v->next) {
        if (!file_name_ok(v))
            rc = err_at(err, path, v->line, v->key,
                        "is in '%.96s', expected the name of a file of this folder",
                        tree_string(v) ? v->text : tree_shown(index, v));
        names[i++] = v->text;
    }
    if (rc == 0)
        qsort(names, n, sizeof *names, mem_by_text);
    for (i = 0; rc == 0 && i < n && (rc = ckpt_stopped(limits->stop, err)) == 0; i++) {
        if (i > 0 && strcmp(names[i], names[i - 1]) == 0)
            continue;
        if (hf->files == limits->files) {
            rc = err_at(err, path, 0, NULL, "names more than %" PRId64 " files (--max-files)",
                        limits->files);
            break;
        }
        char *whole = io_join(hf->dir, names[i]);
        rc = add_file(hf, whole, names[i], limits, err);
        mem_free(whole);
        /* Holes cost no disk: some file systems allow files of nearly 2^63 bytes. */
        if (rc == 0 && __builtin_add_overflow(all, hf->file[hf->files - 1].file_bytes, &all))
            rc = err_at(err, path, 0, NULL, "names files of more than 2^63 bytes in total");
        if (rc == 0)
            rc = check_file_in_index(hf, hf->files - 1, path, map, err);
    }
    mem_free(names);
    return rc;
}

/* Each tensor in the index must be in the file that the index gives for it. */
static int check_index_in_files(const struct hf *hf, const char *path,
                                const struct tree_node *map, struct err *err)
{
    for (const struct tree_node *v = map->child; v; v = v->next) {
        int i = hf_find_file(hf, v->text);
        if (!st_find(&hf->file[i], v->key))
            return err_at(err, path, v->line, v->key,
                          "is missing from '%s', where the index says it is", hf->name[i]);
    }
    return 0;
}

static int hf_read_index(struct hf *hf, const char *path, const struct ckpt_limits *limits,
                         struct err *err)
{
    char *text = NULL;
    int64_t bytes = 0;
    struct tree t = {0};
    int rc = -1;

    if (io_read_file(path, limits->header_bytes, "--max-header", &text, &bytes, err))
        return -1;
    if (tree_parse_loose(&t, path, 1, text, bytes, err))
        goto done;
    const struct tree_node *map = tree_find(t.root, "weight_map");
    if (tree_count(map, TREE_MAP) == 0)
        tree_fail(&t, t.root, "weight_map", err,
                  "is empty or not an object, expected tensors and their files");
    else if (map->items > limits->tensors)
        tree_fail(&t, map, NULL, err,
                  "has %d tensors, expected at most %" PRId64 " (--max-tensors)", map->items,
                  limits->tensors);
    else
        rc = err_any(open_indexed(hf, &t, map, limits, err) ||
                     check_index_in_files(hf, path, map, err));
done:
    tree_release(&t);
    mem_free(text);
    return rc;
}

/* `path` is a file: splits it into folder and name. */
static int open_alone(struct hf *hf, const char *path, const struct ckpt_limits *limits,
                      struct err *err)
{
    const char *slash = strrchr(path, '/');

    hf->alone = 1;
    hf->dir = slash ? mem_dup(path) : mem_dup(".");
    if (slash)
        hf->dir[slash - path + (slash == path)] = 0;
    return add_file(hf, path, slash ? slash + 1 : path, limits, err);
}

static int hf_open_folder(struct hf *hf, const char *path, const struct ckpt_limits *limits,
                          struct err *err)
{
    char *single = io_join(path, "model.safetensors"), *index = io_join(path, HF_INDEX_NAME);
    struct st st;
    int rc;

    hf->dir = mem_dup(path);
    if (!io_absent(single)) { /* transformers also prefers it to an index */
        rc = add_file(hf, single, "model.safetensors", limits, err);
    } else if (!io_absent(index)) {
        rc = hf_read_index(hf, index, limits, err);
    } else if (foreign_is(path)) {
        rc = foreign_open(&st, path, limits, err);
        if (rc == 0)
            add_opened(hf, "", st);
    } else if (io_has(path, "adapter_config.json")) {
        rc = err_set(
            err, ERR_INPUT,
            "'%s' has the adapters of PEFT alone, expected the folder that they adapt; "
            "paro-shard split BASE -p PLAN --adapter %s -o NEW makes a checkpoint of both",
            path, path);
    } else {
        rc = err_set(err, ERR_ABSENT,
                     "'%s' has none of model.safetensors, %s, .metadata, zero and "
                     "shard-*.safetensors, expected a Hugging Face folder",
                     path, HF_INDEX_NAME);
    }
    mem_free(single);
    mem_free(index);
    return rc;
}

int hf_open(struct hf *hf, const char *path, const struct ckpt_limits *limits, struct err *err)
{
    struct hf new = {0};
    struct stat st;

    if (!limits)
        limits = &ckpt_limits_usual;
    new.stop = limits->stop;
    if (stat(path, &st))
        return err_sys(err, "cannot open '%s'", path);
    if (S_ISDIR(st.st_mode) ? hf_open_folder(&new, path, limits, err)
                            : open_alone(&new, path, limits, err)) {
        hf_release(&new);
        return -1;
    }
    *hf = new;
    return 0;
}

int hf_is(const char *dir)
{
    return io_has(dir, "model.safetensors") || io_has(dir, HF_INDEX_NAME) || foreign_is(dir);
}

int hf_has_config(const struct hf *hf)
{
    return !hf->alone && io_has(hf->dir, "config.json");
}

void hf_release(struct hf *hf)
{
    for (int i = 0; i < hf->files; i++) {
        mem_free(hf->name[i]);
        st_release(&hf->file[i]);
    }
    MEM_FREE(hf->name, hf->file, hf->place, hf->dir);
    *hf = (struct hf){0};
}

const struct st_tensor *hf_find(const struct hf *hf, const char *name, int *file)
{
    for (int i = 0; i < hf->files; i++) {
        const struct st_tensor *t = st_find(&hf->file[i], name);
        if (t) {
            *file = i;
            return t;
        }
    }
    return NULL;
}

/*
 * Finds the file and tensor for each of the model's tensors with this role.  A tied head
 * substitutes for a missing embedding: some trainers keep only one name of shared tensors.
 */
static int place_role(struct hf *hf, const struct model *m, enum hf_role role, struct err *err)
{
    const struct model_tensor *want;

    for (int f = 0; f < hf->files; f++) {
        for (int i = 0; i < hf->file[f].count; i++) {
            const struct st_tensor *t = &hf->file[f].tensor[i];
            if (hf_role(m, t->name, &want) != role)
                continue;
            struct hf_place *place = &hf->place[want - m->tensor];
            if (role == HF_TIED && place->t)
                continue;
            hf_unflatten(&hf->file[f], t, want);
            if (place->t)
                return err_at(err, hf->file[f].path, 0, t->name,
                              "appears twice: '%s' is the same tensor", place->t->name);
            *place = (struct hf_place){f, t};
        }
    }
    return 0;
}

struct st_tensor hf_tensor(const struct model_tensor *t, int type)
{
    return (struct st_tensor){.name = (char *)t->name,
                              .type = type,
                              .dims = t->dims,
                              .shape = {t->shape[0], t->shape[1]},
                              .elems = model_whole(t)};
}

void hf_unflatten(const struct st *st, const struct st_tensor *t,
                  const struct model_tensor *want)
{
    struct st_tensor *own = &st->tensor[t - st->tensor];

    if (!st->pieces || t->dims != 1 || t->elems != model_whole(want))
        return;
    own->dims = want->dims;
    memcpy(own->shape, want->shape, sizeof want->shape);
}

int hf_check_shape(const struct st *st, const struct st_tensor *is,
                   const struct model_tensor *want, struct err *err)
{
    int real = st_type_is_float(is->type);
    struct st_tensor shaped = hf_tensor(want, real ? is->type : st_type_of(DTYPE_F32));
    char have[256], need[256];

    st_print_shape(is, have, sizeof have);
    st_print_shape(&shaped, need, sizeof need);
    if (strcmp(have, need))
        return err_at(err, st->path, 0, is->name, "is %s, expected %s%s", have, need,
                      real ? " as the config says" : " or another float type");
    return 0;
}

/* Checks one of the model's tensors: it exists, with its shape and the common type. */
static int match_one(struct hf *hf, const struct model_tensor *want,
                     const struct hf_place *place, int first, struct err *err)
{
    if (!place->t) {
        err_at(err, hf->dir, 0, want->name, "is missing, expected by the config");
        err->code = ERR_ABSENT;
        return -1;
    }
    const struct st *st = &hf->file[place->file];
    enum dtype type = DTYPE_F32;
    if (hf_check_shape(st, place->t, want, err))
        return -1;
    st_type_dtype(place->t->type, &type);
    if (!first && type != hf->type)
        return err_at(err, st->path, 0, place->t->name,
                      "is %s, expected %s as the tensors before it",
                      st_type_name(place->t->type), st_type_name(st_type_of(hf->type)));
    hf->type = type;
    return 0;
}

int hf_match(struct hf *hf, const struct model *m, struct err *err)
{
    const struct model_tensor *t;
    int seen = 0;

    mem_free(hf->place);
    hf->place = mem_new((size_t)m->tensors, sizeof *hf->place);
    if (place_role(hf, m, HF_OURS, err) || place_role(hf, m, HF_TIED, err))
        return -1;
    for (int i = 0; i < m->tensors; i++) {
        if (model_is_added(&m->tensor[i]))
            continue;
        if (match_one(hf, &m->tensor[i], &hf->place[i], seen++ == 0, err))
            return -1;
    }
    for (int f = 0; f < hf->files; f++)
        for (int i = 0; i < hf->file[f].count; i++)
            if (hf_role(m, hf->file[f].tensor[i].name, &t) == HF_UNKNOWN &&
                !(hf->file[f].pieces && pieces_state(hf->file[f].tensor[i].name)))
                return err_at(err, hf->file[f].path, 0, hf->file[f].tensor[i].name,
                              "is not a tensor of the model in the config");
    hf->model = m;
    return 0;
}

/* --- names --- */

static int hf_matches(const char *pattern, const char *name)
{
    size_t before = strcspn(pattern, "%"), digits;

    if (strncmp(pattern, name, before))
        return 0;
    digits = strspn(name + before, "0123456789");
    return digits > 0 && strcmp(pattern + before + 1, name + before + digits) == 0;
}

static int is_buffer(const struct model_family *f, const char *name)
{
    for (const char *const *b = f->buffers; *b; b++)
        if (hf_matches(*b, name))
            return 1;
    return 0;
}

/* "lm_head.weight" */
static void head_name(const struct model *m, char name[128])
{
    snprintf(name, 128, "%s.weight", m->family->modules[model_module(m, MODEL_HEAD)].name);
}

static const struct model_tensor *find_published(const struct model *m, const char *name)
{
    const struct model_tensor *t = model_find(m, name);

    return t && t->kind == MODEL_MASK ? NULL : t;
}

enum hf_role hf_role(const struct model *m, const char *name, const struct model_tensor **t)
{
    const char *base = m->family->base;
    char head[128], full[256];

    snprintf(full, sizeof full, "%s%.127s", base ? base : "", name);
    head_name(m, head);
    *t = find_published(m, name);
    if (*t)
        return HF_OURS;
    if (is_buffer(m->family, name) || is_buffer(m->family, full))
        return HF_BUFFER;
    if (m->tied && strcmp(name, head) == 0) {
        *t = model_find_module(m, -1, model_module(m, MODEL_HEAD), 0);
        return HF_TIED;
    }
    if (base && strlen(name) < sizeof m->tensor->name)
        *t = find_published(m, full);
    return *t ? HF_OURS : HF_UNKNOWN;
}

int hf_has_embedding(const struct model *m, const struct st *st)
{
    const struct model_tensor *t,
        *tied = model_find_module(m, -1, model_module(m, MODEL_HEAD), 0);

    for (int i = 0; i < st->count; i++)
        if (hf_role(m, st->tensor[i].name, &t) == HF_OURS && t == tied)
            return 1;
    return 0;
}

/* The first byte in which two tensors of equal size differ, or -1. */
static int first_gap(const struct hf *hf, struct hf_place a, struct hf_place b, int64_t *gap,
                     struct err *err)
{
    char *x = mem_new(CHUNK_BYTES, 1), *y = mem_new(CHUNK_BYTES, 1);
    int64_t bytes = a.t->last - a.t->first;
    int rc = 0;

    *gap = -1;
    for (int64_t at = 0; rc == 0 && *gap < 0 && at < bytes; at += CHUNK_BYTES) {
        int64_t n = bytes - at < CHUNK_BYTES ? bytes - at : CHUNK_BYTES;
        rc = err_any(ckpt_stopped(hf->stop, err) ||
                     st_read(&hf->file[a.file], a.t, at, n, x, err) ||
                     st_read(&hf->file[b.file], b.t, at, n, y, err));
        for (int64_t i = 0; rc == 0 && *gap < 0 && i < n; i++)
            if (x[i] != y[i])
                *gap = at + i;
    }
    mem_free(x);
    mem_free(y);
    return rc;
}

int hf_check_tied(const struct hf *hf, struct err *err)
{
    const struct model_tensor *t = NULL;
    int file = 0;
    int64_t gap = -1;
    char head[128];

    head_name(hf->model, head);
    const struct st_tensor *twice = hf_find(hf, head, &file);

    if (!twice || hf_role(hf->model, head, &t) != HF_TIED)
        return 0;
    const struct hf_place *first = &hf->place[t - hf->model->tensor];
    if (first->t == twice)
        return 0;
    const char *path = hf->file[file].path;
    char have[256], need[256];
    st_print_shape(twice, have, sizeof have);
    st_print_shape(first->t, need, sizeof need);
    if (strcmp(have, need))
        return err_at(err, path, 0, head, "is %s, expected %s as '%s', to which it is tied",
                      have, need, first->t->name);
    if (first_gap(hf, (struct hf_place){file, twice}, *first, &gap, err))
        return -1;
    if (gap < 0)
        return 0;
    return err_at(err, path, 0, head,
                  "differs from '%s', to which the config ties it, from element %" PRId64
                  " on: tie_word_embeddings false would keep both",
                  first->t->name, gap / st_type_bytes(twice->type));
}
