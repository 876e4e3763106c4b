# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# What network file systems do not have: locks, renameat2's flags, fallocate, fsync of a folder.
network() {
    command -v gcc > /dev/null || skip "no gcc here"
    [ -z "$SAN" ] || skip "a sanitizer wants to be loaded first"
    cat > network.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>

static int lacks(const char *what, int number)
{
    const char *list = getenv("LACKS");

    if (!list || !strstr(list, what))
        return 0;
    errno = number;
    return 1;
}

int flock(int fd, int how)
{
    int (*real)(int, int) = (int (*)(int, int))dlsym(RTLD_NEXT, "flock");

    return lacks("lock", ENOLCK) ? -1 : real(fd, how);
}

int fallocate(int fd, int mode, off_t at, off_t n)
{
    int (*real)(int, int, off_t, off_t) =
        (int (*)(int, int, off_t, off_t))dlsym(RTLD_NEXT, "fallocate");

    return lacks("room", EOPNOTSUPP) ? -1 : real(fd, mode, at, n);
}

int fallocate64(int fd, int mode, off_t at, off_t n)
{
    return fallocate(fd, mode, at, n);
}

int fsync(int fd)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode) && lacks("sync", EINVAL) ? -1 : real(fd);
}

ssize_t copy_file_range(int in, off_t *a, int out, off_t *b, size_t n, unsigned flags)
{
    ssize_t (*real)(int, off_t *, int, off_t *, size_t, unsigned) =
        (ssize_t(*)(int, off_t *, int, off_t *, size_t, unsigned))dlsym(RTLD_NEXT,
                                                                        "copy_file_range");

    return lacks("copy", EOPNOTSUPP) ? -1 : real(in, a, out, b, n, flags);
}

int sync_file_range(int fd, off_t at, off_t n, unsigned flags)
{
    int (*real)(int, off_t, off_t, unsigned) =
        (int (*)(int, off_t, off_t, unsigned))dlsym(RTLD_NEXT, "sync_file_range");

    return lacks("flush", ENOSYS) ? -1 : real(fd, at, n, flags);
}

long syscall(long number, ...)
{
    long (*real)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    long a[6];
    va_list ap;

    va_start(ap, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(ap, long);
    va_end(ap);
    const char *why = getenv("WHY");
    unsigned flags = (unsigned)a[4];
    if (number == SYS_renameat2 &&
        ((flags && lacks("flags", EINVAL)) || (flags == RENAME_NOREPLACE && lacks("new", EIO)) ||
         (flags == RENAME_EXCHANGE && lacks("exchange", why ? atoi(why) : EINVAL))))
        return -1;
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
C
    gcc -O1 -shared -fPIC -o network.so network.c -ldl
}

# lacking WHAT COMMAND...: without some of lock, room, sync, copy, flush, flags; `exchange`: no two
# names change places, errno is WHY (default: EINVAL); `new`: no folder gets a new name.
lacking() {
    local what=$1
    shift
    LACKS=$what LD_PRELOAD=$PWD/network.so "$@"
}
