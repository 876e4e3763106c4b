/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests that a plan reads back as it was printed, and nothing else is read. */
#include "unit.h"

#include "plan/plan.h"
#include "words_fixture.h"

#define KEYS                                                                                   \
    "\"model_type\": \"llama\", \"vocab_size\": 256, \"hidden_size\": 64, "                    \
    "\"intermediate_size\": 160, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "       \
    "\"max_position_embeddings\": 512, \"architectures\": [\"LlamaForCausalLM\"]"

static char *print(const struct plan *p)
{
    FILE *f = unit_stream();

    plan_print(p, f);
    return unit_text(f);
}

/* A plan of `config` ("params=..." or a config.json's text) on groups placed by node. */
static char *sample_of(const char *config, int with_fabric)
{
    static const int group_of[] = {0, 1, 0, 1, 0};
    const struct topo_level level[2] = {
        LIST(.name = "intra", .latency_s = 3e-6, .port_Bps = 1e9, .flow_Bps = 1e9,
             .member_Bps = 1e9),
        LIST(.name = "inter", .latency_s = 5e-5, .port_Bps = 1e8, .flow_Bps = 1e8,
             .member_Bps = 1e8)};
    struct topo_port port[2] = {{1e8, 1e8}, {1e8, 0.9e8}};
    struct groups groups;
    struct topo t;
    struct plan_search s = {0};
    struct model m = {0};
    struct plan p;
    err = (struct err){0};

    int rc = strncmp(config, "params=", 7) == 0
                 ? model_read(&m, config, &err)
                 : model_parse(&m, "config", config, (int64_t)strlen(config), &err);
    if (rc)
        fail_msg("%s", err.text);
    assert_ok(groups_init_of(&groups, 5, group_of, &err));
    topo_init(&t, 2, &groups);
    t.flops = 1e11;
    for (int i = 0; i < 2; i++) {
        t.level[i] = level[i];
        t.port[i] = port[i];
    }
    topo_set_host(&t, 0, "node0");
    topo_set_host(&t, 1, "yes");
    plan_case_init(&s.at, &t, &m);
    assert_ok(plan_search(&s, &err));
    plan_init(&p, &s, &m);
    assert_int_equal(m.params, 0);
    if (!with_fabric) {
        mem_free(p.fabric);
        p.fabric = NULL;
    }
    char *text = print(&p);
    plan_release(&p);
    topo_release(&t);
    groups_release(&groups);
    return text;
}

static char *sample(const char *config)
{
    return sample_of(config, 0);
}

TEST(test_round_trip)
{
    static const char *const configs[] = {
        "params=7e9",
        "{" KEYS "}",
        "{\n\t" KEYS "\n}\n",
        "\n\n  {" KEYS "\n\n,\"_name_or_path\": \"a: b # c - 'd'\"\n   \n}\n\n\n",
        "   {" KEYS "}  ",
        "{" KEYS ", \"_name_or_path\": \"\xc3\xa9\xe2\x80\xa8\"}\n",
        "{" KEYS "\r\n}\r\n",
    };

    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        char *first = sample(configs[i]);
        struct plan p;
        if (plan_parse(&p, "p.yaml", first, (int64_t)strlen(first), &err))
            fail_msg("%s\n%s", err.text, first);
        char *second = print(&p);
        assert_string_equal(first, second);
        if (p.model.config)
            assert_string_equal(p.model.config, configs[i]);
        assert_int_equal(p.groups.ranks, 5);
        assert_int_equal(groups_rank(&p.groups, 1, 1), 3);
        assert_string_equal(p.host[1], "yes");
        plan_release(&p);
        free(first);
        free(second);
    }
}

/* The text with `from` replaced by `to`. */
static char *edit(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);

    if (!at)
        fail_msg("'%s' is not in the plan", from);
    char *out = mem_new(strlen(text) + strlen(to) + 1, 1);
    size_t before = (size_t)(at - text);
    memcpy(out, text, before);
    strcpy(out + before, to);
    strcat(out, at + strlen(from));
    return out;
}

static void read_edited(struct plan *p, const char *text, const char *from, const char *to)
{
    char *edited = edit(text, from, to);

    if (plan_parse(p, "p.yaml", edited, (int64_t)strlen(edited), &err))
        fail_msg("%s\n%s", err.text, edited);
    mem_free(edited);
}

