/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads a Hugging Face config.json: finds its family, and reads the keys that all families
 * have.  A known key sets a number of the network, must have the one supported value, or does
 * not affect the network.  Any other key may change the network, so it is an error, never
 * ignored.  Absent keys have the defaults of the family's configuration class in transformers.
 */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "model/model_keys.h"
#include "model/model_parts.h"

#define FAMILY_ADDRESS(name) &model_family_##name,
static const struct model_family *const families[] = {MODEL_FAMILIES(FAMILY_ADDRESS)};
enum { FAMILIES = sizeof families / sizeof *families };

const struct model_family model_family_params = {.name = "params"};

/* Words between blanks: keys without effect on the network; keys of sampling; keys read
   below. */
static const char harmless[] =
    " "
    "_attn_implementation _attn_implementation_autoset _commit_hash _name_or_path "
    "_num_labels attn_implementation auto_map bos_token_id chunk_size_feed_forward "
    "eos_token_id finetuning_task gradient_checkpointing id2label label2id max_length "
    "min_length name_or_path num_labels output_attentions output_hidden_states output_past "
    "pad_token_id prefix problem_type return_dict sep_token_id task_specific_params "
    "tokenizer_class torchscript transformers_version unk_token_id unsloth_fixed "
    "unsloth_version use_bfloat16 use_cache "
    "bad_words_ids begin_suppress_tokens decoder_start_token_id diversity_penalty do_sample "
    "early_stopping encoder_no_repeat_ngram_size exponential_decay_length_penalty "
    "forced_bos_token_id forced_eos_token_id length_penalty no_repeat_ngram_size "
    "num_beam_groups num_beams num_return_sequences output_scores remove_invalid_values "
    "repetition_penalty return_dict_in_generate suppress_tokens temperature top_k top_p "
    "typical_p "
    "architectures dtype model_type quantization_config torch_dtype ";

/* Keys of all families. */
static const struct model_key common[] = {
    {"add_cross_attention", KEY_FIXED, 0, 0},
    {"is_decoder", KEY_FIXED, 0, 0},
    {"is_encoder_decoder", KEY_FIXED, 0, 0},
    {"tf_legacy_loss", KEY_FIXED, 0, 0},
    {"tie_encoder_decoder", KEY_FIXED, 0, 0},
    {"initializer_range", KEY_NUMBER, MODEL_AT(init_std), 0.02},
    {0},
};

/* Keys of families with rotary positions (model_rope.c). */
static const char rotary[] =
    " original_max_position_embeddings rope_parameters rope_scaling rope_theta ";

/*
 * The bounds of KEY_INT are about ten times the largest known models.  With them the largest
 * tensor has 2^44 elements, a layer less than 2^47, a model less than 2^61: no product
 * overflows.
 */
static const struct {
    size_t at;
    int64_t most;
} bounds[] = {
    {MODEL_AT(vocab), 1 << 24},
    {MODEL_AT(hidden), 1 << 20},
    {MODEL_AT(ffn), 1 << 22},
    {MODEL_AT(layers), 1 << 14},
    {MODEL_AT(heads), 1 << 14},
    {MODEL_AT(kv_heads), 1 << 14},
    {MODEL_AT(head_dim), 1 << 16},
    {MODEL_AT(positions), 1 << 24},
    {MODEL_AT(max_seq), INT64_C(1) << 31},
    {MODEL_AT(window), INT64_C(1) << 31},
    {MODEL_AT(layer_period), INT64_C(1) << 31},
};

/* --- family --- */

/* Lists the families' names, or their architectures: "\"llama\", \"gpt2\" or ...". */
static const char *print_families(int architecture, char text[512])
{
    size_t used = 0;

    for (int i = 0; i < FAMILIES; i++)
        used += (size_t)snprintf(text + used, 512 - used, "%s%s\"%s\"%s",
                                 i == 0             ? ""
                                 : i < FAMILIES - 1 ? ", "
                                                    : " or ",
                                 architecture ? "[" : "",
                                 architecture ? families[i]->architecture : families[i]->name,
                                 architecture ? "]" : "");
    return text;
}

