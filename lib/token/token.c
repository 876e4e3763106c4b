/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens the files of a tokenizer: tokenizer.json, tokenizer.model, or GPT-2's vocabulary and
 * merges (Radford et al., "Language Models are Unsupervised Multitask Learners", 2019).  Reads
 * its special tokens and its chat template from other files of the folder.
 */
#include "token/token.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "token/token_parts.h"
#include "token/token_place.h"

/*
 * In byte-level vocabularies each byte is represented by a visible character: visible
 * characters of Latin-1 by themselves, the others by U+0100, U+0101, ... in order.
 */
static void fill_codes(struct token_tables *t)
{
    int next = 256;

    memset(t->byte_of, -1, sizeof t->byte_of);
    for (int b = 0; b < 256; b++) {
        int seen = (b > ' ' && b < 127) || (b > 160 && b != 173);
        t->code_of[b] = (uint16_t)(seen ? b : next++);
        t->byte_of[t->code_of[b]] = (int16_t)b;
    }
    assert(next == TOKEN_CODES);
}

int token_spell_byte(const struct token_tables *t, unsigned char byte, char *to)
{
    unsigned code = t->code_of[byte];

    if (code < 0x80) {
        *to = (char)code;
        return 1;
    }
    to[0] = (char)(0xc0 | code >> 6);
    to[1] = (char)(0x80 | (code & 0x3f));
    return 2;
}

int64_t token_bytes_of(const struct token_tables *t, const char *text, int64_t bytes, char *to)
{
    int64_t n = 0;

    for (int64_t at = 0; at < bytes; n++) {
        unsigned char c = (unsigned char)text[at];
        unsigned code = c < 0x80 ? c
                        : at + 1 < bytes
                            ? (c & 0x1fu) << 6 | ((unsigned char)text[at + 1] & 0x3f)
                            : TOKEN_CODES;
        if ((c >= 0x80 && c >> 5 != 6) || code >= TOKEN_CODES || t->byte_of[code] < 0)
            return -1;
        to[n] = (char)t->byte_of[code];
        at += 1 + (c >= 0x80);
    }
    return n;
}

/* ---- other files of the folder ---- */

/* The number of a token that a file of the folder gives as a text, an integer, or a list (its
   first). */
static int32_t token_named_token(const struct token_tables *t, const struct tree_node *root,
                                 const char *key)
{
    const struct tree_node *v = tree_get(root, key);
    int64_t id = -1;

    if (v && v->kind == TREE_LIST)
        v = v->child;
    if (v && v->kind == TREE_MAP)
        v = tree_get(v, "content");
    if (tree_is_whole(v, &id))
        return id >= 0 && id < t->vocab.count ? (int32_t)id : -1;
    return tree_string(v) ? token_vocab_find(&t->vocab, v->text, (int64_t)strlen(v->text)) : -1;
}

static int read_ends(struct token_tables *t, const struct token_place *p, struct err *err)
{
    static const struct {
        const char *name, *used, *key[2];
    } files[] = {
        {"tokenizer_config.json", "eos_token bos_token", {"eos_token", "bos_token"}},
        {"generation_config.json",
         "eos_token_id bos_token_id",
         {"eos_token_id", "bos_token_id"}},
        {"config.json", "eos_token_id bos_token_id", {"eos_token_id", "bos_token_id"}}};
    int32_t *to[] = {&t->end, &t->begin}, named[2] = {-1, -1};
    int rc = 0;

    for (int i = 0; rc == 0 && i < 3; i++) {
        struct tree file;
        rc = token_read_json(p, files[i].name, files[i].used, &file, err);
        for (int k = 0; rc == 0 && k < 2; k++)
            if (named[k] < 0)
                named[k] = token_named_token(t, file.root, files[i].key[k]);
        tree_release(&file);
    }
    for (int k = 0; k < 2; k++)
        if (named[k] >= 0)
            *to[k] = named[k];
    return rc;
}

/* Reads chat_template.jinja, or the template in one of two other files, alone or as
   "default". */
static int read_template(struct token_tables *t, const struct token_place *p, struct err *err)
{
    static const char *const files[] = {"chat_template.json", "tokenizer_config.json"};
    char *path = io_join(p->dir, "chat_template.jinja");
    int64_t bytes = 0;
    int rc = token_read_text(p, path, &t->template, &bytes, err);

    mem_free(path);
    for (int i = 0; rc == 0 && !t->template && i < 2; i++) {
        struct tree file;
        rc = token_read_json(p, files[i], "", &file, err);
        const struct tree_node *v = tree_get(file.root, "chat_template");
        const struct tree_node *one = tree_first(v, TREE_LIST);
        for (; one; one = one->next) {
            const char *name = tree_string(tree_get(one, "name"));
            if (name && strcmp(name, "default") == 0)
                v = tree_get(one, "template");
        }
        if (tree_string(v))
            t->template = mem_dup(v->text);
        tree_release(&file);
    }
    return rc;
}

