/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens and reads a checkpoint.
 *
 * Opens with the checkpoint's own manifest.json and config.json, or with those of copy-1/ ...
 * if they are damaged or missing.  A copy's manifest may belong to another run, so it is
 * accepted only if some block has the checksum in it.
 *
 * Any range of a unit can be read, regardless of block boundaries.  Each block is read whole
 * and its checksum compared; if it is damaged, another copy of it is used.  The last block
 * stays in memory, so consecutive reads read no block twice.
 */
#include "ckpt/ckpt.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/io.h"
#include "base/mem.h"
#include "ckpt/ckpt_write.h"

int ckpt_find_state(const struct ckpt *c, const char *name)
{
    for (int s = 0; s < c->states; s++)
        if (strcmp(c->state[s].name, name) == 0)
            return s;
    return -1;
}

int64_t ckpt_state_elems(const struct model *m, int unit, const struct ckpt_state *state)
{
    int64_t times = state->groups > 1 ? state->groups : 1;

    return strcmp(state->name, "params") ? times * m->unit[unit].trained : m->unit[unit].elems;
}

int64_t ckpt_element(const struct model *m, int unit, const struct ckpt_state *state,
                     int64_t at)
{
    return state->groups > 1 ? at % m->unit[unit].trained : at;
}

int ckpt_say_damaged(const struct ckpt *c, const struct ckpt_block *b, const char *path,
                     const char *hash, struct err *err)
{
    const struct model_tensor *t = &c->model.tensor[b->tensor];
    int64_t lo = ckpt_element(&c->model, b->unit, &c->state[b->state], b->lo) - t->offset;

    return err_mismatch(err, path, t->name,
                        "%s, elements [%" PRId64 ", %" PRId64
                        ") are damaged: checksum %s, expected %s",
                        c->state[b->state].name, lo, lo + b->hi - b->lo, hash, b->hash);
}

static int ckpt_read_block(struct ckpt *c, const struct ckpt_block *b, int k, const char *path,
                           struct err *err)
{
    int *fd = io_kept(&c->open, b->file * (1 + c->copies) + k);

    if (*fd < 0 && io_open_whole(path, c->file[b->file].bytes, fd, err))
        return -1;
    return io_pread_all(*fd, c->buffer, b->bytes, b->offset, err)
               ? err_prefix(err, "%s: ", path)
               : 0;
}

int ckpt_load_copy(struct ckpt *c, int64_t number, int k, struct err *err)
{
    const struct ckpt_block *b = &c->block[number];
    char hash[33];

    c->cached = -1;
    if (!c->buffer && mem_data(c->block_bytes, "a checkpoint's block", &c->buffer, err))
        return -1;
    char *path = ckpt_shard_path(c->dir, &c->groups, b->file, k);
    int rc = c->fetch ? c->fetch(c->fetch_arg, b, k, c->buffer, err)
                      : ckpt_read_block(c, b, k, path, err);
    if (rc == 0) {
        ckpt_hash(c->buffer, b->bytes, hash);
        if (strcmp(hash, b->hash))
            rc = ckpt_say_damaged(c, b, path, hash, err);
    }
    mem_free(path);
    if (rc == 0)
        c->cached = number;
    return rc;
}

/* Damage of the first copy read is recorded if another copy is good. */
static int load_block(struct ckpt *c, int64_t number, struct err *err)
{
    struct err damage = {0};

    if (c->cached == number)
        return 0;
    for (int i = 0; i <= c->copies; i++) {
        if (ckpt_load_copy(c, number, (c->turn + i) % (1 + c->copies), err) == 0) {
            if (i > 0)
                ckpt_repaired_add(&c->repaired, 1, 0, &damage);
            return 0;
        }
        /* Such errors do not mean that the copy is damaged */
        if (err->scarce || err->code == ERR_PEER)
            break;
        if (i == 0)
            damage = *err;
    }
    return ckpt_blame(c, err);
}

