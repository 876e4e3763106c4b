/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes and releases plans, and names strategies.  Leaves text to plan_text.c. */
#include "plan/plan.h"

#include <assert.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/num.h"
#include "plan/plan_deal.h"
#include "topo/topo_print.h"

static const struct {
    const char *alias, *triple;
} aliases[] = {
    {"ddp", "NNN"},  {"zero1", "NNG"}, {"zero2", "NGG"}, {"zero3", "GGG"},
    {"fsdp", "GGG"}, {"hsdp", "III"},  {"mics", "III"},  {"hfsdp", "IIG"},
};

struct plan_strategy plan_strategy_at(int index)
{
    assert(index >= 0 && index < PLAN_STRATEGIES);
    return (struct plan_strategy){(enum letter)(index / 9), (enum letter)(index / 3 % 3),
                                  (enum letter)(index % 3)};
}

int plan_strategy_index(struct plan_strategy s)
{
    return (int)s.params * 9 + (int)s.grads * 3 + (int)s.optimizer;
}

int plan_strategy_kept(struct plan_strategy s)
{
    return s.optimizer >= s.params && s.optimizer >= s.grads;
}

const char *plan_strategy_name(struct plan_strategy s)
{
    static const char names[PLAN_STRATEGIES][4] = {
        "NNN", "NNI", "NNG", "NIN", "NII", "NIG", "NGN", "NGI", "NGG",
        "INN", "INI", "ING", "IIN", "III", "IIG", "IGN", "IGI", "IGG",
        "GNN", "GNI", "GNG", "GIN", "GII", "GIG", "GGN", "GGI", "GGG"};

    return names[plan_strategy_index(s)];
}

int plan_algo_parse(const char *text, enum schedule_algo *out, struct err *err)
{
    static const enum schedule_algo priced[] = {SCHEDULE_RING, SCHEDULE_TWO_LEVEL,
                                                SCHEDULE_HO_RING, SCHEDULE_AUTO};

    for (size_t i = 0; i < sizeof priced / sizeof *priced; i++) {
        if (strcmp(text, schedule_algo_name(priced[i])) == 0) {
            *out = priced[i];
            return 0;
        }
    }
    return err_set(err, ERR_INPUT, "algorithm '%s', expected ring, two-level, ho-ring or auto",
                   text);
}

const char *plan_device_name(enum device_kind device)
{
    return device == DEVICE_CPU ? "cpu" : "cuda";
}

int plan_device_parse(const char *text, enum device_kind *out, struct err *err)
{
    if (strcmp(text, "cpu") != 0 && strcmp(text, "cuda") != 0)
        return err_set(err, ERR_INPUT, "'%s', expected cpu or cuda", text);
    *out = strcmp(text, "cuda") == 0 ? DEVICE_CUDA : DEVICE_CPU;
    return 0;
}

int plan_keep_parse(const char *text, int *out, struct err *err)
{
    int64_t uses = PLAN_KEEP_ALL;
    struct err ignored;

    if (strcmp(text, "all") != 0 && num_i64(text, 0, PLAN_KEEP_ALL - 1, &uses, &ignored))
        return err_set(err, ERR_INPUT, "'%s', expected a whole number from 0 to %d, or all",
                       text, PLAN_KEEP_ALL - 1);
    *out = (int)uses;
    return 0;
}

int plan_outer_parse(const char *text, enum letter *out, struct err *err)
{
    if (strlen(text) != 1 || letter_parse(text[0], out) || *out == LETTER_N)
        return err_set(err, ERR_INPUT, "'%s', expected I or G", text);
    return 0;
}

int plan_strategy_parse(const char *text, struct plan_strategy *out, struct err *err)
{
    struct plan_strategy s;
    const char *triple = text;

    for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
        if (strcasecmp(text, aliases[i].alias) == 0)
            triple = aliases[i].triple;
    if (strlen(triple) != 3 || letter_parse(triple[0], &s.params) ||
        letter_parse(triple[1], &s.grads) || letter_parse(triple[2], &s.optimizer))
        return err_set(
            err, ERR_INPUT,
            "'%s', expected three letters N, I or G (parameters, gradients, optimizer "
            "state), or ddp zero1 zero2 zero3 fsdp hsdp mics hfsdp",
            text);
    *out = s;
    return 0;
}

void plan_init(struct plan *p, const struct plan_search *s, struct model *model)
{
    const struct plan_case *c = &s->at;
    int g = c->topo->groups.count;

    assert(s->best >= 0);
    *p = (struct plan){
        .strategy = s->list[s->best].strategy,
        .algo = s->list[s->best].algo,
        .model = *model,
        .settings = c->settings,
        .price = s->list[s->best],
        .group_level = plan_search_level(s),
        .checkpoint = s->checkpoint,
    };
    p->global_batch = plan_sequences(&c->settings, c->topo->groups.ranks);
    int equal, *counts = plan_case_counts(c, &equal);
    p->counts = p->own_counts = equal ? NULL : counts;
    mem_free(equal ? counts : NULL);
    p->price.dominated_by = -1;
    if (!plan_apart(&p->settings, &c->topo->groups)) /* one group has none to meet */
        p->sync_every = p->fragments = 0;
    p->outer = p->sync_every ? plan_outer(&c->settings) : LETTER_N;
    memcpy(p->doubt, c->topo->doubt, sizeof p->doubt);
    *model = (struct model){0};
    groups_copy(&p->groups, &c->topo->groups);
    p->host = mem_new((size_t)g, sizeof *p->host);
    for (int k = 0; k < g; k++)
        p->host[k] = mem_dup(c->topo->host && c->topo->host[k] ? c->topo->host[k] : "");
    size_t bytes;
    FILE *f = mem_stream(&p->fabric, &bytes);
    topo_print_yaml(c->topo, f);
    fclose(f);
}

void plan_case_of(const struct plan *p, const struct topo *topo, struct plan_case *out)
{
    plan_case_init(out, topo, &p->model);
    out->settings = p->settings;
}

void plan_release(struct plan *p)
{
    for (int k = 0; p->host && k < p->groups.count; k++)
        mem_free(p->host[k]);
    MEM_FREE(p->host, p->fabric, p->own_counts);
    groups_release(&p->groups);
    model_release(&p->model);
    *p = (struct plan){0};
}
