/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows what can be wrong with a checkpoint, a folder or a file, and says all of it, not the
 * first alone.  What the content gets wrong is an answer; what the system refuses is an error.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/jout.h"
#include "base/mem.h"
#include "ckpt/ckpt_parts.h"
#include "ckpt/hf.h"
#include "ckpt/tool.h"

struct report {
    FILE *out;
    int json;
    struct jout j;
    int bad;
    int64_t bytes; /* whose checksums were compared */
};

/* Content: a line of the answer, 0.  Anything else: -1. */
static int judge(struct report *r, const struct err *err)
{
    if (err->code != ERR_INPUT && err->code != ERR_MISMATCH && err->code != ERR_ABSENT)
        return -1;
    r->bad++;
    if (!r->json) {
        fprintf(r->out, "%s\n", err->text);
        return 0;
    }
    jout_open(&r->j, NULL, '{');
    jout_text(&r->j, "text", err->text);
    jout_text(&r->j, "file", err->file[0] ? err->file : NULL);
    jout_text(&r->j, "tensor", err->key[0] ? err->key : NULL);
    jout_close(&r->j, '}');
    return 0;
}

/* Of its size, and its first bytes as they were written: then its blocks can be read. */
static int check_shard(const struct ckpt_file *file, const char *path, int fd, struct err *err)
{
    int64_t bytes = 0;
    void *head = NULL;
    char hash[33];

    if (io_size(fd, &bytes, err))
        return err_prefix(err, "%s: ", path);
    if (bytes != file->bytes)
        return err_at(err, path, 0, NULL, "has %" PRId64 " bytes, expected %" PRId64, bytes,
                      file->bytes);
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

static int verify_shard(struct report *r, struct ckpt *c, int f, int *usable, struct err *err)
{
    char *path = io_join(c->dir, c->file[f].name);
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc;

    if (fd >= 0)
        rc = check_shard(&c->file[f], path, fd, err);
    else if (errno == ENOENT)
        rc = err_at(err, path, 0, NULL, "is missing: this rank's part of every unit is lost");
    else
        rc = err_sys(err, "cannot open '%s'", path);
    if (fd >= 0)
        close(fd);
    mem_free(path);
    *usable = rc == 0;
    return rc ? judge(r, err) : 0;
}

static int by_offset(const void *a, const void *b, void *blocks)
{
    const struct ckpt_block *x = (struct ckpt_block *)blocks + *(const int64_t *)a;
    const struct ckpt_block *y = (struct ckpt_block *)blocks + *(const int64_t *)b;

    if (x->file != y->file)
        return x->file - y->file;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

/* All blocks of usable files, in the order in which they lie there. */
static int verify_blocks(struct report *r, struct ckpt *c, const int *usable, struct err *err)
{
    int64_t *order = mem_new((size_t)c->blocks, sizeof *order);
    int rc = 0;

    for (int64_t b = 0; b < c->blocks; b++)
        order[b] = b;
    qsort_r(order, (size_t)c->blocks, sizeof *order, by_offset, c->block);
    for (int64_t i = 0; rc == 0 && i < c->blocks; i++) {
        const struct ckpt_block *b = &c->block[order[i]];
        if (!usable[b->file])
            continue;
        r->bytes += b->bytes;
        if (ckpt_load_copy(c, order[i], 0, err))
            rc = judge(r, err);
    }
    mem_free(order);
    return rc;
}

static int verify_source(struct report *r, struct ckpt *c, const struct ckpt_source *s,
                         int quick, struct err *err)
{
    char *dir = io_join(c->dir, ckpt_source_folder(s->keep));
    char *path = io_join(dir, s->name), hash[33];
    struct stat st;
    int64_t bytes = 0;
    int rc = 0;

    if (stat(path, &st))
        rc = err_sys(err, "cannot open '%s'", path);
    else if (st.st_size != s->bytes)
        rc = err_at(err, path, 0, NULL, "has %" PRId64 " bytes, expected %" PRId64,
                    (int64_t)st.st_size, s->bytes);
    else if (!quick)
        rc = ckpt_hash_file(path, &bytes, hash, err);
    if (rc == 0 && !quick && strcmp(hash, s->hash))
        rc = err_at(err, path, 0, NULL, "is damaged: checksum %s, expected %s", hash, s->hash);
    r->bytes += bytes;
    mem_free(dir);
    mem_free(path);
    return rc ? judge(r, err) : 0;
}

static int verify_ckpt(struct report *r, const char *path, const struct ckpt_limits *limits,
                       int quick, struct err *err)
{
    struct ckpt c;
    int rc = 0;

    if (ckpt_open_within(&c, path, limits, err))
        return judge(r, err);
    int *usable = mem_new((size_t)c.files, sizeof *usable);
    for (int f = 0; rc == 0 && f < c.files; f++)
        rc = verify_shard(r, &c, f, &usable[f], err);
    if (rc == 0 && !quick)
        rc = verify_blocks(r, &c, usable, err);
    for (int i = 0; rc == 0 && i < c.source.count; i++)
        rc = verify_source(r, &c, &c.source.item[i], quick, err);
    mem_free(usable);
    ckpt_close(&c);
    return rc;
}

/* A folder or file has no checksums: its structure, and that the config describes it. */
static int verify_hf(struct report *r, const char *path, const struct ckpt_limits *limits,
                     int quick, struct err *err)
{
    struct hf hf;
    struct model m;

    if (hf_open_within(&hf, path, limits, err))
        return judge(r, err);
    char *config = io_join(hf.dir, "config.json");
    int rc = 0;
    if (!hf.alone && access(config, F_OK) == 0) {
        if (model_read(&m, config, err)) {
            rc = -1; /* what the folder should hold cannot be told */
        } else {
            int bad = hf_match(&hf, &m, err) || (!quick && hf_check_tied(&hf, err));
            rc = bad ? judge(r, err) : 0;
            model_release(&m);
        }
    }
    mem_free(config);
    hf_release(&hf);
    return rc;
}

int tool_verify(const char *path, const struct ckpt_limits *limits, int quick, int json,
                FILE *out, int *bad, struct err *err)
{
    struct report r = {.out = out, .json = json};
    struct stat st;
    char *text = NULL;
    size_t used = 0;

    if (stat(path, &st))
        return err_sys(err, "cannot open '%s'", path);
    /* One document or none: it is gathered, and printed when nothing was refused. */
    if (json) {
        r.j.file = ckpt_stream(&text, &used);
        jout_open(&r.j, NULL, '{');
        jout_text(&r.j, "schema", "paro.shard.verify/1");
        jout_open(&r.j, "problems", '[');
    }
    int folder = S_ISDIR(st.st_mode);
    int rc = folder && ckpt_is(path) ? verify_ckpt(&r, path, limits, quick, err)
                                     : verify_hf(&r, path, limits, quick, err);
    if (json) {
        jout_close(&r.j, ']');
        jout_int(&r.j, "checked_bytes", r.bytes);
        jout_bool(&r.j, "ok", r.bad == 0);
        jout_close(&r.j, '}');
        fclose(r.j.file);
        if (rc == 0)
            fputs(text, out);
        mem_free(text);
    }
    if (rc == 0)
        *bad = r.bad;
    return rc;
}
