/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Feeds bytes to the readers of option values: the first byte selects the reader.
 *
 *     g4x8                    groups             w1,0.5                  weights of data sets
 *     s2x2,intra=1GB/s:1us    synth:, a fabric   c1..8                   --scale
 *     vinter=25GB/s:12us      --set, of one      oall-gather             operations
 *     hn[0-3],b               host names         mlora=2,targets=c_attn  --trainable
 *                                                pIIG                    --strategy
 *
 * An option is named by who reads it, so that of an error its text alone is asked for.
 */
#include "reader_fuzz.h"

#include <float.h>
#include <math.h>

#include "base/groups.h"
#include "data/data.h"
#include "model/model.h"
#include "pick/pick_auto.h"
#include "plan/plan_price.h"
#include "plan/plan_scale.h"
#include "topo/topo_given.h"
#include "topo/topo_machine.h"

/* Larger ones take longer, and there is no more to see. */
enum { RANKS_MAX = 256, TEXT_MAX = 512 };

/* A number of so many digits: a million ranks or hosts take their time. */
static int is_large(const char *text, size_t digits)
{
    for (; *text; text++) {
        size_t n = strspn(text, "0123456789");
        if (n >= digits)
            return 1;
        text += n ? n - 1 : 0;
    }
    return 0;
}

static int judge(int rc, const struct err *err)
{
    assert(rc == 0 || (rc == -1 && err->code == ERR_INPUT && err->text[0]));
    return rc == 0;
}

static int read_groups(const char *text)
{
    struct groups g = {0}, back = {0};
    struct err err = {0};
    char shape[4096];

    if (is_large(text, 5) || !judge(groups_parse(&g, text, &err), &err))
        return 0;
    assert(g.ranks > 0 && g.ranks <= GROUPS_RANKS_MAX && g.first[g.count] == g.ranks);
    groups_print(&g, shape, sizeof shape);
    if (g.ranks <= RANKS_MAX) {
        int rc = groups_parse(&back, shape, &err);
        assert(rc == 0 && groups_equal(&g, &back));
        groups_release(&back);
    }
    groups_release(&g);
    return 1;
}

static char *print_topo(const struct topo *t, size_t *bytes)
{
    struct err err;
    char *text = NULL;
    FILE *f = mem_stream(&text, bytes);

    int rc = topo_print(t, TOPO_YAML, f, &err);
    assert(rc == 0);
    fclose(f);
    return text;
}

/* A fabric is the one that its YAML says. */
static void check_topo(struct topo *t)
{
    static const struct topo_settings none;
    struct topo back = {0};
    struct err err = {0};
    size_t bytes = 0, again_bytes = 0;

    if (t->groups.ranks > RANKS_MAX)
        return;
    char *first = print_topo(t, &bytes);
    int rc = topo_import_text(&back, FUZZ_NAME, fuzz_copy(first, bytes), (int64_t)bytes, &none,
                              &err);
    assert(rc == 0);
    char *again = print_topo(&back, &again_bytes);
    fuzz_same(first, bytes, again, again_bytes);
    topo_release(&back);
}

/* What stands before the first "=", where rates begin. */
static const char *copy_shape(const char *text, char shape[TEXT_MAX])
{
    snprintf(shape, TEXT_MAX, "%.*s", (int)strcspn(text, "="), text);
    return shape;
}

static int read_synth(const char *text)
{
    char shape[TEXT_MAX];
    struct topo t = {0};
    struct err err = {0};

    if (is_large(copy_shape(text, shape), 5) || !judge(topo_parse_synth(&t, text, &err), &err))
        return 0;
    check_topo(&t);
    topo_release(&t);
    return 1;
}

static int read_given(const char *text)
{
    struct topo_given g = {0};
    struct topo t = {0};
    struct err err = {0};

    if (!judge(topo_given_parse(&g, text, &err), &err))
        return 0;
    for (int l = 0; l < TOPO_LEVELS_MAX; l++) {
        const struct topo_given_level *v = &g.level[l];
        assert(!v->has_rate || (v->rate_Bps > 0 && isfinite(v->rate_Bps)));
        assert(!v->has_latency || (v->latency_s >= 0 && isfinite(v->latency_s)));
    }
    int rc = topo_parse_synth(&t, "2x[2,1]", &err);
    assert(rc == 0);
    if (judge(topo_given_apply(&t, &g, 0, &err), &err))
        check_topo(&t);
    topo_release(&t);
    return 1;
}

static int read_hosts(const char *text)
{
    char **host = NULL;
    int count = 0;
    struct err err = {0};

    if (is_large(text, 4) || !judge(topo_hosts_parse(text, &host, &count, &err), &err))
        return 0;
    assert(count > 0 && count <= GROUPS_RANKS_MAX);
    for (int i = 0; i < count; i++)
        assert(host[i][0] && !strpbrk(host[i], " ,[]\n/"));
    topo_hosts_free(host, count);
    return 1;
}

