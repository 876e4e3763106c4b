/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CLI_CLI_PROGRESS_H
#define CLI_CLI_PROGRESS_H

#include <stdint.h>

#include "base/status.h"
#include "cli/cli.h"

/*
 * Shows a status line on standard error, twice a second at most:
 * `--progress=auto|always|never`, auto where that is a terminal which can.
 */
struct cli_progress {
    const char *word; /* names the operation */
    int shows;
    double began_s, due_s; /* 0: it has not begun */
    struct status line;
};

#define CLI_OPTION_PROGRESS(field)                                                             \
    "progress", 0, "auto|always|never", 0,                                                     \
        "Show progress on standard error (default: auto, if that is a terminal)",              \
        CLI_CHOICE(field, "auto|always|never")

/* Whether to show it, by --progress: 0 auto, 1 always, 2 never. */
int cli_progress_wanted(int how);
void cli_progress_init(struct cli_progress *p, int how, const char *word);
/* p is a struct cli_progress; of `all`, which stays the same, `done`. */
void cli_progress_tell(void *p, int64_t done, int64_t all);
void cli_progress_clear(struct cli_progress *p);

#endif
