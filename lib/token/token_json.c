/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads tokenizer.json of Hugging Face's tokenizers.  Lists the supported kinds of steps and
 * their keys.
 */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "token/token_parts.h"

/* ---- steps ---- */

struct kind {
    const char *name;
    enum token_step_kind kind;
    const char *keys;
};

#define BYTE_LEVEL_KEYS "type add_prefix_space? trim_offsets? use_regex?"
#define METASPACE_KEYS  "type replacement str_rep? add_prefix_space? prepend_scheme? split?"

static const struct kind normalizers[] = {{"NFC", TOKEN_NFC, "type"},
                                          {"NFD", TOKEN_NFD, "type"},
                                          {"NFKC", TOKEN_NFKC, "type"},
                                          {"NFKD", TOKEN_NFKD, "type"},
                                          {"Lowercase", TOKEN_LOWERCASE, "type"},
                                          {"Prepend", TOKEN_PREPEND, "type prepend"},
                                          {"Replace", TOKEN_REPLACE, "type pattern content"},
                                          {"Strip", TOKEN_STRIP, "type strip_left strip_right"},
                                          {"Sequence", TOKEN_SEQUENCE, "type normalizers"},
                                          {0}};
static const struct kind pre_tokenizers[] = {
    {"ByteLevel", TOKEN_BYTE_LEVEL, BYTE_LEVEL_KEYS},
    {"Split", TOKEN_SPLIT, "type pattern behavior invert"},
    {"Digits", TOKEN_SPLIT, "type individual_digits"},
    {"Punctuation", TOKEN_SPLIT, "type behavior?"},
    {"Whitespace", TOKEN_SPLIT, "type"},
    {"WhitespaceSplit", TOKEN_SPLIT, "type"},
    {"Metaspace", TOKEN_METASPACE, METASPACE_KEYS},
    {"Sequence", TOKEN_SEQUENCE, "type pretokenizers"},
    {0}};
static const struct kind decoders[] = {{"ByteLevel", TOKEN_BYTE_LEVEL, BYTE_LEVEL_KEYS},
                                       {"ByteFallback", TOKEN_BYTE_FALLBACK, "type"},
                                       {"Fuse", TOKEN_FUSE, "type"},
                                       {"Replace", TOKEN_REPLACE, "type pattern content"},
                                       {"Strip", TOKEN_STRIP, "type content start stop"},
                                       {"Metaspace", TOKEN_METASPACE, METASPACE_KEYS},
                                       {"Sequence", TOKEN_SEQUENCE, "type decoders"},
                                       {0}};
static const struct kind processors[] = {
    {"ByteLevel", TOKEN_BYTE_LEVEL, BYTE_LEVEL_KEYS},
    {"TemplateProcessing", TOKEN_TEMPLATE, "type single pair? special_tokens"},
    {"Sequence", TOKEN_SEQUENCE, "type processors"},
    {0}};

/* Pre-tokenizers defined by patterns; White_Space and words are those of Rust's regex crate. */
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}"
static const struct {
    const char *name, *pattern;
    enum token_behavior behavior;
    int invert;
} patterns[] = {{"Digits", "\\p{N}", TOKEN_ISOLATED, 0},
                {"Punctuation", "[\\p{P}$+<=>^`|~]", TOKEN_ISOLATED, 0},
                {"Whitespace", "[" WORD "]+|[^\\s" WORD "]+", TOKEN_REMOVED, 1},
                {"WhitespaceSplit", "\\s", TOKEN_REMOVED, 0}};

struct parts {
    struct tree *tree;
    struct token_tables *t;
    struct err *err;
    int32_t tokens; /* number of tokens of the vocabulary and added so far */
};

typedef int take_step(struct parts *p, const struct tree_node *n, const struct kind *k,
                      struct token_steps *to);

/* Finds the step's kind and checks its keys; NULL: an error. */
static const struct kind *read_kind(struct parts *p, const struct tree_node *n,
                                    const struct kind *kinds)
{
    const char *names[16];
    int count = 0, which = -1;

    for (; kinds[count].name; count++)
        names[count] = kinds[count].name;
    if (n->kind == TREE_MAP && !tree_get(n, "type"))
        tree_fail(p->tree, n, "type", p->err, "is missing");
    else if (n->kind != TREE_MAP)
        tree_keys(p->tree, n, "type", p->err);
    else if (tree_choice(p->tree, tree_get(n, "type"), names, count, &which, p->err) == 0 &&
             tree_keys(p->tree, n, kinds[which].keys, p->err) == 0)
        return &kinds[which];
    return NULL;
}

