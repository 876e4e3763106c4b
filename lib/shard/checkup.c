/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how to find out what is wrong with a checkpoint: all of it, not the first alone.  The
 * data goes through ckpt_move, of which nothing is wanted but what it misses.
 */
#include "shard/checkup.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "shard/moves.h"

static void add(struct checkup *x, const struct wound *w, const struct err *err)
{
    x->wound = mem_grow(x->wound, &x->room, (size_t)x->wounds + 1, sizeof *w);
    x->wound[x->wounds] = *w;
    x->wound[x->wounds++].text = err ? mem_dup(err->text) : NULL;
}

/* Whatever is the matter with a file is an answer; what we have too little of is an error. */
static int is_answer(const struct err *err)
{
    return !err->scarce;
}

/* --- shards --- */

static int check_header(const struct ckpt_file *file, const char *path, int fd, struct err *err)
{
    void *head = NULL;
    char hash[33];
    int rc = mem_data(file->header_bytes, "a safetensors header", &head, err);

    if (rc == 0 && io_pread_all(fd, head, file->header_bytes, 0, err))
        rc = err_prefix(err, "%s: ", path);
    if (rc == 0) {
        ckpt_hash(head, file->header_bytes, hash);
        if (strcmp(hash, file->header_hash))
            rc = err_at(err, path, 0, NULL, "header is damaged: checksum %s, expected %s", hash,
                        file->header_hash);
    }
    mem_free(head);
    return rc;
}

static int open_shard(const struct ckpt *c, int file, const char *path, int *fd,
                      struct err *err)
{
    int64_t bytes = 0, expected = c->file[file].bytes;

    if (io_open(path, fd, &bytes, err))
        return err->code == ERR_ABSENT
                   ? err_at(err, path, 0, NULL, "is missing%s",
                            c->copies ? "" : ": this rank's share of every unit is lost")
                   : -1;
    return bytes == expected
               ? 0
               : err_at(err, path, 0, NULL, "has %" PRId64 " bytes, expected %" PRId64, bytes,
                        expected);
}