/* ---- opening ---- */

static struct tokenizer *new_tokenizer(void)
{
    struct tokenizer *t = mem_new(1, sizeof *t);

    t->owned = mem_new(1, sizeof *t->owned);
    fill_codes(t->owned);
    t->owned->begin = t->owned->end = -1;
    t->tables = t->owned;
    return t;
}

/* Passes the opened tokenizer to the caller; rc: whether reading failed. */
static int token_finish(struct tokenizer **out, struct tokenizer *t, int rc)
{
    static const char end[] = "<|endoftext|>";

    if (rc) {
        tokenizer_close(t);
        return -1;
    }
    token_tables_prepare(t->owned);
    if (t->owned->end < 0)
        t->owned->end = token_vocab_find(&t->owned->vocab, end, sizeof end - 1);
    *out = t;
    return 0;
}

/* ---- tokenizer.model, with the other files of its folder ---- */

/*
 * Rejects tokens that would be found in texts but are not pieces of the model: the token of a
 * value (a text, or an object with its content), those of a list or object, or, with key NULL,
 * `name` with a number.
 */
static int check_added(const struct token_tables *t, const struct tree *tree, const char *key,
                       const struct tree_node *v, struct err *err)
{
    static const char *const flags[] = {"lstrip", "rstrip", "single_word", "normalized"};
    const struct tree_node *content = tree_find(v, "content");
    const char *text = key ? tree_string(content ? content : v) : v->key;
    int by_number = !key || strcmp(key, "added_tokens_decoder") == 0, same;
    int64_t number = key && v->key ? strtoll(v->key, NULL, 10) : 0;

    for (const struct tree_node *c = content ? NULL : v->child; c; c = c->next)
        if (check_added(t, tree, key, c, err))
            return -1;
    if (!text || !*text)
        return 0;
    int32_t id = token_vocab_find(&t->vocab, text, (int64_t)strlen(text));
    enum tokenizer_kind kind = id < 0 ? TOKENIZER_UNUSED : t->vocab.piece[id].kind;
    same = kind == TOKENIZER_CONTROL || kind == TOKENIZER_USER || kind == TOKENIZER_UNKNOWN;
    if (!key)
        tree_is_whole(v, &number);
    same &= !by_number || number == id;
    for (int i = 0; i < 3 + by_number; i++) /* transformers ignores the last one elsewhere */
        same &= !tree_is(tree_get(v, flags[i]), "true");
    return same ? 0
                : err_at(err, tree->name, v->line, key,
                         "adds '%.60s' to tokenizer.model, expected one of its control or "
                         "user-defined pieces, or a tokenizer.json that has it",
                         text);
}

/* Sets the tokens around a text; the default is only the beginning token.  special: the
   contents of special_tokens_map.json, which may name the tokens too. */
static int read_wrap(struct token_tables *t, const struct tree *config,
                     const struct tree_node *special, struct err *err)
{
    static const char *const adds[] = {"add_bos_token", "add_eos_token"};
    static const char *const names[] = {"bos_token", "eos_token"};
    int32_t *const ids[] = {&t->begin, &t->end}, **const to[] = {&t->prefix, &t->suffix};
    int *const count[] = {&t->prefix_count, &t->suffix_count};

    for (int k = 0; k < 2; k++) {
        int adds_it = k == 0, own = tree_find(config->root, names[k]) != NULL;
        int32_t named = token_named_token(t, own ? config->root : special, names[k]);
        if (tree_bool(config, tree_find(config->root, adds[k]), &adds_it, err))
            return -1;
        *ids[k] = named >= 0 ? named : *ids[k];
        if (*ids[k] < 0 || !adds_it)
            continue;
        *to[k] = mem_new(1, sizeof **to[k]);
        (*to[k])[(*count[k])++] = *ids[k];
    }
    return 0;
}

