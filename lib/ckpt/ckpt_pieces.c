/* SPDX-License-Identifier: BSD-3-Clause */
/* Assembles tensors from pieces, and checks that the pieces cover them. */
#include "ckpt/ckpt_pieces.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "ckpt/ckpt_write.h"

enum {
    /* Pieces of one tensor: in the worst case each is compared with all others */
    PIECES_MAX = 1 << 16,
    COMPARE_BYTES = 1 << 16,
    ROWS_BYTES = 1 << 18 /* bytes read at once, to be distributed */
};

/* --- names --- */

/* Prefixes that programs and wrappers put before a parameter's name or inside it. */
static const char *const before[] = {"model",           "module", "_orig_mod", "optim",
                                     "optimizer",       "state",  "app",       "state_dict",
                                     "_forward_module", NULL};
static const char *const within[] = {"_orig_mod", "_fsdp_wrapped_module",
                                     "_checkpoint_wrapped_module", NULL};

static int pieces_is_word(const char *const *words, const char *part, size_t bytes)
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
static char *pieces_plain_name(const char *key)
{
    char *name = mem_new(strlen(key) + 1, 1), *to = name;
    int state = is_state(key);

    for (size_t n; *key; key += n + (key[n] == '.')) {
        n = strcspn(key, ".");
        int last = key[n] == 0;
        state = state && !(last && (!strcmp(key, "weight") || !strcmp(key, "bias")));
        if (!last &&
            (pieces_is_word(within, key, n) || (to == name && pieces_is_word(before, key, n))))
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

int pieces_file(struct pieces *p, const char *dir, const char *name, int add)
{
    char *path = io_join(dir, name);
    int at = 0, end = p->files;

    while (at < end) {
        int middle = at + (end - at) / 2;
        if (strcmp(p->file[p->sorted[middle]], path) < 0)
            at = middle + 1;
        else
            end = middle;
    }
    int known = at < p->files && strcmp(p->file[p->sorted[at]], path) == 0;
    if (known || !add) {
        mem_free(path);
        return known ? p->sorted[at] : -1;
    }
    size_t need = (size_t)p->files + 1;
    p->file = mem_grow(p->file, &p->file_space, need, sizeof *p->file);
    p->id = mem_grow(p->id, &p->id_space, need, sizeof *p->id);
    p->sorted = mem_grow(p->sorted, &p->sorted_space, need, sizeof *p->sorted);
    memmove(p->sorted + at + 1, p->sorted + at, (size_t)(p->files - at) * sizeof *p->sorted);
    p->sorted[at] = p->files;
    p->id[p->files] = (struct io_id){0};
    p->file[p->files] = path;
    return p->files++;
}

void pieces_add(struct pieces *p, const char *key, const struct st_tensor *part,
                const int64_t *from, const int64_t *whole, int file,
                const struct torch_record *record)
{
    char *name = pieces_plain_name(key);
    size_t n = (size_t)part->dims;

    if (n == 0 || strncmp(name, "param_groups.", 13) == 0) {
        mem_free(name);
        return;
    }
    p->piece = mem_grow(p->piece, &p->piece_space, (size_t)p->count + 1, sizeof *p->piece);
    struct piece *e = &p->piece[p->count++];
    *e = (struct piece){.key = mem_dup(key),
                        .name = name,
                        .type = part->type,
                        .dims = part->dims,
                        .file = file,
                        .at = part->first};
    if (record)
        e->record = *record;
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
        MEM_FREE(p->piece[i].key, p->piece[i].name, p->piece[i].box);
    }
    mem_free(p->sorted);
    io_kept_close(&p->open);
    MEM_FREE(p->file, p->id, p->piece, p->first, p);
}

/* --- completing the tensors --- */

static int pieces_by_place(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    int order = strcmp(x->name, y->name);

    for (int d = 0; order == 0 && d < x->dims && d < y->dims; d++)
        order = (x->box[d] > y->box[d]) - (x->box[d] < y->box[d]);
    return order ? order : (x->file > y->file) - (x->file < y->file);
}

/* Determines the shape of the tensor of pieces p[0] ... p[n - 1], and sets it in all of
   them. */
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
    int d = 0;

    while (d < n && a->box[d] < b->box[d] + b->box[n + d] &&
           b->box[d] < a->box[d] + a->box[n + d])
        d++;
    return d == n;
}

