/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests numbers in (strict: the traps are listed) and numbers out (for people). */
#include "unit.h"

#include "base/num.h"
#include "base/units.h"

static const char *const traps[] = {
    "",         " ",     "12abc", "010", "0x10",  "nan",   "NaN",  "inf",
    "infinity", "1_000", "1,5",   " 1",  "1 ",    "--1",   "+-1",  "1e",
    "e3",       ".",     "-",     "+",   "1e400", "0x1p3", "1\n",  "\t1",
    "1..2",     "-nan",  "-inf",  "one", "1e3e",  "00",    "-010", "1\xc2\xa0",
};

TEST(traps_are_no_numbers)
{
    for (size_t i = 0; i < sizeof traps / sizeof *traps; i++) {
        int64_t n = 77;
        double v = 77;
        assert_int_equal(num_i64(traps[i], INT64_MIN, INT64_MAX, &n, &err), -1);
        assert_int_equal(num_count(traps[i], INT64_MIN, INT64_MAX, &n, &err), -1);
        assert_int_equal(num_bytes(traps[i], INT64_MIN, INT64_MAX, &n, &err), -1);
        assert_int_equal(num_f64(traps[i], -1e300, 1e300, &v, &err), -1);
        assert_int_equal(num_rate(traps[i], &v, &err), -1);
        assert_error(num_time(traps[i], &v, &err), ERR_INPUT);
        assert_int_equal(n, 77);
        assert_true(v == 77);
    }
}

/* A text of any length leaves room for what was expected. */
TEST(long_texts_are_cut)
{
    char text[2000];
    int64_t n = 0;
    double v = 0;

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
#define SAYS(call)                                                                             \
    do {                                                                                       \
        assert_int_equal(call, -1);                                                            \
        assert_non_null(strstr(err.text, "xxx', expected a "));                                \
    } while (0)
    SAYS(num_i64(text, 0, 9, &n, &err));
    SAYS(num_count(text, 0, 9, &n, &err));
    SAYS(num_bytes(text, 0, 9, &n, &err));
    SAYS(num_f64(text, 0, 9, &v, &err));
    SAYS(num_per_s(text, 0, 9, &v, &err));
    SAYS(num_rate(text, &v, &err));
    SAYS(num_time(text, &v, &err));
#undef SAYS
}

TEST(i64_is_whole_and_within)
{
    int64_t n = 0;

    assert_ok(num_i64("0", 0, 9, &n, &err));
    assert_int_equal(n, 0);
    assert_ok(num_i64("-7", -9, 9, &n, &err));
    assert_int_equal(n, -7);
    assert_ok(num_i64("9223372036854775807", 0, INT64_MAX, &n, &err));
    assert_true(n == INT64_MAX);
    assert_ok(num_i64("-9223372036854775808", INT64_MIN, 0, &n, &err));
    assert_true(n == INT64_MIN);
    assert_int_equal(num_i64("9223372036854775808", 0, INT64_MAX, &n, &err), -1);
    assert_int_equal(num_i64("-9223372036854775809", INT64_MIN, 0, &n, &err), -1);
    assert_int_equal(num_i64("1e3", 0, 9999, &n, &err), -1);
    assert_int_equal(num_i64("1.0", 0, 9, &n, &err), -1);
    assert_int_equal(num_i64("10", 0, 9, &n, &err), -1);
    assert_string_equal(err.text, "'10', expected a whole number from 0 to 9");
}

TEST(count_takes_exponents)
{
    int64_t n = 0;

    assert_ok(num_count("80e9", 0, INT64_MAX, &n, &err));
    assert_true(n == 80000000000);
    assert_ok(num_count("1.5e3", 0, INT64_MAX, &n, &err));
    assert_int_equal(n, 1500);
    assert_ok(num_count("9007199254740993", 0, INT64_MAX, &n, &err));
    assert_true(n == 9007199254740993); /* above 2^53, not through a double */
    assert_ok(num_count("7B", 0, INT64_MAX, &n, &err));
    assert_true(n == 7000000000);
    assert_ok(num_count("1.5M", 0, INT64_MAX, &n, &err));
    assert_true(n == 1500000);
    assert_int_equal(num_count("7Gi", 0, INT64_MAX, &n, &err), -1);
    assert_int_equal(num_count("1.5", 0, 9, &n, &err), -1);
    assert_int_equal(num_count("1e19", 0, INT64_MAX, &n, &err), -1);
    assert_int_equal(num_count("1e3", 0, 999, &n, &err), -1);
}

TEST(f64_is_bounded)
{
    double v = 0;

    assert_ok(num_f64("3e-4", 0, 1, &v, &err));
    assert_true(v == 3e-4);
    assert_ok(num_f64("5e-324", 0, 1, &v, &err)); /* what a table has written */
    assert_true(v > 0);
    assert_ok(num_f64(".5", 0, 1, &v, &err));
    assert_true(v == 0.5);
    assert_int_equal(num_f64("0.5", 0, 0.25, &v, &err), -1);
    assert_string_equal(err.text, "'0.5', expected a number from 0 to 0.25");
}