/* Reads a step, or the steps of a sequence, in order. */
static int read_steps(struct parts *p, const struct tree_node *n, const struct kind *kinds,
                      take_step *take, struct token_steps *to)
{
    const struct kind *k = read_kind(p, n, kinds);

    if (!k)
        return -1;
    if (k->kind != TOKEN_SEQUENCE)
        return take(p, n, k, to);
    const struct tree_node *list = tree_get(n, strchr(k->keys, ' ') + 1);
    if (tree_list(p->tree, list, 0, 1000, p->err))
        return -1;
    for (const struct tree_node *c = list ? list->child : NULL; c; c = c->next)
        if (read_steps(p, c, kinds, take, to))
            return -1;
    return 0;
}

/* Copies a text of a step; an absent key leaves *out unchanged. */
static int json_read_text(struct parts *p, const struct tree_node *n, const char *key,
                          char **out)
{
    const char *text = NULL;

    if (tree_text(p->tree, tree_get(n, key), 0, SIZE_MAX, &text, p->err))
        return -1;
    if (text) {
        mem_free(*out);
        *out = mem_dup(text);
    }
    return 0;
}

static int compile_at(struct parts *p, const struct tree_node *n, const char *pattern,
                      int literal, struct token_regex *to)
{
    struct err why;

    return token_regex_compile(to, pattern, literal, &why)
               ? tree_fail(p->tree, n, NULL, p->err, "%s", why.text)
               : 0;
}

/* {"String": "..."} or {"Regex": "..."}. */
static int read_pattern(struct parts *p, const struct tree_node *n, struct token_step *s)
{
    const struct tree_node *pattern = tree_get(n, "pattern"),
                           *regex = tree_get(pattern, "Regex");
    const char *text = NULL;

    if (!pattern)
        return 0;
    if (tree_keys(p->tree, pattern, regex ? "Regex" : "String", p->err))
        return -1;
    if (!regex && (json_read_text(p, pattern, "String", &s->from) ||
                   compile_at(p, pattern, s->from, 1, &s->regex)))
        return -1;
    if (regex && (tree_text(p->tree, regex, 1, SIZE_MAX, &text, p->err) ||
                  compile_at(p, regex, text, 0, &s->regex)))
        return -1;
    s->known = regex ? token_pattern_of(text) : NULL;
    return 0;
}

static int read_scheme(struct parts *p, const struct tree_node *n, struct token_step *s)
{
    static const char *const schemes[] = {"never", "first", "always"};
    int adds = 1, which = -1;

    if (tree_bool(p->tree, tree_get(n, "add_prefix_space"), &adds, p->err) ||
        tree_choice(p->tree, tree_get(n, "prepend_scheme"), schemes, 3, &which, p->err))
        return -1;
    s->add = which >= 0 ? (enum token_add)which : adds ? TOKEN_ALWAYS : TOKEN_NEVER;
    return 0;
}

/* Reads the keys of all kinds of steps; keys that a kind lacks are absent. */
static int json_read_keys(struct parts *p, const struct tree_node *n, struct token_step *s)
{
    static const char *const behaviors[] = {"Removed", "Isolated", "MergedWithPrevious",
                                            "MergedWithNext", "Contiguous"};
    int which = (int)s->behavior, one_by_one = 1, split = 1;

    if (read_pattern(p, n, s) || json_read_text(p, n, "prepend", &s->to) ||
        json_read_text(p, n, "content", s->kind == TOKEN_STRIP ? &s->from : &s->to) ||
        json_read_text(p, n, "replacement", &s->to) ||
        tree_choice(p->tree, tree_get(n, "behavior"), behaviors, 5, &which, p->err) ||
        tree_bool(p->tree, tree_get(n, "invert"), &s->invert, p->err) ||
        tree_bool(p->tree, tree_get(n, "individual_digits"), &one_by_one, p->err) ||
        tree_bool(p->tree, tree_get(n, "strip_left"), &s->left, p->err) ||
        tree_bool(p->tree, tree_get(n, "strip_right"), &s->right, p->err) ||
        tree_int(p->tree, tree_get(n, "start"), 0, 1 << 20, &s->left, p->err) ||
        tree_int(p->tree, tree_get(n, "stop"), 0, 1 << 20, &s->right, p->err) ||
        tree_bool(p->tree, tree_get(n, "use_regex"), &split, p->err) ||
        tree_bool(p->tree, tree_get(n, "split"), &split, p->err))
        return -1;
    if ((s->kind == TOKEN_METASPACE || s->kind == TOKEN_BYTE_LEVEL) && read_scheme(p, n, s))
        return -1;
    s->behavior = !split        ? TOKEN_WHOLE
                  : !one_by_one ? TOKEN_CONTIGUOUS
                                : (enum token_behavior)which;
    return 0;
}