/* Reads a tokenizer.model; p NULL: without other files. */
static int read_spm(struct token_tables *t, const char *name, const char *text, int64_t bytes,
                    const struct token_place *p, struct err *err)
{
    static const char *const files[] = {"tokenizer_config.json", "special_tokens_map.json",
                                        "added_tokens.json"};
    static const char used[] = "add_prefix_space added_tokens_decoder "
                               "additional_special_tokens bos_token eos_token legacy";
    struct tree file[3] = {0};
    int rc = 0;

    for (int i = 0; p && rc == 0 && i < 3; i++)
        rc = token_read_json(p, files[i], used, &file[i], err);
    rc = err_any(rc || token_spm_read(t, name, text, bytes, file[0].root, err) ||
                 read_wrap(t, &file[0], file[1].root, err));
    for (int i = 0; rc == 0 && i < 3; i++)
        for (const struct tree_node *v = tree_first(file[i].root, TREE_MAP); v && rc == 0;
             v = v->next)
            if (i == 2 || strstr(v->key, "_token"))
                rc = check_added(t, &file[i], i == 2 ? NULL : v->key, v, err);
    for (int i = 0; i < 3; i++)
        tree_release(&file[i]);
    return rc;
}

static int parse_whole(struct tokenizer **out, const char *name, const char *text,
                       int64_t bytes, const struct token_place *p, struct err *err)
{
    struct tokenizer *t = new_tokenizer();
    const char *file = strrchr(name, '/');
    int model = strstr(file ? file : name, ".model") != NULL;

    return token_finish(out, t,
                        model ? read_spm(t->owned, name, text, bytes, p, err)
                              : token_json_read(t->owned, name, text, bytes, err));
}

int tokenizer_parse(struct tokenizer **out, const char *name, const char *text, int64_t bytes,
                    struct err *err)
{
    return parse_whole(out, name, text, bytes, NULL, err);
}

/* ---- GPT-2's files ---- */

/* Reads lines of "LEFT RIGHT", after an optional first line that begins with #version. */
static int read_merges(struct token_vocab *v, const char *name, const char *text, int64_t bytes,
                       struct err *err)
{
    const char *end = text + bytes;
    struct err why;
    int line = 0;

    for (const char *p = text; p < end;) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)((stop ? stop : end) - p);
        int version = ++line == 1 && n >= 8 && memcmp(p, "#version", 8) == 0;
        if (!version && token_vocab_join_text(v, p, n, &why))
            return err_at(err, name, line, NULL, "%s", why.text);
        p += n + 1;
    }
    return 0;
}

/* Treats the texts as the vocabulary and merges of GPT-2's tokenizer.json. */
int tokenizer_parse_gpt2(struct tokenizer **out, const char *vocab_name, const char *vocab,
                         int64_t vocab_bytes, const char *merges_name, const char *merges_text,
                         int64_t merges_bytes, struct err *err)
{
    static const char end[] = "<|endoftext|>", added[] = "{\"id\":%d,\"content\":\"%s\","
                                                         "\"single_word\":false,"
                                                         "\"lstrip\":false,"
                                                         "\"rstrip\":false,"
                                                         "\"normalized\":false,"
                                                         "\"special\":true}";
    struct tokenizer *t = new_tokenizer();
    struct token_tables *a = t->owned;
    struct tree tree = {0};
    char token[128] = "", text[512];
    int rc = tree_parse_json(&tree, vocab_name, 1, vocab, vocab_bytes, err) ||
             token_vocab_read(&a->vocab, &tree, tree.root, err) ||
             read_merges(&a->vocab, merges_name, merges_text, merges_bytes, err);
    int32_t id = rc ? -1 : token_vocab_find(&a->vocab, end, sizeof end - 1);

    tree_release(&tree);
    if (id >= 0)
        snprintf(token, sizeof token, added, id, end);
    int bytes = snprintf(text, sizeof text,
                         "{\"added_tokens\":[%s],\"decoder\":{\"type\":\"ByteLevel\"},"
                         "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":"
                         "false},\"model\":{\"vocab\":null,\"merges\":null}}",
                         token);
    rc = rc || token_json_read(a, vocab_name, text, bytes, err);
    for (int b = 0; rc == 0 && b < 256; b++)
        if (a->model.byte[b] < 0)
            rc = err_at(err, vocab_name, 0, NULL,
                        "has no token of the byte 0x%02x alone, expected one of each byte", b);
    return token_finish(out, t, rc);
}

static int open_gpt2(struct tokenizer **t, const struct token_place *p, struct err *err)
{
    char *path[] = {token_find_vocab(p->dir), token_find_merges(p->dir)}, *text[2] = {0};
    int64_t bytes[2] = {0};
    int rc = -1;

    if (!path[0])
        err_set(err, ERR_ABSENT,
                "tokenizer '%s' has no vocabulary, expected tokenizer.json, tokenizer.model, "
                "encoder.json or vocab.json in it",
                p->dir);
    else if (!path[1])
        err_set(err, ERR_ABSENT,
                "tokenizer '%s' has no merges, expected vocab.bpe or merges.txt in it", p->dir);
    else if (token_read_found(p, path[0], &text[0], &bytes[0], err) == 0 &&
             token_read_found(p, path[1], &text[1], &bytes[1], err) == 0)
        rc = tokenizer_parse_gpt2(t, path[0], text[0], bytes[0], path[1], text[1], bytes[1],
                                  err);
    for (int i = 0; i < 2; i++) {
        mem_free(path[i]);
        mem_free(text[i]);
    }
    return rc;
}

