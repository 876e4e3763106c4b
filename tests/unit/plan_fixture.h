/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAN_FIXTURE_H
#define PLAN_FIXTURE_H

/* Makes fabrics and models by hand, for the planner's tests. */
#include <math.h>

#include "base/mem.h"
#include "plan/plan.h"

/* A fabric by hand: `share` is B' = one member's rate inside, `port` R_k, no latency. */
static inline void make_topo(struct topo *t, const char *shape, double share, double port)
{
    *t = (struct topo){.levels = 2};
    assert_ok(groups_parse(&t->groups, shape, &err));
    t->level = mem_new(2, sizeof *t->level);
    t->level[0] = (struct topo_level){
        .name = "intra", .port_Bps = share, .flow_Bps = share, .member_Bps = share};
    t->level[1] = (struct topo_level){
        .name = "inter", .port_Bps = port, .flow_Bps = port, .member_Bps = port};
    t->port = mem_new((size_t)t->groups.count, sizeof *t->port);
    for (int k = 0; k < t->groups.count; k++)
        t->port[k] = (struct topo_port){port, port};
}

static inline void drop_topo(struct topo *t)
{
    mem_free(t->level);
    mem_free(t->port);
    groups_release(&t->groups);
}

static inline struct model bare(double params)
{
    return (struct model){
        .family = &model_family_params, .params = (int64_t)params, .trained = (int64_t)params};
}

/* As the tables of paro-method(7), MEMORY, count: two bytes each, two-level collectives. */
static inline struct plan_case table_case(const struct topo *t, const struct model *m,
                                          int accum, double part)
{
    struct plan_case c;

    plan_case_init(&c, t, m);
    c.accum = accum;
    c.algo = SCHEDULE_TWO_LEVEL;
    c.grad_type = DTYPE_BF16;
    c.trainable = llround((double)m->params * part);
    return c;
}

/* Place of a strategy in the list. */
static inline int index_of(const char *triple)
{
    struct plan_strategy s;

    if (strlen(triple) != 3 || plan_strategy_parse(triple, &s, &err))
        fail_msg("no strategy %s", triple);
    return s.params * 9 + s.grads * 3 + s.optimizer;
}

/* A Llama of four layers; tied: its embeddings. */
static inline struct model tiny_llama(int tied)
{
    char text[512];
    struct model m = {0};
    int n = snprintf(text, sizeof text,
                     "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\","
                     "\"vocab_size\": 256, \"hidden_size\": 64, \"intermediate_size\": 160,"
                     "\"num_hidden_layers\": 4, \"num_attention_heads\": 4,"
                     "\"num_key_value_heads\": 2, \"max_position_embeddings\": 512,"
                     "\"tie_word_embeddings\": %s, \"torch_dtype\": \"bfloat16\"}",
                     tied ? "true" : "false");

    assert_ok(model_parse(&m, "tiny", text, n, &err));
    return m;
}

static inline struct plan_search search_of(const struct plan_case *c)
{
    struct plan_search s = {.at = *c};

    assert_ok(plan_search(&s, &err));
    return s;
}

#endif