static int json_add_step(struct parts *p, const struct tree_node *n, const struct kind *k,
                         struct token_steps *to)
{
    to->step = mem_grow(to->step, &to->space, (size_t)to->count + 1, sizeof *to->step);
    struct token_step *s = &to->step[to->count++];
    *s = (struct token_step){.kind = k->kind, .behavior = TOKEN_ISOLATED};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        if (strcmp(patterns[i].name, k->name))
            continue;
        s->behavior = patterns[i].behavior;
        s->invert = patterns[i].invert;
        s->known = token_pattern_of(patterns[i].pattern);
        if (compile_at(p, n, patterns[i].pattern, 0, &s->regex))
            return -1;
    }
    if (json_read_keys(p, n, s))
        return -1;
    if (strstr(k->keys, " pattern") && !s->regex.code)
        return tree_fail(p->tree, n, "pattern", p->err, "is null, expected a pattern");
    if (strstr(k->keys, " content") && !(k->kind == TOKEN_STRIP ? s->from : s->to))
        return tree_fail(p->tree, n, "content", p->err, "is null, expected text");
    if (s->from && !*s->from && s->regex.code)
        return tree_fail(p->tree, n, "pattern", p->err, "is empty, expected text");
    if (k->kind == TOKEN_PREPEND && !(s->to && *s->to))
        return tree_fail(p->tree, n, "prepend", p->err, "is empty, expected text");
    if (k->kind != TOKEN_METASPACE)
        return 0;
    s->behavior = s->behavior == TOKEN_WHOLE ? TOKEN_WHOLE : TOKEN_MERGED_WITH_NEXT;
    if (!s->to || !*s->to || utf8_next(s->to, NULL) != (int)strlen(s->to))
        return tree_fail(p->tree, n, "replacement", p->err, "is '%.40s', expected a character",
                         s->to ? s->to : "null");
    return compile_at(p, n, s->to, 1, &s->regex);
}

/* ---- the model ---- */

/* Finds the pieces of bytes: characters, or the names of the byte fallback. */
static int json_read_bytes(struct parts *p, const struct tree_node *n)
{
    struct token_vocab *v = &p->t->vocab;
    int missing = 0;

    for (int b = 0; b < 256; b++) {
        char text[8] = {0};
        if (p->t->bytes)
            token_spell_byte(p->t, (unsigned char)b, text);
        else
            snprintf(text, sizeof text, "<0x%02X>", b);
        int32_t id = token_vocab_find(v, text, (int64_t)strlen(text));
        p->t->model.byte[b] = p->t->bytes || p->t->model.byte_fallback ? id : -1;
        missing += id < 0;
        if (id >= 0 && !p->t->bytes && p->t->model.byte_fallback)
            v->piece[id].kind = TOKENIZER_BYTE;
    }
    p->t->model.all_bytes = !missing && (p->t->bytes || p->t->model.byte_fallback);
    if (p->t->bytes && p->t->model.byte_fallback && missing)
        return tree_fail(p->tree, n, "byte_fallback", p->err,
                         "is true, expected false or a vocabulary that has every byte");
    return 0;
}

