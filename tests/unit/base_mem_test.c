/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests memory: zeroed, aligned, refused with the number; an arena places what it measured. */
#include "unit.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

static int all_zero(const unsigned char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i])
            return 0;
    return 1;
}

TEST(new_is_zeroed_and_never_null)
{
    unsigned char *p = mem_new(1000, 3);
    void *none = mem_new(0, 0);

    assert_true(all_zero(p, 3000));
    assert_non_null(none);
    mem_free(none);
    mem_free(p);
    mem_free(NULL);
}

TEST(grow_keeps_what_is_there)
{
    size_t space = 0;
    int *v = NULL;

    for (int i = 0; i < 1000; i++) {
        v = mem_grow(v, &space, (size_t)i + 1, sizeof *v);
        v[i] = i;
    }
    assert_true(space >= 1000 && space < 2 * 1000 + 16);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(v[i], i);
    int *same = mem_grow(v, &space, 10, sizeof *v);
    assert_ptr_equal(same, v);
    mem_free(v);
}

/* The status of a child that runs f with its standard error in `said`. */
static int in_child(void (*f)(void), char *said, size_t space)
{
    int ends[2], status = 0;

    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit none = {0};
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGABRT, SIG_DFL); /* cmocka catches it */
        dup2(ends[1], 2);
        close(ends[0]);
        f();
        _exit(0);
    }
    close(ends[1]);
    ssize_t n = read(ends[0], said, space - 1);
    said[n > 0 ? n : 0] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

/* No constants: the compiler would warn of what is asked on purpose. */
static volatile size_t too_many = SIZE_MAX / 2 + 2;

static void ask_too_much(void)
{
    mem_free(mem_new(too_many, 2));
}

static void grow_too_much(void)
{
    size_t space = 0;

    mem_free(mem_grow(NULL, &space, too_many, 1));
}

TEST(lost_memory_aborts_with_a_line)
{
    char said[256];
    void (*const ways[])(void) = {ask_too_much, grow_too_much};

#ifdef __SANITIZE_ADDRESS__
    skip(); /* its allocator reports in its own words */
#endif
    for (int i = 0; i < 2; i++) {
        int status = in_child(ways[i], said, sizeof said);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
        assert_memory_equal(said, "paro: out of memory for ", 24);
        assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);
    }
}

TEST(data_is_aligned_zeroed_or_refused)
{
    void *p = NULL, *before;

    for (int64_t n = 0; n < 300; n += 37) {
        assert_ok(mem_data(n, "a test", &p, &err));
        assert_int_equal((uintptr_t)p % 64, 0);
        assert_true(all_zero(p, (size_t)n));
        mem_free(p);
    }
    for (int64_t n = 0; n < 20 << 20; n = 3 * n + 12345) {
        assert_ok(mem_buffer(n, "a test", &p, &err));
        assert_int_equal((uintptr_t)p % 64, 0);
        memset(p, 1, (size_t)n);
        mem_free(p);
    }
    before = p;
#ifndef __SANITIZE_ADDRESS__
    assert_error(mem_data(INT64_MAX / 2, "the shards", &p, &err), ERR_SYS);
    assert_non_null(strstr(err.text, "4611686018427387903 bytes for the shards"));
#endif
    assert_error(mem_data(INT64_MAX, "the shards", &p, &err), ERR_SYS);
    assert_says(mem_buffer(INT64_MAX, "a ring", &p, &err),
                "9223372036854775807 bytes for a ring");
    assert_ptr_equal(p, before);
}

static void place(struct arena *arena, char *at[3])
{
    at[0] = arena_take(arena, 1);
    at[1] = arena_take(arena, 0);
    at[2] = arena_take(arena, 130);
}

TEST(arena_places_what_it_measured)
{
    struct arena arena = {0};
    char *at[3];

    place(&arena, at);
    assert_null(at[0]);
    assert_null(at[2]);
    int64_t bytes = arena.used;
    assert_int_equal(bytes, 64 + 0 + 192);
    assert_ok(arena_init(&arena, bytes, "a test", &err));
    place(&arena, at);
    assert_int_equal(arena.used, bytes);
    assert_int_equal((uintptr_t)at[0] % 64, 0);
    assert_ptr_equal(at[2], at[0] + 64);
    memset(at[2], 1, 130);
    arena_release(&arena);
    assert_null(arena.base);
    arena_release(&arena);
}

TEST(arena_borrows)
{
    _Alignas(64) char space[128];
    struct arena arena;

    arena_borrow(&arena, space, sizeof space);
    assert_ptr_equal(arena_take(&arena, 10), space);
    assert_ptr_equal(arena_take(&arena, 64), space + 64);
    arena_release(&arena); /* does not free what is not its own */
}

static void take_beyond(void)
{
    struct arena arena;
    _Alignas(64) char space[64];

    arena_borrow(&arena, space, sizeof space);
    arena_take(&arena, 65);
}

TEST(taking_more_than_measured_is_a_bug)
{
    char said[256];
    int status = in_child(take_beyond, said, sizeof said);

    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(said, "arena->used <= arena->bytes"));
}

TEST(a_stream_grows_and_is_a_text_at_every_flush)
{
    char *text = NULL;
    size_t bytes = 1;
    FILE *f = mem_stream(&text, &bytes);

    assert_string_equal(text, "");
    assert_int_equal(bytes, 0);
    fputs("half", f);
    fflush(f);
    assert_string_equal(text, "half");
    for (int i = 0; i < 30000; i++)
        fprintf(f, "%09d\n", i);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(bytes, 4 + 300000);
    assert_int_equal(strlen(text), bytes);
    assert_string_equal(text + bytes - 10, "000029999\n");
    mem_free(text);
}

static void write_without_memory(void)
{
    const struct rlimit none = {1 << 20, 1 << 20};
    char *text = NULL;
    size_t bytes;
    FILE *f = mem_stream(&text, &bytes);

    setrlimit(RLIMIT_AS, &none);
    for (;;)
        fputs("a text that does not end", f);
}

TEST(a_stream_that_cannot_grow_aborts_with_a_line)
{
    char said[256];

    if (getenv("SAN") && *getenv("SAN"))
        skip(); /* sanitizers reserve the address space */
    int status = in_child(write_without_memory, said, sizeof said);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(said, "paro: out of memory for "));
}
