/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows what split and reshard share: the shards of a checkpoint to come, with their copies,
 * are made, filled by the mover, and listed in its manifest.
 */
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "ckpt/ckpt_pieces.h"
#include "ckpt/hf.h"
#include "ckpt/hf_config.h"
#include "ckpt/tool_parts.h"

/* The new files, copies too, without what lies in them. */
static int create_files(const struct ckpt_shard *shard, const struct ckpt_paths *p,
                        const struct ckpt_move *move, struct err *err)
{
    for (int r = 0; r < p->files; r++) {
        for (int k = 0; k < p->file[r].paths; k++) {
            int fd = -1;
            if (ckpt_stopped(move->stop, err) ||
                ckpt_shard_create(&shard[r], move->into, p->file[r].path[k], move->holes, &fd,
                                  err) ||
                io_close(fd, p->file[r].path[k], err))
                return -1;
        }
    }
    return 0;
}

static int fill_files(const struct io_dir *dir, const struct tool_cut *what,
                      struct ckpt_move *move, struct ckpt_shard *shard,
                      struct move_result *result, struct err *err)
{
    int shards = what->shape->layout->groups.ranks;
    struct ckpt_paths paths;
    struct move_to *to = ckpt_pieces_to(shard, shards, what->is, &move->tos);

    ckpt_paths_new(&paths, dir->temp, shard, shards);
    move->to = to;
    move->to_files = paths.files;
    move->to_file = paths.file;
    move->into = dir;
    move->holes = ckpt_has_holes(move->from_file, move->from_files);
    int rc = create_files(shard, &paths, move, err) || ckpt_move(move, result, err) ? -1 : 0;
    ckpt_paths_release(&paths);
    mem_free(to);
    return rc;
}

static int put_manifest(const struct io_dir *dir, const struct tool_cut *what,
                        const struct ckpt_shard *shard, struct err *err)
{
    int shards = what->shape->layout->groups.ranks;
    char **entry = mem_new((size_t)shards, sizeof *entry), *config = NULL;
    struct ckpt_shape shape = *what->shape;
    struct model model = *shape.model;
    int64_t bytes = 0;

    if (what->converted) {
        hf_config_as(model.config, what->type, &config, &bytes);
        model.config = config;
        shape.model = &model;
    }
    for (int r = 0; r < shards; r++)
        entry[r] = ckpt_shard_entry(&shard[r]);
    int rc = ckpt_manifest_write(dir, &shape, (const char *const *)entry, what->run,
                                 what->source, err);
    for (int r = 0; r < shards; r++)
        mem_free(entry[r]);
    mem_free(entry);
    mem_free(config);
    return rc;
}

int tool_cut(const struct io_dir *dir, const struct tool_cut *what, struct ckpt_move *move,
             struct move_result *result, struct err *err)
{
    int shards = what->shape->layout->groups.ranks;
    struct ckpt_shard *shard = mem_new((size_t)shards, sizeof *shard);

    for (int r = 0; r < shards; r++)
        ckpt_shard_init(&shard[r], what->shape, r);
    int rc =
        fill_files(dir, what, move, shard, result, err) || put_manifest(dir, what, shard, err)
            ? -1
            : 0;
    for (int r = 0; r < shards; r++)
        ckpt_shard_release(&shard[r]);
    mem_free(shard);
    return rc;
}

int tool_keeps(enum ckpt_keep keep, const char *name, int converted)
{
    if (!converted)
        return 1;
    return keep == CKPT_KEEP_FILE && strcmp(name, "config.json") && strcmp(name, HF_INDEX_NAME);
}
