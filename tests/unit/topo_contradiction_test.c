/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fabrics that cannot be: a text in YAML with one thing changed, each refused by one line with
 * file, line and key; and beside them what looks like it and is legal.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "topo/topo_import.h"

/* Four levels over [2,1], [1], [1,1], [1]; the third joins two groups, the fourth two of those.
 */
static const char four[] = "format: paro-topology/1\n" /* line 1 */
                           "levels:\n"
                           "  - name: intra\n"
                           "    latency_s: 3e-06\n"
                           "    port_Bps: 2e11\n" /* 5 */
                           "    flow_Bps: 2e11\n"
                           "    member_Bps: 1e11\n"
                           "  - name: inter\n"
                           "    latency_s: 1e-05\n"
                           "    port_Bps: 2e10\n" /* 10 */
                           "    flow_Bps: 2e10\n"
                           "    member_Bps: 1e10\n"
                           "  - name: pod\n"
                           "    latency_s: 2e-05\n"
                           "    port_Bps: 3e10\n" /* 15 */
                           "    flow_Bps: 2e10\n"
                           "    member_Bps: 1e10\n"
                           "  - name: hall\n"
                           "    latency_s: 3e-05\n"
                           "    port_Bps: 5e10\n" /* 20 */
                           "    flow_Bps: 2e10\n"
                           "    member_Bps: 1e10\n"
                           "groups:\n"
                           "  - host: a\n"
                           "    ranks: [0, 1]\n" /* 25 */
                           "    blocks: [0, 0]\n"
                           "  - host: b\n"
                           "    ranks: [2]\n"
                           "    blocks: [0, 0]\n"
                           "  - host: c\n" /* 30 */
                           "    ranks: [3]\n"
                           "    blocks: [1, 0]\n"
                           "  - host: d\n"
                           "    ranks: [4]\n"
                           "    blocks: [2, 1]\n"; /* 35 */

static const struct {
    const char *from, *to, *want; /* "": it is read */
} cases[] = {
    /* ranks */
    {"[2]", "[1]", "f:28: 'groups[1].ranks[0]' is rank 1, which groups[0] has too"},
    {"[0, 1]", "[0, 0]", "f:25: 'groups[0].ranks[1]' is rank 0 behind rank 0"},
    {"[0, 1]", "[1, 0]", "f:25: 'groups[0].ranks[1]' is rank 0 behind rank 1"},
    {"[4]", "[5]", "f:34: 'groups[3].ranks[0]' is rank 5, expected 0 to 4"},
    {"[4]", "[-1]", "f:34: 'groups[3].ranks[0]' is '-1', expected a whole number from 0"},
    {"[4]", "[4.0]", "f:34: 'groups[3].ranks[0]' is '4.0', expected a whole number"},
    {"[4]", "[]", "f:34: 'groups[3].ranks' has 0 items, expected 1 at least"},
    {"    ranks: [4]\n", "", "f:33: 'groups[3].ranks' is missing"},
    /* rates and latencies: zero, negative, absent, none */
    {"port_Bps: 2e10", "port_Bps: 0", "f:10: 'levels[1].port_Bps' is '0', expected a number"},
    {"port_Bps: 2e10", "port_Bps: -1", "f:10: 'levels[1].port_Bps' is '-1', expected a"},
    {"port_Bps: 2e10", "port_Bps: nan", "f:10: 'levels[1].port_Bps' is 'nan', expected a"},
    {"port_Bps: 2e10", "port_Bps: .inf", "f:10: 'levels[1].port_Bps' is '.inf', expected a"},
    {"port_Bps: 2e10", "port_Bps:", "f:10: 'levels[1].port_Bps' "},
    {"port_Bps: 2e10", "port_Bps: ~", "f:10: 'levels[1].port_Bps' "},
    {"port_Bps: 2e10", "port_Bps: 2e10 # 20GB/s", ""},
    {"port_Bps: 2e10", "port_Bps: 20GB/s", "f:10: 'levels[1].port_Bps' is '20GB/s', expected"},
    {"    port_Bps: 2e10\n", "", "f:8: 'levels[1].port_Bps' is missing"},
    {"flow_Bps: 2e11", "flow_Bps: 1e26", "f:6: 'levels[0].flow_Bps' is '1e26', expected a"},
    {"member_Bps: 1e11", "member_Bps: 0", "f:7: 'levels[0].member_Bps' is '0', expected"},
    {"latency_s: 1e-05", "latency_s: -1e-05", "f:9: 'levels[1].latency_s' is '-1e-05', "},
    {"latency_s: 1e-05", "latency_s: 1e5", "f:9: 'levels[1].latency_s' is '1e5', expected"},
    {"latency_s: 1e-05", "latency_s: 0", ""},
    {"[4]", "[4]\n    port_out_Bps: 0", "f:35: 'groups[3].port_out_Bps' is '0', expected"},
    {"[4]", "[4]\n    port_in_Bps: -5", "f:35: 'groups[3].port_in_Bps' is '-5', expected"},
    {"groups:", "device: gpu\ngroups:", "f:23: 'device' is 'gpu', expected cpu or cuda"},
    {"groups:", "device:\ngroups:", "f:23: "},
    {"groups:", "memory_bytes: 0\ngroups:", "f:23: 'memory_bytes' is '0', expected a whole"},
    {"groups:", "flops: -1\ngroups:", "f:23: 'flops' is '-1', expected a number"},
    /* a share that does not pass the port; at level 0 none is shared */
    {"member_Bps: 1e10", "member_Bps: 2.2e10",
     "f:12: 'levels[1].member_Bps' is 2.2e+10, but all members together pass port_Bps, 2e+10,"
     " expected no more"},
    {"    port_Bps: 5e10\n", "    port_Bps: 9e9\n",
     "f:22: 'levels[3].member_Bps' is 1e+10, but all members together pass port_Bps, 9e+09,"
     " expected no more"},
    {"member_Bps: 1e10", "member_Bps: 2.1e10", ""}, /* within what measurements differ */
    {"member_Bps: 1e11", "member_Bps: 9e11", ""},
    /* levels: absent, twice, nameless, more blocks than levels, and the other way round */
    {"  - name: hall\n    latency_s: 3e-05\n    port_Bps: 5e10\n    flow_Bps: 2e10\n"
     "    member_Bps: 1e10\n",
     "", "f:21: 'groups[0].blocks' has 2 numbers, expected 1"},
    {"    blocks: [2, 1]\n", "    blocks: [2]\n",
     "f:35: 'groups[3].blocks' has 1 numbers, expected 2"},
    {"    blocks: [2, 1]\n", "", "f:33: 'groups[3].blocks' has 0 numbers, expected 2"},
    {"name: hall", "name: pod", "f:18: 'levels[3].name' is 'pod' as is levels[2]'s, expected"},
    {"name: hall", "name: \"\"", "f:18: 'levels[3].name' "},
    {"name: hall", "name: \"a\\e[2J\"", "f:18: 'levels[3].name' has a control character"},
    {"  - name: hall\n", "  - ", "f:18: 'levels[3].name' is missing"},
    /* blocks that do not nest, or are none */
    {"[1, 0]", "[0, 1]",
     "f:32: 'groups[2].blocks[1]' is 1, but groups[0] of the same block 0 has 0, expected"
     " levels that nest"},
    {"[2, 1]", "[4, 1]", "f:35: 'groups[3].blocks[0]' is '4', expected a whole number from 0"},
    {"[2, 1]", "[-2, 1]", "f:35: 'groups[3].blocks[0]' is '-2', expected a whole number"},
    {"[2, 1]", "[2, 0]", ""}, /* all in one block: the outermost level joins nothing */
    /* keys */
    {"groups:", "groups: []\nx:", "f:23: 'groups' has 0 items, expected 1 at least"},
    {"host: d", "hosts: d", "f:33: 'groups[3].hosts' is an unknown key"},
    {"host: d", "host: d\n    host: e", "f:34: 'groups[3].host' is given twice"},
    {"host: d", "host: a", ""}, /* two groups of one host: two processors, two islands */
    {"levels:", "levels: 3\nx:", "f:2: 'levels' "},
    {"paro-topology/1", "paro-topology/9", "f:1: 'format' is 'paro-topology/9', expected"},
};

