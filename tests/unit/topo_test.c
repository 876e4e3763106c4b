/* SPDX-License-Identifier: BSD-3-Clause */
/* Fabrics: what synth: builds, that YAML returns, and what contradicts itself. */
#include <jansson.h>

#include "base/tick.h"
#include "base/yaml.h"
#include "topo_import_fixture.h"

static char *print(const struct topo *t, enum topo_format format)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);

    struct err err;
    assert_int_equal(topo_print(t, format, f, &err), 0);
    fclose(f);
    return text;
}

static int parse(const char *text, struct topo *t, struct err *err)
{
    struct yaml y;

    yaml_take(&y, "f.yaml", mem_dup(text), (int64_t)strlen(text));
    int rc = topo_parse_yaml(t, &y, err);
    yaml_release(&y);
    return rc;
}

static void synth(void **state)
{
    struct topo t;
    struct err err;

    (void)state;
    assert_int_equal(topo_parse_synth(&t, "16x8,intra=200GB/s:3us,inter=25GB/s:12us", &err), 0);
    assert_int_equal(t.levels, 2);
    assert_int_equal(t.groups.count, 16);
    assert_int_equal(t.groups.ranks, 128);
    assert_string_equal(t.level[0].name, "intra");
    assert_string_equal(t.level[1].name, "inter");
    assert_true(t.level[0].member_Bps == 200e9 && t.level[0].latency_s == 3e-6);
    assert_true(t.level[1].port_Bps == 25e9 && t.level[1].latency_s == 12e-6);
    assert_true(t.level[1].flow_Bps == 25e9 && t.level[1].member_Bps == 25e9 / 8);
    assert_true(topo_port_Bps(&t, 15) == 25e9 && topo_slowest_port_Bps(&t) == 25e9);
    assert_null(t.block);
    topo_release(&t);

    /* A port for each rank: the port of group k passes m_k of them. */
    assert_int_equal(
        topo_parse_synth(&t, "[8,8,7],inter=25GB/s/rank:50us,memory=80e9,flops=1e14", &err), 0);
    assert_true(t.level[1].port_Bps == 200e9 && t.level[1].flow_Bps == 25e9);
    assert_true(t.level[1].member_Bps == 25e9 && t.level[1].latency_s == 50e-6);
    assert_true(topo_port_Bps(&t, 0) == 200e9 && topo_slowest_port_Bps(&t) == 175e9);
    assert_true(t.memory_bytes == 80000000000 && t.flops == 1e14);
    topo_release(&t);

    /* Four blocks of three ragged groups; 500 Mbit/s are 62.5e6 B/s. */
    assert_int_equal(topo_parse_synth(&t, "2x4x[3,2],inter=500mbit,level3=1GB/s:1ms", &err), 0);
    assert_int_equal(t.levels, 4);
    assert_int_equal(t.groups.count, 16);
    assert_int_equal(t.groups.ranks, 40);
    for (int k = 0; k < 16; k++) {
        assert_int_equal(t.groups.members[k], k % 2 ? 2 : 3);
        assert_int_equal(t.block[k], k / 2);
        assert_int_equal(t.block[16 + k], k / 8);
    }
    assert_true(t.level[2].port_Bps == 125e6 && t.level[2].latency_s == 12e-6);
    assert_true(t.level[2].member_Bps == 25e6 && t.level[2].flow_Bps == 62.5e6);
    assert_true(t.level[3].port_Bps == 1e9 && t.level[3].latency_s == 1e-3);
    topo_release(&t);
}

static void returns(void **state)
{
    static const char *const specs[] = {
        "1x1",
        "1x8",
        "2x2,inter=500mbit:50us",
        "[3,2],inter=1gbit/rank,memory=4e9,flops=1.5e11",
        "2x3x2",
        "2x2x2x2x2x2x2x2",
        "[8,8,7],intra=1.23456789GB/s:0",
        "5x7x[2,1,4],level2=3GB/s",
    };

    (void)state;
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        struct topo a, b;
        struct err err;
        assert_int_equal(topo_parse_synth(&a, specs[i], &err), 0);
        topo_set_host(&a, 0, "node \"0\": \xc3\xbc");
        char *first = print(&a, TOPO_YAML);
        assert_int_equal(parse(first, &b, &err), 0);
        char *second = print(&b, TOPO_YAML);
        assert_string_equal(first, second);
        assert_int_equal(topo_diff(&a, &b, 0, TOPO_YAML, stderr), 0);
        assert_true(groups_equal(&a.groups, &b.groups));
        free(first);
        free(second);
        topo_release(&a);
        topo_release(&b);
    }
}

