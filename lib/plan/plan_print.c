/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how a plan is written: paro-plan/1 (YAML, paro-plan(5)) and paro.plan/1 (JSON). */
#include "plan/plan.h"

#include "plan/tally.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/jout.h"
#include "base/yaml.h"

static void put_number(FILE *f, const char *key, double value)
{
    fprintf(f, "%s: ", key);
    yaml_put_f64(f, value);
    putc('\n', f);
}

static void put_predicted(FILE *f, const struct plan *plan)
{
    const struct plan_price *p = &plan->price;
    const struct plan_checkpoint *c = &plan->checkpoint;

    fputs("predicted:\n", f);
    if (plan->rates_of[0])
        fprintf(f, "  rates_of: %s\n", plan->rates_of);
    fputs("  memory_bytes:\n", f);
    put_number(f, "    params", p->memory.params);
    put_number(f, "    grads", p->memory.grads);
    put_number(f, "    optimizer", p->memory.optimizer);
    put_number(f, "    activations", p->memory.activations);
    put_number(f, "    buffers", p->memory.buffers);
    put_number(f, "    total", p->memory.total);
    put_number(f, "  slow_bytes", p->slow_bytes);
    put_number(f, "  slow_bytes_per_rank", p->slow_rank_bytes);
    put_number(f, "  fast_bytes", p->fast_bytes);
    if (isfinite(p->tokens_per_s)) /* else unknown as well */
        put_number(f, "  compute_s", p->compute_s);
    put_number(f, "  comm_s", p->comm_s);
    put_number(f, "  step_s", p->step_s);
    if (isfinite(p->tokens_per_s))
        put_number(f, "  tokens_per_s", p->tokens_per_s);
    if (c->bytes > 0) {
        put_number(f, "  checkpoint_bytes", c->bytes);
        put_number(f, "  checkpoint_rank_bytes", c->rank_bytes);
    }
    if (c->s > 0)
        put_number(f, "  checkpoint_s", c->s);
}

static void put_groups(FILE *f, const struct plan *p)
{
    fputs("groups:\n", f);
    for (int k = 0; k < p->groups.count; k++) {
        fputs("  - host: ", f);
        yaml_put_text(f, p->host[k]);
        fputs("\n    ranks: [", f);
        for (int j = 0; j < p->groups.members[k]; j++)
            fprintf(f, "%s%d", j ? ", " : "", groups_rank(&p->groups, k, j));
        fputs("]\n", f);
    }
}

/* May the text stand as it is?  A literal block keeps tabs and printable ASCII untouched. */
static int is_literal(const char *text)
{
    for (const char *p = text; *p; p++)
        if (*p != '\n' && *p != '\t' && (*p < ' ' || *p > '~'))
            return 0;
    return 1;
}

/*
 * A literal block, one level of two spaces below its key.  The header says what indentation
 * alone cannot: "2" where the text itself begins with space, "-" where no newline ends it, "+"
 * where several do.
 */
static void put_literal(FILE *f, const char *indent, const char *text)
{
    size_t bytes = strlen(text);
    int ends = bytes > 0 && text[bytes - 1] == '\n';

    fputs(strchr(" \t\n", text[0]) ? "|2" : "|", f);
    fputs(!ends ? "-" : bytes > 1 && text[bytes - 2] == '\n' ? "+" : "", f);
    putc('\n', f);
    while (*text) {
        size_t line = strcspn(text, "\n");
        if (line)
            fprintf(f, "%s%.*s", indent, (int)line, text);
        putc('\n', f);
        text += line + (text[line] == '\n');
    }
}

static void put_text(FILE *f, const char *key, const char *indent, const char *text)
{
    fprintf(f, "%s: ", key);
    if (is_literal(text)) {
        put_literal(f, indent, text);
        return;
    }
    yaml_put_text(f, text);
    putc('\n', f);
}

static void put_model(FILE *f, const struct model *m)
{
    fputs("model:\n", f);
    if (!m->config) {
        fprintf(f, "  params: %" PRId64 "\n", m->params);
        return;
    }
    if (m->partial) {
        fputs("  trains: ", f);
        yaml_put_text(f, m->partial);
        putc('\n', f);
    }
    put_text(f, "  config", "    ", m->config);
}

