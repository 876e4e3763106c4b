/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how tensors are put together from parts, and that the parts are all of them. */
#include "ckpt/pieces.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "ckpt/ckpt_write.h"

/* Of one tensor: each is compared with its neighbours, at worst with all others. */
enum { PIECES_MAX = 1 << 16, COMPARE_BYTES = 1 << 16, LOOKS_MAX = 1 << 20 };

/* --- names --- */

/* What programs and wrappers put before a parameter's name, and among its parts. */
static const char *const before[] = {"model",           "module", "_orig_mod", "optim",
                                     "optimizer",       "state",  "app",       "state_dict",
                                     "_forward_module", NULL};
static const char *const within[] = {"_orig_mod", "_fsdp_wrapped_module",
                                     "_checkpoint_wrapped_module", NULL};

static int is_word(const char *const *words, const char *part, size_t bytes)
{
    while (*words && (strlen(*words) != bytes || memcmp(*words, part, bytes)))
        words++;
    return *words != NULL;
}

static int is_state(const char *key)
{
    return strstr(key, ".state.") || strncmp(key, "state.", 6) == 0;
}

/* "optim.state.model.layers.0.mlp.up_proj.weight.exp_avg": "layers. ... .weight/exp_avg" */
static char *plain_name(const char *key)
{
    char *name = mem_new(strlen(key) + 1, 1), *to = name;
    int state = is_state(key);

    for (size_t n; *key; key += n + (key[n] == '.')) {
        n = strcspn(key, ".");
        int last = key[n] == 0;
        state = state && !(last && (!strcmp(key, "weight") || !strcmp(key, "bias")));
        if (!last && (is_word(within, key, n) || (to == name && is_word(before, key, n))))
            continue;
        if (to > name)
            *to++ = last && state ? '/' : '.';
        memcpy(to, key, n);
        to += n;
    }
    return name;
}

char *pieces_state(const char *name)
{
    return strrchr(name, '/');
}

int pieces_is_step(const char *key)
{
    size_t n = strlen(key);

    return n > 5 && strcmp(key + n - 5, ".step") == 0 && is_state(key);
}

int pieces_step(struct pieces *p, const char *key, int64_t step, const char *path,
                struct err *err)
{
    if (step < 0 || step > CKPT_RUN_MAX)
        return err_at(err, path, 0, key, "is %" PRId64 ", expected 0 to 1e18", step);
    if (p->step >= 0 && p->step != step)
        return err_at(err, path, 0, key, "is %" PRId64 ", expected %" PRId64 " as others", step,
                      p->step);
    p->step = step;
    return 0;
}

/* --- collecting --- */

int pieces_file(struct pieces *p, const char *dir, const char *name)
{
    char *path = io_join(dir, name);

    for (int i = p->files; i-- > 0;) {
        if (strcmp(p->file[i], path) == 0) {
            mem_free(path);
            return i;
        }
    }
    p->file = mem_grow(p->file, &p->file_room, (size_t)p->files + 1, sizeof *p->file);
    p->file[p->files] = path;
    return p->files++;
}

void pieces_add(struct pieces *p, const char *key, const struct st_tensor *part,
                const int64_t *from, const int64_t *whole, int file)
{
    char *name = plain_name(key);
    size_t n = (size_t)part->dims;

    if (n == 0 || strncmp(name, "param_groups.", 13) == 0) {
        mem_free(name);
        return;
    }
    p->piece = mem_grow(p->piece, &p->piece_room, (size_t)p->count + 1, sizeof *p->piece);
    struct piece *e = &p->piece[p->count++];
    *e = (struct piece){mem_dup(key), name, part->type, part->dims, file, part->first, NULL};
    e->box = mem_new(3 * n, sizeof *e->box);
    if (from)
        memcpy(e->box, from, n * sizeof *from);
    memcpy(e->box + n, part->shape, n * sizeof *part->shape);
    if (whole)
        memcpy(e->box + 2 * n, whole, n * sizeof *whole);
}

