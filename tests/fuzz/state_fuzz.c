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

static const char full[] =
    "{\"format\":\"paro-health-state/2\",\"runs\":17,\"when_s\":1795000000,"
    "\"measured_s\":1794999700,\"host\":\"node3\",\"boot\":\"0d1b-22\",\"said\":2,"
    "\"said_s\":1794990000}\n"
    "{\"nic\":\"eth0\",\"ib\":0,\"real\":1,\"up\":1,\"carrier\":1,\"mbit\":10000,\"width\":0,"
    "\"packets\":2000,\"losses\":1,\"ups\":2,\"want_up\":1,\"want_mbit\":10000,"
    "\"want_width\":0,\"counter\":[0,12,0,0,7,-1,-1,-1],\"loss\":[1794999000,1,0,"
    "1794999900,2,0],\"recent\":[1794999700,4,2000]}\n"
    "{\"problem\":204,\"spoken\":2,\"told\":1,\"runs\":2,\"first_s\":1794999000,"
    "\"last_s\":1795000000,\"told_s\":1794999000,\"way\":-1,\"host\":\"node3\","
    "\"link\":\"eth0\",\"other\":\"\",\"text\":\"node3 port eth0\"}\n"
    "{\"rate\":\"node3\",\"way\":0,\"Bps\":[59800000,59700000.5]}\n"
    "{\"rate\":\"node3\",\"way\":1,\"Bps\":[]}\n";
static const char least[] =
    "{\"format\":\"paro-health-state/2\",\"runs\":0,\"when_s\":0,\"measured_s\":0,"
    "\"host\":\"\",\"boot\":\"\",\"said\":0,\"said_s\":0}\n";

FUZZ_SET(.name = "state", .cases = 20000, .ends = " \n:,{}[]",
         .words = FUZZ_LIST("0", "-1", "1e9", "null", "\"eth0\"", "\"nic\"", "\"problem\"",
                            "\"rate\"", "\"loss\"", "\"\"", "{", "}", "[]", "4", "999", "1000",
                            "\"recent\"", "\n", "9223372036854775807", "\"counter\""),
         .text = {FUZZ_TEXT(full), FUZZ_TEXT(least)});
