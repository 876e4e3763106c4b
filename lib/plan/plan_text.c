/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads and writes a plan: paro-plan/1 (YAML, paro-plan(5)) and paro.plan/1 (JSON).  One table
 * of keys does both, strictly, so that every accepted plan prints back unchanged.
 */
#include "plan/plan.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "value/value_record.h"
#include "value/value_yaml.h"
#include "plan/plan_deal.h"
#include "plan/plan_traffic.h"

#define FORMAT "paro-plan/1"

enum { WORD_MAX = 64, HOST_MAX = 255, TRAINS_MAX = 1 << 16 };

/* A key for bytes, seconds and the like. */
#define NUMBER(type, member, key, ...)                                                         \
    RECORD_NUM(struct type, member, key, 0, 1e30, __VA_ARGS__)
#define PLAN(kind, member, ...) RECORD_##kind(struct plan, member, #member, __VA_ARGS__)
#define UNKNOWN_0               .flags = RECORD_OPTIONAL | RECORD_ZERO
#define OPTIONAL                .flags = RECORD_OPTIONAL

static const struct record memory_fields[] = {NUMBER(plan_memory, params, "params"),
                                              NUMBER(plan_memory, grads, "grads"),
                                              NUMBER(plan_memory, optimizer, "optimizer"),
                                              NUMBER(plan_memory, activations, "activations"),
                                              NUMBER(plan_memory, buffers, "buffers"),
                                              NUMBER(plan_memory, total, "total"),
                                              {0}};

#define SURVIVAL(member, most) RECORD_INT(struct plan_survival, member, #member, 0, most)
static const struct record survival_fields[] = {
    NUMBER(plan_survival, mtbf_s, "mtbf_s", UNKNOWN_0),
    SURVIVAL(nodes, GROUPS_RANKS_MAX),
    NUMBER(plan_survival, goodput, "goodput"),
    NUMBER(plan_survival, lost_share, "lost_share"),
    SURVIVAL(copies, PLAN_COPIES_MAX),
    SURVIVAL(local_every, INT32_MAX),
    SURVIVAL(save_every, INT32_MAX),
    NUMBER(plan_survival, local_pause_s, "local_pause_s"),
    NUMBER(plan_survival, pause_s, "pause_s"),
    NUMBER(plan_survival, local_restart_s, "local_restart_s"),
    NUMBER(plan_survival, restart_s, "restart_s"),
    NUMBER(plan_survival, copy_bytes, "copy_bytes"),
    NUMBER(plan_survival, copy_slow_bytes, "copy_slow_bytes"),
    {0}};

static const char *const price_of[] = {"host", "rank", NULL};
static const struct record budget_fields[] = {
    RECORD_INT(struct plan_budget, hosts, "hosts", 1, GROUPS_RANKS_MAX, OPTIONAL),
    NUMBER(plan_budget, tokens, "tokens", UNKNOWN_0),
    NUMBER(plan_budget, price, "price_per_h", UNKNOWN_0),
    RECORD(CHOICE, struct plan_budget, per_rank, "price_of", .words = price_of,
           .flags = RECORD_OPTIONAL | RECORD_BRIEF),
    RECORD(TEXT, struct plan_budget, currency, "currency", .lo = 1, OPTIONAL),
    NUMBER(plan_budget, hours, "hours", UNKNOWN_0),
    NUMBER(plan_budget, cost, "cost", UNKNOWN_0),
    NUMBER(plan_budget, million_cost, "cost_per_million_tokens", UNKNOWN_0),
    {0}};

static const struct record failure_fields[] = {
    RECORD(OBJECT, struct plan_price, survival, "failures", .of = survival_fields,
           .flags = RECORD_OPTIONAL | RECORD_ABSENT),
    RECORD(OBJECT, struct plan_price, budget, "budget", .of = budget_fields,
           .flags = RECORD_OPTIONAL | RECORD_ABSENT),
    {0}};

static const struct record price_fields[] = {
    RECORD(OBJECT, struct plan_price, memory, "memory_bytes", .of = memory_fields),
    NUMBER(plan_price, slow_bytes, "slow_bytes"),
    NUMBER(plan_price, slow_rank_bytes, "slow_bytes_per_rank"),
    NUMBER(plan_price, fast_bytes, "fast_bytes"),
    NUMBER(plan_price, compute_s, "compute_s", UNKNOWN_0),
    NUMBER(plan_price, comm_s, "comm_s"),
    NUMBER(plan_price, step_s, "step_s"),
    NUMBER(plan_price, bound_s, "bound_s", OPTIONAL),
    NUMBER(plan_price, tokens_per_s, "tokens_per_s", UNKNOWN_0),
    RECORD_PART(NULL, failure_fields),
    {0}};

