/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parses which parameters train: patterns of names, or low-rank adapters (Hu et al., "LoRA",
 * 2021), which have PEFT's names, so that its folders can be read.
 */
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "model/model_parts.h"

static const char prefix[] = "base_model.model.", weight[] = ".weight";

int model_trains(const struct model *m, const struct model_tensor *t)
{
    return t->offset < m->unit[t->unit].trained;
}

int model_is_adapter(const struct model_tensor *t)
{
    return t->kind == MODEL_LORA_A || t->kind == MODEL_LORA_B;
}

/* "base_model.model.(matrix without .weight).lora_A.weight" */
static void adapter_name(const char *matrix, enum model_kind kind, char name[128])
{
    snprintf(name, 128, "%s%.*s.lora_%c%s", prefix, (int)(strlen(matrix) - (sizeof weight - 1)),
             matrix, kind == MODEL_LORA_A ? 'A' : 'B', weight);
}

const struct model_tensor *model_adapter(const struct model *m, const struct model_tensor *t,
                                         enum model_kind kind)
{
    const struct model_unit *u = &m->unit[t->unit];

    if (!m->lora.rank || t->kind != MODEL_MATRIX)
        return NULL;
    /* it is in the same unit, if it exists */
    for (int i = u->first; i < u->first + u->count; i++)
        if (m->tensor[i].kind == kind && m->tensor[i].module == t->module)
            return &m->tensor[i];
    return NULL;
}

char *model_next_part(const char **text, char end)
{
    if (!*text)
        return NULL;
    size_t n = strcspn(*text, (char[]){end, 0});
    char *part = mem_new(n + 1, 1);

    memcpy(part, *text, n);
    *text = (*text)[n] ? *text + n + 1 : NULL;
    return part;
}

/* Marks the tensors that a pattern of the list matches. */
static int mark_matches(const struct model *m, const char *list, char *marked, struct err *err)
{
    int rc = 0;

    for (char *p; rc == 0 && (p = model_next_part(&list, ',')); mem_free(p)) {
        int hits = 0;
        for (int i = 0; i < m->tensors; i++)
            if (fnmatch(p, m->tensor[i].name, 0) == 0)
                hits += marked[i] = 1;
        if (!hits)
            rc = err_set(err, ERR_INPUT,
                         "pattern '%s' matches no tensor, expected one such as '%s'", p,
                         m->tensor[m->tensors / 2].name);
    }
    return rc;
}

static int by_patterns(struct model *m, const char *list, int trains, struct err *err)
{
    char *frozen = mem_new((size_t)m->tensors, 1);
    int rc = mark_matches(m, list, frozen, err), left = 0;

    for (int i = 0; i < m->tensors; i++) {
        frozen[i] = (char)(frozen[i] != trains);
        left += !frozen[i];
    }
    if (rc == 0 && !left)
        rc = err_set(err, ERR_INPUT, "no tensor of %d is left to train", m->tensors);
    if (rc == 0)
        model_units_close(m, frozen);
    mem_free(frozen);
    return rc;
}

/* Whether a matrix's name, without ".weight", ends in ".WORD". */
static int ends_in(const char *name, const char *word)
{
    size_t n = strlen(name) - (sizeof weight - 1), w = strlen(word);

    return n > w && name[n - w - 1] == '.' && memcmp(name + n - w, word, w) == 0;
}

/* targets NULL: each matrix of a layer. */
static int mark_targets(const struct model *m, const char *targets, char *marked,
                        struct err *err)
{
    const char *rest = targets ? targets : "";
    int rc = 0;

    for (char *word; rc == 0 && (word = model_next_part(&rest, '+')); mem_free(word)) {
        int hits = 0;
        for (int i = 0; i < m->tensors; i++) {
            const struct model_tensor *t = &m->tensor[i];
            if (t->kind != MODEL_MATRIX || strncmp(m->unit[t->unit].name, "layers.", 7) ||
                (targets && !ends_in(t->name, word)))
                continue;
            hits += marked[i] = 1;
        }
        if (!hits)
            rc = err_set(
                err, ERR_INPUT,
                "target '%s' is not a linear layer of the model, expected one such as '%s'",
                word, strrchr(m->family->modules[model_module(m, MODEL_QKV)].name, '.') + 1);
    }
    return rc;
}

