/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Plans the shards of a new checkpoint and their copies for split and reshard, fills them, and
 * lists them in its manifest.  Also changes the type of the weights in a config.json.
 */
#include <stdio.h>
#include <string.h>

#include "value/value_json_in.h"
#include "base/mem.h"
#include "ckpt/ckpt_hf.h"
#include "shard/shard_parts.h"

/* Adds all blocks of the new shards, with places for their checksums. */
static void add_shards(struct moves *m, const struct io_out *dir, const struct shard_cut *what,
                       const struct ckpt_shard *shard)
{
    const struct ckpt_shape *shape = what->shape;
    const struct groups *g = &shape->layout->groups;
    const struct model *model = shape->model;
    /* The position of each unit of each state in the stream. */
    int64_t *place = mem_new((size_t)shape->states * (size_t)model->units, sizeof *place);

    for (int64_t i = 0, at = 0; i < (int64_t)shape->states * model->units; i++) {
        const struct ckpt_state *is = &what->is[i / model->units];
        place[i] = at;
        at += ckpt_state_elems(model, (int)(i % model->units), is) * dtype_bytes(is->type);
    }
    for (int r = 0; r < g->ranks; r++) {
        moves_add_shard(&m->out, dir->temp, g, shape->copies, r, shard[r].file.bytes);
        for (int64_t i = 0; i < shard[r].blocks; i++) {
            struct ckpt_block *b = &shard[r].block[i];
            enum dtype type = what->is[b->state].type;
            int64_t unit = place[b->state * model->units + b->unit];
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

static int put_manifest(const struct io_out *dir, const struct shard_cut *what,
                        const struct ckpt_shard *shard, struct err *err)
{
    int shards = what->shape->layout->groups.ranks;
    char **entry = mem_new((size_t)shards, sizeof *entry), *config = NULL;
    struct ckpt_shape shape = *what->shape;
    struct model model = *shape.model;

    if (what->converted) {
        model.config = config = hf_config_as(model.config, what->type);
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

int shard_cut(const struct io_out *dir, const struct shard_cut *what, struct moves *m,
              struct err *err)
{
    int shards = what->shape->layout->groups.ranks;
    struct ckpt_shard *shard = mem_new((size_t)shards, sizeof *shard);

    for (int r = 0; r < shards; r++)
        ckpt_shard_init(&shard[r], what->shape, r);
    add_shards(m, dir, what, shard);
    m->head = shard_head;
    m->heads = shard;
    int rc = err_any(moves_run(m, dir, err) || put_manifest(dir, what, shard, err));
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

char *hf_config_as(const char *config, enum dtype type)
{
    char *text = NULL;
    static const char *const names[] = {[DTYPE_F32] = "float32",
                                        [DTYPE_BF16] = "bfloat16",
                                        [DTYPE_F16] = "float16",
                                        [DTYPE_F64] = "float64"};
    struct jin j = {.text = config, .bytes = (int64_t)strlen(config)};
    size_t used = 0;
    int64_t from = 0; /* end of the text copied so far */
    FILE *f = mem_stream(&text, &used);
    int n = 0, said = 0;

    /* The text was parsed before: invalid JSON is copied unchanged. */
    if (jin_take(&j, '{') == 0) {
        int64_t first = j.at;
        while (jin_item(&j, '}', &n) > 0 && jin_text(&j) == 0 && jin_take(&j, ':') == 0) {
            int ours = strcmp(j.word, "torch_dtype") == 0 || strcmp(j.word, "dtype") == 0;
            jin_next(&j);
            int64_t at = j.at;
            if (jin_skip(&j))
                break;
            if (!ours)
                continue;
            fprintf(f, "%.*s\"%s\"", (int)(at - from), config + from, names[type]);
            from = j.at;
            said = 1;
        }
        if (!said) {
            fprintf(f, "%.*s\"torch_dtype\": \"%s\"%s", (int)first, config, names[type],
                    n ? ", " : "");
            from = first;
        }
    }
    fputs(config + from, f);
    fclose(f);
    jin_release(&j);
    return text;
}
