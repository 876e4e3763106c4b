/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of the rows of steps under texts that are nearly right. */
#include "ask_fuzz_fixture.h"

static const char *const words[] = {
    "0",      "-1",    "-",       "1",    "2",    "99", "2147483647", "gather", "compute",
    "update", "norm",  "forward", "sync", "null", "[]", "{",          "}",      "all",
    "rows",   "slots", "format",  "plan", "\n\n", "\"", "2147483648", "reduce", "embed"};

/* The rows as paro-plan prints them. */
static void add_rows(struct fuzz_texts *t, int json)
{
    struct plan_ask ask = PLAN_ASK_INIT;

    ask.model = "params=1e6";
    ask.topo = "synth:2x1,flops=1e9";
    ask.what = PLAN_ASK_STEPS;
    ask.json = json;
    add_answer(t, &ask);
}

int main(int argc, char **argv)
{
    struct fuzz_texts t = FUZZ_TEXTS(words, " \n:,[]", 3000, 20);

    add_rows(&t, 0);
    add_rows(&t, 1);
    return fuzz_main(&t, argc, argv);
}
