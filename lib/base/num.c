/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses numbers and their units, strictly. */
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

/* strtod accepts "nan", "inf", "0x1p3" and leading space: allows plain decimals only. */
static int parse_decimal(const char *text, double *out, char **end)
{
    const char *p = text + (*text == '-' || *text == '+');

    if ((*p < '0' || *p > '9') && *p != '.')
        return -1;
    /* rejects "0x10", and "010", which other tools read as 8 */
    if (p[0] == '0' && (p[1] == 'x' || p[1] == 'X' || (p[1] >= '0' && p[1] <= '9')))
        return -1;
    *out = strtod(text, end); /* too large: infinity; too small: the nearest double */
    return *end == text || !isfinite(*out) ? -1 : 0;
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
                       "'%.60s', expected a whole number from %" PRId64 " to %" PRId64, text,
                       lo, hi);
    *out = v;
    return 0;
}

/* Divides m * factor by 10. */
static int divide_by_10(unsigned __int128 *m, uint64_t *factor)
{
    for (unsigned prime = 2; prime <= 5; prime += 3) {
        if (*m % prime == 0)
            *m /= prime;
        else if (*factor % prime == 0)
            *factor /= prime;
        else
            return -1;
    }
    return 0;
}

static int multiply(unsigned __int128 *m, unsigned __int128 by)
{
    return __builtin_mul_overflow(*m, by, m) ? -1 : 0;
}

/* Computes m * 10^ten * factor if it is whole. */
static int scale_exactly(unsigned __int128 *m, int64_t ten, uint64_t factor)
{
    int rc = 0;

    for (; *m && ten < 0 && rc == 0; ten++)
        rc = divide_by_10(m, &factor);
    for (; *m && ten > 0 && rc == 0; ten--)
        rc = multiply(m, 10);
    return rc ? rc : multiply(m, factor);
}

/* The digits of a decimal without point and trailing zeros, and its power of 10. */
static int read_digits(const char *p, const char *end, unsigned __int128 *m, int64_t *ten)
{
    int64_t pending = 0, behind = 0;

    for (; p < end && *p != 'e' && *p != 'E'; p++) {
        if (*p == '.') {
            behind = 1;
            continue;
        }
        *ten -= behind;
        pending++;
        if (*p == '0')
            continue;
        if (scale_exactly(m, pending, 1) ||
            __builtin_add_overflow(*m, (unsigned __int128)(unsigned)(*p - '0'), m))
            return -1;
        pending = 0;
    }
    *ten += pending;
    if (p < end) {
        /* Larger than the length of any text */
        long power = strtol(p + 1, NULL, 10), most = 1000000000;
        *ten += power > most ? most : power < -most ? -most : power;
    }
    return 0;
}

/*
 * Converts the decimal text..end with its suffix's factor to a whole number exactly: with
 * doubles 2.3GB is 2299999999.9999995, and 9007199254740993B is one less.
 */
static int parse_exact(const char *text, const char *end, double factor, int64_t lo, int64_t hi,
                       int64_t *out)
{
    int minus = *text == '-';
    unsigned __int128 m = 0;
    int64_t ten = 0;

    if (read_digits(text + (minus || *text == '+'), end, &m, &ten) ||
        scale_exactly(&m, ten, (uint64_t)factor) ||
        m > (unsigned __int128)INT64_MAX + (unsigned)minus)
        return -1;
    int64_t v = minus ? (int64_t)(0 - (uint64_t)m) : (int64_t)m;
    if (v < lo || v > hi)
        return -1;
    *out = v;
    return 0;
}

int num_f64(const char *text, double lo, double hi, double *out, struct err *err)
{
    char *end = NULL;
    double v = 0;

    if (parse_decimal(text, &v, &end) || *end || v < lo || v > hi)
        return err_set(err, ERR_INPUT, "'%.60s', expected a number from %g to %g", text, lo,
                       hi);
    *out = v;
    return 0;
}

/* Parses a decimal and one of the suffixes (with "" in the table a bare number is allowed). */
static const struct suffix *find_suffix(const char *text, const struct suffix *table, double *v,
                                        char **end)
{
    if (parse_decimal(text, v, end))
        return NULL;
    while (table->name && strcmp(*end, table->name))
        table++;
    return table->name ? table : NULL;
}

static int parse_scaled(const char *text, const struct suffix *table, double *out)
{
    char *end = NULL;
    double v = 0;
    const struct suffix *s = find_suffix(text, table, &v, &end);

    if (!s)
        return -1;
    /* 50us is 5e-05: divides, since 1e-6 is not a double. */
    *out = s->factor < 1 ? v / round(1 / s->factor) : v * s->factor;
    return isfinite(*out) ? 0 : -1;
}

