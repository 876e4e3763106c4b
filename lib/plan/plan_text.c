/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how a plan is written and read: paro-plan/1 (YAML, paro-plan(5)) and paro.plan/1
 * (JSON).  One table of keys does both, strictly, so that what is accepted prints back as it
 * was.
 */
#include "plan/plan.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/jout.h"
#include "base/mem.h"
#include "base/yaml.h"
#include "plan/tally.h"

#define FORMAT "paro-plan/1"

enum { WORD_MAX = 64, HOST_MAX = 255, TRAINS_MAX = 1 << 16 };

enum kind {
    END,
    WHOLE,  /* int; below `least` it is unknown and not written */
    COUNT,  /* int64_t */
    NUMBER, /* double, from 0 on; 0 is unknown where it is optional, as NAN is */
    STRATEGY,
    ALGO,
    TYPE,
    SLOW,
    KEEP,
    YES_NO,
    DEVICE,
    RATES, /* text, "" is unknown */
    DOUBT, /* the same */
    FIELDS /* a mapping; key NULL: of the mapping that is open; optional: its first is a NUMBER,
              without which it is unknown */
};

struct field {
    const char *key;
    enum kind kind;
    size_t at;    /* in the struct that the table is for */
    int optional; /* may be absent: older plans lack it, or it is unknown */
    int64_t least, most;
    const struct field *of; /* FIELDS */
};

#define IN(type, field) .at = offsetof(struct type, field)

static const struct field memory_fields[] = {
    {"params", NUMBER, IN(plan_memory, params)},
    {"grads", NUMBER, IN(plan_memory, grads)},
    {"optimizer", NUMBER, IN(plan_memory, optimizer)},
    {"activations", NUMBER, IN(plan_memory, activations)},
    {"buffers", NUMBER, IN(plan_memory, buffers)},
    {"total", NUMBER, IN(plan_memory, total)},
    {0}};

static const struct field survival_fields[] = {
    {"mtbf_s", NUMBER, IN(plan_survival, mtbf_s)},
    {"nodes", WHOLE, IN(plan_survival, nodes), 0, 0, GROUPS_RANKS_MAX},
    {"goodput", NUMBER, IN(plan_survival, goodput)},
    {"lost_share", NUMBER, IN(plan_survival, lost_share)},
    {"copies", WHOLE, IN(plan_survival, copies), 0, 0, PLAN_COPIES_MAX},
    {"local_every", WHOLE, IN(plan_survival, local_every), 0, 0, INT32_MAX},
    {"save_every", WHOLE, IN(plan_survival, save_every), 0, 0, INT32_MAX},
    {"local_pause_s", NUMBER, IN(plan_survival, local_pause_s)},
    {"pause_s", NUMBER, IN(plan_survival, pause_s)},
    {"local_restart_s", NUMBER, IN(plan_survival, local_restart_s)},
    {"restart_s", NUMBER, IN(plan_survival, restart_s)},
    {"copy_bytes", NUMBER, IN(plan_survival, copy_bytes)},
    {"copy_slow_bytes", NUMBER, IN(plan_survival, copy_slow_bytes)},
    {0}};

static const struct field failure_fields[] = {
    {"failures", FIELDS, IN(plan_price, survival), 1, .of = survival_fields}, {0}};

static const struct field price_fields[] = {
    {"memory_bytes", FIELDS, IN(plan_price, memory), .of = memory_fields},
    {"slow_bytes", NUMBER, IN(plan_price, slow_bytes)},
    {"slow_bytes_per_rank", NUMBER, IN(plan_price, slow_rank_bytes)},
    {"fast_bytes", NUMBER, IN(plan_price, fast_bytes)},
    {"compute_s", NUMBER, IN(plan_price, compute_s), 1},
    {"comm_s", NUMBER, IN(plan_price, comm_s)},
    {"step_s", NUMBER, IN(plan_price, step_s)},
    {"tokens_per_s", NUMBER, IN(plan_price, tokens_per_s), 1},
    {NULL, FIELDS, .of = failure_fields},
    {0}};

