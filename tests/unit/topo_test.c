/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests fabrics: what synth: builds, that YAML returns, and what contradicts itself. */
#include "unit.h"

#include "topo/topo_boundary.h"
#include "value/value_yaml.h"
#include "topo_fixture.h"

static char *print(const struct topo *t, enum topo_format format)
{
    FILE *f = unit_stream();

    assert_ok(topo_print(t, format, f, &err));
    return unit_text(f);
}

static int parse(const char *text, struct topo *t)
{
    struct yaml y;

    yaml_take(&y, "f.yaml", mem_dup(text), (int64_t)strlen(text));
    int rc = topo_parse_yaml(t, &y, &err);
    yaml_release(&y);
    return rc;
}

TEST(synth)
{
    struct topo t = read_synth("16x8,intra=200GB/s:3us,inter=25GB/s:12us");

    assert_int_equal(t.levels, 2);
    assert_int_equal(t.groups.count, 16);
    assert_int_equal(t.groups.ranks, 128);
    assert_string_equal(t.level[0].name, "intra");
    assert_string_equal(t.level[1].name, "inter");
    check_level(&t, 0, 200, 200, 200, 3);
    check_level(&t, 1, 25, 25, 25. / 8, 12);
    assert_true(topo_port_Bps(&t, 15) == 25e9 && topo_slowest_port_Bps(&t) == 25e9);
    assert_null(t.block);
    topo_release(&t);

    /* A port for each rank: the port of group k passes m_k of them. */
    t = read_synth("[8,8,7],inter=25GB/s/rank:50us,memory=80e9,flops=1e14");
    check_level(&t, 1, 200, 25, 25, 50);
    assert_true(topo_port_Bps(&t, 0) == 200e9 && topo_slowest_port_Bps(&t) == 175e9);
    assert_true(t.memory_bytes == 80000000000 && t.flops == 1e14);
    topo_release(&t);

    /* Four blocks of three ragged groups; 500 Mbit/s are 62.5e6 B/s. */
    t = read_synth("2x4x[3,2],inter=500mbit,level3=1GB/s:1ms");
    assert_int_equal(t.levels, 4);
    assert_int_equal(t.groups.count, 16);
    assert_int_equal(t.groups.ranks, 40);
    for (int k = 0; k < 16; k++) {
        assert_int_equal(t.groups.members[k], k % 2 ? 2 : 3);
        assert_int_equal(t.block[k], k / 2);
        assert_int_equal(t.block[16 + k], k / 8);
    }
    check_level(&t, 2, 0.125, 0.0625, 0.025, 12);
    assert_true(t.level[3].port_Bps == 1e9 && t.level[3].latency_s == 1e-3);
    topo_release(&t);
}

/* All that may be unknown, known: each key of the text, and what it says. */
static struct topo known(void)
{
    struct topo t = read_synth("2x2,memory=4e9,flops=1e11");

    t.level[0].message_s = 1e-6;
    t.level[0].latency_err_s = 2e-7;
    t.level[0].member_err_Bps = 3e6;
    t.level[1].port_err_Bps = 4e5;
    t.level[1].flow_err_Bps = 5e5;
    t.level[1].rate_left = 0.75;
    t.level[0].compute_left = 1;
    t.level[1].compute_left = 0.5;
    t.level[1].ring_loss = 0.0065;
    t.level[1].use_lost_s = 2e-3;
    t.level[1].latency_busy_s = 4e-3;
    t.device = TOPO_CUDA;
    t.transport = TOPO_OVER_NCCL;
    t.compute_type = DTYPE_BF16;
    t.memory_Bps = 6e9;
    t.devices[0] = (struct topo_devices){2, 8, 4, "NVIDIA \"H200\" #1: and others"};
    t.devices[1].nics = 1;
    return t;
}

