/* SPDX-License-Identifier: BSD-3-Clause */
/* Preloaded: the n-th allocation after the libraries' own fails, whoever asks for it.  The
 * names of n and of the count are in a file that FAULT_STATE names and that is mapped. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fault.h"

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *was, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);

static struct fault_state *state;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("FAULT_STATE");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *p = fd < 0 ? MAP_FAILED
                     : mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (fd >= 0)
        close(fd);
    if (p != MAP_FAILED)
        state = p;
}

static int refused(void)
{
    if (!state)
        return 0;
    int64_t n = __atomic_add_fetch(&state->count, 1, __ATOMIC_RELAXED);
    if (state->at == 0 || n < state->at || (n > state->at && !state->on))
        return 0;
    state->hit = 1;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t bytes)
{
    return refused() ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    return refused() ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *was, size_t bytes)
{
    return refused() ? NULL : __libc_realloc(was, bytes);
}

void *reallocarray(void *was, size_t count, size_t bytes)
{
    size_t whole;

    if (__builtin_mul_overflow(count, bytes, &whole)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(was, whole);
}

void *memalign(size_t align, size_t bytes)
{
    return refused() ? NULL : __libc_memalign(align, bytes);
}

void *aligned_alloc(size_t align, size_t bytes)
{
    return memalign(align, bytes);
}

int posix_memalign(void **out, size_t align, size_t bytes)
{
    int was = errno;
    void *p = memalign(align, bytes);

    errno = was;
    if (!p)
        return ENOMEM;
    *out = p;
    return 0;
}
