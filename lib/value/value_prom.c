/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints metrics in the text format of Prometheus. */
#include "value/value_prom.h"

#include <math.h>

#include "base/utf8.h"

void prom_head(FILE *f, const char *prefix, const char *name, const char *type,
               const char *help)
{
    fprintf(f, "# HELP %s%s %s\n# TYPE %s%s %s\n", prefix, name, help, prefix, name, type);
}

/*
 * The format allows any UTF-8, with three characters escaped; one invalid byte would make the
 * whole file invalid.
 */
void prom_label(FILE *f, const char *before, const char *key, const char *value)
{
    fprintf(f, "%s%s=\"", before, key);
    for (const char *c = value; *c;) {
        int n = utf8_next(c, NULL);
        if (*c == '\n')
            fputs("\\n", f);
        else if (n == 0)
            fputs("\xef\xbf\xbd", f); /* U+FFFD */
        else
            fprintf(f, *c == '"' || *c == '\\' ? "\\%.*s" : "%.*s", n, c);
        c += n ? n : 1;
    }
    putc('"', f);
}

void prom_value(FILE *f, double value)
{
    if (isnan(value)) /* "-nan" would be rejected */
        fputs(" NaN\n", f);
    else
        fprintf(f, " %.15g\n", value);
}