/* marked: [tensors], 1 for those that get adapters. */
static void add_adapter(struct model *m, int number, const void *marked)
{
    struct model_tensor *base = &m->tensor[m->tensors - 1], *t;
    int64_t in = base->shape[base->transposed ? 0 : 1];
    int64_t out = base->shape[base->transposed ? 1 : 0];
    char name[128];

    if (!((const char *)marked)[number])
        return;
    /* The variance of PEFT's initial A, uniform within 1 / sqrt(in); B begins at 0. */
    adapter_name(base->name, MODEL_LORA_A, name);
    t = model_tensor_add(m, name, MODEL_LORA_A, m->lora.rank, in);
    t->module = base->module;
    t->init_std = 1 / sqrt(3 * (double)in);
    adapter_name(base->name, MODEL_LORA_B, name);
    t = model_tensor_add(m, name, MODEL_LORA_B, out, m->lora.rank);
    t->module = base->module;
    t->init_std = 0;
}

struct lora_text {
    char *rank, *alpha, *targets;
};

static int read_lora(const char *text, struct lora_text *l, struct err *err)
{
    l->rank = model_next_part(&text, ',');
    for (char *p; (p = model_next_part(&text, ',')); mem_free(p)) {
        char **to = strncmp(p, "alpha=", 6) == 0     ? &l->alpha
                    : strncmp(p, "targets=", 8) == 0 ? &l->targets
                                                     : NULL;
        if (!to || *to) {
            err_set(err, ERR_INPUT, "'%s' %s, expected RANK[,alpha=A][,targets=WORD+WORD]", p,
                    to ? "is given twice" : "is unknown");
            mem_free(p);
            return -1;
        }
        *to = mem_dup(strchr(p, '=') + 1);
    }
    return 0;
}

static int by_lora(struct model *m, const char *text, struct err *err)
{
    struct lora_text l = {NULL, NULL, NULL};
    struct model_lora lora = {0};
    char *marked = mem_new((size_t)m->tensors, 1);
    int rc = read_lora(text, &l, err);

    /* 2^20: as wide as the widest model; useful ranks are far smaller. */
    if (rc == 0 && num_count(l.rank, 1, 1 << 20, &lora.rank, err))
        rc = err_prefix(err, "rank: ");
    lora.alpha = (double)lora.rank;
    if (rc == 0 && l.alpha && num_f64(l.alpha, 1e-6, 1e9, &lora.alpha, err))
        rc = err_prefix(err, "alpha: ");
    if (rc == 0)
        rc = mark_targets(m, l.targets, marked, err);
    if (rc == 0) {
        m->lora = lora;
        model_units_extend(m, 1, add_adapter, marked);
    }
    MEM_FREE(marked, l.rank, l.alpha, l.targets);
    return rc;
}

int model_train(struct model *m, const char *what, struct err *err)
{
    int rc = 0, all = strcmp(what, "all") == 0;

    if (all)
        return 0;
    if (!m->unit)
        return err_set(err, ERR_INPUT,
                       "the model is only a number of parameters, expected a config.json "
                       "to select what trains");
    if (strncmp(what, "train=", 6) == 0)
        rc = by_patterns(m, what + 6, 1, err);
    else if (strncmp(what, "freeze=", 7) == 0)
        rc = by_patterns(m, what + 7, 0, err);
    else if (strncmp(what, "lora=", 5) == 0)
        rc = by_lora(m, what + 5, err);
    else if (strncmp(what, "sparse=", 7) == 0)
        rc = model_train_sparse(m, what + 7, err);
    else
        rc = err_set(err, ERR_INPUT,
                     "'%s', expected all, train=PATTERN, freeze=PATTERN, lora=RANK or "
                     "sparse=S",
                     what);
    if (rc == 0)
        m->partial = mem_dup(what);
    return rc;
}
