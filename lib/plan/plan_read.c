/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how a plan is read (paro-plan/1, paro-plan(5)): strictly, so that what is accepted
 * prints back as it was.
 */
#include "plan/plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/yaml.h"

enum { NUMBER_MAX = 64, HOST_MAX = 255, TRAINS_MAX = 1 << 16 };

struct doc_group {
    char *host;
    char **ranks;
    unsigned ranks_count;
};

struct doc_memory {
    char *params, *grads, *optimizer, *activations, *buffers, *total;
};

struct doc_predicted {
    struct doc_memory memory_bytes;
    char *slow_bytes, *slow_rank_bytes, *fast_bytes, *compute_s, *comm_s, *step_s,
        *tokens_per_s, *checkpoint_bytes, *checkpoint_rank_bytes, *checkpoint_s, *rates_of;
};

struct doc_types {
    char *params, *wire, *grads, *compute, *slow_params, *slow_grads;
};

struct doc_model {
    char *params, *trains, *config;
};

struct doc {
    char *format, *strategy, *algo, *micro_batch, *accum, *seq, *trainable;
    struct doc_types types;
    char *prefetch, *buckets, *keep, *recompute, *chunk_bytes, *device;
    struct doc_predicted predicted;
    char *group_level, *fabric;
    struct doc_group *groups;
    unsigned groups_count;
    struct doc_model model;
};

#define TEXT(key, type, field)                                                                 \
    CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_POINTER, type, field, 0, NUMBER_MAX)
/* What older plans lack: NULL. */
#define MAYBE(key, type, field)                                                                \
    CYAML_FIELD_STRING_PTR(key, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, type, field, 0,      \
                           NUMBER_MAX)

static const cyaml_schema_value_t rank_schema = {
    CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char *, 0, NUMBER_MAX)};
static const cyaml_schema_field_t group_fields[] = {
    CYAML_FIELD_STRING_PTR("host", CYAML_FLAG_POINTER, struct doc_group, host, 0, HOST_MAX),
    CYAML_FIELD_SEQUENCE("ranks", CYAML_FLAG_POINTER, struct doc_group, ranks, &rank_schema, 1,
                         GROUPS_RANKS_MAX),
    CYAML_FIELD_END};
static const cyaml_schema_value_t group_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct doc_group, group_fields)};
static const cyaml_schema_field_t memory_fields[] = {
    TEXT("params", struct doc_memory, params),
    TEXT("grads", struct doc_memory, grads),
    TEXT("optimizer", struct doc_memory, optimizer),
    TEXT("activations", struct doc_memory, activations),
    TEXT("buffers", struct doc_memory, buffers),
    TEXT("total", struct doc_memory, total),
    CYAML_FIELD_END};
static const cyaml_schema_field_t predicted_fields[] = {
    CYAML_FIELD_MAPPING("memory_bytes", CYAML_FLAG_DEFAULT, struct doc_predicted, memory_bytes,
                        memory_fields),
    TEXT("slow_bytes", struct doc_predicted, slow_bytes),
    TEXT("slow_bytes_per_rank", struct doc_predicted, slow_rank_bytes),
    TEXT("fast_bytes", struct doc_predicted, fast_bytes),
    MAYBE("compute_s", struct doc_predicted, compute_s),
    TEXT("comm_s", struct doc_predicted, comm_s),
    TEXT("step_s", struct doc_predicted, step_s),
    MAYBE("tokens_per_s", struct doc_predicted, tokens_per_s),
    MAYBE("checkpoint_bytes", struct doc_predicted, checkpoint_bytes),
    MAYBE("checkpoint_rank_bytes", struct doc_predicted, checkpoint_rank_bytes),
    MAYBE("checkpoint_s", struct doc_predicted, checkpoint_s),
    MAYBE("rates_of", struct doc_predicted, rates_of),
    CYAML_FIELD_END};
static const cyaml_schema_field_t types_fields[] = {
    TEXT("params", struct doc_types, params),
    TEXT("wire", struct doc_types, wire),
    TEXT("grads", struct doc_types, grads),
    MAYBE("compute", struct doc_types, compute),
    MAYBE("slow_params", struct doc_types, slow_params),
    MAYBE("slow_grads", struct doc_types, slow_grads),
    CYAML_FIELD_END};
static const cyaml_schema_field_t model_fields[] = {
    MAYBE("params", struct doc_model, params),
    CYAML_FIELD_STRING_PTR("trains", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct doc_model,
                           trains, 0, TRAINS_MAX),
    CYAML_FIELD_STRING_PTR("config", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct doc_model,
                           config, 0, YAML_BYTES_MAX),
    CYAML_FIELD_END};
