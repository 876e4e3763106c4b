/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows what split and reshard share: the shards of a checkpoint to come, with their copies,
 * are planned, filled, and listed in its manifest.
 */
#include <string.h>

#include "base/mem.h"
#include "ckpt/hf.h"
#include "shard/shard_parts.h"

/*
 * [states * units] where each unit of each state begins in the stream; for mem_free.
 */
static int64_t *places_of(const struct shard_cut *what)
{
    const struct model *m = what->shape->model;
    int states = what->shape->states;
    int64_t *place = mem_new((size_t)states * (size_t)m->units, sizeof *place), *p = place;
    int64_t at = 0;

    for (int s = 0; s < states; s++)
        for (int u = 0; u < m->units; u++) {
            *p++ = at;
            at += ckpt_state_elems(m, u, &what->is[s]) * dtype_bytes(what->is[s].type);
        }
    return place;
}

/* All blocks of the new shards, their checksums to be filled in there. */
static void add_shards(struct moves *m, const struct io_dir *dir, const struct shard_cut *what,
                       const struct ckpt_shard *shard)
{
    const struct ckpt_shape *shape = what->shape;
    const struct groups *g = &shape->layout->groups;
    int64_t *place = places_of(what);

    for (int r = 0; r < g->ranks; r++) {
        moves_add_shard(&m->out, dir->temp, g, shape->copies, r, shard[r].file.bytes);
        for (int64_t i = 0; i < shard[r].blocks; i++) {
            struct ckpt_block *b = &shard[r].block[i];
            enum dtype type = what->is[b->state].type;
            int64_t unit = place[b->state * shape->model->units + b->unit];
            moves_add_to(m, (struct move_to){.at = unit + b->lo * dtype_bytes(type),
                                             .bytes = (b->hi - b->lo) * dtype_bytes(type),
                                             .file = r,
                                             .offset = b->offset,
                                             .type = type,
                                             .want = shape->state[b->state].type,
                                             .hash = b->hash});
        }
    }
    mem_free(place);
}

static int put_manifest(const struct io_dir *dir, const struct shard_cut *what,
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

static int shard_head(void *heads, int file, char **head, int64_t *bytes, struct err *err)
{
    const struct ckpt_shard *shard = heads;

    (void)err;
    ckpt_shard_header(&shard[file], head, bytes);
    return 0;
}

int shard_cut(const struct io_dir *dir, const struct shard_cut *what, struct moves *m,
              struct err *err)
{
    int shards = what->shape->layout->groups.ranks;
    struct ckpt_shard *shard = mem_new((size_t)shards, sizeof *shard);

    for (int r = 0; r < shards; r++)
        ckpt_shard_init(&shard[r], what->shape, r);
    add_shards(m, dir, what, shard);
    m->head = shard_head;
    m->heads = shard;
    int rc = moves_run(m, dir, err) || put_manifest(dir, what, shard, err) ? -1 : 0;
    for (int r = 0; r < shards; r++)
        ckpt_shard_release(&shard[r]);
    mem_free(shard);
    return rc;
}

int shard_keeps(enum ckpt_keep keep, const char *name, int converted)
{
    if (!converted)
        return 1;
    return keep == CKPT_KEEP_FILE && strcmp(name, "config.json") && strcmp(name, HF_INDEX_NAME);
}
