/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Saves a run's states while it continues.  All ranks write a checkpoint under a temporary
 * name, and it appears complete by a rename; `latest` is set to it afterwards, so that it
 * always names a complete one.
 *
 *     step k        trained states are copied; rank 0 makes the folder
 *     step k + 1    the folder exists: each rank's thread writes its shard from the copy
 *     step ...      all have finished: rank 0's thread writes the manifest, renames, prunes
 *     step ...      nothing is left to do
 *
 * Ranks exchange their save state inside the step's own exchange (TRAIN_BUSY); a separate
 * message would queue after the new parameters.  So a rank's part of the manifest is a file
 * next to its shard.  Frozen values are read in place: masks change only between two saves.
 *
 * A LOCAL saver writes into the folder of each host (train_local.c), in a single phase, in
 * which the threads of the ranks wait for each other and not for steps:
 *
 *     each rank         receives copies that its states lack from their owners
 *     first of a host   removes older steps, makes the folder
 *     each rank         writes its shard and copies; its entry goes to the first of its host
 *     first of a host   exchanges entries with the other first ones, writes the manifest
 *
 * A rank that fails has an empty entry, so no host has the checkpoint; all ranks learn it from
 * their flags.  This prints a line, and the run continues.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "train/train_inside.h"

enum phase { NONE, BEGUN, WRITING, PUBLISHING };
enum { ENTRY_BYTES_MAX = 256 << 20 };
enum tag { TAG_FOLDER = PARTS, TAG_ENTRY, TAG_ENTRIES };

struct train_saver {
    struct train *train; /* borrowed */
    enum phase phase;
    struct ckpt_shape shape;
    struct ckpt_run run;
    char name[40];
    char *path;                /* owned; final path of the checkpoint, on every rank */
    struct io_out dir;         /* rank 0's */
    struct train_images files; /* this rank's own, then the copies that it holds */
    struct train_local *local; /* borrowed; NULL: saves to the run's folder */
    int64_t *entry_at; /* [ranks + 1], owned; offsets in entries: ranks ordered by host */
    char *entries;     /* owned; all on the first rank of a host, else this rank's own */
    int failing;       /* the previous local checkpoint failed */
    pthread_t thread;
    int running;     /* the thread must be joined */
    atomic_int over; /* the thread is done */
    int rc;          /* its outcome, with err */
    struct err err;
};

/* ---- files ---- */

static int hold(void *arg)
{
    const struct train_saver *s = arg;

    return engine_is_sending(s->train->engine);
}

/* "shard-00003.json": a rank's part of the manifest, until that is written. */
static void entry_name(int rank, char name[32])
{
    snprintf(name, 32, "shard-%05d.json", rank);
}

static int write_shard(struct train_saver *s, char **entry, struct err *err)
{
    int rank = s->train->world->rank, rc = 0;
    struct io_out dir;

    if (io_dir_enter(&dir, s->path, 0, err))
        return -1;
    for (int i = 0; rc == 0 && i < s->files.images; i++) {
        struct train_image *image = &s->files.image[i];
        rc = ckpt_write_shard(&dir, image->rank, image->k, &s->shape, train_image_fill, image,
                              i ? NULL : entry, err);
    }
    if (rc == 0 && !s->local) {
        char name[32];
        entry_name(rank, name);
        rc = io_dir_put(&dir, name, *entry, (int64_t)strlen(*entry), err);
    }
    io_dir_leave(&dir);
    return rc;
}

/* Reads and removes an entry; owned by the caller. */
static int take_entry(const struct train_saver *s, int rank, char **entry, struct err *err)
{
    char name[32];
    int64_t bytes;
    int fd = -1;

    entry_name(rank, name);
    char *path = io_join(s->dir.temp, name);
    int rc = io_dir_open(&s->dir, path, O_RDONLY, 0, &fd, err);
    if (rc == 0) {
        rc = io_read_all(fd, path, ENTRY_BYTES_MAX, NULL, entry, &bytes, err);
        close(fd);
    }
    if (rc == 0 && unlinkat(s->dir.fd, name, 0))
        rc = err_sys(err, "cannot remove '%s'", path);
    mem_free(path);
    return rc;
}

