/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows GPT-2's files of a vocabulary and of merges (Radford et al., "Language Models are
 * Unsupervised Multitask Learners", 2019).  In them a byte is written as a character that can
 * be seen: those of Latin-1 that can as themselves, the others as U+0100, U+0101, ... in order.
 * What words are is bpe_encode.c's.
 */
#include "data/bpe.h"

#include <assert.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/jtree.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "data/bpe_parts.h"

/* Those of 256,000 tokens take 5 MiB; a tree of JSON takes sixteen times as much. */
enum { FILE_MAX = 16 << 20, CODES = 256 + 68 };

/* The byte that each code point of the files stands for, or -1. */
static void byte_of_codes(int16_t byte_of[CODES])
{
    int next = 256;

    for (int i = 0; i < CODES; i++)
        byte_of[i] = -1;
    for (int b = 0; b < 256; b++) {
        int seen = (b > ' ' && b < 127) || (b > 160 && b != 173);
        byte_of[seen ? b : next++] = (int16_t)b;
    }
    assert(next == CODES);
}

/* The bytes that a key stands for: to has room for as many as the key has; -1: none. */
static int64_t key_bytes(const char *key, const int16_t byte_of[CODES], char *to)
{
    int64_t n = 0;

    while (*key) {
        uint32_t code = 0;
        int step = utf8_next(key, &code);
        if (!step || code >= CODES || byte_of[code] < 0)
            return -1;
        to[n++] = (char)byte_of[code];
        key += step;
    }
    return n;
}

/* Keys by their numbers, each of 0 .. count - 1 once; the caller frees *keys. */
static int sort_keys(const char *name, json_t *root, const char ***keys, struct err *err)
{
    size_t count = json_object_size(root);
    const char **by_id = mem_new(count + 1, sizeof *by_id), *key;
    json_t *value;

    json_object_foreach(root, key, value)
    {
        json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
        if (id < 0 || id >= (json_int_t)count) {
            mem_free(by_id);
            return err_at(err, name, 0, key, "expected a whole number from 0 to %zu, a token",
                          count - 1);
        }
        if (by_id[id]) {
            err_at(err, name, 0, key, "is token %lld, and so is '%s', expected one of them",
                   (long long)id, by_id[id]);
            mem_free(by_id);
            return -1;
        }
        by_id[id] = key;
    }
    *keys = by_id;
    return 0;
}

static int check_bytes(struct bpe *b, const char *name, struct err *err)
{
    static const char end[] = "<|endoftext|>";

    for (int i = 0; i < 256; i++)
        b->byte[i] = -1;
    b->end = -1;
    for (int32_t i = 0; i < b->count; i++) {
        const char *p = b->bytes + b->at[i];
        int64_t n = b->at[i + 1] - b->at[i];
        if (n == 1)
            b->byte[(unsigned char)*p] = i;
        if (n == (int64_t)sizeof end - 1 && memcmp(p, end, sizeof end - 1) == 0)
            b->end = i;
    }
    for (int i = 0; i < 256; i++)
        if (b->byte[i] < 0)
            return err_at(err, name, 0, NULL,
                          "has no token of the byte 0x%02x alone, expected one of each byte",
                          i);
    return 0;
}

static int take_vocab(struct bpe *b, const char *name, json_t *root, struct err *err)
{
    int16_t byte_of[CODES];
    const char **keys = NULL;
    int64_t room = 0, used = 0;

    if (sort_keys(name, root, &keys, err))
        return -1;
    b->count = (int32_t)json_object_size(root);
    for (int32_t i = 0; i < b->count; i++)
        room += (int64_t)strlen(keys[i]);
    byte_of_codes(byte_of);
    b->bytes = mem_new((size_t)room + 1, 1);
    b->at = mem_new((size_t)b->count + 1, sizeof *b->at);
    for (int32_t i = 0; i < b->count; i++) {
        int64_t n = key_bytes(keys[i], byte_of, b->bytes + used);
        if (n < 1) {
            err_at(err, name, 0, keys[i],
                   "is empty or has a character that encodes no byte, expected GPT-2's");
            mem_free(keys);
            return -1;
        }
        used += n;
        b->at[i + 1] = used;
    }
    mem_free(keys);
    return check_bytes(b, name, err);
}

