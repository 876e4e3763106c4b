/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

/*
 * Two kinds of memory.  Control structures (rows, tables, names) are small: if they
 * cannot be had the program is lost and aborts with a line.  Data (sized by a file or
 * an option) can be refused: the error says how much was asked for.
 */

/* Zeroed; count * size is checked; aborts when there is none.  Freed by mem_free. */
void *mem_new(size_t count, size_t size);
/* Grows *items to hold at least `need` (doubling); aborts when there is none. */
void *mem_grow(void *items, size_t *space, size_t need, size_t size);
char *mem_dup(const char *text);
int mem_by_text(const void *a, const void *b); /* for qsort and bsearch of a list of strings */
void mem_free(void *p);                        /* NULL is fine */
/* For what a library made: p itself, but aborts when it is NULL. */
void *mem_have(void *p, const char *what);
/*
 * A stream whose text grows in memory; it aborts when there is none, so that no write to it
 * fails (a memory stream of libc ends early and may say nothing).  *text, a 0 behind it, and
 * *bytes are right after fflush and after fclose; the text is the caller's (mem_free).
 */
FILE *mem_stream(char **text, size_t *bytes);

enum { MEM_ALIGN = 64 }; /* a cache line, and an AVX-512 vector */
/* Data: 64-byte aligned, zeroed, ERR_SYS naming `what` and the bytes when refused. */
int mem_data(int64_t bytes, const char *what, void **out, struct err *err);
/*
 * The same, with anything in it: nothing of it is resident before it is written.  Much of it is
 * in large pages where the system gives them.
 */
int mem_buffer(int64_t bytes, const char *what, void **out, struct err *err);
/* As mem_grow, of data that are malloc's: refused, *items and *room are as they were. */
int mem_grow_data(void **items, size_t *space, size_t need, size_t size, const char *what,
                  struct err *err);

/*
 * An arena: measured, then placed.  Without memory behind it (base NULL) arena_take
 * only adds up, so that the same code first measures and then places.
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
int64_t arena_space(int64_t bytes); /* the bytes that taking uses up: rounded up */
/* 64-byte aligned; NULL while measuring.  Taking more than was measured is a bug. */
void *arena_take(struct arena *arena, int64_t bytes);
void *arena_take_each(struct arena *arena, int64_t bytes, int64_t count); /* the first */
void arena_release(struct arena *arena);

#endif
