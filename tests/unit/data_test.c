/* SPDX-License-Identifier: BSD-3-Clause */
/* Batches: a function of (seed, index) alone, every window reachable, bad files refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/data.h"

enum { SEQ = 5, BATCH = 3 };

static char path[] = "/tmp/paro-data.XXXXXX";

static void put(const unsigned char *bytes, size_t n)
{
    FILE *f = fopen(path, "w");

    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static int make(void **state)
{
    int fd = mkstemp(path);

    (void)state;
    return fd < 0 || close(fd);
}

static int drop(void **state)
{
    (void)state;
    return unlink(path);
}

/* Each token tells its place, so that a window tells where it begins. */
static void windows(void **state)
{
    unsigned char bytes[20];
    int32_t tokens[BATCH * SEQ], targets[BATCH * SEQ], again[BATCH * SEQ];
    int seen[sizeof bytes] = {0}, starts = 0;
    struct data d;
    struct err err;

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(200 + i);
    put(bytes, sizeof bytes);
    assert_int_equal(data_open(&d, path, SEQ, 256, 1, &err), 0);
    assert_int_equal(d.tokens, sizeof bytes);
    for (int64_t index = 0; index < 200; index++) {
        data_batch(&d, index, BATCH, SEQ, tokens, targets);
        for (int b = 0; b < BATCH; b++) {
            int at = tokens[b * SEQ] - 200;
            assert_in_range(at, 0, sizeof bytes - SEQ - 1);
            seen[at]++;
            for (int t = 0; t < SEQ; t++) {
                assert_int_equal(tokens[b * SEQ + t], 200 + at + t);
                assert_int_equal(targets[b * SEQ + t], 200 + at + t + 1);
            }
        }
        data_batch(&d, index, BATCH, SEQ, again, targets);
        assert_memory_equal(tokens, again, sizeof tokens);
    }
    for (size_t i = 0; i < sizeof bytes; i++)
        starts += seen[i] > 0;
    /* 600 draws of 15 places: one is missed with a probability below 15 (14/15)^600 < 1e-16. */
    assert_int_equal(starts, sizeof bytes - SEQ);
    data_close(&d);
}

/* Row b of batch i is row 0 of batch i * BATCH + b with one row: the same data, cut otherwise.
 */
static void cut_otherwise(void **state)
{
    unsigned char bytes[200];
    int32_t tokens[BATCH * SEQ], targets[BATCH * SEQ], one[SEQ], next[SEQ];
    struct data d, other;
    struct err err;
    int same = 1;

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)i;
    put(bytes, sizeof bytes);
    assert_int_equal(data_open(&d, path, SEQ, 256, 1, &err), 0);
    assert_int_equal(data_open(&other, path, SEQ, 256, 2, &err), 0);
    for (int64_t i = 0; i < 20; i++) {
        data_batch(&d, i, BATCH, SEQ, tokens, targets);
        for (int b = 0; b < BATCH; b++) {
            data_batch(&d, i * BATCH + b, 1, SEQ, one, next);
            assert_memory_equal(one, tokens + b * SEQ, sizeof one);
            assert_memory_equal(next, targets + b * SEQ, sizeof next);
        }
        data_batch(&other, i * BATCH, 1, SEQ, one, next);
        same &= memcmp(one, tokens, sizeof one) == 0;
    }
    assert_false(same); /* another seed, other data */
    data_close(&d);
    data_close(&other);
}

static void refused(void **state)
{
    const unsigned char bytes[] = {1, 2, 3, 4, 5, 99};
    struct data d = {.tokens = 77};
    struct err err;
    char text[256];

    (void)state;
    put(bytes, sizeof bytes);
    assert_int_equal(data_open(&d, path, SEQ, 100, 1, &err), 0);
    assert_int_equal(d.tokens, SEQ + 1);
    data_close(&d);
    d.tokens = 77;
    assert_int_equal(data_open(&d, path, SEQ, 99, 1, &err), -1);
    snprintf(text, sizeof text,
             "'%s': byte 5 is token 99, expected less than the model's vocabulary of 99", path);
    assert_string_equal(err.text, text);
    assert_int_equal(data_open(&d, path, SEQ + 1, 256, 1, &err), -1);
    snprintf(text, sizeof text,
             "data '%s' has 6 tokens, expected at least 7 (one sequence and its next token)",
             path);
    assert_string_equal(err.text, text);
    put(bytes, 0);
    assert_int_equal(data_open(&d, path, SEQ, 256, 1, &err), -1);
    assert_int_equal(err.code, ERR_INPUT);
    assert_int_equal(data_open(&d, "/dev/zero", SEQ, 256, 1, &err), -1);
    assert_string_equal(err.text, "data '/dev/zero' is not a regular file");
    assert_int_equal(data_open(&d, "/nowhere/text", SEQ, 256, 1, &err), -1);
    assert_int_equal(err.code, ERR_ABSENT);
    assert_int_equal(d.tokens, 77); /* written only on success */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows),
        cmocka_unit_test(cut_otherwise),
        cmocka_unit_test(refused),
    };

    return cmocka_run_group_tests(tests, make, drop);
}
