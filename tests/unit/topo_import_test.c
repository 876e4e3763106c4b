/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests what holds for the readers of all other tools' files: marks and ends of lines, files
 * cut short, what is asked beside a file; and what a machine's links make of its ranks.
 */
#include "unit.h"

#include "topo/topo_machine.h"
#include "topo_fixture.h"

/* A mark before UTF-8, and lines as Windows ends them. */
TEST(marks)
{
    static const char *const files[] = {EXAMPLES "nccl.xml", DATA "smi-pairs.txt",
                                        EXAMPLES "ibnetdiscover.txt", DATA "two.yaml"};
    struct topo_settings settings = given("intra=1GB/s:1us,inter=1GB/s");

    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct topo t;
        int64_t bytes = 0, n = 3;
        char *text = edited(files[i], "", "", &bytes);
        char *marked = mem_new(2 * (size_t)bytes + 4, 1);
        memcpy(marked, "\xef\xbb\xbf", 3);
        for (const char *p = text; *p; p++) {
            if (*p == '\n')
                marked[n++] = '\r';
            marked[n++] = *p;
        }
        if (topo_import_text(&t, "f", marked, n, &settings, &err))
            fail_msg("%s: %s", files[i], err.text);
        topo_release(&t);
        mem_free(text);
    }
}

/* UTF-16 of either order, a mark with nothing behind it, half a mark. */
TEST(other_marks)
{
    static const struct {
        const char *text, *want;
        int64_t bytes;
    } cases[] = {
        {"\xff\xfe<\0s\0", "f:1: UTF-16 expected UTF-8", 6},
        {"\xfe\xff\0f\0o", "f:1: UTF-16 expected UTF-8", 6},
        {"\xef\xbb\xbf", "f: empty expected", 3},
        {"\xef\xbb", "f: 'format' missing expected", 2},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct topo t = {0};
        char *text = mem_new((size_t)cases[i].bytes + 1, 1);
        memcpy(text, cases[i].text, (size_t)cases[i].bytes);
        assert_refused(topo_import_text(&t, "f", text, cases[i].bytes, NULL, &err),
                       cases[i].want);
        assert_null(t.level);
    }
}

/* Takes text; a fabric, whose ranks are counted, or one line that names the file. */
static int read_or_refused(char *text, int64_t bytes, const struct topo_settings *settings)
{
    struct topo t = {0};
    err = (struct err){0};

    if (topo_import_text(&t, "f", text, bytes, settings, &err))
        assert_true(strncmp(err.text, "f:", 2) == 0 && err.code == ERR_INPUT && !t.level &&
                    !strchr(err.text, '\n'));
    int ranks = t.groups.ranks;
    topo_release(&t);
    return ranks;
}

enum { LINES_MAX = 128 };

/* Begins of lines, and behind the last line its end. */
static int lines_of(const char *text, const char *line[LINES_MAX + 1])
{
    int n = 0;

    for (const char *p = text; *p; p += strcspn(p, "\n"), p += *p == '\n') {
        assert_true(n < LINES_MAX);
        line[n++] = p;
    }
    line[n] = text + strlen(text);
    return n;
}

/* Every beginning; none is half a fabric. */
static void cut(const char *text, int64_t bytes, const struct topo_settings *settings)
{
    int whole = read_or_refused(mem_dup(text), bytes, settings);

    for (int64_t n = 0; n < bytes; n++) {
        char *part = mem_new((size_t)n + 1, 1);
        memcpy(part, text, (size_t)n);
        int ranks = read_or_refused(part, n, settings);
        /* In YAML the groups that are there make a fabric. */
        assert_true(ranks == 0 || ranks == whole || strncmp(text, "format:", 7) == 0);
    }
}

