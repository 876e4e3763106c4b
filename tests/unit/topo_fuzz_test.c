/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The readers of fabrics under texts that are nearly right: those of tests/data/topo
 * and examples/fabrics, with bytes, words, attributes and lines changed.  The same cases every
 * time, or others by
 *
 *     build/unit/topo_fuzz_test CASES SEED
 *
 * `make check-fuzz` runs the same checks under libFuzzer (CONTRIBUTING.md).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "../fuzz/topo_fuzz.h"
#include "base/io.h"
#include "base/mem.h"
#include "mutate_fixture.h"
#include "topo/topo.h"

#define DATA     "tests/data/topo/"
#define EXAMPLES "examples/fabrics/"

/* Texts of one kind borrow from each other. */
enum { KIND_TEXTS = 3 };
static const struct {
    const char *name, *file[KIND_TEXTS];
} kinds[] = {
    {"nccl", {EXAMPLES "nccl.xml", DATA "nccl-pairs.xml", DATA "nccl-template.xml"}},
    {"hwloc", {EXAMPLES "hwloc.xml", DATA "hwloc2-processors.xml"}},
    {"nvidia-smi", {EXAMPLES "nvidia-smi.txt", DATA "smi-pairs.txt"}},
    {"ibnetdiscover", {EXAMPLES "ibnetdiscover.txt"}},
    {"yaml", {"synth:2x2", "synth:2x[2,1],inter=1gbit/rank", "synth:2x2x2,memory=4e9"}},
};

static const char *const words[] = {"0",
                                    "1",
                                    "2",
                                    "-1",
                                    "4",
                                    "12abc",
                                    "1e3",
                                    "1e300",
                                    "nan",
                                    "inf",
                                    "1048577",
                                    "2147483648",
                                    "9223372036854775807",
                                    "18446744073709551616",
                                    "0x030200",
                                    "0x068000",
                                    "0x0200",
                                    "X",
                                    "NV4",
                                    "NV18",
                                    "NV999",
                                    "SYS",
                                    "PIX",
                                    "GPU0",
                                    "GPU1",
                                    "mlx5_0",
                                    "[1]",
                                    "[2](3)",
                                    "\"S-1\"[1]",
                                    "\"H-1\"[1]",
                                    "4xHDR",
                                    "1xSDR",
                                    "12xXDR",
                                    "Switch",
                                    "Ca",
                                    "#",
                                    "pci",
                                    "gpu",
                                    "nvlink",
                                    "net",
                                    "nic",
                                    "cpu",
                                    "object",
                                    "PCIDev",
                                    "OSDev",
                                    "Bridge",
                                    "NUMANode",
                                    "&lt;",
                                    "&#65;",
                                    "&x;",
                                    "<!--",
                                    "-->",
                                    "<!DOCTYPE a>",
                                    "0000:07:00.0",
                                    "16 GT/s",
                                    "",
                                    "\t",
                                    "\n"};

static uint64_t cases = 1500, seed = 1;

static void read_seed(struct mutate_text *t, const char *name)
{
    struct err err;

    if (strncmp(name, "synth:", 6) == 0) {
        struct topo topo;
        assert_int_equal(topo_parse_synth(&topo, name + 6, &err), 0);
        FILE *f = open_memstream(&t->at, &t->bytes);
        assert_int_equal(topo_print(&topo, TOPO_YAML, f, &err), 0);
        fclose(f);
        topo_release(&topo);
        return;
    }
    char *text = NULL;
    int64_t bytes = 0;
    assert_int_equal(io_read_text(name, MUTATE_TEXT_MAX - 1, &text, &bytes, &err), 0);
    t->bytes = (size_t)bytes;
    t->at = malloc(t->bytes + 1);
    memcpy(t->at, text, t->bytes + 1);
    mem_free(text);
}

static void mutations_are_read_or_refused(void **state)
{
    static struct mutate m;
    int kind = *(const int *)*state, outcomes[3] = {0};
    struct mutate_text from[KIND_TEXTS] = {{0}};
    int count = 0;

    while (count < KIND_TEXTS && kinds[kind].file[count]) {
        read_seed(&from[count], kinds[kind].file[count]);
        assert_int_not_equal(topo_fuzz_case((const uint8_t *)from[count].at, from[count].bytes),
                             TOPO_REFUSED);
        count++;
    }
    m = (struct mutate){.from = from,
                        .count = count,
                        .words = words,
                        .word_count = sizeof words / sizeof *words,
                        .ends = " \t\n\"'=<>/:,[]",
                        .seed = seed};
    for (m.stream = 0; m.stream < cases; m.stream++) {
        mutate_case(&m);
        outcomes[topo_fuzz_case((const uint8_t *)m.text, m.bytes)]++;
    }
    for (int i = 0; i < count; i++)
        free(from[i].at);
    /* Mutations that are all refused at the first line would test the first line. */
    int accepted = outcomes[TOPO_TAKEN] + outcomes[TOPO_COMPLETED];
    if (outcomes[TOPO_REFUSED] < (int)(cases / 20) || accepted < (int)(cases / 20))
        fail_msg("%s: %d refused, %d completed, %d taken: too few", kinds[kind].name,
                 outcomes[0], outcomes[1], outcomes[2]);
}

int main(int argc, char **argv)
{
    enum { KINDS = sizeof kinds / sizeof *kinds };
    static int number[KINDS];
    struct CMUnitTest tests[KINDS];

    if (argc > 1)
        cases = strtoull(argv[1], NULL, 10);
    if (argc > 2)
        seed = strtoull(argv[2], NULL, 10);
    for (int i = 0; i < KINDS; i++) {
        number[i] = i;
        tests[i] = (struct CMUnitTest){.name = kinds[i].name,
                                       .test_func = mutations_are_read_or_refused,
                                       .initial_state = &number[i]};
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