void pieces_free(struct pieces *p)
{
    if (!p)
        return;
    for (int i = 0; i < p->files; i++)
        mem_free(p->file[i]);
    for (int64_t i = 0; i < p->count; i++) {
        mem_free(p->piece[i].key);
        mem_free(p->piece[i].name);
        mem_free(p->piece[i].box);
    }
    mem_free(p->file);
    mem_free(p->piece);
    mem_free(p->first);
    mem_free(p);
}

/* --- all of them --- */

static int by_place(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    int order = strcmp(x->name, y->name);

    for (int d = 0; order == 0 && d < x->dims && d < y->dims; d++)
        order = (x->box[d] > y->box[d]) - (x->box[d] < y->box[d]);
    return order ? order : (x->file > y->file) - (x->file < y->file);
}

/* The shape of a tensor of pieces p[0] ... p[n - 1], which they then all have. */
static int find_shape(const struct st *st, struct st_tensor *t, struct piece *p, int64_t n,
                      struct err *err)
{
    *t = (struct st_tensor){.type = p->type, .dims = p->dims, .elems = 1};
    memcpy(t->shape, p->box + 2 * t->dims, (size_t)t->dims * sizeof *t->shape);
    for (int64_t i = 0; i < n; i++) {
        const int64_t *box = p[i].box;
        if (strcmp(p[i].key, p->key))
            return err_at(err, st->path, 0, p[i].key, "is also there as '%s'", p->key);
        if (p[i].type != t->type || p[i].dims != t->dims)
            return err_at(err, st->path, 0, p->key,
                          "has pieces of several types or dimensions");
        for (int d = 0; d < t->dims; d++) {
            int64_t end = 0, whole = box[2 * t->dims + d];
            if (__builtin_add_overflow(box[d], box[t->dims + d], &end) ||
                (whole && end > whole))
                return err_at(err, st->path, 0, p->key, "has a piece outside its shape");
            if (!whole && end > t->shape[d])
                t->shape[d] = end;
        }
    }
    int large = 0;
    for (int d = 0; d < t->dims; d++)
        large |= __builtin_mul_overflow(t->elems, t->shape[d], &t->elems);
    if (large || __builtin_mul_overflow(t->elems, (int64_t)st_type_bytes(t->type), &t->last))
        return err_at(err, st->path, 0, p->key, "has a shape of more than 2^63 bytes");
    for (int64_t i = 0; i < n; i++)
        memcpy(p[i].box + 2 * t->dims, t->shape, (size_t)t->dims * sizeof *t->shape);
    return 0;
}

static int64_t volume(const struct piece *p)
{
    int64_t n = 1;

    for (int d = 0; d < p->dims; d++)
        n *= p->box[p->dims + d];
    return n;
}

static int overlap(const struct piece *a, const struct piece *b)
{
    const int n = a->dims;
    int common = volume(a) && volume(b);

    for (int d = 0; common && d < n; d++)
        common = a->box[d] < b->box[d] + b->box[n + d] && b->box[d] < a->box[d] + a->box[n + d];
    return common;
}

/* Copies of one box: of a parameter that several ranks hold and wrote. */
static int check_equal(const struct st *st, const struct piece *a, const struct piece *b,
                       const atomic_int *stop, struct err *err)
{
    if (a->file == b->file && a->at == b->at)
        return 0;
    int64_t bytes = volume(a) * st_type_bytes(a->type);
    char *part = mem_new(2, COMPARE_BYTES), *more = part + COMPARE_BYTES;
    const char *path[2] = {st->pieces->file[a->file], st->pieces->file[b->file]};
    int fd[2] = {-1, -1};
    int rc =
        io_open(path[0], &fd[0], NULL, err) || io_open(path[1], &fd[1], NULL, err) ? -1 : 0;

    for (int64_t at = 0, n; rc == 0 && at < bytes; at += n) {
        n = bytes - at < COMPARE_BYTES ? bytes - at : COMPARE_BYTES;
        rc = ckpt_stopped(stop, err) || io_pread_all(fd[0], part, n, a->at + at, err) ||
                     io_pread_all(fd[1], more, n, b->at + at, err)
                 ? -1
                 : 0;
        if (rc == 0 && memcmp(part, more, (size_t)n))
            rc = err_at(err, st->path, 0, a->key, "has different values in '%s' and '%s'",
                        path[0], path[1]);
    }
    for (int i = 0; i < 2; i++)
        if (fd[i] >= 0)
            close(fd[i]);
    mem_free(part);
    return rc;
}

