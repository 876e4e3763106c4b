/* SPDX-License-Identifier: BSD-3-Clause */
/* Allocates memory, and formats errors of allocation.  Leaves the contents to its callers. */
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MEM_LARGE = 2 << 20 }; /* size of a large page on most processors; harmless on others */

static void mem_lost_for(const char *what)
{
    /* There is no err to report to: this is the only place below cli that prints. */
    FILE *out = stderr;

    /* Prints one line: a second thread without memory waits here for the exit */
    flockfile(out);
    fprintf(out, "paro: out of memory for %s\n", what);
    abort();
}

static void mem_lost(size_t count, size_t size)
{
    char what[80];

    snprintf(what, sizeof what, "%zu items of %zu bytes", count, size);
    mem_lost_for(what);
}

void *mem_new(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size ? size : 1);

    if (!p)
        mem_lost(count, size);
    return p;
}

/* Doubles the capacity up to `need`; a capacity that cannot exist if that overflows. */
static size_t doubled_space(size_t space, size_t need)
{
    size_t want = space ? space : 16;

    while (want < need && want <= SIZE_MAX / 2)
        want *= 2;
    return want < need ? SIZE_MAX : want;
}

void *mem_grow(void *items, size_t *space, size_t need, size_t size)
{
    size_t want = doubled_space(*space, need);

    if (need <= *space)
        return items;
    void *p = reallocarray(items, want, size);
    if (!p)
        mem_lost(want, size);
    *space = want;
    return p;
}

int mem_by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

char *mem_dup(const char *text)
{
    char *p = strdup(text);

    if (!p)
        mem_lost(strlen(text) + 1, 1);
    return p;
}

void mem_free(void *p)
{
    free(p);
}

void mem_free_list(void *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        mem_free(list[i]);
}

void *mem_have(void *p, const char *what)
{
    if (!p)
        mem_lost_for(what);
    return p;
}

struct growing {
    char **text;
    size_t *bytes, space;
};

static ssize_t append_bytes(void *cookie, const char *data, size_t n)
{
    struct growing *g = cookie;

    *g->text = mem_grow(*g->text, &g->space, *g->bytes + n + 1, 1);
    memcpy(*g->text + *g->bytes, data, n);
    *g->bytes += n;
    (*g->text)[*g->bytes] = 0;
    return (ssize_t)n;
}

static int close_stream(void *cookie)
{
    mem_free(cookie);
    return 0;
}

FILE *mem_stream(char **text, size_t *bytes)
{
    static const cookie_io_functions_t does = {.write = append_bytes, .close = close_stream};
    struct growing *g = mem_new(1, sizeof *g);

    *g = (struct growing){.text = text, .bytes = bytes};
    *text = NULL;
    *bytes = 0;
    append_bytes(g, "", 0); /* allocates an empty text if nothing is written */
    return mem_have(fopencookie(g, "w", does), "a text");
}

int64_t arena_space(int64_t bytes)
{
    return (bytes + MEM_ALIGN - 1) / MEM_ALIGN * MEM_ALIGN;
}

static int allocate_data(int64_t bytes, size_t align, const char *what, void **out,
                         struct err *err)
{
    void *p = NULL;

    assert(bytes >= 0);
    errno = bytes > PTRDIFF_MAX - MEM_ALIGN
                ? ENOMEM
                : posix_memalign(&p, align, (size_t)arena_space(bytes ? bytes : 1));
    if (errno)
        return err_sys(err, "cannot allocate %" PRId64 " bytes for %s", bytes, what);
    *out = p;
    return 0;
}

int mem_grow_data(void **items, size_t *space, size_t need, size_t size, const char *what,
                  struct err *err)
{
    size_t want = doubled_space(*space, need);

    if (need <= *space)
        return 0;
    void *p = reallocarray(*items, want, size);
    if (!p)
        return err_sys(err, "cannot allocate %zu times %zu bytes for %s", want, size, what);
    *items = p;
    *space = want;
    return 0;
}

int mem_data(int64_t bytes, const char *what, void **out, struct err *err)
{
    if (allocate_data(bytes, MEM_ALIGN, what, out, err))
        return -1;
    memset(*out, 0, (size_t)arena_space(bytes ? bytes : 1));
    return 0;
}

int mem_buffer(int64_t bytes, const char *what, void **out, struct err *err)
{
    int large = bytes >= MEM_LARGE;

    if (allocate_data(bytes, large ? MEM_LARGE : MEM_ALIGN, what, out, err))
        return -1;
    if (large) /* advice only: small pages work too, with more faults */
        madvise(*out, (size_t)(bytes - bytes % MEM_LARGE), MADV_HUGEPAGE);
    return 0;
}

int arena_init(struct arena *arena, int64_t bytes, const char *what, struct err *err)
{
    void *base = NULL;

    if (mem_data(bytes, what, &base, err))
        return -1;
    *arena = (struct arena){.base = base, .bytes = bytes, .owned = 1};
    return 0;
}

void arena_borrow(struct arena *arena, void *base, int64_t bytes)
{
    *arena = (struct arena){.base = base, .bytes = bytes};
}

void *arena_take_each(struct arena *arena, int64_t bytes, int64_t count)
{
    int64_t at = arena->used;

    assert(bytes >= 0 && count >= 0 &&
           (count == 0 || bytes <= (INT64_MAX - at) / count - MEM_ALIGN));
    arena->used = at + count * arena_space(bytes);
    if (!arena->base)
        return NULL;
    assert(arena->used <= arena->bytes);
    return arena->base + at;
}

void *arena_take(struct arena *arena, int64_t bytes)
{
    return arena_take_each(arena, bytes, 1);
}

void arena_release(struct arena *arena)
{
    if (arena->owned)
        free(arena->base);
    *arena = (struct arena){0};
}