TEST(bytes_have_two_kinds_of_suffix)
{
    static const struct {
        const char *text;
        int64_t bytes;
    } good[] = {
        {"0", 0},
        {"4096", 4096},
        {"4096B", 4096},
        {"64K", 65536},
        {"64Ki", 65536},
        {"64KiB", 65536},
        {"64M", 64 << 20},
        {"64Mi", 64 << 20},
        {"1G", 1 << 30},
        {"2T", 2LL << 40},
        {"1kB", 1000},
        {"64MB", 64000000},
        {"1.5GB", 1500000000},
        {"80e9", 80000000000},
        {"0.5M", 524288},
        {"2.3GB", 2300000000},
        {"1.1TB", 1100000000000},
        {"9007199254740993", 9007199254740993},
        /* above 2^53, and not through a double either */
        {"9007199254740993B", 9007199254740993},
        {"9007199254740.993kB", 9007199254740993},
        {"9223372036854775807.000B", INT64_MAX},
        {"8388607.99999904632568359375T", INT64_MAX - ((1 << 20) - 1)},
        {"0.0009765625K", 1},
        {"0e-999999999999999999999B", 0},
        /* the nearest byte of what other tools print */
        {"31.8Gi", 34144990003},
        {"79.6GiB", 85469849190},
        {"1.00000000000000001GB", 1000000000},
    };
    static const char *const bad[] = {"1.5", "0.3K", "1k", "1m", "1 M", "1MM", "1Mb", "1Mbit",
                                      "M", "-1M", "1e30", "9000000T", "010K", "1P", "0x1M",
                                      /* as doubles these are whole */
                                      "9007199254740993.5", "9223372036854775808B", "8388608T",
                                      "1e99999999999999999999B"};
    int64_t n = 0;

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_ok(num_bytes(good[i].text, 0, INT64_MAX, &n, &err));
        assert_true(n == good[i].bytes);
        assert_int_equal(err.code, ERR_NONE);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(num_bytes(bad[i], 0, INT64_MAX, &n, &err), -1);
}

/* Two decimals and a power of 1000 are whole, though neither factor is exact in binary. */
TEST(every_price_tag_is_whole)
{
    int64_t n = 0;
    char text[32];

    for (int a = 0; a < 3000; a++) {
        snprintf(text, sizeof text, "%d.%02dGB", a / 100, a % 100);
        assert_ok(num_bytes(text, 0, INT64_MAX, &n, &err));
        assert_true(n == a * INT64_C(10000000));
    }
}

TEST(rates_in_bytes_and_bits)
{
    static const struct {
        const char *text;
        double Bps;
    } good[] = {
        {"25e9B/s", 25e9}, {"200GB/s", 200e9},  {"59.8MB/s", 59.8e6}, {"500mbit", 62.5e6},
        {"1gbit", 125e6},  {"400Gbit/s", 50e9}, {"8kbit/s", 1000},    {"1GiB/s", 0x1p30},
    };
    static const char *const bad[] = {"0",     "25",   "25e9",   "-1gbit",   "1GBps",
                                      "1Gb/s", "gbit", "1 gbit", "1e308TB/s"};
    double v = 0;

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_ok(num_rate(good[i].text, &v, &err));
        assert_true(fabs(v - good[i].Bps) <= 0x1p-52 * v);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(num_rate(bad[i], &v, &err), -1);
}

TEST(times_in_seconds)
{
    static const struct {
        const char *text;
        double s;
    } good[] = {{"0", 0},          {"0.5", 0.5},  {"10s", 10},       {"3us", 3e-6},
                {"1.5ms", 1.5e-3}, {"2min", 120}, {"250ns", 250e-9}, {"1h", 3600}};
    static const char *const bad[] = {"-1", "1d", "1S", "1 s", "s", "1e308h", "1m"};
    double v = 0;

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_ok(num_time(good[i].text, &v, &err));
        assert_true(fabs(v - good[i].s) <= 0x1p-52 * v);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(num_time(bad[i], &v, &err), -1);
}

TEST(people_read_units)
{
    struct units u;

    assert_string_equal(units_bytes(&u, 0), "0 B");
    assert_string_equal(units_bytes(&u, 1023), "1023 B");
    assert_string_equal(units_bytes(&u, 1024), "1.00 KiB");
    assert_string_equal(units_bytes(&u, 64 << 20), "64.0 MiB");
    assert_string_equal(units_rate(&u, 59.8e6), "59.8 MB/s");
    assert_string_equal(units_time(&u, 3.2e-3), "3.20 ms");
    assert_string_equal(units_time(&u, 0), "0 ns");
    assert_string_equal(units_time(&u, 600), "10 min");
    assert_string_equal(units_count(&u, 6.74e9), "6.74 G");
    assert_string_equal(units_count(&u, 5), "5");
    assert_string_equal(units_fixed(&u, 1.25), "1.250");
    assert_string_equal(units_fixed(&u, 999.96), "1000");
    assert_string_equal(units_fixed(&u, 12564.4), "12564");
    assert_string_equal(units_bytes(&u, NAN), "n/a");
    assert_string_equal(units_rate(&u, INFINITY), "n/a");
    units_bytes(&u, 1e300); /* has room, whatever comes */
    assert_true(strlen(u.text) < sizeof u.text);
}