static const struct record checkpoint_fields[] = {
    NUMBER(plan_checkpoint, bytes, "checkpoint_bytes", UNKNOWN_0),
    NUMBER(plan_checkpoint, rank_bytes, "checkpoint_rank_bytes", UNKNOWN_0),
    NUMBER(plan_checkpoint, s, "checkpoint_s", UNKNOWN_0),
    {0}};

/* Parses "cpu f32". */
static int parse_rates(const char *text, void *out, struct err *err)
{
    char device[PLAN_RATES_OF], type[PLAN_RATES_OF];
    enum device_kind kind;
    enum dtype dtype;
    struct err why;
    int end = 0;

    if (strlen(text) >= PLAN_RATES_OF || sscanf(text, "%15s %15s%n", device, type, &end) != 2 ||
        text[end] || plan_device_parse(device, &kind, &why) ||
        dtype_parse_compute(type, &dtype, &why))
        return err_set(err, ERR_INPUT, "'%s', expected a device and a type, as cpu f32", text);
    strcpy(out, text);
    return 0;
}

static const char *name_of_rates(const void *text)
{
    return *(const char *)text ? text : NULL;
}

static const struct record predicted_fields[] = {
    PLAN(TERM, rates_of, rates, OPTIONAL),
    RECORD(TEXT, struct plan, doubt, "doubt", .lo = 1, OPTIONAL),
    RECORD(OBJECT, struct plan, price, NULL, .of = price_fields),
    RECORD(OBJECT, struct plan, checkpoint, NULL, .of = checkpoint_fields),
    {0}};

RECORD_WORDS(dtype, enum dtype, dtype_parse_compute, dtype_name)
RECORD_WORDS(slow, enum exec_code, exec_code_parse, exec_code_name)

static int parse_moments(const char *text, void *out, struct err *err)
{
    return moments_parse(text, out, err);
}

/* f32 is not printed: older readers know no other. */
static const char *name_of_moments(const void *at)
{
    enum moments type = *(const enum moments *)at;

    return type == MOMENTS_F32 ? NULL : moments_name(type);
}

static const struct record type_fields[] = {
    RECORD_TERM(struct plan, param_type, "params", dtype),
    RECORD_TERM(struct plan, wire_type, "wire", dtype),
    RECORD_TERM(struct plan, grad_type, "grads", dtype),
    RECORD_TERM(struct plan, compute_type, "compute", dtype, OPTIONAL),
    PLAN(TERM, moments, moments, .flags = RECORD_OPTIONAL | RECORD_ABSENT),
    PLAN(TERM, slow_params, slow, OPTIONAL),
    PLAN(TERM, slow_grads, slow, OPTIONAL),
    {0}};

static int parse_ring(const char *text, enum schedule_algo *out, struct err *err)
{
    enum schedule_algo algo;
    struct err why;

    if (plan_algo_parse(text, &algo, &why) || algo == SCHEDULE_AUTO)
        return err_set(err, ERR_INPUT, "'%s', expected ring, two-level or ho-ring", text);
    *out = algo;
    return 0;
}

static void put_keep(const struct record *f, struct jout *j, const void *at)
{
    const int *keep = at;

    if (*keep >= PLAN_KEEP_ALL)
        jout_text(j, f->key, "all");
    else
        jout_int(j, f->key, *keep);
}

static int parse_keep(const char *text, void *out, struct err *err)
{
    return plan_keep_parse(text, out, err);
}

RECORD_WORDS(strategy, struct plan_strategy, plan_strategy_parse, plan_strategy_name)
RECORD_WORDS(algo, enum schedule_algo, parse_ring, schedule_algo_name)
static int parse_outer(const char *text, void *out, struct err *err)
{
    return plan_outer_parse(text, out, err);
}

static void put_outer(const struct record *f, struct jout *j, const void *at)
{
    if (*(const enum letter *)at != LETTER_N)
        jout_text(j, f->key, (char[]){letter_char(*(const enum letter *)at), 0});
}

