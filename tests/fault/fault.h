/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FAULT_FAULT_H
#define FAULT_FAULT_H

#include <stdint.h>

/* One run of a command in which one thing goes wrong.  System calls are counted from the
 * program's first instruction, in all its threads; so are allocations. */
enum fault_mode {
    FAULT_NONE,   /* counts */
    FAULT_FAIL,   /* the n-th is not made, and says why */
    FAULT_LATE,   /* the n-th is made, and says that it was not */
    FAULT_ON,     /* the n-th and all after it fail */
    FAULT_SHORT,  /* the n-th reads or writes half as much */
    FAULT_KILL,   /* SIGKILL in place of the n-th */
    FAULT_KILLED, /* SIGKILL right behind the n-th */
};

struct fault {
    /* "any", "change", "lost", "malloc", a kind of fault_trace.c's; NULL: left alone */
    const char *kind;
    const char *from; /* NULL, or the kind with whose first call the count begins */
    enum fault_mode mode;
    int error;
    int64_t n; /* from 1 */
};

struct fault_end {
    int status; /* waitpid's */
    int hung;
    int begun;     /* the count has */
    int hit;       /* the n-th came */
    int64_t count; /* of the kind, as far as was counted */
};

/* What the preloaded allocator and the one who set it up share. */
struct fault_state {
    int64_t at;
    int on;
    int hit;
    int64_t count;
};

/* Runs argv with stdout and stderr in files; -1: it cannot be traced here. */
int fault_run(const struct fault *f, char *const *argv, const char *out, const char *err,
              struct fault_end *end);

/* A sum over names, types, modes and contents, 0 where there is nothing; `mask`: any number is
 * as good as another, and so are the digits of a name. */
uint64_t tree_hash(const char *path, int mask);
void tree_copy(const char *from, const char *to);
void tree_remove(const char *path);
/* Text of a small file, empty where there is none; the caller frees it. */
char *tree_text(const char *path);

#endif
