/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens, checks and prunes a run's folder: who may write in it, which entries belong to it, and
 * when they are removed.  Leaves the contents of checkpoints to others.  Rank 0 only.
 */
#include "train/train_inside.h"

#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"

int train_folder_has(const char *dir, const char *name)
{
    char *path = io_join(dir, name);
    struct stat st;
    int there = lstat(path, &st) == 0 || errno != ENOENT;

    mem_free(path);
    return there;
}

static void remove_file(const char *dir, const char *name)
{
    char *path = io_join(dir, name);

    unlink(path);
    mem_free(path);
}

/* An absent or empty folder is new.  One with a run is resumed or replaced, only on request. */
static int folder_check_folder(struct train *t, struct err *err)
{
    const char *out = t->run->out;
    struct io_names all;
    struct err none;
    int rc = 0;

    io_names_read(&all, -1, out, &none);
    t->new = !all.count;
    if (train_folder_has(out, "latest") && !t->run->resume && !t->run->force)
        rc = err_set(err, ERR_INPUT,
                     "'%s' has a run in it, expected a new folder, --resume=auto or --force",
                     out);
    else if (all.count && !train_folder_has(out, ".lock"))
        rc =
            err_set(err, ERR_INPUT,
                    "'%s' is not a run's folder (it has '%s' but no .lock), expected a new one",
                    out, all.entry[0]->d_name);
    io_names_free(&all);
    return rc;
}

/*
 * The folder and its link must belong to this user or root: another owner could change its
 * contents at any time.
 */
static int folder_check_owner(const char *out, struct err *err)
{
    struct stat st[2];

    if (lstat(out, &st[0]) || stat(out, &st[1]))
        return errno == ENOENT ? 0 : err_sys(err, "cannot access '%s'", out);
    for (int i = 0; i < 2; i++)
        if (st[i].st_uid && io_check_owner(&st[i], out, out, err))
            return -1;
    return 0;
}

char *train_folder_real(const char *out)
{
    char *name = NULL, *real;
    struct err none;
    struct stat st;

    if (io_take_name(out, &name, &none) == 0 && (lstat(name, &st) || !S_ISLNK(st.st_mode)))
        return name;
    mem_free(name);
    real = realpath(out, NULL);
    name = mem_dup(real ? real : out);
    free(real);
    return name;
}

int train_folder_finish(struct train *t, struct err *err)
{
    return folder_check_owner(t->run->out, err) || train_replace_finish(t, err) ? -1 : 0;
}

static void remove_made(const char *path, int n)
{
    char *part = mem_dup(path), *at = part;

    for (; n > 0 && rmdir(at) == 0; n--)
        at = dirname(at);
    mem_free(part);
}

int train_folder_check(struct train *t, struct err *err)
{
    return folder_check_owner(t->run->out, err) || folder_check_folder(t, err) ? -1 : 0;
}

int train_folder_open(struct train *t, struct err *err)
{
    const char *out = t->run->out;

    if (io_mkdir(out, &t->made, err) || folder_check_owner(out, err) ||
        folder_check_folder(t, err))
        return -1;
    char *name = train_folder_real(out);
    t->stop = io_join(name, "STOP");
    t->save = io_join(name, "SAVE");
    mem_free(name);
    char *lock = io_join(out, ".lock");
    int rc = io_lock(lock, &t->lock, err);
    mem_free(lock);
    if (rc && err->code == ERR_MISMATCH)
        err_set(err, ERR_MISMATCH, "'%s' is being written by another run", out);
    /* Another run may have ended here between the check and the lock. */
    return rc == 0 && train_folder_has(out, "latest") ? folder_check_folder(t, err) : rc;
}

/* Writes the plan and the settings; with algo auto, the tuning table. */
static int write_texts(struct train *t, struct err *err)
{
    static const char *const names[] = {"plan.yaml", "settings.yaml", "tuning.yaml"};
    int count = t->tuning.rules ? 3 : 2;

    for (int i = 0; i < count; i++) {
        char *path = io_join(t->home, names[i]);
        struct io_out out;
        int rc = io_create(&out, path, 1, err);
        mem_free(path);
        if (rc)
            return -1;
        if (i == 0)
            plan_print(&t->plan, out.file);
        else if (i == 1)
            train_settings_print(&t->settings, out.file);
        else
            pick_table_print(&t->tuning, PICK_YAML, out.file);
        if (io_commit(&out, err))
            return -1;
    }
    return 0;
}

