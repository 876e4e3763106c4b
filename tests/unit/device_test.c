/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests devices: what they are called, and what this processor does as one.  GPUs: tests/gpu.
 */
#include "unit.h"

#include "../gpu/device_fixture.h"

TEST(test_names)
{
    static const char *const wrong[] = {"",        "gpu",     "cuda:", "cuda:-1", "cuda:x",
                                        "cuda:1x", "cuda:1 ", "CPU",   "cuda0",   "cuda:99999"};
    struct device *d = NULL;

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_error(device_open(&d, wrong[i], 0, &err), ERR_INPUT);
        assert_non_null(strstr(err.text, wrong[i]));
    }
    /* No machine has so many: whatever this build and this machine have, it is absent. */
    assert_error(device_open(&d, "cuda:1023", 0, &err), ERR_ABSENT);
    assert_error(device_open(&d, "cuda", 1023, &err), ERR_ABSENT);
    assert_null(d);
}

TEST(test_cpu)
{
    struct device *d = NULL;
    struct device_queue *q = NULL;
    int64_t free_bytes = 0, bytes = 0;

    assert_ok(device_open(&d, "cpu", 3, &err));
    assert_int_equal(device_kind(d), DEVICE_CPU);
    assert_int_equal(device_index(d), -1);
    assert_string_equal(device_name(d), "cpu");
    assert_ok(device_memory(d, &free_bytes, &bytes, &err));
    assert_true(free_bytes == -1 && bytes == -1);
    assert_ok(device_queue_open(d, &q, &err));
    assert_null(device_stream(q));
    assert_ptr_equal(device_of(q), d);
    device_queue_close(q);

    static device_check_f *const checks[] = {memory_is_zeroed, bytes_arrive, queues_wait,
                                             graphs_are_written};
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        const char *what = checks[i](d);
        if (what)
            fail_msg("not so that %s", what);
    }
    device_close(d);
}

TEST(test_nothing_to_close)
{
    device_close(NULL);
    device_queue_close(NULL);
    device_event_close(NULL);
}