TEST(returns)
{
    static const char *const specs[] = {NULL,
                                        "1x1",
                                        "1x8",
                                        "2x2,inter=500mbit:50us",
                                        "[3,2],inter=1gbit/rank,memory=4e9,flops=1.5e11",
                                        "2x3x2",
                                        "2x2x2x2x2x2x2x2",
                                        "[8,8,7],intra=1.23456789GB/s:0",
                                        "5x7x[2,1,4],level2=3GB/s"};

    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        struct topo a = specs[i] ? read_synth(specs[i]) : known(), b;
        size_t count = (size_t)a.groups.count, levels = (size_t)a.levels;
        topo_set_host(&a, 0, "node \"0\": \xc3\xbc");
        char *first = print(&a, TOPO_YAML);
        assert_ok(parse(first, &b));
        char *second = print(&b, TOPO_YAML);
        assert_string_equal(first, second);
        assert_int_equal(topo_diff(&a, &b, 0, TOPO_YAML, stderr), 0);
        assert_true(groups_equal(&a.groups, &b.groups));
        assert_memory_equal(a.level, b.level, levels * sizeof *a.level);
        assert_memory_equal(a.port, b.port, count * sizeof *a.port);
        assert_memory_equal(a.devices, b.devices, count * sizeof *a.devices);
        assert_true(a.device == b.device && a.transport == b.transport && a.flops == b.flops);
        assert_true(a.compute_type == b.compute_type && a.memory_bytes == b.memory_bytes);
        assert_true(a.memory_Bps == b.memory_Bps);
        free(first);
        free(second);
        topo_release(&a);
        topo_release(&b);
    }
}

/* Rates of single ranks: written, read, compared, and kept by fabrics made of this one. */
TEST(rank_flops)
{
    static const int group_of[] = {1, 1, 2};
    struct topo a = read_synth("2x[3,2],flops=1e11,flops1=5e10,flops2=1e11,level2=1gbit"), b, c;

    assert_true(topo_rank_flops(&a, 2) == 1e11 && topo_rank_flops(&a, 3) == 5e10 &&
                topo_rank_flops(&a, 4) == 5e10 && topo_rank_flops(&a, 5) == 1e11);
    topo_set_rank_flops(&a, 9, 2e11);
    char *first = print(&a, TOPO_YAML);
    assert_non_null(strstr(first, "ranks: [3, 4]\n    flops: [50000000000, 50000000000]\n"));
    assert_non_null(strstr(first, "flops: [100000000000, 200000000000]\n"));
    assert_ok(parse(first, &b));
    assert_memory_equal(a.rank_flops, b.rank_flops, 10 * sizeof *a.rank_flops);
    assert_int_equal(topo_diff(&a, &b, 0, TOPO_YAML, stderr), 0);
    topo_set_rank_flops(&b, 0, 9e10);
    FILE *f = unit_stream();
    assert_int_equal(topo_diff(&a, &b, 0.05, TOPO_JSON, f), 1);
    free(unit_text(f));
    topo_release(&b);
    topo_at_boundary(&a, 1, &b);
    assert_memory_equal(a.rank_flops, b.rank_flops, 10 * sizeof *a.rank_flops);
    topo_subset(&a, 3, group_of, &c);
    assert_true(topo_rank_flops(&c, 0) == 5e10 && topo_rank_flops(&c, 2) == 1e11);
    topo_release(&c);
    char *list = strstr(first, ", 200000000000]");
    memcpy(list, "]              ", 15);
    assert_refused(parse(first, &c), "'groups[3].flops' has 1 rates, expected 2 one");
    memcpy(list, ", -1]          ", 15);
    assert_refused(parse(first, &c), "'groups[3].flops[1]' '-1' expected 1");
    free(first);
    topo_release(&b);
    topo_release(&a);
}

TEST(json_known)
{
    static const char *const parts[] = {
        "\"message_s\":1e-06,\"latency_err_s\":2e-07,\"member_err_Bps\":3000000,"
        "\"compute_left\":1}",
        "\"port_err_Bps\":400000,\"flow_err_Bps\":500000,\"rate_left\":0.75,"
        "\"compute_left\":0.5,\"ring_loss\":0.0065,\"use_lost_s\":0.002,"
        "\"latency_busy_s\":0.004}",
        "\"ranks\":4,\"device\":\"cuda\",\"transport\":\"nccl\",\"memory_bytes\":4000000000",
        "\"compute_type\":\"bf16\",\"memory_Bps\":6000000000,",
        "\"numa_nodes\":2,\"gpus\":8,\"nics\":4,"
        "\"gpu_name\":\"NVIDIA \\\"H200\\\" #1: and others\"}",
        "\"blocks\":[],\"nics\":1}",
    };
    struct topo t = known();
    struct tree tree;

    topo_set_host(&t, 1, "a\"b\n\xff");
    char *text = print(&t, TOPO_JSON);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        assert_non_null(strstr(text, parts[i]));
    assert_ok(tree_parse_json(&tree, "t", 1, text, (int64_t)strlen(text), &err));
    const struct tree_node *group = tree_get(tree.root, "groups")->child->next;
    assert_string_equal(tree_string(tree_get(group, "host")), "a\"b\n\xef\xbf\xbd");
    tree_release(&tree);
    free(text);
    topo_release(&t);
}