static uint32_t pair_hash(int32_t left, int32_t right)
{
    uint64_t x = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15u;

    return (uint32_t)(x >> 32);
}

static struct bpe_merge *merge_place(const struct bpe *b, int32_t left, int32_t right)
{
    uint32_t i = pair_hash(left, right) & b->mask;

    while (b->merge[i].left >= 0 && (b->merge[i].left != left || b->merge[i].right != right))
        i = (i + 1) & b->mask;
    return &b->merge[i];
}

const struct bpe_merge *bpe_find_merge(const struct bpe *b, int32_t left, int32_t right)
{
    const struct bpe_merge *m = merge_place(b, left, right);

    return m->left < 0 ? NULL : m;
}

/* The token of key[0..n), or -1. */
static int32_t token_of(json_t *root, const char *key, size_t n)
{
    json_t *value = json_object_getn(root, key, n);

    return value ? (int32_t)json_integer_value(value) : -1;
}

/* One line, "LEFT RIGHT", without its end. */
static int take_merge(struct bpe *b, json_t *root, const char *name, int line, int32_t rank,
                      const char *text, size_t n, struct err *err)
{
    char both[512];
    const char *gap = memchr(text, ' ', n);
    size_t left = gap ? (size_t)(gap - text) : n, right = gap ? n - left - 1 : 0;

    if (!left || !right || memchr(gap + 1, ' ', right))
        return err_at(err, name, line, NULL,
                      "is not a merge, expected two tokens separated by a space");
    if (left + right > sizeof both)
        return err_at(err, name, line, NULL, "a merge of %zu bytes, expected at most %zu",
                      left + right, sizeof both);
    memcpy(both, text, left);
    memcpy(both + left, gap + 1, right);
    struct bpe_merge new = {.left = token_of(root, text, left),
                            .right = token_of(root, gap + 1, right),
                            .rank = rank,
                            .to = token_of(root, both, left + right)};
    if (new.left < 0 || new.right < 0 || new.to < 0) {
        const char *what = new.left < 0 ? text : new.right < 0 ? gap + 1 : both;
        size_t bytes = new.left < 0 ? left : new.right < 0 ? right : left + right;
        return err_at(err, name, line, NULL, "'%.*s' is not in the vocabulary", (int)bytes,
                      what);
    }
    struct bpe_merge *m = merge_place(b, new.left, new.right);
    if (m->left >= 0)
        return err_at(err, name, line, NULL, "repeats the merge of line %d, expected each once",
                      line - (rank - m->rank));
    *m = new;
    return 0;
}

static int take_merges(struct bpe *b, json_t *root, const char *name, const char *text,
                       int64_t bytes, struct err *err)
{
    const char *end = text + bytes;
    int line = 0, lines = 1;
    int32_t rank = 0;

    for (const char *p = text; p < end; p++)
        lines += *p == '\n';
    uint32_t places = 16;
    while (places < 2 * (uint32_t)lines)
        places *= 2;
    b->mask = places - 1;
    b->merge = mem_new(places, sizeof *b->merge);
    for (uint32_t i = 0; i < places; i++)
        b->merge[i].left = -1;
    for (const char *p = text; p < end;) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)((stop ? stop : end) - p);
        line++;
        int version = line == 1 && n >= 8 && memcmp(p, "#version", 8) == 0;
        if (!version && take_merge(b, root, name, line, rank++, p, n, err))
            return -1;
        p += n + 1;
    }
    return 0;
}

int bpe_parse(struct bpe **bpe, const char *vocab_name, const char *vocab, int64_t vocab_bytes,
              const char *merges_name, const char *merges, int64_t merges_bytes,
              struct err *err)
{
    json_error_t where;
    json_t *root = jtree_load(vocab, vocab_bytes, &where);
    struct bpe *b = mem_new(1, sizeof *b);
    int rc;

    if (!root)
        rc = err_at(err, vocab_name, where.line, NULL, "%s", where.text);
    else if (!json_is_object(root))
        rc = err_at(err, vocab_name, 0, NULL, "is not a JSON object, expected a vocabulary");
    else
        rc = take_vocab(b, vocab_name, root, err);
    if (rc == 0)
        rc = take_merges(b, root, merges_name, merges, merges_bytes, err);
    json_decref(root);
    if (rc) {
        bpe_close(b);
        return -1;
    }
    bpe_words_init(b);
    *bpe = b;
    return 0;
}

