/* SPDX-License-Identifier: BSD-3-Clause */
/* Feeds bytes to the readers of numbers, sizes, rates and times.  The second opinion knows the
 * grammar by hand, multiplies decimals digit by digit, and has strtold's longer mantissa. */
#include "reader_fuzz.h"

#include <float.h>
#include <math.h>

#include "base/num.h"

enum { TEXT_MAX = 64, DIGITS = 160 };

/* A decimal and what is behind it: [+-] digits [. digits] [e [+-] digits]. */
struct decimal {
    int minus, digits; /* digits before and behind the point */
    int point;         /* 10^point */
    char digit[TEXT_MAX];
    char suffix[TEXT_MAX];
};

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Whether the text begins with one; no more than a thousand's power of ten is told apart. */
static int split(const char *p, struct decimal *d)
{
    int behind = 0, power = 0;
    const char *e;

    *d = (struct decimal){.minus = *p == '-'};
    p += *p == '-' || *p == '+';
    if (p[0] == '0' && (is_digit(p[1]) || p[1] == 'x' || p[1] == 'X'))
        return 0;
    for (; is_digit(*p) || (*p == '.' && !behind); p++) {
        if (*p == '.')
            behind = 1;
        else
            d->digit[d->digits++] = *p;
        d->point -= behind && *p != '.';
    }
    e = p + 1 + (*p && (p[1] == '-' || p[1] == '+'));
    if (d->digits && (*p == 'e' || *p == 'E') && is_digit(*e)) {
        int down = p[1] == '-';
        for (p = e; is_digit(*p); p++)
            power = power < 1000 ? 10 * power + *p - '0' : power;
        d->point += down ? -power : power;
    }
    strcpy(d->suffix, p);
    return d->digits > 0;
}

/* Least significant first: number *= by. */
static void multiply(int number[DIGITS], int64_t by)
{
    int64_t carry = 0;

    for (int i = 0; i < DIGITS; i++) {
        carry += number[i] * by;
        number[i] = (int)(carry % 10);
        carry /= 10;
    }
    assert(carry == 0);
}

/* d * factor where it is a whole number of 63 bits. */
static int whole(const struct decimal *d, int64_t factor, int64_t *out)
{
    int number[DIGITS] = {0}, first = -d->point;
    uint64_t v = 0;

    for (int i = 0; i < d->digits; i++)
        number[d->digits - 1 - i] = d->digit[i] - '0';
    multiply(number, factor);
    for (int i = 0; i < DIGITS; i++) {
        if (number[i] && (i < first || i - first > 18))
            return 0;
    }
    for (int i = DIGITS - 1; i >= 0; i--)
        if (number[i] || v) /* v < 10^19 fits 64 bits */
            v = i >= first ? 10 * v + (uint64_t)number[i] : v;
    for (int i = 0; first < 0 && v && i < -first; i++) {
        if (v > UINT64_MAX / 10)
            return 0;
        v *= 10;
    }
    if (v > (uint64_t)INT64_MAX + (uint64_t)d->minus)
        return 0;
    *out = (int64_t)(d->minus ? 0 - v : v);
    return 1;
}

static const struct {
    const char *name;
    int64_t factor;
} sizes[] = {{"", 1},           {"B", 1},           {"K", 1 << 10},
             {"M", 1 << 20},    {"G", 1 << 30},     {"T", 1LL << 40},
             {"Ki", 1 << 10},   {"Mi", 1 << 20},    {"Gi", 1 << 30},
             {"Ti", 1LL << 40}, {"KiB", 1 << 10},   {"MiB", 1 << 20},
             {"GiB", 1 << 30},  {"TiB", 1LL << 40}, {"kB", 1000},
             {"MB", 1000000},   {"GB", 1000000000}, {"TB", 1000000000000}};

static const struct {
    const char *name;
    long double factor;
} rates[] = {{"B/s", 1},         {"kB/s", 1e3L},  {"MB/s", 1e6L},     {"GB/s", 1e9L},
             {"TB/s", 1e12L},    {"KiB/s", 1024}, {"MiB/s", 1048576}, {"GiB/s", 1 << 30},
             {"bit", 0.125L},    {"kbit", 125},   {"mbit", 125e3L},   {"gbit", 125e6L},
             {"kbit/s", 125},    {"Kbit/s", 125}, {"Mbit/s", 125e3L}, {"Gbit/s", 125e6L},
             {"Tbit/s", 125e9L}, {"Kbit", 125},   {"Mbit", 125e3L},   {"Gbit", 125e6L}},
  times[] = {{"", 1},       {"s", 1},    {"ms", 1e-3L}, {"us", 1e-6L},
             {"ns", 1e-9L}, {"min", 60}, {"h", 3600}};

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* What is accepted is what the second opinion says, and nothing else is. */
static int check_size(const char *text, const struct decimal *d)
{
    int64_t v = 77, ref = 0;
    struct err err = {0};
    int rc = num_bytes(text, INT64_MIN, INT64_MAX, &v, &err), want = 0, rounded = 0;
    long double exact = 0;

    assert(rc == 0 || (v == 77 && err.code == ERR_INPUT && err.text[0]));
    for (size_t i = 0; d && i < COUNT(sizes) && !want; i++)
        want = strcmp(d->suffix, sizes[i].name) == 0 && whole(d, sizes[i].factor, &ref);
    /* Of M and more the nearest byte is meant where it is none. */
    for (size_t i = 0; d && i < COUNT(sizes) && !want && !d->minus; i++) {
        exact = strtold(text, NULL) * (long double)sizes[i].factor;
        want = rounded = strcmp(d->suffix, sizes[i].name) == 0 && sizes[i].factor >= 1000000 &&
                         exact < 0x1p62L;
    }
    /* Of more digits than 38 some are refused that are whole; 10^308 is no double. */
    if (d && d->digits < 38 && abs(d->point) < 200)
        assert((rc == 0) == want);
    /* Text, factor and product of doubles: half a unit of the last place each. */
    assert(rc ||
           (rounded ? fabsl((long double)v - exact) <= 0.5L + exact * 0x1p-51L : v == ref));
    if (rc == 0 && d->suffix[0] == 0) { /* a bare number is the same as a count */
        assert(num_count(text, INT64_MIN, INT64_MAX, &ref, &err) == 0 && ref == v);
        assert(v == INT64_MIN || num_count(text, v, v, &ref, &err) == 0);
        assert(v == INT64_MAX || num_count(text, v + 1, INT64_MAX, &ref, &err) == -1);
    }
    return rc == 0;
}

