/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Repairs a checkpoint by writing a new one next to it.  First examines all copies, so that all
 * damage and losses are known; if nothing is lost, writes every file from its intact copies.
 */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "value/value_json_out.h"
#include "base/mem.h"
#include "shard/shard_checkup.h"
#include "shard/shard_moves.h"
#include "shard/shard_parts.h"

struct repair {
    const struct shard_options *options;
    int json;
    FILE *out;
    const struct checkup *x;
    struct ckpt *c;
    struct jout j; /* JSON output, in memory until the end */
    int lost;
};

/* Contiguous elements of one tensor of a state in one shard. */
struct span {
    int file, tensor, state;
    int64_t lo, hi; /* elements of the unit; empty: no span */
};

/* --- reports --- */

/* Reports part `name`. copy: the copy that it is rebuilt from; "": from the manifest; NULL: it
   is lost. */
static void report_part(struct repair *r, const char *name, const char *part,
                        const struct span *s, const char *copy)
{
    const struct ckpt *c = r->c;
    const struct model_tensor *t = s ? &c->model.tensor[s->tensor] : NULL;
    FILE *out = r->out;

    if (!r->json) {
        fprintf(out, "%s:%s", name, part);
        if (t)
            fprintf(out, " '%s' %s, elements [%" PRId64 ", %" PRId64 ")", t->name,
                    c->state[s->state].name, s->lo - t->offset, s->hi - t->offset);
        if (!copy)
            fputs(" lost\n", out);
        else if (*copy)
            fprintf(out, " rebuilt from '%s'\n", copy);
        else
            fputs(" rebuilt from the manifest\n", out);
        return;
    }
    jout_open(&r->j, NULL, '{');
    jout_text(&r->j, "file", name);
    jout_text(&r->j, "part", t ? "elements" : *part ? "header" : "file");
    jout_text(&r->j, "tensor", t ? t->name : NULL);
    if (t) {
        jout_text(&r->j, "state", c->state[s->state].name);
        jout_int(&r->j, "first", s->lo - t->offset);
        jout_int(&r->j, "end", s->hi - t->offset);
    }
    if (copy)
        jout_text(&r->j, "from", *copy ? copy : NULL);
    jout_close(&r->j, '}');
}

static void report_lost(struct repair *r, const struct span *s)
{
    if (s->lo == s->hi)
        return;
    report_part(r, r->c->file[s->file].name, "", s, NULL);
    r->lost++;
}

static void report_all_lost(struct repair *r)
{
    const struct ckpt *c = r->c;

    for (int f = 0; f < c->files; f++)
        if (checkup_find(r->x, f, CHECKUP_GOOD) < 0 && !checkup_make_header(c, f, NULL, NULL)) {
            report_part(r, c->file[f].name, " header", NULL, NULL);
            r->lost++;
        }
    /* Blocks without an intact copy: adjacent ones of one tensor share a line. */
    int64_t *order = checkup_order(c);
    struct span s = {0};
    for (int64_t i = 0; i < c->blocks; i++) {
        const struct ckpt_block *b = &c->block[order[i]];
        if (checkup_find_block(r->x, order[i]) >= 0)
            continue;
        if (s.file != b->file || s.tensor != b->tensor || s.state != b->state ||
            s.hi != b->lo) {
            report_lost(r, &s);
            s = (struct span){b->file, b->tensor, b->state, b->lo, b->lo};
        }
        s.hi = b->hi;
    }
    report_lost(r, &s);
    mem_free(order);
    /* Without copies manifest and config are intact: they have been read. */
    for (int i = c->files + (c->copies ? 0 : CHECKUP_SOURCES); i < r->x->parts; i++)
        if (checkup_find(r->x, i, CHECKUP_GOOD) < 0) {
            char *name = checkup_name(r->x, i, 0);
            report_part(r, name, "", NULL, NULL);
            mem_free(name);
            r->lost++;
        }
}

/* --- writing --- */

/* A shard's header: from an intact copy, or recreated. */
static int take_header(void *arg, int file, char **out, int64_t *out_bytes, struct err *err)
{
    const struct repair *r = arg;
    const struct ckpt *c = r->c;
    int k = checkup_find(r->x, file, CHECKUP_GOOD), fd = -1;
    void *head = NULL;

    if (k < 0) {
        checkup_make_header(c, file, out, out_bytes);
        return 0;
    }
    char *path = ckpt_shard_path(c->dir, &c->groups, file, k);
    int rc = err_any(io_open(path, &fd, NULL, err) ||
                     checkup_read_header(&c->file[file], path, fd, &head, err));
    if (fd >= 0)
        close(fd);
    mem_free(path);
    *out = head; /* the caller frees it, on error too */
    *out_bytes = c->file[file].header_bytes;
    return rc;
}