/* Finds a family by its name, or by its architecture's; v may be of any kind. */
static const struct model_family *find_family(const struct tree_node *v, int architecture)
{
    for (int i = 0; i < FAMILIES; i++) {
        const char *name = architecture ? families[i]->architecture : families[i]->name;
        if (tree_string(v) && strcmp(tree_string(v), name) == 0)
            return families[i];
    }
    return NULL;
}

static int read_architecture(const struct config *c, const struct model_family **out)
{
    const struct tree_node *list = tree_get(c->tree->root, "architectures");
    const char *first = tree_string(tree_first(list, TREE_LIST));
    const struct model_family *want = *out, *have = find_family(list ? list->child : NULL, 1);
    char all[512];

    if (!list)
        return want ? 0
                    : KEY_FAIL(c, "model_type", "is missing, expected %s",
                               print_families(0, all));
    if (list->items != 1 || !first)
        return KEY_FAIL(c, "architectures", "is not a list of one name, expected [\"%s\"]",
                        want ? want->architecture : families[0]->architecture);
    if (want && have != want)
        return KEY_FAIL(c, "architectures", "is [\"%.60s\"], expected [\"%s\"]", first,
                        want->architecture);
    if (!have)
        return KEY_FAIL(c, "architectures", "is [\"%.60s\"], expected %s", first,
                        print_families(1, all));
    *out = have;
    return 0;
}

static int read_family(const struct config *c, const struct model_family **out)
{
    const struct tree_node *type = keys_find(c, "model_type");
    const char *text = tree_string(type);
    char all[512];

    *out = find_family(type, 0);
    if (type && !*out)
        return KEY_FAIL(c, "model_type", "is %s%.60s%s, expected %s", text ? "\"" : "",
                        text ? text : tree_shown(c->tree, type), text ? "\"" : "",
                        print_families(0, all));
    return read_architecture(c, out);
}

/* --- keys --- */

static int config_is_word(const char *words, const char *key)
{
    char padded[128];
    int n = snprintf(padded, sizeof padded, " %s ", key);

    return n < (int)sizeof padded && !strchr(key, ' ') && strstr(words, padded);
}

static const struct model_key *config_find_key(const struct model_key *list, const char *key)
{
    while (list->name && strcmp(list->name, key))
        list++;
    return list->name ? list : NULL;
}

/* Finds the key that a field is read from, or NULL. */
static const struct model_key *config_key_of(const struct model_family *f, size_t at)
{
    const struct model_key *k = f->keys;

    while (k->name && (k->type == KEY_FIXED || k->type == KEY_IGNORED || k->at != at))
        k++;
    return k->name ? k : NULL;
}

static int check_fixed(const struct config *c, const struct model_key *k)
{
    const struct tree_node *v = tree_get(c->tree->root, k->name);
    double d = tree_is(v, "true");

    if (!v)
        return 0;
    if (!tree_is_bool(v) && !tree_is_number(v, &d))
        return KEY_FAIL(c, k->name, "is %s, expected %g", tree_shown(c->tree, v), k->value);
    if (d != k->value)
        return KEY_FAIL(c, k->name, "is %g, expected %g: another value is not supported", d,
                        k->value);
    return 0;
}

static int config_check_keys(const struct config *c, const struct model_family *family)
{
    for (const struct tree_node *n = c->tree->root->child; n; n = n->next)
        if (!config_find_key(common, n->key) && !config_find_key(family->keys, n->key) &&
            !config_is_word(harmless, n->key) &&
            !(family->rope_theta > 0 && config_is_word(rotary, n->key)))
            return KEY_FAIL(c, n->key,
                            "is not a key known for the %s family: it may change the network",
                            family->name);
    if (tree_get(c->tree->root, "quantization_config"))
        return KEY_FAIL(c, "quantization_config",
                        "is present: quantized weights are not supported");
    return 0;
}

static int read_int(const struct config *c, const struct model_key *k, int64_t *out)
{
    int nullable = k->type != KEY_INT;
    size_t i = 0;

    while (i < sizeof bounds / sizeof *bounds && bounds[i].at != k->at)
        i++;
    assert(i < sizeof bounds / sizeof *bounds); /* a table error: each size must have a bound */
    if (nullable && keys_find(c, k->name) && !tree_get(c->tree->root, k->name))
        *out = 0;
    return keys_int(c, k->name, bounds[i].most, nullable, out);
}

