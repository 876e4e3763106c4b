/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parses a safetensors header, whose grammar is small: one object of objects of three keys.
 * Reads it in one pass, without a tree, and checks sizes before allocating by them.  Keeps only
 * PyTorch's entry about shards from __metadata__.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "value/value_json_in.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "ckpt/ckpt_write.h"
#include "ckpt/ckpt_safetensors.h"

const struct ckpt_limits ckpt_limits_usual = {
    .header_bytes = 100000000, /* the limit of the safetensors library */
    .tensors = 1000000,
    .name_bytes = 4096,
    .files = 10000,
    .manifest_bytes = 256 << 20,
};

struct parser {
    struct st *st; /* the result */
    const struct ckpt_limits *limits;
    struct jin j;
    size_t space; /* capacity of st->tensor */
    struct err *err;
};

/* One tensor's values as read, until all three are known. */
struct entry {
    struct st_tensor t;
    int has_type, has_shape, has_offsets;
};

static int no_json(struct parser *p)
{
    return err_at(p->err, p->st->path, 0, NULL,
                  "header is not valid JSON at byte %" PRId64 ": expected %s", p->j.at,
                  p->j.wrong);
}

#define REFUSE(p, name, ...) err_at((p)->err, (p)->st->path, 0, name, __VA_ARGS__)

/* Reads the next text, which may not contain a 0 byte: "F32\u0000" is not F32. */
static int safetensors_parse_read_text(struct parser *p, const char *tensor)
{
    if (jin_text(&p->j))
        return no_json(p);
    if (strlen(p->j.word) != (size_t)p->j.word_bytes)
        return REFUSE(p, tensor, "has a zero byte after '%.40s'", p->j.word);
    return 0;
}

/* --- names --- */

static int safetensors_parse_check_name(struct parser *p)
{
    const struct jin *j = &p->j;

    if (j->word_bytes == 0)
        return REFUSE(p, NULL, "a tensor's name has 0 bytes, expected 1 or more");
    if (j->word_bytes > p->limits->name_bytes)
        return REFUSE(p, NULL,
                      "a tensor's name has %" PRId64 " bytes, expected at most %" PRId64
                      " (--max-name)",
                      j->word_bytes, p->limits->name_bytes);
    if (utf8_controls(j->word, j->word_bytes))
        return REFUSE(p, j->word, "has a control character in its name");
    return 0;
}

/* --- metadata: texts with unique names --- */

static int parse_metadata_items(struct parser *p, char ***key, int *count)
{
    struct jin *j = &p->j;
    size_t space = 0;
    int n = 0, more;

    while ((more = jin_item(j, '}', &n)) > 0) {
        if (safetensors_parse_read_text(p, "__metadata__"))
            return -1;
        *key = mem_grow(*key, &space, (size_t)*count + 1, sizeof **key);
        (*key)[(*count)++] = mem_dup(j->word);
        if (jin_take(j, ':'))
            return no_json(p);
        if (jin_next(j) != '"')
            return REFUSE(p, "__metadata__", "has '%.80s', which is no text",
                          (*key)[*count - 1]);
        if (safetensors_parse_read_text(p, "__metadata__"))
            return -1;
        if (!p->st->sharding && strcmp((*key)[*count - 1], "DCP_SHARDING_INFO") == 0)
            p->st->sharding = mem_dup(j->word);
    }
    if (more < 0)
        return no_json(p);
    if (*count)
        qsort(*key, (size_t)*count, sizeof **key, mem_by_text);
    for (int i = 1; i < *count; i++)
        if (strcmp((*key)[i - 1], (*key)[i]) == 0)
            return REFUSE(p, "__metadata__", "has '%.80s' twice", (*key)[i]);
    return 0;
}

static int parse_metadata(struct parser *p)
{
    char **key = NULL;
    int count = 0;

    if (jin_take(&p->j, '{'))
        return REFUSE(p, "__metadata__", "is no object");
    int rc = parse_metadata_items(p, &key, &count);
    for (int i = 0; i < count; i++)
        mem_free(key[i]);
    mem_free(key);
    return rc;
}

/* --- a tensor --- */

static int safetensors_parse_type(struct parser *p, struct entry *e)
{
    if (jin_next(&p->j) != '"')
        return REFUSE(p, e->t.name, "has no dtype");
    if (safetensors_parse_read_text(p, e->t.name))
        return -1;
    e->t.type = st_type_parse(p->j.word);
    if (e->t.type < 0)
        return REFUSE(p, e->t.name, "has dtype '%.40s', expected F32, BF16, F16, ...",
                      p->j.word);
    e->has_type = 1;
    return 0;
}

