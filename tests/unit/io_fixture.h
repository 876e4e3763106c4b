/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_UNIT_IO_FIXTURE_H
#define TESTS_UNIT_IO_FIXTURE_H

/* Reads what is in files and folders, and kills their writers.  After unit.h. */
#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>

#include "temp_fixture.h"

#define FOLDER_TEST(name) UNIT_TEST(name, temp_enter, temp_leave)

static inline void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static inline void expect(const char *path, const char *text)
{
    char *got = NULL;
    int64_t bytes = 0;

    assert_ok(io_read_text(path, 1 << 20, &got, &bytes, &err));
    assert_string_equal(got, text);
    assert_int_equal(bytes, strlen(text));
    mem_free(got);
}

/* How many names a folder has. */
static inline int names(const char *path)
{
    DIR *d = opendir(path);
    int n = -2;

    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* Runs f in a child that is killed at its end without any clean-up. */
static inline void killed(void (*f)(void))
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        f();
        raise(SIGKILL);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

#endif