/* Reads another name of the same number. */
static int read_same(const struct config *c, const struct model_key *k, int64_t want,
                     const struct model_family *f)
{
    int64_t have = k->value > 0 ? (int64_t)k->value : want;

    if (read_int(c, k, &have))
        return -1;
    if (have && have != want)
        return KEY_FAIL(c, k->name, "is %" PRId64 ", but %s is %" PRId64, have,
                        config_key_of(f, k->at)->name, want);
    return 0;
}

static int read_dropout(const struct config *c, const struct model_key *k, double *most)
{
    double p = k->value;

    if (keys_num(c, k->name, 1, &p))
        return -1;
    if (p > 1)
        return KEY_FAIL(c, k->name, "is %g, expected a probability", p);
    if (p > *most)
        *most = p;
    return 0;
}

static int read_activation(const struct config *c, const struct model_key *k, struct model *m)
{
    const struct model_activation *a = m->family->activations;
    const char *words[8] = {0};
    int which = 0;

    for (int i = 0; a[i].word; i++)
        words[i] = a[i].word;
    if (keys_word(c, k->name, words, &which))
        return -1;
    m->ffn_type = a[which].ffn;
    return 0;
}

/* *list: one entry for each layer, further entries are ignored; or NULL if the config has
   none. */
static int config_read_list(const struct config *c, const struct model_key *k,
                            const struct model *m, const struct tree_node **list)
{
    const struct tree_node *n = *list = tree_get(c->tree->root, k->name);

    if (n && n->kind != TREE_LIST)
        return KEY_FAIL(c, k->name, "is %s, expected a list", tree_shown(c->tree, n));
    if (n && n->items < m->layers)
        return KEY_FAIL(c, k->name,
                        "has %d entries, expected one for each of %" PRId64 " layers", n->items,
                        m->layers);
    return 0;
}

static int read_full(const struct config *c, const struct model_key *k, const struct model *m)
{
    const struct tree_node *list;

    if (config_read_list(c, k, m, &list))
        return -1;
    for (const struct tree_node *v = list ? list->child : NULL; v; v = v->next) {
        const char *text = tree_string(v), *word = text ? text : tree_shown(c->tree, v);

        if (strcmp(word, "full_attention"))
            return KEY_FAIL(c, k->name, "has %.60s, expected full_attention in each layer",
                            word);
    }
    return 0;
}

/* Finds the kind with that word, or number; -1: none. */
static int find_kind(const struct model_layer_kind *kind, const struct tree_node *v)
{
    for (int i = 0; v->text && kind[i].word; i++)
        if (strcmp(kind[i].word, v->text) == 0)
            return i;
    return -1;
}

static int read_layers(const struct config *c, const struct model_key *k, struct model *m)
{
    const struct model_layer_kind *kind = m->family->layer_kinds;
    const struct tree_node *list;

    if (config_read_list(c, k, m, &list))
        return -1;
    m->layer_kind = mem_new((size_t)m->layers, 1);
    const struct tree_node *v = list ? list->child : NULL;
    for (int64_t i = 0; i < m->layers; i++, v = v ? v->next : NULL) {
        int which = v ? find_kind(kind, v) : (i + 1) % m->layer_period == 0;
        if (which < 0)
            return KEY_FAIL(c, k->name,
                            "has an unknown entry for layer %" PRId64 ", expected %s or %s", i,
                            kind[0].word, kind[1].word);
        if (kind[which].rope == MODEL_LOCAL_ROPE && !m->window)
            return KEY_FAIL(c, config_key_of(m->family, MODEL_AT(window))->name,
                            "is null, expected a whole number: layer %" PRId64 " is %s", i,
                            kind[which].word);
        m->layer_kind[i] = (char)which;
    }
    return 0;
}