static const struct field checkpoint_fields[] = {
    {"checkpoint_bytes", NUMBER, IN(plan_checkpoint, bytes), 1},
    {"checkpoint_rank_bytes", NUMBER, IN(plan_checkpoint, rank_bytes), 1},
    {"checkpoint_s", NUMBER, IN(plan_checkpoint, s), 1},
    {0}};

static const struct field predicted_fields[] = {
    {"rates_of", RATES, IN(plan, rates_of), 1},
    {"doubt", DOUBT, IN(plan, doubt), 1},
    {NULL, FIELDS, IN(plan, price), .of = price_fields},
    {NULL, FIELDS, IN(plan, checkpoint), .of = checkpoint_fields},
    {0}};

static const struct field type_fields[] = {{"params", TYPE, IN(plan, param_type)},
                                           {"wire", TYPE, IN(plan, wire_type)},
                                           {"grads", TYPE, IN(plan, grad_type)},
                                           {"compute", TYPE, IN(plan, compute_type), 1},
                                           {"slow_params", SLOW, IN(plan, slow_params), 1},
                                           {"slow_grads", SLOW, IN(plan, slow_grads), 1},
                                           {0}};

static const struct field plan_fields[] = {
    {"strategy", STRATEGY, IN(plan, strategy)},
    {"algo", ALGO, IN(plan, algo)},
    {"micro_batch", WHOLE, IN(plan, micro_batch), 0, 1, PLAN_BATCH_MAX},
    {"accum", WHOLE, IN(plan, accum), 0, 1, PLAN_BATCH_MAX},
    {"layered", WHOLE, IN(plan, layered), 1, 1, PLAN_BATCH_MAX},
    {"global_batch", COUNT, IN(plan, global_batch), 1, 1, INT64_MAX},
    {"seq", WHOLE, IN(plan, seq), 0, 1, PLAN_SEQ_MAX},
    {"trainable", COUNT, IN(plan, trainable), 0, 1, INT64_MAX},
    {"types", FIELDS, .of = type_fields},
    {"prefetch", WHOLE, IN(plan, prefetch), 0, 0, PLAN_PREFETCH_MAX},
    {"buckets", WHOLE, IN(plan, buckets), 1, 1, PLAN_BUCKETS_MAX},
    {"keep", KEEP, IN(plan, keep), 1},
    {"recompute", YES_NO, IN(plan, recompute), 1},
    {"chunk_bytes", COUNT, IN(plan, chunk_bytes), 0, 1, PLAN_CHUNK_MAX},
    {"device", DEVICE, IN(plan, device), 1},
    {"predicted", FIELDS, .of = predicted_fields},
    {"group_level", WHOLE, IN(plan, group_level), 1, 0, TOPO_LEVELS_MAX - 2},
    {0}};

/* ---- reading ---- */

struct reader {
    const struct tree *t;
    struct err *err;
};

/* "cpu f32" */
static int parse_rates(const char *text, char *out, struct err *err)
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

static int parse_word(enum kind kind, const char *text, void *out, struct err *err)
{
    struct err why;
    enum schedule_algo algo;

    switch (kind) {
    case STRATEGY:
        return plan_strategy_parse(text, out, err);
    case ALGO:
        if (plan_algo_parse(text, &algo, &why) || algo == SCHEDULE_AUTO)
            return err_set(err, ERR_INPUT, "'%s', expected ring, two-level or ho-ring", text);
        *(enum schedule_algo *)out = algo;
        return 0;
    case TYPE:
        return dtype_parse_compute(text, out, err);
    case SLOW:
        return plan_slow_parse(text, out, err);
    case KEEP:
        return plan_keep_parse(text, out, err);
    case DEVICE:
        return plan_device_parse(text, out, err);
    case RATES:
        return parse_rates(text, out, err);
    default:
        *(int *)out = strcmp(text, "yes") == 0;
        return strcmp(text, "yes") && strcmp(text, "no")
                   ? err_set(err, ERR_INPUT, "'%s', expected yes or no", text)
                   : 0;
    }
}

