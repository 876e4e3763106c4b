/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_UNIT_NCCL_PLUGIN_FIXTURE_H
#define TESTS_UNIT_NCCL_PLUGIN_FIXTURE_H

/*
 * Loads libparo-nccl-plugin.so as NCCL does it.  Each case is a process of its own, as a rank
 * is, whose standard error goes to a file.
 */
#include <dlfcn.h>
#include <sys/wait.h>

#include "temp_fixture.h"

/* NCCL's logger is a function of others' arguments: it is not called. */
typedef void logger_f(void);

static char dir[TEMP_PATH], said[TEMP_PATH + 8];
static pid_t child;

static inline const void *symbol(const char *name)
{
    char path[4096];

    snprintf(path, sizeof path, "%s/libparo-nccl-plugin.so",
             getenv("B") ? getenv("B") : "build");
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib)
        fail_msg("%s", dlerror());
    return dlsym(lib, name);
}

static inline void quiet(void)
{
    abort();
}

/* The process' status. */
static inline int run(int (*what)(void))
{
    int status = -1;

    child = fork();
    if (child == 0) {
        int fd = open(said, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        dup2(fd, 2);
        close(fd);
        exit(what());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Expects the process to have printed `lines` lines, with these words. */
static inline void printed(int lines, const char *words)
{
    char text[4096] = "";
    int fd = open(said, O_RDONLY), n = 0;

    assert_true(read(fd, text, sizeof text - 1) >= 0);
    close(fd);
    for (const char *c = text; *c; c++)
        n += *c == '\n';
    if (n != lines || !strstr(text, words))
        fail_msg("'%s', expected %d lines with '%s'", text, lines, words);
}

static inline int plugin_setup(void **state)
{
    (void)state;
    temp_folder(dir, "plugin");
    snprintf(said, sizeof said, "%s/said", dir);
    unsetenv("PARO_METER");
    unsetenv("PARO_TUNING");
    unsetenv("PARO_TOPO");
    unsetenv("PARO_DEBUG");
    return 0;
}

static inline int plugin_teardown(void **state)
{
    (void)state;
    unlink(said);
    rmdir(dir);
    return 0;
}

#endif