/* Line i stands behind line j. */
static void reorder(const char *text, int64_t bytes, const struct topo_settings *settings)
{
    const char *line[LINES_MAX + 1];
    int n = lines_of(text, line);

    for (int i = 0; i < n * n; i++) {
        char *new = mem_new((size_t)bytes + 1, 1), *at = new;
        for (int l = 0, from = i / n, to = i % n; l < n; l++) {
            int of = l == to ? from : l < to ? l + (l >= from) : l - (l <= from);
            memcpy(at, line[of], (size_t)(line[of + 1] - line[of]));
            at += line[of + 1] - line[of];
        }
        assert_int_equal(at - new, bytes);
        read_or_refused(new, bytes, settings);
    }
}

/* Every number in turn is one that no machine has. */
static void hostile_sizes(const char *text, int64_t bytes, const struct topo_settings *settings)
{
    static const char *const sizes[] = {"0",          "-1",    "65536",
                                        "2147483648", "1e308", "99999999999999999999"};

    for (const char *p = text; *p; p++) {
        size_t digits = strspn(p, "0123456789");
        for (size_t i = 0; digits && i < sizeof sizes / sizeof *sizes; i++) {
            char *new = mem_new((size_t)bytes + 32, 1);
            int n = sprintf(new, "%.*s%s%s", (int)(p - text), text, sizes[i], p + digits);
            read_or_refused(new, n, settings);
        }
        p += digits ? digits - 1 : 0;
    }
}

TEST(spoilt)
{
    static const char *const files[] = {
        EXAMPLES "nccl.xml",  DATA "nccl-pairs.xml",        DATA "nccl-template.xml",
        EXAMPLES "hwloc.xml", DATA "hwloc2-processors.xml", EXAMPLES "nvidia-smi.txt",
        DATA "smi-pairs.txt", EXAMPLES "ibnetdiscover.txt", DATA "two.yaml"};
    struct topo_settings settings = given("intra=1GB/s:1us,inter=1GB/s");

    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        int64_t bytes = 0;
        char *text = edited(files[f], "", "", &bytes);
        cut(text, bytes, &settings);
        reorder(text, bytes, &settings);
        hostile_sizes(text, bytes, &settings);
        mem_free(text);
    }
}