/* Keys that only some plans have: where the groups end, and the time of a checkpoint. */
TEST(test_some_keys)
{
    char *text = sample("params=7e9");
    struct plan p;

    read_edited(&p, text, "\ngroups:\n", "\ngroup_level: 3\ngroups:\n");
    assert_int_equal(p.group_level, 3);
    p.checkpoint.s = 12.5;
    char *more = print(&p);
    assert_non_null(strstr(more, "\n  checkpoint_s: 12.5\ngroup_level: 3\ngroups:\n"));
    plan_release(&p);
    assert_ok(plan_parse(&p, "p.yaml", more, (int64_t)strlen(more), &err));
    assert_int_equal(p.group_level, 3);
    assert_true(p.checkpoint.s == 12.5);
    plan_release(&p);
    char *bad = edit(more, "group_level: 3", "group_level: 7");
    assert_says(plan_parse(&p, "p.yaml", bad, (int64_t)strlen(bad), &err),
                "'group_level' is '7', expected");
    mem_free(bad);
    free(more);
    /* Plans from before there were such keys. */
    char *older = edit(text, "  checkpoint_bytes: 98000000000\n", "");
    read_edited(&p, older, "  checkpoint_rank_bytes: 19600000000\n", "");
    assert_int_equal(p.group_level, -1);
    assert_true(p.checkpoint.bytes == 0);
    more = print(&p);
    assert_null(strstr(more, "checkpoint"));
    assert_null(strstr(more, "group_level"));
    plan_release(&p);
    free(more);
    mem_free(older);
    free(text);
}

static void refused(const char *text, const char *words)
{
    struct plan p;

    assert_refused(plan_parse(&p, "p.yaml", text, (int64_t)strlen(text), &err), words);
}

/* The fabric comes back with its rates; one of other groups is refused. */
TEST(test_fabric)
{
    char *text = sample_of("{" KEYS "}", 1);
    struct plan p;
    struct topo t = {0};

    assert_ok(plan_parse(&p, "p.yaml", text, (int64_t)strlen(text), &err));
    char *again = print(&p);
    assert_string_equal(text, again);
    assert_ok(plan_fabric(&p, &t, &err));
    assert_true(t.flops == 1e11 && t.port[1].in_Bps == 0.9e8 && t.level[1].latency_s == 5e-5);
    assert_true(groups_equal(&t.groups, &p.groups));
    topo_release(&t);
    plan_release(&p);
    free(again);
    char *bad = edit(text, "ranks: [0, 2, 4]", "ranks: [0, 2]");
    refused(bad, "'fabric' other groups");
    mem_free(bad);
    bad = edit(text, "flops: 1", "flops: -1");
    refused(bad, "'fabric' is wrong 'flops'");
    mem_free(bad);
    free(text);
    text = sample("params=7e9");
    assert_ok(plan_parse(&p, "p.yaml", text, (int64_t)strlen(text), &err));
    assert_error(plan_fabric(&p, &t, &err), ERR_ABSENT);
    plan_release(&p);
    free(text);
}

