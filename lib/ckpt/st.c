/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows the safetensors format, reading (st_write.c writes).  Reference: the format section of
 * the library's README.  The header is bounded in bytes and, before jansson builds a tree some
 * 20 times its size, in what it may contain.
 */
#include "ckpt/st.h"

#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"

/* The types of whole bytes; a file with another is refused by the type's name. */
static const struct {
    const char *name;
    int bytes;
    int dtype; /* of base/dtype.h, or -1 */
} types[] = {
    {"F32", 4, DTYPE_F32}, {"BF16", 2, DTYPE_BF16}, {"F16", 2, DTYPE_F16},
    {"F64", 8, DTYPE_F64}, {"I32", 4, DTYPE_I32},   {"U8", 1, DTYPE_U8},
    {"BOOL", 1, -1},       {"I8", 1, -1},           {"F8_E4M3", 1, -1},
    {"F8_E5M2", 1, -1},    {"F8_E8M0", 1, -1},      {"I16", 2, -1},
    {"U16", 2, -1},        {"U32", 4, -1},          {"I64", 8, -1},
    {"U64", 8, -1},        {"C64", 8, -1},
};

enum { TYPES = sizeof types / sizeof *types };

const char *st_type_name(int type)
{
    return types[type].name;
}

int st_type_bytes(int type)
{
    return types[type].bytes;
}

int st_type_of(enum dtype type)
{
    for (int t = 0; t < TYPES; t++)
        if (types[t].dtype == (int)type)
            return t;
    return -1;
}

int st_type_dtype(int type, enum dtype *out)
{
    if (types[type].dtype < 0)
        return -1;
    *out = (enum dtype)types[type].dtype;
    return 0;
}

void st_print_shape(const struct st_tensor *t, char *text, int room)
{
    int used = snprintf(text, (size_t)room, "%s [", types[t->type].name);

    for (int d = 0; d < t->dims && used < room; d++)
        used += snprintf(text + used, (size_t)(room - used), "%s%" PRId64, d ? ", " : "",
                         t->shape[d]);
    if (used < room)
        snprintf(text + used, (size_t)(room - used), "]");
}

/*
 * What a tree of the header would hold, before it is built.  An entry has one object and at
 * most ST_DIMS_MAX + 4 commas; the metadata may have some more.
 */
static int check_amount(const struct st *st, const char *json, int64_t bytes, struct err *err)
{
    int64_t objects = 0, commas = 0;
    int quoted = 0;

    for (int64_t i = 0; i < bytes; i++) {
        if (quoted && json[i] == '\\')
            i++;
        else if (json[i] == '"')
            quoted = !quoted;
        else if (!quoted && json[i] == '{')
            objects++;
        else if (!quoted && json[i] == ',')
            commas++;
    }
    if (objects > ST_TENSORS_MAX + 2)
        return err_at(err, st->path, 0, NULL, "header has more than %d tensors",
                      ST_TENSORS_MAX);
    if (commas > objects * (ST_DIMS_MAX + 4) + 100000)
        return err_at(err, st->path, 0, NULL,
                      "header has %" PRId64 " values for %" PRId64
                      " tensors: that is no list of tensors",
                      commas, objects);
    return 0;
}

