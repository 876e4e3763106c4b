/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Selects, reads and writes the files of a model's folder that a run copies into its
 * checkpoints.
 */
#include "shard/shard_carry.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "ckpt/ckpt_write.h"
#include "shard/shard_folder.h"

/* Files of the tokenizer; the last is for text generation. */
static const char *const names[] = {"tokenizer.json",     "tokenizer_config.json",
                                    "vocab.json",         "merges.txt",
                                    "encoder.json",       "vocab.bpe",
                                    "gpt2-encoder.json",  "gpt2-vocab.bpe",
                                    "added_tokens.json",  "special_tokens_map.json",
                                    "tokenizer.model",    "chat_template.jinja",
                                    "chat_template.json", "generation_config.json"};
static const char *const inner[] = {CARRY_LOSSES, CARRY_BASE};
enum { NAMES = sizeof names / sizeof *names, GENERATION = NAMES - 1 };
enum { INNER = sizeof inner / sizeof *inner };

/* Whether it is one of names[first] ... names[end - 1]. */
static int is_named(const char *name, int first, int end)
{
    while (first < end && strcmp(names[first], name))
        first++;
    return first < end;
}

int carry_has(const char *name)
{
    return is_named(name, 0, NAMES);
}

int carry_is_inner(const char *name)
{
    int i = 0;

    while (i < INNER && strcmp(inner[i], name))
        i++;
    return i < INNER;
}

char *carry_path(const char *dir)
{
    return ckpt_is(dir) ? io_join(dir, ckpt_source_folder(CKPT_KEEP_FILE)) : mem_dup(dir);
}

/* Takes ownership of text. */
static void add_text(struct carry *c, const char *name, char *text, int64_t bytes)
{
    if (!c->text) {
        c->list.item = mem_new(NAMES + INNER, sizeof *c->list.item);
        c->text = mem_new(NAMES + INNER, sizeof *c->text);
    }
    assert(c->list.count < NAMES + INNER);
    struct ckpt_source *s = &c->list.item[c->list.count];
    *s = (struct ckpt_source){mem_dup(name), CKPT_KEEP_FILE, bytes, bytes, {0}};
    ckpt_hash(text, bytes, s->hash);
    c->text[c->list.count++] = text;
}

static int carry_ckpt(struct carry *c, struct ckpt *from, int tokenizer, struct err *err)
{
    for (int i = 0; i < from->source.count; i++) {
        const struct ckpt_source *s = &from->source.item[i];
        char *path = NULL, *text = NULL;
        int64_t bytes = 0;
        if (s->keep != CKPT_KEEP_FILE ||
            (!is_named(s->name, tokenizer ? 0 : GENERATION, NAMES) && !carry_is_inner(s->name)))
            continue;
        if (ckpt_find_source(from, s, &path, err))
            return -1;
        int rc = io_read_file(path, CARRY_FILE_MAX, NULL, &text, &bytes, err);
        mem_free(path);
        if (rc)
            return -1;
        add_text(c, s->name, text, bytes);
        if (memcmp(c->list.item[c->list.count - 1].hash, s->hash, sizeof s->hash))
            return err_set(err, ERR_MISMATCH, "'%s' changed while it was read", s->name);
    }
    return 0;
}

/* Reads files of a folder by their names; ignores all others. */
static int shard_carry_named(struct carry *c, const char *dir, int first, int end,
                             struct err *err)
{
    struct folder f = {.dir = dir};
    int rc = 0;

    for (int i = first; rc == 0 && i < end; i++) {
        char *path = io_join(dir, names[i]), *text = NULL;
        int64_t bytes = 0;
        int fd = -1;
        if (!io_absent(path))
            rc = folder_open(&f, names[i], &fd, err);
        if (rc == 0 && fd >= 0)
            rc = io_read_all(fd, path, CARRY_FILE_MAX, NULL, &text, &bytes, err);
        if (fd >= 0)
            close(fd);
        mem_free(path);
        if (text)
            add_text(c, names[i], text, bytes);
    }
    folder_release(&f);
    return rc;
}

