/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests targets that count and bounds of documents, against a list of all tokens. */
#include "unit.h"

#include "base/rng.h"
#include "data/data_spans.h"

enum { TOKENS = 200, SEQ = 17 };

static void check_windows(const struct spans *s, const int kind[TOKENS],
                          const int document[TOKENS])
{
    for (int at = 0; at + SEQ < TOKENS; at++) {
        int32_t joined[SEQ], apart[SEQ], begins[SEQ];
        for (int i = 0; i < SEQ; i++)
            joined[i] = apart[i] = i;
        spans_apply(s, at, SEQ, joined, NULL);
        spans_apply(s, at, SEQ, apart, begins);
        for (int i = 0; i < SEQ; i++) {
            int context = kind[at + i + 1] & SPAN_CONTEXT;
            int other = document[at + i + 1] != document[at + i], first = i;
            while (first > 0 && document[at + first - 1] == document[at + i])
                first--;
            assert_int_equal(joined[i], context ? -1 : i);
            assert_int_equal(apart[i], context || other ? -1 : i);
            assert_int_equal(begins[i], first);
        }
    }
}

TEST(windows_equal_a_list_of_tokens)
{
    for (uint64_t run = 0; run < 50; run++) {
        struct spans s = {0};
        int kind[TOKENS], document[TOKENS], now = 0, number = 0;
        for (int t = 0; t < TOKENS; t++) {
            uint64_t draw = rng_u64(1, run, (uint64_t)t) % 100;
            /* Some spans are empty. */
            for (int k = draw < 30 ? (int)draw % 3 : t ? 0 : 1; k > 0; k--) {
                now = (int)(rng_u64(2, run * 1000 + (uint64_t)k, (uint64_t)t) % 4);
                number += (now & SPAN_DOCUMENT) != 0;
                assert_ok(spans_add(&s, t, t ? now : now | SPAN_DOCUMENT, &err));
            }
            if (t == 0 && !s.count)
                assert_ok(spans_add(&s, 0, SPAN_DOCUMENT, &err));
            kind[t] = now;
            document[t] = number;
        }
        check_windows(&s, kind, document);
        spans_release(&s);
    }
}

TEST(without_spans_all_is_one_document)
{
    struct spans s = {0};
    int32_t targets[3] = {5, 6, 7}, begins[3] = {9, 9, 9};

    spans_apply(&s, 40, 3, targets, begins);
    for (int i = 0; i < 3; i++)
        assert_true(targets[i] == 5 + i && begins[i] == 0);
}
