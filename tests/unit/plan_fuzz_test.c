/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of plans under texts that are nearly right. */
#include "ask_fuzz_fixture.h"

static const char *const words[] = {
    "0",   "-1",   "1e999",  "nan",    "12abc",      "1e3",  "4294967296", "IIG",
    "XYZ", "ring", "f32",    "bf16",   "int8",       "same", "all",        "yes",
    "\"",  "|",    "config", "params", "ranks",      "[0]",  "[1]",        "~",
    "{",   "}",    "llama",  "1e15",   "paro-plan/2"};

/* A plan as paro-plan prints it. */
static void add_plan(struct fuzz_texts *t, const char *model, const char *topo)
{
    struct plan_ask ask = PLAN_ASK_INIT;

    ask.model = model;
    ask.topo = topo;
    add_answer(t, &ask);
}

int main(int argc, char **argv)
{
    struct fuzz_texts t = FUZZ_TEXTS(words, " \n:,[]", 3000, 20);

    add_plan(&t, "examples/models/llama-tiny.json", "synth:[2,1],memory=1e9,flops=1e11");
    add_plan(&t, "params=1e9", "synth:2x2,memory=80e9");
    return fuzz_main(&t, argc, argv);
}