/* Counts; B and G are a billion. */
static const struct suffix powers_of_1000[] = {{"", 1},    {"K", 1e3},  {"M", 1e6},  {"B", 1e9},
                                               {"G", 1e9}, {"T", 1e12}, {"P", 1e15}, {NULL, 0}};

int num_count(const char *text, int64_t lo, int64_t hi, int64_t *out, struct err *err)
{
    char *end = NULL;
    double v = 0;

    if (num_i64(text, lo, hi, out, err) == 0)
        return 0;
    const struct suffix *s = find_suffix(text, powers_of_1000, &v, &end);
    if (!s || parse_exact(text, end, s->factor, lo, hi, out))
        return err_set(err, ERR_INPUT,
                       "'%.60s', expected a whole number from %" PRId64 " to %" PRId64
                       ", as 80e9, 7B, 1.5M or 10K",
                       text, lo, hi);
    return 0;
}

int num_per_s(const char *text, double lo, double hi, double *out, struct err *err)
{
    double v = 0;

    if (parse_scaled(text, powers_of_1000, &v) || v < lo || v > hi)
        return err_set(err, ERR_INPUT,
                       "'%.60s', expected a number from %g to %g, as 400T or 4e14", text, lo,
                       hi);
    *out = v;
    return 0;
}

int num_bytes(const char *text, int64_t lo, int64_t hi, int64_t *out, struct err *err)
{
    static const struct suffix table[] = {
        {"", 1},         {"B", 1},        {"K", 0x1p10},   {"M", 0x1p20},   {"G", 0x1p30},
        {"T", 0x1p40},   {"Ki", 0x1p10},  {"Mi", 0x1p20},  {"Gi", 0x1p30},  {"Ti", 0x1p40},
        {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}, {"kB", 1e3},
        {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12},    {NULL, 0},
    };
    char *end = NULL;
    double v = 0;
    const struct suffix *s = find_suffix(text, table, &v, &end);

    /* Other tools print fractions such as 31.8Gi for the nearest byte. */
    int rounds = s && s->factor >= 1e6 && v >= 0 && v * s->factor < 0x1p62;
    if (s && parse_exact(text, end, s->factor, lo, hi, out) == 0)
        return 0;
    int64_t nearest = rounds ? llround(v * s->factor) : -1;
    if (nearest < 0 || nearest < lo || nearest > hi)
        return err_set(err, ERR_INPUT,
                       "'%.60s', expected a size from %" PRId64 " to %" PRId64
                       " bytes, as 4096, 64M, 64Mi, 1.5GB or 80e9",
                       text, lo, hi);
    *out = nearest;
    return 0;
}

int num_rate(const char *text, double *out_Bps, struct err *err)
{
    static const struct suffix table[] = {
        {"B/s", 1},        {"kB/s", 1e3},     {"MB/s", 1e6},     {"GB/s", 1e9},
        {"TB/s", 1e12},    {"KiB/s", 0x1p10}, {"MiB/s", 0x1p20}, {"GiB/s", 0x1p30},
        {"bit", 0.125},    {"kbit", 125},     {"mbit", 125e3},   {"gbit", 125e6},
        {"Kbit/s", 125},   {"kbit/s", 125},   {"Mbit/s", 125e3}, {"Gbit/s", 125e6},
        {"Tbit/s", 125e9}, {"Kbit", 125},     {"Mbit", 125e3},   {"Gbit", 125e6},
        {NULL, 0},
    };

    double v = 0;
    if (parse_scaled(text, table, &v) || v <= 0)
        return err_set(err, ERR_INPUT,
                       "'%.60s', expected a rate above 0 with its unit, as 25GB/s, 500mbit or "
                       "400Gbit/s",
                       text);
    *out_Bps = v;
    return 0;
}

int num_time(const char *text, double *out_s, struct err *err)
{
    static const struct suffix table[] = {
        {"", 1},      {"s", 1},    {"ms", 1e-3}, {"us", 1e-6},
        {"ns", 1e-9}, {"min", 60}, {"h", 3600},  {NULL, 0},
    };

    double v = 0;
    if (parse_scaled(text, table, &v) || v < 0)
        return err_set(err, ERR_INPUT, "'%.60s', expected a time, as 3us, 1.5ms or 10s", text);
    *out_s = v;
    return 0;
}