RECORD_WORDS(device, enum device_kind, plan_device_parse, plan_device_name)

static const struct record plan_fields[] = {
    PLAN(TERM, strategy, strategy),
    PLAN(TERM, algo, algo),
    PLAN(INT, micro_batch, 1, PLAN_BATCH_MAX),
    PLAN(INT, accum, 1, PLAN_BATCH_MAX),
    PLAN(INT, layered, 1, PLAN_BATCH_MAX, .flags = RECORD_OPTIONAL | RECORD_ABSENT),
    PLAN(INT, global_batch, 1, INT64_MAX, OPTIONAL),
    PLAN(INT, seq, 1, PLAN_SEQ_MAX),
    PLAN(INT, trainable, 1, INT64_MAX),
    RECORD_PART("types", type_fields),
    PLAN(INT, prefetch, 0, PLAN_PREFETCH_MAX),
    PLAN(INT, buckets, 1, PLAN_BUCKETS_MAX, OPTIONAL),
    RECORD(OWN, struct plan, keep, "keep", .parse = parse_keep, .put = put_keep, OPTIONAL),
    RECORD(BOOL, struct plan, recompute, "recompute", OPTIONAL),
    PLAN(INT, sync_every, 1, PLAN_SYNC_EVERY_MAX, .flags = RECORD_OPTIONAL | RECORD_ABSENT),
    PLAN(INT, fragments, 1, PLAN_SYNC_EVERY_MAX, .flags = RECORD_OPTIONAL | RECORD_ABSENT),
    RECORD(OWN, struct plan, outer, "outer", .parse = parse_outer, .put = put_outer, OPTIONAL),
    PLAN(INT, chunk_bytes, 1, PLAN_CHUNK_MAX),
    PLAN(TERM, device, device, OPTIONAL),
    RECORD_PART("predicted", predicted_fields),
    RECORD(CHOICE, struct plan, groups.ring, "cabling", .words = topo_cablings,
           .flags = RECORD_OPTIONAL | RECORD_ABSENT | RECORD_ZERO),
    PLAN(INT, group_level, 0, TOPO_LEVELS_MAX - 2, .flags = RECORD_OPTIONAL | RECORD_ABSENT),
    {0}};

/* ---- reading ---- */

struct reader {
    const struct tree *t;
    struct err *err;
};

static int text_read_groups(const struct reader *r, const struct tree_node *list,
                            struct plan *p)
{
    static const struct record none[] = {{0}};
    const char *host = "";
    int k = 0;

    if (tree_list(r->t, list, 1, GROUPS_RANKS_MAX, r->err) ||
        topo_tree_groups(r->t, list, none, "host ranks", &p->groups, r->err))
        return -1;
    if (p->groups.ring && p->groups.count < 3)
        return tree_fail(r->t, list, NULL, r->err, "are %d, expected 3 or more with a ring",
                         p->groups.count);
    p->host = mem_new((size_t)p->groups.count, sizeof *p->host);
    for (const struct tree_node *n = list->child; n; n = n->next) {
        if (tree_text(r->t, tree_get(n, "host"), 0, HOST_MAX, &host, r->err))
            return -1;
        p->host[k++] = mem_dup(host);
    }
    return 0;
}

/* Reads a topology, which must have the plan's groups. */
static int read_fabric(const struct reader *r, const struct tree_node *n, struct plan *p)
{
    const char *text = NULL;
    struct topo t = {0};
    struct err why;

    if (tree_text(r->t, n, 0, YAML_BYTES_MAX, &text, r->err))
        return -1;
    if (!text)
        return 0;
    p->fabric = mem_dup(text);
    if (plan_fabric(p, &t, &why))
        return tree_fail(r->t, n, NULL, r->err, "is wrong: %s", why.text);
    int same = groups_equal(&t.groups, &p->groups) && t.groups.ring == p->groups.ring;
    topo_release(&t);
    return same ? 0 : tree_fail(r->t, n, NULL, r->err, "has other groups than the plan");
}