static void put_keys(const struct field *f, FILE *out)
{
    for (; f->kind; f++)
        if (f->key)
            fprintf(out, "%s%s ", f->key, f->optional ? "?" : "");
        else
            put_keys(f->of, out);
}

/* n is a mapping of the table's keys and of `more`. */
static int check_keys(const struct reader *r, const struct field *f, const char *more,
                      const struct tree_node *n)
{
    char *keys = NULL;
    size_t bytes = 0;
    FILE *out = mem_stream(&keys, &bytes);

    fputs(more, out);
    put_keys(f, out);
    fclose(out);
    int rc = tree_keys(r->t, n, keys, r->err);
    mem_free(keys);
    return rc;
}

static int read_fields(const struct reader *r, const struct field *f, const struct tree_node *n,
                       void *out);

/* n: NULL for a key that is absent. */
static int read_field(const struct reader *r, const struct field *f, const struct tree_node *n,
                      void *out)
{
    const char *text = NULL;
    struct err why;

    switch (f->kind) {
    case WHOLE:
        return tree_int(r->t, n, (int)f->least, (int)f->most, out, r->err);
    case COUNT:
        return tree_i64(r->t, n, f->least, f->most, out, r->err);
    case NUMBER:
        return tree_f64(r->t, n, 0, 1e30, out, r->err);
    case DOUBT:
        return tree_word(r->t, n, out, TOPO_SOURCE_BYTES, r->err);
    case FIELDS:
        if (!n && f->optional)
            return 0;
        return check_keys(r, f->of, "", n) || read_fields(r, f->of, n, out) ? -1 : 0;
    default:
        if (tree_text(r->t, n, 0, WORD_MAX, &text, r->err))
            return -1;
        return text && parse_word(f->kind, text, out, &why)
                   ? tree_fail(r->t, n, NULL, r->err, "is %s", why.text)
                   : 0;
    }
}

static int read_fields(const struct reader *r, const struct field *f, const struct tree_node *n,
                       void *out)
{
    for (; f->kind; f++) {
        void *to = (char *)out + f->at;
        if (f->key ? read_field(r, f, tree_get(n, f->key), to) : read_fields(r, f->of, n, to))
            return -1;
    }
    return 0;
}

static int read_groups(const struct reader *r, const struct tree_node *list, struct plan *p)
{
    const char *host = "";
    int k = 0;

    if (tree_list(r->t, list, 1, GROUPS_RANKS_MAX, r->err) ||
        topo_tree_groups(r->t, list, "host ranks", &p->groups, r->err))
        return -1;
    p->host = mem_new((size_t)p->groups.count, sizeof *p->host);
    for (const struct tree_node *n = list->child; n; n = n->next) {
        if (tree_text(r->t, tree_get(n, "host"), 0, HOST_MAX, &host, r->err))
            return -1;
        p->host[k++] = mem_dup(host);
    }
    return 0;
}

/* A topology of the plan's groups. */
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
    int same = groups_equal(&t.groups, &p->groups);
    topo_release(&t);
    return same ? 0 : tree_fail(r->t, n, NULL, r->err, "has other groups than the plan");
}

static int read_config(const struct reader *r, const struct tree_node *model,
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

static int read_model(const struct reader *r, const struct tree_node *n, struct plan *p)
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
    if (config && read_config(r, n, config, trains, p))
        return -1;
    snprintf(text, sizeof text, "params=%s", params ? params : "");
    if (params && model_read(&p->model, text, &why))
        return tree_fail(r->t, tree_get(n, "params"), NULL, r->err, "is wrong: %s", why.text);
    return tree_i64(r->t, tree_get(r->t->root, "trainable"), 1, p->model.params, &p->trainable,
                    r->err);
}

static int check_batch(const struct reader *r, struct plan *p)
{
    int64_t places = (int64_t)p->groups.ranks * p->accum * p->micro_batch;

    p->global_batch = p->global_batch ? p->global_batch : places;
    if (p->global_batch <= places)
        return 0;
    return tree_fail(r->t, tree_get(r->t->root, "global_batch"), NULL, r->err,
                     "is %" PRId64 ", expected at most %" PRId64
                     ": the micro-batches of all ranks in a step",
                     p->global_batch, places);
}