/* The first of the names that is in the folder; NULL: none. */
static char *find_file(const char *dir, const char *const names[3])
{
    for (int i = 0; i < 3; i++) {
        char *path = io_join(dir, names[i]);
        if (access(path, F_OK) == 0)
            return path;
        mem_free(path);
    }
    return NULL;
}

static const char *const vocabs[] = {"encoder.json", "vocab.json", "gpt2-encoder.json"};
static const char *const merges[] = {"vocab.bpe", "merges.txt", "gpt2-vocab.bpe"};

/*
 * vocab.json and merges.txt alone do not say how a text is cut into words: models other than
 * GPT-2 have such files too, and a tokenizer_config.json that names another class.
 */
static int check_class(const char *dir, struct err *err)
{
    char *path = io_join(dir, "tokenizer_config.json"), *text = NULL;
    json_t *root = NULL;
    int64_t bytes = 0;
    int rc = 0;

    if (!io_absent(path))
        rc = io_read_file(path, FILE_MAX, NULL, &text, &bytes, err);
    if (rc == 0 && text)
        rc = jtree_read(path, text, bytes, &root, err);
    const char *class = json_string_value(json_object_get(root, "tokenizer_class"));
    if (rc == 0 && class && strncmp(class, "GPT2", 4))
        rc = err_at(err, path, 0, "tokenizer_class",
                    "is '%.60s', expected GPT2Tokenizer; --tokenizer DIR splits words as GPT-2"
                    " does all the same",
                    class);
    json_decref(root);
    mem_free(text);
    mem_free(path);
    return rc;
}

int bpe_find(const char *dir, struct err *err)
{
    static const char *const others[] = {"tokenizer.json", "tokenizer.model", "spiece.model"};
    char *vocab = find_file(dir, vocabs), *merge = find_file(dir, merges);
    char *other = vocab && merge ? NULL : find_file(dir, others);
    int rc = vocab && merge;

    if (other)
        rc = err_set(
            err, ERR_INPUT,
            "tokenizer '%s' is of an unsupported kind, expected vocab.json and merges.txt "
            "in the folder, --tokenizer DIR or --tokenizer bytes",
            other);
    mem_free(vocab);
    mem_free(merge);
    mem_free(other);
    return rc > 0 && check_class(dir, err) ? -1 : rc;
}

int bpe_open(struct bpe **bpe, const char *dir, struct err *err)
{
    char *path[] = {find_file(dir, vocabs), find_file(dir, merges)}, *text[2] = {0};
    int64_t bytes[2] = {0};
    int rc = -1;

    if (!path[0])
        err_set(err, ERR_ABSENT,
                "tokenizer '%s' has no vocabulary, expected encoder.json or vocab.json in it",
                dir);
    else if (!path[1])
        err_set(err, ERR_ABSENT,
                "tokenizer '%s' has no merges, expected vocab.bpe or merges.txt in it", dir);
    else if (io_read_file(path[0], FILE_MAX, NULL, &text[0], &bytes[0], err) == 0 &&
             io_read_file(path[1], FILE_MAX, NULL, &text[1], &bytes[1], err) == 0)
        rc = bpe_parse(bpe, path[0], text[0], bytes[0], path[1], text[1], bytes[1], err);
    for (int i = 0; i < 2; i++) {
        mem_free(path[i]);
        mem_free(text[i]);
    }
    return rc;
}

void bpe_close(struct bpe *b)
{
    if (!b)
        return;
    bpe_words_release(b);
    mem_free(b->bytes);
    mem_free(b->at);
    mem_free(b->merge);
    mem_free(b);
}

int32_t bpe_count(const struct bpe *b)
{
    return b->count;
}

int32_t bpe_end(const struct bpe *b)
{
    return b->end;
}

const char *bpe_decode(const struct bpe *b, int32_t id, int64_t *count)
{
    if (id < 0 || id >= b->count)
        return NULL;
    *count = b->at[id + 1] - b->at[id];
    return b->bytes + b->at[id];
}
