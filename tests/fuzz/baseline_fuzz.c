/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Feeds bytes to the reader of a network's baseline (paro-baseline(5)), their checksum behind
 * them: without it all would be refused alike.
 */
#include "reader_fuzz.h"

#include "health/health_baseline.h"
#include "health/health_sum.h"

static void check(const struct health_baseline *b)
{
    assert(b->hosts > 0);
    for (int k = 0; k < b->hosts; k++) {
        assert(b->host[k][0] && health_baseline_find(b, b->host[k]) == k);
        assert(b->ranks[k] > 0 && b->latency_s[k] >= 0);
        for (int way = 0; way < 2; way++)
            assert(b->Bps[k][way] >= 1 && b->spread[k][way] >= 0 && b->spread[k][way] <= 1);
    }
}

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    struct health_baseline b = {0};
    struct err err = {0};

    if (bytes > FUZZ_MAX)
        return 0;
    char *text = mem_new(bytes + sizeof "checksum: \n" + HEALTH_SUM, 1), hex[HEALTH_SUM];
    if (bytes)
        memcpy(text, data, bytes);
    health_sum(text, (int64_t)bytes, hex);
    int more = sprintf(text + bytes, "checksum: %s\n", hex);
    int rc = health_baseline_parse(&b, FUZZ_NAME, text, (int64_t)bytes + more, &err);
    mem_free(text);
    if (fuzz_judge(rc, &err))
        return 0;
    check(&b);
    health_baseline_release(&b);
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    reader_fuzz_case(data, bytes);
    return 0;
}