static int text_read_config(const struct reader *r, const struct tree_node *model,
                            const char *config, const char *trains, struct plan *p)
{
    const struct model *m = &p->model;
    struct err why;

    if (model_parse(&p->model, r->t->name, config, (int64_t)strlen(config), r->err))
        return err_prefix(r->err, "in the model's config of the plan: ");
    if (trains && model_train(&p->model, trains, &why))
        return tree_fail(r->t, tree_get(model, "trains"), NULL, r->err, "is wrong: %s",
                         why.text);
    if (p->seq > m->max_seq)
        return tree_fail(r->t, tree_get(r->t->root, "seq"), NULL, r->err,
                         "is %d, expected at most the model's %s, %" PRId64, p->seq,
                         model_max_seq_key(m), m->max_seq);
    if (plan_check_bytes(m, p->micro_batch, p->seq, &why))
        return tree_fail(r->t, tree_get(r->t->root, "micro_batch"), NULL, r->err,
                         "is too large: %s", why.text);
    return 0;
}

static int text_read_model(const struct reader *r, const struct tree_node *n, struct plan *p)
{
    const char *params = NULL, *trains = NULL, *config = NULL;
    char text[WORD_MAX + 8];
    struct err why;

    if (tree_keys(r->t, n, "params? trains? config?", r->err) ||
        tree_text(r->t, tree_get(n, "params"), 0, WORD_MAX, &params, r->err) ||
        tree_text(r->t, tree_get(n, "trains"), 0, TRAINS_MAX, &trains, r->err) ||
        tree_text(r->t, tree_get(n, "config"), 0, YAML_BYTES_MAX, &config, r->err))
        return -1;
    if (!params == !config)
        return tree_fail(r->t, n, NULL, r->err, "has %s, expected 'config' or 'params'",
                         params ? "both" : "neither");
    if (params && trains)
        return tree_fail(r->t, tree_get(n, "trains"), NULL, r->err,
                         "is given with 'params', expected 'config'");
    if (config && text_read_config(r, n, config, trains, p))
        return -1;
    snprintf(text, sizeof text, "params=%s", params ? params : "");
    if (params && model_read(&p->model, text, &why))
        return tree_fail(r->t, tree_get(n, "params"), NULL, r->err, "is wrong: %s", why.text);
    return tree_i64(r->t, tree_get(r->t->root, "trainable"), 1, p->model.params, &p->trainable,
                    r->err);
}

/* Reads the micro-batches of each rank. */
static int read_counts(const struct reader *r, struct plan *p)
{
    const struct tree_node *n = tree_get(r->t->root, "micro_batches"), *one = n;
    int64_t sum = 0, micros = plan_micro_batches(&p->settings, p->groups.ranks);
    int most = 0;

    if (!n)
        return 0;
    if (tree_list(r->t, n, 1, GROUPS_RANKS_MAX, r->err))
        return -1;
    if (n->items != p->groups.ranks)
        return tree_fail(r->t, n, NULL, r->err,
                         "has %d numbers, expected one for each of %d ranks", n->items,
                         p->groups.ranks);
    p->counts = p->own_counts = mem_new((size_t)n->items, sizeof *p->own_counts);
    one = n->child;
    for (int i = 0; one; i++, one = one->next) {
        if (tree_int(r->t, one, 0, PLAN_BATCH_MAX, &p->own_counts[i], r->err))
            return -1;
        sum += p->counts[i];
        most = p->counts[i] > most ? p->counts[i] : most;
    }
    if (sum == micros && most == p->accum)
        return 0;
    return tree_fail(r->t, n, NULL, r->err,
                     "has %" PRId64 " in all and %d at most, expected %" PRId64
                     " by global_batch, and 'accum', %d",
                     sum, most, micros, p->accum);
}

static int check_batch(const struct reader *r, struct plan *p)
{
    int64_t places = (int64_t)p->groups.ranks * p->accum * p->micro_batch;

    p->global_batch = p->global_batch ? p->global_batch : places;
    if (p->global_batch <= places)
        return read_counts(r, p);
    return tree_fail(r->t, tree_get(r->t->root, "global_batch"), NULL, r->err,
                     "is %" PRId64 ", expected at most %" PRId64
                     ": the micro-batches of all ranks in a step",
                     p->global_batch, places);
}

static int check_periods(const struct reader *r, const struct plan *p)
{
    const char *key = p->sync_every ? "sync_every" : p->fragments ? "fragments" : "outer";

    if (p->sync_every && p->fragments > p->sync_every)
        return tree_fail(r->t, tree_get(r->t->root, "fragments"), NULL, r->err,
                         "is %d, expected at most sync_every, %d", p->fragments, p->sync_every);
    if (p->outer == LETTER_G && p->slow_grads)
        return tree_fail(r->t, tree_get(r->t->root, "outer"), NULL, r->err,
                         "is G with gradients in %s, expected I",
                         exec_code_name(p->slow_grads));
    if (plan_apart(&p->settings, &p->groups) ||
        (!p->sync_every && !p->fragments && p->outer == LETTER_N))
        return 0;
    return tree_fail(r->t, tree_get(r->t->root, key), NULL, r->err, "is given %s",
                     p->sync_every ? "with one group, expected several"
                                   : "without sync_every, expected both");
}

