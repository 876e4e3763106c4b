/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how a checkpoint becomes a folder: the one that was split, byte for byte; or of a run
 * what transformers loads, or PEFT where adapters train.  Which tensor lies where in the files
 * of weights is merge_plan.c's.
 */
#include <limits.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "ckpt/hf.h"
#include "shard/carry.h"
#include "shard/merge_plan.h"
#include "shard/shard_parts.h"
#include "shard/peft.h"

/* What else was in the folder; anew: without what the new weights make another. */
static int restore_others(struct ckpt *c, int anew, const struct io_out *to, struct err *err)
{
    for (int i = 0; i < c->source.count; i++) {
        const struct ckpt_source *s = &c->source.item[i];
        if (s->keep != CKPT_KEEP_FILE || carry_is_inner(s->name) ||
            (anew &&
             (strcmp(s->name, HF_INDEX_NAME) == 0 || strcmp(s->name, "config.json") == 0)))
            continue;
        if (ckpt_take_source(c, s, to, to->temp, err))
            return -1;
    }
    return 0;
}

/* The settings of adapters name what they adapt, where the checkpoint knows it. */
static int put_adapters(struct ckpt *c, const struct io_out *to, struct err *err)
{
    char *path = NULL, *base = NULL;
    int64_t bytes = 0;
    int rc = 0, i = ckpt_source_number(&c->source, CARRY_BASE);

    if (i < c->source.count)
        rc = err_any(ckpt_find_source(c, &c->source.item[i], &path, err) ||
                     io_read_file(path, PATH_MAX, NULL, &base, &bytes, err));
    if (rc == 0)
        rc = io_dir_take_text(to, "adapter_config.json", peft_config(&c->model, base), err);
    mem_free(path);
    mem_free(base);
    return rc;
}

/* What stands beside new weights. */
static int put_beside(const struct merge_plan *p, int adapters, const struct io_out *to,
                      struct err *err)
{
    const struct model *m = &p->c->model;
    enum dtype said = DTYPE_F32;

    if (adapters)
        return put_adapters(p->c, to, err);
    if (p->files > 1 && io_dir_take_text(to, HF_INDEX_NAME, merge_plan_index(p), err))
        return -1;
    if (dtype_parse(m->dtype, &said, err))
        return -1;
    return io_dir_take_text(
        to, "config.json",
        said == p->want ? mem_dup(m->config) : hf_config_as(m->config, p->want), err);
}

/* Everything of the folder but its name; the weights, which take long, last. */
static int fill_folder(struct merge_plan *p, const struct shard_merging *what,
                       const struct io_out *to, struct err *err)
{
    const struct ckpt_limits *limits =
        what->options.limits ? what->options.limits : &ckpt_limits_usual;
    struct ckpt *c = p->c;
    int adapters = c->model.lora.rank && !p->fuse;
    int headers = 0;

    for (int i = 0; i < c->source.count; i++)
        headers |= c->source.item[i].keep == CKPT_KEEP_HEADER;
    /* Without them the files of weights that were split cannot be had as they were. */
    int anew = !headers || what->max_shard || p->want != p->is;
    int rc = anew ? merge_plan_make(p, adapters, what->max_shard, err)
                  : merge_plan_restore(p, limits, err);

    if (rc == 0)
        rc = restore_others(c, anew, to, err);
    if (rc == 0 && anew)
        rc = put_beside(p, adapters, to, err);
    if (rc == 0)
        rc = merge_move(p, to, &what->options, err);
    merge_plan_release(p);
    return rc;
}

int merge_plan_init(struct merge_plan *p, struct ckpt *c, const struct shard_merging *what,
                    struct err *err)
{
    *p =
        (struct merge_plan){.c = c, .params = ckpt_find_state(c, "params"), .fuse = what->fuse};
    if (p->params < 0)
        return err_set(err, ERR_INPUT, "'%s' has no state 'params' to merge", c->dir);
    if (p->fuse && !c->model.lora.rank)
        return err_set(err, ERR_INPUT, "'%s' has no adapters to fuse", c->dir);
    p->is = c->state[p->params].type;
    p->want = what->type ? *what->type : p->is;
    return 0;
}

int shard_merge(const char *from, const struct shard_merging *what, struct shard_target to,
                struct err *err)
{
    struct ckpt c;
    struct merge_plan plan;
    struct io_out dir;

    if (ckpt_open(&c, from, what->options.limits, err))
        return -1;
    int rc = err_any(shard_check_apart(from, to.dir, SHARD_BE_INSIDE | SHARD_BE_SOURCE, err) ||
                     merge_plan_init(&plan, &c, what, err) ||
                     io_dir_create(&dir, to.dir, to.force, err));
    if (rc == 0) {
        int bad = fill_folder(&plan, what, &dir, err);
        rc = io_end(&dir, bad ? ckpt_blame(&c, err) : 0, err);
    }
    if (what->options.healed)
        *what->options.healed = c.healed;
    ckpt_close(&c);
    return rc;
}
