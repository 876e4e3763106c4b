/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows which folders lie apart from one another. */
#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "ckpt/ckpt_write.h"
#include "shard/shard_parts.h"

int shard_is_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);

    return strncmp(path, folder, n) == 0 && (path[n] == '/' || (n == 1 && path[n]));
}

/* The absolute name of what may not be there yet; *out NULL when its folder is not either. */
static int absolute(const char *path, char **out, struct err *err)
{
    char *a = mem_dup(path), *b = mem_dup(path);
    char *dir = realpath(dirname(a), NULL);
    int rc = dir || errno == ENOENT ? 0 : err_sys(err, "cannot resolve '%s'", path);

    *out = dir ? io_join(dir, basename(b)) : NULL;
    free(dir);
    mem_free(a);
    mem_free(b);
    return rc;
}

int shard_check_apart(const char *from, const char *to, int inside, struct err *err)
{
    char *source = realpath(from, NULL), *target = NULL;
    int rc = 0;

    if (!source)
        rc = err_sys(err, "cannot open '%s'", from);
    else if (absolute(to, &target, err))
        rc = -1;
    else if (!inside && target && shard_is_below(target, source))
        rc = err_set(err, ERR_INPUT, "'%s' is inside '%s', expected a path outside", to, from);
    else if (target && shard_is_below(source, target))
        rc = err_set(err, ERR_INPUT, "'%s' is inside '%s', expected a path outside", from, to);
    free(source);
    mem_free(target);
    return rc;
}