/* Plans every block to its original place, in every copy of its file. */
static int move_blocks(struct repair *r, const struct io_out *dir, struct err *err)
{
    struct ckpt *c = r->c;
    struct moves m = {.options = r->options, .head = take_header, .heads = r};

    moves_add_ckpt(&m, c);
    for (int f = 0; f < c->files; f++)
        moves_add_shard(&m.out, dir->temp, &c->groups, c->copies, f, c->file[f].bytes);
    for (int64_t i = 0; i < c->blocks; i++) {
        const struct ckpt_block *b = &c->block[i];
        moves_add_to(&m, (struct move_to){m.at, b->bytes, b->file, b->offset, 0, 0, NULL});
        moves_add_block(&m, i);
    }
    int rc = moves_run(&m, dir, err);
    moves_release(&m);
    return rc;
}

static int put_small(const struct repair *r, const struct io_out *dir, struct err *err)
{
    struct ckpt *c = r->c;
    const struct ckpt_limits *limits =
        r->options->limits ? r->options->limits : &ckpt_limits_usual;
    char *path = ckpt_small_path(c->dir, c->manifest, "manifest.json"), *text = NULL;
    int64_t bytes = 0;
    int rc = io_read_file(path, limits->manifest_bytes, "--max-manifest", &text, &bytes, err);

    for (int i = 0; rc == 0 && i < c->source.count; i++)
        rc = ckpt_take_source(c, &c->source.item[i], dir, NULL, err);
    struct ckpt_small small = {c->model.config, text, bytes, &c->source};
    if (rc == 0)
        rc = ckpt_put_small(dir, c->copies, &small, err);
    mem_free(text);
    mem_free(path);
    return rc;
}

static int repair_files(struct repair *r, struct io_out *dir, struct err *err)
{
    char *text = NULL;
    size_t used = 0;
    int json = r->json, rc = 0;

    if (json) {
        r->j.file = mem_stream(&text, &used);
        jout_open(&r->j, NULL, '{');
        jout_text(&r->j, "schema", "paro.shard.repair/1");
        jout_open(&r->j, "lost", '[');
    }
    report_all_lost(r);
    if (!r->lost)
        rc = err_any(move_blocks(r, dir, err) || put_small(r, dir, err) || io_commit(dir, err));
    if (json) {
        jout_close(&r->j, ']');
        jout_open(&r->j, "rebuilt", '[');
    }
    if (rc == 0 && !r->lost) {
        for (int64_t i = 0; i < r->x->damages; i++) {
            const struct damage *w = &r->x->damage[i];
            char *name = checkup_name(r->x, w->file, w->copy),
                 *copy = damage_find_copy(r->x, w);
            struct span s = {0};
            if (w->kind == DAMAGE_BLOCK) {
                const struct ckpt_block *b = &r->c->block[w->block];
                s = (struct span){b->file, b->tensor, b->state, b->lo, b->hi};
            }
            report_part(r, name, w->kind == DAMAGE_HEADER ? " header" : "",
                        w->kind == DAMAGE_BLOCK ? &s : NULL, copy ? copy : "");
            mem_free(name);
            mem_free(copy);
        }
        if (r->x->damages == 0 && !r->json)
            fputs("nothing is damaged: wrote an exact copy\n", r->out);
    }
    if (json) {
        jout_close(&r->j, ']');
        jout_bool(&r->j, "ok", r->lost == 0);
        jout_close(&r->j, '}');
        fclose(r->j.file);
        if (rc == 0)
            fputs(text, r->out);
        mem_free(text);
    }
    return rc;
}

int shard_repair(const char *from, const struct shard_options *options, int json, FILE *out,
                 struct shard_target to, int *lost, struct err *err)
{
    struct ckpt c;
    struct checkup x = {0};
    struct repair r = {.options = options, .json = json, .out = out, .x = &x, .c = &c};

    if (ckpt_expect(from, err))
        return -1;
    if (ckpt_open_any(&c, from, options->limits ? options->limits : &ckpt_limits_usual, 1, err))
        return -1;
    struct io_out dir = {.fd = -1};
    /* Creates the target first, so that an invalid target fails before all data is read. */
    int rc = err_any(shard_check_apart(from, to.dir, SHARD_BE_SOURCE, err) ||
                     io_dir_create(&dir, to.dir, to.force, err) ||
                     checkup_run(&x, &c, 0, options, err));
    /* A block that cannot be read and has no other copy may be intact: it is not reported as
       lost. */
    for (int64_t i = 0; rc == 0 && i < x.damages; i++) {
        if (!x.damage[i].refused)
            continue;
        damage_report(&x, &x.damage[i], err);
        rc = err_any(err->code == ERR_SYS);
    }
    if (rc == 0)
        rc = repair_files(&r, &dir, err);
    if (dir.path) /* not committed */
        io_abandon(&dir);
    checkup_release(&x);
    ckpt_close(&c);
    if (rc == 0)
        *lost = r.lost;
    return rc;
}
