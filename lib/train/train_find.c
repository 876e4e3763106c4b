/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds and reads a local checkpoint, with any number of ranks on the remaining hosts.  The
 * first rank of each host lists its folder; all ranks open the checkpoint by the manifest of
 * one of them, and learn from the sizes of its files which host has which shard.  A block is
 * read on this host if it is here, otherwise requested from a rank on a host that has it, one
 * block at a time.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "train/train_inside.h"

enum { EACH = 4, TAIL = 36 }; /* steps of a host; a manifest ends with 32 digits and "\n}\n */

struct train_source {
    struct train *train; /* borrowed */
    char *dir;           /* owned; the checkpoint on this host */
    struct ckpt *c;      /* borrowed: the checkpoint being read */
    struct ckpt shared;  /* the same step in the run's folder, for files that no host has */
    int has_shared, hosts;
    int *host; /* [files * (1 + copies)], owned: a host that has the file; -1: none */
    struct io_kept open, answered; /* open files of this rank's reads, and of the service */
    struct world_service *service; /* owned */
};

/* ---- listing ---- */

static int read_sum(const char *dir, char sum[33])
{
    char *path = io_join(dir, "manifest.json"), tail[TAIL];
    struct err ignored;
    int64_t bytes = 0;
    int fd = -1, rc = io_open(path, &fd, &bytes, &ignored);

    if (rc == 0)
        rc = bytes < TAIL ? -1 : io_pread_all(fd, tail, TAIL, bytes - TAIL, &ignored);
    if (fd >= 0)
        close(fd);
    mem_free(path);
    memcpy(sum, tail, rc ? 0 : 32);
    sum[32] = 0;
    return rc;
}

static void list_host(const struct train *t, struct train_candidate have[EACH])
{
    struct io_names all = {0};
    struct err none;
    int n = 0;

    if (t->local->base && t->world->node_rank == 0)
        io_names_read(&all, -1, t->local->base, &none);
    for (int i = all.count - 1; n < EACH && i >= 0; i--) {
        char *dir = io_join(t->local->base, all.entry[i]->d_name);
        have[n].step = train_folder_step(all.entry[i]->d_name);
        n += have[n].step > 0 && read_sum(dir, have[n].sum) == 0;
        mem_free(dir);
    }
    io_names_free(&all);
    for (; n < EACH; n++)
        have[n] = (struct train_candidate){.step = -1};
}

static int find_is_same(const struct train_candidate *a, const struct train_candidate *b)
{
    return a->step == b->step && strcmp(a->sum, b->sum) == 0;
}

static int newest_first(const void *one, const void *other)
{
    const struct train_candidate *a = one, *b = other;

    return a->step != b->step ? (a->step < b->step) - (a->step > b->step)
                              : strcmp(a->sum, b->sum);
}

int train_find_list(struct train *t, struct err *err)
{
    int ranks = t->world->ranks;
    struct train_candidate mine[EACH] = {0};
    struct train_local *l = t->local;

    if (!l || !l->base)
        return 0;
    struct train_candidate *all = l->all = mem_new((size_t)ranks * EACH, sizeof *all);
    list_host(t, mine);
    if (world_allgather(t->world, mine, sizeof mine, all, err))
        return -1;
    l->candidate = mem_new((size_t)ranks * EACH, sizeof *all);
    memcpy(l->candidate, all, (size_t)ranks * EACH * sizeof *all);
    qsort(l->candidate, (size_t)ranks * EACH, sizeof *all, newest_first);
    for (int i = 0; i < ranks * EACH && l->candidate[i].step > 0; i++)
        if (i == 0 || !find_is_same(&l->candidate[i], &l->candidate[l->candidates - 1]))
            l->candidate[l->candidates++] = l->candidate[i];
    return 0;
}

/* ---- opening ---- */

/* Distributes the manifest of one host to all ranks. */
static int share_manifest(struct train *t, int root, char **text, int64_t *bytes,
                          struct err *err)
{
    char *path = io_join(t->local->source->dir, "manifest.json");
    struct world *w = t->world;
    int rc = w->rank == root ? io_read_file(path, INT32_MAX, NULL, text, bytes, err) : 0;

    mem_free(path);
    if (world_agree(w, rc, err) || world_bcast(w, bytes, sizeof *bytes, root, err))
        return -1;
    if (w->rank != root)
        *text = mem_new((size_t)*bytes + 1, 1);
    return world_bcast(w, *text, *bytes, root, err);
}

