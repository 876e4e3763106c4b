/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads texts and conversations from JSON lines in the formats of several trainers.  Leaves the
 * roles to data_chat.c.
 */
#include "data/data_jsonl.h"

#include <inttypes.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "value/value_tree.h"

enum { BLOCK = 1 << 16 };

static int ends_as(const char *path, const char *const ends[])
{
    for (; *ends; ends++)
        if (io_ends_with(path, *ends))
            return strlen(path) > strlen(*ends);
    return 0;
}

static int jsonl_is_list(const char *path)
{
    static const char *const ends[] = {".json", ".json.gz", ".json.zst", NULL};

    return ends_as(path, ends);
}

/* Whether the file begins with '['. */
static int begins_list(const char *path)
{
    struct unpack *file = NULL;
    struct err ignored;
    char text[4096];
    int64_t got = 0, at = 0;

    if (unpack_open(&file, path, &ignored) == 0 &&
        unpack_read(file, text, sizeof text, &got, &ignored))
        got = 0;
    unpack_close(file);
    while (at < got && text[at] && strchr(" \t\r\n", text[at]))
        at++;
    return at < got && text[at] == '[';
}

int jsonl_is(const char *path)
{
    static const char *const ends[] = {".jsonl",     ".jsonl.gz",   ".jsonl.zst", ".ndjson",
                                       ".ndjson.gz", ".ndjson.zst", NULL};

    return ends_as(path, ends) || (jsonl_is_list(path) && begins_list(path));
}

int jsonl_open(struct jsonl *j, const char *path, struct err *err)
{
    *j = (struct jsonl){.path = path, .list = jsonl_is_list(path)};
    return unpack_open(&j->file, path, err);
}

struct jsonl_message *jsonl_take(struct jsonl *j, int *messages)
{
    struct jsonl_message *message = j->message;

    *messages = j->messages;
    j->message = NULL;
    j->messages_space = 0;
    j->messages = 0;
    return message;
}

void jsonl_free(struct jsonl_message *message, int messages)
{
    for (int i = 0; i < messages; i++) {
        mem_free((char *)message[i].role);
        mem_free((char *)message[i].text);
    }
    mem_free(message);
}

static void drop_messages(struct jsonl *j)
{
    int messages;
    struct jsonl_message *message = jsonl_take(j, &messages);

    jsonl_free(message, messages);
}

void jsonl_close(struct jsonl *j)
{
    drop_messages(j);
    mem_free(j->text);
    unpack_close(j->file);
    *j = (struct jsonl){0};
}

/* Reads more data to `end`; *got 0: end of file. */
static int read_more(struct jsonl *j, int64_t *got, struct err *err)
{
    void *text = j->text;

    if (j->end - j->begin > JSONL_LINE_MAX)
        return err_set(err, ERR_INPUT,
                       "%s:%" PRId64 ": the line has more than %d bytes, expected at most that",
                       j->path, j->line, JSONL_LINE_MAX);
    if (j->begin) {
        memmove(j->text, j->text + j->begin, j->end - j->begin);
        j->end -= j->begin;
        j->begin = 0;
    }
    if (mem_grow_data(&text, &j->space, j->end + BLOCK, 1, "a line of JSON", err))
        return -1;
    j->text = text;
    if (unpack_read(j->file, j->text + j->end, BLOCK, got, err))
        return -1;
    j->end += (size_t)*got;
    j->bytes += *got;
    return 0;
}

/* Finds the next line, without line end: *text of *bytes.  1; 0: no more lines; -1: error. */
static int jsonl_next_line(struct jsonl *j, const char **text, int64_t *bytes, struct err *err)
{
    size_t seen = 0;
    int64_t got = 1;

    j->line++;
    for (;;) {
        char *from = j->text ? j->text + j->begin : NULL;
        char *end = from ? memchr(from + seen, '\n', j->end - j->begin - seen) : NULL;
        if (!end && got) {
            seen = j->end - j->begin;
            if (read_more(j, &got, err))
                return -1;
            continue;
        }
        *text = from;
        *bytes = end ? end - from : (int64_t)(j->end - j->begin);
        j->begin += (size_t)*bytes + (end != NULL);
        return end || *bytes > 0;
    }
}

static int fail_line(const struct jsonl *j, struct err *err, const char *what);

/* Finds the next object of a list, *text of *bytes; counts it in `line`. 1; 0: end of list; -1:
   error. */