static int differences(const struct topo *old, const struct topo *new, enum topo_format format,
                       char **text)
{
    FILE *f = unit_stream();
    int n = topo_diff(old, new, 0.5, format, f);

    *text = unit_text(f);
    return n;
}

/* The data of ranks and copies are compared; how well a figure is known is not. */
TEST(diff_known)
{
    struct topo a = known(), b = read_synth("2x2,memory=4e9"), c = read_synth("3x2x1");
    struct tree tree;
    char *text = NULL;
    int64_t count = 0;

    b.level[1].message_s = 1e-6;
    assert_int_equal(differences(&a, &b, TOPO_YAML, &text), 13);
    assert_string_equal(text, "intra.message_s: 1.0e-06 -> 0 (-100.0 %)\n"
                              "intra.compute_left: 1 -> 0 (-100.0 %)\n"
                              "inter.message_s: 0 -> 1.0e-06\n"
                              "inter.rate_left: 0.75 -> 0 (-100.0 %)\n"
                              "inter.compute_left: 0.5 -> 0 (-100.0 %)\n"
                              "inter.ring_loss: 0.0065 -> 0 (-100.0 %)\n"
                              "inter.use_lost_s: 0.002 -> 0 (-100.0 %)\n"
                              "inter.latency_busy_s: 0.004 -> 0 (-100.0 %)\n"
                              "device: cuda -> cpu\n"
                              "transport: nccl -> mpi\n"
                              "flops: 100000000000 -> 0 (-100.0 %)\n"
                              "compute_type: bf16 -> f32\n"
                              "memory_Bps: 6000000000 -> 0 (-100.0 %)\n");
    free(text);
    assert_true(differences(&a, &c, TOPO_JSON, &text) > 3);
    assert_ok(tree_parse_json(&tree, "t", 1, text, (int64_t)strlen(text), &err));
    assert_true(tree_is_whole(tree_get(tree.root, "count"), &count));
    assert_int_equal(count, tree_count(tree_get(tree.root, "differences"), TREE_LIST));
    tree_release(&tree);
    free(text);
    topo_release(&a);
    topo_release(&b);
    topo_release(&c);
}

/* Ranks by node, not by slot: groups come from the file, never from rank / m. */
static const char by_node[] = "format: paro-topology/1\n"
                              "levels:\n"
                              "  - {name: in, latency_s: 0, port_Bps: 4, flow_Bps: 4, "
                              "member_Bps: 4}\n"
                              "  - {name: out, latency_s: 0, port_Bps: 2, flow_Bps: 2, "
                              "member_Bps: 1}\n"
                              "groups:\n"
                              "  - ranks: [0, 2, 4]\n"
                              "  - ranks: [1, 3]\n"
                              "    host: b\n"
                              "    port_in_Bps: 1.5\n";

TEST(by_hand)
{
    struct topo t;

    assert_ok(parse(by_node, &t));
    assert_int_equal(t.groups.group_of[2], 0);
    assert_int_equal(groups_rank(&t.groups, 1, 1), 3);
    assert_string_equal(t.host[0], "");
    assert_string_equal(t.host[1], "b");
    assert_true(topo_port_Bps(&t, 1) == 1.5 && t.port[1].out_Bps == 2);
    char *ranks = topo_ranks_text(&t, 0);
    assert_string_equal(ranks, "0,2,4");
    mem_free(ranks);
    topo_release(&t);
}

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

/* With one group level 1 repeats level 0, where a rank in company may be the faster one. */
#define FASTER "latency_s: 0, port_Bps: 100, flow_Bps: 100, member_Bps: 150}\n"
static const char one_group[] = "format: paro-topology/1\nlevels:\n  - {name: intra, " FASTER
                                "  - {name: inter, " FASTER "groups:\n  - ranks: [0, 1]\n";

