/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how a run's states are saved while it continues.  A checkpoint is written by all ranks
 * beside its place and appears whole; `latest` is moved onto it afterwards, so that it always
 * names a complete one.
 *
 *     step k        what trains is copied; rank 0 makes the folder
 *     step k + 1    the folder is there: each rank's thread writes its shard from the copy
 *     step ...      none writes any more: rank 0's thread writes the manifest, renames, prunes
 *     step ...      nothing is left to do
 *
 * The ranks learn of each other what they say in the step's own exchange (TRAIN_BUSY), never a
 * word beside it: a word would wait behind the new parameters, which are on their way then.  So
 * what the manifest needs of a rank lies in a file beside its shard.  What is frozen is read
 * where it lies: it does not change, and masks only when nothing is being written.
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
enum { STATES = 4, MOMENTS = 3, ENTRY_BYTES_MAX = 256 << 20 };

struct copy { /* of a unit's G shard of what trains: master and both moments */
    float *state[MOMENTS];
};

struct train_saver {
    struct train *train; /* borrowed */
    enum phase phase;
    struct ckpt_shape shape;
    struct ckpt_run run;
    char name[40], strategy[4];
    char *path;        /* owned; where the checkpoint will be, on every rank */
    struct io_dir dir; /* rank 0's */
    struct arena arena;
    struct copy *copy; /* [units], owned; NULL: states are read where they are */
    int copied;        /* whether this checkpoint is of the copy */
    struct range *ranges;
    pthread_t thread;
    int running;     /* a thread is to be joined */
    atomic_int over; /* and is done */
    int rc;          /* its outcome, with err */
    struct err err;
};

/* ---- what is written ---- */

static int g_ranges(const struct train_saver *s, int unit)
{
    return layout_ranges(s->shape.layout, LETTER_G, s->train->world->rank,
                         s->shape.model->unit[unit].trained, s->ranges);
}

static void place_copy(struct train_saver *s)
{
    const struct model *m = s->shape.model;

    for (int u = 0; u < m->units; u++)
        for (int i = 0; i < MOMENTS; i++)
            s->copy[u].state[i] = arena_take(
                &s->arena, 4 * layout_elems(s->shape.layout, LETTER_G, s->train->world->rank,
                                            m->unit[u].trained));
}

static int take_copy(struct train_saver *s, struct err *err)
{
    for (int u = 0; u < s->shape.model->units; u++) {
        int n = g_ranges(s, u);
        for (int i = 0; i < MOMENTS; i++) {
            float *to = s->copy[u].state[i];
            for (int k = 0; k < n; to += s->ranges[k].hi - s->ranges[k].lo, k++)
                if (engine_values(s->train->engine, u, i, s->ranges[k], DTYPE_F32, to, err))
                    return -1;
        }
    }
    return 0;
}

/* params and master are the same values, in the model's type and in f32 */
static int fill_block(void *arg, int unit, int state, struct range at, void *out,
                      struct err *err)
{
    struct train_saver *s = arg;
    enum dtype type = s->shape.state[state].type;
    int from = state > 0 ? state - 1 : 0;

    if (!s->copied || at.lo >= s->shape.model->unit[unit].trained)
        return engine_values(s->train->engine, unit, from, at, type, out, err);
    int64_t first = layout_offset(s->ranges, g_ranges(s, unit), at.lo);
    dtype_convert(out, type, s->copy[unit].state[from] + first, DTYPE_F32, at.hi - at.lo);
    return 0;
}

/* "shard-00003.json": a rank's part of the manifest, until there is one. */
static void entry_name(int rank, char name[32])
{
    snprintf(name, 32, "shard-%05d.json", rank);
}

static int write_shard(struct train_saver *s, struct err *err)
{
    int rank = s->train->world->rank;
    char *entry = NULL, name[32];
    struct io_dir dir;

    if (io_dir_enter(&dir, s->path, err))
        return -1;
    int rc = ckpt_write_shard(&dir, rank, &s->shape, fill_block, s, &entry, err);
    entry_name(rank, name);
    if (rc == 0)
        rc = io_dir_put(&dir, name, entry, (int64_t)strlen(entry), err);
    mem_free(entry);
    io_dir_leave(&dir);
    return rc;
}

/* Read and removed; owned by the caller. */
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

/* Rank 0, when all shards are there. */
static int publish_checkpoint(struct train_saver *s, struct err *err)
{
    struct train *t = s->train;
    int ranks = t->world->ranks, rc = 0;
    char **entry = mem_new((size_t)ranks, sizeof *entry);

    for (int r = 0; rc == 0 && r < ranks; r++)
        rc = take_entry(s, r, &entry[r], err);
    if (rc == 0)
        rc = carry_put(&t->carry, &s->dir, err);
    if (rc == 0)
        rc = ckpt_manifest_write(&s->dir, &s->shape, (const char *const *)entry, &s->run,
                                 &t->carry.list, err);
    for (int r = 0; r < ranks; r++)
        mem_free(entry[r]);
    mem_free(entry);
    if (rc == 0 && s->dir.in_the_way)
        rc = train_folder_make_way(t, s->name, err);
    if (rc == 0)
        rc = io_dir_commit(&s->dir, err);
    else
        io_dir_abandon(&s->dir);
    if (rc == 0)
        rc = t->home == t->temp ? train_anew_end(t, s->name, err)
                                : train_folder_point(t, s->name, err);
    if (rc == 0)
        rc = train_folder_prune(t, (int64_t)t->settings.keep, s->run.step, err);
    return rc;
}

