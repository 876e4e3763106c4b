/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes a tokenizer into a GGUF file in llama.cpp's form: the tokens with their kinds, the
 * merges or scores, the name of the pre-tokenizer, and the chat template.
 */
#include "shard/shard_gguf_tokens.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "value/value_tree.h"
#include "token/token.h"

/* llama.cpp's name of the pre-tokenizer; "llama" tokens are SentencePiece's, with scores. */
static const struct cut {
    const char *model, *pre;
} cuts[] = {[TOKENIZER_GPT2] = {"gpt2", "gpt-2"},
            [TOKENIZER_LLAMA3] = {"gpt2", "llama-bpe"},
            [TOKENIZER_QWEN2] = {"gpt2", "qwen2"},
            [TOKENIZER_SMOLLM] = {"gpt2", "smollm"},
            [TOKENIZER_SENTENCEPIECE] = {"llama", "default"}};

/* llama.cpp's numbering. */
static const int32_t kinds[] = {
    [TOKENIZER_NORMAL] = 1, [TOKENIZER_UNKNOWN] = 2, [TOKENIZER_CONTROL] = 3,
    [TOKENIZER_USER] = 4,   [TOKENIZER_UNUSED] = 5,  [TOKENIZER_BYTE] = 6};

/* Unused numbers get names that no text contains. */
static void put_pieces(struct gguf_keys *k, const struct tokenizer *t, int64_t vocab)
{
    gguf_put_list(k, "tokenizer.ggml.tokens", GGUF_TEXT, vocab);
    for (int32_t i = 0; i < vocab; i++) {
        char name[32];
        int64_t bytes = 0;
        const char *piece = tokenizer_piece(t, i, &bytes);
        if (!piece) {
            bytes = snprintf(name, sizeof name, "[PAD%" PRId32 "]", i);
            piece = name;
        }
        gguf_item_text(k, piece, bytes);
    }
    gguf_put_list(k, "tokenizer.ggml.token_type", GGUF_I32, vocab);
    for (int32_t i = 0; i < vocab; i++) {
        /* Control tokens even if the folder does not mark them as special */
        int ends = i == tokenizer_begin(t) || i == tokenizer_end(t);
        gguf_item(k, &kinds[ends ? TOKENIZER_CONTROL : tokenizer_kind(t, i)], sizeof *kinds);
    }
}

/* The text of a merge's two tokens, and its rank; mem_free. */
static char *merge_text(const struct tokenizer *t, int32_t merge, const char *between,
                        size_t *bytes, int32_t *rank)
{
    int32_t left, right;
    int64_t n = 0;
    char *text = NULL;
    FILE *f = mem_stream(&text, bytes);

    *rank = tokenizer_merge(t, merge, &left, &right);
    const char *piece = tokenizer_piece(t, left, &n);
    fwrite(piece, 1, (size_t)n, f);
    fputs(between, f);
    piece = tokenizer_piece(t, right, &n);
    fwrite(piece, 1, (size_t)n, f);
    fclose(f);
    return text;
}

static void put_merges(struct gguf_keys *k, const struct tokenizer *t)
{
    gguf_put_list(k, "tokenizer.ggml.merges", GGUF_TEXT, tokenizer_merges(t));
    for (int32_t i = 0; i < tokenizer_merges(t); i++) {
        size_t used = 0;
        int32_t rank;
        char *text = merge_text(t, i, " ", &used, &rank);
        gguf_item_text(k, text, (int64_t)used);
        mem_free(text);
    }
}

/*
 * llama.cpp joins the pair whose token has the highest score, the leftmost among equals.  So
 * tokens of merges of lower rank get higher scores, as in SentencePiece's own BPE models;
 * characters get the lowest scores.
 */
static void put_scores(struct gguf_keys *k, const struct tokenizer *t, int64_t vocab)
{
    int32_t merges = tokenizer_merges(t);
    float *score = mem_new((size_t)vocab, sizeof *score);

    for (int32_t i = 0; i < vocab; i++)
        score[i] = tokenizer_kind(t, i) == TOKENIZER_NORMAL ? -(float)merges : 0;
    for (int32_t i = merges - 1; i >= 0; i--) { /* the first of equal merges counts */
        size_t used = 0;
        int32_t rank;
        char *text = merge_text(t, i, "", &used, &rank);
        int32_t id = tokenizer_id(t, text);
        mem_free(text);
        if (id >= 0 && id < vocab)
            score[id] = -(float)rank;
    }
    gguf_put_list(k, "tokenizer.ggml.scores", GGUF_FLOAT, vocab);
    gguf_item(k, score, (size_t)vocab * sizeof *score);
    mem_free(score);
}

