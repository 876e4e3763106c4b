# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
#
# A folder whose owner exchanges files while a command reads it.

# swap.so, for LD_PRELOAD: after the file $SWAP has been opened $AFTER times, `evil` gets its name.
build_swap() {
    command -v gcc > /dev/null || skip "no gcc here"
    [ -z "$SAN" ] || skip "a sanitizer wants to be loaded first"
    cat > swap.c << 'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int open(const char *path, int flags, ...)
{
    int (*real)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
    static int opened;
    va_list ap;

    va_start(ap, flags);
    int fd = real(path, flags, va_arg(ap, int));
    va_end(ap);
    if (strcmp(path, getenv("SWAP")) == 0 && ++opened == atoi(getenv("AFTER")))
        rename("evil", path);
    return fd;
}

int open64(const char *path, int flags, ...)
{
    va_list ap;

    va_start(ap, flags);
    int mode = va_arg(ap, int);
    va_end(ap);
    return open(path, flags, mode);
}
C
    gcc -O1 -shared -fPIC -o swap.so swap.c -ldl
}
