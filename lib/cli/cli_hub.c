/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds models in the cache that the Hugging Face hub's programs share:
 *
 *     ROOT/models--ORG--NAME/refs/main              a revision
 *     ROOT/models--ORG--NAME/snapshots/REVISION/    the model's folder
 *
 * ROOT is $HF_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub or
 * ~/.cache/huggingface/hub, the first that is set.
 */
#include "cli/cli_hub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"

static const struct {
    const char *name, *below;
} roots[] = {{"HF_HUB_CACHE", ""},
             {"HF_HOME", "/hub"},
             {"XDG_CACHE_HOME", "/huggingface/hub"},
             {"HOME", "/.cache/huggingface/hub"}};

enum { ROOTS = sizeof roots / sizeof *roots, REVISION_MAX = 80 };

#define REVISION_CHARS "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz._-"

static int fits(int printed)
{
    return printed > 0 && printed < CLI_HUB_PATH;
}

/* Returns 0 and the snapshot in path if the folder is in the cache: .../models--ORG--NAME. */
static int find_snapshot(const char *folder, char path[CLI_HUB_PATH])
{
    struct err ignored; /* the folder is then used unchanged */
    char *revision = NULL;
    int64_t bytes = 0;
    size_t n = strlen(folder);

    while (n && folder[n - 1] == '/')
        n--;
    while (n && folder[n - 1] != '/')
        n--;
    if (strncmp(folder + n, "models--", 8) ||
        !fits(snprintf(path, CLI_HUB_PATH, "%s/refs/main", folder)) ||
        io_read_file(path, REVISION_MAX, NULL, &revision, &bytes, &ignored))
        return -1;
    revision[strspn(revision, REVISION_CHARS)] = 0;
    int found = *revision &&
                fits(snprintf(path, CLI_HUB_PATH, "%s/snapshots/%s", folder, revision)) &&
                access(path, X_OK) == 0;
    mem_free(revision);
    return found ? 0 : -1;
}

const char *cli_hub(const char *given, char path[CLI_HUB_PATH])
{
    char folder[CLI_HUB_PATH];
    const char *slash = given ? strchr(given, '/') : NULL;
    int i = 0;

    if (!given)
        return NULL;
    if (access(given, F_OK) == 0)
        return find_snapshot(given, path) ? given : path;
    if (!slash || slash == given || given[0] == '.' || !slash[1] || strchr(slash + 1, '/'))
        return given;
    while (i < ROOTS && !getenv(roots[i].name))
        i++;
    if (i < ROOTS &&
        fits(snprintf(folder, sizeof folder, "%s%s/models--%.*s--%s", getenv(roots[i].name),
                      roots[i].below, (int)(slash - given), given, slash + 1)) &&
        find_snapshot(folder, path) == 0)
        return path;
    return given;
}