void plan_print(const struct plan *p, FILE *out)
{
    char name[4];

    plan_strategy_name(p->strategy, name);
    fputs("format: paro-plan/1\n", out);
    /* Quoted where YAML 1.1 would take a word for something else; a triple never is. */
    fprintf(out, "strategy: %s\n", name);
    fprintf(out, "algo: %s\n", schedule_algo_name(p->algo));
    fprintf(out, "micro_batch: %d\naccum: %d\nseq: %d\n", p->micro_batch, p->accum, p->seq);
    fprintf(out, "trainable: %" PRId64 "\n", p->trainable);
    fprintf(out, "types:\n  params: %s\n  wire: %s\n  grads: %s\n", dtype_name(p->param_type),
            dtype_name(p->wire_type), dtype_name(p->grad_type));
    fprintf(out, "  compute: %s\n", dtype_name(p->compute_type));
    fprintf(out, "  slow_params: %s\n  slow_grads: %s\n", plan_slow_name(p->slow_params),
            plan_slow_name(p->slow_grads));
    fprintf(out, "prefetch: %d\nbuckets: %d\n", p->prefetch, p->buckets);
    if (p->keep >= PLAN_KEEP_ALL)
        fputs("keep: all\n", out);
    else
        fprintf(out, "keep: %d\n", p->keep);
    fprintf(out, "recompute: %s\n", p->recompute ? "yes" : "no");
    fprintf(out, "chunk_bytes: %" PRId64 "\n", p->chunk_bytes);
    fprintf(out, "device: %s\n", plan_device_name(p->device));
    put_predicted(out, p);
    if (p->group_level >= 0)
        fprintf(out, "group_level: %d\n", p->group_level);
    if (p->fabric)
        put_text(out, "fabric", "  ", p->fabric);
    put_groups(out, p);
    put_model(out, &p->model);
}

void plan_put_price(struct jout *j, const struct plan_price *p)
{
    jout_open(j, "memory_bytes", '{');
    jout_num(j, "params", p->memory.params);
    jout_num(j, "grads", p->memory.grads);
    jout_num(j, "optimizer", p->memory.optimizer);
    jout_num(j, "activations", p->memory.activations);
    jout_num(j, "buffers", p->memory.buffers);
    jout_num(j, "total", p->memory.total);
    jout_close(j, '}');
    jout_num(j, "slow_bytes", p->slow_bytes);
    jout_num(j, "slow_bytes_per_rank", p->slow_rank_bytes);
    jout_num(j, "fast_bytes", p->fast_bytes);
    jout_num(j, "compute_s", isfinite(p->tokens_per_s) ? p->compute_s : NAN);
    jout_num(j, "comm_s", p->comm_s);
    jout_num(j, "step_s", p->step_s);
    jout_num(j, "tokens_per_s", p->tokens_per_s);
}

void plan_put_keep(struct jout *j, int keep, int recompute)
{
    if (keep >= PLAN_KEEP_ALL)
        jout_text(j, "keep", "all");
    else
        jout_int(j, "keep", keep);
    jout_bool(j, "recompute", recompute);
}

void plan_put_batch(struct jout *j, const struct plan_case *at)
{
    jout_int(j, "micro_batch", at->micro_batch);
    jout_int(j, "accum", at->accum);
    plan_put_keep(j, at->keep, at->recompute);
}

static void json_groups(struct jout *j, const struct plan *p)
{
    jout_open(j, "groups", '[');
    for (int k = 0; k < p->groups.count; k++) {
        jout_open(j, NULL, '{');
        jout_text(j, "host", p->host[k]);
        jout_open(j, "ranks", '[');
        for (int i = 0; i < p->groups.members[k]; i++)
            jout_int(j, NULL, groups_rank(&p->groups, k, i));
        jout_close(j, ']');
        jout_close(j, '}');
    }
    jout_close(j, ']');
}

void plan_print_json(const struct plan *p, FILE *out)
{
    struct jout j = {.file = out, .pretty = 1};
    char name[4];

    plan_strategy_name(p->strategy, name);
    jout_open(&j, NULL, '{');
    jout_text(&j, "schema", "paro.plan/1");
    jout_text(&j, "strategy", name);
    jout_text(&j, "algo", schedule_algo_name(p->algo));
    jout_int(&j, "micro_batch", p->micro_batch);
    jout_int(&j, "accum", p->accum);
    jout_int(&j, "seq", p->seq);
    jout_int(&j, "trainable", p->trainable);
    jout_open(&j, "types", '{');
    jout_text(&j, "params", dtype_name(p->param_type));
    jout_text(&j, "wire", dtype_name(p->wire_type));
    jout_text(&j, "grads", dtype_name(p->grad_type));
    jout_text(&j, "compute", dtype_name(p->compute_type));
    jout_text(&j, "slow_params", plan_slow_name(p->slow_params));
    jout_text(&j, "slow_grads", plan_slow_name(p->slow_grads));
    jout_close(&j, '}');
    jout_int(&j, "prefetch", p->prefetch);
    jout_int(&j, "buckets", p->buckets);
    plan_put_keep(&j, p->keep, p->recompute);
    jout_int(&j, "chunk_bytes", p->chunk_bytes);
    jout_text(&j, "device", plan_device_name(p->device));
    jout_open(&j, "predicted", '{');
    jout_text(&j, "rates_of", p->rates_of[0] ? p->rates_of : NULL);
    plan_put_price(&j, &p->price);
    plan_put_checkpoint(&j, &p->checkpoint);
    jout_close(&j, '}');
    plan_put_level(&j, p->group_level);
    jout_text(&j, "fabric", p->fabric);
    json_groups(&j, p);
    jout_open(&j, "model", '{');
    if (p->model.config) {
        if (p->model.partial)
            jout_text(&j, "trains", p->model.partial);
        jout_text(&j, "config", p->model.config);
    } else
        jout_int(&j, "params", p->model.params);
    jout_close(&j, '}');
    jout_close(&j, '}');
}
