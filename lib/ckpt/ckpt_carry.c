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
    }
    return 0;
}

static int carry_hf(struct ckpt_carry *c, struct hf *hf, int tokenizer, struct err *err)
{
    if (hf_list(hf, NULL, err))
        return -1;
    for (int i = 0; i < hf->others; i++) {
        char *text = NULL;
        int64_t bytes = 0;
        int fd = -1;
        if (!wanted(hf->other[i], tokenizer))
            continue;
        if (hf_open_other(hf, i, &fd, err))
            return -1;
        int rc = io_read_all(fd, hf->other[i], FILE_MAX, NULL, &text, &bytes, err);
        close(fd);
        if (rc)
            return -1;
        add(c, hf->other[i], text, bytes);
    }
    return 0;
}

int ckpt_carry_weights(struct ckpt_carry *c, struct weights *w, int tokenizer, struct err *err)
{
    return w->is_ckpt ? carry_ckpt(c, &w->ckpt, tokenizer, err)
                      : carry_hf(c, &w->hf, tokenizer, err);
}

int ckpt_carry_folder(struct ckpt_carry *c, const char *dir, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < sizeof names / sizeof *names; i++) {
        char *path = io_join(dir, names[i]), *text = NULL;
        int64_t bytes = 0;
        if (!io_absent(path)) {
            rc = io_read_file(path, FILE_MAX, NULL, &text, &bytes, err);
            if (rc == 0)
                add(c, names[i], text, bytes);
        }
        mem_free(path);
    }
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