static int safetensors_parse_shape(struct parser *p, struct entry *e)
{
    struct st_tensor *t = &e->t;
    int more;

    if (jin_take(&p->j, '['))
        return REFUSE(p, t->name, "has no shape");
    t->elems = 1;
    for (int n = 0; (more = jin_item(&p->j, ']', &n)) > 0; t->dims = n) {
        if (n > ST_DIMS_MAX)
            return REFUSE(p, t->name, "has more than %d dimensions", ST_DIMS_MAX);
        if (jin_whole(&p->j, &t->shape[n - 1]))
            return REFUSE(p, t->name,
                          "has a shape that is no list of whole numbers below 2^63");
        if (__builtin_mul_overflow(t->elems, t->shape[n - 1], &t->elems))
            return REFUSE(p, t->name, "has a shape of more than 2^63 elements");
    }
    e->has_shape = 1;
    return more < 0 ? no_json(p) : 0;
}

static int parse_offsets(struct parser *p, struct entry *e)
{
    struct jin *j = &p->j;
    int n = 0;

    if (jin_take(j, '[') || jin_item(j, ']', &n) <= 0 || jin_whole(j, &e->t.first) ||
        jin_item(j, ']', &n) <= 0 || jin_whole(j, &e->t.last) || jin_item(j, ']', &n) != 0)
        return REFUSE(p, e->t.name, "has no data_offsets of two whole numbers below 2^63");
    e->has_offsets = 1;
    return 0;
}

static int safetensors_parse_value(struct parser *p, struct entry *e)
{
    static const struct {
        const char *key;
        int (*parse)(struct parser *p, struct entry *e);
    } value[] = {{"dtype", safetensors_parse_type},
                 {"shape", safetensors_parse_shape},
                 {"data_offsets", parse_offsets}};
    const int has[] = {e->has_type, e->has_shape, e->has_offsets};

    if (safetensors_parse_read_text(p, e->t.name))
        return -1;
    for (size_t i = 0; i < sizeof value / sizeof *value; i++) {
        if (strcmp(value[i].key, p->j.word))
            continue;
        if (has[i])
            return REFUSE(p, e->t.name, "has '%s' twice", value[i].key);
        return jin_take(&p->j, ':') ? no_json(p) : value[i].parse(p, e);
    }
    return REFUSE(p, e->t.name, "has '%.40s', expected only dtype, shape and data_offsets",
                  p->j.word);
}

/* Checks that all keys are present, and that the tensor fits the file. */
static int safetensors_parse_check_entry(struct parser *p, const struct entry *e)
{
    const struct st_tensor *t = &e->t;
    int64_t want = 0, data_bytes = p->st->file_bytes - p->st->data;
    char shape[256];

    if (!e->has_type || !e->has_shape || !e->has_offsets)
        return REFUSE(p, t->name, "has no %s",
                      !e->has_type    ? "dtype"
                      : !e->has_shape ? "shape"
                                      : "data_offsets of two whole numbers below 2^63");
    if (t->last < t->first || t->last > data_bytes)
        return REFUSE(p, t->name,
                      "has data_offsets [%" PRId64 ", %" PRId64
                      "], expected within the %" PRId64 " bytes of data",
                      t->first, t->last, data_bytes);
    st_print_shape(t, shape, sizeof shape);
    if (__builtin_mul_overflow(t->elems, (int64_t)st_type_bytes(t->type), &want))
        return REFUSE(p, t->name, "is %s: more than 2^63 bytes", shape);
    if (want != t->last - t->first)
        return REFUSE(p, t->name, "has %" PRId64 " bytes of data, expected %" PRId64 " for %s",
                      t->last - t->first, want, shape);
    return 0;
}

static int parse_tensor(struct parser *p, struct entry *e)
{
    int n = 0, more;

    if (jin_take(&p->j, '{'))
        return REFUSE(p, e->t.name, "is no object");
    while ((more = jin_item(&p->j, '}', &n)) > 0)
        if (safetensors_parse_value(p, e))
            return -1;
    return more < 0 ? no_json(p) : safetensors_parse_check_entry(p, e);
}

/* Called when the name has been read. */
static int safetensors_parse_add_tensor(struct parser *p)
{
    struct st *st = p->st;

    if (ckpt_stopped(p->limits->stop, p->err) || safetensors_parse_check_name(p))
        return -1;
    if (st->count >= p->limits->tensors)
        return REFUSE(p, NULL, "header has more than %" PRId64 " tensors (--max-tensors)",
                      p->limits->tensors);
    struct entry e = {.t.name = mem_dup(p->j.word)};
    st->tensor = mem_grow(st->tensor, &p->space, (size_t)st->count + 1, sizeof *st->tensor);
    int rc = jin_take(&p->j, ':') ? no_json(p) : parse_tensor(p, &e);
    st->tensor[st->count++] = e.t;
    return rc;
}