static int read_doc(struct plan *p, const struct yaml *y, struct err *err)
{
    struct plan new = {.buckets = PLAN_BUCKETS,
                       .group_level = -1,
                       .price = {.feasible = 1, .dominated_by = -1, .tokens_per_s = NAN}};
    const struct reader r = {&y->tree, err};
    const struct tree_node *root = y->tree.root;

    if (yaml_format(y, FORMAT, err) ||
        check_keys(&r, plan_fields, "format fabric? groups model ", root))
        return -1;
    if (read_fields(&r, plan_fields, root, &new) ||
        read_groups(&r, tree_get(root, "groups"), &new) || check_batch(&r, &new) ||
        read_fabric(&r, tree_get(root, "fabric"), &new) ||
        read_model(&r, tree_get(root, "model"), &new)) {
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

/* ---- printing: YAML leaves out what is unknown ---- */

static void put_keep(struct jout *j, int keep)
{
    if (keep >= PLAN_KEEP_ALL)
        jout_text(j, "keep", "all");
    else
        jout_int(j, "keep", keep);
}

static const char *word_of(enum kind kind, const void *v)
{
    switch (kind) {
    case STRATEGY:
        return plan_strategy_name(*(const struct plan_strategy *)v);
    case ALGO:
        return schedule_algo_name(*(const enum schedule_algo *)v);
    case TYPE:
        return dtype_name(*(const enum dtype *)v);
    case SLOW:
        return plan_slow_name(*(const enum plan_slow *)v);
    case DEVICE:
        return plan_device_name(*(const enum device_kind *)v);
    default:
        return *(const char *)v ? v : NULL;
    }
}

static void put_word(struct jout *j, const char *key, const char *word)
{
    if (word)
        jout_plain(j, key, word);
    else if (!j->yaml)
        jout_null(j, key);
}

static void put_field(struct jout *j, const struct field *f, const void *v)
{
    const int *whole = v;
    const double *number = v;

    switch (f->kind) {
    case WHOLE:
        if (*whole >= f->least)
            jout_int(j, f->key, *whole);
        return;
    case COUNT:
        jout_int(j, f->key, *(const int64_t *)v);
        return;
    case NUMBER:
        if (*number > 0 || !f->optional)
            jout_num(j, f->key, *number);
        else if (!j->yaml)
            jout_null(j, f->key);
        return;
    case KEEP:
        put_keep(j, *whole);
        return;
    case YES_NO:
        if (j->yaml)
            jout_plain(j, f->key, *whole ? "yes" : "no");
        else
            jout_bool(j, f->key, *whole);
        return;
    case DOUBT:
        if (!j->yaml || *(const char *)v)
            jout_text(j, f->key, *(const char *)v ? v : NULL);
        return;
    default:
        put_word(j, f->key, word_of(f->kind, v));
    }
}

static void put_fields(struct jout *j, const struct field *f, const void *from)
{
    for (; f->kind; f++) {
        const void *v = (const char *)from + f->at;
        if (f->kind != FIELDS) {
            put_field(j, f, v);
            continue;
        }
        if (f->optional && !(*(const double *)v > 0))
            continue;
        if (f->key)
            jout_open(j, f->key, '{');
        put_fields(j, f->of, v);
        if (f->key)
            jout_close(j, '}');
    }
}

void plan_put_price(struct jout *j, const struct plan_price *p)
{
    put_fields(j, price_fields, p);
}

void plan_put_survival(struct jout *j, const struct plan_price *p)
{
    put_fields(j, failure_fields, p);
}

void plan_put_checkpoint(struct jout *j, const struct plan_checkpoint *c)
{
    put_fields(j, checkpoint_fields, c);
}

void plan_put_batch(struct jout *j, const struct plan_case *at)
{
    jout_int(j, "micro_batch", at->micro_batch);
    jout_int(j, "accum", at->accum);
    jout_int(j, "layered", plan_layered(&at->settings));
    put_keep(j, at->keep);
    jout_bool(j, "recompute", at->recompute);
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
    put_fields(j, plan_fields, p);
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
