/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

/*
 * Two kinds of memory.  Control structures (rows, tables, names) are small: if their allocation
 * fails, the program prints a line and aborts.  Allocation of data (sized by a file or an
 * option) may fail with an error that says how much was requested.
 */

/* Zeroed; count * size is checked; aborts on failure.  Freed by mem_free. */
void *mem_new(size_t count, size_t size);
/* Grows *items to at least `need` items (doubling); aborts on failure. */
void *mem_grow(void *items, size_t *space, size_t need, size_t size);
char *mem_dup(const char *text);
int mem_by_text(const void *a, const void *b); /* for qsort and bsearch of a list of strings */
/* For comparisons: the sign of x->member - y->member. */
#define MEM_ORDER(x, y, member) (((x)->member > (y)->member) - ((x)->member < (y)->member))
void mem_free(void *p); /* NULL is allowed */
/* Frees several: the arguments are read before the first is freed. */
#define MEM_FREE(...)                                                                          \
    mem_free_list((void *[]){__VA_ARGS__}, sizeof((void *[]){__VA_ARGS__}) / sizeof(void *))
void mem_free_list(void *const *list, size_t count);
/* Checks a result of another library: returns p, but aborts if it is NULL. */
void *mem_have(void *p, const char *what);
/*
 * A stream into memory that grows.  It aborts if memory runs out, so no write to it fails
 * (libc's memory stream ends early, possibly without an error). *text, ending with a 0, and
 * *bytes are valid after fflush and after fclose; the caller frees the text (mem_free).
 */
FILE *mem_stream(char **text, size_t *bytes);

enum { MEM_ALIGN = 64 }; /* a cache line, and an AVX-512 vector */
/* Data, 64-byte aligned and zeroed; on failure ERR_SYS with `what` and the size. */
int mem_data(int64_t bytes, const char *what, void **out, struct err *err);
/*
 * As mem_data, but uninitialized: pages become resident when they are written.  Large buffers
 * use large pages where possible.
 */
int mem_buffer(int64_t bytes, const char *what, void **out, struct err *err);
/* As mem_grow for data allocated with malloc: on failure returns an error and leaves *items and
   *space unchanged. */
int mem_grow_data(void **items, size_t *space, size_t need, size_t size, const char *what,
                  struct err *err);

/*
 * An arena: measured, then allocated.  Without memory (base NULL) arena_take only adds sizes,
 * so the same code first measures and then places.
 *
 *     arena.base = NULL;  place(&arena);          measures: arena.used
 *     arena_init(&arena, arena.used, ...);        one allocation
 *     place(&arena);                              the same calls, now with addresses
 */
struct arena {
    char *base;    /* owned when `owned`, else borrowed (shared memory) */
    int64_t bytes; /* size of base */
    int64_t used;
    int owned;
};

int arena_init(struct arena *arena, int64_t bytes, const char *what, struct err *err);
void arena_borrow(struct arena *arena, void *base, int64_t bytes);
int64_t arena_space(int64_t bytes); /* bytes that arena_take uses: rounded up */
/* 64-byte aligned; NULL while measuring.  Taking more than was measured is a bug. */
void *arena_take(struct arena *arena, int64_t bytes);
/* Returns the first */
void *arena_take_each(struct arena *arena, int64_t bytes, int64_t count);
void arena_release(struct arena *arena);

#endif
