/* SPDX-License-Identifier: BSD-3-Clause */
/* The reader of a network check's record, and the verdict, under texts that are nearly right.
 */
#include "reader_fuzz_fixture.h"

#include "fleet_fixture.h"

/* clang-format off */
static const char *const words[] = {
    "0", "-1", "3", "1e25", "1e-3", "1e999", "null", "true", "false", "{", "}", "[]", "\"",
    "\"Bps\"", "\"src\"", "\"rank_Bps\"", "\"latency_s\"", "\"wrong_words\"",
    "\"collective_s\"", "\"gpu\"", "\"node1\"", "\\u0000", "\xff", "9223372036854775808",
    "4294967296",
};
/* clang-format on */

/* The record of a synthetic run, without the last line. */
static void add(struct fuzz_texts *t, const char *spec)
{
    struct health_data d = data(spec, 0);
    size_t bytes = 0;

    health_data_add_stall(&d, 0, 1, 2.5);
    HEALTH_ADD(&d.collectives) = (struct health_collective){0, d.hosts, 2, 1};
    for (int r = 0; r < d.ranks; r++)
        HEALTH_ADD(&d.gpus) = (struct health_gpu){r, "a GPU", {0, r}};
    char *text = store_text(&health_record_store, &d, &bytes);
    health_data_release(&d);
    while (text[bytes - 2] != '\n')
        bytes--;
    fuzz_add(t, text, bytes - 1);
    free(text);
}

int main(int argc, char **argv)
{
    struct fuzz_texts t = {.words = words,
                           .word_count = sizeof words / sizeof *words,
                           .ends = " \n:,{}",
                           .cases = 6000,
                           .seed = 1,
                           .part = 30};

    health_rules_init(&rules);
    add(&t, "3,port=1:50");
    add(&t, "3x2,rank=1.1:30,corrupt=2");
    add(&t, "6,leaf=2,pod=2,cut=4,flap=1");
    return fuzz_main(&t, argc, argv);
}
