/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows which files of a model's folder a run carries from its start to its checkpoints. */
#include "ckpt/ckpt_carry.h"

#include <assert.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "ckpt/ckpt_parts.h"

enum { FILE_MAX = 256 << 20 }; /* the largest in use, of 256,000 tokens, have 35 MB */

static const char generation[] = "generation_config.json";
static const char *const names[] = {"tokenizer.json",    "tokenizer_config.json",
                                    "vocab.json",        "merges.txt",
                                    "encoder.json",      "vocab.bpe",
                                    "gpt2-encoder.json", "gpt2-vocab.bpe",
                                    "added_tokens.json", "special_tokens_map.json",
                                    "tokenizer.model",   "chat_template.jinja",
                                    "chat_template.json"};

int ckpt_carries_tokenizer(const char *name)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0)
            return 1;
    return 0;
}

int ckpt_carries(const char *name)
{
    return ckpt_carries_tokenizer(name) || strcmp(name, generation) == 0;
}

char *ckpt_carry_path(const char *dir)
{
    return ckpt_is(dir) ? io_join(dir, ckpt_source_folder(CKPT_KEEP_FILE)) : mem_dup(dir);
}

/* Takes text. */
static void add(struct ckpt_carry *c, const char *name, char *text, int64_t bytes)
{
    enum { MOST = sizeof names / sizeof *names + 1 }; /* each once */

    if (!c->text) {
        c->list.item = mem_new(MOST, sizeof *c->list.item);
        c->text = mem_new(MOST, sizeof *c->text);
    }
    assert(c->list.count < MOST);
    struct ckpt_source *s = &c->list.item[c->list.count];
    *s = (struct ckpt_source){mem_dup(name), CKPT_KEEP_FILE, bytes, bytes, {0}};
    ckpt_hash(text, bytes, s->hash);
    c->text[c->list.count++] = text;
}

static int wanted(const char *name, int tokenizer)
{
    return tokenizer ? ckpt_carries(name) : strcmp(name, generation) == 0;
}

static int carry_ckpt(struct ckpt_carry *c, struct ckpt *from, int tokenizer, struct err *err)
{
    for (int i = 0; i < from->source.count; i++) {
        const struct ckpt_source *s = &from->source.item[i];
        char *path = NULL, *text = NULL;
        int64_t bytes = 0;
        if (s->keep != CKPT_KEEP_FILE || !wanted(s->name, tokenizer))
            continue;
        if (ckpt_find_source(from, s, &path, err))
            return -1;
        int rc = io_read_file(path, FILE_MAX, NULL, &text, &bytes, err);
        mem_free(path);
        if (rc)
            return -1;
        add(c, s->name, text, bytes);
        if (memcmp(c->list.item[c->list.count - 1].hash, s->hash, sizeof s->hash))
            return err_set(err, ERR_MISMATCH, "'%s' changed while it was read", s->name);
    }
    return 0;
}

/* Files of a folder by their names: nothing else in it matters. */
static int carry_named(struct ckpt_carry *c, struct hf *hf, const char *const *name, size_t n,
                       struct err *err)
{
    for (size_t i = 0; i < n; i++) {
        char *path = io_join(hf->dir, name[i]), *text = NULL;
        int64_t bytes = 0;
        int fd = -1, rc = 0;
        if (!io_absent(path))
            rc = hf_open_named(hf, name[i], &fd, err);
        if (rc == 0 && fd >= 0)
            rc = io_read_all(fd, path, FILE_MAX, NULL, &text, &bytes, err);
        if (fd >= 0)
            close(fd);
        mem_free(path);
        if (rc)
            return -1;
        if (text)
            add(c, name[i], text, bytes);
    }
    return 0;
}

int ckpt_carry_weights(struct ckpt_carry *c, struct weights *w, int tokenizer, struct err *err)
{
    static const char *const made = generation;

    if (w->is_ckpt)
        return carry_ckpt(c, &w->ckpt, tokenizer, err);
    if (w->hf.alone)
        return 0;
    if (tokenizer && carry_named(c, &w->hf, names, sizeof names / sizeof *names, err))
        return -1;
    return carry_named(c, &w->hf, &made, 1, err);
}

int ckpt_carry_folder(struct ckpt_carry *c, const char *dir, struct err *err)
{
    struct hf hf = {.dir = mem_dup(dir)};
    int rc = carry_named(c, &hf, names, sizeof names / sizeof *names, err);

    hf_release(&hf);
    return rc;
}

int ckpt_carry_check(const char *dir, struct err *err)
{
    struct ckpt_carry all = {0};
    struct ckpt c;

    if (!ckpt_is(dir))
        return 0;
    if (ckpt_open(&c, dir, err))
        return -1;
    int rc = carry_ckpt(&all, &c, 1, err);
    ckpt_carry_release(&all);
    ckpt_close(&c);
    return rc;
}

int ckpt_carry_put(const struct ckpt_carry *c, const struct io_dir *dir, struct err *err)
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

void ckpt_carry_release(struct ckpt_carry *c)
{
    for (int i = 0; i < c->list.count; i++) {
        mem_free(c->list.item[i].name);
        mem_free(c->text[i]);
    }
    mem_free(c->list.item);
    mem_free(c->text);
    *c = (struct ckpt_carry){0};
}