/* All that may be unknown, known: each key of the text, and what it says. */
static void known(struct topo *t)
{
    struct err err;

    assert_int_equal(topo_parse_synth(t, "2x2,memory=4e9,flops=1e11", &err), 0);
    t->level[0].message_s = 1e-6;
    t->level[0].latency_err_s = 2e-7;
    t->level[0].member_err_Bps = 3e6;
    t->level[1].port_err_Bps = 4e5;
    t->level[1].flow_err_Bps = 5e5;
    t->level[1].rate_left = 0.75;
    t->level[0].compute_left = 1;
    t->level[1].compute_left = 0.5;
    t->level[1].use_lost_s = 2e-3;
    t->device = TOPO_CUDA;
    t->transport = TOPO_OVER_NCCL;
    t->compute_type = DTYPE_BF16;
    t->memory_Bps = 6e9;
    t->devices[0] = (struct topo_devices){2, 8, 4, "NVIDIA \"H200\" #1: and others"};
    t->devices[1].nics = 1;
}

static void keeps_what_is_known(void **state)
{
    struct topo a, b;
    struct err err;

    (void)state;
    known(&a);
    char *first = print(&a, TOPO_YAML);
    assert_int_equal(parse(first, &b, &err), 0);
    for (int l = 0; l < 2; l++) {
        const struct topo_level *x = &a.level[l], *y = &b.level[l];
        assert_true(x->message_s == y->message_s && x->latency_err_s == y->latency_err_s);
        assert_true(x->port_err_Bps == y->port_err_Bps && x->flow_err_Bps == y->flow_err_Bps);
        assert_true(x->member_err_Bps == y->member_err_Bps && x->rate_left == y->rate_left);
        assert_true(x->compute_left == y->compute_left && x->use_lost_s == y->use_lost_s);
    }
    assert_true(b.transport == TOPO_OVER_NCCL);
    assert_true(b.device == TOPO_CUDA && b.compute_type == DTYPE_BF16 && b.memory_Bps == 6e9);
    assert_memory_equal(a.devices, b.devices, 2 * sizeof *a.devices);
    char *second = print(&b, TOPO_YAML);
    assert_string_equal(first, second);
    free(first);
    free(second);
    topo_release(&a);
    topo_release(&b);
}

static void json_known(void **state)
{
    static const char *const parts[] = {
        "\"message_s\":1e-06,\"latency_err_s\":2e-07,\"member_err_Bps\":3000000,"
        "\"compute_left\":1}",
        "\"port_err_Bps\":400000,\"flow_err_Bps\":500000,\"rate_left\":0.75,"
        "\"compute_left\":0.5,\"use_lost_s\":0.002}",
        "\"ranks\":4,\"device\":\"cuda\",\"transport\":\"nccl\",\"memory_bytes\":4000000000",
        "\"compute_type\":\"bf16\",\"memory_Bps\":6000000000,",
        "\"numa_nodes\":2,\"gpus\":8,\"nics\":4,"
        "\"gpu_name\":\"NVIDIA \\\"H200\\\" #1: and others\"}",
        "\"blocks\":[],\"nics\":1}",
    };
    struct topo t;

    (void)state;
    known(&t);
    char *text = print(&t, TOPO_JSON);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        assert_non_null(strstr(text, parts[i]));
    free(text);
    topo_release(&t);
}

