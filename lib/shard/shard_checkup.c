/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds all damage of a checkpoint, not only the first.  Reads the data through a plan of
 * moves, of which only the failures are used.
 */
#include "shard/shard_checkup.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/moments.h"
#include "shard/shard_moves.h"

static int checkup_place_of(const struct checkup *x, int file, int k)
{
    return file * (1 + x->c->copies) + k;
}

static char *path_of(const struct checkup *x, int file, int k)
{
    const struct ckpt *c = x->c;
    int small = file - c->files;

    if (small < 0)
        return ckpt_shard_path(c->dir, &c->groups, file, k);
    if (small < CHECKUP_SOURCES)
        return ckpt_small_path(c->dir, k,
                               small == CHECKUP_MANIFEST ? "manifest.json" : "config.json");
    const struct ckpt_source *s = &c->source.item[small - CHECKUP_SOURCES];
    char *name = io_join(ckpt_source_folder(s->keep), s->name);
    char *path = ckpt_small_path(c->dir, k, name);
    mem_free(name);
    return path;
}

char *checkup_name(const struct checkup *x, int file, int k)
{
    char *path = path_of(x, file, k);
    size_t n = strlen(x->c->dir);
    char *name = mem_dup(path + n + (path[n] == '/'));

    mem_free(path);
    return name;
}

/* Returns -1 if a resource is scarce; any other problem of a file is recorded as damage. */
static int add_damage(struct checkup *x, struct damage w, const struct err *err)
{
    if (err->scarce)
        return -1;
    w.refused = w.kind == DAMAGE_FILE && err->code == ERR_SYS;
    w.text = mem_dup(err->text);
    x->damage = mem_grow(x->damage, &x->space, (size_t)x->damages + 1, sizeof w);
    x->damage[x->damages++] = w;
    return 0;
}

/* --- shards --- */

int checkup_read_header(const struct ckpt_file *file, const char *path, int fd, void **head,
                        struct err *err)
{
    char hash[33];

    if (mem_data(file->header_bytes, "a safetensors header", head, err))
        return -1;
    if (io_pread_all(fd, *head, file->header_bytes, 0, err))
        return err_prefix(err, "%s: ", path);
    ckpt_hash(*head, file->header_bytes, hash);
    return strcmp(hash, file->header_hash)
               ? err_at(err, path, 0, NULL, "header is damaged: checksum %s, expected %s", hash,
                        file->header_hash)
               : 0;
}

static int check_shard(struct checkup *x, int file, int k, struct err *err)
{
    const struct ckpt *c = x->c;
    char *path = path_of(x, file, k), *state = &x->state[checkup_place_of(x, file, k)];
    struct damage w = {.kind = DAMAGE_FILE, .file = file, .copy = k};
    int fd = -1, rc = io_open_whole(path, c->file[file].bytes, &fd, err);

    x->files++;
    if (rc && err->code == ERR_ABSENT)
        err_at(err, path, 0, NULL, "is missing%s",
               c->copies ? "" : ": this rank's share of every unit is lost");
    if (rc == 0) {
        w.kind = DAMAGE_HEADER;
        void *head = NULL;
        rc = checkup_read_header(&c->file[file], path, fd, &head, err);
        mem_free(head);
        *state = rc ? CHECKUP_READABLE : CHECKUP_GOOD;
    }
    if (fd >= 0)
        close(fd);
    mem_free(path);
    return rc ? add_damage(x, w, err) : 0;
}

/* --- blocks --- */