/*
 * Sorted pieces p[0] ... p[n - 1] of a tensor: a copy is checked and then has no elements;
 * others do not overlap.  Those that begin at or after the end of one in the first dimension
 * cannot overlap it.
 */
static int check_overlaps(const struct st *st, struct piece *p, int64_t n,
                          const atomic_int *stop, struct err *err)
{
    const size_t same = (size_t)(2 * p->dims) * sizeof *p->box;

    for (int64_t i = 0, oldest = 0; i < n; i++) {
        while (oldest < i && p[oldest].box[0] + p[oldest].box[p->dims] <= p[i].box[0])
            oldest++;
        if (ckpt_stopped(stop, err))
            return -1;
        for (int64_t k = oldest; k < i; k++) {
            if (!overlap(&p[k], &p[i]))
                continue;
            if (memcmp(p[k].box, p[i].box, same))
                return err_at(err, st->path, 0, p->key,
                              "has pieces that overlap, in '%s' and '%s'",
                              st->pieces->file[p[k].file], st->pieces->file[p[i].file]);
            if (check_equal(st, &p[k], &p[i], stop, err))
                return -1;
            p[i].box[p->dims] = 0;
        }
    }
    return 0;
}

/* The piece of tensor t that has element `at`, *run elements from there on, or NULL. */
static const struct piece *find_piece(const struct pieces *p, const struct piece *from,
                                      int64_t tensor, int64_t at, int64_t *place, int64_t *run)
{
    const struct piece *first = p->piece + p->first[tensor];
    const struct piece *end = p->piece + p->first[tensor + 1], *e = from;
    int64_t index[ST_DIMS_MAX];
    const int n = first->dims;
    const int64_t *shape = first->box + 2 * n;

    for (int d = n; d-- > 0; at /= shape[d])
        index[d] = at % shape[d];
    for (int64_t left = end - first; left > 0; left--, e = e + 1 < end ? e + 1 : first) {
        int64_t inside = 0, run_size = 1, skipped = 0;
        int d = 0;
        while (d < n && index[d] >= e->box[d] && index[d] < e->box[d] + e->box[n + d]) {
            inside = inside * e->box[n + d] + index[d] - e->box[d];
            d++;
        }
        if (d < n)
            continue;
        /* Rows that the piece has whole follow each other. */
        while (d-- > 0) {
            skipped += (index[d] - e->box[d]) * run_size;
            run_size *= e->box[n + d];
            if (e->box[n + d] != shape[d])
                break;
        }
        *place = e->at + inside * st_type_bytes(e->type);
        *run = run_size - skipped;
        return e;
    }
    return NULL;
}

static int check_whole(const struct st *st, int64_t tensor, struct err *err)
{
    const struct st_tensor *t = &st->tensor[tensor];
    const struct pieces *p = st->pieces;
    const struct piece *e = p->piece + p->first[tensor];
    int64_t have = 0, place, run, at = 0;
    int looks = LOOKS_MAX;
    char shape[256];

    for (int64_t i = p->first[tensor]; i < p->first[tensor + 1]; i++)
        have += volume(&p->piece[i]);
    if (have == t->elems)
        return 0;
    for (const struct piece *f = e;
         looks-- && (f = find_piece(p, f, tensor, at, &place, &run));)
        at += run;
    st_print_shape(t, shape, sizeof shape);
    return err_at(err, st->path, 0, e->key,
                  "is %s, but its pieces have %" PRId64 " of %" PRId64
                  " elements: one from element %" PRId64 " on is missing",
                  shape, have, t->elems, at);
}

