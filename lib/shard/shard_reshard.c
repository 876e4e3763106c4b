/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Converts a checkpoint from one plan to another.  The shards are cut differently; the run's
 * entry, the set of trained tensors, config.json and source/ are kept.
 */
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "ckpt/ckpt_states.h"
#include "shard/shard_parts.h"

static int check_plan(const struct ckpt *c, const struct model *plan, struct err *err)
{
    if (!plan->unit)
        return err_set(err, ERR_INPUT,
                       "the plan's model is a number of parameters, expected one "
                       "with a config.json");
    return err_any(states_check_network(c->dir, &c->model, plan, err) ||
                   states_check_trains(c->dir, &c->model, plan, err));
}

/* Fills the new checkpoint's folder, without renaming it. */
static int reshard_fill_folder(struct ckpt *c, const struct shard_request *what,
                               const struct io_out *dir, struct err *err)
{
    struct moves m = {.options = &what->options};
    struct layout layout;
    struct ckpt_shape shape = {&c->model,    &layout, what->strategy, c->states, {{{0}, 0, 0}},
                               what->copies, 0};
    struct ckpt_sources source = {.stop = c->stop};
    struct shard_cut cut = {
        .shape = &shape, .is = c->state, .run = c->has_run ? &c->run : NULL, .source = &source};
    int params = ckpt_find_state(c, "params");

    memcpy(shape.state, c->state, sizeof shape.state);
    if (what->type && params >= 0) {
        cut.converted = *what->type != c->state[params].type;
        cut.type = shape.state[params].type = *what->type;
    }
    layout_init(&layout, what->groups);
    moves_add_ckpt(&m, c);
    for (int64_t b = 0; b < c->blocks; b++)
        moves_add_block(&m, b);
    int rc = 0;
    source.item = mem_new((size_t)c->source.count, sizeof *source.item);
    for (int i = 0; rc == 0 && i < c->source.count; i++) {
        const struct ckpt_source *s = &c->source.item[i];
        if (!shard_keeps(s->keep, s->name, cut.converted))
            continue;
        source.item[source.count++] = *s;
        rc = ckpt_take_source(c, s, dir, NULL, err);
    }
    if (rc == 0)
        rc = shard_cut(dir, &cut, &m, err);
    moves_release(&m);
    mem_free(source.item);
    layout_release(&layout);
    return rc;
}

int shard_reshard(const char *from, const struct shard_request *what, struct shard_target to,
                  struct err *err)
{
    struct ckpt c;
    struct io_out dir;

    if (ckpt_open(&c, from, what->options.limits, err))
        return -1;
    int rc = err_any(check_plan(&c, what->model, err) ||
                     ckpt_check_copies(what->groups, what->copies, err) ||
                     shard_check_apart(from, to.dir, SHARD_BE_SOURCE, err) ||
                     io_dir_create(&dir, to.dir, to.force, err));
    if (rc == 0) {
        int bad = reshard_fill_folder(&c, what, &dir, err);
        rc = io_end(&dir, bad ? ckpt_blame(&c, err) : 0, err);
    }
    if (what->options.repaired)
        *what->options.repaired = c.repaired;
    ckpt_close(&c);
    return rc;
}