/* The texts above with one thing changed, and what looks like it and is legal. */
static const struct change contradiction[] = {
    {by_node, "4}", "4, flow_err_Bps: 5%}",
     "f:3: 'levels[0].flow_err_Bps' '5%' expected 0 1e+25"},
    {four, "latency_s: 1e-05", "latency_s: 1e5", "f:9: 'levels[1].latency_s' '1e5' expected"},
    {four, "[2, 1]", "[-2, 1]", "f:35: 'groups[3].blocks[0]' '-2' expected"},
    {one_group, "intra", "inside", ""},
    {by_node, "format: paro-topology/1\n", "format: paro-plan/1\n",
     "f:1: 'format' 'paro-plan/1' expected 'paro-topology/1'"},
    {by_node, "format: paro-topology/1\n", "\n",
     "f:2: 'format' missing expected paro-topology/1 'levels:'"},
    {by_node, "  - {name: in, latency_s: 0, port_Bps: 4, flow_Bps: 4, member_Bps: 4}\n", "\n",
     "f:2: 'levels' 1 expected 2"},
    {by_node, "member_Bps: 4}", "member_Bps: .nan}",
     "f:3: 'levels[0].member_Bps' '.nan' expected 1e-07 1e+25"},
    {by_node, "[0, 2, 4]", "0-4", "f:6: 'groups[0].ranks' '0-4' expected list"},
    {by_node, "[0, 2, 4]", "[[4], [0, 2]]", ""},
    {by_node, "[0, 2, 4]", "[[0, 2], 4]", "f:6: 'groups[0].ranks[1]' '4' expected list"},
    {by_node, "[0, 2, 4]", "[0, [2, 4]]", "f:6: 'groups[0].ranks[1]' list expected"},
    {by_node, "[0, 2, 4]", "[[2, 0], [4]]", "f:6: 'groups[0].ranks[0][1]' 0 2 ascend"},
    {by_node, "[0, 2, 4]", "[[0, 2, 4], []]", "f:6: 'groups[0].ranks[1]' 0 expected 1"},
    {by_node, "    host: b", "    blocks: [0]",
     "f:8: 'groups[1].blocks' 1 expected 0 levels[2]"},
    {by_node, "    host: b", "    hots: b", "f:8: 'groups[1].hots' unknown 'host'?"},
    {by_node, "    port_in_Bps: 1.5", "    port_in_Bps: inf",
     "f:9: 'groups[1].port_in_Bps' 'inf' expected 1 1e+25"},
    {by_node, "    port_in_Bps: 1.5", "memory_bytes: 1.5",
     "f:9: 'memory_bytes' '1.5' expected 1 1152921504606846976"},
    {by_node, "    port_in_Bps: 1.5", "memory_Bps: 0",
     "f:9: 'memory_Bps' '0' expected 1 1e+25"},
    {by_node, "    port_in_Bps: 1.5", "memory_bps: 1",
     "f:9: 'memory_bps' unknown 'memory_Bps'?"},
    {by_node, "    port_in_Bps: 1.5", "    gpus: -1",
     "f:9: 'groups[1].gpus' '-1' expected 0 65536"},
    {by_node, "    port_in_Bps: 1.5", "    nics: 2.5",
     "f:9: 'groups[1].nics' '2.5' expected 0 65536"},
    {by_node, "    port_in_Bps: 1.5", "    numa_nodes: 65537",
     "f:9: 'groups[1].numa_nodes' '65537' expected 0 65536"},
    {by_node, "4}", "4, rate_left: 0}", "f:3: 'levels[0].rate_left' '0' expected 1e-06 1"},
    {by_node, "4}", "4, ring_loss: 1.01}", "f:3: 'levels[0].ring_loss' '1.01' expected 0 1"},
    {by_node, "4}", "4, compute_left: 1.01}",
     "f:3: 'levels[0].compute_left' '1.01' expected 1e-06 1"},
    {by_node, "4}", "4, use_lost_s: 3601}",
     "f:3: 'levels[0].use_lost_s' '3601' expected 0 3600"},
    {by_node, "4}", "4, latency_busy_s: -1}",
     "f:3: 'levels[0].latency_busy_s' '-1' expected 0 3600"},
    {by_node, "4}", "4, latency_err_s: -1}",
     "f:3: 'levels[0].latency_err_s' '-1' expected 0 3600"},
    {by_node, "4}", "4, port_err_Bps: 1e26}",
     "f:3: 'levels[0].port_err_Bps' '1e26' expected 0 1e+25"},
    {by_node, "4}", "4, member_err_Bps: nan}",
     "f:3: 'levels[0].member_err_Bps' 'nan' expected 0 1e+25"},
    {by_node, "    port_in_Bps: 1.5", "---", "f:9: second document expected"},
    /* ranks */
    {four, "[2]", "[1]", "f:28: 'groups[1].ranks[0]' 1 groups[0]"},
    {four, "[0, 1]", "[0, 0]", "f:25: 'groups[0].ranks[1]' 0 0"},
    {four, "[0, 1]", "[1, 0]", "f:25: 'groups[0].ranks[1]' 0 1"},
    {four, "[4]", "[5]", "f:34: 'groups[3].ranks[0]' 5 expected 0 4"},
    {four, "[4]", "[-1]", "f:34: 'groups[3].ranks[0]' '-1' expected 0"},
    {four, "[4]", "[4.0]", "f:34: 'groups[3].ranks[0]' '4.0' expected"},
    {four, "[4]", "[]", "f:34: 'groups[3].ranks' 0 expected 1"},
    {four, "    ranks: [4]\n", "", "f:33: 'groups[3].ranks' missing"},
    /* rates and latencies: zero, negative, absent, none */
    {four, "port_Bps: 2e10", "port_Bps: 0", "f:10: 'levels[1].port_Bps' '0' expected 1 1e+25"},
    {four, "port_Bps: 2e10", "port_Bps: nan", "f:10: 'levels[1].port_Bps' 'nan' expected"},
    {four, "port_Bps: 2e10", "port_Bps:", "f:10: 'levels[1].port_Bps'"},
    {four, "port_Bps: 2e10", "port_Bps: ~", "f:10: 'levels[1].port_Bps'"},
    {four, "port_Bps: 2e10", "port_Bps: 2e10 # 20GB/s", ""},
    {four, "port_Bps: 2e10", "port_Bps: 20GB/s",
     "f:10: 'levels[1].port_Bps' '20GB/s' expected"},
    {four, "    port_Bps: 2e10\n", "", "f:8: 'levels[1].port_Bps' missing"},
    {four, "flow_Bps: 2e11", "flow_Bps: 1e26", "f:6: 'levels[0].flow_Bps' '1e26' expected"},
    {four, "member_Bps: 1e11", "member_Bps: 0",
     "f:7: 'levels[0].member_Bps' '0' expected 1e-07 1e+25"},
    {four, "latency_s: 1e-05", "latency_s: -1e-05",
     "f:9: 'levels[1].latency_s' '-1e-05' expected 0 3600"},
    {four, "latency_s: 1e-05", "latency_s: 0", ""},
    {four, "[4]", "[4]\n    port_out_Bps: 0", "f:35: 'groups[3].port_out_Bps' '0' expected"},
    {four, "[4]", "[4]\n    port_in_Bps: -5", "f:35: 'groups[3].port_in_Bps' '-5' expected"},
    {four, "groups:", "device: gpu\ngroups:", "f:23: 'device' 'gpu' expected cpu cuda"},
    {four, "groups:", "device:\ngroups:", "f:23:"},
    {four, "groups:", "memory_bytes: 0\ngroups:", "f:23: 'memory_bytes' '0' expected"},
    {four, "groups:", "flops: -1\ngroups:", "f:23: 'flops' '-1' expected 1 1e+21"},
    /* a share that does not pass the port; at level 0 none is shared */
    {four, "member_Bps: 1e10", "member_Bps: 2.2e10",
     "f:12: 'levels[1].member_Bps' 2.2e+10 expected port_Bps 2e+10"},
    {four, "    port_Bps: 5e10\n", "    port_Bps: 9e9\n",
     "f:22: 'levels[3].member_Bps' 1e+10 expected port_Bps 9e+09"},
    {four, "member_Bps: 1e10", "member_Bps: 2.1e10", ""}, /* within what measurements differ */
    {four, "member_Bps: 1e11", "member_Bps: 9e11", ""},
    /* levels: absent, twice, nameless, more blocks than levels, and the other way round */
    {four,
     "  - name: hall\n    latency_s: 3e-05\n    port_Bps: 5e10\n    flow_Bps: 2e10\n"
     "    member_Bps: 1e10\n",
     "", "f:21: 'groups[0].blocks' 2 expected 1"},
    {four, "    blocks: [2, 1]\n", "    blocks: [2]\n",
     "f:35: 'groups[3].blocks' 1 expected 2"},
    {four, "    blocks: [2, 1]\n", "", "f:33: 'groups[3].blocks' 0 expected 2"},
    {four, "name: hall", "name: pod", "f:18: 'levels[3].name' 'pod' levels[2]'s expected"},
    {four, "name: hall", "name: \"\"", "f:18: 'levels[3].name'"},
    {four, "name: hall", "name: \"a\\e[2J\"", "f:18: 'levels[3].name' control"},
    {four, "- name: hall\n    lat", "- lat", "f:18: 'levels[3].name' missing"},
    /* blocks that do not nest, or are none */
    {four, "[1, 0]", "[0, 1]", "f:32: 'groups[2].blocks[1]' 1 groups[0] 0 0 expected"},
    {four, "[2, 1]", "[4, 1]", "f:35: 'groups[3].blocks[0]' '4' expected 0 3"},
    {four, "[2, 1]", "[2, 0]", ""}, /* all in one block: the outermost level joins nothing */
    /* keys */
    {four, "groups:", "groups: []\nx:", "f:24: 'x' unknown"},
    {four, "host: d", "hosts: d", "f:33: 'groups[3].hosts' unknown host"},
    {four, "host: d", "host: d\n    host: e", "f:34: 'groups[3].host' twice"},
    {four, "host: d", "host: a", ""}, /* two groups of one host: two processors, two islands */
    {four, "levels:", "levels: 3\nx:", "f:3: 'x' unknown"},
    {four, "paro-topology/1", "paro-topology/9", "f:1: 'format' 'paro-topology/9' expected"},
};