static int config_read_key(const struct config *c, const struct model_key *k, struct model *m)
{
    char *at = (char *)m + k->at;

    switch (k->type) {
    case KEY_IGNORED:
        return 0;
    case KEY_FIXED:
        return check_fixed(c, k);
    case KEY_INT:
    case KEY_INT_OR_NULL:
        *(int64_t *)(void *)at = (int64_t)k->value;
        return read_int(c, k, (int64_t *)(void *)at);
    case KEY_SAME:
        return read_same(c, k, *(int64_t *)(void *)at, m->family);
    case KEY_POSITIVE:
    case KEY_NUMBER:
        *(double *)(void *)at = k->value;
        return keys_num(c, k->name, k->type == KEY_NUMBER, (double *)(void *)at);
    case KEY_BOOL:
        *(int *)(void *)at = k->value != 0;
        return tree_bool(c->tree, keys_find(c, k->name), (int *)(void *)at, c->err);
    case KEY_ACTIVATION:
        return read_activation(c, k, m);
    case KEY_DROPOUT:
        return read_dropout(c, k, &m->dropout);
    case KEY_FULL:
        return read_full(c, k, m);
    case KEY_LAYERS:
        return read_layers(c, k, m);
    }
    return -1;
}

/* Derives sizes that the config leaves open from others. */
static int derive_sizes(const struct config *c, struct model *m)
{
    const struct model_family *f = m->family;
    const struct model_key *head_dim = config_key_of(f, MODEL_AT(head_dim));
    const char *heads = config_key_of(f, MODEL_AT(heads))->name;

    m->kv_heads = m->kv_heads ? m->kv_heads : m->heads;
    m->ffn = m->ffn ? m->ffn : 4 * m->hidden;
    m->max_seq = m->positions ? m->positions : m->max_seq;
    if (!head_dim && m->hidden % m->heads)
        return KEY_FAIL(c, heads, "is %" PRId64 ", expected a divisor of %s, which is %" PRId64,
                        m->heads, config_key_of(f, MODEL_AT(hidden))->name, m->hidden);
    /* rounded as in transformers */
    m->head_dim = m->head_dim ? m->head_dim : m->hidden / m->heads;
    if (m->heads % m->kv_heads)
        return KEY_FAIL(c, config_key_of(f, MODEL_AT(kv_heads))->name,
                        "is %" PRId64 ", expected a divisor of %s, which is %" PRId64,
                        m->kv_heads, heads, m->heads);
    /* Rotary embedding rotates pairs of elements. */
    if (head_dim && (m->head_dim < 2 || m->head_dim % 2))
        return KEY_FAIL(c, head_dim->name, "is %" PRId64 ", expected an even number",
                        m->head_dim);
    if (head_dim && m->heads * m->head_dim > 1 << 24)
        return KEY_FAIL(c, head_dim->name, "times %s is %" PRId64 ", expected at most %d",
                        heads, m->heads * m->head_dim, 1 << 24);
    return 0;
}

static int read_dtype(const struct config *c, struct model *m)
{
    static const char *const words[] = {"float32", "bfloat16", "float16", "float64", NULL};
    static const char *const ours[] = {"f32", "bf16", "f16", "f64"};
    static const char *const keys[] = {"torch_dtype", "dtype"};
    int seen = -1;

    strcpy(m->dtype, "f32");
    for (size_t k = 0; k < 2; k++) {
        int i = -1;
        if (!tree_get(c->tree->root, keys[k]))
            continue;
        if (keys_word(c, keys[k], words, &i))
            return -1;
        if (seen >= 0 && seen != i)
            return KEY_FAIL(c, keys[k], "is %s, but 'torch_dtype' is %s", words[i],
                            words[seen]);
        seen = i;
        strcpy(m->dtype, ours[i]);
    }
    return 0;
}

static int config_read_keys(const struct config *c, const struct model_key *k, struct model *m)
{
    for (; k->name; k++)
        if (config_read_key(c, k, m))
            return -1;
    return 0;
}