/* Compares copies of one box: several ranks hold and wrote the same parameter. */
static int check_equal(const struct st *st, const struct piece *a, const struct piece *b,
                       const atomic_int *stop, struct err *err)
{
    if (a->file == b->file && a->at == b->at)
        return 0;
    int64_t bytes = volume(a) * st_type_bytes(a->type);
    char *part = mem_new(2, COMPARE_BYTES), *more = part + COMPARE_BYTES;
    struct pieces *pieces = st->pieces;
    const char *path[2] = {pieces->file[a->file], pieces->file[b->file]};
    int fd[2] = {-1, -1};
    int rc = err_any(io_open_same(path[0], &pieces->id[a->file], &fd[0], NULL, err) ||
                     io_open_same(path[1], &pieces->id[b->file], &fd[1], NULL, err));

    for (int64_t at = 0, n; rc == 0 && at < bytes; at += n) {
        n = bytes - at < COMPARE_BYTES ? bytes - at : COMPARE_BYTES;
        rc = err_any(ckpt_stopped(stop, err) || io_pread_all(fd[0], part, n, a->at + at, err) ||
                     io_pread_all(fd[1], more, n, b->at + at, err));
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
 * Checks that pieces, sorted by their first elements, do not overlap unless they are copies.  A
 * copy is compared and then set to have no elements.
 */
static int check_overlaps(const struct st *st, struct piece *p, int64_t n,
                          const atomic_int *stop, struct err *err)
{
    const size_t same = (size_t)(2 * p->dims) * sizeof *p->box;

    for (int64_t i = 0; i < n; i++) {
        const int64_t end = p[i].box[0] + p[i].box[p->dims];
        if (volume(&p[i]) == 0)
            continue;
        if (ckpt_stopped(stop, err))
            return -1;
        for (int64_t k = i + 1; k < n && p[k].box[0] < end; k++) {
            if (volume(&p[k]) == 0 || !overlap(&p[i], &p[k]))
                continue;
            if (memcmp(p[i].box, p[k].box, same))
                return err_at(err, st->path, 0, p[i].key,
                              "has pieces that overlap, in '%s' and '%s'",
                              st->pieces->file[p[i].file], st->pieces->file[p[k].file]);
            if (check_equal(st, &p[i], &p[k], stop, err))
                return -1;
            p[k].box[p->dims] = 0;
        }
    }
    return 0;
}

/* --- runs: elements that are contiguous in a piece and in its tensor --- */

/* Elements of a run: the trailing dimensions that the piece has in full, and the one before
   them. */
static int64_t run_elems(const struct piece *e)
{
    const int64_t *size = e->box + e->dims, *shape = size + e->dims;
    int d = e->dims - 1;
    int64_t n = size[d];

    while (d > 0 && size[d] == shape[d])
        n *= size[--d];
    return n;
}

/* The index in the tensor of an element of the piece. */
static int64_t pieces_place_of(const struct piece *e, int64_t elem)
{
    const int64_t *size = e->box + e->dims, *shape = size + e->dims;
    int64_t at = 0, stride = 1;

    for (int d = e->dims; d-- > 0; elem /= size[d], stride *= shape[d])
        at += (e->box[d] + elem % size[d]) * stride;
    return at;
}

/* Number of runs that begin at or before an element of the tensor. */
static int64_t count_runs(const struct piece *e, int64_t at)
{
    const int64_t run = run_elems(e);
    int64_t lo = 0, hi = volume(e) / run;

    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (pieces_place_of(e, mid * run) <= at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static int pieces_check_whole(const struct st *st, int64_t tensor, struct err *err)
{
    const struct st_tensor *t = &st->tensor[tensor];
    const struct piece *p = st->pieces->piece + st->pieces->first[tensor];
    const int64_t n = st->pieces->first[tensor + 1] - st->pieces->first[tensor];
    int64_t have = 0;
    char shape[256];

    for (int64_t i = 0; i < n; i++)
        have += volume(&p[i]);
    if (have == t->elems)
        return 0;
    st_print_shape(t, shape, sizeof shape);
    return err_at(err, st->path, 0, p->key,
                  "is %s, but its pieces have %" PRId64 " of %" PRId64 " elements", shape, have,
                  t->elems);
}

/* Completes the next tensor, whose pieces begin at *next; advances *next to the one after. */
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
    return pieces_check_whole(st, st->count++, err);
}

int pieces_end(struct st *st, const struct ckpt_limits *limits, struct err *err)
{
    struct pieces *p = st->pieces;
    size_t tensors = 0;

    if (p->count == 0)
        return err_at(err, st->path, 0, NULL, "has no tensors");
    qsort(p->piece, (size_t)p->count, sizeof *p->piece, pieces_by_place);
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

/* Requested elements [lo, hi) of a tensor, and the destination of the first. */
struct part {
    int64_t lo, hi;
    char *out;
};

/* Reads n runs of a piece from number `run` on, which are contiguous in the file. */
static int pieces_read_runs(const struct piece *e, int fd, int64_t run, int64_t n,
                            const struct part *part, struct err *err)
{
    const int64_t size = st_type_bytes(e->type), elems = run_elems(e);
    const int64_t at = e->at + run * elems * size;
    char *rows = n > 1 ? mem_new((size_t)(n * elems), (size_t)size) : NULL;
    int rc = rows ? io_pread_all(fd, rows, n * elems * size, at, err) : 0;

    for (int64_t i = 0; rc == 0 && i < n; i++) {
        int64_t first = pieces_place_of(e, (run + i) * elems);
        int64_t from = first > part->lo ? first : part->lo;
        int64_t to = first + elems < part->hi ? first + elems : part->hi;
        char *out = part->out + (from - part->lo) * size;
        int64_t skip = (i * elems + from - first) * size;
        if (rows)
            memcpy(out, rows + skip, (size_t)((to - from) * size));
        else
            rc = io_pread_all(fd, out, (to - from) * size, at + skip, err);
    }
    mem_free(rows);
    return rc;
}

static int pieces_read_piece(struct pieces *p, struct piece *e, const struct part *part,
                             struct err *err)
{
    const int64_t elems = run_elems(e);
    const int64_t most = ROWS_BYTES / (elems * st_type_bytes(e->type));
    int64_t run = count_runs(e, part->lo - elems), end = count_runs(e, part->hi - 1);
    int rc = 0;

    if (run == end)
        return 0;
    int *fd = io_kept(&p->open, e->file);
    if (*fd < 0 && io_open_same(p->file[e->file], &p->id[e->file], fd, NULL, err))
        return -1;
    rc = torch_check_record(*fd, &e->record, err);
    if (rc == 0)
        e->record = (struct torch_record){0};
    for (int64_t n; rc == 0 && run < end; run += n) {
        n = most < 1 ? 1 : end - run < most ? end - run : most;
        rc = pieces_read_runs(e, *fd, run, n, part, err);
    }
    return rc ? err_prefix(err, "%s: '%.96s': ", p->file[e->file], e->key) : 0;
}

int pieces_read(const struct st *st, const struct st_tensor *t, int64_t first, int64_t bytes,
                void *out, struct err *err)
{
    struct pieces *p = st->pieces;
    const int64_t size = st_type_bytes(t->type), rows = bytes ? t->elems / t->shape[0] : 0;
    const struct part part = {first / size, (first + bytes) / size, out};
    const struct piece *end = p->piece + p->first[t - st->tensor + 1];
    struct piece *e = p->piece + p->first[t - st->tensor];
    int rc = 0;

    /* Pieces are sorted by the first dimension. */
    for (; rc == 0 && e < end && e->box[0] * rows < part.hi; e++)
        if ((e->box[0] + e->box[e->dims]) * rows > part.lo && volume(e))
            rc = pieces_read_piece(p, e, &part, err);
    return rc;
}
