/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads and writes PEFT's folders of adapters (LoraConfig and save_pretrained of PEFT 0.21).
 * Some keys of adapter_config.json are read, some do not affect the adapters' result; any other
 * key enables a feature unless it is null, false or empty.
 */
#include "shard/shard_peft.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/io.h"
#include "value/value_json_out.h"
#include "base/mem.h"
#include "ckpt/ckpt_hf.h"
#include "model/model_keys.h"

enum { CONFIG_BYTES_MAX = 4 << 20 };

static const char *const harmless[] = {
    "auto_mapping",
    "base_model_name_or_path",
    "ensure_weight_tying",
    "exclude_modules",
    "fan_in_fan_out", /* implied by the storage of the matrix */
    "inference_mode",
    "layers_pattern",
    "layers_to_transform",
    "lora_dropout", /* not applied, like all dropout */
    "megatron_core",
    "peft_version",
    "qalora_group_size",
    "revision",
    "target_modules", /* implied by the tensors */
    /* read below */
    "bias",
    "init_lora_weights",
    "lora_alpha",
    "peft_type",
    "r",
    "task_type",
};

static int is_off(const struct tree_node *v)
{
    return v->kind == TREE_NULL || tree_is(v, "false") ||
           ((v->kind == TREE_LIST || v->kind == TREE_MAP) && v->items == 0);
}

static int peft_check_keys(const struct config *c)
{
    for (const struct tree_node *v = c->tree->root->child; v; v = v->next) {
        size_t i = 0, n = sizeof harmless / sizeof *harmless;
        while (i < n && strcmp(harmless[i], v->key))
            i++;
        if (i == n && !is_off(v))
            return KEY_FAIL(c, v->key, "is %.60s, expected null or false: it is not supported",
                            tree_shown(c->tree, v));
    }
    return 0;
}

static int report_mismatch(const struct config *c, const char *key, double is, double plan)
{
    KEY_FAIL(c, key, "is %g, but the plan's adapters have %g", is, plan);
    c->err->code = ERR_MISMATCH;
    return -1;
}

static int peft_read_keys(const struct config *c, const struct model *m)
{
    static const char *const type[] = {"LORA", NULL}, *const none[] = {"none", NULL};
    static const char *const task[] = {"CAUSAL_LM", NULL}, *const init[] = {"gaussian", NULL};
    const struct tree_node *root = c->tree->root,
                           *weights = tree_get(root, "init_lora_weights");
    double rank = 8, alpha = 8; /* LoraConfig's defaults */
    int any;

    if (root->kind != TREE_MAP)
        return KEY_FAIL(c, NULL, "is %s, expected an object", tree_shown(c->tree, root));
    if (!tree_find(root, "peft_type"))
        return KEY_FAIL(c, "peft_type", "is missing, expected LORA");
    if (keys_word(c, "peft_type", type, &any) || keys_word(c, "bias", none, &any) ||
        (tree_get(root, "task_type") && keys_word(c, "task_type", task, &any)))
        return -1;
    /* Other initializations change the matrices that the adapters are added to. */
    if (weights && !tree_is_bool(weights) && keys_word(c, "init_lora_weights", init, &any))
        return -1;
    if (peft_check_keys(c) || keys_num(c, "r", 0, &rank) ||
        keys_num(c, "lora_alpha", 0, &alpha))
        return -1;
    if (rank != (double)m->lora.rank)
        return report_mismatch(c, "r", rank, (double)m->lora.rank);
    return alpha == m->lora.alpha ? 0 : report_mismatch(c, "lora_alpha", alpha, m->lora.alpha);
}

int peft_check(const struct model *m, const char *name, const char *text, int64_t bytes,
               struct err *err)
{
    struct tree t = {0};
    int rc = err_any(tree_parse_loose(&t, name, 1, text, bytes, err) ||
                     peft_read_keys(&(struct config){&t, err}, m));

    tree_release(&t);
    return rc;
}

static int match_adapters(const struct st *st, const struct model *m, struct err *err)
{
    for (int i = 0; i < m->tensors; i++) {
        const struct model_tensor *t = &m->tensor[i];
        const struct st_tensor *have = st_find(st, t->name);
        if (!model_is_adapter(t))
            continue;
        if (!have) {
            return err_mismatch(err, st->path, t->name,
                                "is missing: the plan's model has this adapter");
        }
        if (hf_check_shape(st, have, t, err))
            return -1;
    }
    for (int i = 0; i < st->count; i++) {
        const struct model_tensor *t = model_find(m, st->tensor[i].name);
        if (t && model_is_adapter(t))
            continue;
        return err_mismatch(err, st->path, st->tensor[i].name,
                            "is no adapter of the plan's model, which trains '%.200s'",
                            m->partial);
    }
    return 0;
}

