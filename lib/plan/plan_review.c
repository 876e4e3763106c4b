/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads a configuration of another tool: which strategy it is, by the table of plan_settings.c,
 * its batch and types, and what of it a price does not have.  A key that is in no list is
 * reported and has no effect.
 */
#include "plan/plan_review.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "value/value_flat.h"

/* Meanings of keys that state nothing; others are enum plan_stated. */
enum {
    USE_ONE = PLAN_STATED, /* nothing but 1 can be reviewed */
    USE_DIFFERS,           /* changes costs in a way that is not priced */
    USE_NOTHING
};

#define AS_BF16 "priced as bf16"
/* clang-format off */
static const struct {
    int use;
    const char *keys; /* patterns; the first that matches counts */
    const char *why;  /* what is expected, or differs */
} words[] = {
    {PLAN_STATED_MICRO, "train_micro_batch_size_per_gpu --micro-batch-size training.batch_size "
     "training.local_batch_size", NULL},
    {PLAN_STATED_ACCUM, "gradient_accumulation_steps "
     "deepspeed_config.gradient_accumulation_steps", NULL},
    {PLAN_STATED_GLOBAL, "train_batch_size --global-batch-size "
     "training.global_batch_size", NULL},
    {PLAN_STATED_SEQ, "--seq-length training.seq_len", NULL},
    {PLAN_STATED_RANKS, "num_processes", NULL},
    {PLAN_STATED_PARAM, "bf16.enabled fp16.enabled --bf16 --fp16 mixed_precision "
     "training.mixed_precision_param", AS_BF16},
    {PLAN_STATED_WIRE, "communication_data_type --megatron-fsdp-grad-comm-dtype "
     "training.mixed_precision_reduce", AS_BF16},
    {PLAN_STATED_GRAD, "data_types.grad_accum_dtype --megatron-fsdp-main-grads-dtype "
     "--grad-reduce-in-bf16", AS_BF16},
    {PLAN_STATED_RECOMPUTE, "--recompute-granularity fsdp_config.fsdp_activation_checkpointing "
     "activation_checkpoint.mode", "priced with all activations kept"},
    {PLAN_STATED_KEY + 1, "--use-custom-fsdp", NULL},
    {PLAN_STATED_KEY + 3, "fsdp_config.fsdp_sharding_strategy", NULL},
    {USE_ONE, "tensor_parallel.autotp_size sequence_parallel_size --*-model-parallel-size "
     "--context-parallel-size parallelism_config.parallelism_config_[cst]p_size "
     "parallelism.[!d]*_parallel_degree", "1: only data parallelism is priced"},
    {USE_ONE, "deepspeed_config.deepspeed_config_file", "--review of that file"},
    {USE_DIFFERS, "zero_optimization.offload_*.device zero_optimization.cpu_offload "
     "--optimizer-cpu-offload deepspeed_config.offload_*_device "
     "fsdp_config.fsdp_offload_params training.enable_cpu_offload",
     "less device memory, other times"},
    {USE_DIFFERS, "zero_optimization.zero_quantized_* quantize.*.enable_fsdp_float8_all_gather "
     "--fp8-format", "fewer bytes are sent"},
    {USE_DIFFERS, "optimizer.type optimizer.name --optimizer --use-precision-aware-optimizer",
     "optimizer state is counted for AdamW in f32"},
};
/* clang-format on */

