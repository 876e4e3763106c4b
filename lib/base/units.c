/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints numbers with units, for people.  Machine-readable output does not use this. */
#include "base/units.h"

#include <math.h>
#include <stdio.h>

static const char *print_scaled(struct units *u, double v, double step,
                                const char *const *names, int n)
{
    int i = 0;

    if (!isfinite(v)) {
        snprintf(u->text, sizeof u->text, "n/a");
        return u->text;
    }
    if (fabs(v) < 0.005) /* below the resolution of two digits; avoids "-0.00" */
        v = 0;
    while (i + 1 < n && fabs(v) >= step) {
        v /= step;
        i++;
    }
    int digits = i == 0 && v == floor(v) ? 0 : fabs(v) < 10 ? 2 : fabs(v) < 100 ? 1 : 0;
    snprintf(u->text, sizeof u->text, "%.*f%s%s", digits, v, names[i][0] ? " " : "", names[i]);
    return u->text;
}

const char *units_bytes(struct units *u, double bytes)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};

    return print_scaled(u, bytes, 1024, names, 6);
}

const char *units_sent(struct units *u, double bytes)
{
    static const char *const names[] = {"B", "kB", "MB", "GB", "TB", "PB"};

    return print_scaled(u, bytes, 1000, names, 6);
}

const char *units_rate(struct units *u, double Bps)
{
    static const char *const names[] = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};

    return print_scaled(u, Bps, 1000, names, 5);
}

const char *units_count(struct units *u, double count)
{
    static const char *const names[] = {"", "k", "M", "G", "T", "P"};

    return print_scaled(u, count, 1000, names, 6);
}

const char *units_time(struct units *u, double seconds)
{
    static const char *const names[] = {"ns", "us", "ms", "s"};

    if (seconds >= 120) {
        snprintf(u->text, sizeof u->text, "%.0f min", seconds / 60);
        return u->text;
    }
    return print_scaled(u, seconds * 1e9, 1000, names, 4);
}

const char *units_fixed(struct units *u, double value)
{
    double v = fabs(value);
    int decimals = v >= 999.95 ? 0 : v >= 99.995 ? 1 : v >= 9.9995 ? 2 : 3;

    if (v < 1e15)
        snprintf(u->text, sizeof u->text, "%.*f", decimals, value);
    else /* does not fit */
        snprintf(u->text, sizeof u->text, "%.4g", value);
    return u->text;
}

const char *units_whole(struct units *u, double value)
{
    snprintf(u->text, sizeof u->text, "%.0f", value);
    return u->text;
}

const char *units_plain(struct units *u, double value)
{
    snprintf(u->text, sizeof u->text, "%.6g", value);
    return u->text;
}
