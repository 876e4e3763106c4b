/* SPDX-License-Identifier: BSD-3-Clause */
/* A sender whose bytes are not those that it was given: preloaded on all hosts, awake on the
 * one that CORRUPT_HOST names.  Of every CORRUPT_EVERY-th (default 50) large piece that is
 * written to a socket one bit is another, well inside, so that headers of whatever protocol
 * stay whole; the network's own checksums are made of what is sent, and see nothing. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { LARGE = 16 << 10 };

static int awake(void)
{
    static atomic_int known; /* 0: nobody asked yet, 1: no, 2: yes */
    char own[256] = "";
    const char *host = getenv("CORRUPT_HOST");

    if (!atomic_load(&known))
        atomic_store(&known, 1 + (host && gethostname(own, sizeof own - 1) == 0 &&
                                  strcmp(own, host) == 0));
    return atomic_load(&known) == 2;
}

/* A copy is sent, since another thread may read or write the sender's memory meanwhile. */
ssize_t writev(int fd, const struct iovec *part, int parts)
{
    static ssize_t (*next)(int, const struct iovec *, int);
    static atomic_int large;
    const char *every = getenv("CORRUPT_EVERY");
    int turn = every ? atoi(every) : 50;
    unsigned char *copy = NULL;
    struct iovec *other = NULL;

    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "writev");
    for (int i = 0; !copy && awake() && i < parts; i++) {
        size_t bytes = part[i].iov_len;
        if (bytes < LARGE || atomic_fetch_add(&large, 1) % turn != turn - 1)
            continue;
        copy = malloc(bytes);
        other = malloc((size_t)parts * sizeof *other);
        if (!copy || !other)
            abort();
        memcpy(copy, part[i].iov_base, bytes);
        memcpy(other, part, (size_t)parts * sizeof *other);
        copy[bytes / 2] ^= 4;
        other[i].iov_base = copy;
    }
    ssize_t n = next(fd, other ? other : part, parts);
    free(copy);
    free(other);
    return n;
}