/* --- other files of the folder --- */

static void gguf_tokens_put_id(struct gguf_keys *k, const char *key, int32_t id)
{
    if (id >= 0)
        gguf_put_u32(k, key, id);
}

static int has_id(const int32_t *ids, int count, int32_t id)
{
    for (int i = 0; i < count; i++)
        if (ids[i] == id)
            return 1;
    return 0;
}

/* A token named in tokenizer_config.json, as a text or as an object with a text. */
static int32_t gguf_tokens_named_token(const struct tokenizer *t,
                                       const struct tree_node *config, const char *key)
{
    const struct tree_node *v = tree_get(config, key), *content = tree_get(v, "content");
    const char *text = tree_string(content ? content : v);

    return text ? tokenizer_id(t, text) : -1;
}

static void put_special(struct gguf_keys *k, const struct tokenizer *t,
                        const struct tree_node *config)
{
    int32_t begin = tokenizer_begin(t), end = tokenizer_end(t);
    int before, after;
    const int32_t *prefix = tokenizer_prefix(t, &before), *suffix = tokenizer_suffix(t, &after);

    gguf_tokens_put_id(k, "tokenizer.ggml.bos_token_id", begin);
    gguf_tokens_put_id(k, "tokenizer.ggml.eos_token_id", end);
    gguf_tokens_put_id(k, "tokenizer.ggml.unknown_token_id",
                       gguf_tokens_named_token(t, config, "unk_token"));
    gguf_tokens_put_id(k, "tokenizer.ggml.padding_token_id",
                       gguf_tokens_named_token(t, config, "pad_token"));
    gguf_put_bool(k, "tokenizer.ggml.add_bos_token",
                  begin >= 0 && has_id(prefix, before, begin));
    gguf_put_bool(k, "tokenizer.ggml.add_eos_token", end >= 0 && has_id(suffix, after, end));
}

/* Reads tokenizer_config.json; the root is NULL if it is absent. */
static int gguf_tokens_read_config(const struct gguf_source *from, struct tree *config,
                                   struct err *err)
{
    static const char name[] = "tokenizer_config.json";
    int64_t bytes = 0;
    const char *text = from->text(from->arg, name, &bytes);

    return err_any(text && (tree_parse_loose(config, name, 1, text, bytes, err) ||
                            tree_no_real(config, "unk_token pad_token", err)));
}

static int put_tokenizer(struct gguf_keys *k, const struct tokenizer *t,
                         const struct gguf_source *from, int64_t vocab, struct err *err)
{
    const struct cut *cut = &cuts[tokenizer_words(t)];
    const char *template = tokenizer_template(t);
    struct tree config = {0};

    if (!cut->model)
        return err_set(
            err, ERR_INPUT,
            "the tokenizer of '%s' cuts words in a way that llama.cpp has no name for",
            from->dir);
    if (tokenizer_count(t) > vocab)
        return err_set(err, ERR_INPUT,
                       "the tokenizer of '%s' has %" PRId32 " tokens, the model %" PRId64,
                       from->dir, tokenizer_count(t), vocab);
    if (gguf_tokens_read_config(from, &config, err)) {
        tree_release(&config);
        return -1;
    }
    gguf_put_words(k, "tokenizer.ggml.model", cut->model);
    gguf_put_words(k, "tokenizer.ggml.pre", cut->pre);
    put_pieces(k, t, vocab);
    if (tokenizer_words(t) == TOKENIZER_SENTENCEPIECE) {
        put_scores(k, t, vocab);
        gguf_put_bool(k, "tokenizer.ggml.add_space_prefix", tokenizer_adds_space(t));
    } else {
        put_merges(k, t);
    }
    put_special(k, t, config.root);
    if (template)
        gguf_put_text(k, "tokenizer.chat_template", template, (int64_t)strlen(template));
    tree_release(&config);
    return 0;
}

int gguf_tokens_put(struct gguf_keys *k, const struct gguf_source *from, int64_t vocab,
                    int *none, struct err *err)
{
    struct tokenizer *t = NULL;
    int found = tokenizer_find(from->dir, err);

    *none = found == 0;
    if (found == 0)
        gguf_put_words(k, "tokenizer.ggml.model", "none");
    if (found <= 0)
        return found;
    int rc = tokenizer_open_read(&t, from->dir, from->text, from->arg, err)
                 ? -1
                 : put_tokenizer(k, t, from, vocab, err);
    tokenizer_close(t);
    return rc;
}