static int text_read_doc(struct plan *p, const struct yaml *y, struct err *err)
{
    struct plan new = {.buckets = PLAN_BUCKETS,
                       .group_level = -1,
                       .price = {.feasible = 1, .dominated_by = -1, .tokens_per_s = NAN}};
    const struct reader r = {&y->tree, err};
    const struct tree_node *root = y->tree.root;

    if (yaml_format(y, FORMAT, err))
        return -1;
    if (record_read(r.t, root, plan_fields, "format micro_batches? fabric? groups model", &new,
                    err) ||
        text_read_groups(&r, tree_get(root, "groups"), &new) || check_batch(&r, &new) ||
        check_periods(&r, &new) || read_fabric(&r, tree_get(root, "fabric"), &new) ||
        text_read_model(&r, tree_get(root, "model"), &new)) {
        plan_release(&new);
        return -1;
    }
    new.price.strategy = new.strategy;
    new.price.algo = new.algo;
    *p = new;
    return 0;
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

int plan_read(struct plan *p, const char *path, struct err *err)
{
    struct yaml y;

    if (yaml_read(&y, path, err))
        return -1;
    int rc = text_read_doc(p, &y, err);
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
    int rc = text_read_doc(p, &y, err);
    yaml_release(&y);
    return rc;
}

/* ---- printing: YAML omits unknown values ---- */

void plan_put_price(struct jout *j, const struct plan_price *p)
{
    record_put(j, price_fields, p);
}

void plan_put_survival(struct jout *j, const struct plan_price *p)
{
    record_put(j, failure_fields, p);
}

void plan_put_checkpoint(struct jout *j, const struct plan_checkpoint *c)
{
    record_put(j, checkpoint_fields, c);
}

void plan_put_batch(struct jout *j, const struct plan_case *at)
{
    jout_int(j, "micro_batch", at->micro_batch);
    jout_int(j, "accum", at->accum);
    jout_int(j, "layered", plan_layered(&at->settings));
    put_keep(&(struct record){.key = "keep"}, j, &at->keep);
    jout_bool(j, "recompute", at->recompute);
    if (at->sync_every > 0) /* the fabric of a point of --scale is gone */
        jout_int(j, "sync_every", at->sync_every);
    jout_text(j, "compute_type", dtype_name(at->compute_type));
    jout_text(j, "rates_of", at->rates_of[0] ? at->rates_of : NULL);
}

static void put_plan(struct jout *j, const struct plan *p)
{
    jout_open(j, NULL, '{');
    if (j->yaml)
        jout_text(j, "format", FORMAT);
    else
        jout_text(j, "schema", "paro.plan/1");
    record_put(j, plan_fields, p);
    if (p->counts) {
        jout_open(j, "micro_batches", '[');
        for (int r = 0; r < p->groups.ranks; r++)
            jout_int(j, NULL, p->counts[r]);
        jout_close(j, ']');
    }
    if (p->fabric || !j->yaml)
        jout_block(j, "fabric", p->fabric);
    jout_open(j, "groups", '[');
    for (int k = 0; k < p->groups.count; k++) {
        jout_open(j, NULL, '{');
        jout_text(j, "host", p->host[k]);
        topo_put_ranks(j, &p->groups, k);
        jout_close(j, '}');
    }
    jout_close(j, ']');
    jout_open(j, "model", '{');
    if (p->model.partial)
        jout_text(j, "trains", p->model.partial);
    if (p->model.config)
        jout_block(j, "config", p->model.config);
    else
        jout_int(j, "params", p->model.params);
    jout_close(j, '}');
    jout_close(j, '}');
}

void plan_print(const struct plan *p, FILE *out)
{
    struct jout j = {.file = out, .yaml = 1};

    put_plan(&j, p);
}

void plan_print_json(const struct plan *p, FILE *out)
{
    struct jout j = {.file = out, .pretty = 1};

    put_plan(&j, p);
}