/* What ranks keep and copies are compared; how well a figure is known is not. */
static void diff_known(void **state)
{
    struct topo a, b;
    struct err err;
    char *text = NULL;
    size_t bytes = 0;

    (void)state;
    known(&a);
    assert_int_equal(topo_parse_synth(&b, "2x2,memory=4e9,flops=1e11", &err), 0);
    FILE *f = open_memstream(&text, &bytes);
    assert_int_equal(topo_diff(&a, &b, 0, TOPO_YAML, f), 9);
    fclose(f);
    assert_string_equal(text, "intra.message_s: 1.0e-06 -> 0 (-100.0 %)\n"
                              "intra.compute_left: 1 -> 0 (-100.0 %)\n"
                              "inter.rate_left: 0.75 -> 0 (-100.0 %)\n"
                              "inter.compute_left: 0.5 -> 0 (-100.0 %)\n"
                              "inter.use_lost_s: 0.002 -> 0 (-100.0 %)\n"
                              "device: cuda -> cpu\n"
                              "transport: nccl -> mpi\n"
                              "compute_type: bf16 -> f32\n"
                              "memory_Bps: 6000000000 -> 0 (-100.0 %)\n");
    free(text);
    topo_release(&a);
    topo_release(&b);
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

static void by_hand(void **state)
{
    struct topo t;
    struct err err;

    (void)state;
    assert_int_equal(parse(by_node, &t, &err), 0);
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

#define IN "  - {name: in, latency_s: 0, port_Bps: 4, flow_Bps: 4, member_Bps: 4"

/*
 * by_node with one line replaced: line number, its new text, key words of the message.  More
 * such texts are in topo_contradiction_test.c.
 */
static const struct {
    int line;
    const char *text, *want;
} contradiction[] = {
    {1, "format: paro-plan/1", "f.yaml:1: 'format' 'paro-plan/1' expected 'paro-topology/1'"},
    {1, "", "f.yaml:2: 'format' missing expected paro-topology/1 'levels:'"},
    {3, "", "f.yaml:2: 'levels' 1 expected 2"},
    {3, "  - {name: in, latency_s: 0, port_Bps: 4, flow_Bps: 4, member_Bps: .nan}",
     "f.yaml:3: 'levels[0].member_Bps' '.nan' expected 1e-07 1e+25"},
    {6, "  - ranks: 0-4", "f.yaml:6: 'groups[0].ranks' '0-4' expected list"},
    {8, "    blocks: [0]", "f.yaml:8: 'groups[1].blocks' 1 expected 0 levels[2]"},
    {8, "    hots: b", "f.yaml:8: 'groups[1].hots' unknown 'host'?"},
    {9, "    port_in_Bps: inf", "f.yaml:9: 'groups[1].port_in_Bps' 'inf' expected 1 1e+25"},
    {9, "memory_bytes: 1.5", "f.yaml:9: 'memory_bytes' '1.5' expected 1 1152921504606846976"},
    {9, "memory_Bps: 0", "f.yaml:9: 'memory_Bps' '0' expected 1 1e+25"},
    {9, "memory_bps: 1", "f.yaml:9: 'memory_bps' unknown 'memory_Bps'?"},
    {9, "    gpus: -1", "f.yaml:9: 'groups[1].gpus' '-1' expected 0 65536"},
    {9, "    nics: 2.5", "f.yaml:9: 'groups[1].nics' '2.5' expected 0 65536"},
    {9, "    numa_nodes: 65537", "f.yaml:9: 'groups[1].numa_nodes' '65537' expected 0 65536"},
    {3, IN ", rate_left: 0}", "f.yaml:3: 'levels[0].rate_left' '0' expected 1e-06 1"},
    {3, IN ", compute_left: 1.01}",
     "f.yaml:3: 'levels[0].compute_left' '1.01' expected 1e-06 1"},
    {3, IN ", use_lost_s: 3601}", "f.yaml:3: 'levels[0].use_lost_s' '3601' expected 0 3600"},
    {3, IN ", latency_err_s: -1}", "f.yaml:3: 'levels[0].latency_err_s' '-1' expected 0 3600"},
    {3, IN ", port_err_Bps: 1e26}",
     "f.yaml:3: 'levels[0].port_err_Bps' '1e26' expected 0 1e+25"},
    {3, IN ", flow_err_Bps: 5%}", "f.yaml:3: 'levels[0].flow_err_Bps' '5%' expected 0 1e+25"},
    {3, IN ", member_err_Bps: nan}",
     "f.yaml:3: 'levels[0].member_err_Bps' 'nan' expected 0 1e+25"},
    {9, "---", "f.yaml:9: second document expected"},
};

static void contradictions(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof contradiction / sizeof *contradiction; i++) {
        char text[2048] = "";
        const char *p = by_node;
        for (int line = 1; *p; line++) {
            size_t n = strcspn(p, "\n");
            int cut = line == contradiction[i].line;
            sprintf(text + strlen(text), "%.*s\n", cut ? 200 : (int)n,
                    cut ? contradiction[i].text : p);
            p += n + 1;
        }
        struct topo t = {0};
        struct err err = {0};
        assert_int_equal(parse(text, &t, &err), -1);
        if (!has_words(err.text, contradiction[i].want))
            fail_msg("%s: %s", contradiction[i].text, err.text);
        assert_int_equal(err.code, ERR_INPUT);
        assert_null(t.level);
    }
}

static void nesting(void **state)
{
    struct topo t;
    struct err err;

    (void)state;
    assert_int_equal(topo_parse_synth(&t, "2x2x2x1", &err), 0);
    t.block[8 + 1] = 1; /* group 1 shares block 0 of level 2 with group 0, whose level 3 is 0 */
    char *text = print(&t, TOPO_YAML);
    topo_release(&t);
    assert_int_equal(parse(text, &t, &err), -1);
    assert_true(has_words(err.text, "'groups[1].blocks[1]' 1 groups[0] 0 0 expected nest"));
    free(text);
}

static void synth_refusals(void **state)
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
        {"4x8,memory=1,memory=1", "synth: memory twice expected"},
        {"4x8,memory=-1", "synth: memory '-1' expected size 1"},
        {"4x8,flops=nan", "synth: flops 'nan' expected 1"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct topo t = {0};
        struct err err = {0};
        assert_int_equal(topo_parse_synth(&t, cases[i][0], &err), -1);
        if (!has_words(err.text, cases[i][1]))
            fail_msg("%s: %s", cases[i][0], err.text);
        assert_null(t.level);
    }
}

