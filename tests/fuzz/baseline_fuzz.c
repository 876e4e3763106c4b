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

static const char two[] =
    "format: paro-baseline/2\nwhen_s: 1700000000\npaths:\n  - path: 1\n    ratio: 1\n"
    "  - path: 3\n    ratio: 0.5\nports:\n"
    "  - host: node0\n    ranks: 2\n    out_Bps: 5.9e+07\n    out_spread: 0.01\n"
    "    in_Bps: 59000000\n    in_spread: 0\n    latency_s: 2e-05\n"
    "  - host: \"1\"\n    ranks: 1\n    out_Bps: 5.9e+07\n    out_spread: 1\n"
    "    in_Bps: 59000000\n    in_spread: 0.5\n    latency_s: 0\n";

FUZZ_SET(.name = "baseline", .longest = 2048, .cases = 8000, .ends = " \n:,",
         .words = FUZZ_LIST("0", "-1", "1e999", "nan", "inf", "12abc", "node0", "1", "~", "\"",
                            "host", "out_Bps", "{", "}", "paro-baseline/1"),
         .text = {FUZZ_TEXT(two)});