static int next_object(struct jsonl *j, const char **text, int64_t *bytes, struct err *err)
{
    int depth = 0, quoted = 0, escaped = 0, opened = 0;
    int64_t got = 1;
    size_t start = 0;

    j->line++;
    for (size_t at = 0;; at++) {
        while (at == j->end - j->begin) {
            if (read_more(j, &got, err))
                return -1;
            if (!got)
                return fail_line(j, err, "the list has no end, expected ']'");
        }
        char c = j->text[j->begin + at];
        if (quoted) {
            quoted = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        if (!depth) {
            start = at;
            if (c && strchr(" \t\r\n", c))
                continue;
            if (c == ']' && opened == (j->line == 1)) {
                j->line--; /* another call reports the end again */
                return 0;
            }
            if (!opened && c == (j->line == 1 ? '[' : ',')) {
                opened = 1;
                continue;
            }
            if (!opened || c != '{')
                return fail_line(j, err,
                                 opened ? "no object, expected '{'" : "expected ',' or ']'");
        }
        quoted = c == '"';
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        if (depth)
            continue;
        *text = j->text + j->begin + start;
        *bytes = (int64_t)(at + 1 - start);
        j->begin += at + 1;
        return 1;
    }
}

static int fail_line(const struct jsonl *j, struct err *err, const char *what)
{
    return err_set(err, ERR_INPUT, "%s:%" PRId64 ": %s", j->path, j->line, what);
}

/*
 * Formats of a line, by its keys; the first format whose keys are all present is used.  Rows
 * list messages in order; a `joined` one is appended to the previous message, after a line end.
 */
enum value { VALUE_TEXT, VALUE_LIST, VALUE_EITHER };
enum { PARTS = 4, OPTIONAL = 1, JOINED = 2, ALONE = 4 };
static const struct format {
    struct part {
        const char *key;
        const char *role; /* NULL: a text's, or a list's, whose items have roles */
        enum value value;
        int flags;
    } part[PARTS];
} formats[] = {
    {{{"text", NULL, VALUE_TEXT, ALONE}}},
    {{{"messages", NULL, VALUE_LIST, ALONE}}},
    /* ShareGPT */
    {{{"system", "system", VALUE_TEXT, OPTIONAL}, {"conversations", NULL, VALUE_LIST, ALONE}}},
    /* Alpaca */
    {{{"system", "system", VALUE_TEXT, OPTIONAL},
      {"instruction", "user", VALUE_TEXT, 0},
      {"input", "user", VALUE_TEXT, OPTIONAL | JOINED},
      {"output", "assistant", VALUE_TEXT, 0}}},
    /* OpenAI's old format, and TRL's */
    {{{"prompt", JSONL_PROMPT, VALUE_EITHER, 0},
      {"completion", JSONL_COMPLETION, VALUE_EITHER, 0}}},
    {{{"prompt", JSONL_PROMPT, VALUE_EITHER, 0},
      {"response", JSONL_COMPLETION, VALUE_EITHER, 0}}},
};
enum { FORMATS = sizeof formats / sizeof *formats };
#define FORMAT_KEYS                                                                            \
    "text, messages, conversations, instruction and output, or prompt and completion"

/* Keys of a message: OpenAI's and ShareGPT's. */
static const char *const role_keys[] = {"role", "from", NULL};
static const char *const content_keys[] = {"content", "value", NULL};

static int is_one_of(const char *const *names, const char *name)
{
    while (*names && strcmp(*names, name))
        names++;
    return *names != NULL;
}

/* Copies a text of any bytes. */
static int take_text(const struct tree *t, const struct tree_node *n, const char **out,
                     int64_t *bytes, struct err *err)
{
    const char *text;

    if (tree_bytes(t, n, &text, bytes, err))
        return -1;
    char *copy = mem_new((size_t)*bytes + 1, 1);
    *out = memcpy(copy, text, (size_t)*bytes);
    return 0;
}

/* Reads a text, or a list of OpenAI's content parts of type text. */
static int take_content(const struct tree *t, const struct tree_node *n,
                        struct jsonl_message *m, struct err *err)
{
    char *both = NULL;
    size_t used = 0;
    int rc = 0;

    if (n->kind != TREE_LIST)
        return take_text(t, n, &m->text, &m->bytes, err);
    FILE *f = mem_stream(&both, &used);
    for (const struct tree_node *c = n->child; c && rc == 0; c = c->next) {
        const struct tree_node *part = tree_find(c, "text");
        const char *text = NULL;
        int64_t bytes = 0;
        rc = part ? tree_bytes(t, part, &text, &bytes, err)
                  : tree_fail(t, c, NULL, err,
                              "is a part of a content that is no text, expected 'text'");
        if (bytes)
            fwrite(text, 1, (size_t)bytes, f);
    }
    fclose(f);
    m->text = both;
    m->bytes = (int64_t)used;
    return rc;
}

static struct jsonl_message *jsonl_add_message(struct jsonl *j)
{
    j->message =
        mem_grow(j->message, &j->messages_space, (size_t)j->messages + 1, sizeof *j->message);
    struct jsonl_message *m = &j->message[j->messages++];
    *m = (struct jsonl_message){0};
    return m;
}

/* Keys of tool calls: OpenAI's current and older ones. */
static const char *const call_keys[] = {"tool_calls", "function_call", NULL};

static int parse_message(struct jsonl *j, const struct tree *t, const struct tree_node *n,
                         struct err *err)
{
    struct jsonl_message *m = jsonl_add_message(j);
    const struct tree_node *role = NULL, *content = NULL;
    int64_t role_bytes;

    if (n->kind != TREE_MAP)
        return tree_fail(t, n, NULL, err, "is %.40s, expected an object", tree_shown(t, n));
    for (const struct tree_node *v = n->child; v; v = v->next) {
        /* Tool calls are not rendered, and without them the answer would differ: reject. */
        if (is_one_of(call_keys, v->key) && v->kind != TREE_NULL &&
            (v->kind != TREE_LIST || v->items))
            return tree_fail(t, n, NULL, err,
                             "is a message with '%s', expected the calls as text in 'content'",
                             v->key);
        int is_role = is_one_of(role_keys, v->key);
        const struct tree_node **to = is_role ? &role : &content;
        /* content null is allowed in messages of calls */
        if (!is_role && (!is_one_of(content_keys, v->key) || v->kind == TREE_NULL))
            continue;
        if (*to)
            return tree_fail(t, n, NULL, err, "has a second '%s', expected one",
                             is_role ? "role" : "content");
        *to = v;
    }
    if (!role || !content)
        return tree_fail(t, n, NULL, err,
                         "is a message without 'role' or 'content', expected both");
    return err_any(take_text(t, role, &m->role, &role_bytes, err) ||
                   take_content(t, content, m, err));
}

/* Reads one part of a line. */
static int parse_part(struct jsonl *j, const struct tree *t, const struct tree_node *n,
                      const struct part *p, struct err *err)
{
    if (p->flags & OPTIONAL && n->kind == TREE_NULL)
        return 0;
    if (p->value == VALUE_LIST || (p->value == VALUE_EITHER && n->kind == TREE_LIST)) {
        int rc = tree_list(t, n, 1, JSONL_MESSAGES_MAX, err);
        for (n = rc ? NULL : n->child; n && rc == 0; n = n->next)
            rc = parse_message(j, t, n, err);
        return rc;
    }
    if (!(p->flags & JOINED)) {
        struct jsonl_message *m = jsonl_add_message(j);
        m->role = p->role ? mem_dup(p->role) : NULL;
        return take_text(t, n, &m->text, &m->bytes, err);
    }
    struct jsonl_message *m = &j->message[j->messages - 1];
    const char *text;
    int64_t bytes;
    if (tree_bytes(t, n, &text, &bytes, err))
        return -1;
    if (bytes) {
        char *both = mem_new((size_t)(m->bytes + 1 + bytes) + 1, 1);
        memcpy(both, m->text, (size_t)m->bytes);
        both[m->bytes] = '\n';
        memcpy(both + m->bytes + 1, text, (size_t)bytes);
        mem_free((char *)m->text);
        m->text = both;
        m->bytes += 1 + bytes;
    }
    return 0;
}

/* The line's format, or -1. */
static int choose_format(struct jsonl *j, const struct tree_node *root, struct err *err)
{
    int first = -1, alone = 0;

    for (int f = 0; f < FORMATS; f++) {
        int whole = 1, own = 0;
        for (int p = 0; p < PARTS && formats[f].part[p].key; p++) {
            whole &=
                tree_find(root, formats[f].part[p].key) || formats[f].part[p].flags & OPTIONAL;
            own |= formats[f].part[p].flags & ALONE;
        }
        alone += whole && own;
        first = first < 0 && whole ? f : first;
    }
    if (first < 0)
        return fail_line(j, err, "no document, expected the keys " FORMAT_KEYS);
    if (alone > 1)
        return fail_line(j, err, "two of 'text', 'messages' and 'conversations', expected one");
    return first;
}

static int jsonl_parse_line(struct jsonl *j, const char *text, int64_t bytes, struct err *err)
{
    char name[sizeof err->file];
    struct tree t = {0};
    int rc = 0;

    snprintf(name, sizeof name, "%s:%" PRId64, j->path, j->line);
    if (tree_parse_loose(&t, name, 0, text, bytes, err))
        return -1;
    int f = t.root->kind == TREE_MAP
                ? choose_format(j, t.root, err)
                : tree_fail(&t, t.root, NULL, err, "is %.40s, expected an object",
                            tree_shown(&t, t.root));
    for (int p = 0; f >= 0 && rc == 0 && p < PARTS && formats[f].part[p].key; p++) {
        const struct tree_node *n = tree_find(t.root, formats[f].part[p].key);
        rc = n ? parse_part(j, &t, n, &formats[f].part[p], err) : 0;
    }
    tree_release(&t);
    return f < 0 ? -1 : rc;
}

int jsonl_next(struct jsonl *j, struct err *err)
{
    const char *text;
    int64_t bytes;
    int rc;

    drop_messages(j);
    while ((rc = (j->list ? next_object : jsonl_next_line)(j, &text, &bytes, err)) > 0) {
        int64_t blank = 0;
        while (blank < bytes && strchr(" \t\r", text[blank]) && text[blank])
            blank++;
        if (blank < bytes)
            return jsonl_parse_line(j, text, bytes, err) ? -1 : 1;
    }
    return rc;
}