static int save_place_of(const struct train_saver *s, int rank)
{
    const struct groups *g = &s->train->world->groups;

    return g->first[g->group_of[rank]] + g->local_of[rank];
}

/* The entry of a rank in a local checkpoint; "": that rank has failed. */
static char *save_entry_of(const struct train_saver *s, int rank)
{
    return s->entries + s->entry_at[save_place_of(s, rank)];
}

/* Writes the manifest from all ranks' parts, and the carry of the run's folder. */
static int write_manifest(struct train_saver *s, struct err *err)
{
    struct train *t = s->train;
    int ranks = t->world->ranks, rc = 0;
    char **entry = mem_new((size_t)ranks, sizeof *entry);

    for (int r = 0; rc == 0 && r < ranks; r++)
        if (s->local)
            entry[r] = mem_dup(save_entry_of(s, r));
        else
            rc = take_entry(s, r, &entry[r], err);
    if (rc == 0 && !s->local)
        rc = carry_put(&t->carry, &s->dir, err);
    if (rc == 0)
        rc = ckpt_manifest_write(&s->dir, &s->shape, (const char *const *)entry, &s->run,
                                 s->local ? NULL : &t->carry.list, err);
    for (int r = 0; r < ranks; r++)
        mem_free(entry[r]);
    mem_free(entry);
    return rc;
}

/* On rank 0, when all shards are complete. */
static int publish_checkpoint(struct train_saver *s, struct err *err)
{
    struct train *t = s->train;
    int rc = write_manifest(s, err);

    if (rc == 0 && s->dir.in_the_way)
        rc = train_folder_make_way(t, s->name, err);
    if (rc == 0)
        rc = io_commit(&s->dir, err);
    else
        io_abandon(&s->dir);
    if (rc == 0)
        rc = t->home == t->replacement.temp ? train_replace_end(t, s->name, err)
                                            : train_folder_point(t, s->name, err);
    if (rc == 0)
        rc = train_folder_prune(t, (int64_t)t->settings.keep, s->run.step, err);
    return rc;
}

/* ---- a local checkpoint ---- */

/* The first rank of this host announces the folder (*rc), or gets the others' entries. */
static int exchange_host(struct train_saver *s, enum tag tag, int *rc, struct err *err)
{
    const struct world *w = s->train->world;
    int first = w->node_rank == 0, host = w->groups.group_of[w->rank], n = 0;
    struct world_parcel *p = mem_new((size_t)w->node_ranks, sizeof *p);

    for (int m = first; m < (first ? w->node_ranks : 1); m++) {
        int peer = groups_rank(&w->groups, host, m), of = first ? peer : w->rank;
        const int64_t *at = &s->entry_at[save_place_of(s, of)];
        p[n++] = tag == TAG_FOLDER ? (struct world_parcel){peer, !first, tag, rc, sizeof *rc}
                                   : (struct world_parcel){peer, first, tag,
                                                           save_entry_of(s, of), at[1] - at[0]};
    }
    int failed = world_transfer(&s->local->peers, p, n, NULL, NULL, err);
    mem_free(p);
    return failed;
}

/* The first ranks of hosts exchange the entries of their hosts. */
static int exchange_hosts(struct train_saver *s, struct err *err)
{
    const struct groups *g = &s->train->world->groups;
    int own = g->group_of[s->train->world->rank], n = 0;
    struct world_parcel *p = mem_new(2 * (size_t)g->count, sizeof *p);

    for (int h = 0; h < g->count; h++)
        for (int receives = 0; h != own && receives < 2; receives++) {
            int of = receives ? h : own;
            int64_t at = s->entry_at[g->first[of]], end = s->entry_at[g->first[of + 1]];
            p[n++] = (struct world_parcel){groups_rank(g, h, 0), receives, TAG_ENTRIES,
                                           s->entries + at, end - at};
        }
    int failed = world_transfer(&s->local->peers, p, n, NULL, NULL, err);
    mem_free(p);
    return failed;
}

/* On the first rank of a host, failed or not.  A rank that has failed reports that itself. */
static int publish_local(struct train_saver *s, struct err *err)
{
    if (exchange_hosts(s, err))
        return -1;
    for (int r = 0; r < s->train->world->ranks; r++)
        if (!save_entry_of(s, r)[0])
            return 0;
    return io_end(&s->dir, write_manifest(s, err), err);
}

