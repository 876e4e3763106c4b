/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how a checkpoint of one plan becomes one of another: the shards are cut anew, the run's
 * entry, what trains, config.json and source/ stay as they are.  How the bytes get there is
 * ckpt_move.c's.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "ckpt/ckpt_pieces.h"
#include "ckpt/tool_parts.h"

static int check_plan(const struct ckpt *c, const struct model *plan, struct err *err)
{
    const char *has = c->model.partial ? c->model.partial : "all";
    const char *wants = plan->partial ? plan->partial : "all";

    if (!plan->unit)
        return err_set(err, ERR_INPUT,
                       "the plan's model is a number of parameters, expected one "
                       "with a config.json");
    if (tool_check_same(c->dir, &c->model, plan, err))
        return -1;
    if (strcmp(has, wants) == 0)
        return 0;
    err_at(err, c->dir, 0, NULL, "trains '%.200s', but the plan '%.200s'", has, wants);
    err->code = ERR_MISMATCH;
    return -1;
}

/* The new shards, without what lies in them. */
static int create_shards(const char *dir, const struct ckpt_shard *shard, int shards,
                         struct err *err)
{
    for (int r = 0; r < shards; r++) {
        int fd = -1;
        if (ckpt_shard_create(&shard[r], dir, &fd, err))
            return -1;
        close(fd);
    }
    return 0;
}

static void say_damaged(void *arg, int64_t piece, const char *path, const char *hash,
                        struct err *err)
{
    const struct ckpt *c = arg;

    ckpt_say_damaged(c, &c->block[piece], path, hash, err);
}

static int move_states(struct ckpt *c, const struct tool_resharding *what, const char *dir,
                       struct ckpt_shard *shard, int shards, struct err *err)
{
    struct ckpt_paths old, new;
    struct ckpt_move move = {.buffer = what->buffer,
                             .jobs = ckpt_jobs(what->jobs),
                             .stop = what->stop,
                             .arg = c,
                             .damaged = say_damaged};
    struct move_from *from = ckpt_pieces_from(c, 0, c->blocks);
    struct move_to *to = ckpt_pieces_to(shard, shards, c->state, &move.tos);

    ckpt_paths_open(&old, c);
    ckpt_paths_new(&new, dir, shard, shards);
    move.from_files = old.files;
    move.from_file = old.file;
    move.froms = c->blocks;
    move.from = from;
    move.to_files = new.files;
    move.to_file = new.file;
    move.to = to;
    struct move_result done = {0};
    int rc = create_shards(dir, shard, shards, err) || ckpt_move(&move, &done, err) ? -1 : 0;
    ckpt_healed_add(&c->healed, done.healed, &done.wound);
    ckpt_paths_release(&old);
    ckpt_paths_release(&new);
    mem_free(from);
    mem_free(to);
    return rc;
}

static int put_manifest(const struct ckpt *c, const char *dir, const struct ckpt_shape *shape,
                        const struct ckpt_shard *shard, struct err *err)
{
    int shards = shape->layout->groups.ranks;
    char **entry = mem_new((size_t)shards, sizeof *entry);

    for (int r = 0; r < shards; r++)
        entry[r] = ckpt_shard_entry(&shard[r]);
    int rc = ckpt_manifest_write(dir, shape, (const char *const *)entry,
                                 c->has_run ? &c->run : NULL, &c->source, err);
    for (int r = 0; r < shards; r++)
        mem_free(entry[r]);
    mem_free(entry);
    return rc;
}

/* Everything of the new checkpoint but its name. */
static int fill_folder(struct ckpt *c, const struct tool_resharding *what, const char *dir,
                       struct err *err)
{
    struct layout layout;
    struct ckpt_shape shape = {&c->model, &layout, what->strategy, c->states, {{{0}, 0}}, 0};
    int shards = what->groups->ranks;
    struct ckpt_shard *shard = mem_new((size_t)shards, sizeof *shard);

    memcpy(shape.state, c->state, sizeof shape.state);
    layout_init(&layout, what->groups);
    for (int r = 0; r < shards; r++)
        ckpt_shard_init(&shard[r], &shape, r);
    int rc = ckpt_take_sources(c, dir, err) || move_states(c, what, dir, shard, shards, err) ||
                     put_manifest(c, dir, &shape, shard, err)
                 ? -1
                 : 0;
    for (int r = 0; r < shards; r++)
        ckpt_shard_release(&shard[r]);
    mem_free(shard);
    layout_release(&layout);
    return rc;
}

int tool_reshard(const char *from, const struct tool_resharding *what, struct tool_target to,
                 struct err *err)
{
    struct ckpt c;
    struct io_dir dir;

    if (ckpt_open_within(&c, from, what->limits, err))
        return -1;
    int rc = check_plan(&c, what->model, err) || tool_check_apart(from, to.dir, err) ||
                     io_dir_create(&dir, to.dir, to.force, err)
                 ? -1
                 : 0;
    if (rc == 0) {
        rc = fill_folder(&c, what, dir.temp, err);
        if (rc)
            io_dir_abandon(&dir);
        else
            rc = io_dir_commit(&dir, err);
    }
    if (what->healed)
        *what->healed = c.healed;
    ckpt_close(&c);
    return rc;
}
