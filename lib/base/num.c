/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how a number is written.  Does not know what it counts. */
#include "base/num.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct suffix {
    const char *name;
    double factor;
};

/* strtod takes "nan", "inf", "0x1p3" and leading space: only plain decimals pass here. */
static int decimal(const char *text, double *out, char **end)
{
    const char *p = text + (*text == '-' || *text == '+');

    if ((*p < '0' || *p > '9') && *p != '.')
        return -1;
    /* "0x10", and "010" that another tool may take for 8 */
    if (p[0] == '0' && (p[1] == 'x' || p[1] == 'X' || (p[1] >= '0' && p[1] <= '9')))
        return -1;
    errno = 0;
    *out = strtod(text, end);
    return *end == text || errno == ERANGE || !isfinite(*out) ? -1 : 0;
}

int num_i64(const char *text, int64_t lo, int64_t hi, int64_t *out, struct err *err)
{
    char *end = NULL;
    const char *p = text + (*text == '-');
    int octal = p[0] == '0' && p[1] != 0;

    errno = 0;
    int64_t v = strtoll(text, &end, 10);
    if (*p < '0' || *p > '9' || octal || *end || errno || v < lo || v > hi)
        return err_set(err, ERR_INPUT,
                       "'%s', expected a whole number from %" PRId64 " to %" PRId64, text, lo,
                       hi);
    *out = v;
    return 0;
}

/*
 * A decimal that is whole.  Reading it and multiplying by a suffix each round by at most half
 * an ulp, 2^-53 of the value: 2.3GB comes out as 2299999999.9999995 and is meant whole.
 */
static int whole(double v, int64_t lo, int64_t hi, int64_t *out)
{
    double near = nearbyint(v);

    if (fabs(v - near) > 0x1p-52 * fabs(v) || fabs(v) >= 9.2e18)
        return -1;
    int64_t i = (int64_t)near;
    if (i < lo || i > hi)
        return -1;
    *out = i;
    return 0;
}

int num_count(const char *text, int64_t lo, int64_t hi, int64_t *out, struct err *err)
{
    char *end = NULL;
    double v = 0;

    if (num_i64(text, lo, hi, out, err) == 0)
        return 0;
    if (decimal(text, &v, &end) || *end || whole(v, lo, hi, out))
        return err_set(err, ERR_INPUT,
                       "'%s', expected a whole number from %" PRId64 " to %" PRId64
                       " (80e9 is one)",
                       text, lo, hi);
    return 0;
}

int num_f64(const char *text, double lo, double hi, double *out, struct err *err)
{
    char *end = NULL;
    double v = 0;

    if (decimal(text, &v, &end) || *end || v < lo || v > hi)
        return err_set(err, ERR_INPUT, "'%s', expected a number from %g to %g", text, lo, hi);
    *out = v;
    return 0;
}

/* A decimal and one of the suffixes ("" is among them where a bare number is allowed). */
static int scaled(const char *text, const struct suffix *table, double *out)
{
    char *end = NULL;
    double v = 0;

    if (decimal(text, &v, &end))
        return -1;
    for (; table->name; table++) {
        if (strcmp(end, table->name) == 0) {
            /* 50us is 5e-05: by a division, for 1e-6 itself is no double. */
            *out = table->factor < 1 ? v / round(1 / table->factor) : v * table->factor;
            return isfinite(*out) ? 0 : -1;
        }
    }
    return -1;
}

int num_bytes(const char *text, int64_t lo, int64_t hi, int64_t *out, struct err *err)
{
    static const struct suffix table[] = {
        {"", 1},         {"B", 1},
        {"K", 0x1p10},   {"M", 0x1p20},   {"G", 0x1p30},   {"T", 0x1p40},
        {"Ki", 0x1p10},  {"Mi", 0x1p20},  {"Gi", 0x1p30},  {"Ti", 0x1p40},
        {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
        {"kB", 1e3},     {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12},
        {NULL, 0},
    };
    struct err ignored; /* of a size that is no whole number, but a size */
    double v = 0;

    if (num_i64(text, lo, hi, out, &ignored) == 0)
        return 0;
    if (scaled(text, table, &v) || whole(v, lo, hi, out))
        return err_set(err, ERR_INPUT,
                       "'%s', expected a size from %" PRId64 " to %" PRId64
                       " bytes, as 4096, 64M, 64Mi, 1.5GB or 80e9",
                       text, lo, hi);
    return 0;
}

int num_rate(const char *text, double *out_Bps, struct err *err)
{
    static const struct suffix table[] = {
        {"", 1},          {"B/s", 1},         {"kB/s", 1e3},       {"MB/s", 1e6},
        {"GB/s", 1e9},    {"TB/s", 1e12},     {"KiB/s", 0x1p10},   {"MiB/s", 0x1p20},
        {"GiB/s", 0x1p30},{"bit", 0.125},     {"kbit", 125},       {"mbit", 125e3},
        {"gbit", 125e6},  {"Kbit/s", 125},    {"kbit/s", 125},     {"Mbit/s", 125e3},
        {"Gbit/s", 125e6},{"Tbit/s", 125e9},  {"Kbit", 125},       {"Mbit", 125e3},
        {"Gbit", 125e6},  {NULL, 0},
    };

    double v = 0;
    if (scaled(text, table, &v) || v <= 0)
        return err_set(err, ERR_INPUT,
                       "'%s', expected a rate above 0, as 25GB/s, 500mbit or 400Gbit/s", text);
    *out_Bps = v;
    return 0;
}

int num_time(const char *text, double *out_s, struct err *err)
{
    static const struct suffix table[] = {
        {"", 1},      {"s", 1},   {"ms", 1e-3}, {"us", 1e-6},
        {"ns", 1e-9}, {"min", 60}, {"h", 3600},  {NULL, 0},
    };

    double v = 0;
    if (scaled(text, table, &v) || v < 0)
        return err_set(err, ERR_INPUT, "'%s', expected a time, as 3us, 1.5ms or 10s", text);
    *out_s = v;
    return 0;
}
