/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows what the status line of a long operation says.
 *
 *     reshard 37 %  ~0:01:12 left
 */
#include "cli/cli_progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/tick.h"

static const double EACH_S = 0.5;

error_t cli_progress_choose(struct cli *cli, struct cli_progress *p, const char *how)
{
    const char *term = getenv("TERM");
    int able = isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb") != 0;

    if (how && strcmp(how, "auto") && strcmp(how, "always") && strcmp(how, "never"))
        return cli_usage(cli, "--progress: '%s', expected auto, always or never", how);
    p->line.out = stderr;
    p->shows = !how || strcmp(how, "auto") == 0 ? able : strcmp(how, "always") == 0;
    return 0;
}

void cli_progress_tell(void *arg, int64_t done, int64_t all)
{
    struct cli_progress *p = arg;
    double now = tick_now_s();
    char text[80];

    if (!p->shows || done <= 0)
        return;
    if (p->began_s == 0) {
        p->began_s = now;
        p->due_s = now + EACH_S;
    }
    if (now < p->due_s)
        return;
    p->due_s = now + EACH_S;
    double left = (now - p->began_s) * (double)(all - done) / (double)done;
    int64_t s = (int64_t)fmin(left, 1e15);
    snprintf(text, sizeof text, "%s %d %%  ~%" PRId64 ":%02d:%02d left", p->word,
             (int)(100 * ((double)done / (double)all)), s / 3600, (int)(s / 60 % 60),
             (int)(s % 60));
    status_show(&p->line, text);
}

void cli_progress_clear(struct cli_progress *p)
{
    status_show(&p->line, "");
}