static int check_shard(struct checkup *x, int file, int k, struct err *err)
{
    struct ckpt *c = x->c;
    char *path = ckpt_shard_path(c->dir, &c->groups, file, k);
    int64_t place = (int64_t)file * (1 + c->copies) + k;
    struct wound w = {.kind = WOUND_FILE, .file = file, .copy = k};
    int fd = -1, rc = open_shard(c, file, path, &fd, err);

    x->files++;
    x->readable[place] = rc == 0;
    if (rc == 0) {
        w.kind = WOUND_HEADER;
        rc = check_header(&c->file[file], path, fd, err);
        x->headed[place] = rc == 0;
    }
    if (fd >= 0)
        close(fd);
    mem_free(path);
    if (rc && !is_answer(err))
        return -1;
    w.refused = w.kind == WOUND_FILE && rc && err->code == ERR_SYS;
    if (rc)
        add(x, &w, err);
    return 0;
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

/* Blocks of a readable copy, which is a file of its own here, with one path. */
static void add_blocks(struct moves *m, struct checkup *x, const int64_t *order, int64_t count,
                       int file, int k)
{
    const struct ckpt *c = x->c;
    int number = moves_add_in(m, c->file[file].bytes);

    moves_add_path(&m->in, ckpt_shard_path(c->dir, &c->groups, file, k));
    x->copy[number] = k;
    for (int64_t i = 0; i < count; i++) {
        const struct ckpt_block *b = &c->block[order[i]];
        moves_add_from(m, (struct move_from){b->bytes, number, b->offset, b->hash},
                       (struct moves_piece){.id = order[i]});
        x->bytes += b->bytes;
    }
}

static int take_lost(void *arg, int file, int64_t block, struct err *err)
{
    struct checkup *x = arg;
    struct wound w = {.kind = WOUND_BLOCK,
                      .file = x->c->block[block].file,
                      .copy = x->copy[file],
                      .block = block};

    if (err->code == ERR_MISMATCH)
        snprintf(w.hash, sizeof w.hash, "%.32s", err->text);
    add(x, &w, err->code == ERR_MISMATCH ? NULL : err);
    return 0;
}

static int check_blocks(struct checkup *x, const struct shard_means *given, struct err *err)
{
    const struct ckpt *c = x->c;
    struct shard_means means = *given;
    struct moves m = {.means = &means, .stop = c->stop, .lost = take_lost, .arg = x};
    int64_t *order = checkup_order(c), first = 0, end;

    if (means.buffer < c->block_bytes)
        means.buffer = c->block_bytes;
    x->copy = mem_new((size_t)c->files * (1 + (size_t)c->copies), sizeof *x->copy);
    for (int f = 0; f < c->files; f++, first = end) {
        for (end = first; end < c->blocks && c->block[order[end]].file == f;)
            end++;
        for (int k = 0; k <= c->copies; k++)
            if (x->readable[(int64_t)f * (1 + c->copies) + k])
                add_blocks(&m, x, order + first, end - first, f, k);
    }
    int rc = m.froms ? moves_run(&m, NULL, err) : 0;
    moves_release(&m);
    mem_free(order);
    return rc;
}

/* --- what is small --- */

char *checkup_small_name(const struct ckpt *c, int number)
{
    if (number < CHECKUP_SOURCES)
        return mem_dup(number == CHECKUP_MANIFEST ? "manifest.json" : "config.json");
    const struct ckpt_source *s = &c->source.item[number - CHECKUP_SOURCES];
    return io_join(ckpt_source_folder(s->keep), s->name);
}

static int check_small(struct checkup *x, int number, int k, int64_t expected, const char *hash,
                       struct err *err)
{
    char *name = checkup_small_name(x->c, number), *path = ckpt_small_path(x->c->dir, k, name);
    struct wound w = {.kind = WOUND_SMALL, .file = number, .copy = k};
    int deep = !x->quick || number < CHECKUP_SOURCES;
    int rc = ckpt_check_file(path, expected, deep ? hash : NULL, x->c->stop, err);

    x->files++;
    if (deep && (rc == 0 || err->code == ERR_MISMATCH))
        x->bytes += expected;
    mem_free(name);
    mem_free(path);
    x->kept[(int64_t)number * (1 + x->c->copies) + k] = rc == 0;
    if (rc && !is_answer(err))
        return -1;
    w.refused = rc && err->code == ERR_SYS;
    if (rc)
        add(x, &w, err);
    return 0;
}

/* Without copies the manifest and the config are what they are: they have been read. */
static int check_all_small(struct checkup *x, struct err *err)
{
    const struct ckpt *c = x->c;
    char *path = ckpt_small_path(c->dir, c->manifest, "manifest.json"), hash[33];
    int64_t bytes = 0;
    int rc = c->copies ? ckpt_hash_file(path, c->stop, &bytes, hash, err) : 0;

    for (int k = 0; rc == 0 && c->copies && k <= c->copies; k++)
        rc = check_small(x, CHECKUP_MANIFEST, k, bytes, hash, err);
    bytes = (int64_t)strlen(c->model.config);
    ckpt_hash(c->model.config, bytes, hash);
    for (int k = 0; rc == 0 && c->copies && k <= c->copies; k++)
        rc = check_small(x, CHECKUP_CONFIG, k, bytes, hash, err);
    for (int i = 0; rc == 0 && i < c->source.count; i++)
        for (int k = 0; rc == 0 && k <= c->copies; k++)
            rc = check_small(x, CHECKUP_SOURCES + i, k, c->source.item[i].bytes,
                             c->source.item[i].hash, err);
    mem_free(path);
    return rc;
}

/* --- all of it --- */

static int by_place(const void *a, const void *b, void *blocks)
{
    const struct wound *x = a, *y = b;
    int block = x->kind == WOUND_BLOCK, last = y->kind == WOUND_BLOCK;

    if (block != last || (x->kind == WOUND_SMALL) != (y->kind == WOUND_SMALL))
        return (block + 2 * (x->kind == WOUND_SMALL)) - (last + 2 * (y->kind == WOUND_SMALL));
    if (x->file != y->file)
        return x->file - y->file;
    int order = block ? by_offset(&x->block, &y->block, blocks) : 0;
    return order ? order : x->copy - y->copy;
}

int checkup_run(struct checkup *x, struct ckpt *c, int quick, const struct shard_means *means,
                struct err *err)
{
    size_t times = 1 + (size_t)c->copies;
    struct checkup new = {.c = c, .quick = quick, .small = CHECKUP_SOURCES + c->source.count};
    int rc = 0;

    new.readable = mem_new((size_t)c->files * times, 1);
    new.headed = mem_new((size_t)c->files * times, 1);
    new.kept = mem_new((size_t) new.small *times, 1);
    for (int f = 0; rc == 0 && f < c->files; f++)
        for (int k = 0; rc == 0 && k <= c->copies; k++)
            rc = ckpt_stopped(c->stop, err) || check_shard(&new, f, k, err) ? -1 : 0;
    if (rc == 0 && !quick)
        rc = check_blocks(&new, means, err);
    if (rc == 0)
        rc = check_all_small(&new, err);
    if (new.wounds)
        qsort_r(new.wound, (size_t) new.wounds, sizeof *new.wound, by_place, c->block);
    if (rc)
        checkup_release(&new);
    else
        *x = new;
    return rc;
}

void checkup_release(struct checkup *x)
{
    for (int64_t i = 0; i < x->wounds; i++)
        mem_free(x->wound[i].text);
    mem_free(x->wound);
    mem_free(x->readable);
    mem_free(x->headed);
    mem_free(x->kept);
    mem_free(x->copy);
    *x = (struct checkup){0};
}

/* --- what is good --- */

static int first_of(const char *good, int number, int copies)
{
    for (int k = 0; k <= copies; k++)
        if (good[(int64_t)number * (1 + copies) + k])
            return k;
    return -1;
}

int checkup_readable(const struct checkup *x, int file)
{
    return first_of(x->readable, file, x->c->copies);
}

int checkup_good_header(const struct checkup *x, int file)
{
    return first_of(x->headed, file, x->c->copies);
}

int checkup_good_small(const struct checkup *x, int number)
{
    return first_of(x->kept, number, x->c->copies);
}

static int is_wounded(const struct checkup *x, int64_t block, int k)
{
    struct wound key = {
        .kind = WOUND_BLOCK, .file = x->c->block[block].file, .copy = k, .block = block};
    int64_t lo = 0, hi = x->wounds;

    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        int order = by_place(&x->wound[mid], &key, x->c->block);
        if (order == 0)
            return 1;
        if (order < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return 0;
}

int checkup_good_block(const struct checkup *x, int64_t block)
{
    int64_t first = (int64_t)x->c->block[block].file * (1 + x->c->copies);

    for (int k = 0; k <= x->c->copies; k++)
        if (x->readable[first + k] && !is_wounded(x, block, k))
            return k;
    return -1;
}

/* The shard as it would be written now; its header is freed with mem_free. */
static struct ckpt_file shard_anew(const struct ckpt *c, int file, char **head, int64_t *bytes)
{
    struct layout layout;
    struct ckpt_shape shape = {&c->model, &layout, c->strategy, c->states, {{{0}, 0}}, 0};
    struct ckpt_shard shard;

    memcpy(shape.state, c->state, sizeof shape.state);
    layout_init(&layout, &c->groups);
    ckpt_shard_init(&shard, &shape, file);
    struct ckpt_file anew = shard.file;
    ckpt_shard_header(&shard, head, bytes);
    ckpt_shard_release(&shard);
    layout_release(&layout);
    return anew;
}

int checkup_header_known(const struct ckpt *c, int file)
{
    char *head = NULL;
    int64_t bytes = 0;
    struct ckpt_file anew = shard_anew(c, file, &head, &bytes);

    mem_free(head);
    return strcmp(anew.header_hash, c->file[file].header_hash) == 0 &&
           anew.header_bytes == c->file[file].header_bytes;
}

void checkup_header_make(const struct ckpt *c, int file, char **head, int64_t *bytes)
{
    shard_anew(c, file, head, bytes);
}

/* --- in words --- */

static char *copy_path(const struct checkup *x, const struct wound *w, int k)
{
    if (w->kind != WOUND_SMALL)
        return ckpt_shard_path(x->c->dir, &x->c->groups, w->file, k);
    char *name = checkup_small_name(x->c, w->file), *path = ckpt_small_path(x->c->dir, k, name);
    mem_free(name);
    return path;
}

/* Without the checkpoint's own folder. */
static char *inside(const struct ckpt *c, char *path)
{
    size_t n = strlen(c->dir);
    char *name = mem_dup(path + n + (c->dir[n - 1] != '/'));

    mem_free(path);
    return name;
}

void wound_say(const struct checkup *x, const struct wound *w, struct err *err)
{
    char *path = copy_path(x, w, w->copy);

    *err = (struct err){.code = ERR_MISMATCH};
    if (w->kind == WOUND_BLOCK)
        ckpt_say_damaged(x->c, &x->c->block[w->block], path, w->hash, err);
    else
        snprintf(err->file, sizeof err->file, "%s", path);
    if (w->text)
        snprintf(err->text, sizeof err->text, "%s", w->text);
    mem_free(path);
    char *cure = w->refused ? wound_cure(x, w) : NULL;
    if (w->refused && !cure)
        err->code = ERR_SYS;
    mem_free(cure);
}

char *wound_file(const struct checkup *x, const struct wound *w)
{
    return inside(x->c, copy_path(x, w, w->copy));
}

char *wound_cure(const struct checkup *x, const struct wound *w)
{
    int k = w->kind == WOUND_BLOCK    ? checkup_good_block(x, w->block)
            : w->kind == WOUND_SMALL  ? checkup_good_small(x, w->file)
            : w->kind == WOUND_HEADER ? checkup_good_header(x, w->file)
                                      : checkup_readable(x, w->file);

    return k < 0 ? NULL : inside(x->c, copy_path(x, w, k));
}