TEST(questions)
{
    static const struct {
        const char *file, *set, *hosts;
        int nodes, ranks;
        const char *want;
    } cases[] = {
        {EXAMPLES "nccl.xml", NULL, NULL, 0, 8, EXAMPLES "nccl.xml: 4 GPUs expected --ranks"},
        {EXAMPLES "nccl.xml", NULL, "a,b", 3, 0, "--hosts 2 expected 3 --nodes"},
        {EXAMPLES "nccl.xml", NULL, "a,a", 2, 0, "--hosts: 'a' twice expected"},
        {EXAMPLES "nccl.xml", NULL, "a[3-1]", 0, 0, "--hosts: '3-1' expected 3 0-15"},
        {EXAMPLES "nccl.xml", NULL, "a[0-", 0, 0, "--hosts: 'a[0-' expected ']' '['"},
        {EXAMPLES "nccl.xml", NULL, "a b", 0, 0,
         "--hosts: 'a b' expected letters, digits, '-' '_' '.' ':'"},
        {EXAMPLES "nccl.xml", NULL, "a[0-9999999]", 0, 0, "--hosts: more 1048576"},
        {EXAMPLES "nccl.xml", NULL, NULL, 1 << 20, 0, "1048576 4 ranks, expected 1048576"},
        {EXAMPLES "nccl.xml", "level2=1GB/s", NULL, 2, 0, "level2 2 levels"},
        {EXAMPLES "hwloc.xml", "nvlink=1GB/s", NULL, 0, 0,
         EXAMPLES "hwloc.xml: NVLinks expected intra=RATE nvlink=RATE"},
        {EXAMPLES "ibnetdiscover.txt", NULL, NULL, 2, 0,
         EXAMPLES "ibnetdiscover.txt: all hosts, expected --nodes nvlink= nic="},
        {EXAMPLES "ibnetdiscover.txt", NULL, "a,b", 0, 0, "--hosts 2 expected 4"},
        {EXAMPLES "ibnetdiscover.txt", NULL, NULL, 0, 8,
         EXAMPLES "ibnetdiscover.txt: no rate intra expected --set intra=RATE:LATENCY"},
        {DATA "nccl-template.xml", NULL, NULL, 2, 0,
         DATA
         "nccl-template.xml: no rate inter machines expected --set inter=RATE --set nic=RATE"},
        {DATA "hwloc2-processors.xml", NULL, NULL, 0, 0,
         DATA "hwloc2-processors.xml: no rate intra expected --set intra=RATE:LATENCY"},
        {DATA "smi-pairs.txt", "nvlink=25GB/s", NULL, 0, 0,
         DATA "smi-pairs.txt: no rate inter PCIe expected --set inter=RATE"},
        {DATA "smi-pairs.txt", "nvlink=25GB/s,nic=1GB/s", NULL, 0, 0,
         DATA "smi-pairs.txt: network devices expected inter=RATE nic=RATE"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct topo_settings settings = given(cases[i].set);
        struct topo t;
        settings.nodes = cases[i].nodes;
        settings.ranks = cases[i].ranks;
        settings.hosts = cases[i].hosts;
        assert_refused(import(cases[i].file, &settings, &t), cases[i].want);
    }
}

TEST(set_words)
{
    static const char *const cases[][2] = {
        {"inter", "'inter' expected NAME=VALUE"},
        {"foo=1", "'foo' expected intra, inter, level2 level7, nvlink, nic, memory flops"},
        {"level8=1GB/s", "'level8' expected intra"},
        {"inter=12abc", "'12abc' expected rate 0"},
        {"inter=0", "'0' expected rate 0"},
        {"nic=-1", "'-1' expected rate 0"},
        {"inter=1GB/s,inter=2GB/s", "inter twice expected"},
        {"inter=1GB/s:-1us", "'-1us' expected"},
        {"", "'' expected NAME=VALUE"},
    };
    struct topo_given g = {0};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct topo_given none = {0};
        assert_refused(topo_given_parse(&none, cases[i][0], &err), cases[i][1]);
    }
    assert_ok(topo_given_parse(&g, "inter=:20us", &err));
    assert_ok(topo_given_parse(&g, "intra=2GB/s/rank", &err));
    assert_int_equal(topo_given_parse(&g, "intra=2GB/s", &err), -1); /* over two options too */
    struct topo t = read_synth("2x2,inter=1GB/s:5us");
    assert_ok(topo_given_apply(&t, &g, 0, &err));
    check_level(&t, 0, 2, 2, 2, 3);
    check_level(&t, 1, 1, 1, 0.5, 20);
    topo_release(&t);
}

/*
 *     processor 0 -- 30 -- processor 1
 *       | 100                 | 100
 *     switch (16 up)        switch (40 up)
 *      | 12    | 24          | 24    | 24
 *      0       1             2       3
 */
static void plant(struct topo_pcie *p)
{
    int root[2], bridge[2], up[2];
    static const double above[2] = {16, 40}, own[4] = {12, 24, 24, 24};

    *p = (struct topo_pcie){.between_Bps = 30};
    for (int i = 0; i < 2; i++) {
        root[i] = topo_pcie_add(p, -1, 0);
        bridge[i] = topo_pcie_add(p, root[i], 100);
        up[i] = topo_pcie_add(p, bridge[i], above[i]);
    }
    topo_pcie_add(p, up[0], 1); /* a slow link to what is no rank */
    for (int r = 0; r < 4; r++)
        topo_pcie_rank(p, topo_pcie_add(p, up[r / 2], own[r]));
}