static int read_weights(const char *text)
{
    double w[8];
    struct err err = {0};
    int count = 1;

    for (const char *p = text; *p; p++)
        count += *p == ',';
    if (count > 8 || !judge(data_weights_parse(text, count, w, &err), &err))
        return 0;
    for (int i = 0; i < count; i++)
        assert(w[i] > 0 && w[i] <= DBL_MAX);
    return 1;
}

static int read_scale(const char *text)
{
    int ranks[2] = {0};
    struct err err = {0};
    char back[32];

    if (!judge(plan_scale_parse(text, ranks, &err), &err))
        return 0;
    assert(ranks[0] >= 1 && ranks[1] >= ranks[0] && ranks[1] <= PLAN_SCALE_MAX);
    snprintf(back, sizeof back, "%d..%d", ranks[0], ranks[1]);
    assert(strcmp(text, back) == 0);
    return 1;
}

static int read_operations(const char *text)
{
    struct pick_query a;
    struct err err = {0};

    pick_query_init(&a);
    if (!judge(pick_query_parse(&a, text, &err), &err))
        return 0;
    assert(a.ops > 0 && a.ops <= PICK_OPS_MAX);
    for (int i = 0; i < a.ops; i++) {
        struct pick_word space;
        unsigned op = 0;
        int rc = pick_phases_parse(pick_phases_name(a.op[i], &space), &op, &err);
        assert(rc == 0 && op == a.op[i]);
    }
    return 1;
}

static int read_trained(const char *text)
{
    static const char config[] = "{\"model_type\":\"gpt2\",\"n_embd\":4,\"n_head\":1,"
                                 "\"n_layer\":2,\"vocab_size\":5,\"n_positions\":8}";
    struct model m = {0};
    struct err err = {0};
    int64_t trained = 0;
    int rc = model_parse(&m, "c", config, sizeof config - 1, &err);

    assert(rc == 0);
    int taken = judge(model_train(&m, text, &err), &err);
    for (int i = 0; taken && i < m.tensors; i++)
        trained += model_trains(&m, &m.tensor[i]) ? m.tensor[i].elems : 0;
    assert(!taken || (trained == m.trained && trained > 0 && trained <= m.params));
    model_release(&m);
    return taken;
}

static int read_strategy(const char *text)
{
    struct plan_strategy s, back;
    struct err err = {0};

    if (!judge(plan_strategy_parse(text, &s, &err), &err))
        return 0;
    int rc = plan_strategy_parse(plan_strategy_name(s), &back, &err);
    assert(rc == 0 && memcmp(&s, &back, sizeof s) == 0);
    return 1;
}

int reader_fuzz_case(const uint8_t *data, size_t bytes)
{
    static int (*const readers[256])(const char *) = {
        ['g'] = read_groups,     ['s'] = read_synth,   ['v'] = read_given,
        ['h'] = read_hosts,      ['w'] = read_weights, ['c'] = read_scale,
        ['o'] = read_operations, ['m'] = read_trained, ['p'] = read_strategy};

    if (bytes < 1 || bytes > TEXT_MAX || !readers[data[0]] || memchr(data, 0, bytes))
        return 0;
    char *text = fuzz_copy(data + 1, bytes - 1);
    int taken = readers[data[0]](text);
    mem_free(text);
    return taken;
}

FUZZ_SET(.name = "words", .longest = 256, .cases = 20000, .ends = ",=:[]+.x\n",
         .words = FUZZ_LIST("0", "-1", "1e99", "4x8", "[8,8,7]", "x", "[", "]", ",", "=", ":",
                            "1us", "1GB/s", "/rank", "..", "all", "lora=2", "*", "level9",
                            "memory", "+", "[0-99]", "all-reduce", "ddp"),
         .text = {FUZZ_TEXT("g4x8"), FUZZ_TEXT("g[3,2]"),
                  FUZZ_TEXT("s2x2,intra=1GB/s:1us,inter=25GB/s/rank:12us"),
                  FUZZ_TEXT("s4x[8,8,7],memory=80e9,flops=1e14"),
                  FUZZ_TEXT("vinter=25GB/s/rank:12us,memory=80e9,level2=:1us,nic=1gbit"),
                  FUZZ_TEXT("hnode[00-03,7].rack1,login"), FUZZ_TEXT("w1,0.5,2e3"),
                  FUZZ_TEXT("c16..4096"), FUZZ_TEXT("oall-gather,gather-across"),
                  FUZZ_TEXT("mlora=2,alpha=4,targets=c_attn+c_proj"),
                  FUZZ_TEXT("mtrain=*.1.*,*wte*"), FUZZ_TEXT("mfreeze=*[0-9]*"),
                  FUZZ_TEXT("pIIG"), FUZZ_TEXT("phfsdp")});
