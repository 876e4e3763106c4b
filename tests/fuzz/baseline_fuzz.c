/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Feeds bytes to the reader of a network's baseline (paro-baseline(5)), their checksum behind
 * them: without it all would be refused alike.
 */
#include "reader_fuzz.h"

#include "health/health_baseline.h"

static void check(const struct health_baseline *b)
{
    assert(b->hosts > 0);
    for (int k = 0; k < b->hosts; k++) {
        const struct health_expected *e = &b->port[k];
        assert(e->host[0] && e->ranks > 0 && e->latency_s >= 0);
        for (int way = 0; way < 2; way++)
            assert(e->Bps[way] >= 1 && e->spread[way] >= 0 && e->spread[way] <= 1);
    }
}

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    struct health_baseline b = {0};
    struct err err = {0};

    if (bytes > FUZZ_MAX)
        return 0;
    char *text = mem_new(bytes + HEALTH_TAIL, 1);
    if (bytes)
        memcpy(text, data, bytes);
    int more = health_store_tail(&health_baseline_store, text, (int64_t)bytes, text + bytes);
    int rc = health_store_parse(&health_baseline_store, FUZZ_NAME, text, (int64_t)bytes + more,
                                &b, &err);
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