static int json_read_model(struct parts *p, const struct tree_node *n)
{
    static const char *const types[] = {"BPE"};
    struct token_model *m = &p->t->model;
    const char *unk = NULL, *prefix = "", *suffix = "";
    const struct tree_node *vocab, *merges;
    double dropout = 0;
    int which;

    if (!n || n->kind != TREE_MAP)
        return tree_fail(p->tree, p->tree->root, "model", p->err, "is missing");
    if (tree_choice(p->tree, tree_get(n, "type"), types, 1, &which, p->err) ||
        tree_keys(p->tree, n,
                  "type? dropout? unk_token? continuing_subword_prefix? end_of_word_suffix? "
                  "fuse_unk? byte_fallback? ignore_merges? vocab merges",
                  p->err) ||
        tree_f64(p->tree, tree_get(n, "dropout"), 0, 0, &dropout, p->err) ||
        tree_text(p->tree, tree_get(n, "continuing_subword_prefix"), 0, 0, &prefix, p->err) ||
        tree_text(p->tree, tree_get(n, "end_of_word_suffix"), 0, 0, &suffix, p->err) ||
        tree_text(p->tree, tree_get(n, "unk_token"), 0, SIZE_MAX, &unk, p->err) ||
        tree_bool(p->tree, tree_get(n, "fuse_unk"), &m->fuse_unk, p->err) ||
        tree_bool(p->tree, tree_get(n, "byte_fallback"), &m->byte_fallback, p->err) ||
        tree_bool(p->tree, tree_get(n, "ignore_merges"), &m->ignore_merges, p->err) ||
        ((vocab = tree_get(n, "vocab")) &&
         token_vocab_read(&p->t->vocab, p->tree, vocab, p->err)) ||
        ((merges = tree_get(n, "merges")) &&
         token_vocab_read_merges(&p->t->vocab, p->tree, merges, p->err)) ||
        json_read_bytes(p, n))
        return -1;
    if (!p->t->vocab.count)
        return tree_fail(p->tree, n, "vocab", p->err, "has no tokens, expected an object");
    m->unk = unk ? token_vocab_find(&p->t->vocab, unk, (int64_t)strlen(unk)) : -1;
    if (unk && m->unk < 0 && !m->all_bytes)
        return tree_fail(p->tree, n, "unk_token", p->err,
                         "is '%.40s', expected a token of the vocabulary", unk);
    if (m->unk >= 0)
        p->t->vocab.piece[m->unk].kind = TOKENIZER_UNKNOWN;
    return 0;
}

/* ---- added tokens ---- */

static int read_added(struct parts *p, const struct tree_node *n, int64_t most)
{
    struct token_tables *t = p->t;
    struct token_added *a = &t->added[t->added_count];
    const char *content = NULL;
    int64_t id = -1;
    int32_t old;

    *a = (struct token_added){.normalized = 1};
    if (tree_keys(p->tree, n, "id content single_word lstrip rstrip normalized special",
                  p->err) ||
        tree_i64(p->tree, tree_get(n, "id"), 0, most, &id, p->err) ||
        tree_text(p->tree, tree_get(n, "content"), 0, SIZE_MAX, &content, p->err) ||
        tree_bool(p->tree, tree_get(n, "single_word"), &a->single_word, p->err) ||
        tree_bool(p->tree, tree_get(n, "lstrip"), &a->lstrip, p->err) ||
        tree_bool(p->tree, tree_get(n, "rstrip"), &a->rstrip, p->err) ||
        tree_bool(p->tree, tree_get(n, "normalized"), &a->normalized, p->err) ||
        tree_bool(p->tree, tree_get(n, "special"), &a->special, p->err))
        return -1;
    if (id < 0 || !content)
        return tree_fail(p->tree, n, id < 0 ? "id" : "content", p->err, "is null");
    if (!*content) /* nothing to search for */
        return 0;
    a->id = (int32_t)id;
    int64_t bytes = (int64_t)strlen(content);
    int taken = id < t->vocab.count && t->vocab.piece[id].kind != TOKENIZER_UNUSED;
    int added = !taken && token_vocab_find(&t->vocab, content, bytes) < 0;
    if (added && a->id != p->tokens)
        return tree_fail(
            p->tree, n, "id", p->err,
            "is %d, expected %d: tokenizers gives a token that is added the number "
            "of tokens before it",
            a->id, p->tokens);
    p->tokens += added;
    int bad = token_vocab_add(&t->vocab, content, bytes, a->id, TOKENIZER_USER, &old);
    if (bad && (old != a->id || t->vocab.piece[old].bytes != bytes ||
                memcmp(t->vocab.text + t->vocab.piece[old].at, content, (size_t)bytes) != 0))
        return tree_fail(p->tree, n, "id", p->err,
                         "is %d, but token %d is '%.*s', expected the vocabulary's number or a "
                         "free one",
                         a->id, old, t->vocab.piece[old].bytes,
                         t->vocab.text + t->vocab.piece[old].at);
    struct token_piece *piece = &t->vocab.piece[a->id];
    if (piece->kind != TOKENIZER_UNKNOWN || t->bytes)
        piece->kind = a->special ? TOKENIZER_CONTROL : TOKENIZER_USER;
    t->added_count++;
    return 0;
}

