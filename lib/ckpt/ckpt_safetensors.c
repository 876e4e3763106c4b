/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lists the types of the safetensors format, reads a file's tensors and writes its header.
 * Leaves parsing a header to ckpt_safetensors_parse.c.  Reference: the format section of the
 * library's README.
 */
#include "ckpt/ckpt_safetensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "value/value_json_out.h"
#include "base/mem.h"
#include "ckpt/ckpt_pieces.h"

/* Types of whole bytes; a file with another type is rejected with the type's name. */
static const struct {
    const char *name;
    int bytes;
    int dtype; /* type of base/dtype.h, or -1 */
} types[] = {
    {"F32", 4, DTYPE_F32},  {"BF16", 2, DTYPE_BF16}, {"F16", 2, DTYPE_F16},
    {"F64", 8, DTYPE_F64},  {"I32", 4, DTYPE_I32},   {"U8", 1, DTYPE_U8},
    {"BOOL", 1, -1},        {"I8", 1, -1},           {"F8_E4M3", 1, -1},
    {"F8_E5M2", 1, -1},     {"F8_E8M0", 1, -1},      {"F8_E4M3FNUZ", 1, -1},
    {"F8_E5M2FNUZ", 1, -1}, {"I16", 2, -1},          {"U16", 2, -1},
    {"U32", 4, -1},         {"I64", 8, -1},          {"U64", 8, -1},
    {"C64", 8, -1},
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

int st_type_parse(const char *name)
{
    for (int t = 0; t < TYPES; t++)
        if (strcmp(types[t].name, name) == 0)
            return t;
    return -1;
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

int st_type_is_float(int type)
{
    return types[type].dtype >= 0 && types[type].dtype != DTYPE_I32 &&
           types[type].dtype != DTYPE_U8;
}

void st_print_shape(const struct st_tensor *t, char *text, int space)
{
    int used = snprintf(text, (size_t)space, "%s [", types[t->type].name);

    for (int d = 0; d < t->dims && used < space; d++)
        used += snprintf(text + used, (size_t)(space - used), "%s%" PRId64, d ? ", " : "",
                         t->shape[d]);
    if (used < space)
        snprintf(text + used, (size_t)(space - used), "]");
}

int st_open(struct st *st, const char *path, const struct ckpt_limits *limits, struct err *err)
{
    char first[8];
    void *head = NULL;
    int64_t file_bytes = 0, n = 0;
    struct io_id id = {0};
    int fd = -1, rc = -1;

    limits = limits ? limits : &ckpt_limits_usual;
    if (io_open_same(path, &id, &fd, &file_bytes, err))
        return -1;
    if (io_check_pointer(fd, path, file_bytes, err))
        goto done;
    if (io_pread_all(fd, first, 8, 0, err)) {
        err_prefix(err, "%s: ", path);
        goto done;
    }
    if (st_header_size(path, first, file_bytes, limits, &n, err) ||
        mem_data(8 + n, "a safetensors header", &head, err))
        goto done;
    if (io_pread_all(fd, head, 8 + n, 0, err)) {
        err_prefix(err, "%s: ", path);
        goto done;
    }
    rc = st_parse(st, path, head, 8 + n, file_bytes, limits, err);
done:
    mem_free(head);
    if (rc) {
        close(fd);
        return -1;
    }
    st->fd = fd;
    st->id = id;
    return 0;
}

int st_reopen(const struct st *st, int *fd, struct err *err)
{
    struct io_id id = st->id;

    return io_open_same(st->path, &id, fd, NULL, err);
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
    mem_free(st->sharding);
    pieces_free(st->pieces);
    *st = (struct st){.fd = -1};
}

int st_by_name(const void *a, const void *b)
{
    return strcmp((*(struct st_tensor *const *)a)->name, (*(struct st_tensor *const *)b)->name);
}

const struct st_tensor *st_find(const struct st *st, const char *name)
{
    struct st_tensor key = {.name = (char *)name}, *k = &key;
    struct st_tensor **found =
        st->count ? bsearch(&k, st->by_name, (size_t)st->count, sizeof *st->by_name, st_by_name)
                  : NULL;

    return found ? *found : NULL;
}

const char *st_path(const struct st *st, int i)
{
    if (st->pieces)
        return i < st->pieces->files ? st->pieces->file[i] : NULL;
    return i == 0 ? st->path : NULL;
}

const struct io_id *st_piece_id(const struct st *st, const char *name)
{
    int number = st->pieces ? pieces_file(st->pieces, st->path, name, 0) : -1;

    return number < 0 ? NULL : &st->pieces->id[number];
}

void st_close_file(struct st *st)
{
    if (st->fd >= 0)
        close(st->fd);
    st->fd = -1;
}

int st_read(const struct st *st, const struct st_tensor *t, int64_t first, int64_t bytes,
            void *out, struct err *err)
{
    int fd = st->fd;

    if (st->pieces)
        return pieces_read(st, t, first, bytes, out, err);
    if (fd < 0 && st_reopen(st, &fd, err))
        return -1;
    int rc = io_pread_all(fd, out, bytes, st->data + t->first + first, err);
    if (rc)
        err_prefix(err, "%s: '%.96s': ", st->path, t->name);
    if (fd != st->fd)
        close(fd);
    return rc;
}

int st_read_as(const struct st *st, const struct st_tensor *t, int64_t first, int64_t count,
               enum dtype type, void *out, struct err *err)
{
    enum { PIECE = 8192 };
    double piece[PIECE]; /* large enough for the widest type */
    int64_t size = st_type_bytes(t->type);
    enum dtype is = (enum dtype)types[t->type].dtype;
    char *to = out;

    if (is == type)
        return st_read(st, t, first * size, count * size, out, err);
    for (int64_t at = 0, n; at < count; at += n) {
        n = count - at < PIECE ? count - at : PIECE;
        if (st_read(st, t, (first + at) * size, n * size, piece, err))
            return -1;
        dtype_convert(to + at * dtype_bytes(type), type, piece, is, n);
    }
    return 0;
}

/* --- writing --- */

static void safetensors_put_tensor(struct jout *j, const struct st_tensor *t)
{
    jout_open(j, t->name, '{');
    jout_text(j, "dtype", st_type_name(t->type));
    jout_open(j, "shape", '[');
    for (int d = 0; d < t->dims; d++)
        jout_int(j, NULL, t->shape[d]);
    jout_close(j, ']');
    jout_open(j, "data_offsets", '[');
    jout_int(j, NULL, t->first);
    jout_int(j, NULL, t->last);
    jout_close(j, ']');
    jout_close(j, '}');
}

void st_header(struct st_tensor *tensor, int count, char **text, int64_t *bytes)
{
    char *json = NULL;
    size_t used = 0;
    FILE *f = mem_stream(&json, &used);
    struct jout j = {.file = f};
    int64_t at = 0;

    jout_open(&j, NULL, '{');
    jout_open(&j, "__metadata__", '{');
    jout_text(&j, "format", "pt");
    jout_close(&j, '}');
    for (int i = 0; i < count; i++) {
        struct st_tensor *t = &tensor[i];
        t->elems = 1;
        for (int d = 0; d < t->dims; d++)
            t->elems *= t->shape[d];
        t->first = at;
        t->last = at += t->elems * st_type_bytes(t->type);
        safetensors_put_tensor(&j, t);
    }
    jout_close(&j, '}');
    fclose(f);
    used--; /* without the newline after the document */
    size_t whole = (8 + used + 7) / 8 * 8;
    char *out = mem_new(whole, 1);
    io_put_le64((unsigned char *)out, whole - 8);
    memcpy(out + 8, json, used);
    memset(out + 8 + used, ' ', whole - 8 - used); /* the format pads with spaces */
    free(json);
    *text = out;
    *bytes = (int64_t)whole;
}