/* rc: outcome of this rank's copy.  A rank that has failed still takes part. */
static int write_local(struct train_saver *s, int rc, struct err *err)
{
    const struct train_images *f = &s->files;
    int rank = s->train->world->rank, first = s->train->world->node_rank == 0,
        has = first ? rc : 0;
    int64_t *at = &s->entry_at[save_place_of(s, rank)];
    char *entry = NULL;

    if (first && rc == 0) /* removing a step takes a while */
        has = rc = err_any(train_local_prune(s->train, err) ||
                           io_dir_create(&s->dir, s->path, IO_MAKE_WAY, err));
    memset(save_entry_of(s, rank), 0, (size_t)(at[1] - at[0]));
    if (world_transfer(&s->local->peers, f->parcel, f->parcels, hold, s, err) ||
        exchange_host(s, TAG_FOLDER, &has, err))
        return -1;
    if (rc == 0 && has == 0)
        rc = write_shard(s, &entry, err);
    if (entry)
        snprintf(save_entry_of(s, rank), (size_t)(at[1] - at[0]), "%s", rc ? "" : entry);
    mem_free(entry);
    if (exchange_host(s, TAG_ENTRY, NULL, err) || (first && publish_local(s, err)))
        return -1;
    return rc;
}

/* ---- the thread ---- */

static void write_part(struct train_saver *s)
{
    char *entry = NULL;

    s->rc = s->local              ? write_local(s, s->rc, &s->err)
            : s->phase == WRITING ? write_shard(s, &entry, &s->err)
                                  : publish_checkpoint(s, &s->err);
    mem_free(entry);
    atomic_store(&s->over, 1);
}

/*
 * Gives way to training where there are no spare processors: there is time until the next save.
 * Not for local checkpoints: there is little, and they wait for each other and hold MPI's lock.
 */
static void *run_thread(void *arg)
{
    const struct train_saver *s = arg;

    if (!s->local)
        setpriority(PRIO_PROCESS, (id_t)gettid(), 19);
    write_part(arg);
    return NULL;
}

/* Leaves signals to the first thread.  Without a thread the work is done here. */
static void start_thread(struct train_saver *s)
{
    sigset_t all, was;

    atomic_store(&s->over, 0);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &was);
    s->running = pthread_create(&s->thread, NULL, run_thread, s) == 0;
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    if (!s->running)
        write_part(s);
}

static int join_thread(struct train_saver *s, struct err *err)
{
    if (s->running)
        pthread_join(s->thread, NULL);
    s->running = 0;
    if (s->rc)
        *err = s->err;
    return s->rc;
}

/* ---- the phases ---- */

/* rc, err: outcome of the copy; reported in the next exchange. */
static void begin_checkpoint(struct train_saver *s, int rc, const struct err *err)
{
    struct train *t = s->train;

    train_folder_name(t->step, s->name);
    s->run = (struct ckpt_run){.step = t->step,
                               .tokens = t->tokens,
                               .position = t->step,
                               .seed = (uint64_t)t->settings.seed,
                               .data_tokens = t->data.train,
                               .data_seq = t->data.seq,
                               .data_sum = t->data.sum};
    mem_free(s->path);
    s->path = io_join(s->local ? s->local->base : t->home, s->name);
    s->phase = s->local ? WRITING : BEGUN;
    s->rc = rc;
    if (rc)
        s->err = *err;
    if (s->local)
        start_thread(s);
    else if (rc == 0 && t->world->rank == 0)
        s->rc = io_dir_create(&s->dir, s->path, IO_MAKE_WAY, &s->err);
}

/* All ranks have finished the current phase successfully. */
static void next_phase(struct train_saver *s)
{
    struct train *t = s->train;

    if (s->local) {
        s->failing = 0;
        s->phase = NONE;
    } else if (s->phase == PUBLISHING) {
        t->saved = s->run.step;
        t->home = t->replacement.path ? t->replacement.path : t->run->out;
        s->phase = NONE;
    } else if (++s->phase == WRITING || t->world->rank == 0) {
        start_thread(s);
    }
}

/*
 * Removes a local checkpoint that failed on some rank from all hosts, and prints one line.
 * Collective; -1: a rank is lost.
 */