int peft_open(struct peft *p, const char *dir, const struct model *m, struct err *err)
{
    char *path = io_join(dir, "adapter_config.json"), *text = NULL;
    int64_t bytes = 0;
    int rc = io_read_file(path, CONFIG_BYTES_MAX, NULL, &text, &bytes, err);

    if (rc == 0)
        rc = peft_check(m, path, text, bytes, err);
    mem_free(text);
    mem_free(path);
    if (rc)
        return -1;
    path = io_join(dir, "adapter_model.safetensors");
    rc = st_open(&p->st, path, NULL, err);
    mem_free(path);
    if (rc)
        return -1;
    if (match_adapters(&p->st, m, err) == 0)
        return 0;
    peft_release(p);
    return -1;
}

void peft_release(struct peft *p)
{
    st_release(&p->st);
}

int peft_read(const struct peft *p, const struct model_tensor *t, int64_t first, int64_t count,
              enum dtype type, void *out, struct err *err)
{
    return st_read_as(&p->st, st_find(&p->st, t->name), first, count, type, out, err);
}

/* --- writing --- */

/* The last `parts` parts of a matrix's name without ".weight": "c_proj", "attn.c_proj". */
static void module_name(const struct model_tensor *t, int parts, char name[128])
{
    size_t n = strlen(t->name) - strlen(".weight"), at = n;

    while (at > 0 && (t->name[at - 1] != '.' || --parts > 0))
        at--;
    snprintf(name, 128, "%.*s", (int)(n - at), t->name + at);
}

/* Whether every matrix of a layer whose name ends in `word` has an adapter. */
static int names_adapted_alone(const struct model *m, const char *word)
{
    size_t w = strlen(word);

    for (int i = 0; i < m->tensors; i++) {
        const struct model_tensor *t = &m->tensor[i];
        size_t n = strlen(t->name) - (t->kind == MODEL_MATRIX ? strlen(".weight") : 0);
        if (t->kind == MODEL_MATRIX && n > w && t->name[n - w - 1] == '.' &&
            memcmp(t->name + n - w, word, w) == 0 && !model_adapter(m, t, MODEL_LORA_A))
            return 0;
    }
    return 1;
}

/* Lists each module once: PEFT adapts all modules whose name ends in ".WORD". */
static void put_targets(struct jout *j, const struct model *m)
{
    char(*seen)[128] = mem_new((size_t)m->tensors, sizeof *seen);
    int count = 0;

    jout_open(j, "target_modules", '[');
    for (int i = 0; i < m->tensors; i++) {
        int k = 0, parts = 1;
        if (!model_adapter(m, &m->tensor[i], MODEL_LORA_A))
            continue;
        do
            module_name(&m->tensor[i], parts++, seen[count]);
        while (!names_adapted_alone(m, seen[count]));
        while (strcmp(seen[k], seen[count]))
            k++;
        if (k == count)
            jout_text(j, NULL, seen[count++]);
    }
    jout_close(j, ']');
    mem_free(seen);
}

char *peft_config(const struct model *m, const char *base)
{
    char *text = NULL;
    size_t used;
    struct jout j = {.file = mem_stream(&text, &used), .pretty = 1};

    jout_open(&j, NULL, '{');
    jout_text(&j, "base_model_name_or_path", base);
    jout_text(&j, "bias", "none");
    jout_bool(&j, "fan_in_fan_out", m->family->transposed);
    jout_bool(&j, "inference_mode", 1);
    jout_bool(&j, "init_lora_weights", 1);
    if (m->lora.alpha == floor(m->lora.alpha))
        jout_int(&j, "lora_alpha", (int64_t)m->lora.alpha); /* PEFT declares it as an integer */
    else
        jout_num(&j, "lora_alpha", m->lora.alpha);
    jout_num(&j, "lora_dropout", 0);
    jout_null(&j, "modules_to_save");
    jout_text(&j, "peft_type", "LORA");
    jout_int(&j, "r", m->lora.rank);
    put_targets(&j, m);
    jout_text(&j, "task_type", "CAUSAL_LM");
    jout_close(&j, '}');
    fclose(j.file);
    return text;
}