TEST(contradictions)
{
    check_changes(contradiction, sizeof contradiction / sizeof *contradiction, NULL);
}

TEST(synth_refusals)
{
    static const char *const cases[][2] = {
        {"8", "synth: shape '8' expected 8 levels 1048576 ranks"},
        {"", "synth: '' expected"},
        {"0x8", "synth: '0x8' expected"},
        {"16x", "synth: '16x' expected"},
        {"[8,8", "synth: '[8,8' expected"},
        {"[8,8]x4", "synth: '[8,8]x4' expected"},
        {"2x2x2x2x2x2x2x2x2", "synth: '2x2x2x2x2x2x2x2x2' expected"},
        {"2x2x2x2x2x2x2x[2,1]", "synth: '2x2x2x2x2x2x2x[2,1]' expected"},
        {"1024x2048", "synth: '1024x2048' expected"},
        {"1048576x1048576x1048576", "synth: '1048576x1048576x1048576' expected"},
        {"4x8,foo=1", "synth: 'foo' expected intra, inter, memory flops"},
        {"4x8,level2=1GB/s", "synth: 'level2' expected intra, inter, memory flops"},
        {"4x8x2x2,x=1", "synth: 'x' expected level2 level3"},
        {"4x8,inter", "synth: 'inter' expected NAME=VALUE"},
        {"4x8,", "synth: '' expected NAME=VALUE"},
        {"4x8,inter=12abc", "synth: '12abc' expected rate 0"},
        {"4x8,inter=-1GB/s", "synth: '-1GB/s' expected rate 0"},
        {"4x8,inter=1e30B/s", "synth: '1e30B/s' expected rate 1 1e+18 B/s"},
        {"4x8,inter=1gbit:x", "synth: inter 'x' expected time"},
        {"4x8,inter=1gbit:2h", "synth: inter '2h' expected 3600 s"},
        {"4x8,inter=1gbit,inter=1gbit", "synth: inter twice expected"},
        {"4x8,memory=1B,memory=1B", "synth: memory twice expected"},
        {"4x8,memory=-1", "synth: memory '-1' expected size 1"},
        {"4x8,flops1=1e12", "synth: flops1 flops"},
        {"4x8,flops=1e12,flops4=1e12", "synth: flops4 groups 0 3"},
        {"4x8,flops=1e12,flops1=1e12,flops1=1e12", "synth: flops1 twice expected"},
        {"4x8,flops=1e12,flops1=0", "synth: flops1 '0' expected 1"},
        {"4x8,flops=nan", "synth: flops 'nan' expected 1"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct topo t = {0};
        assert_refused(topo_parse_synth(&t, cases[i][0], &err), cases[i][1]);
        assert_null(t.level);
    }
}
