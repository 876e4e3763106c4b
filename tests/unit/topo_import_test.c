/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What holds for the readers of all other tools' files: marks and ends of lines, files cut
 * short, and what is asked beside a file.
 */
#include "topo_import_fixture.h"

/* A mark before UTF-8, and lines as Windows ends them. */
static void marks(void **state)
{
    static const char *const files[] = {EXAMPLES "nccl.xml", DATA "smi-pairs.txt",
                                        EXAMPLES "ibnetdiscover.txt", DATA "two.yaml"};
    struct topo_ask ask = given("intra=1GB/s:1us,inter=1GB/s");

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct topo t;
        struct err err;
        int64_t bytes = 0, n = 3;
        char *text = edited(files[i], "\n", "\n", &bytes);
        char *marked = mem_new(2 * (size_t)bytes + 4, 1);
        memcpy(marked, "\xef\xbb\xbf", 3);
        for (const char *p = text; *p; p++) {
            if (*p == '\n')
                marked[n++] = '\r';
            marked[n++] = *p;
        }
        if (topo_import_text(&t, "f", marked, n, &ask, &err))
            fail_msg("%s: %s", files[i], err.text);
        topo_release(&t);
        mem_free(text);
    }
}

/* UTF-16 of either order, a mark with nothing behind it, half a mark. */
static void other_marks(void **state)
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

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct topo t = {0};
        struct err err = {0};
        char *text = mem_new((size_t)cases[i].bytes + 1, 1);
        memcpy(text, cases[i].text, (size_t)cases[i].bytes);
        assert_int_equal(topo_import_text(&t, "f", text, cases[i].bytes, NULL, &err), -1);
        if (!has_words(err.text, cases[i].want))
            fail_msg("case %zu: %s", i, err.text);
        assert_null(t.level);
    }
}

/* Every beginning of a file is a fabric, or is refused and says why; none is half a fabric. */
static void cuts(void **state)
{
    static const char *const files[] = {
        EXAMPLES "nccl.xml",          DATA "nccl-pairs.xml",     EXAMPLES "hwloc.xml",
        DATA "hwloc2-processors.xml", EXAMPLES "nvidia-smi.txt", EXAMPLES "ibnetdiscover.txt"};
    struct topo_ask ask = given("intra=1GB/s:1us,inter=1GB/s");

    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct topo whole, t;
        struct err err;
        int64_t bytes = 0;
        char *text = edited(files[i], "\n", "\n", &bytes);
        assert_int_equal(import(files[i], &ask, &whole, &err), 0);
        for (int64_t n = 0; n < bytes; n++) {
            char *part = mem_new((size_t)n + 1, 1);
            memcpy(part, text, (size_t)n);
            t = (struct topo){0};
            err = (struct err){0};
            if (topo_import_text(&t, "f", part, n, &ask, &err))
                assert_true(err.text[0] && !t.level);
            else
                assert_int_equal(t.groups.ranks, whole.groups.ranks);
            topo_release(&t);
        }
        topo_release(&whole);
        mem_free(text);
    }
}

/* ---- lines in another order, numbers of any size ---- */

/* Takes text; a fabric, or one line that names the file. */
static void read_or_refused(char *text, int64_t bytes, const struct topo_ask *ask)
{
    struct topo t = {0};
    struct err err = {0};

    if (topo_import_text(&t, "f", text, bytes, ask, &err))
        assert_true(strncmp(err.text, "f:", 2) == 0 && err.code == ERR_INPUT && !t.level &&
                    !strchr(err.text, '\n'));
    topo_release(&t);
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

static const char *const all_files[] = {
    EXAMPLES "nccl.xml",  DATA "nccl-pairs.xml",        DATA "nccl-template.xml",
    EXAMPLES "hwloc.xml", DATA "hwloc2-processors.xml", EXAMPLES "nvidia-smi.txt",
    DATA "smi-pairs.txt", EXAMPLES "ibnetdiscover.txt", DATA "two.yaml"};

/* Line i stands behind line j. */
static void reordered(void **state)
{
    struct topo_ask ask = given("intra=1GB/s:1us,inter=1GB/s");

    (void)state;
    for (size_t f = 0; f < sizeof all_files / sizeof *all_files; f++) {
        const char *line[LINES_MAX + 1];
        int64_t bytes = 0;
        char *text = edited(all_files[f], "\n", "\n", &bytes);
        int n = lines_of(text, line);
        for (int i = 0; i < n; i++) {
            for (int j = 0; j < n; j++) {
                char *new = mem_new((size_t)bytes + 1, 1), *at = new;
                for (int l = 0; l < n; l++) {
                    int of = l == j ? i : l < j ? l + (l >= i) : l - (l <= i);
                    memcpy(at, line[of], (size_t)(line[of + 1] - line[of]));
                    at += line[of + 1] - line[of];
                }
                assert_int_equal(at - new, bytes);
                read_or_refused(new, bytes, &ask);
            }
        }
        mem_free(text);
    }
}

/* Every number of a file in turn is one that no machine has. */
static void hostile_sizes(void **state)
{
    static const char *const sizes[] = {"0",          "-1",    "65536",
                                        "2147483648", "1e308", "99999999999999999999"};
    struct topo_ask ask = given("intra=1GB/s:1us,inter=1GB/s");

    (void)state;
    for (size_t f = 0; f < sizeof all_files / sizeof *all_files; f++) {
        int64_t bytes = 0;
        char *text = edited(all_files[f], "\n", "\n", &bytes);
        for (const char *p = text; *p; p++) {
            size_t digits = strspn(p, "0123456789");
            if (digits == 0)
                continue;
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                char *new = mem_new((size_t)bytes + 32, 1);
                int n = sprintf(new, "%.*s%s%s", (int)(p - text), text, sizes[i], p + digits);
                read_or_refused(new, n, &ask);
            }
            p += digits - 1;
        }
        mem_free(text);
    }
}

static void questions(void **state)
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
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct topo_ask ask = given(cases[i].set);
        struct topo t;
        struct err err;
        ask.nodes = cases[i].nodes;
        ask.ranks = cases[i].ranks;
        ask.hosts = cases[i].hosts;
        assert_int_equal(import(cases[i].file, &ask, &t, &err), -1);
        if (!has_words(err.text, cases[i].want))
            fail_msg("%s: %s", cases[i].want, err.text);
    }
}

static void set_words(void **state)
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
    struct err err;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct topo_given none = {0};
        assert_int_equal(topo_given_parse(&none, cases[i][0], &err), -1);
        if (!has_words(err.text, cases[i][1]))
            fail_msg("%s: %s", cases[i][0], err.text);
    }
    assert_int_equal(topo_given_parse(&g, "inter=:20us", &err), 0);
    assert_int_equal(topo_given_parse(&g, "intra=2GB/s/rank", &err), 0);
    assert_int_equal(topo_given_parse(&g, "intra=2GB/s", &err), -1); /* over two options too */
    struct topo t = {0};
    assert_int_equal(topo_parse_synth(&t, "2x2,inter=1GB/s:5us", &err), 0);
    assert_int_equal(topo_given_apply(&t, &g, 0, &err), 0);
    check_level(&t, 0, 2, 2, 2, 3);
    check_level(&t, 1, 1, 1, 0.5, 20);
    topo_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks),         cmocka_unit_test(other_marks),
        cmocka_unit_test(cuts),          cmocka_unit_test(reordered),
        cmocka_unit_test(hostile_sizes), cmocka_unit_test(questions),
        cmocka_unit_test(set_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
