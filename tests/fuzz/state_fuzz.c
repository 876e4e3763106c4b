/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of what a health check remembers (health_memory.h). */
#include "store_fuzz.h"

#include "health/health_memory.h"

static void check(const void *whole, const void *back)
{
    const struct health_memory *m = whole;

    (void)back;
    for (int i = 0; i < m->nics.count; i++) {
        const struct health_known *k = &m->nics.at[i];
        assert(k->last.name[0] && k->losses <= HEALTH_EVENTS && k->recents <= HEALTH_EVENTS);
        assert(k->losses >= 0 && k->recents >= 0 && k->want_mbit >= 0 && k->want_width >= 0);
    }
    for (int i = 0; i < m->problems.count; i++)
        assert(m->problems.at[i].code > 0 && m->problems.at[i].reported <= HEALTH_UNKNOWN &&
               m->problems.at[i].way >= -1 && m->problems.at[i].way <= 1);
    for (int i = 0; i < m->rates.count; i++)
        assert(m->rates.at[i].count >= 0 && m->rates.at[i].count <= HEALTH_RATES);
}

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    struct health_memory m = {.lock = -1}, back = {.lock = -1};

    return store_fuzz_case(&health_memory_store, data, bytes, &m, &back, check);
}
