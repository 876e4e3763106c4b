/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of the rows of steps under texts that are nearly right. */
#include "reader_fuzz_fixture.h"

#include "plan/ask.h"

static const char *const words[] = {
    "0",      "-1",    "-",       "1",    "2",    "99", "2147483647", "gather", "compute",
    "update", "norm",  "forward", "sync", "null", "[]", "{",          "}",      "all",
    "rows",   "slots", "format",  "plan", "\n\n", "\"", "2147483648", "reduce", "embed"};

/* The rows as paro-plan prints them. */
static void add_rows(struct fuzz_texts *t, int json)
{
    struct plan_ask ask = PLAN_ASK_INIT;
    struct err err;
    char *text = NULL, note[PLAN_NOTE];
    size_t bytes = 0;
    int found = 0;
    FILE *f = open_memstream(&text, &bytes);

    ask.model = "params=1e6";
    ask.topo = "synth:2x1,flops=1e9";
    ask.what = PLAN_ASK_STEPS;
    ask.json = json;
    if (plan_ask_answer(&ask, f, note, &found, &err))
        fail_msg("%s", err.text);
    fclose(f);
    fuzz_add(t, text, bytes);
    free(text);
}

int main(int argc, char **argv)
{
    struct fuzz_texts t = {.words = words,
                           .word_count = sizeof words / sizeof *words,
                           .ends = " \n:,[]",
                           .cases = 3000,
                           .seed = 1,
                           .part = 20};

    add_rows(&t, 0);
    add_rows(&t, 1);
    return fuzz_main(&t, argc, argv);
}
