/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows names in order: which one is given twice, and where one stood. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rank/rank.h"

static int by_name(const void *x, const void *y)
{
    const struct rank_name *a = x, *b = y;

    return strcmp(a->name, b->name);
}

struct rank_name *rank_names_new(const char *const *name, int n)
{
    struct rank_name *names = mem_new((size_t)n, sizeof *names);

    for (int i = 0; i < n; i++)
        names[i] = (struct rank_name){name[i], i};
    qsort(names, (size_t)n, sizeof *names, by_name);
    return names;
}

int rank_names_find(const struct rank_name *names, int n, const char *name)
{
    const struct rank_name key = {.name = name};
    const struct rank_name *at = bsearch(&key, names, (size_t)n, sizeof *names, by_name);

    return at ? at->at : -1;
}

int rank_names_check(const char *what, const char *const *name, int n, struct err *err)
{
    int rc = 0;

    if (n > RANK_RUNS_MAX)
        return err_set(err, ERR_INPUT, "%d %ss, expected at most %d", n, what,
                       (int)RANK_RUNS_MAX);
    struct rank_name *names = rank_names_new(name, n);
    for (int i = 1; i < n && rc == 0; i++)
        if (strcmp(names[i - 1].name, names[i].name) == 0)
            rc = err_set(err, ERR_INPUT, "%s '%s' is given twice, expected each once", what,
                         names[i].name);
    mem_free(names);
    return rc;
}