static const cyaml_schema_field_t doc_fields[] = {
    TEXT("format", struct doc, format),
    TEXT("strategy", struct doc, strategy),
    TEXT("algo", struct doc, algo),
    TEXT("micro_batch", struct doc, micro_batch),
    TEXT("accum", struct doc, accum),
    TEXT("seq", struct doc, seq),
    TEXT("trainable", struct doc, trainable),
    CYAML_FIELD_MAPPING("types", CYAML_FLAG_DEFAULT, struct doc, types, types_fields),
    TEXT("prefetch", struct doc, prefetch),
    MAYBE("buckets", struct doc, buckets),
    MAYBE("keep", struct doc, keep),
    MAYBE("recompute", struct doc, recompute),
    TEXT("chunk_bytes", struct doc, chunk_bytes),
    MAYBE("device", struct doc, device),
    CYAML_FIELD_MAPPING("predicted", CYAML_FLAG_DEFAULT, struct doc, predicted,
                        predicted_fields),
    MAYBE("group_level", struct doc, group_level),
    CYAML_FIELD_STRING_PTR("fabric", CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct doc,
                           fabric, 0, YAML_BYTES_MAX),
    CYAML_FIELD_SEQUENCE("groups", CYAML_FLAG_POINTER, struct doc, groups, &group_schema, 1,
                         GROUPS_RANKS_MAX),
    CYAML_FIELD_MAPPING("model", CYAML_FLAG_DEFAULT, struct doc, model, model_fields),
    CYAML_FIELD_END};
static const cyaml_schema_value_t schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct doc, doc_fields)};

static int take_words(struct plan *p, const struct yaml *y, const struct doc *doc,
                      struct err *err)
{
    struct err why;
    const struct {
        const char *key, *text;
        enum dtype *to;
    } types[] = {{"types.params", doc->types.params, &p->param_type},
                 {"types.wire", doc->types.wire, &p->wire_type},
                 {"types.grads", doc->types.grads, &p->grad_type},
                 {"types.compute", doc->types.compute, &p->compute_type}};
    const struct {
        const char *key, *text;
        enum plan_slow *to;
    } slow[] = {{"types.slow_params", doc->types.slow_params, &p->slow_params},
                {"types.slow_grads", doc->types.slow_grads, &p->slow_grads}};

    if (plan_strategy_parse(doc->strategy, &p->strategy, &why))
        return yaml_fail(y, "strategy", err, "is %s", why.text);
    if (plan_algo_parse(doc->algo, &p->algo, &why) || p->algo == SCHEDULE_AUTO)
        return yaml_fail(y, "algo", err, "is '%s', expected ring, two-level or ho-ring",
                         doc->algo);
    for (int i = 0; i < 4; i++)
        if (types[i].text && dtype_parse_compute(types[i].text, types[i].to, &why))
            return yaml_fail(y, types[i].key, err, "is %s", why.text);
    for (int i = 0; i < 2; i++)
        if (slow[i].text && plan_slow_parse(slow[i].text, slow[i].to, &why))
            return yaml_fail(y, slow[i].key, err, "is %s", why.text);
    if (doc->keep && plan_keep_parse(doc->keep, &p->keep, &why))
        return yaml_fail(y, "keep", err, "is %s", why.text);
    if (doc->device && plan_device_parse(doc->device, &p->device, &why))
        return yaml_fail(y, "device", err, "is %s", why.text);
    if (doc->recompute && strcmp(doc->recompute, "yes") != 0 &&
        strcmp(doc->recompute, "no") != 0)
        return yaml_fail(y, "recompute", err, "is '%s', expected yes or no", doc->recompute);
    p->recompute = doc->recompute && strcmp(doc->recompute, "yes") == 0;
    return 0;
}

/* "cpu f32" */
static int take_rates(struct plan *p, const struct yaml *y, const char *text, struct err *err)
{
    char device[PLAN_RATES_OF], type[PLAN_RATES_OF];
    enum device_kind kind;
    enum dtype dtype;
    struct err why;
    int end = 0;

    if (!text)
        return 0;
    if (strlen(text) >= PLAN_RATES_OF || sscanf(text, "%15s %15s%n", device, type, &end) != 2 ||
        text[end] || plan_device_parse(device, &kind, &why) ||
        dtype_parse_compute(type, &dtype, &why))
        return yaml_fail(y, "predicted.rates_of", err,
                         "is '%s', expected a device and a type, as cpu f32", text);
    strcpy(p->rates_of, text);
    return 0;
}

