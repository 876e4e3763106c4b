/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows the cache that the Hugging Face hub's programs share:
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

static const struct {
    const char *name, *below;
} roots[] = {{"HF_HUB_CACHE", ""},
             {"HF_HOME", "/hub"},
             {"XDG_CACHE_HOME", "/huggingface/hub"},
             {"HOME", "/.cache/huggingface/hub"}};

enum { ROOTS = sizeof roots / sizeof *roots };

static int fits(int printed)
{
    return printed > 0 && printed < CLI_HUB_PATH;
}

/* 0, and the snapshot of the cache's folder in path. */
static int find_snapshot(const char *folder, char path[CLI_HUB_PATH])
{
    char revision[80] = "";
    FILE *f = NULL;

    if (fits(snprintf(path, CLI_HUB_PATH, "%s/refs/main", folder)))
        f = fopen(path, "re");
    if (!f)
        return -1;
    int got = fscanf(f, "%79[0-9A-Za-z._-]", revision) == 1;
    fclose(f);
    return got && fits(snprintf(path, CLI_HUB_PATH, "%s/snapshots/%s", folder, revision)) &&
                   access(path, X_OK) == 0
               ? 0
               : -1;
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