static void json(void **state)
{
    struct topo t;
    struct err err;
    json_error_t where;

    (void)state;
    assert_int_equal(topo_parse_synth(&t, "[3,2],inter=500mbit", &err), 0);
    topo_set_host(&t, 1, "a\"b\n\xff");
    char *text = print(&t, TOPO_JSON);
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &where);
    assert_non_null(root);
    assert_string_equal(json_string_value(json_object_get(root, "schema")), "paro.topo/1");
    assert_int_equal(json_integer_value(json_object_get(root, "ranks")), 5);
    assert_true(json_is_null(json_object_get(root, "memory_bytes")));
    json_t *groups = json_object_get(root, "groups");
    assert_int_equal(json_array_size(groups), 2);
    json_t *group = json_array_get(groups, 1);
    assert_true(json_number_value(json_object_get(group, "port_out_Bps")) == 62.5e6);
    assert_string_equal(json_string_value(json_object_get(group, "host")),
                        "a\"b\n\xef\xbf\xbd");
    assert_int_equal(json_array_size(json_object_get(group, "ranks")), 2);
    json_decref(root);
    free(text);
    topo_release(&t);
}

static int differences(const char *old, const char *new, double tolerance,
                       enum topo_format format, char **text)
{
    struct topo a, b;
    struct err err;
    size_t bytes = 0;
    FILE *f = open_memstream(text, &bytes);

    assert_int_equal(topo_parse_synth(&a, old, &err), 0);
    assert_int_equal(topo_parse_synth(&b, new, &err), 0);
    int n = topo_diff(&a, &b, tolerance, format, f);
    fclose(f);
    topo_release(&a);
    topo_release(&b);
    return n;
}

static void diff(void **state)
{
    char *text = NULL;
    json_error_t where;

    (void)state;
    assert_int_equal(differences("2x2", "2x2", 0, TOPO_YAML, &text), 0);
    assert_string_equal(text, "");
    free(text);
    /* 500 to 490 Mbit/s is 2 %: level and both ports, both ways, differ, or nothing does. */
    assert_int_equal(differences("2x2,inter=500mbit", "2x2,inter=490mbit", 0, TOPO_YAML, &text),
                     7);
    assert_non_null(strstr(text, "inter.port_Bps: 62500000 -> 61250000 (-2.0 %)\n"));
    assert_non_null(strstr(text, "groups[1].port_in_Bps: 62500000 -> 61250000 (-2.0 %)\n"));
    free(text);
    assert_int_equal(
        differences("2x2,inter=500mbit", "2x2,inter=490mbit", 0.02, TOPO_YAML, &text), 0);
    free(text);
    assert_int_equal(differences("2x2", "2x2,memory=4e9", 1, TOPO_YAML, &text), 1);
    assert_string_equal(text, "memory_bytes: 0 -> 4000000000\n");
    free(text);
    assert_true(differences("2x2", "3x2x1", 0, TOPO_JSON, &text) > 3);
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &where);
    assert_non_null(root);
    assert_int_equal(json_integer_value(json_object_get(root, "count")),
                     (int)json_array_size(json_object_get(root, "differences")));
    json_decref(root);
    free(text);
}

/* A second each would be too long; this takes hundredths. */
static void large(void **state)
{
    static const char *const specs[] = {"1000x8", "2048x8", "16x1024", "1x16384"};

    (void)state;
    double start = tick_cpu_s();
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        struct topo a, b;
        struct err err;
        assert_int_equal(topo_parse_synth(&a, specs[i], &err), 0);
        char *text = print(&a, TOPO_YAML), *table = print(&a, TOPO_TABLE);
        assert_int_equal(parse(text, &b, &err), 0);
        assert_int_equal(b.groups.ranks, a.groups.ranks);
        free(text);
        free(table);
        topo_release(&a);
        topo_release(&b);
    }
    assert_true(tick_cpu_s() - start < 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(synth),      cmocka_unit_test(returns),
        cmocka_unit_test(by_hand),    cmocka_unit_test(contradictions),
        cmocka_unit_test(nesting),    cmocka_unit_test(synth_refusals),
        cmocka_unit_test(json),       cmocka_unit_test(diff),
        cmocka_unit_test(large),      cmocka_unit_test(keeps_what_is_known),
        cmocka_unit_test(json_known), cmocka_unit_test(diff_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