/* How a step runs: as it is written, and what a plan from before these keys means. */
TEST(test_settings)
{
    static const char runs[] = "prefetch: 1\nbuckets: 2\nkeep: 0\nrecompute: no\n";
    static const char slow[] = "  slow_params: same\n  slow_grads: same\n";
    static const struct {
        const char *as_is, *text;
        int buckets, keep, recompute;
        enum exec_code params, grads;
        const char *printed; /* NULL: as it was read */
    } cases[] = {
        {runs, runs, 2, 0, 0, 0, 0, NULL},
        {runs, "prefetch: 1\nbuckets: 1\nkeep: 1\nrecompute: yes\n", 1, 1, 1, 0, 0, NULL},
        {runs, "prefetch: 1\nbuckets: 1024\nkeep: 1048575\nrecompute: no\n", 1024, 1048575, 0,
         0, 0, NULL},
        {runs, "prefetch: 1\nbuckets: 7\nkeep: all\nrecompute: yes\n", 7, PLAN_KEEP_ALL, 1, 0,
         0, NULL},
        {runs, "prefetch: 1\n", 2, 0, 0, 0, 0, runs},
        {runs, "prefetch: 1\nkeep: 3\n", 2, 3, 0, 0, 0, "\nbuckets: 2\nkeep: 3\nrecompute: no"},
        {slow, "  slow_params: int8\n  slow_grads: same\n", 2, 0, 0, EXEC_CODE_INT8, 0, NULL},
        {slow, "  slow_params: bf16\n  slow_grads: same\n", 2, 0, 0, EXEC_CODE_BF16, 0, NULL},
        {slow, "  slow_params: same\n  slow_grads: int8\n", 2, 0, 0, 0, EXEC_CODE_INT8, NULL},
        {slow, "  slow_grads: int8\n", 2, 0, 0, 0, EXEC_CODE_INT8,
         "  slow_params: same\n  slow_grads: int8\n"},
        {slow, "", 2, 0, 0, 0, 0, slow},
        {slow, "  moments: int8\n  slow_params: same\n  slow_grads: same\n", 2, 0, 0, 0, 0,
         NULL},
        {slow, "  moments: f32\n  slow_grads: int8\n", 2, 0, 0, 0, EXEC_CODE_INT8,
         "  compute: f32\n  slow_params: same\n"},
        {"layered: 1\n", "layered: 3\n", 2, 0, 0, 0, 0, NULL},
        {"layered: 1\n", "", 2, 0, 0, 0, 0, NULL},
    };
    char *text = sample("{" KEYS "}\n");

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct plan p;
        read_edited(&p, text, cases[i].as_is, cases[i].text);
        assert_true(p.buckets == cases[i].buckets && p.keep == cases[i].keep);
        assert_true(p.recompute == cases[i].recompute && p.slow_params == cases[i].params);
        assert_true(p.slow_grads == cases[i].grads);
        char *again = print(&p), *wanted = edit(text, cases[i].as_is, cases[i].text);
        if (cases[i].printed)
            assert_non_null(strstr(again, cases[i].printed));
        else
            assert_string_equal(again, wanted);
        plan_release(&p);
        mem_free(wanted);
        free(again);
    }
    free(text);
}

TEST(test_refused)
{
    static const char *const cases[][3] = {
        {"paro-plan/1", "paro-plan/2",
         "p.yaml:1: 'format' 'paro-plan/2' expected 'paro-plan/1'"},
        {"format: paro-plan/1\n", "", "'format' is missing"},
        {"accum: 1", "accum: 0", "p.yaml:5: 'accum' '0' expected number 1"},
        {"accum: 1", "accum: 12abc", "'accum' is '12abc', expected a whole number"},
        {"accum: 1", "accum: 1\naccum: 1", "'accum'"},
        {"accum: 1", "acum: 1", "acum"},
        {"global_batch: 5", "global_batch: 0", "p.yaml:7: 'global_batch' '0' expected 1"},
        {"global_batch: 5", "global_batch: 6", "p.yaml:7: 'global_batch' 6 expected at most 5"},
        {"prefetch: 1\n", "", "prefetch"},
        {"buckets: 2", "buckets: 0", "p.yaml:18: 'buckets' '0' expected number 1 1024"},
        {"buckets: 2", "buckets: two", "'buckets' is 'two', expected a whole number"},
        {"buckets: 2", "buckets:", "buckets"},
        {"keep: 0", "keep: -1", "p.yaml:19: 'keep' '-1' expected number 0 1048575"},
        {"keep: 0", "keep: some", "'keep' is 'some', expected"},
        {"keep: 0", "keep: 1048576", "'keep' is '1048576', expected"},
        {"keep: 0", "keep: 0\nkeep: 0", "'keep'"},
        {"recompute: no", "recompute: maybe", "p.yaml:20: 'recompute' 'maybe' expected yes"},
        {"recompute: no", "recompute: true", "'recompute' is 'true', expected yes or no"},
        {"recompute: no", "recompute: \"\"", "'recompute' is '', expected yes or no"},
        {"slow_params: same", "slow_params: int4",
         "p.yaml:15: 'types.slow_params' 'int4' expected same bf16 int8"},
        {"slow_params: same", "moments: int4",
         "p.yaml:15: 'types.moments' 'int4' expected f32 bf16 int8"},
        {"slow_grads: same", "slow_grads: f16",
         "p.yaml:16: 'types.slow_grads' 'f16' expected same bf16 int8"},
        {"slow_grads: same", "slow_grads: same\n  slow_grads: same", "slow_grads"},
        {"algo: ho-ring", "algo: auto",
         "'algo' is 'auto', expected ring, two-level or ho-ring"},
        {"  wire: bf16", "  wire: f16", "'types.wire' is 'f16', expected f32 or bf16"},
        {"ranks: [0, 2, 4]", "ranks: [0, 2, 5]",
         "'groups[0].ranks[2]' is rank 5, expected 0 to 4"},
        {"ranks: [0, 2, 4]", "ranks: [0, 2, 2]", "rank 2 rank 2 ascend"},
        {"ranks: [0, 2, 4]", "ranks: [0, 4, 2]", "rank 2 rank 4 expected ascend"},
        {"ranks: [1, 3]", "ranks: []", "ranks"},
        {"seq: 256", "seq: 513",
         "'seq' is 513, expected at most the model's max_position_embeddings, 512"},
        {"model:\n", "model:\n  params: 7\n",
         "'model' has both, expected 'config' or 'params'"},
        {"trainable: ", "trainable: 9", "'trainable' is '9"},
        {"  step_s: ", "  step_s: -", "'predicted.step_s' is '-"},
        {"\"llama\"", "\"rwkv\"", "rwkv"},
        {"strategy: ", "strategy: X", "'strategy' is 'X"},
    };
    char *text = sample("{" KEYS "}\n");

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *bad = edit(text, cases[i][0], cases[i][1]);
        refused(bad, cases[i][2]);
        mem_free(bad);
    }
    free(text);
}