static int by_offset(const void *a, const void *b, void *blocks)
{
    const struct ckpt_block *x = (struct ckpt_block *)blocks + *(const int64_t *)a;
    const struct ckpt_block *y = (struct ckpt_block *)blocks + *(const int64_t *)b;

    if (x->file != y->file)
        return x->file - y->file;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

int64_t *checkup_order(const struct ckpt *c)
{
    int64_t *order = mem_new((size_t)c->blocks, sizeof *order);

    for (int64_t b = 0; b < c->blocks; b++)
        order[b] = b;
    if (c->blocks)
        qsort_r(order, (size_t)c->blocks, sizeof *order, by_offset, c->block);
    return order;
}

static int add_lost_block(void *arg, int file, int64_t block, struct err *err)
{
    struct checkup *x = arg;
    int place = x->place[file], times = 1 + x->c->copies;
    struct damage w = {
        .kind = DAMAGE_BLOCK, .file = place / times, .copy = place % times, .block = block};

    return add_damage(x, w, err);
}

/* Every readable copy is a separate file here, with one path. */
static int check_blocks(struct checkup *x, const struct shard_options *options, struct err *err)
{
    struct ckpt *c = x->c;
    struct moves m = {
        .options = options, .stop = c->stop, .ckpt = c, .lost = add_lost_block, .arg = x};
    int64_t *order = checkup_order(c), first = 0, end;

    x->place = mem_new((size_t)c->files * (1 + (size_t)c->copies), sizeof *x->place);
    for (int f = 0; f < c->files; f++, first = end) {
        for (end = first; end < c->blocks && c->block[order[end]].file == f;)
            end++;
        for (int k = 0; k <= c->copies; k++) {
            if (x->state[checkup_place_of(x, f, k)] == CHECKUP_BAD)
                continue;
            int number = moves_add_file(&m.in, c->file[f].bytes, path_of(x, f, k));
            x->place[number] = checkup_place_of(x, f, k);
            for (int64_t i = first; i < end; i++) {
                const struct ckpt_block *b = &c->block[order[i]];
                moves_add_from(&m, (struct move_from){b->bytes, number, b->offset, b->hash,
                                                      .id = order[i]});
                x->bytes += b->bytes;
            }
        }
    }
    int rc = m.froms ? moves_run(&m, NULL, err) : 0;
    moves_release(&m);
    mem_free(order);
    return rc;
}

/* --- small files --- */

static int check_small(struct checkup *x, int small, int64_t bytes, const char *hash,
                       struct err *err)
{
    int file = x->c->files + small, deep = !x->quick || small < CHECKUP_SOURCES, rc = 0;

    for (int k = 0; rc == 0 && k <= x->c->copies; k++) {
        char *path = path_of(x, file, k);
        int bad = ckpt_check_file(path, bytes, deep ? hash : NULL, x->c->stop, err);
        x->files++;
        if (deep && (!bad || err->code == ERR_MISMATCH))
            x->bytes += bytes;
        if (bad)
            rc = add_damage(x, (struct damage){.kind = DAMAGE_FILE, .file = file, .copy = k},
                            err);
        else
            x->state[checkup_place_of(x, file, k)] = CHECKUP_GOOD;
        mem_free(path);
    }
    return rc;
}

/* --- the whole checkpoint --- */

static int checkup_by_place(const void *a, const void *b, void *checkup)
{
    const struct damage *w[] = {a, b};
    const struct checkup *x = checkup;
    int kind[2];

    for (int i = 0; i < 2; i++)
        kind[i] = w[i]->file >= x->c->files ? 2 : w[i]->kind == DAMAGE_BLOCK;
    if (kind[0] != kind[1])
        return kind[0] - kind[1];
    if (w[0]->file != w[1]->file)
        return w[0]->file - w[1]->file;
    int order = kind[0] == 1 ? by_offset(&w[0]->block, &w[1]->block, x->c->block) : 0;
    return order ? order : w[0]->copy - w[1]->copy;
}

int checkup_run(struct checkup *x, struct ckpt *c, int quick,
                const struct shard_options *options, struct err *err)
{
    struct checkup new = {
        .c = c, .quick = quick, .parts = c->files + CHECKUP_SOURCES + c->source.count};
    char hash[33];
    int64_t bytes = 0;
    int rc = 0;

    new.state = mem_new((size_t) new.parts *(1 + (size_t)c->copies), 1);
    for (int f = 0; rc == 0 && f < c->files; f++)
        for (int k = 0; rc == 0 && k <= c->copies; k++)
            rc = err_any(ckpt_stopped(c->stop, err) || check_shard(&new, f, k, err));
    if (rc == 0 && !quick)
        rc = check_blocks(&new, options, err);
    /* Without copies manifest and config need no check: they have been read. */
    if (rc == 0 && c->copies) {
        char *path = ckpt_small_path(c->dir, c->manifest, "manifest.json");
        rc = err_any(ckpt_hash_file(path, c->stop, &bytes, hash, err) ||
                     check_small(&new, CHECKUP_MANIFEST, bytes, hash, err));
        mem_free(path);
        bytes = (int64_t)strlen(c->model.config);
        ckpt_hash(c->model.config, bytes, hash);
        rc = rc ? rc : check_small(&new, CHECKUP_CONFIG, bytes, hash, err);
    }
    for (int i = 0; rc == 0 && i < c->source.count; i++)
        rc = check_small(&new, CHECKUP_SOURCES + i, c->source.item[i].bytes,
                         c->source.item[i].hash, err);
    if (new.damages)
        qsort_r(new.damage, (size_t) new.damages, sizeof *new.damage, checkup_by_place, &new);
    if (rc)
        checkup_release(&new);
    else
        *x = new;
    return rc;
}

void checkup_release(struct checkup *x)
{
    for (int64_t i = 0; i < x->damages; i++)
        mem_free(x->damage[i].text);
    MEM_FREE(x->damage, x->state, x->place);
    *x = (struct checkup){0};
}

/* --- intact copies --- */

int checkup_find(const struct checkup *x, int file, enum checkup_state state)
{
    for (int k = 0; k <= x->c->copies; k++)
        if (x->state[checkup_place_of(x, file, k)] >= (char)state)
            return k;
    return -1;
}

static int is_damaged(const struct checkup *x, int64_t block, int k)
{
    struct damage key = {
        .kind = DAMAGE_BLOCK, .file = x->c->block[block].file, .copy = k, .block = block};
    int64_t lo = 0, hi = x->damages;

    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        int order = checkup_by_place(&x->damage[mid], &key, (void *)x);
        if (order == 0)
            return 1;
        if (order < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return 0;
}

int checkup_find_block(const struct checkup *x, int64_t block)
{
    int file = x->c->block[block].file;

    for (int k = 0; k <= x->c->copies; k++)
        if (x->state[checkup_place_of(x, file, k)] != CHECKUP_BAD && !is_damaged(x, block, k))
            return k;
    return -1;
}

int checkup_make_header(const struct ckpt *c, int file, char **head, int64_t *bytes)
{
    const struct ckpt_file *was = &c->file[file];
    struct layout layout;
    struct ckpt_shape shape = {&c->model, &layout, c->strategy, c->states, {{{0}, 0, 0}}, 0, 0};
    struct ckpt_shard shard;

    memcpy(shape.state, c->state, sizeof shape.state);
    layout_init(&layout, &c->groups);
    int same = 0;
    for (int i = MOMENTS_F32; !same && i <= MOMENTS_INT8; i += MOMENTS_INT8) {
        layout.grain = moments_grain((enum moments)i);
        ckpt_shard_init(&shard, &shape, file);
        same = strcmp(shard.file.header_hash, was->header_hash) == 0 &&
               shard.file.header_bytes == was->header_bytes;
        if (head && (same || i))
            ckpt_shard_header(&shard, head, bytes);
        ckpt_shard_release(&shard);
    }
    layout_release(&layout);
    return same;
}

/* --- in words --- */

void damage_report(const struct checkup *x, const struct damage *w, struct err *err)
{
    char *path = path_of(x, w->file, w->copy),
         *copy = w->refused ? damage_find_copy(x, w) : NULL;

    *err = (struct err){.code = w->refused && !copy ? ERR_SYS : ERR_MISMATCH};
    snprintf(err->text, sizeof err->text, "%s", w->text);
    snprintf(err->file, sizeof err->file, "%s", path);
    if (w->kind == DAMAGE_BLOCK)
        snprintf(err->key, sizeof err->key, "%.95s",
                 x->c->model.tensor[x->c->block[w->block].tensor].name);
    mem_free(path);
    mem_free(copy);
}

char *damage_find_copy(const struct checkup *x, const struct damage *w)
{
    int shard = w->file < x->c->files && w->kind == DAMAGE_FILE;
    int k = w->kind == DAMAGE_BLOCK
                ? checkup_find_block(x, w->block)
                : checkup_find(x, w->file, shard ? CHECKUP_READABLE : CHECKUP_GOOD);

    return k < 0 ? NULL : checkup_name(x, w->file, k);
}