/* Opens the checkpoint by the first intact manifest. */
static int open_manifest(struct train *t, const struct train_candidate *want, struct ckpt *c,
                         struct err *err)
{
    const struct train_local *l = t->local;
    int rc = -1;

    for (int i = 0; rc && i < t->world->ranks * EACH; i++) {
        char *text = NULL;
        int64_t bytes = 0;
        if (!find_is_same(&l->all[i], want))
            continue;
        if (share_manifest(t, i / EACH, &text, &bytes, err) == 0)
            rc = world_agree(
                t->world,
                ckpt_open_text(c, l->source->dir, t->plan.model.config, text, bytes, err), err);
        mem_free(text);
        if (rc && err->code == ERR_PEER)
            break;
    }
    return rc;
}

/* Lists the files that this host has completely, [files * (1 + copies)]. */
static void list_files(const struct train_source *s, char *have)
{
    const struct ckpt *c = s->c;
    struct stat st;

    for (int f = 0; f < c->files; f++)
        for (int k = 0; k <= c->copies; k++) {
            char *path = ckpt_shard_path(s->dir, &c->groups, f, k);
            have[f * (1 + c->copies) + k] =
                stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == c->file[f].bytes;
            mem_free(path);
        }
}

/* Each host in turn announces its files; this host's own are preferred. */
static int find_files(struct train *t, const struct train_candidate *want, struct err *err)
{
    const struct world *w = t->world;
    const struct train_candidate *all = t->local->all;
    struct train_source *s = t->local->source;
    int count = s->c->files * (1 + s->c->copies), own = w->groups.group_of[w->rank], rc = 0;
    char *have = mem_new((size_t)count, 1);

    s->host = mem_new((size_t)count, sizeof *s->host);
    for (int i = 0; i < count; i++)
        s->host[i] = -1;
    for (int h = 0; rc == 0 && h < w->groups.count; h++) {
        int root = groups_rank(&w->groups, h, 0), there = 0;
        for (int i = 0; i < EACH; i++)
            there |= find_is_same(&all[root * EACH + i], want);
        if (!there)
            continue;
        s->hosts++;
        if (w->rank == root)
            list_files(s, have);
        rc = world_bcast(t->world, have, count, root, err);
        for (int i = 0; i < count; i++)
            if (have[i] && (s->host[i] < 0 || h == own))
                s->host[i] = h;
    }
    mem_free(have);
    return rc;
}

/* Counts shards of which no host has the file or a copy; *copied: shards with copies only. */
static int count_lost(const struct train_source *s, int *copied)
{
    int each = 1 + s->c->copies, lost = 0;

    *copied = 0;
    for (int f = 0; f < s->c->files; f++) {
        int k = 0;
        while (k < each && s->host[f * each + k] < 0)
            k++;
        lost += k == each;
        *copied += k > 0 && k < each;
    }
    return lost;
}

/* Opens the same checkpoint in the run's folder, if it exists, for files that no host has. */
static int open_shared(struct train *t, int64_t step, struct err *err)
{
    struct train_source *s = t->local->source;
    char *shared = train_folder_path(t, step);
    struct err why = {0};
    int rc = ckpt_open(&s->shared, shared, NULL, &why);

    s->has_shared = rc == 0;
    if (rc == 0 && (s->shared.run.step != s->c->run.step || s->shared.blocks != s->c->blocks))
        rc = err_set(&why, ERR_MISMATCH, "'%s' is of other ranks", shared);
    mem_free(shared);
    rc = world_agree(t->world, rc, &why);
    if (rc && why.code == ERR_PEER)
        *err = why;
    return rc ? (why.code == ERR_PEER ? -1 : 1) : 0;
}

/* ---- reading ---- */

static int find_read_file(const struct train_source *s, struct io_kept *open, int file, int k,
                          int64_t offset, int64_t bytes, void *to, struct err *err)
{
    const struct ckpt *c = s->c;
    char *path = ckpt_shard_path(s->dir, &c->groups, file, k);
    int *fd = io_kept(open, file * (1 + c->copies) + k);
    int rc = *fd < 0 ? io_open_whole(path, c->file[file].bytes, fd, err) : 0;

    if (rc == 0 && io_pread_all(*fd, to, bytes, offset, err))
        rc = err_prefix(err, "%s: ", path);
    mem_free(path);
    return rc;
}

