/* SPDX-License-Identifier: BSD-3-Clause */
/* Feeds bytes to the readers of fabrics: NCCL, hwloc, nvidia-smi, ibnetdiscover, YAML. */
#include "reader_fuzz.h"

#include "topo/topo_import.h"

enum { RANKS_MAX = 1 << 12 }; /* what a fuzzer finds it finds in small fabrics */

static int read_topo(struct topo *t, const void *data, size_t bytes,
                     const struct topo_settings *request)
{
    struct err err = {0};
    int rc =
        topo_import_text(t, FUZZ_NAME, fuzz_copy(data, bytes), (int64_t)bytes, request, &err);

    assert(rc == 0 || (err.code == ERR_INPUT && err.text[0] && !t->level));
    /* What was asked beside the file may be to blame, else the file is named. */
    assert(rc == 0 || (request && request->nodes) || strstr(err.text, FUZZ_NAME));
    return rc;
}

static char *print(const struct topo *t, enum topo_format format, size_t *bytes)
{
    struct err err = {0};
    char *text = NULL;
    FILE *f = mem_stream(&text, bytes);

    int rc = topo_print(t, format, f, &err);
    assert(rc == 0 || (format >= TOPO_HOSTFILE && err.code == ERR_ABSENT && err.text[0]));
    fclose(f);
    return text;
}

static void check(const struct topo *t)
{
    size_t bytes = 0, again_bytes = 0;
    struct topo back = {0};

    if (t->groups.ranks > RANKS_MAX)
        return;
    for (int f = TOPO_JSON; f < TOPO_FORMATS; f++)
        free(print(t, (enum topo_format)f, &bytes));
    char *first = print(t, TOPO_YAML, &bytes);
    int rc = read_topo(&back, first, bytes, NULL);
    assert(rc == 0);
    char *again = print(&back, TOPO_YAML, &again_bytes);
    rc = topo_diff(t, &back, 0, TOPO_YAML, stderr);
    assert(rc == 0);
    fuzz_same(first, bytes, again, again_bytes);
    topo_release(&back);
}

/* In every format that is read: as the bytes are, and as two machines with all that may be
 * missing given. */
int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    static const struct topo_settings none;
    struct topo_settings all = {.fill = 1, .nodes = 2, .ranks = 2};
    struct topo t = {0}, completed = {0};
    struct err err;

    int rc = topo_given_parse(&all.given, "intra=1GB/s:1us,inter=1GB/s:2us,level2=1GB/s", &err);
    assert(rc == 0);
    int taken = read_topo(&t, data, bytes, &none) == 0;
    int complete = read_topo(&completed, data, bytes, &all) == 0;
    if (taken)
        check(&t);
    if (complete)
        check(&completed);
    topo_release(&t);
    topo_release(&completed);
    return taken || complete;
}

static void add_synthetic(fuzz_add_f *add)
{
    static const char *const specs[] = {"2x2", "2x[2,1],inter=1gbit/rank", "2x2x2,memory=4e9"};

    for (int i = 0; i < 3; i++) {
        struct topo t = {0};
        struct err err;
        size_t bytes = 0;
        int rc = topo_parse_synth(&t, specs[i], &err);
        assert(rc == 0);
        char *text = print(&t, TOPO_YAML, &bytes);
        add(text, bytes);
        free(text);
        topo_release(&t);
    }
}

#define DATA     "tests/data/topo/"
#define EXAMPLES "examples/fabrics/"
#define SET(format)                                                                            \
    .name = format, .longest = 8192, .cases = 1500, .ends = " \t\n\"'=<>/:,[]", .words = WORDS
#define WORDS                                                                                  \
    FUZZ_LIST("0", "1", "2", "-1", "4", "12abc", "1e3", "1e300", "nan", "inf", "1048577",      \
              "2147483648", "9223372036854775807", "18446744073709551616", "0x030200",         \
              "0x068000", "0x0200", "X", "NV4", "NV18", "NV999", "SYS", "PIX", "GPU0", "GPU1", \
              "mlx5_0", "[1]", "[2](3)", "\"S-1\"[1]", "\"H-1\"[1]", "4xHDR", "1xSDR",         \
              "12xXDR", "Switch", "Ca", "#", "pci", "gpu", "nvlink", "net", "nic", "cpu",      \
              "object", "PCIDev", "OSDev", "Bridge", "NUMANode", "&lt;", "&#65;", "&x;",       \
              "<!--", "-->", "<!DOCTYPE a>", "0000:07:00.0", "16 GT/s", "", "\t", "\n")

const struct fuzz_set fuzz_sets[] = {
    {SET("nccl"),
     .files = FUZZ_LIST(EXAMPLES "nccl.xml", DATA "nccl-pairs.xml", DATA "nccl-template.xml")},
    {SET("hwloc"), .files = FUZZ_LIST(EXAMPLES "hwloc.xml", DATA "hwloc2-processors.xml")},
    {SET("smi"), .files = FUZZ_LIST(EXAMPLES "nvidia-smi.txt", DATA "smi-pairs.txt")},
    {SET("ib"), .files = FUZZ_LIST(EXAMPLES "ibnetdiscover.txt")},
    {SET("fabric"), .more = add_synthetic},
    {0}};