static int give_up_local(struct train_saver *s, struct err *err)
{
    struct train *t = s->train;
    struct err why;

    if (world_agree(t->world, s->rc, &s->err) && s->err.code == ERR_PEER) {
        *err = s->err;
        return -1;
    }
    if (!s->failing)
        train_print(t, "no local checkpoint of step %" PRId64 ": %s", s->run.step, s->err.text);
    s->failing = 1;
    if (s->dir.path)
        io_abandon(&s->dir);
    if (t->world->node_rank == 0)
        io_remove_tree(s->path, &why);
    s->phase = NONE;
    s->rc = 0;
    return 0;
}

/* Finishes all phases in progress, with an agreement. */
static int finish_phases(struct train_saver *s, struct err *err)
{
    while (s && s->phase != NONE) {
        struct world *w = s->train->world;
        w->slow++;
        int failed = join_thread(s, err), rc = world_agree(w, failed, err);
        w->slow--;
        if (rc && s->local && err->code != ERR_PEER) {
            s->rc = failed;
            rc = give_up_local(s, err);
        } else if (rc == 0) {
            next_phase(s);
        }
        if (rc) {
            s->phase = NONE;
            return -1;
        }
    }
    return 0;
}

int64_t train_save_flag(struct train *t)
{
    struct train_saver *both[] = {t->saver, t->local_saver};
    int64_t flags = 0;

    for (int i = 0; i < 2 && both[i]; i++) {
        struct train_saver *s = both[i];
        if (s->running && !atomic_load(&s->over)) {
            flags |= s->local ? TRAIN_LOCAL_BUSY : TRAIN_BUSY;
        } else if (s->phase != NONE && s->rc && s->local) {
            flags |= TRAIN_LOCAL_FAILED;
        } else if (s->phase != NONE && s->rc) {
            t->failure = s->err;
            flags |= TRAIN_FAILED;
        }
    }
    return flags;
}

int train_save_advance(struct train *t, int64_t flags, struct err *err)
{
    struct train_saver *s = t->saver, *local_saver = t->local_saver;
    struct err none; /* a failed rank has reported it, and the run ends */

    if (s->phase != NONE && !(flags & TRAIN_BUSY)) {
        join_thread(s, &none);
        next_phase(s);
    }
    if (!local_saver || local_saver->phase == NONE || (flags & TRAIN_LOCAL_BUSY))
        return 0;
    join_thread(local_saver, &none);
    if (flags & TRAIN_LOCAL_FAILED)
        return give_up_local(local_saver, err);
    next_phase(local_saver);
    return 0;
}

int train_save_begin(struct train *t, struct err *err)
{
    struct train_saver *s = t->saver;

    /* If the previous save is late, waits for it, since there is only one copy. */
    if (finish_phases(s, err) || train_easy_save(t, err))
        return -1;
    if (s->files.image->state) {
        begin_checkpoint(s, train_images_take(&s->files, err), err);
        return 0;
    }
    begin_checkpoint(s, 0, NULL);
    return finish_phases(s, err);
}

void train_save_local(struct train *t)
{
    struct train_saver *s = t->local_saver;
    struct err err = {0};

    /* Skips it on all ranks while the previous one is being written. */
    if (s && s->phase == NONE && train_due(t, t->settings.local_every))
        begin_checkpoint(s, train_images_take(&s->files, &err), &err);
}

int train_save_wait(struct train *t, struct err *err)
{
    return finish_phases(t->saver, err) || finish_phases(t->local_saver, err) ? -1 : 0;
}

int train_save_finish(struct train *t, struct err *err)
{
    if (train_save_wait(t, err))
        return -1;
    if (t->saved != t->step) {
        if (train_easy_save(t, err))
            return -1;
        t->saver->files.copied = 0;
        begin_checkpoint(t->saver, 0, NULL);
        if (finish_phases(t->saver, err))
            return -1;
    }
    train_local_remove(t);
    return 0;
}

static struct train_saver *new_saver(struct train *t)
{
    struct train_saver *s = mem_new(1, sizeof *s);
    int groups = t->plan.sync_every ? t->plan.groups.count : 0;

