/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds and reads the files of a tokenizer's folder, or uses files that the caller has read. */
#include "token/token_place.h"

#include <string.h>

#include "base/io.h"
#include "base/mem.h"

/* The largest in use, of 256,000 tokens, have 35 MB; with a line for each token twice that. */
enum { FILE_MAX = 256 << 20 };

int token_read_text(const struct token_place *p, const char *path, char **text, int64_t *bytes,
                    struct err *err)
{
    const char *name = strrchr(path, '/');

    if (!p->text)
        return io_absent(path) ? 0 : io_read_file(path, FILE_MAX, NULL, text, bytes, err);
    const char *held = p->text(p->arg, name ? name + 1 : path, bytes);
    if (!held)
        return 0;
    *text = mem_new((size_t)*bytes + 1, 1);
    memcpy(*text, held, (size_t)*bytes);
    return 0;
}

int token_read_found(const struct token_place *p, const char *path, char **text, int64_t *bytes,
                     struct err *err)
{
    if (!p->text)
        return io_read_file(path, FILE_MAX, NULL, text, bytes, err);
    return err_any(token_read_text(p, path, text, bytes, err) ||
                   (!*text && err_set(err, ERR_MISMATCH, "'%s' was not read before", path)));
}

/* The first of the names that exists in the folder; NULL: none. */
static char *find_file(const char *dir, const char *const names[3])
{
    for (int i = 0; i < 3 && names[i]; i++) {
        char *path = io_join(dir, names[i]);
        if (!io_absent(path))
            return path;
        mem_free(path);
    }
    return NULL;
}

static const char *const wholes[] = {"tokenizer.json", "tokenizer.model", NULL};
static const char *const vocabs[] = {"encoder.json", "vocab.json", "gpt2-encoder.json"};
static const char *const merges[] = {"vocab.bpe", "merges.txt", "gpt2-vocab.bpe"};

char *token_find_whole(const char *dir)
{
    return find_file(dir, wholes);
}

char *token_find_vocab(const char *dir)
{
    return find_file(dir, vocabs);
}

char *token_find_merges(const char *dir)
{
    return find_file(dir, merges);
}

int token_read_json(const struct token_place *p, const char *name, const char *used,
                    struct tree *out, struct err *err)
{
    char *path = io_join(p->dir, name), *text = NULL;
    int64_t bytes = 0;

    *out = (struct tree){0};
    int rc = token_read_text(p, path, &text, &bytes, err) ||
             (text && (tree_parse_loose(out, path, 1, text, bytes, err) ||
                       tree_no_real(out, used, err)));
    mem_free(text);
    mem_free(path);
    return rc ? -1 : 0;
}

/*
 * Rejects vocab.json and merges.txt if tokenizer_config.json names a class other than GPT-2's:
 * other models have such files too, and the files alone do not define how a text is split into
 * words.
 */
static int check_class(const struct token_place *p, struct err *err)
{
    struct tree t;
    int rc = token_read_json(p, "tokenizer_config.json", "tokenizer_class", &t, err);
    const char *class = tree_string(tree_get(t.root, "tokenizer_class"));

    if (rc == 0 && class && strncmp(class, "GPT2", 4))
        rc = tree_fail(&t, t.root, "tokenizer_class", err,
                       "is '%.60s' and there is no tokenizer.json, expected GPT2Tokenizer; "
                       "--tokenizer DIR splits words as GPT-2 does all the same",
                       class);
    tree_release(&t);
    return rc;
}

int tokenizer_find(const char *dir, struct err *err)
{
    static const char *const others[] = {"spiece.model", NULL, NULL};
    char *json = token_find_whole(dir), *vocab = token_find_vocab(dir);
    char *merge = token_find_merges(dir), *other = find_file(dir, others);
    int rc = json || (vocab && merge);

    if (!rc && other)
        rc = err_set(err, ERR_INPUT,
                     "tokenizer '%s' is of an unsupported kind, expected tokenizer.json, or "
                     "vocab.json and merges.txt in the folder, --tokenizer DIR or --tokenizer "
                     "bytes",
                     other);
    if (rc > 0 && !json && check_class(&(struct token_place){.dir = dir}, err))
        rc = -1;
    mem_free(json);
    mem_free(vocab);
    mem_free(merge);
    mem_free(other);
    return rc;
}
