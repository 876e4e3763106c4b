/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checks that the step loop allocates nothing: alloc_check PLAN DATA DIR, run under mpirun with
 * the plan's ranks.  A whole run by train_run; from the line of step 2 to that of step 10 every
 * call to malloc and its kin, and to mmap, is counted whose caller lies in this program, where
 * libparo is linked in.  What MPI, oneDNN and stdio do inside is theirs.  Rank 0 is looked at:
 * all ranks run the same code, and rank 0 writes the log besides.
 */
#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "train/train.h"
#include "../unit/plain_fixture.h"

#if defined(__SANITIZE_ADDRESS__)
int main(void)
{
    printf("ok # SKIP a sanitizer has malloc\n");
    return 0;
}
#else

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

extern const char __executable_start[], etext[];

static atomic_int counting, calls, all_calls;
static int lines;
static atomic_uintptr_t first_caller;

static void seen(const void *caller)
{
    const char *at = caller;

    if (at < __executable_start || at >= etext)
        return;
    all_calls++;
    if (!counting)
        return;
    if (calls++ == 0)
        first_caller = (uintptr_t)(at - __executable_start);
}

void *malloc(size_t n)
{
    seen(__builtin_return_address(0));
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    seen(__builtin_return_address(0));
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    seen(__builtin_return_address(0));
    return __libc_realloc(p, n);
}

void *reallocarray(void *p, size_t n, size_t size)
{
    seen(__builtin_return_address(0));
    if (size && n > SIZE_MAX / size)
        return NULL;
    return __libc_realloc(p, n * size);
}

int posix_memalign(void **out, size_t align, size_t n)
{
    seen(__builtin_return_address(0));
    void *p = __libc_memalign(align, n);
    if (!p)
        return ENOMEM;
    *out = p;
    return 0;
}

char *strdup(const char *text)
{
    size_t n = strlen(text) + 1;
    seen(__builtin_return_address(0));
    char *p = __libc_malloc(n);
    return p ? memcpy(p, text, n) : NULL;
}

void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    seen(__builtin_return_address(0));
    return (void *)syscall(SYS_mmap, at, n, prot, flags, fd, offset);
}

enum { FROM = 2, TO = 10 };

/* The lines that a run says, one a step, after a head. */
static ssize_t hear(void *cookie, const char *text, size_t n)
{
    (void)cookie;
    for (size_t i = 0; i < n; i++)
        lines += text[i] == '\n';
    counting = lines >= FROM && lines < TO;
    return (ssize_t)n;
}

int main(int argc, char **argv)
{
    struct world *world = NULL;
    err = (struct err){0};
    struct train_run run = {.json = 1};

    if (argc != 4 || world_open(&world, &err))
        return 2;
    run.plan = argv[1];
    const char *data = argv[2];
    run.data = &data;
    run.data_count = 1;
    run.out = argv[3];
    run.given[TRAIN_SETTING_steps] = "12";
    run.lines = world->rank == 0
                    ? fopencookie(NULL, "w", (cookie_io_functions_t){.write = hear})
                    : NULL;
    int rank = world->rank, rc = train_run(world, &run, &err);
    if (rc == 0)
        rc = world_agree(world, 0, &err);
    world_close(world);
    if (rank)
        return 0;
    if (rc || lines != 12 || all_calls == 0) {
        printf("not ok: %d lines, %d calls in all, %s\n", lines, all_calls, err.text);
        return 1;
    }
    if (calls)
        printf("not ok: %d calls in steps 3 to 10, the first from %#lx of %#lx\n", calls,
               (unsigned long)first_caller, (unsigned long)(etext - __executable_start));
    else
        printf("ok no allocation in steps 3 to 10, %d calls of libparo before and after\n",
               all_calls);
    return calls != 0;
}
#endif
