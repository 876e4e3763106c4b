/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes the status line of a long operation:
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

int cli_progress_wanted(int how)
{
    const char *term = getenv("TERM");

    return how == 0 ? isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb") != 0
                    : how == 1;
}

void cli_progress_init(struct cli_progress *p, int how, const char *word)
{
    *p = (struct cli_progress){
        .word = word, .shows = cli_progress_wanted(how), .line.out = stderr};
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
