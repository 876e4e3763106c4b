/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_UNIT_RANK_FIXTURE_H
#define TESTS_UNIT_RANK_FIXTURE_H

#include <assert.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rank/rank_read.h"

/* Reads a text as a file named run->name. */
static inline int rank_read_text(struct rank_run *run, const char *text, size_t bytes,
                                 const struct rank_reading *how, struct err *why)
{
    int fd = memfd_create("log", MFD_CLOEXEC);

    assert(fd >= 0);
    ssize_t written = bytes ? write(fd, text, bytes) : 0;
    off_t at = lseek(fd, 0, SEEK_SET);
    assert(written == (ssize_t)bytes && at == 0);
    int rc = rank_read_fd(run, fd, how, why);
    close(fd);
    return rc;
}

#endif