static int check_name(const struct st *st, const char *name, struct err *err)
{
    size_t n = strlen(name);

    if (n == 0 || n > ST_NAME_MAX)
        return err_at(err, st->path, 0, NULL, "a tensor's name has %zu bytes, expected 1 to %d",
                      n, ST_NAME_MAX);
    for (const char *p = name; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return err_at(err, st->path, 0, name, "has a control character in its name");
    return 0;
}

static int check_metadata(const struct st *st, json_t *meta, struct err *err)
{
    const char *key;
    json_t *v;

    if (!json_is_object(meta))
        return err_at(err, st->path, 0, "__metadata__", "is no object");
    json_object_foreach(meta, key, v)
    {
        if (!json_is_string(v))
            return err_at(err, st->path, 0, "__metadata__", "has '%.80s', which is no text",
                          key);
    }
    return 0;
}

static int parse_type(const struct st *st, struct st_tensor *t, json_t *v, struct err *err)
{
    if (!json_is_string(v))
        return err_at(err, st->path, 0, t->name, "has no dtype");
    for (t->type = 0; t->type < TYPES; t->type++)
        if (strcmp(types[t->type].name, json_string_value(v)) == 0)
            return 0;
    return err_at(err, st->path, 0, t->name, "has dtype '%.40s', expected F32, BF16, F16, ...",
                  json_string_value(v));
}

static int parse_shape(const struct st *st, struct st_tensor *t, json_t *v, struct err *err)
{
    if (!json_is_array(v))
        return err_at(err, st->path, 0, t->name, "has no shape");
    if (json_array_size(v) > ST_DIMS_MAX)
        return err_at(err, st->path, 0, t->name, "has %zu dimensions, expected at most %d",
                      json_array_size(v), ST_DIMS_MAX);
    t->dims = (int)json_array_size(v);
    t->elems = 1;
    for (int d = 0; d < t->dims; d++) {
        json_t *n = json_array_get(v, (size_t)d);
        if (!json_is_integer(n) || json_integer_value(n) < 0)
            return err_at(err, st->path, 0, t->name,
                          "has a shape that is no list of whole "
                          "numbers, 0 or above");
        t->shape[d] = json_integer_value(n);
        if (__builtin_mul_overflow(t->elems, t->shape[d], &t->elems))
            return err_at(err, st->path, 0, t->name, "has a shape of more than 2^63 elements");
    }
    return 0;
}

static int parse_offsets(const struct st *st, struct st_tensor *t, json_t *v, struct err *err)
{
    json_t *a = json_array_get(v, 0), *b = json_array_get(v, 1);
    int64_t want = 0, data_bytes = st->file_bytes - st->data;
    char shape[256];

    if (json_array_size(v) != 2 || !json_is_integer(a) || !json_is_integer(b))
        return err_at(err, st->path, 0, t->name, "has no data_offsets of two whole numbers");
    t->first = json_integer_value(a);
    t->last = json_integer_value(b);
    if (t->first < 0 || t->last < t->first || t->last > data_bytes)
        return err_at(err, st->path, 0, t->name,
                      "has data_offsets [%" PRId64 ", %" PRId64
                      "], expected within the %" PRId64 " bytes of data",
                      t->first, t->last, data_bytes);
    st_print_shape(t, shape, sizeof shape);
    if (__builtin_mul_overflow(t->elems, (int64_t)types[t->type].bytes, &want))
        return err_at(err, st->path, 0, t->name, "is %s: more than 2^63 bytes", shape);
    if (want != t->last - t->first)
        return err_at(err, st->path, 0, t->name,
                      "has %" PRId64 " bytes of data, expected %" PRId64 " for %s",
                      t->last - t->first, want, shape);
    return 0;
}

static int parse_tensor(const struct st *st, struct st_tensor *t, json_t *v, struct err *err)
{
    const char *key;
    json_t *ignored;

    if (!json_is_object(v))
        return err_at(err, st->path, 0, t->name, "is no object");
    json_object_foreach(v, key, ignored)
    {
        if (strcmp(key, "dtype") && strcmp(key, "shape") && strcmp(key, "data_offsets"))
            return err_at(err, st->path, 0, t->name,
                          "has '%.40s', expected dtype, shape and data_offsets alone", key);
    }
    return parse_type(st, t, json_object_get(v, "dtype"), err) ||
                   parse_shape(st, t, json_object_get(v, "shape"), err) ||
                   parse_offsets(st, t, json_object_get(v, "data_offsets"), err)
               ? -1
               : 0;
}

static int by_place(const void *a, const void *b)
{
    const struct st_tensor *x = a, *y = b;

    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    if (x->last != y->last)
        return x->last < y->last ? -1 : 1;
    return strcmp(x->name, y->name); /* empty tensors at one place: any fixed order */
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(struct st_tensor *const *)a)->name, (*(struct st_tensor *const *)b)->name);
}

/* Sorts, and proves that the tensors fill the data exactly. */
static int arrange(struct st *st, struct err *err)
{
    int64_t at = 0, data_bytes = st->file_bytes - st->data;

    qsort(st->tensor, (size_t)st->count, sizeof *st->tensor, by_place);
    for (int i = 0; i < st->count; i++) {
        const struct st_tensor *t = &st->tensor[i];
        if (t->first != at)
            return err_at(err, st->path, 0, t->name,
                          "begins at byte %" PRId64 " of the data, expected %" PRId64 ": %s",
                          t->first, at,
                          t->first < at ? "it overlaps another" : "there is a hole");
        at = t->last;
    }
    if (at != data_bytes)
        return err_at(err, st->path, 0, NULL,
                      "has %" PRId64 " bytes of data, its tensors have %" PRId64, data_bytes,
                      at);
    st->by_name = mem_new((size_t)st->count, sizeof *st->by_name);
    for (int i = 0; i < st->count; i++)
        st->by_name[i] = &st->tensor[i];
    qsort(st->by_name, (size_t)st->count, sizeof *st->by_name, by_name);
    return 0;
}

