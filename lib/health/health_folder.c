/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows in which folders nobody else can put something in our way. */
#include "health/health_folder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"

/*
 * Inside a user namespace all users that are not mapped look like one, root of outside too: who
 * of them it is cannot be told there.
 */
static int is_unmapped(uid_t uid)
{
    const uid_t overflow = 65534; /* Linux' default */
    char map[64] = "";
    FILE *f = uid == overflow ? fopen("/proc/self/uid_map", "re") : NULL;

    if (!f)
        return 0;
    size_t n = fread(map, 1, sizeof map - 1, f);
    fclose(f);
    return n > 0 && !strstr(map, "4294967295"); /* all users are */
}

static int is_trusted(uid_t uid)
{
    return uid == 0 || uid == geteuid() || is_unmapped(uid);
}

/*
 * Whoever may rename the folder can put a link to another one of ours in its place after it was
 * looked at: who owns or may write to what is above it has to be root or us, or it is sticky.
 */
static int check_above(const char *dir, struct err *err)
{
    char *path = realpath(dir, NULL), *slash;
    int rc = path ? 0 : err_sys(err, "cannot find the state's folder '%s'", dir);

    while (rc == 0 && (slash = strrchr(path, '/')) && slash[path == slash]) {
        struct stat st;
        slash[path == slash] = 0;
        if (lstat(path, &st))
            rc = err_sys(err, "cannot look at '%s'", path);
        else if (!is_trusted(st.st_uid))
            rc = err_set(err, ERR_INPUT, "the state's folder '%s' lies in '%s' of user %u", dir,
                         path, (unsigned)st.st_uid);
        else if ((st.st_mode & S_IWOTH) && !(st.st_mode & S_ISVTX))
            rc = err_set(err, ERR_INPUT,
                         "the state's folder '%s' lies in '%s', which everyone writes to", dir,
                         path);
    }
    free(path);
    return rc;
}

/* Nobody else may put files there, and nobody has put the folder there for us. */
int health_folder_check(const char *dir, struct err *err)
{
    struct stat st;
    int why = mkdir(dir, 0700) ? errno : 0;

    if (why == ENOENT) {
        char *parent = mem_dup(dir), *slash = strrchr(parent, '/');
        int rc = slash && slash > parent ? (*slash = 0, io_mkdir(parent, err)) : 0;
        mem_free(parent);
        if (rc)
            return -1;
        why = mkdir(dir, 0700) ? errno : 0;
    }
    if (lstat(dir, &st)) {
        errno = why ? why : errno;
        return err_sys(err, "cannot make the state's folder '%s'", dir);
    }
    if (!S_ISDIR(st.st_mode))
        return err_set(err, ERR_INPUT, "the state's folder '%s' is a %s, expected a folder",
                       dir, S_ISLNK(st.st_mode) ? "symbolic link" : "file");
    if (st.st_uid != geteuid())
        return err_set(err, ERR_INPUT, "the state's folder '%s' is of user %u, expected %u",
                       dir, (unsigned)st.st_uid, (unsigned)geteuid());
    if (st.st_mode & 022)
        return err_set(err, ERR_INPUT,
                       "the state's folder '%s' has mode %03o, expected one that only its owner"
                       " writes to (0700)",
                       dir, (unsigned)st.st_mode & 0777);
    return check_above(dir, err);
}