static int read_all_added(struct parts *p, const struct tree_node *list)
{
    if (!list)
        return 0;
    if (tree_list(p->tree, list, 0, INT32_MAX, p->err))
        return -1;
    int64_t most = 2 * ((int64_t)p->t->vocab.count + list->items) + 1024;
    p->t->added = mem_new((size_t)list->items, sizeof *p->t->added);
    for (int32_t i = 0; i < p->t->vocab.count; i++)
        p->tokens += p->t->vocab.piece[i].kind != TOKENIZER_UNUSED;
    for (const struct tree_node *c = list->child; c; c = c->next)
        if (read_added(p, c, most))
            return -1;
    return 0;
}

/* ---- the post-processor ---- */

static int add_ids(struct parts *p, const struct tree_node *special, const char *key,
                   int32_t **to, int *count)
{
    const struct tree_node *entry = tree_get(special, key), *ids = tree_get(entry, "ids");
    int id = 0;

    if (!ids || tree_list(p->tree, ids, 0, 1000, p->err))
        return tree_fail(p->tree, special ? special : p->tree->root, key, p->err,
                         "has no ids, expected the numbers of its tokens");
    for (const struct tree_node *c = ids->child; c; c = c->next) {
        size_t space = (size_t)*count;
        if (tree_int(p->tree, c, 0, p->t->vocab.count - 1, &id, p->err))
            return -1;
        if (p->t->vocab.piece[id].kind == TOKENIZER_UNUSED)
            return tree_fail(p->tree, c, NULL, p->err, "is %d, expected the number of a token",
                             id);
        *to = mem_grow(*to, &space, (size_t)*count + 1, sizeof **to);
        (*to)[(*count)++] = id;
    }
    return 0;
}

/* Adds the tokens before and after a single sequence. */
static int add_processor(struct parts *p, const struct tree_node *n, const struct kind *k,
                         struct token_steps *to)
{
    const struct tree_node *single = tree_get(n, "single"),
                           *special = tree_get(n, "special_tokens");
    struct token_tables *t = p->t;
    int sequences = 0;

    if (k->kind != TOKEN_TEMPLATE)
        return 0;
    if (to->count++)
        return tree_fail(p->tree, n, NULL, p->err, "is the second template, expected one");
    if (tree_list(p->tree, single, 1, 1000, p->err))
        return -1;
    for (const struct tree_node *c = single ? single->child : NULL; c; c = c->next) {
        const struct tree_node *token = tree_get(c, "SpecialToken");
        const char *id = NULL;
        if (tree_keys(p->tree, c, token ? "SpecialToken" : "Sequence", p->err))
            return -1;
        if (!token) {
            sequences++;
            continue;
        }
        if (tree_text(p->tree, tree_get(token, "id"), 0, SIZE_MAX, &id, p->err))
            return -1;
        if (add_ids(p, special, id ? id : "", sequences ? &t->suffix : &t->prefix,
                    sequences ? &t->suffix_count : &t->prefix_count))
            return -1;
    }
    if (sequences != 1)
        return tree_fail(p->tree, n, "single", p->err, "has %d sequences, expected one",
                         sequences);
    return 0;
}

/* ---- the whole ---- */

/* Identifies the steps as one of the known pre-tokenizers. */
static enum tokenizer_words find_words(const struct token_tables *t)
{
    const struct token_step *s = t->pre.step;
    int n = t->pre.count, nfc = t->normal.count == 1 && t->normal.step[0].kind == TOKEN_NFC;
    const char *mark = "\xe2\x96\x81";

    if (!t->bytes) {
        int spaces = n == 1 && s[0].kind == TOKEN_METASPACE && strcmp(s[0].to, mark) == 0;
        for (int i = 0; i < t->normal.count; i++) {
            const struct token_step *r = &t->normal.step[i];
            spaces |= r->kind == TOKEN_REPLACE && r->from && strcmp(r->from, " ") == 0 &&
                      strcmp(r->to, mark) == 0;
        }
        return spaces && t->model.byte_fallback ? TOKENIZER_SENTENCEPIECE : TOKENIZER_OTHER;
    }
    int cuts = s[n - 1].behavior != TOKEN_WHOLE;
    if (s[n - 1].add || t->normal.count > nfc || n > 2)
        return TOKENIZER_OTHER;
    if (n == 1)
        return cuts && !nfc ? TOKENIZER_GPT2 : TOKENIZER_OTHER;
    if (s[0].behavior != TOKEN_ISOLATED || s[0].invert || !s[0].regex.code)
        return TOKENIZER_OTHER;
    enum tokenizer_words words = token_pattern_words(s[0].known);
    if (words == TOKENIZER_SMOLLM)
        return cuts && !nfc ? TOKENIZER_SMOLLM : TOKENIZER_OTHER;
    return !cuts && nfc == (words == TOKENIZER_QWEN2) ? words : TOKENIZER_OTHER;
}