TEST(pcie)
{
    struct topo_pcie p;

    plant(&p);
    assert_int_equal(p.ranks, 4);
    assert_true(p.least_Bps == 12);
    /* One rail: each link is crossed once, the slowest is a rank's own. */
    assert_true(topo_pcie_ring_Bps(&p, 1) == 12);
    /* Two rails: 16 / 2 above the first switch; 30 / 2 from processor to processor. */
    assert_true(topo_pcie_ring_Bps(&p, 2) == 8);
    /* Three: a switch has no more than two ranks below it; 30 / 3 is more than 16 / 2. */
    assert_true(topo_pcie_ring_Bps(&p, 3) == 8);
    /* Eight: 30 / 8. */
    assert_true(topo_pcie_ring_Bps(&p, 8) == 3.75);
    p.between_Bps = 0; /* unknown: bounds nothing */
    assert_true(topo_pcie_ring_Bps(&p, 8) == 8);
    /* A rank whose own link is not known: nothing is. */
    topo_pcie_rank(&p, topo_pcie_add(&p, 0, 0));
    assert_true(topo_pcie_ring_Bps(&p, 1) == 0);
    topo_pcie_release(&p);

    /* All ranks below one switch: what is above it, 1, is not crossed. */
    p = (struct topo_pcie){.between_Bps = 1};
    int root = topo_pcie_add(&p, -1, 0), up = topo_pcie_add(&p, root, 1);
    for (int r = 0; r < 3; r++)
        topo_pcie_rank(&p, topo_pcie_add(&p, up, 10 + r));
    assert_true(topo_pcie_ring_Bps(&p, 1) == 10);
    topo_pcie_release(&p);
    /* A rank alone has its own link. */
    p = (struct topo_pcie){0};
    topo_pcie_rank(&p, topo_pcie_add(&p, topo_pcie_add(&p, -1, 0), 7));
    assert_true(topo_pcie_ring_Bps(&p, 1) == 7);
    topo_pcie_release(&p);
}

static void machine(struct topo_machine *m, int gpus)
{
    topo_machine_init(m, "f");
    topo_machine_gpus(m, gpus, TOPO_CUDA);
}

TEST(near_links)
{
    struct topo_machine m;

    /* 0-2-4 in a chain, 1 and 5 a pair, 3 alone. */
    machine(&m, 6);
    m.direct[0 * 6 + 2] = m.direct[2 * 6 + 0] = 4;
    m.direct[2 * 6 + 4] = m.direct[4 * 6 + 2] = 1;
    m.direct[1 * 6 + 5] = m.direct[5 * 6 + 1] = 2;
    topo_machine_linked(&m);
    static const int domain[] = {0, 1, 0, 2, 0, 1};
    assert_memory_equal(m.domain, domain, sizeof domain);
    assert_int_equal(m.domains, 3);
    assert_true(m.linked);
    assert_true(m.links == 1 && m.links_flow == 1); /* rank 4's: the least */
    topo_machine_release(&m);

    /* Two on a switch, of 6 and 8 links; the third beside it. */
    machine(&m, 3);
    m.to_switch[0] = 6;
    m.to_switch[2] = 8;
    topo_machine_linked(&m);
    assert_int_equal(m.domains, 2);
    assert_int_equal(m.domain[2], 0);
    assert_true(m.links == 6 && m.links_flow == 6);
    topo_machine_links(&m, 20e9);
    assert_true(m.inside.port_Bps == 120e9 && m.inside.member_Bps == 120e9);
    /* PCIe joins the two groups; with two ranks in one of them there are two rails. */
    int up = topo_pcie_add(&m.pcie, -1, 0);
    for (int r = 0; r < 3; r++)
        topo_pcie_rank(&m.pcie, topo_pcie_add(&m.pcie, up, 10));
    topo_machine_pcie(&m, "stated");
    assert_true(m.across.port_Bps == 20 && m.across.member_Bps == 10);
    assert_true(m.inside.port_Bps == 120e9);
    topo_machine_release(&m);

    /* No link at all: one group. */
    machine(&m, 3);
    topo_machine_linked(&m);
    assert_int_equal(m.domains, 1);
    assert_false(m.linked);
    assert_int_equal(m.domain[2], 0);
    topo_machine_release(&m);
}