static int parse_header(struct st *st, json_t *root, struct err *err)
{
    const char *key;
    json_t *v;

    if (!json_is_object(root))
        return err_at(err, st->path, 0, NULL, "header is no JSON object");
    st->tensor = mem_new(json_object_size(root), sizeof *st->tensor);
    json_object_foreach(root, key, v)
    {
        if (strcmp(key, "__metadata__") == 0) {
            if (check_metadata(st, v, err))
                return -1;
            continue;
        }
        if (check_name(st, key, err))
            return -1;
        struct st_tensor *t = &st->tensor[st->count++];
        t->name = mem_dup(key);
        if (parse_tensor(st, t, v, err))
            return -1;
    }
    return arrange(st, err);
}

/* N of the file's first 8 bytes, bounded by what there is. */
static int header_size(const struct st *st, const char *head, int64_t *out, struct err *err)
{
    uint64_t n = io_le64((const unsigned char *)head);

    if (n > ST_HEADER_MAX || (int64_t)n > st->file_bytes - 8)
        return err_at(err, st->path, 0, NULL,
                      "header claims %" PRIu64 " bytes, expected at most %" PRId64, n,
                      st->file_bytes - 8 < ST_HEADER_MAX ? st->file_bytes - 8 : ST_HEADER_MAX);
    *out = (int64_t)n;
    return 0;
}

int st_parse(struct st *st, const char *path, const char *head, int64_t bytes,
             int64_t file_bytes, struct err *err)
{
    struct st new = {.fd = -1, .path = mem_dup(path), .file_bytes = file_bytes};
    json_error_t where;
    int64_t n = 0;
    int rc = -1;

    if (bytes < 8 || file_bytes < 8) {
        err_at(err, path, 0, NULL, "has %" PRId64 " bytes, expected at least 8", bytes);
        goto done;
    }
    if (header_size(&new, head, &n, err))
        goto done;
    if (bytes - 8 < n) {
        err_at(err, path, 0, NULL, "header ends at byte %" PRId64 ", expected %" PRId64, bytes,
               n + 8);
        goto done;
    }
    new.data = 8 + n;
    if (n < 2 || head[8] != '{') {
        err_at(err, path, 0, NULL, "header does not begin with '{'");
        goto done;
    }
    if (check_amount(&new, head + 8, n, err))
        goto done;
    json_t *root = json_loadb(head + 8, (size_t)n, JSON_REJECT_DUPLICATES, &where);
    if (!root) {
        err_at(err, path, 0, NULL, "header is no valid JSON at byte %d: %.200s", where.position,
               where.text);
        goto done;
    }
    rc = parse_header(&new, root, err);
    json_decref(root);
done:
    if (rc)
        st_release(&new);
    else
        *st = new;
    return rc;
}

int st_open(struct st *st, const char *path, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char first[8];
    void *head = NULL;
    struct st probe = {.path = (char *)path};
    int64_t n = 0;
    int rc = -1;

    if (fd < 0)
        return err_sys(err, "cannot open '%s'", path);
    if (io_size(fd, &probe.file_bytes, err) || io_pread_all(fd, first, 8, 0, err)) {
        err_prefix(err, "%s: ", path);
        goto done;
    }
    if (header_size(&probe, first, &n, err) ||
        mem_data(8 + n, "a safetensors header", &head, err))
        goto done;
    if (io_pread_all(fd, head, 8 + n, 0, err)) {
        err_prefix(err, "%s: ", path);
        goto done;
    }
    rc = st_parse(st, path, head, 8 + n, probe.file_bytes, err);
done:
    mem_free(head);
    if (rc)
        close(fd);
    else
        st->fd = fd;
    return rc;
}

void st_release(struct st *st)
{
    for (int i = 0; i < st->count; i++)
        mem_free(st->tensor[i].name);
    mem_free(st->tensor);
    mem_free(st->by_name);
    if (st->path && st->fd >= 0)
        close(st->fd);
    mem_free(st->path);
    *st = (struct st){.fd = -1};
}

const struct st_tensor *st_find(const struct st *st, const char *name)
{
    struct st_tensor key = {.name = (char *)name}, *k = &key;
    struct st_tensor **found =
        st->count ? bsearch(&k, st->by_name, (size_t)st->count, sizeof *st->by_name, by_name)
                  : NULL;

    return found ? *found : NULL;
}

int st_read(const struct st *st, const struct st_tensor *t, int64_t first, int64_t bytes,
            void *out, struct err *err)
{
    if (io_pread_all(st->fd, out, bytes, st->data + t->first + first, err))
        return err_prefix(err, "%s: '%.96s': ", st->path, t->name);
    return 0;
}