int carry_weights(struct carry *c, struct weights *w, int tokenizer, struct err *err)
{
    if (w->is_ckpt)
        return carry_ckpt(c, &w->ckpt, tokenizer, err);
    return w->hf.alone
               ? 0
               : shard_carry_named(c, w->hf.dir, tokenizer ? 0 : GENERATION, NAMES, err);
}

int carry_beside(struct carry *c, struct weights *w, struct err *err)
{
    return w->is_ckpt ? carry_ckpt(c, &w->ckpt, 1, err)
                      : shard_carry_named(c, w->hf.dir, 0, NAMES, err);
}

int carry_folder(struct carry *c, const char *dir, struct err *err)
{
    return shard_carry_named(c, dir, 0, GENERATION, err);
}

int carry_check(const char *dir, struct err *err)
{
    struct carry all = {0};
    struct ckpt c;

    if (!ckpt_is(dir))
        return 0;
    if (ckpt_open(&c, dir, NULL, err))
        return -1;
    int rc = carry_ckpt(&all, &c, 1, err);
    /* A file that is read by name and is missing in the manifest belongs to somebody else. */
    char *folder = carry_path(dir);
    for (int i = 0; rc == 0 && i < NAMES; i++) {
        int listed = ckpt_source_number(&all.list, names[i]) < all.list.count;
        if (!listed && io_has(folder, names[i]))
            rc = err_set(err, ERR_MISMATCH,
                         "'%s/%s' is not in the manifest, expected the files of the split",
                         folder, names[i]);
    }
    mem_free(folder);
    carry_release(&all);
    ckpt_close(&c);
    return rc;
}

int carry_put(const struct carry *c, const struct io_out *dir, struct err *err)
{
    int rc = 0;

    for (int i = 0; rc == 0 && i < c->list.count; i++) {
        const struct ckpt_source *s = &c->list.item[i];
        char *path = io_join(ckpt_source_folder(s->keep), s->name);
        rc = io_dir_put(dir, path, c->text[i], s->bytes, err);
        mem_free(path);
    }
    return rc;
}

void carry_set(struct carry *c, const char *name, const void *bytes, int64_t count)
{
    int i = ckpt_source_number(&c->list, name), last = c->list.count - 1;

    if (i <= last) {
        mem_free(c->list.item[i].name);
        mem_free(c->text[i]);
        c->list.item[i] = c->list.item[last];
        c->text[i] = c->text[last];
        c->list.count--;
    }
    if (!bytes)
        return;
    char *copy = mem_new((size_t)count, 1);
    memcpy(copy, bytes, (size_t)count);
    add_text(c, name, copy, count);
}

void carry_base(struct carry *c, const struct hf *hf)
{
    char *path = realpath(hf->dir, NULL), *hub = path ? strstr(path, "/models--") : NULL;
    char *name = hub ? hub + strlen("/models--") : path;
    char *slash = hub ? strstr(name, "--") : NULL, *end = hub ? strchr(name, '/') : NULL;

    if (hf->alone || !path) {
        free(path);
        return;
    }
    if (slash && end && slash < end && strncmp(end, "/snapshots/", 11) == 0) {
        *slash = '/';
        memmove(slash + 1, slash + 2, (size_t)(end - slash - 2));
        end[-1] = 0;
    } else {
        name = path;
    }
    carry_set(c, CARRY_BASE, name, (int64_t)strlen(name));
    free(path);
}

const char *carry_find(const struct carry *c, const char *name, int64_t *count)
{
    int i = ckpt_source_number(&c->list, name);

    if (i == c->list.count)
        return NULL;
    *count = c->list.item[i].bytes;
    return c->text[i];
}

void carry_release(struct carry *c)
{
    for (int i = 0; i < c->list.count; i++) {
        mem_free(c->list.item[i].name);
        mem_free(c->text[i]);
    }
    mem_free(c->list.item);
    mem_free(c->text);
    *c = (struct carry){0};
}
