/* SPDX-License-Identifier: BSD-3-Clause */
/* Which strategy stands for another, and what the three tools can run on which groups. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/emit.h"
#include "plan_fixture.h"

static const double GB = 1e9;

static int index_of(const char *name)
{
    struct plan_strategy s;
    struct err err;

    assert_int_equal(plan_strategy_parse(name, &s, &err), 0);
    return s.params * 9 + s.grads * 3 + s.optimizer;
}

/* The nearest to `name` under a memory of a rank. */
static void expect(const char *shape, double memory, const char *name, enum plan_target target,
                   const char *nearest)
{
    struct model m = bare(65.286e9);
    struct plan_search s;
    struct topo t;
    struct err err;

    make_topo(&t, shape, 200e9, 25e9);
    s = (struct plan_search){.at = table_case(&t, &m, 4, 1), .fixed = 1};
    s.at.memory_bytes = memory;
    s.strategy = plan_strategy_at(index_of(name));
    assert_int_equal(plan_search(&s, &err), 0);
    s.best = s.best < 0 ? s.closest : s.best;
    int found = plan_emit_nearest(&s, target);
    if (found != index_of(nearest))
        fail_msg("%s on %s, target %d: index %d, expected %s", name, shape, target, found,
                 nearest);
    drop_topo(&t);
}

static void test_nearest(void **state)
{
    (void)state;
    expect("8x8", 0, "IIG", PLAN_MEGATRON, "IIG");
    expect("8x8", 0, "IIG", PLAN_DEEPSPEED, "III");       /* one step; GGG is two */
    expect("8x8", 80 * GB, "IIG", PLAN_DEEPSPEED, "GGG"); /* III has no room */
    expect("8x8", 80 * GB, "IIG", PLAN_FSDP, "GGG");
    expect("8x8", 80 * GB, "IIG", PLAN_MEGATRON, "IIG");
    expect("8x8", 0, "GNG", PLAN_FSDP, "GNG");
    expect("8x8", 0, "INI", PLAN_FSDP, "INI");
    expect("8x8", 0, "NIG", PLAN_DEEPSPEED, "NNG");       /* NGG is as near, and slower */
    expect("8x8", 10 * GB, "IIG", PLAN_DEEPSPEED, "GGG"); /* nothing fits: the least */
    for (int target = 0; target < PLAN_TARGETS; target++)
        for (int i = 0; i < 4; i++) {
            static const char *const all[] = {"NNN", "NNG", "NGG", "GGG"};
            expect("8x8", 0, all[i], (enum plan_target)target, all[i]);
            expect("[8,8,7]", 0, all[i], (enum plan_target)target, all[i]);
        }
    /* Ragged groups are no mesh; in one group I is G, with one rank in each it is N. */
    expect("[8,8,7]", 0, "III", PLAN_FSDP, "NNN"); /* all are three steps off */
    expect("1x8", 0, "IIG", PLAN_DEEPSPEED, "IIG");
    expect("8x1", 0, "IIG", PLAN_DEEPSPEED, "IIG");
}

static char *text_of(const char *shape, const char *name, enum plan_target target)
{
    struct model m = bare(7e9);
    struct plan_search s;
    struct topo t;
    struct err err;
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);

    make_topo(&t, shape, 200e9, 25e9);
    s = (struct plan_search){.at = table_case(&t, &m, 4, 1), .fixed = 1};
    s.strategy = plan_strategy_at(index_of(name));
    assert_int_equal(plan_search(&s, &err), 0);
    plan_emit(&s, target, f);
    fclose(f);
    drop_topo(&t);
    return text;
}

/* What tells one strategy from another in each tool, and what must not be there. */
static void test_words(void **state)
{
    static const struct {
        const char *shape, *name;
        enum plan_target target;
        const char *has, *lacks;
    } cases[] = {
        {"4x8", "NNN", PLAN_DEEPSPEED, "\"stage\": 0", "mics"},
        {"4x8", "NNG", PLAN_DEEPSPEED, "\"stage\": 1", "mics"},
        {"4x8", "NGG", PLAN_DEEPSPEED, "\"stage\": 2", "mics"},
        {"4x8", "GGG", PLAN_DEEPSPEED, "\"stage\": 3", "mics"},
        {"4x8", "III", PLAN_DEEPSPEED, "\"mics_shard_size\": 8", "cannot"},
        {"1x8", "III", PLAN_DEEPSPEED, "\"stage\": 3", "mics"},
        {"4x8", "GGG", PLAN_DEEPSPEED, "\"train_batch_size\": 128", "cannot"},
        {"4x8", "NNN", PLAN_FSDP, "no_sync()", "fully_shard"},
        {"4x8", "NNG", PLAN_FSDP, "set_requires_gradient_sync(last)", "all_reduce"},
        {"4x8", "NNG", PLAN_FSDP, "set_reshard_after_backward(last)", "replicate"},
        {"4x8", "NGG", PLAN_FSDP, "set_reshard_after_backward(last)", "gradient_sync"},
        {"4x8", "GNG", PLAN_FSDP, "set_requires_gradient_sync(last)", "after_backward"},
        {"4x8", "GGG", PLAN_FSDP, "(32,), mesh_dim_names=(\"shard\",)", "last"},
        {"4x8", "III", PLAN_FSDP, "(4, 8), mesh_dim_names=(\"replicate\", \"shard\")", "sync("},
        {"4x8", "III", PLAN_FSDP, "set_requires_all_reduce(last)", "after_backward"},
        {"4x8", "NII", PLAN_FSDP, "set_reshard_after_backward(last)", "gradient_sync"},
        {"1x8", "III", PLAN_FSDP, "(8,)", "replicate"},
        {"4x8", "NNN", PLAN_MEGATRON, "--overlap-grad-reduce\n", "distributed-optimizer"},
        {"4x8", "NNG", PLAN_MEGATRON, "--use-distributed-optimizer\n", "instances"},
        {"4x8", "NNI", PLAN_MEGATRON, "--num-distributed-optimizer-instances 4\n", "fsdp"},
        {"4x8", "NII", PLAN_MEGATRON, "strategy optim_grads\n", "strategy optim\n"},
        {"4x8", "GGG", PLAN_MEGATRON, "strategy optim_grads_params\n", "instances"},
        {"4x8", "III", PLAN_MEGATRON, "--outer-dp-sharding-strategy no_shard\n", "cannot"},
        {"4x8", "IIG", PLAN_MEGATRON, "--outer-dp-sharding-strategy optim\n", "cannot"},
        {"1x8", "IIG", PLAN_MEGATRON, "strategy optim_grads_params\n", "outer"},
        {"4x8", "IGG", PLAN_MEGATRON, "chose IGG, which Megatron cannot run", "DOES NOT"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = text_of(cases[i].shape, cases[i].name, cases[i].target);
        if (!strstr(text, cases[i].has) || strstr(text, cases[i].lacks))
            fail_msg("%s on %s: expected '%s' and no '%s' in\n%s", cases[i].name,
                     cases[i].shape, cases[i].has, cases[i].lacks, text);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
