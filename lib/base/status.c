/* SPDX-License-Identifier: BSD-3-Clause */
/* Overwrites a status line with plain characters, for any terminal. */
#include "base/status.h"

#include <limits.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* One less than the terminal's width: some terminals wrap a full line. */
static int status_columns_of(FILE *out)
{
    struct winsize size;

    return ioctl(fileno(out), TIOCGWINSZ, &size) || size.ws_col == 0 ? INT_MAX
                                                                     : size.ws_col - 1;
}

void status_show(struct status *s, const char *text)
{
    size_t n = strlen(text);

    if (!n && !s->shown) /* nothing to clear, as in each step of a run */
        return;
    if (!isatty(fileno(s->out))) {
        fprintf(s->out, "%s\n", text);
    } else {
        int most = status_columns_of(s->out), width = n < (size_t)most ? (int)n : most;

        fprintf(s->out, "\r%.*s%*s%s", width, text, s->shown > width ? s->shown - width : 0, "",
                n ? "" : "\r");
        s->shown = width;
    }
    fflush(s->out);
}