/* The next tensor, whose pieces begin with *next, which becomes the first of the one after. */
static int end_tensor(struct st *st, int64_t *next, const struct ckpt_limits *l,
                      struct err *err)
{
    struct pieces *p = st->pieces;
    struct piece *first = p->piece + *next;
    struct st_tensor *t = &st->tensor[st->count];
    const char *c = first->name;
    int64_t n = 1;

    while (*c && utf8_next(c, NULL))
        c += utf8_next(c, NULL);
    while (*next + n < p->count && strcmp(first[n].name, first->name) == 0)
        n++;
    p->first[st->count] = *next;
    p->first[st->count + 1] = *next += n;
    if (*c || (int64_t)strlen(first->key) > l->name_bytes ||
        utf8_controls(first->name, (int64_t)strlen(first->name)))
        return err_at(err, st->path, 0, first->key,
                      "is longer than %" PRId64 " bytes (--max-name), or no printable text",
                      l->name_bytes);
    if (n > PIECES_MAX)
        return err_at(err, st->path, 0, first->key,
                      "has %" PRId64 " pieces, expected at most %d", n, PIECES_MAX);
    if (find_shape(st, t, first, n, err) || check_overlaps(st, first, n, l->stop, err))
        return -1;
    t->name = mem_dup(first->name);
    return check_whole(st, st->count++, err);
}

int pieces_end(struct st *st, const struct ckpt_limits *limits, struct err *err)
{
    struct pieces *p = st->pieces;
    size_t tensors = 0;

    if (p->count == 0)
        return err_at(err, st->path, 0, NULL, "has no tensors");
    qsort(p->piece, (size_t)p->count, sizeof *p->piece, by_place);
    for (int64_t i = 0; i < p->count; i++)
        tensors += i == 0 || strcmp(p->piece[i].name, p->piece[i - 1].name);
    if (tensors > (size_t)limits->tensors)
        return err_at(err, st->path, 0, NULL,
                      "has %zu tensors, expected at most %" PRId64 " (--max-tensors)", tensors,
                      limits->tensors);
    st->tensor = mem_new(tensors, sizeof *st->tensor);
    st->by_name = mem_new(tensors, sizeof *st->by_name);
    p->first = mem_new(tensors + 1, sizeof *p->first);
    for (int64_t next = 0; next < p->count;)
        if (end_tensor(st, &next, limits, err))
            return -1;
    for (int i = 0; i < st->count; i++)
        st->by_name[i] = &st->tensor[i];
    return 0;
}

int pieces_read(const struct st *st, const struct st_tensor *t, int64_t first, int64_t bytes,
                void *out, struct err *err)
{
    const struct pieces *p = st->pieces;
    const int64_t tensor = t - st->tensor, size = st_type_bytes(t->type);
    const struct piece *e = p->piece + p->first[tensor];
    int64_t at = first / size, end = (first + bytes) / size, place, run;
    int fd = -1, open = -1, rc = 0;
    char *to = out;

    for (; rc == 0 && at < end; at += run, to += run * size) {
        e = find_piece(p, e, tensor, at, &place, &run);
        run = run < end - at ? run : end - at;
        if (open != e->file && fd >= 0)
            close(fd);
        if (open != e->file && io_open(p->file[open = e->file], &fd, NULL, err))
            return -1;
        rc = io_pread_all(fd, to, run * size, place, err);
        if (rc)
            err_prefix(err, "%s: '%.96s': ", p->file[e->file], e->key);
    }
    if (fd >= 0)
        close(fd);
    return rc;
}