/* Plain digits alone; the same text is a count, a size and a number. */
static int check_i64(const char *text)
{
    int64_t v = 77, again = 0;
    struct err err = {0};
    char back[32];

    if (num_i64(text, INT64_MIN, INT64_MAX, &v, &err)) {
        assert(v == 77 && err.code == ERR_INPUT && err.text[0]);
        return 0;
    }
    snprintf(back, sizeof back, "%lld", (long long)v);
    assert(strcmp(back, text) == 0 || strcmp(text, "-0") == 0);
    assert(num_bytes(text, INT64_MIN, INT64_MAX, &again, &err) == 0 && again == v);
    return 1;
}

/* What strtold says; where that is nothing of something, the least that it knows. */
static long double refer(const char *text, const struct decimal *d)
{
    long double ref = d ? strtold(text, NULL) : 0;

    for (int i = 0; d && ref == 0 && i < d->digits; i++)
        if (d->digit[i] != '0')
            return LDBL_MIN;
    return ref;
}

/* ref: refer's.  Where a double is about to end, either side may be right. */
static int near_edge(long double ref)
{
    return ref != 0 && (fabsl(ref) < 2 * (long double)DBL_MIN || fabsl(ref) > 0.999L * DBL_MAX);
}

/* |v - ref| within `ulps` roundings of a double. */
static int is_near(double v, long double ref, int ulps)
{
    return fabsl((long double)v - ref) <= ulps * 0x1p-53L * fabsl(ref);
}

static int check_f64(const char *text, const struct decimal *d)
{
    long double ref = refer(text, d);
    double v = 77, again = 0;
    struct err err = {0};
    char back[40];
    int rc = num_f64(text, -DBL_MAX, DBL_MAX, &v, &err);

    assert(rc == 0 || (v == 77 && err.code == ERR_INPUT && err.text[0]));
    if (!near_edge(ref))
        assert((rc == 0) == (d && d->suffix[0] == 0 && isfinite(ref)));
    if (rc)
        return 0;
    /* Two roundings: strtold's to 64 bits may lie on the other side of a half. */
    assert(near_edge(ref) || is_near(v, ref, 2));
    snprintf(back, sizeof back, "%.17g", v);
    assert(num_f64(back, v, v, &again, &err) == 0 && again == v);
    return 1;
}

static int check_scaled(const char *text, const struct decimal *d, int rate)
{
    long double ref = 0;
    double v = 77;
    struct err err = {0};
    int rc = (rate ? num_rate : num_time)(text, &v, &err), known = 0;
    size_t count = rate ? COUNT(rates) : COUNT(times);

    assert(rc == 0 || (v == 77 && err.code == ERR_INPUT && err.text[0]));
    for (size_t i = 0; d && i < count && !known; i++) {
        known = strcmp(d->suffix, rate ? rates[i].name : times[i].name) == 0;
        ref = known ? refer(text, d) * (rate ? rates[i].factor : times[i].factor) : 0;
    }
    if (!known) {
        assert(rc == -1);
        return 0;
    }
    long double bare = refer(text, d);
    if (!near_edge(bare) && !near_edge(ref))
        assert((rc == 0) == (isfinite(bare) && isfinite(ref) && fabsl(ref) <= DBL_MAX &&
                             (rate ? ref > 0 : ref >= 0)));
    /* One rounding of the decimal, one of the factor or of 10^-9, one of the product. */
    assert(rc || near_edge(ref) || near_edge(bare) || is_near(v, ref, 4));
    return rc == 0;
}

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    struct decimal d;

    if (bytes >= TEXT_MAX)
        return 0;
    char *text = fuzz_copy(data, bytes);
    const struct decimal *known = split(text, &d) ? &d : NULL;
    int taken = check_i64(text) + check_size(text, known) + check_f64(text, known) +
                check_scaled(text, known, 0) + check_scaled(text, known, 1);
    mem_free(text);
    return taken > 0;
}

FUZZ_SET(.name = "number", .longest = 40, .cases = 60000, .part = 50, .ends = ".eEKMGTBbmun\n",
         .words = FUZZ_LIST("0", "9", ".", "e", "E-", "+", "-", "00", "1e99", "99", "B", "K",
                            "Ti", "KiB", "GB", "/s", "bit", "us", "ns", "h", " ", "x", "nan",
                            "\xff"),
         .text = {FUZZ_TEXT("0"), FUZZ_TEXT("-9223372036854775808"), FUZZ_TEXT("80e9"),
                  FUZZ_TEXT("1.5GB"), FUZZ_TEXT("64Ki"), FUZZ_TEXT("2.5MiB"),
                  FUZZ_TEXT("9007199254740993B"), FUZZ_TEXT("3e-4"), FUZZ_TEXT("400Gbit/s"),
                  FUZZ_TEXT("59.8MB/s"), FUZZ_TEXT("25.5kbit"), FUZZ_TEXT("250ns"),
                  FUZZ_TEXT("1.5min"), FUZZ_TEXT("0.50e+2us")});
