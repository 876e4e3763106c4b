/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of what a health check remembers under texts that are nearly right. */
#include "reader_fuzz_fixture.h"

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
static const char *const words[] = {"0",
                                    "-1",
                                    "1e9",
                                    "null",
                                    "\"eth0\"",
                                    "\"nic\"",
                                    "\"problem\"",
                                    "\"rate\"",
                                    "\"loss\"",
                                    "\"\"",
                                    "{",
                                    "}",
                                    "[]",
                                    "4",
                                    "999",
                                    "1000",
                                    "\"recent\"",
                                    "\n",
                                    "9223372036854775807",
                                    "\"counter\""};

int main(int argc, char **argv)
{
    struct fuzz_texts t = {.words = words,
                           .word_count = sizeof words / sizeof *words,
                           .ends = " \n:,{}[]",
                           .cases = 20000,
                           .seed = 1,
                           .part = 20};

    fuzz_add(&t, full, sizeof full - 1);
    fuzz_add(&t, least, sizeof least - 1);
    return fuzz_main(&t, argc, argv);
}