static int take_numbers(struct plan *p, const struct yaml *y, const struct doc *doc,
                        struct err *err)
{
    const struct {
        const char *key, *text;
        int64_t lo, hi;
        int *to;
    } counts[] = {
        {"micro_batch", doc->micro_batch, 1, PLAN_BATCH_MAX, &p->micro_batch},
        {"accum", doc->accum, 1, PLAN_BATCH_MAX, &p->accum},
        {"seq", doc->seq, 1, PLAN_SEQ_MAX, &p->seq},
        {"prefetch", doc->prefetch, 0, PLAN_PREFETCH_MAX, &p->prefetch},
        {"buckets", doc->buckets, 1, PLAN_BUCKETS_MAX, &p->buckets},
        {"group_level", doc->group_level, 0, TOPO_LEVELS_MAX - 2, &p->group_level},
    };
    int64_t v;

    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        if (!counts[i].text) /* may be absent: the default is there */
            continue;
        if (yaml_i64(y, counts[i].key, counts[i].text, counts[i].lo, counts[i].hi, &v, err))
            return -1;
        *counts[i].to = (int)v;
    }
    return yaml_i64(y, "chunk_bytes", doc->chunk_bytes, 1, PLAN_CHUNK_MAX, &p->chunk_bytes,
                    err);
}

static int take_predicted(struct plan_price *p, struct plan_checkpoint *c, const struct yaml *y,
                          const struct doc_predicted *doc, struct err *err)
{
    const struct doc_memory *m = &doc->memory_bytes;
    const struct {
        const char *key, *text;
        double *to;
    } numbers[] = {
        {"predicted.memory_bytes.params", m->params, &p->memory.params},
        {"predicted.memory_bytes.grads", m->grads, &p->memory.grads},
        {"predicted.memory_bytes.optimizer", m->optimizer, &p->memory.optimizer},
        {"predicted.memory_bytes.activations", m->activations, &p->memory.activations},
        {"predicted.memory_bytes.buffers", m->buffers, &p->memory.buffers},
        {"predicted.memory_bytes.total", m->total, &p->memory.total},
        {"predicted.slow_bytes", doc->slow_bytes, &p->slow_bytes},
        {"predicted.slow_bytes_per_rank", doc->slow_rank_bytes, &p->slow_rank_bytes},
        {"predicted.fast_bytes", doc->fast_bytes, &p->fast_bytes},
        {"predicted.compute_s", doc->compute_s, &p->compute_s},
        {"predicted.comm_s", doc->comm_s, &p->comm_s},
        {"predicted.step_s", doc->step_s, &p->step_s},
        {"predicted.tokens_per_s", doc->tokens_per_s, &p->tokens_per_s},
        {"predicted.checkpoint_bytes", doc->checkpoint_bytes, &c->bytes},
        {"predicted.checkpoint_rank_bytes", doc->checkpoint_rank_bytes, &c->rank_bytes},
        {"predicted.checkpoint_s", doc->checkpoint_s, &c->s},
    };

    p->tokens_per_s = NAN; /* unknown, when absent */
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].text && /* may be absent */
            yaml_f64(y, numbers[i].key, numbers[i].text, 0, 1e30, numbers[i].to, err))
            return -1;
    return 0;
}

/* group_of[] from the lists: every rank once, ascending in its group. */
static int take_ranks(int *group_of, int ranks, const struct yaml *y, const struct doc *doc,
                      struct err *err)
{
    char key[64];

    for (int r = 0; r < ranks; r++)
        group_of[r] = -1;
    for (unsigned k = 0; k < doc->groups_count; k++) {
        int64_t before = -1, rank;
        for (unsigned j = 0; j < doc->groups[k].ranks_count; j++, before = rank) {
            snprintf(key, sizeof key, "groups[%u].ranks[%u]", k, j);
            if (yaml_i64(y, key, doc->groups[k].ranks[j], 0, ranks - 1, &rank, err))
                return -1;
            if (group_of[rank] >= 0)
                return yaml_fail(y, key, err, "is rank %" PRId64 ", which group %d has already",
                                 rank, group_of[rank]);
            if (rank < before)
                return yaml_fail(y, key, err,
                                 "is rank %" PRId64 " after %" PRId64
                                 ", expected ascending ranks",
                                 rank, before);
            group_of[rank] = (int)k;
        }
    }
    return 0;
}

static int take_groups(struct plan *p, const struct yaml *y, const struct doc *doc,
                       struct err *err)
{
    int64_t ranks = 0;

