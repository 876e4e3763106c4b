/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The readers of fabrics under texts that are nearly right: those of tests/data/topo and
 * examples/fabrics, a set for each format.
 */
#include "reader_fuzz_fixture.h"
#include "topo/topo.h"

#define DATA     "tests/data/topo/"
#define EXAMPLES "examples/fabrics/"

static const char *const files[][3] = {
    {EXAMPLES "nccl.xml", DATA "nccl-pairs.xml", DATA "nccl-template.xml"},
    {EXAMPLES "hwloc.xml", DATA "hwloc2-processors.xml"},
    {EXAMPLES "nvidia-smi.txt", DATA "smi-pairs.txt"},
    {EXAMPLES "ibnetdiscover.txt"},
    {"synth:2x2", "synth:2x[2,1],inter=1gbit/rank", "synth:2x2x2,memory=4e9"},
};
enum { SETS = sizeof files / sizeof *files };

/* What takes a word's place, between bars. */
static char list[] =
    "0|1|2|-1|4|12abc|1e3|1e300|nan|inf|1048577|2147483648|9223372036854775807|"
    "18446744073709551616|0x030200|0x068000|0x0200|X|NV4|NV18|NV999|SYS|PIX|"
    "GPU0|GPU1|mlx5_0|[1]|[2](3)|\"S-1\"[1]|\"H-1\"[1]|4xHDR|1xSDR|12xXDR|"
    "Switch|Ca|#|pci|gpu|nvlink|net|nic|cpu|object|PCIDev|OSDev|Bridge|"
    "NUMANode|&lt;|&#65;|&x;|<!--|-->|<!DOCTYPE a>|0000:07:00.0|16 GT/s||\t|\n";

static void add_synth(struct fuzz_texts *set, const char *spec)
{
    struct topo topo;
    struct err err;
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = mem_stream(&text, &bytes);

    assert_int_equal(topo_parse_synth(&topo, spec, &err), 0);
    assert_int_equal(topo_print(&topo, TOPO_YAML, f, &err), 0);
    fclose(f);
    fuzz_add(set, text, bytes);
    mem_free(text);
    topo_release(&topo);
}

int main(int argc, char **argv)
{
    static struct fuzz_texts set[SETS];
    struct CMUnitTest tests[2 * SETS];
    const char *words[64];
    size_t count = 0;

    for (char *rest = list, *word; (word = strsep(&rest, "|"));)
        words[count++] = word;
    for (int s = 0; s < SETS; s++) {
        set[s] = (struct fuzz_texts){.words = words,
                                     .word_count = count,
                                     .ends = " \t\n\"'=<>/:,[]",
                                     .cases = argc > 1 ? strtoull(argv[1], NULL, 10) : 1500,
                                     .seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1,
                                     .part = 20};
        for (int i = 0; i < 3 && files[s][i]; i++)
            if (strncmp(files[s][i], "synth:", 6) == 0)
                add_synth(&set[s], files[s][i] + 6);
            else
                fuzz_add_file(&set[s], files[s][i]);
        tests[2 * s] =
            (struct CMUnitTest)cmocka_unit_test_prestate(cuts_are_read_or_refused, &set[s]);
        tests[2 * s + 1] = (struct CMUnitTest)cmocka_unit_test_prestate(
            mutations_are_read_or_refused, &set[s]);
    }
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (int s = 0; s < SETS; s++)
        for (int i = 0; i < set[s].count; i++)
            mem_free(set[s].from[i].at);
    return failed;
}