/* Names with a step: checkpoints, files of a trace, remains of killed writers. */
struct name_kind {
    const char *before, *after; /* the parts around eight digits or more */
};
static const struct name_kind checkpoints = {"step-", ""};
static const struct name_kind traces[] = {{"trace-", ".json"}, {"trace-", ".svg"}};
static const struct name_kind failed = {TRAIN_FAILED_BEFORE, TRAIN_FAILED_BEHIND};
static const struct name_kind halves[] = {{".step-", ".paro-tmp"},
                                          {".step-", ".old.paro-tmp"},
                                          {".trace-", ".json.paro-tmp"},
                                          {".trace-", ".svg.paro-tmp"}};

void train_folder_name(int64_t step, char name[40])
{
    snprintf(name, 40, "%s%08" PRId64, checkpoints.before, step);
}

/* The step of a name such as "step-00000100", -1 for one of another kind. */
static int64_t folder_step_of(const char *name, const struct name_kind *kind)
{
    size_t before = strlen(kind->before);
    char *end;

    if (strncmp(name, kind->before, before) || strspn(name + before, "0123456789") < 8)
        return -1;
    errno = 0;
    int64_t step = strtoll(name + before, &end, 10);
    return errno || strcmp(end, kind->after) ? -1 : step;
}

int64_t train_folder_step(const char *name)
{
    return folder_step_of(name, &checkpoints);
}

int train_folder_owns(const char *name)
{
    static const char *const single[] = {"latest",    "log.jsonl",     TRAIN_LOG_FAILED,
                                         "plan.yaml", "settings.yaml", "tuning.yaml",
                                         "STOP",      "SAVE",          ".lock"};
    static const char temp[] = ".paro-tmp";
    size_t n = strlen(name), tail = sizeof temp - 1;

    for (size_t i = 0; i < sizeof single / sizeof *single; i++)
        if (strcmp(name, single[i]) == 0)
            return 1;
    for (size_t i = 0; i < sizeof traces / sizeof *traces; i++)
        if (folder_step_of(name, &traces[i]) >= 0)
            return 1;
    return folder_step_of(name, &checkpoints) >= 0 || folder_step_of(name, &failed) >= 0 ||
           (name[0] == '.' && n > tail && strcmp(name + n - tail, temp) == 0);
}

/* Keeps the reason why a file could not be removed: as an error now, or to report when the run
   ends. */
static int keep_stuck(struct train *t, int now, const struct err *why, struct err *err)
{
    *(now ? err : &t->stuck) = *why;
    return now ? -1 : 0;
}

/*
 * Removes an entry that belongs to no run any more: renames it to a temporary name, then
 * deletes that.  A rest (an open file on NFS, a mount) is reported when the run ends, and the
 * next run tries again.  A folder that cannot be renamed (in overlayfs, from an image) is
 * deleted in place. needed: the run needs the name.
 */
static int remove_entry(struct train *t, const char *name, int needed, struct err *err)
{
    char *path = io_join(t->home, name), *old = io_old_name(path);
    struct err why = {0};
    int rc = 0, half = name[0] == '.';

    /* it has a temporary name already, or that is taken */
    if (half || io_remove_tree(old, &why)) {
        if (!half || io_remove_tree(path, &why))
            rc = keep_stuck(t, needed, &why, err);
    } else if (rename(path, old) == 0) {
        io_remove_tree(old, &t->stuck);
    } else if (errno == EXDEV) {
        if (io_remove_tree(path, &why))
            rc = keep_stuck(t, needed, &why, err);
    } else if (errno != ENOENT) {
        /* EPERM: immutable, or another user's; EBUSY: a mount. */
        int stays = errno == EPERM || errno == EBUSY;
        err_sys(&why, "cannot remove '%s'", path);
        rc = keep_stuck(t, needed || !stays, &why, err);
    }
    mem_free(path);
    mem_free(old);
    return rc;
}

/* The newest step before `step`; -1: there is none. */
static int64_t step_before(const struct io_names *all, const struct name_kind *kind,
                           int64_t step)
{
    int64_t best = -1;

    for (int i = 0; i < all->count; i++) {
        int64_t at = folder_step_of(all->entry[i]->d_name, kind);
        best = at < step && at > best ? at : best;
    }
    return best;
}

