/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_UNIT_TEMP_FIXTURE_H
#define TESTS_UNIT_TEMP_FIXTURE_H

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"

/*
 * Makes files and folders of a test's own, in TMPDIR (tests/run sets it, and removes what a
 * test that fails leaves there), else in /tmp.
 */
enum { TEMP_PATH = 256 };

static inline void temp_name(char path[TEMP_PATH], const char *stem)
{
    const char *tmp = getenv("TMPDIR");
    int n = snprintf(path, TEMP_PATH, "%s/%s.XXXXXX", tmp ? tmp : "/tmp", stem);

    assert(n > 0 && n < TEMP_PATH);
}

static inline void temp_folder(char path[TEMP_PATH], const char *stem)
{
    temp_name(path, stem);
    char *made = mkdtemp(path);
    assert(made);
    (void)made;
}

/* A folder that is there, as one that is being filled; io_dir_leave. */
static inline struct io_out temp_open(const char *path)
{
    return (struct io_out){.fd = open(path, O_RDONLY | O_DIRECTORY), .temp = mem_dup(path)};
}

/* Open for reading and writing. */
static inline int temp_file(char path[TEMP_PATH], const char *stem)
{
    temp_name(path, stem);
    int fd = mkstemp(path);
    assert(fd >= 0);
    return fd;
}

/* cmocka's set-up and tear-down of a test that works in a fresh folder, and is there. */
static inline int temp_enter(void **state)
{
    char *dir = mem_new(TEMP_PATH, 1);

    temp_folder(dir, "paro-test");
    *state = dir;
    return chdir(dir);
}

static inline int temp_leave(void **state)
{
    int rc = chdir("/") || io_remove_tree(*state, &(struct err){0});

    mem_free(*state);
    return rc;
}

#endif