    for (unsigned k = 0; k < doc->groups_count; k++)
        ranks += doc->groups[k].ranks_count;
    if (ranks > GROUPS_RANKS_MAX)
        return yaml_fail(y, "groups", err, "have %" PRId64 " ranks, expected at most %d", ranks,
                         GROUPS_RANKS_MAX);
    int *group_of = mem_new((size_t)ranks, sizeof *group_of);
    int rc = take_ranks(group_of, (int)ranks, y, doc, err);
    if (rc == 0)
        rc = groups_init_of(&p->groups, (int)ranks, group_of, err);
    mem_free(group_of);
    if (rc)
        return -1;
    p->host = mem_new(doc->groups_count, sizeof *p->host);
    for (unsigned k = 0; k < doc->groups_count; k++)
        p->host[k] = mem_dup(doc->groups[k].host);
    return 0;
}

static int take_model(struct plan *p, const struct yaml *y, const struct doc *doc,
                      struct err *err)
{
    const struct doc_model *m = &doc->model;
    char text[NUMBER_MAX + 8];
    struct err why;

    if (!m->params == !m->config)
        return yaml_fail(y, "model", err, "has %s, expected 'config' or 'params'",
                         m->params ? "both" : "neither");
    if (m->params && m->trains)
        return yaml_fail(y, "model.trains", err, "is given with 'params', expected 'config'");
    if (m->params) {
        snprintf(text, sizeof text, "params=%s", m->params);
        if (model_read(&p->model, text, &why))
            return yaml_fail(y, "model.params", err, "is wrong: %s", why.text);
    } else {
        int64_t bytes = (int64_t)strlen(m->config);
        if (model_parse(&p->model, y->name, m->config, bytes, err))
            return err_prefix(err, "in the model's config of the plan: ");
        if (m->trains && model_train(&p->model, m->trains, &why))
            return yaml_fail(y, "model.trains", err, "is wrong: %s", why.text);
        if (p->seq > p->model.max_seq)
            return yaml_fail(y, "seq", err, "is %d, expected at most the model's %s, %" PRId64,
                             p->seq, model_max_seq_key(&p->model), p->model.max_seq);
        if (plan_check_bytes(&p->model, p->micro_batch, p->seq, &why))
            return yaml_fail(y, "micro_batch", err, "is too large: %s", why.text);
    }
    return yaml_i64(y, "trainable", doc->trainable, 1, p->model.params, &p->trainable, err);
}

int plan_fabric(const struct plan *p, struct topo *out, struct err *err)
{
    struct yaml y;

    if (!p->fabric)
        return err_set(err, ERR_ABSENT, "the plan does not carry its fabric");
    yaml_take(&y, "fabric", mem_dup(p->fabric), (int64_t)strlen(p->fabric));
    int rc = topo_parse_yaml(out, &y, err);
    yaml_release(&y);
    return rc;
}

/* A topology of the plan's groups. */
static int take_fabric(struct plan *p, const struct yaml *y, const struct doc *doc,
                       struct err *err)
{
    struct topo t = {0};
    struct err why;

    if (!doc->fabric)
        return 0;
    p->fabric = mem_dup(doc->fabric);
    if (plan_fabric(p, &t, &why))
        return yaml_fail(y, "fabric", err, "is wrong: %s", why.text);
    int same = groups_equal(&t.groups, &p->groups);
    topo_release(&t);
    if (!same)
        return yaml_fail(y, "fabric", err, "has other groups than the plan");
    return 0;
}

static int read_doc(struct plan *p, const struct yaml *y, struct err *err)
{
    struct plan new = {.buckets = PLAN_BUCKETS,
                       .group_level = -1,
                       .price = {.feasible = 1, .dominated_by = -1}};
    struct doc *doc = NULL;

    if (yaml_format(y, "paro-plan/1", err) || yaml_load(y, &schema, (void **)&doc, err))
        return -1;
    int rc = take_words(&new, y, doc, err) || take_numbers(&new, y, doc, err) ||
             take_predicted(&new.price, &new.checkpoint, y, &doc->predicted, err) ||
             take_rates(&new, y, doc->predicted.rates_of, err) ||
             take_groups(&new, y, doc, err) || take_fabric(&new, y, doc, err) ||
             take_model(&new, y, doc, err);
    yaml_drop(&schema, doc);
    if (rc) {
        plan_release(&new);
        return -1;
    }
    new.price.strategy = new.strategy;
    new.price.algo = new.algo;
    *p = new;
    return 0;
}

int plan_read(struct plan *p, const char *path, struct err *err)
{
    struct yaml y;

    if (yaml_read(&y, path, err))
        return -1;
    int rc = read_doc(p, &y, err);
    yaml_release(&y);
    return rc;
}

int plan_parse(struct plan *p, const char *name, const char *text, int64_t bytes,
               struct err *err)
{
    struct yaml y;
    char *copy = mem_new((size_t)bytes + 1, 1);

    memcpy(copy, text, (size_t)bytes);
    yaml_take(&y, name, copy, bytes);
    int rc = read_doc(p, &y, err);
    yaml_release(&y);
    return rc;
}