    *s = (struct train_saver){.train = t,
                              .shape = {.model = &t->plan.model,
                                        .layout = engine_layout(t->engine),
                                        .strategy = plan_strategy_name(t->plan.strategy),
                                        .states = groups ? 5 : 4,
                                        .state = {{"params", t->stored, 0},
                                                  {"master", DTYPE_F32, 0},
                                                  {"exp_avg", DTYPE_F32, groups},
                                                  {"exp_avg_sq", DTYPE_F32, groups},
                                                  {"outer_momentum", DTYPE_F32, 0}}},
                              .dir = {.fd = -1}};
    s->files = (struct train_images){.train = t, .shape = &s->shape};
    return s;
}

/* All but the checksums is the same in every checkpoint, and so is the length. */
static int open_entries(struct train_saver *s, struct err *err)
{
    const struct world *w = s->train->world;
    int64_t *bytes = mem_new((size_t)w->ranks, sizeof *bytes);
    struct ckpt_shard shard;

    ckpt_shard_init(&shard, &s->shape, w->rank);
    for (int64_t i = 0; i < shard.blocks; i++)
        ckpt_hash("", 0, shard.block[i].hash);
    char *entry = ckpt_shard_entry(&shard);
    int64_t own = (int64_t)strlen(entry) + 1;
    ckpt_shard_release(&shard);
    mem_free(entry);
    int rc = world_allgather(s->train->world, &own, sizeof own, bytes, err);
    s->entry_at = mem_new((size_t)w->ranks + 1, sizeof *s->entry_at);
    for (int i = 0; i < w->ranks; i++)
        s->entry_at[i + 1] = s->entry_at[i] + bytes[w->groups.rank[i]];
    s->entries = mem_new((size_t)s->entry_at[w->ranks], 1);
    mem_free(bytes);
    return rc;
}

/* Also for the copies that this rank holds of other groups' shards. */
static int open_local(struct train *t, struct err *err)
{
    const struct groups *g = &engine_layout(t->engine)->groups;
    int copies = (int)t->settings.copies;

    if (!t->local)
        return 0;
    if (copies > g->count - 1) { /* lost hosts may take their groups with them */
        train_print(t,
                    "keeps %d local copies of each shard, not %d (--copies): there %s %d "
                    "other group%s",
                    g->count - 1, copies, g->count == 2 ? "is" : "are", g->count - 1,
                    g->count == 2 ? "" : "s");
        copies = g->count - 1;
    }
    struct train_saver *s = t->local_saver = new_saver(t);
    s->local = t->local;
    s->shape.copies = copies;
    s->shape.apart = 1;
    for (int k = 0; k <= copies; k++)
        for (int r = 0; r < g->ranks; r++)
            if (ckpt_copy_holder(g, r, k) == t->world->rank)
                train_images_add(&s->files, r, k);
    if (train_images_place(&s->files, "the copy of local checkpoints (--local-save)", err))
        return -1;
    return open_entries(s, err);
}

int train_save_open(struct train *t, struct err *err)
{
    struct train_saver *s = t->saver = new_saver(t);

    train_images_add(&s->files, t->world->rank, 0);
    if (t->settings.async_save && t->settings.save_every &&
        train_images_place(&s->files,
                           "the copy that is saved during training (--async-save=0 needs none)",
                           err))
        return -1;
    return open_local(t, err);
}

void train_save_still(struct train *t)
{
    struct err none;

    if (t->saver->phase == PUBLISHING)
        join_thread(t->saver, &none);
}

int64_t train_save_bytes(const struct train *t)
{
    return t->saver->files.arena.used + (t->local_saver ? t->local_saver->files.arena.used : 0);
}

static void close_saver(struct train_saver *s)
{
    struct err none;

    join_thread(s, &none);
    /* Waits until no rank writes into the folder, before it is removed. */
    if (s->phase != NONE)
        world_barrier(s->train->world, &none);
    if (s->dir.path)
        io_abandon(&s->dir);
    train_images_release(&s->files);
    MEM_FREE(s->entry_at, s->entries, s->path, s);
}

void train_save_close(struct train *t)
{
    if (t->saver)
        close_saver(t->saver);
    if (t->local_saver)
        close_saver(t->local_saver);
    t->saver = t->local_saver = NULL;
}