static void remark(struct plan_review *r, enum plan_remark_kind kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void remark(struct plan_review *r, enum plan_remark_kind kind, const char *fmt, ...)
{
    va_list args;

    r->remark = mem_grow(r->remark, &r->space, r->remarks + 1, sizeof *r->remark);
    struct plan_remark *new = &r->remark[r->remarks++];
    new->kind = kind;
    va_start(args, fmt);
    vsnprintf(new->text, sizeof new->text, fmt, args);
    va_end(args);
    utf8_clean(new->text);
}

/* Whether a text matches one of several patterns. */
static int among(const char *list, const char *text)
{
    char pattern[96];

    for (; *list; list += strcspn(list, " "), list += strspn(list, " ")) {
        snprintf(pattern, sizeof pattern, "%.*s", (int)strcspn(list, " "), list);
        if (fnmatch(pattern, text, FNM_CASEFOLD) == 0)
            return 1;
    }
    return 0;
}

static int meaning_of(const struct plan_review *r, const char *path, const char **why)
{
    for (int i = 0; i < r->tool->keys; i++)
        if (strcmp(path, r->tool->key[i].path) == 0)
            return PLAN_STATED_KEY + i;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (among(words[i].keys, path)) {
            *why = words[i].why;
            return words[i].use;
        }
    return USE_NOTHING;
}

/* Takes a key that states something. */
static int take(struct plan_review *r, const char *path, const struct tree_node *n, int use,
                const char *why, struct err *err)
{
    r->known++;
    if (n->kind != TREE_SCALAR)
        return n->kind == TREE_NULL
                   ? 0
                   : tree_fail(&r->tree, n, NULL, err, "has several values, expected one");
    if (use == USE_ONE)
        return among("-1 0 1 auto", n->text)
                   ? 0
                   : tree_fail(&r->tree, n, NULL, err, "is %.80s, expected %s", n->text, why);
    int on = use < PLAN_STATED && !strstr(path, "fp16") && among("full true", n->text);
    if (why && !on &&
        !among("none false no auto adam adamw bf16 bfloat16 fp32 float32", n->text))
        remark(r, PLAN_REMARK_DIFFERS, "%s (line %d) is %.30s: %s", path, n->line, n->text,
               why);
    if (why && among("auto", n->text))
        remark(r, PLAN_REMARK_UNSTATED, "%s (line %d) is auto, taken as absent", path, n->line);
    if (use >= PLAN_STATED || (use == PLAN_STATED_RECOMPUTE && !on) ||
        (use < PLAN_STATED_KEY && use != PLAN_STATED_RANKS && among("false auto -1", n->text)))
        return 0;
    if (r->at[use])
        return tree_fail(&r->tree, n, NULL, err,
                         "states what line %d does, expected one of them", r->at[use]->line);
    r->at[use] = n;
    return use >= PLAN_STATED_PARAM
               ? 0
               : tree_i64(&r->tree, n, 1, PLAN_BATCH_MAX, &r->number[use], err);
}

static int walk(struct plan_review *r, const struct tree_node *map, const char *above,
                struct err *err)
{
    char path[256];

    for (const struct tree_node *n = map->child; n; n = n->next) {
        const char *why = NULL;
        snprintf(path, sizeof path, "%s%s%s", above, *above ? "." : "", n->key);
        int use = meaning_of(r, path, &why), inner = n->kind == TREE_MAP;
        if (use == USE_NOTHING && !inner)
            remark(r, PLAN_REMARK_UNUSED, "%.150s (line %d)", path, n->line);
        else if (use != USE_NOTHING ? take(r, path, n, use, why, err) : walk(r, n, path, err))
            return -1;
    }
    return 0;
}

/* Parses a text as the tool's whose file begins with p. */
static int parse_as(struct plan_review *r, const char *name, const char *text, int64_t bytes,
                    const char *p, struct err *err)
{
    r->target = *p == '{'                                   ? PLAN_DEEPSPEED
                : strncmp(p, "--", 2) == 0 && p[2] > '-'    ? PLAN_MEGATRON
                : *p == '[' || p[strcspn(p, "=:\n")] == '=' ? PLAN_TORCHTITAN
                                                            : PLAN_ACCELERATE;
    if (r->target == PLAN_DEEPSPEED)
        return tree_parse_json(&r->tree, name, 1, text, bytes, err);
    if (strlen(text) < (size_t)bytes ||
        (r->target == PLAN_ACCELERATE && !strstr(text, "distributed_type")))
        return 0; /* none of them */
    return r->target == PLAN_MEGATRON     ? flat_parse_flags(&r->tree, name, text, err)
           : r->target == PLAN_TORCHTITAN ? flat_parse_toml(&r->tree, name, text, err)
                                          : tree_parse(&r->tree, name, text, bytes, err);
}

int plan_review_read(struct plan_review *r, const char *path, struct err *err)
{
    const char *name = strcmp(path, "-") ? path : "stdin";
    char *text = NULL;
    int64_t bytes = 0;

    *r = (struct plan_review){0};
    if (io_read_text(path, 1 << 20, &text, &bytes, err))
        return -1;
    const char *p = text; /* the first line that is neither empty nor a comment */
    while (*p && strchr(" \t\r\n#", *p))
        p += *p == '#' ? strcspn(p, "\n") : 1;
    int rc = parse_as(r, name, text, bytes, p, err), n = (int)strcspn(p, "\r\n");
    const struct tree_node *root = r->tree.root;
    if (tree_get(root, "distributed_type"))
        r->target = PLAN_ACCELERATE; /* in JSON too */
    else if (tree_get(tree_get(root, "zero_optimization"), "paro_strategy"))
        r->target = PLAN_DEEPSPEED_PARO;
    r->tool = plan_tool(r->target);
    if (rc == 0 && root && root->kind == TREE_MAP)
        rc = walk(r, root, "", err);
    if (rc == 0 && !r->known)
        rc = err_at(
            err, name, 0, NULL,
            "begins with '%.*s', expected DeepSpeed's JSON, accelerate's YAML"
            " (distributed_type), torchtitan's TOML ([parallelism]) or Megatron-LM's flags",
            n < 40 ? n : 40, p);
    mem_free(text);
    if (rc)
        plan_review_release(r);
    return rc;
}

void plan_review_release(struct plan_review *r)
{
    tree_release(&r->tree);
    mem_free(r->remark);
    *r = (struct plan_review){0};
}

/* ---- the strategy ---- */

int plan_review_has(const struct plan_review *r, const struct plan_row *row, int key,
                    const struct groups *g)
{
    const struct tree_node *n = r->at[PLAN_STATED_KEY + key];
    const char *absent = r->tool->key[key].absent, *has = n ? n->text : absent;
    char text[PLAN_VALUE], *rest = text, *one;

    if (!row->value[key])
        return strcasecmp(has, absent) == 0;
    if (plan_row_value(row, key, g, text))
        while ((one = strsep(&rest, "|")))
            if (strcasecmp(has, one) == 0)
                return 1;
    return 0;
}

/* Finds the row, or reports the first key that none has after the keys before it. */
static int find_settings(struct plan_review *r, const struct groups *g, struct err *err)
{
    const struct plan_tool *tool = r->tool;
    const struct tree_node **at = r->at + PLAN_STATED_KEY, *with = NULL;
    char text[PLAN_VALUE], list[240] = "";
    int most = -1, n;

    for (const struct plan_row *row = NULL; (row = plan_row_next(r->target, row));) {
        for (n = 0; n < tool->keys && plan_review_has(r, row, n, g);)
            n++;
        r->row = row;
        if (n == tool->keys)
            return 0;
        if (n > most)
            *list = 0;
        most = n > most ? n : most;
        const char *value =
            row->value[n] ? plan_row_value(row, n, g, text) : tool->key[n].absent;
        size_t used = strlen(list), one = value ? strcspn(value, "|") : 0;
        if (n == most && one)
            snprintf(list + used, sizeof list - used, "%s%.*s", used ? ", " : "", (int)one,
                     value);
        if (n == most && used && one && strstr(list, list + used + 2) < list + used)
            list[used] = 0; /* it is there */
    }
    for (int i = 0; i < most; i++)
        with = at[i] ? at[i] : with;
    return err_at(err, r->tree.name, at[most] ? at[most]->line : 0, tool->key[most].path,
                  "is %.40s, expected %s%s%s%s%.40s on %dx%d ranks",
                  at[most] ? at[most]->text : "absent", list, with ? " with " : "",
                  with ? with->key : "", with ? " " : "", with ? with->text : "", g->count,
                  groups_largest(g));
}

/* ---- batch and types ---- */

/* Derives the open numbers: the batch is that of a micro-step times their number and ranks. */
static int set_batch_of(struct plan_review *r, int64_t ranks, struct err *err)
{
    int64_t *micro = r->number + PLAN_STATED_MICRO, *accum = r->number + PLAN_STATED_ACCUM;
    int64_t all = r->number[PLAN_STATED_GLOBAL], stated = r->number[PLAN_STATED_RANKS];

    if (stated && stated != ranks)
        return tree_fail(&r->tree, r->at[PLAN_STATED_RANKS], NULL, err,
                         "is %" PRId64 ", expected the fabric's %" PRId64, stated, ranks);
    if (r->target == PLAN_TORCHTITAN) { /* its defaults */
        *micro = *micro ? *micro : 8;
        *accum = all ? 0 : 1;
        r->number[PLAN_STATED_SEQ] += r->number[PLAN_STATED_SEQ] ? 0 : 2048;
    }
    int both = *micro && *accum;
    int64_t known = ranks * (*micro ? *micro : 1) * (*accum ? *accum : 1);
    if (all % known || (both && all && all != known))
        return tree_fail(&r->tree, r->at[PLAN_STATED_GLOBAL], NULL, err,
                         "is %" PRId64 ", expected %s%" PRId64 ": %" PRId64
                         " ranks x micro-batch x accumulation",
                         all, both ? "" : "a multiple of ", known, ranks);
    if (all && !*micro)
        *micro = all / known;
    if (all && !*accum)
        *accum = all / ranks / *micro;
    return 0;
}

static enum dtype review_type_of(const struct plan_review *r, enum plan_stated which,
                                 enum dtype otherwise)
{
    const struct tree_node *n = r->at[which];

    return !n ? otherwise : among("fp32 float32 no", n->text) ? DTYPE_F32 : DTYPE_BF16;
}

/* Sets the types, as the tools do where one is not stated. */
static void set_types(const struct plan_review *r, struct plan_settings *s)
{
    int fsdp = r->row->flags & PLAN_ROW_MASTER, ddp = strcmp(r->row->strategy, "NNN") == 0;
    int zero = !fsdp && r->target != PLAN_MEGATRON;

    s->param_type = s->grad_type = s->wire_type = DTYPE_F32;
    if (fsdp && ddp)
        return;
    s->param_type = review_type_of(r, PLAN_STATED_PARAM,
                                   r->target == PLAN_TORCHTITAN ? DTYPE_BF16 : DTYPE_F32);
    s->grad_type =
        review_type_of(r, PLAN_STATED_GRAD, zero && !ddp ? s->param_type : DTYPE_F32);
    s->wire_type =
        review_type_of(r, PLAN_STATED_WIRE,
                       zero || r->target == PLAN_ACCELERATE ? s->param_type : s->grad_type);
}

/* Takes a stated number for a setting that no option gave. */
static int merge(struct plan_review *r, enum plan_stated which, const char *option, int open,
                 int *setting, struct err *err)
{
    int64_t stated = r->number[which];

    if (stated && *setting != open && *setting != stated)
        return err_set(err, ERR_INPUT,
                       "--%s %d, but '%s' has %" PRId64 ", expected one of them", option,
                       *setting, r->tree.name, stated);
    if (!stated && *setting == open)
        remark(r, PLAN_REMARK_UNSTATED, "--%s, its default is taken", option);
    *setting = stated ? (int)stated : *setting;
    return 0;
}

static void remark_row(struct plan_review *r, int accum)
{
    unsigned flags = r->row->flags;

    if (flags & PLAN_ROW_HPZ)
        remark(r, PLAN_REMARK_DIFFERS,
               "groups have a second copy of the parameters: more memory, fewer slow bytes");
    if (flags & PLAN_ROW_EACH && accum > 1)
        remark(r, PLAN_REMARK_DIFFERS,
               "gradients cross groups in each micro-step: %d times their slow bytes", accum);
    if (flags & PLAN_ROW_WHOLE && accum > 1)
        remark(r, PLAN_REMARK_DIFFERS,
               "gradients are whole until the last micro-step, unless sync_each_batch is set");
    if (flags & PLAN_ROW_MASTER)
        remark(r, PLAN_REMARK_DIFFERS,
               "parameters at rest are the optimizer's f32 copy: less memory");
}

int plan_review_apply(struct plan_review *r, const struct topo *topo, const struct model *model,
                      struct plan_settings *s, struct plan_strategy *strategy, int *level,
                      struct err *err)
{
    struct plan_boundaries b;
    struct err other;

    if (plan_boundaries_init(&b, topo, *level, err))
        return -1;
    int rc = find_settings(r, &b.topo[0].groups, err), at = 0;
    while (rc && ++at < b.count)
        rc = find_settings(r, &b.topo[at].groups, &other);
    if (rc == 0 && (strchr(r->row->strategy, 'I') || r->row->flags & PLAN_ROW_HPZ))
        *level = b.level[at];
    plan_boundaries_release(&b);
    if (rc || set_batch_of(r, topo->groups.ranks, err) ||
        merge(r, PLAN_STATED_MICRO, "micro-batch", -1, &s->micro_batch, err) ||
        merge(r, PLAN_STATED_ACCUM, "accum", -1, &s->accum, err) ||
        merge(r, PLAN_STATED_SEQ, "seq", 0, &s->seq, err))
        return -1;
    *strategy = plan_row_strategy(r->row, s->accum);
    set_types(r, s);
    s->recompute |= r->at[PLAN_STATED_RECOMPUTE] && model->unit;
    s->keep = r->row->flags & PLAN_ROW_KEEPS ? PLAN_KEEP_ALL : 0;
    remark_row(r, s->accum);
    return 0;
}