/* ---- the thread ---- */

static void write_part(struct train_saver *s)
{
    s->rc = s->phase == WRITING ? write_shard(s, &s->err) : publish_checkpoint(s, &s->err);
    atomic_store(&s->over, 1);
}

/* Training goes first where there are no processors to spare: there is time until the next. */
static void *run_thread(void *arg)
{
    setpriority(PRIO_PROCESS, (id_t)gettid(), 19);
    write_part(arg);
    return NULL;
}

/* Signals are the first thread's.  Without a thread the work is done here. */
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

static void begin_checkpoint(struct train_saver *s)
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
    s->path = io_join(t->home, s->name);
    s->rc = t->world->rank == 0 ? io_dir_create(&s->dir, s->path, IO_MAKE_WAY, &s->err) : 0;
    s->phase = BEGUN;
}

/* All ranks are done with the phase at hand, and well. */
static void next_phase(struct train_saver *s)
{
    struct train *t = s->train;

    if (s->phase == PUBLISHING) {
        t->saved = s->run.step;
        t->home = t->place ? t->place : t->run->out;
        s->phase = NONE;
        return;
    }
    s->phase++;
    if (s->phase == WRITING || t->world->rank == 0)
        start_thread(s);
}

/* All that is in flight ends, and all ranks know it. */
static int finish_phases(struct train_saver *s, struct err *err)
{
    struct world *w = s->train->world;

    while (s->phase != NONE) {
        w->slow++;
        int rc = world_agree(w, join_thread(s, err), err);
        w->slow--;
        if (rc) {
            s->phase = NONE;
            return -1;
        }
        next_phase(s);
    }
    return 0;
}

int64_t train_save_flag(struct train *t)
{
    struct train_saver *s = t->saver;

    if (s->running && !atomic_load(&s->over))
        return TRAIN_BUSY;
    if (s->phase == NONE || !s->rc)
        return 0;
    t->failure = s->err;
    return TRAIN_FAILED;
}

void train_save_advance(struct train *t, int64_t flags)
{
    struct train_saver *s = t->saver;
    struct err none; /* who failed has said so, and the run ends */

    if (s->phase == NONE || (flags & TRAIN_BUSY))
        return;
    join_thread(s, &none);
    next_phase(s);
}

int train_save_begin(struct train *t, struct err *err)
{
    struct train_saver *s = t->saver;

    /* The one before is late: it is waited for, since there is but one copy. */
    if (finish_phases(s, err) || train_easy_save(t, err))
        return -1;
    s->copied = s->copy != NULL;
    int rc = s->copied ? take_copy(s, err) : 0;
    begin_checkpoint(s);
    if (rc && !s->rc) { /* reported in the next exchange */
        s->rc = rc;
        s->err = *err;
    }
    return s->copied ? 0 : finish_phases(s, err);
}

int train_save_settle(struct train *t, struct err *err)
{
    return finish_phases(t->saver, err);
}

int train_save_finish(struct train *t, struct err *err)
{
    if (finish_phases(t->saver, err))
        return -1;
    if (t->saved == t->step)
        return 0;
    if (train_easy_save(t, err))
        return -1;
    t->saver->copied = 0;
    begin_checkpoint(t->saver);
    return finish_phases(t->saver, err);
}

int train_save_open(struct train *t, struct err *err)
{
    struct train_saver *s = t->saver = mem_new(1, sizeof *s);
    const struct model *m = &t->plan.model;

    *s = (struct train_saver){.train = t,
                              .shape = {.model = m,
                                        .layout = engine_layout(t->engine),
                                        .strategy = s->strategy,
                                        .states = STATES,
                                        .state = {{"params", t->stored},
                                                  {"master", DTYPE_F32},
                                                  {"exp_avg", DTYPE_F32},
                                                  {"exp_avg_sq", DTYPE_F32}}},
                              .dir = {.fd = -1}};
    strcpy(s->strategy, plan_strategy_name(t->plan.strategy));
    s->ranges = mem_new((size_t)layout_ranges_max(s->shape.layout), sizeof *s->ranges);
    if (!t->settings.async_save || !t->settings.save_every)
        return 0;
    s->copy = mem_new((size_t)m->units, sizeof *s->copy);
    place_copy(s); /* measures */
    int64_t bytes = s->arena.used;
    int rc = arena_init(&s->arena, bytes,
                        "the copy that is saved during training "
                        "(--async-save=0 needs none)",
                        err);
    if (rc == 0)
        place_copy(s);
    return world_agree(t->world, rc, err);
}

void train_save_still(struct train *t)
{
    struct err none;

    if (t->saver->phase == PUBLISHING)
        join_thread(t->saver, &none);
}

int64_t train_save_bytes(const struct train *t)
{
    return t->saver->arena.used;
}

void train_save_close(struct train *t)
{
    struct train_saver *s = t->saver;
    struct err none;

    if (!s)
        return;
    join_thread(s, &none);
    /* Nobody writes into the folder any more when rank 0 removes it. */
    if (s->phase != NONE)
        world_barrier(t->world, &none);
    if (s->dir.path)
        io_dir_abandon(&s->dir);
    arena_release(&s->arena);
    mem_free(s->copy);
    mem_free(s->ranges);
    mem_free(s->path);
    mem_free(s);
    t->saver = NULL;
}