static int config_read_config(const struct config *c, struct model *m)
{
    if (c->tree->root->kind != TREE_MAP)
        return KEY_FAIL(c, NULL, "is %s, expected an object",
                        tree_shown(c->tree, c->tree->root));
    if (read_family(c, &m->family) || config_check_keys(c, m->family))
        return -1;
    m->norm = m->family->norm;
    if (config_read_keys(c, common, m) || config_read_keys(c, m->family->keys, m) ||
        derive_sizes(c, m) || (m->family->rope_theta > 0 && keys_rope(c, m)))
        return -1;
    m->rope.longest = m->max_seq;
    if (m->rope.type == MODEL_ROPE_LONG && m->rope.original_max < (double)m->max_seq)
        /* longer sequences would need other rotations */
        m->max_seq = (int64_t)m->rope.original_max;
    if (m->window && m->window < m->max_seq)
        m->max_seq = m->window; /* a longer sequence would need the window in attention */
    return read_dtype(c, m);
}

int model_config_read(struct model *m, const char *name, const char *text, int64_t bytes,
                      struct err *err)
{
    struct tree t = {0};
    int rc = err_any(tree_parse_loose(&t, name, 1, text, bytes, err) ||
                     config_read_config(&(struct config){&t, err}, m));

    tree_release(&t);
    return rc;
}

const char *model_max_seq_key(const struct model *m)
{
    size_t at = m->window == m->max_seq ? MODEL_AT(window)
                : m->positions          ? MODEL_AT(positions)
                                        : MODEL_AT(max_seq);

    if (m->rope.type == MODEL_ROPE_LONG && m->rope.original_max == (double)m->max_seq)
        return "original_max_position_embeddings";
    return config_key_of(m->family, at)->name;
}

/* --- two configs --- */

/* Returns the number that a key set in the model; 0 for keys that do not distinguish
   networks. */
static double config_value_of(const struct model *m, const struct model_key *k)
{
    const void *at = (const char *)m + k->at;
    int dynamic = m->rope.type == MODEL_ROPE_DYNAMIC; /* its angles depend on the maximum */

    switch (k->type) {
    case KEY_INT:
    case KEY_INT_OR_NULL:
        if (k->at == MODEL_AT(window) || k->at == MODEL_AT(layer_period) ||
            (k->at == MODEL_AT(max_seq) && !dynamic))
            return 0;
        return (double)*(const int64_t *)at;
    case KEY_POSITIVE:
    case KEY_NUMBER:
        return *(const double *)at;
    case KEY_BOOL:
        return *(const int *)at;
    default:
        return 0;
    }
}

static const char *activation_word(const struct model *m)
{
    const struct model_activation *a = m->family->activations;

    while (a->ffn != m->ffn_type)
        a++;
    return a->word;
}

static int kinds_differ(const struct model *a, const struct model *b, char in_a[32],
                        char in_b[32])
{
    const struct model_layer_kind *kind = a->family->layer_kinds;
    int i = 0;

    while (i < a->layers && a->layer_kind[i] == b->layer_kind[i])
        i++;
    if (i == a->layers)
        return 0;
    snprintf(in_a, 32, "%.17s (%d)", kind[(int)a->layer_kind[i]].word, i);
    snprintf(in_b, 32, "%.17s (%d)", kind[(int)b->layer_kind[i]].word, i);
    return 1;
}

const char *model_difference(const struct model *a, const struct model *b, char in_a[32],
                             char in_b[32])
{
    if (a->family != b->family) {
        snprintf(in_a, 32, "%s", a->family->name);
        snprintf(in_b, 32, "%s", b->family->name);
        return "model_type";
    }
    for (const struct model_key *k = a->family->keys; k->name; k++) {
        if (k->type == KEY_ACTIVATION && a->ffn_type != b->ffn_type) {
            snprintf(in_a, 32, "%s", activation_word(a));
            snprintf(in_b, 32, "%s", activation_word(b));
            return k->name;
        }
        if (k->type == KEY_LAYERS && kinds_differ(a, b, in_a, in_b))
            return k->name;
        if (config_value_of(a, k) != config_value_of(b, k)) {
            snprintf(in_a, 32, "%g", config_value_of(a, k));
            snprintf(in_b, 32, "%g", config_value_of(b, k));
            return k->name;
        }
    }
    return keys_rope_difference(&a->rope, &b->rope, in_a, in_b);
}
