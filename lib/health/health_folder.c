/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens folders in which nobody else can interfere.
 *
 * The path is walked from the root, one name at a time.  A folder in which others may rename
 * entries is refused, because its next entry could be anything, and nothing is created in it.
 * In a sticky folder (/tmp) entries belong to their owners: there the next entry has to be
 * ours.  A folder that passed the check cannot be changed by others afterwards, so its path
 * stays valid.
 *
 *     /  tmp      x          state
 *        sticky   ours       ours, 0700
 *                 a link: ours, or refused
 */
#include "health/health_store.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINKS_MOST = 40 }; /* Linux' limit */

struct walk {
    const char *dir;       /* as requested */
    char at[PATH_MAX + 1]; /* folder reached; "" is the root */
    char rest[PATH_MAX + 1];
    int links, made; /* made: the folder reached was created here */
};

/*
 * Trusts root, ourselves, and inside a user namespace all unmapped ids: they look like one
 * user, which includes the outer root, and cannot be told apart.  The same for groups.
 */
static int is_trusted(unsigned id, unsigned ours, const char *map_name)
{
    const unsigned overflow = 65534; /* Linux' default overflow id */
    char map[64] = "";
    FILE *f = id == overflow ? fopen(map_name, "re") : NULL;
    size_t n = f ? fread(map, 1, sizeof map - 1, f) : 0;

    if (f)
        fclose(f);
    return id == 0 || id == ours ||
           (n > 0 && !strstr(map, "4294967295")); /* some ids are unmapped */
}

static int is_trusted_user(uid_t uid)
{
    return is_trusted(uid, geteuid(), "/proc/self/uid_map");
}

/* Refuses parent directories that others may write. */
static int check_above(const struct walk *w, struct err *err)
{
    const char *at = w->at[0] ? w->at : "/";
    struct stat st;

    if (lstat(at, &st))
        return err_sys(err, "cannot access '%s'", at);
    if (!is_trusted_user(st.st_uid))
        return err_set(err, ERR_INPUT, "the state's folder '%s' lies in '%s' of user %u",
                       w->dir, at, (unsigned)st.st_uid);
    if (st.st_mode & S_ISVTX)
        return 0;
    if (st.st_mode & S_IWOTH)
        return err_set(err, ERR_INPUT,
                       "the state's folder '%s' lies in '%s', which everyone writes to", w->dir,
                       at);
    if ((st.st_mode & S_IWGRP) && !is_trusted(st.st_gid, getegid(), "/proc/self/gid_map"))
        return err_set(err, ERR_INPUT,
                       "the state's folder '%s' lies in '%s', which group %u writes to", w->dir,
                       at, (unsigned)st.st_gid);
    return 0;
}

static int check_itself(const struct walk *w, struct err *err)
{
    struct stat st;

    if (lstat(w->at[0] ? w->at : "/", &st))
        return err_sys(err, "cannot access the state's folder '%s'", w->dir);
    if (st.st_uid != geteuid())
        return err_set(err, ERR_INPUT,
                       "the state's folder '%s' belongs to user %u, expected %u", w->dir,
                       (unsigned)st.st_uid, (unsigned)geteuid());
    if (st.st_mode & 022)
        return err_set(err, ERR_INPUT,
                       "the state's folder '%s' has mode %03o, expected one that only its owner"
                       " writes to (0700)",
                       w->dir, (unsigned)st.st_mode & 0777);
    return 0;
}

/* Inserts the target of the link at w->at (n bytes of its folder) before the rest of the
   path. */
static int follow(struct walk *w, size_t n, uid_t owner, struct err *err)
{
    char target[PATH_MAX + 1], rest[PATH_MAX + 1];

    if (!is_trusted_user(owner))
        return err_set(
            err, ERR_INPUT,
            "the state's folder '%s' is reached through a symbolic link '%s' of user %u",
            w->dir, w->at, (unsigned)owner);
    ssize_t got = readlink(w->at, target, sizeof target - 1);
    if (got < 0)
        return err_sys(err, "cannot read the link '%s'", w->at);
    target[got] = 0;
    if (++w->links > LINKS_MOST ||
        snprintf(rest, sizeof rest, "%s/%s", target, w->rest) >= (int)sizeof rest) {
        errno = ELOOP;
        return err_sys(err, "cannot find the state's folder '%s'", w->dir);
    }
    strcpy(w->rest, rest);
    w->at[target[0] == '/' ? 0 : n] = 0;
    return 0;
}

/* Enters the folder `name` of the one reached; creates it if missing. */
static int folder_enter(struct walk *w, const char *name, int is_last, struct err *err)
{
    size_t n = strlen(w->at);
    int fits = snprintf(w->at + n, sizeof w->at - n, "/%s", name) < (int)(sizeof w->at - n);
    struct stat st;

    w->made = 0;
    if (!fits)
        errno = ENAMETOOLONG;
    if (fits && lstat(w->at, &st)) {
        w->made = errno == ENOENT && mkdir(w->at, is_last ? 0700 : 0755) == 0;
        int why = errno;
        fits = lstat(w->at, &st) == 0;
        errno = why;
    }
    if (!fits)
        return err_sys(err, "cannot make the state's folder '%s'", w->dir);
    if (S_ISLNK(st.st_mode) && !is_last)
        return follow(w, n, st.st_uid, err);
    if (!S_ISDIR(st.st_mode))
        return err_set(err, ERR_INPUT, "the state's folder '%s' is a %s, expected a folder",
                       w->dir, S_ISLNK(st.st_mode) ? "symbolic link" : "file");
    return 0;
}

/* Takes the next name, without slashes; "" at the end. */
static void take_name(struct walk *w, char name[PATH_MAX + 1])
{
    size_t skip = strspn(w->rest, "/"), n = strcspn(w->rest + skip, "/");

    snprintf(name, PATH_MAX + 1, "%.*s", (int)n, w->rest + skip);
    skip += n;
    skip += strspn(w->rest + skip, "/");
    memmove(w->rest, w->rest + skip, strlen(w->rest + skip) + 1);
}

int health_folder_check(const char *dir, struct err *err)
{
    struct walk w = {.dir = dir};
    char here[PATH_MAX + 1] = "", name[PATH_MAX + 1];
    int rc = 0;

    if (dir[0] != '/' && !getcwd(here, sizeof here))
        return err_sys(err, "cannot find the state's folder '%s'", dir);
    if (snprintf(w.rest, sizeof w.rest, "%s/%s", here, dir) >= (int)sizeof w.rest) {
        errno = ENAMETOOLONG;
        return err_sys(err, "cannot find the state's folder '%.300s'", dir);
    }
    for (take_name(&w, name); rc == 0 && name[0]; take_name(&w, name))
        if (strcmp(name, "."))
            rc = check_above(&w, err) || folder_enter(&w, name, !w.rest[0], err) ? -1 : 0;
    rc = rc ? rc : check_itself(&w, err);
    if (rc && w.made) /* a file system gave the new folder another owner */
        rmdir(w.at);
    return rc;
}