void train_folder_steps(const struct train *t, struct train_steps *s)
{
    char *link = io_join(t->run->out, "latest"), to[PATH_MAX];
    ssize_t n = readlink(link, to, sizeof to - 1);
    struct io_names all;
    struct err none;

    *s = (struct train_steps){.newest = -1};
    mem_free(link);
    if (!train_folder_has(t->run->out, "latest"))
        return;
    to[n > 0 ? n : 0] = 0;
    s->newest = folder_step_of(basename(to), &checkpoints);
    s->step[s->count++] = -1;
    io_names_read(&all, -1, t->run->out, &none);
    int64_t at = s->newest < 0 ? INT64_MAX : s->newest;
    while (s->count < TRAIN_STEPS_MAX && (at = step_before(&all, &checkpoints, at)) >= 0)
        s->step[s->count++] = at;
    io_names_free(&all);
}

char *train_folder_path(const struct train *t, int64_t step)
{
    char name[40] = "latest";

    if (step >= 0)
        train_folder_name(step, name);
    return io_join(t->run->out, name);
}

/* Removes steps after `step`, and up to it all but the newest `keep`. */
static int remove_steps(struct train *t, const struct name_kind *kind, int64_t keep,
                        int64_t step, struct err *err)
{
    struct io_names all;
    int rc = io_names_read(&all, -1, t->home, err);
    int64_t first = step + 1;

    for (; keep > 0 && first > 0; keep--)
        first = step_before(&all, kind, first);
    for (int i = 0; rc == 0 && i < all.count; i++) {
        int64_t at = folder_step_of(all.entry[i]->d_name, kind);
        if (at > step || (at >= 0 && at < first))
            rc = remove_entry(t, all.entry[i]->d_name, 0, err);
    }
    io_names_free(&all);
    return rc;
}

int train_folder_prune(struct train *t, int64_t keep, int64_t step, struct err *err)
{
    return remove_steps(t, &checkpoints, keep, step, err);
}

int train_folder_begin(struct train *t, struct err *err)
{
    remove_file(t->home, ".latest.paro-tmp");
    for (size_t i = 0; i < sizeof halves / sizeof *halves; i++)
        if (remove_steps(t, &halves[i], 0, -1, err))
            return -1;
    /* Traces of steps that are not done yet belong to another run. */
    for (size_t i = 0; i < sizeof traces / sizeof *traces; i++)
        if (remove_steps(t, &traces[i], INT64_MAX, t->step, err))
            return -1;
    if (write_texts(t, err))
        return -1;
    if (!t->tuning.rules) { /* a previous run may have left one */
        remove_file(t->home, "tuning.yaml");
        remove_file(t->home, ".tuning.yaml.paro-tmp");
    }
    unlink(t->stop);
    unlink(t->save);
    /* Makes `latest` lead to the checkpoint before a damaged one, so that this holds even if
       the run is killed. */
    if (t->fell_back) {
        char name[40];
        train_folder_name(t->resumed, name);
        if (train_folder_point(t, name, err))
            return -1;
    }
    t->new = 0;
    return 0;
}

int train_folder_point(struct train *t, const char *name, struct err *err)
{
    char *link = io_join(t->home, "latest"), *temp = io_join(t->home, ".latest.paro-tmp");
    int rc = 0;

    unlink(temp);
    if (symlink(name, temp) || rename(temp, link)) {
        rc = err_sys(err, "cannot point '%s' to '%s'", link, name);
        unlink(temp);
    }
    if (rc == 0)
        rc = io_fsync_path(t->home, err);
    mem_free(link);
    mem_free(temp);
    return rc;
}

int train_folder_make_way(struct train *t, const char *name, struct err *err)
{
    char back[40];

    train_folder_name(t->resumed, back);
    if (train_folder_has(t->home, back) && train_folder_point(t, back, err))
        return -1;
    return remove_entry(t, name, 1, err);
}

void train_folder_close(struct train *t, struct err *why)
{
    static const char *const early[] = {"log.jsonl", "plan.yaml", "settings.yaml",
                                        "tuning.yaml", ".lock"};

    for (size_t i = 0; t->new && t->lock >= 0 && i < sizeof early / sizeof *early; i++)
        remove_file(t->run->out, early[i]);
    if (t->new)
        remove_made(t->run->out, t->made);
    else if (!why && t->stuck.code != ERR_NONE)
        train_print(t, "%s: the next run tries again", t->stuck.text);
    train_replace_close(t, why);
    if (t->lock >= 0)
        close(t->lock);
    mem_free(t->stop);
    mem_free(t->save);
}