/* The block of (state, unit) that contains element `at`; there is always one. */
static int64_t ckpt_block_at(const struct ckpt *c, int unit, int state, int64_t at)
{
    const int64_t *first = &c->first[state * c->model.units + unit];
    int64_t lo = first[0], hi = first[1];

    while (hi - lo > 1) {
        int64_t mid = lo + (hi - lo) / 2;
        if (c->block[mid].lo <= at)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

int ckpt_read_range(struct ckpt *c, int unit, int state, struct range at, enum dtype type,
                    void *out, struct err *err)
{
    char *to = out;

    assert(unit >= 0 && unit < c->model.units && state >= 0 && state < c->states);
    assert(at.lo >= 0 && at.hi <= ckpt_state_elems(&c->model, unit, &c->state[state]));
    enum dtype from = c->state[state].type;
    for (int64_t end; at.lo < at.hi; at.lo = end) {
        int64_t number = ckpt_block_at(c, unit, state, at.lo);
        const struct ckpt_block *b = &c->block[number];
        if (load_block(c, number, err))
            return -1;
        end = b->hi < at.hi ? b->hi : at.hi;
        dtype_convert(to, type, (char *)c->buffer + (at.lo - b->lo) * dtype_bytes(from), from,
                      end - at.lo);
        to += (end - at.lo) * dtype_bytes(type);
    }
    return 0;
}

int64_t ckpt_end_at(const struct ckpt *c, int unit, int state, int64_t at)
{
    return c->block[ckpt_block_at(c, unit, state, at)].hi;
}

void ckpt_identity(const struct ckpt *c, char hash[33])
{
    void *sum = ckpt_hash_begin();

    for (int64_t i = 0; i < c->blocks; i++) {
        const struct ckpt_block *b = &c->block[i];
        const int64_t is[] = {b->unit, b->state, b->lo, b->hi};
        ckpt_hash_more(sum, is, sizeof is);
        ckpt_hash_more(sum, b->hash, sizeof b->hash);
    }
    ckpt_hash_end(sum, hash);
}

/* --- opening --- */

enum { PROBES = 16 }; /* damaged blocks after which a manifest is assumed to be another run's */

char *ckpt_small_path(const char *dir, int k, const char *name)
{
    char below[CKPT_FILE_NAME], *folder, *path;

    snprintf(below, sizeof below, "copy-%d", k);
    folder = k ? io_join(dir, below) : mem_dup(dir);
    path = io_join(folder, name);
    mem_free(folder);
    return path;
}

/* The first copy from k on that has a file of this name, -1: none. */
static int find_copy(const char *dir, int k, const char *name)
{
    for (; k <= CKPT_COPIES_MAX; k++) {
        char *path = ckpt_small_path(dir, k, name);
        int absent = io_absent(path);
        mem_free(path);
        if (!absent)
            return k;
    }
    return -1;
}

int ckpt_is(const char *dir)
{
    return find_copy(dir, 0, "manifest.json") >= 0;
}

void ckpt_close(struct ckpt *c)
{
    io_kept_close(&c->open);
    for (int i = 0; i < c->source.count; i++)
        mem_free(c->source.item[i].name);
    MEM_FREE(c->source.item, c->file, c->block, c->first, c->buffer, c->dir);
    groups_release(&c->groups);
    model_release(&c->model);
    *c = (struct ckpt){0};
}

static void ckpt_find_largest(struct ckpt *c)
{
    for (int64_t b = 0; b < c->blocks; b++)
        if (c->block[b].bytes > c->block_bytes)
            c->block_bytes = c->block[b].bytes;
}

int ckpt_open_text(struct ckpt *c, const char *dir, const char *config, const char *text,
                   int64_t bytes, struct err *err)
{
    struct ckpt new = {.dir = mem_dup(dir), .cached = -1};
    int rc =
        err_any(model_parse(&new.model, "config.json", config, (int64_t)strlen(config), err) ||
                ckpt_manifest_parse(&new, "manifest.json", "config.json", &ckpt_limits_usual,
                                    text, bytes, err));

    ckpt_find_largest(&new);
    if (rc)
        ckpt_close(&new);
    else
        *c = new;
    return rc;
}

/* Opens with copy m's manifest and copy k's config. */
static int open_by(struct ckpt *c, const char *dir, int m, int k,
                   const struct ckpt_limits *limits, struct err *err)
{
    struct ckpt new = {.dir = mem_dup(dir), .cached = -1, .manifest = m, .stop = limits->stop};
    char *config = ckpt_small_path(dir, k, "config.json"), *folder = io_parent(config);
    char *manifest = ckpt_small_path(dir, m, "manifest.json"), *text = NULL;
    int64_t bytes = 0;

    new.source.stop = limits->stop;
    int rc = err_any(
        model_read_folder(&new.model, folder, err) ||
        io_read_file(manifest, limits->manifest_bytes, "--max-manifest", &text, &bytes, err) ||
        ckpt_manifest_parse(&new, manifest, config, limits, text, bytes, err));
    MEM_FREE(text, folder, config, manifest);
    ckpt_find_largest(&new);
    if (rc)
        ckpt_close(&new);
    else
        *c = new;
    return rc;
}

/* Opens with copy m's manifest and any config that matches it; err is that of copy m's
   config. */
static int open_with(struct ckpt *c, const char *dir, int m, const struct ckpt_limits *limits,
                     struct err *err)
{
    struct err other;

    if (open_by(c, dir, m, m, limits, err) == 0)
        return 0;
    /* If the config is intact, either of the two may be the wrong one. */
    for (int k = -1; (k = find_copy(dir, k + 1, "config.json")) >= 0;)
        if (ckpt_stopped(limits->stop, err))
            break;
        else if (k != m && open_by(c, dir, m, k, limits, &other) == 0)
            return 0;
    return -1;
}

/* Whether some block has the checksum in the manifest. */
static int has_its_block(struct ckpt *c)
{
    char *seen = mem_new((size_t)c->files, 1);
    int probes = 0, good = 0;
    struct err err;

    for (int64_t b = 0; !good && probes < PROBES && b < c->blocks; b++) {
        if (seen[c->block[b].file])
            continue;
        seen[c->block[b].file] = 1;
        for (int k = 0; !good && k <= c->copies && !ckpt_stopped(c->stop, &err); k++) {
            int rc = ckpt_load_copy(c, b, k, &err);
            good = rc == 0;
            probes += rc && err.code == ERR_MISMATCH;
        }
    }
    mem_free(seen);
    return good;
}

int ckpt_blame(struct ckpt *c, struct err *err)
{
    struct ckpt_limits limits = ckpt_limits_usual;
    struct ckpt other;
    struct err ignored;

    limits.stop = c->stop;
    if (c->manifest || err->code == ERR_SYS || find_copy(c->dir, 1, "manifest.json") < 0 ||
        has_its_block(c) || ckpt_open_any(&other, c->dir, &limits, 1, &ignored))
        return -1;
    if (other.manifest) {
        char *own = ckpt_small_path(c->dir, 0, "manifest.json");
        char *copy = ckpt_small_path(c->dir, other.manifest, "manifest.json");
        err_set(err, ERR_MISMATCH,
                "'%s' belongs to another checkpoint, '%s' to these shards: paro-shard repair "
                "replaces it",
                own, copy);
        mem_free(own);
        mem_free(copy);
    }
    ckpt_close(&other);
    return -1;
}

int ckpt_open_any(struct ckpt *c, const char *dir, const struct ckpt_limits *limits, int doubt,
                  struct err *err)
{
    int first = -1; /* a well-formed manifest, possibly another run's */
    struct err own = {0}, other;

    limits = limits ? limits : &ckpt_limits_usual;
    for (int m = 0; m >= 0; m = find_copy(dir, m + 1, "manifest.json")) {
        if (ckpt_stopped(limits->stop, err))
            return -1;
        if (open_with(c, dir, m, limits, m ? &other : &own))
            continue;
        if ((m == 0 && !(doubt && find_copy(dir, 1, "manifest.json") > 0)) ||
            has_its_block(c)) {
            c->repaired.files = own.code != ERR_NONE;
            c->repaired.first = own;
            return 0;
        }
        first = first < 0 ? m : first;
        ckpt_close(c);
    }
    if (doubt && first >= 0)
        return open_with(c, dir, first, limits, err);
    *err = own;
    return -1;
}

int ckpt_expect(const char *dir, struct err *err)
{
    struct stat st;

    if (lstat(dir, &st))
        return err_sys(err, "cannot open '%s'", dir);
    if (ckpt_is(dir))
        return 0;
    return err_set(err, ERR_ABSENT,
                   "'%s' has no manifest.json, no copy of one and no latest, expected a "
                   "checkpoint or a run's folder",
                   dir);
}

int ckpt_open(struct ckpt *c, const char *dir, const struct ckpt_limits *limits,
              struct err *err)
{
    return ckpt_expect(dir, err) ? -1 : ckpt_open_any(c, dir, limits, 0, err);
}