static int open_whole(struct tokenizer **t, const char *path, const struct token_place *p,
                      struct err *err)
{
    char *text = NULL;
    int64_t bytes = 0;
    int rc = token_read_found(p, path, &text, &bytes, err) ||
             parse_whole(t, path, text, bytes, p, err);

    mem_free(text);
    return rc ? -1 : 0;
}

int tokenizer_open_read(struct tokenizer **out, const char *path, tokenizer_text *read,
                        const void *arg, struct err *err)
{
    struct tokenizer *t = NULL;
    struct stat st;
    int is_file = stat(path, &st) == 0 && !S_ISDIR(st.st_mode);
    char *json = is_file ? mem_dup(path) : token_find_whole(path);
    char *dir = is_file ? io_parent(path) : mem_dup(path);
    const struct token_place p = {dir, read, arg};
    int rc = json ? open_whole(&t, json, &p, err) : open_gpt2(&t, &p, err);

    if (rc == 0 && (read_ends(t->owned, &p, err) || read_template(t->owned, &p, err))) {
        tokenizer_close(t);
        rc = -1;
    }
    mem_free(json);
    mem_free(dir);
    if (rc == 0)
        *out = t;
    return rc;
}

int tokenizer_open(struct tokenizer **t, const char *path, struct err *err)
{
    return tokenizer_open_read(t, path, NULL, NULL, err);
}

struct tokenizer *tokenizer_share(const struct tokenizer *t)
{
    struct tokenizer *other = mem_new(1, sizeof *other);

    other->tables = t->tables;
    return other;
}

void tokenizer_close(struct tokenizer *t)
{
    if (!t)
        return;
    token_state_release(t);
    if (t->owned)
        token_tables_release(t->owned);
    mem_free(t);
}

/* ---- the vocabulary ---- */

int32_t tokenizer_count(const struct tokenizer *t)
{
    return t->tables->vocab.count;
}

const char *tokenizer_template(const struct tokenizer *t)
{
    return t->tables->template;
}

int32_t tokenizer_end(const struct tokenizer *t)
{
    return t->tables->end;
}

int32_t tokenizer_begin(const struct tokenizer *t)
{
    return t->tables->begin;
}

int32_t tokenizer_id(const struct tokenizer *t, const char *piece)
{
    return token_vocab_find(&t->tables->vocab, piece, (int64_t)strlen(piece));
}

enum tokenizer_kind tokenizer_kind(const struct tokenizer *t, int32_t id)
{
    return id < 0 || id >= t->tables->vocab.count ? TOKENIZER_UNUSED
                                                  : t->tables->vocab.piece[id].kind;
}

const char *tokenizer_piece(const struct tokenizer *t, int32_t id, int64_t *bytes)
{
    if (tokenizer_kind(t, id) == TOKENIZER_UNUSED)
        return NULL;
    *bytes = t->tables->vocab.piece[id].bytes;
    return t->tables->vocab.text + t->tables->vocab.piece[id].at;
}

int32_t tokenizer_merges(const struct tokenizer *t)
{
    return t->tables->vocab.merges;
}

int32_t tokenizer_merge(const struct tokenizer *t, int32_t i, int32_t *left, int32_t *right)
{
    *left = t->tables->vocab.list[i].left;
    *right = t->tables->vocab.list[i].right;
    return t->tables->vocab.list[i].rank;
}

const int32_t *tokenizer_prefix(const struct tokenizer *t, int *count)
{
    *count = t->tables->prefix_count;
    return t->tables->prefix;
}

const int32_t *tokenizer_suffix(const struct tokenizer *t, int *count)
{
    *count = t->tables->suffix_count;
    return t->tables->suffix;
}

enum tokenizer_words tokenizer_words(const struct tokenizer *t)
{
    return t->tables->words;
}

int tokenizer_adds_space(const struct tokenizer *t)
{
    const struct token_tables *a = t->tables;

    for (int i = 0; i < a->normal.count; i++)
        if (a->normal.step[i].kind == TOKEN_PREPEND)
            return 1;
    for (int i = 0; i < a->late.count; i++)
        if (a->late.step[i].kind == TOKEN_PREPEND)
            return 1;
    return 0;
}
