/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Feeds bytes to the reader of what a health check remembers (health_memory.h), their sum
 * behind them: without it all would be refused alike.  What was taken prints as what reads
 * back.
 */
#include "reader_fuzz.h"

#include "health/health_memory.h"

static void check(const struct health_memory *m)
{
    for (int i = 0; i < m->nics.count; i++) {
        const struct health_known *k = &m->nics.at[i];
        assert(k->last.name[0] && k->losses <= HEALTH_EVENTS && k->recents <= HEALTH_EVENTS);
        assert(k->losses >= 0 && k->recents >= 0 && k->want_mbit >= 0 && k->want_width >= 0);
    }
    for (int i = 0; i < m->problems.count; i++)
        assert(m->problems.at[i].code > 0 && m->problems.at[i].spoken <= HEALTH_UNKNOWN &&
               m->problems.at[i].way >= -1 && m->problems.at[i].way <= 1);
    for (int i = 0; i < m->rates.count; i++)
        assert(m->rates.at[i].count >= 0 && m->rates.at[i].count <= HEALTH_RATES);
}

static char *print(const struct health_memory *m, size_t *bytes)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, bytes);

    assert(out);
    health_store_print(&health_memory_store, m, out);
    fclose(out);
    return text;
}

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    struct health_memory m = {.lock = -1}, back = {.lock = -1};
    struct err err = {0};
    char *again, *last;
    size_t n = 0, len = 0;

    if (bytes > FUZZ_MAX)
        return 0;
    char *text = mem_new(bytes + HEALTH_TAIL, 1);
    if (bytes)
        memcpy(text, data, bytes);
    int more = health_store_tail(&health_memory_store, text, (int64_t)bytes, text + bytes);
    int rc = health_store_parse(&health_memory_store, FUZZ_NAME, text, (int64_t)bytes + more,
                                &m, &err);
    mem_free(text);
    if (fuzz_judge(rc, &err)) {
        health_memory_close(&m);
        return 0;
    }
    check(&m);
    again = print(&m, &n);
    rc = health_store_parse(&health_memory_store, FUZZ_NAME, again, (int64_t)n, &back, &err);
    assert(rc == 0);
    last = print(&back, &len);
    fuzz_same(again, n, last, len);
    health_memory_close(&m);
    health_memory_close(&back);
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    reader_fuzz_case(data, bytes);
    return 0;
}