static char *changed(const char *text, const char *from, const char *to, int64_t *bytes)
{
    const char *at = strstr(text, from);
    char *new = mem_new(strlen(text) + strlen(to) + 1, 1);

    if (!at)
        fail_msg("'%s' is not there", from);
    *bytes = sprintf(new, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return new;
}

static void contradictions(void **state)
{
    int wrong = 0;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct topo t = {0};
        struct err err = {0};
        int64_t bytes = 0;
        char *text = changed(four, cases[i].from, cases[i].to, &bytes);
        int rc = topo_import_text(&t, "f", text, bytes, NULL, &err);
        if (strncmp(err.text, cases[i].want, strlen(cases[i].want)) ||
            (rc != 0) != (cases[i].want[0] != 0)) {
            print_error("'%s' to '%s': said '%s'\n", cases[i].from, cases[i].to, err.text);
            wrong++;
        }
        if (rc && (strchr(err.text, '\n') || err.code != ERR_INPUT || err.line == 0 ||
                   (!err.key[0] && !strstr(err.text, "format")) || t.level)) {
            print_error("'%s' to '%s': no place in '%s'\n", cases[i].from, cases[i].to,
                        err.text);
            wrong++;
        }
        topo_release(&t);
    }
    assert_int_equal(wrong, 0);
}

/* Of one group level 1 repeats level 0, where a rank in company may be the faster one. */
static void one_group(void **state)
{
    static const char *const rates =
        "\n    latency_s: 0\n    port_Bps: 100\n    flow_Bps: 100\n"
        "    member_Bps: 150\n";
    struct topo t = {0};
    struct err err = {0};
    char *text = mem_new(1024, 1);

    (void)state;
    int n = snprintf(text, 1024,
                     "format: paro-topology/1\nlevels:\n  - name: intra%s  - name: inter%s"
                     "groups:\n  - ranks: [0, 1]\n",
                     rates, rates);
    if (topo_import_text(&t, "f", text, n, NULL, &err))
        fail_msg("%s", err.text);
    topo_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(contradictions),
                                       cmocka_unit_test(one_group)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