static int parse_object(struct parser *p)
{
    int n = 0, more, metadata = 0;

    if (jin_take(&p->j, '{'))
        return no_json(p);
    while ((more = jin_item(&p->j, '}', &n)) > 0) {
        if (jin_text(&p->j))
            return no_json(p);
        /* With a trailing 0 byte it is a tensor's name, which is then rejected. */
        if (p->j.word_bytes != 12 || strcmp(p->j.word, "__metadata__")) {
            if (safetensors_parse_add_tensor(p))
                return -1;
            continue;
        }
        if (metadata++)
            return REFUSE(p, "__metadata__", "appears twice");
        if (jin_take(&p->j, ':'))
            return no_json(p);
        if (parse_metadata(p))
            return -1;
    }
    return more < 0 || jin_end(&p->j) ? no_json(p) : 0;
}

/* --- the whole header --- */

static int safetensors_parse_by_place(const void *a, const void *b)
{
    const struct st_tensor *x = a, *y = b;
    int c = MEM_ORDER(x, y, first);

    c = c ? c : MEM_ORDER(x, y, last);
    return c ? c : strcmp(x->name, y->name); /* empty tensors at one offset: any fixed order */
}

/* Sorts, and proves that the tensors fill the data exactly and that names are unique. */
static int arrange_tensors(struct parser *p)
{
    struct st *st = p->st;
    int64_t at = 0, data_bytes = st->file_bytes - st->data;

    if (st->count)
        qsort(st->tensor, (size_t)st->count, sizeof *st->tensor, safetensors_parse_by_place);
    st->by_name = mem_new((size_t)st->count, sizeof *st->by_name);
    for (int i = 0; i < st->count; i++)
        st->by_name[i] = &st->tensor[i];
    qsort(st->by_name, (size_t)st->count, sizeof *st->by_name, st_by_name);
    for (int i = 1; i < st->count; i++)
        if (strcmp(st->by_name[i - 1]->name, st->by_name[i]->name) == 0)
            return REFUSE(p, st->by_name[i]->name, "appears twice");
    for (int i = 0; i < st->count; i++) {
        const struct st_tensor *t = &st->tensor[i];
        if (t->first != at)
            return REFUSE(
                p, t->name, "begins at byte %" PRId64 " of the data, expected %" PRId64 ": %s",
                t->first, at, t->first < at ? "it overlaps another" : "there is a hole");
        at = t->last;
    }
    if (at != data_bytes)
        return REFUSE(p, NULL,
                      "has %" PRId64 " bytes of data, expected %" PRId64 " for its tensors",
                      data_bytes, at);
    return 0;
}

int st_header_size(const char *path, const char head[8], int64_t file_bytes,
                   const struct ckpt_limits *limits, int64_t *out, struct err *err)
{
    uint64_t n = io_le64((const unsigned char *)head);

    /* Compare with the file first: no option raises this bound. */
    if (n > (uint64_t)(file_bytes - 8))
        return err_at(err, path, 0, NULL,
                      "header claims %" PRIu64 " bytes, expected at most %" PRId64, n,
                      file_bytes - 8);
    if (n > (uint64_t)limits->header_bytes)
        return err_at(err, path, 0, NULL,
                      "header has %" PRIu64 " bytes, expected at most %" PRId64
                      " (--max-header)",
                      n, limits->header_bytes);
    *out = (int64_t)n;
    return 0;
}

int st_parse(struct st *st, const char *path, const char *head, int64_t bytes,
             int64_t file_bytes, const struct ckpt_limits *limits, struct err *err)
{
    struct st new = {.fd = -1, .file_bytes = file_bytes};
    struct parser p = {.st = &new, .limits = limits ? limits : &ckpt_limits_usual, .err = err};
    int64_t n = 0;

    if (bytes < 8 || file_bytes < 8)
        return err_at(err, path, 0, NULL, "has %" PRId64 " bytes, expected at least 8", bytes);
    if (st_header_size(path, head, file_bytes, p.limits, &n, err))
        return -1;
    if (bytes - 8 < n)
        return err_at(err, path, 0, NULL, "header ends at byte %" PRId64 ", expected %" PRId64,
                      bytes, n + 8);
    if (n < 2 || head[8] != '{')
        return err_at(err, path, 0, NULL, "header does not begin with '{'");
    new.path = mem_dup(path);
    new.data = 8 + n;
    p.j = (struct jin){.text = head + 8, .bytes = n};
    int rc = err_any(parse_object(&p) || arrange_tensors(&p));
    jin_release(&p.j);
    if (rc)
        st_release(&new);
    else
        *st = new;
    return rc;
}
