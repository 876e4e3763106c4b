/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fabrics that cannot be: a text in YAML with one thing changed, each refused by one line with
 * file, line and key; and beside them what looks like it and is legal.
 */
#include "topo_import_fixture.h"

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
    const char *from, *to, *want; /* key words; "": it is read */
} cases[] = {
    /* ranks */
    {"[2]", "[1]", "f:28: 'groups[1].ranks[0]' 1 groups[0]"},
    {"[0, 1]", "[0, 0]", "f:25: 'groups[0].ranks[1]' 0 0"},
    {"[0, 1]", "[1, 0]", "f:25: 'groups[0].ranks[1]' 0 1"},
    {"[4]", "[5]", "f:34: 'groups[3].ranks[0]' 5 expected 0 4"},
    {"[4]", "[-1]", "f:34: 'groups[3].ranks[0]' '-1' expected 0"},
    {"[4]", "[4.0]", "f:34: 'groups[3].ranks[0]' '4.0' expected"},
    {"[4]", "[]", "f:34: 'groups[3].ranks' 0 expected 1"},
    {"    ranks: [4]\n", "", "f:33: 'groups[3].ranks' missing"},
    /* rates and latencies: zero, negative, absent, none */
    {"port_Bps: 2e10", "port_Bps: 0", "f:10: 'levels[1].port_Bps' '0' expected 1 1e+25"},
    {"port_Bps: 2e10", "port_Bps: -1", "f:10: 'levels[1].port_Bps' '-1' expected"},
    {"port_Bps: 2e10", "port_Bps: nan", "f:10: 'levels[1].port_Bps' 'nan' expected"},
    {"port_Bps: 2e10", "port_Bps: .inf", "f:10: 'levels[1].port_Bps' '.inf' expected"},
    {"port_Bps: 2e10", "port_Bps:", "f:10: 'levels[1].port_Bps'"},
    {"port_Bps: 2e10", "port_Bps: ~", "f:10: 'levels[1].port_Bps'"},
    {"port_Bps: 2e10", "port_Bps: 2e10 # 20GB/s", ""},
    {"port_Bps: 2e10", "port_Bps: 20GB/s", "f:10: 'levels[1].port_Bps' '20GB/s' expected"},
    {"    port_Bps: 2e10\n", "", "f:8: 'levels[1].port_Bps' missing"},
    {"flow_Bps: 2e11", "flow_Bps: 1e26", "f:6: 'levels[0].flow_Bps' '1e26' expected"},
    {"member_Bps: 1e11", "member_Bps: 0",
     "f:7: 'levels[0].member_Bps' '0' expected 1e-07 1e+25"},
    {"latency_s: 1e-05", "latency_s: -1e-05",
     "f:9: 'levels[1].latency_s' '-1e-05' expected 0 3600"},
    {"latency_s: 1e-05", "latency_s: 1e5", "f:9: 'levels[1].latency_s' '1e5' expected"},
    {"latency_s: 1e-05", "latency_s: 0", ""},
    {"[4]", "[4]\n    port_out_Bps: 0", "f:35: 'groups[3].port_out_Bps' '0' expected"},
    {"[4]", "[4]\n    port_in_Bps: -5", "f:35: 'groups[3].port_in_Bps' '-5' expected"},
    {"groups:", "device: gpu\ngroups:", "f:23: 'device' 'gpu' expected cpu cuda"},
    {"groups:", "device:\ngroups:", "f:23:"},
    {"groups:", "memory_bytes: 0\ngroups:", "f:23: 'memory_bytes' '0' expected"},
    {"groups:", "flops: -1\ngroups:", "f:23: 'flops' '-1' expected 1 1e+21"},
    /* a share that does not pass the port; at level 0 none is shared */
    {"member_Bps: 1e10", "member_Bps: 2.2e10",
     "f:12: 'levels[1].member_Bps' 2.2e+10 expected port_Bps 2e+10"},
    {"    port_Bps: 5e10\n", "    port_Bps: 9e9\n",
     "f:22: 'levels[3].member_Bps' 1e+10 expected port_Bps 9e+09"},
    {"member_Bps: 1e10", "member_Bps: 2.1e10", ""}, /* within what measurements differ */
    {"member_Bps: 1e11", "member_Bps: 9e11", ""},
    /* levels: absent, twice, nameless, more blocks than levels, and the other way round */
    {"  - name: hall\n    latency_s: 3e-05\n    port_Bps: 5e10\n    flow_Bps: 2e10\n"
     "    member_Bps: 1e10\n",
     "", "f:21: 'groups[0].blocks' 2 expected 1"},
    {"    blocks: [2, 1]\n", "    blocks: [2]\n", "f:35: 'groups[3].blocks' 1 expected 2"},
    {"    blocks: [2, 1]\n", "", "f:33: 'groups[3].blocks' 0 expected 2"},
    {"name: hall", "name: pod", "f:18: 'levels[3].name' 'pod' levels[2]'s expected"},
    {"name: hall", "name: \"\"", "f:18: 'levels[3].name'"},
    {"name: hall", "name: \"a\\e[2J\"", "f:18: 'levels[3].name' control"},
    {"- name: hall\n    lat", "- lat", "f:18: 'levels[3].name' missing"},
    /* blocks that do not nest, or are none */
    {"[1, 0]", "[0, 1]", "f:32: 'groups[2].blocks[1]' 1 groups[0] 0 0 expected"},
    {"[2, 1]", "[4, 1]", "f:35: 'groups[3].blocks[0]' '4' expected 0 3"},
    {"[2, 1]", "[-2, 1]", "f:35: 'groups[3].blocks[0]' '-2' expected"},
    {"[2, 1]", "[2, 0]", ""}, /* all in one block: the outermost level joins nothing */
    /* keys */
    {"groups:", "groups: []\nx:", "f:24: 'x' unknown"},
    {"host: d", "hosts: d", "f:33: 'groups[3].hosts' unknown host"},
    {"host: d", "host: d\n    host: e", "f:34: 'groups[3].host' twice"},
    {"host: d", "host: a", ""}, /* two groups of one host: two processors, two islands */
    {"levels:", "levels: 3\nx:", "f:3: 'x' unknown"},
    {"paro-topology/1", "paro-topology/9", "f:1: 'format' 'paro-topology/9' expected"},
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
        if (!has_words(err.text, cases[i].want) || (rc != 0) != (cases[i].want[0] != 0)) {
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