/* Checks that the decoder works token by token. */
static int check_decoder(struct parts *p)
{
    const struct tree_node *root = p->tree->root;
    int fused = 0;

    for (int i = 0; i < p->t->decode.count; i++) {
        const struct token_step *s = &p->t->decode.step[i];
        int one = s->from && s->from[0] && !s->from[utf8_next(s->from, NULL)];
        if (s->kind == TOKEN_REPLACE && !s->from)
            return tree_fail(p->tree, root, "decoder", p->err,
                             "replaces by a regular expression, expected a String");
        if (s->kind == TOKEN_STRIP && !one)
            return tree_fail(p->tree, root, "decoder", p->err,
                             "strips '%.40s', expected one character", s->from);
        if (fused && !(s->kind == TOKEN_STRIP && s->right == 0) &&
            !(s->kind == TOKEN_REPLACE && one) && s->kind != TOKEN_FUSE)
            return tree_fail(p->tree, root, "decoder", p->err,
                             "has other steps after Fuse or ByteLevel than Strip at the start "
                             "and Replace of one character");
        fused |= s->kind == TOKEN_FUSE || s->kind == TOKEN_BYTE_LEVEL;
    }
    return 0;
}

static int check_steps(struct parts *p)
{
    const struct tree_node *root = p->tree->root;
    struct token_tables *t = p->t;

    for (int i = 0; i < t->pre.count; i++) {
        if (t->pre.step[i].kind == TOKEN_BYTE_LEVEL && i < t->pre.count - 1)
            return tree_fail(p->tree, root, "pre_tokenizer", p->err,
                             "has steps after ByteLevel, expected it last");
        if (t->pre.step[i].kind == TOKEN_METASPACE && i > 0)
            return tree_fail(p->tree, root, "pre_tokenizer", p->err,
                             "has steps before Metaspace, expected it first");
    }
    t->bytes = t->pre.count && t->pre.step[t->pre.count - 1].kind == TOKEN_BYTE_LEVEL;
    return 0;
}

static int json_read_parts(struct parts *p)
{
    const struct tree_node *root = p->tree->root, *n;
    struct token_tables *t = p->t;
    struct token_steps templates = {0};

    /* Truncation and padding concern batches for models: texts are encoded whole here. */
    if (tree_keys(p->tree, root,
                  "version? truncation? padding? added_tokens? normalizer? pre_tokenizer? "
                  "post_processor? decoder? model",
                  p->err))
        return -1;
    if (((n = tree_get(root, "normalizer")) &&
         read_steps(p, n, normalizers, json_add_step, &t->normal)) ||
        ((n = tree_get(root, "pre_tokenizer")) &&
         read_steps(p, n, pre_tokenizers, json_add_step, &t->pre)) ||
        ((n = tree_get(root, "decoder")) &&
         read_steps(p, n, decoders, json_add_step, &t->decode)) ||
        check_steps(p) || check_decoder(p) || json_read_model(p, tree_get(root, "model")) ||
        read_all_added(p, tree_get(root, "added_tokens")) ||
        ((n = tree_get(root, "post_processor")) &&
         read_steps(p, n, processors, add_processor, &templates)))
        return -1;
    t->has_decoder = tree_get(root, "decoder") != NULL;
    t->words = find_words(t);
    return 0;
}

int token_json_read(struct token_tables *t, const char *name, const char *text, int64_t bytes,
                    struct err *err)
{
    struct tree tree = {0};
    struct parts p = {.tree = &tree, .t = t, .err = err};
    int rc = tree_parse_json(&tree, name, 1, text, bytes, err) || json_read_parts(&p) ? -1 : 0;

    tree_release(&tree);
    if (rc == 0)
        token_vocab_index(&t->vocab);
    return rc;
}

void token_steps_release(struct token_steps *s)
{
    for (int i = 0; i < s->count; i++) {
        mem_free(s->step[i].from);
        mem_free(s->step[i].to);
        token_regex_release(&s->step[i].regex);
    }
    mem_free(s->step);
    *s = (struct token_steps){0};
}
