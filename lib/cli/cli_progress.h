/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CLI_CLI_PROGRESS_H
#define CLI_CLI_PROGRESS_H

#include <stdint.h>

#include "base/status.h"

/*
 * Shows a status line on standard error, at most twice a second:
 * `--progress=auto|always|never`; auto: if it is a capable terminal.
 */
struct cli_progress {
    const char *word; /* names the operation */
    int shows;
    double began_s, due_s; /* 0: not begun */
    struct status line;
};

#define CLI_OPTION_PROGRESS(field)                                                             \
    "progress", 0, "auto|always|never", 0,                                                     \
        "Show progress on standard error (default: auto, if that is a terminal)",              \
        CLI_CHOICE(field, "auto|always|never")

/* Whether to show progress; how: 0 auto, 1 always, 2 never. */
int cli_progress_wanted(int how);
void cli_progress_init(struct cli_progress *p, int how, const char *word);
/* p: a struct cli_progress; reports `done` of `all`, which is constant. */
void cli_progress_tell(void *p, int64_t done, int64_t all);
void cli_progress_clear(struct cli_progress *p);

#endif
