/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of a network's baseline (paro-baseline(5)). */
#include "store_fuzz.h"

#include "health/health_baseline.h"

static void check(const void *whole, const void *back)
{
    const struct health_baseline *b = whole;

    (void)back;
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
    struct health_baseline b = {0}, back = {0};

    return store_fuzz_case(&health_baseline_store, data, bytes, &b, &back, check);
}
