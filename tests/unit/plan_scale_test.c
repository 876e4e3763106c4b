/* SPDX-License-Identifier: BSD-3-Clause */
/* A grown fabric against one that was described at that size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "plan/scale.h"
#include "plan_fixture.h"

static const char config[] =
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\","
    "\"vocab_size\": 256, \"hidden_size\": 64, \"intermediate_size\": 160,"
    "\"num_hidden_layers\": 4, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
    "\"max_position_embeddings\": 512, \"tie_word_embeddings\": false}";

static const char rates[] = "intra=2GB/s:3us,inter=100MB/s:50us,memory=20e6,flops=50e9";

static void read_both(struct model *m, struct topo *t, const char *shape)
{
    char spec[256];
    struct err err;

    *m = (struct model){0};
    *t = (struct topo){0};
    snprintf(spec, sizeof spec, "%s,%s", shape, rates);
    assert_int_equal(model_parse(m, "tiny", config, (int64_t)strlen(config), &err), 0);
    assert_int_equal(topo_parse_synth(t, spec, &err), 0);
}

static struct plan_search asked_of(const struct topo *t, const struct model *m)
{
    struct plan_search s = {0};

    plan_case_init(&s.at, t, m);
    s.at.accum = 3;
    return s;
}

/* `from` grown to `ranks` is `to`. */
static void compare(const char *from, int ranks, const char *to)
{
    struct plan_scale scale = {.from = ranks, .to = ranks};
    struct model m, other;
    struct topo t, u;
    struct err err;

    read_both(&m, &t, from);
    read_both(&other, &u, to);
    struct plan_search asked = asked_of(&t, &m), whole = asked_of(&u, &other);
    assert_int_equal(plan_scale_run(&scale, &asked, &err), 0);
    assert_int_equal(plan_search(&whole, &err), 0);
    assert_int_equal(scale.points, 1);
    assert_int_equal(scale.point[0].ranks, u.groups.ranks);
    assert_int_equal(scale.point[0].groups, u.groups.count);
    assert_int_equal(scale.point[0].search.best, whole.best);
    for (int i = 0; i < PLAN_STRATEGIES; i++) {
        const struct plan_price *a = &scale.point[0].search.list[i], *b = &whole.list[i];
        assert_true(a->step_s == b->step_s && a->slow_bytes == b->slow_bytes);
        assert_true(a->memory.total == b->memory.total && a->feasible == b->feasible);
        assert_int_equal(scale.survives >> i & 1, b->feasible && b->dominated_by < 0);
    }
    model_release(&m);
    model_release(&other);
    topo_release(&t);
    topo_release(&u);
}

static void test_same_as_described(void **state)
{
    (void)state;
    compare("2x2", 4, "2x2");
    compare("2x2", 16, "8x2");
    compare("8x2", 4, "2x2");
    compare("8x2", 5, "[2,2,1]"); /* the last one has what remains */
    compare("8x4", 4, "1x4");
    compare("[3,2]", 10, "[3,2,3,2]");
    compare("[3,2]", 9, "[3,2,3,1]");
    compare("[3,2]", 7, "[3,2,2]");
    /* What a level above the groups passes is by default what its groups do together: said. */
    compare("2x2x2,level2=80MB/s:70us", 32, "8x2x2,level2=80MB/s:70us");
    compare("2x2x2,level2=80MB/s:70us", 4, "1x2x2,level2=80MB/s:70us");
}

/* A slow port comes back with its group; blocks go on being blocks. */
static void test_ports_come_along(void **state)
{
    struct plan_scale scale = {.from = 8, .to = 32};
    struct model m;
    struct topo t;
    struct err err;

    (void)state;
    read_both(&m, &t, "2x2");
    t.port[1].out_Bps /= 10;
    struct plan_search asked = asked_of(&t, &m);
    assert_int_equal(plan_scale_run(&scale, &asked, &err), 0);
    assert_int_equal(scale.points, 3);
    for (int n = 0; n < 3; n++) {
        struct plan_search whole;
        struct topo u;
        struct model other;
        char shape[16];
        snprintf(shape, sizeof shape, "%dx2", 4 << n);
        read_both(&other, &u, shape);
        for (int k = 1; k < u.groups.count; k += 2)
            u.port[k].out_Bps /= 10;
        whole = asked_of(&u, &other);
        assert_int_equal(plan_search(&whole, &err), 0);
        for (int i = 0; i < PLAN_STRATEGIES; i++)
            assert_true(scale.point[n].search.list[i].step_s == whole.list[i].step_s);
        model_release(&other);
        topo_release(&u);
    }
    model_release(&m);
    topo_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_described),
        cmocka_unit_test(test_ports_come_along),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