/* Answers other hosts' requests: file, copy, offset, bytes. */
static int answer(void *arg, const int64_t what[WORLD_REQUEST], void *to, int64_t *bytes,
                  struct err *err)
{
    struct train_source *s = arg;

    *bytes = what[3];
    return find_read_file(s, &s->answered, (int)what[0], (int)what[1], what[2], what[3], to,
                          err);
}

static int query_host(struct train_source *s, int host, const struct ckpt_block *b, int k,
                      void *out, struct err *err)
{
    const struct world *w = s->train->world;
    int rank = groups_rank(&w->groups, host, w->rank % w->groups.members[host]);
    int64_t bytes = 0;

    return world_request(s->service, rank, (int64_t[]){b->file, k, b->offset, b->bytes}, out,
                         b->bytes, &bytes, err);
}

static int read_shared(struct train_source *s, const struct ckpt_block *b, void *out,
                       struct err *err)
{
    int64_t number = b - s->c->block;

    if (strcmp(s->shared.block[number].hash, b->hash))
        return err_set(err, ERR_MISMATCH, "'%s' has other states of this step", s->shared.dir);
    if (ckpt_load_copy(&s->shared, number, 0, err))
        return -1;
    memcpy(out, s->shared.buffer, (size_t)b->bytes);
    return 0;
}

static int find_fetch(void *arg, const struct ckpt_block *b, int attempt, void *out,
                      struct err *err)
{
    struct train_source *s = arg;
    const struct world *w = s->train->world;
    int each = 1 + s->c->copies, own = w->groups.group_of[w->rank];
    const int *host = &s->host[b->file * each];

    for (int local_saver = 1; local_saver >= 0; local_saver--)
        for (int k = 0; k < each; k++) {
            if (host[k] < 0 || (host[k] == own) != local_saver || attempt-- > 0)
                continue;
            return local_saver
                       ? find_read_file(s, &s->open, b->file, k, b->offset, b->bytes, out, err)
                       : query_host(s, host[k], b, k, out, err);
        }
    if (s->has_shared && attempt == 0)
        return read_shared(s, b, out, err);
    return err_set(err, ERR_ABSENT, "no other host has a copy of '%s'",
                   s->c->file[b->file].name);
}

void train_find_end(struct train *t)
{
    struct train_source *s = t->local ? t->local->source : NULL;

    if (!s)
        return;
    world_service_close(s->service);
    io_kept_close(&s->open);
    io_kept_close(&s->answered);
    if (s->has_shared)
        ckpt_close(&s->shared);
    MEM_FREE(s->host, s->dir, s);
    t->local->source = NULL;
}

int train_find_open(struct train *t, const struct train_candidate *want, int64_t newest,
                    struct ckpt *c, struct err *err)
{
    struct train_source *s = t->local->source = mem_new(1, sizeof *s);
    int shared = want->step == newest, copied = 0;
    char name[40];

    train_folder_name(want->step, name);
    s->train = t;
    s->c = c;
    s->dir = io_join(t->local->base, name);
    int rc = open_manifest(t, want, c, err);
    if (rc && err->code != ERR_PEER) {
        train_print(t, "local checkpoint of step %" PRId64 " is not used: %s", want->step,
                    err->text);
        return 1;
    }
    if (rc || find_files(t, want, err))
        return -1;
    int lost = count_lost(s, &copied), files = c->files;
    if (lost && shared && (rc = open_shared(t, newest, err)) < 0)
        return -1;
    if (lost && (!shared || rc)) {
        train_print(t,
                    "local checkpoint of step %" PRId64
                    " is not used: %d of its %d shards are on no host that is here",
                    want->step, lost, files);
        return 1;
    }
    snprintf(t->local->from, sizeof t->local->from,
             "local copies of %d host%s (%d of %d shards from copies%s%.0d%s)", s->hosts,
             s->hosts == 1 ? "" : "s", copied, files, lost ? ", " : "", lost,
             lost ? " from the run's folder" : "");
    c->fetch = find_fetch;
    c->fetch_arg = s;
    const struct world_answers answers = {answer, s, c->block_bytes};
    return t->run->dry
               ? 0
               : world_agree(t->world,
                             world_service_open(&s->service, &t->local->peers, &answers, err),
                             err);
}