TEST(test_micro_batches)
{
    static const char *const cases[][2] = {
        {"[2, 1, 1, 1]", "p.yaml: 'micro_batches' has 4 numbers, expected one 5 ranks"},
        {"[0, 0, 0, 0, 0]", "'micro_batches' has 0 in all expected 5 by global_batch"},
        {"[2, 1, 1, 1, 1]", "'micro_batches' has 6 in all expected 5 by global_batch"},
        {"[3, 0, 1, 1, 0]", "'micro_batches' has 5 3 at most, expected 'accum', 2"},
        {"[1, 1, 1, 1, 1]", "'micro_batches' has 5 1 at most, expected 'accum', 2"},
        {"[2, -1, 2, 1, 1]", "'micro_batches[1]' is '-1', expected 0"},
        {"[2, x, 1, 1, 1]", "'micro_batches[1]' is 'x', expected a whole number"},
        {"2", "micro_batches"},
        {"[]", "micro_batches"},
    };
    static const int counts[] = {0, 2, 1, 1, 1};
    char *text = sample("{" KEYS "}\n"), *two = edit(text, "accum: 1", "accum: 2"), list[64];
    struct plan p;

    read_edited(&p, two, "groups:\n", "micro_batches: [0, 2, 1, 1, 1]\ngroups:\n");
    assert_memory_equal(p.counts, counts, sizeof counts);
    char *again = print(&p);
    assert_non_null(strstr(again, "\nmicro_batches: [0, 2, 1, 1, 1]\n"));
    plan_release(&p);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(list, sizeof list, "micro_batches: %s\ngroups:\n", cases[i][0]);
        char *bad = edit(two, "groups:\n", list);
        refused(bad, cases[i][1]);
        mem_free(bad);
    }
    mem_free(two);
    free(again);
    free(text);
}

/* Cut anywhere, it is refused, never read as something less. */
TEST(test_truncated)
{
    char *text = sample("params=7e9");
    size_t whole = strlen(text) - strlen("\n");

    for (size_t n = 0; n < whole; n++) {
        struct plan p;
        err = (struct err){0};
        /* The last number is a number still when it loses digits: trainable tells. */
        assert_int_equal(plan_parse(&p, "p.yaml", text, (int64_t)n, &err), -1);
        assert_true(err.text[0] && !strchr(err.text, '\n'));
    }
    free(text);
}
