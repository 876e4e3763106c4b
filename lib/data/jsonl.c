/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads lines of JSON that are texts or conversations, as several trainers write them.  Does
 * not know what roles there are.
 */
#include "data/jsonl.h"

#include <inttypes.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"

enum { BLOCK = 1 << 16 };

static int ends_as(const char *path, const char *const ends[])
{
    for (; *ends; ends++)
        if (io_ends_with(path, *ends))
            return strlen(path) > strlen(*ends);
    return 0;
}

static int is_list(const char *path)
{
    static const char *const ends[] = {".json", ".json.gz", ".json.zst", NULL};

    return ends_as(path, ends);
}

/* Whether a file begins with '['. */
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

    return ends_as(path, ends) || (is_list(path) && begins_list(path));
}

int jsonl_open(struct jsonl *j, const char *path, struct err *err)
{
    *j = (struct jsonl){.path = path, .list = is_list(path)};
    return unpack_open(&j->file, path, err);
}

struct jsonl_message *jsonl_take(struct jsonl *j, int *messages)
{
    struct jsonl_message *message = j->message;

    *messages = j->messages;
    j->message = NULL;
    j->messages_room = 0;
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
    mem_free(j->parts);
    jin_release(&j->jin);
    unpack_close(j->file);
    *j = (struct jsonl){0};
}

/* Reads more, to `end`; *got 0: the end of the file. */
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
    if (mem_grow_data(&text, &j->room, j->end + BLOCK, 1, "a line of JSON", err))
        return -1;
    j->text = text;
    if (unpack_read(j->file, j->text + j->end, BLOCK, got, err))
        return -1;
    j->end += (size_t)*got;
    j->bytes += *got;
    return 0;
}

/* The next line, without its end: *text of *bytes.  1; 0 after the last line; or -1. */
static int next_line(struct jsonl *j, const char **text, int64_t *bytes, struct err *err)
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

/* The next object of a list, *text of *bytes, counted in `line`.  1; 0: the list ends; -1. */
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
                j->line--; /* asked again, it is the end again */
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

static int fail(const struct jsonl *j, struct err *err)
{
    return err_set(err, ERR_INPUT, "%s:%" PRId64 ": byte %" PRId64 ": expected %s", j->path,
                   j->line, j->jin.at, j->jin.wrong);
}

static int fail_line(const struct jsonl *j, struct err *err, const char *what)
{
    return err_set(err, ERR_INPUT, "%s:%" PRId64 ": %s", j->path, j->line, what);
}

/*
 * The formats of a line, by its keys: of several the first that it has whole.  Rows are
 * messages, in their order; `joined` is added to the message before, after a line end.
 */
enum value { VALUE_TEXT, VALUE_LIST, VALUE_EITHER };
enum { PARTS = 4, OPTIONAL = 1, JOINED = 2, ALONE = 4 };
static const struct format {
    struct part {
        const char *key;
        const char *role; /* NULL: of a text, and of a list, which has its own */
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
    /* OpenAI's first, TRL's */
    {{{"prompt", JSONL_PROMPT, VALUE_EITHER, 0},
      {"completion", JSONL_COMPLETION, VALUE_EITHER, 0}}},
    {{{"prompt", JSONL_PROMPT, VALUE_EITHER, 0},
      {"response", JSONL_COMPLETION, VALUE_EITHER, 0}}},
};
enum { FORMATS = sizeof formats / sizeof *formats };
#define FORMAT_KEYS                                                                            \
    "text, messages, conversations, instruction and output, or prompt and completion"

/* The names of a message's keys: OpenAI's, ShareGPT's. */
static const char *const role_keys[] = {"role", "from", NULL};
static const char *const content_keys[] = {"content", "value", NULL};

static int is_one_of(const char *const *names, const char *name)
{
    while (*names && strcmp(*names, name))
        names++;
    return *names != NULL;
}

static int fail_second(const struct jsonl *j, const char *key, struct err *err)
{
    char what[64];

    snprintf(what, sizeof what, "a second '%s', expected one", key);
    return fail_line(j, err, what);
}

/* A copy that a 0 follows. */
static char *copy_text(const char *text, int64_t bytes)
{
    char *copy = mem_new((size_t)bytes + 1, 1);

    if (bytes)
        memcpy(copy, text, (size_t)bytes);
    return copy;
}

/* A key and its ':'; the key is then in the reader's word. */
static int take_key(struct jsonl *j, struct err *err)
{
    return jin_text(&j->jin) || jin_take(&j->jin, ':') ? fail(j, err) : 0;
}

/* The text of one of OpenAI's content parts. */
static int take_part(struct jsonl *j, struct err *err)
{
    int keys = 0, more, texts = 0;

    if (jin_take(&j->jin, '{'))
        return fail(j, err);
    while ((more = jin_item(&j->jin, '}', &keys)) > 0) {
        if (take_key(j, err))
            return -1;
        int text = strcmp(j->jin.word, "text") == 0;
        if (text ? jin_text(&j->jin) : jin_skip(&j->jin))
            return fail(j, err);
        texts += text;
        if (!text || !j->jin.word_bytes)
            continue;
        size_t n = (size_t)j->jin.word_bytes;
        j->parts = mem_grow(j->parts, &j->parts_room, j->parts_bytes + n, 1);
        memcpy(j->parts + j->parts_bytes, j->jin.word, n);
        j->parts_bytes += n;
    }
    if (more < 0)
        return fail(j, err);
    return texts == 1
               ? 0
               : fail_line(j, err, "a part of a content that is no text, expected 'text'");
}

/* A text, or as a content (parts) a list of parts that are texts: *out, not there before. */
static int take_text(struct jsonl *j, const char **out, int64_t *bytes, int parts,
                     const char *key, struct err *err)
{
    int items = 0, more;

    if (*out)
        return fail_second(j, key, err);
    if (!parts || jin_next(&j->jin) != '[') {
        if (jin_text(&j->jin))
            return fail(j, err);
        *bytes = j->jin.word_bytes;
        *out = copy_text(j->jin.word, *bytes);
        return 0;
    }
    jin_take(&j->jin, '[');
    j->parts_bytes = 0;
    while ((more = jin_item(&j->jin, ']', &items)) > 0)
        if (take_part(j, err))
            return -1;
    if (more < 0)
        return fail(j, err);
    *bytes = (int64_t)j->parts_bytes;
    *out = copy_text(j->parts, *bytes);
    return 0;
}

static struct jsonl_message *add_message(struct jsonl *j)
{
    j->message =
        mem_grow(j->message, &j->messages_room, (size_t)j->messages + 1, sizeof *j->message);
    struct jsonl_message *m = &j->message[j->messages++];
    *m = (struct jsonl_message){0};
    return m;
}

/* Calls of tools, OpenAI's and its older ones. */
static const char *const call_keys[] = {"tool_calls", "function_call", NULL};

/* They are not rendered, and without them the answer would be another. */
static int skip_calls(struct jsonl *j, struct err *err)
{
    const char *key = call_keys[strcmp(j->jin.word, call_keys[0]) != 0];
    int64_t from = j->jin.at;

    if (jin_skip(&j->jin))
        return fail(j, err);
    const char *p = j->jin.text + from, *end = j->jin.text + j->jin.at;
    while (p < end && strchr(" \t\r[]", *p))
        p++;
    return p == end || *p == 'n'
               ? 0
               : err_set(err, ERR_INPUT,
                         "%s:%" PRId64 ": a message with '%s', expected the calls as text in "
                         "'content'",
                         j->path, j->line, key);
}

static int parse_message(struct jsonl *j, struct err *err)
{
    struct jsonl_message *m = add_message(j);
    int64_t role_bytes;
    int keys = 0, more;

    if (jin_take(&j->jin, '{'))
        return fail(j, err);
    while ((more = jin_item(&j->jin, '}', &keys)) > 0) {
        if (take_key(j, err))
            return -1;
        const char *key = j->jin.word;
        /* a content of null is none: a message of calls has it */
        int content = is_one_of(content_keys, key) && jin_next(&j->jin) != 'n';
        int rc = is_one_of(role_keys, key) ? take_text(j, &m->role, &role_bytes, 0, "role", err)
                 : content ? take_text(j, &m->text, &m->bytes, 1, "content", err)
                 : is_one_of(call_keys, key) ? skip_calls(j, err)
                 : jin_skip(&j->jin)         ? fail(j, err)
                                             : 0;
        if (rc)
            return -1;
    }
    if (more < 0)
        return fail(j, err);
    return m->role && m->text
               ? 0
               : fail_line(j, err, "a message without 'role' or 'content', expected both");
}

/* One part of a line, at its value. */
static int parse_part(struct jsonl *j, const struct part *p, struct err *err)
{
    char next = jin_next(&j->jin);

    if (p->flags & OPTIONAL && next == 'n') /* null */
        return 0;
    if (p->value == VALUE_LIST || (p->value == VALUE_EITHER && next == '[')) {
        int items = 0, more;

        if (jin_take(&j->jin, '['))
            return fail(j, err);
        while ((more = jin_item(&j->jin, ']', &items)) > 0) {
            if (items > JSONL_MESSAGES_MAX)
                return fail_line(j, err, "more than 1048576 messages, expected at most that");
            if (parse_message(j, err))
                return -1;
        }
        if (more < 0)
            return fail(j, err);
        return items ? 0 : fail_line(j, err, "no messages, expected one at least");
    }
    if (!(p->flags & JOINED)) {
        struct jsonl_message *m = add_message(j);
        m->role = p->role ? mem_dup(p->role) : NULL;
        return take_text(j, &m->text, &m->bytes, 0, p->key, err);
    }
    struct jsonl_message *m = &j->message[j->messages - 1];
    if (jin_text(&j->jin))
        return fail(j, err);
    if (j->jin.word_bytes) {
        char *both = mem_new((size_t)(m->bytes + 1 + j->jin.word_bytes) + 1, 1);
        memcpy(both, m->text, (size_t)m->bytes);
        both[m->bytes] = '\n';
        memcpy(both + m->bytes + 1, j->jin.word, (size_t)j->jin.word_bytes);
        mem_free((char *)m->text);
        m->text = both;
        m->bytes += 1 + j->jin.word_bytes;
    }
    return 0;
}

/* Where the value of each part of each format begins in a line; 0: it has none; -1: several. */
struct found {
    int64_t at[FORMATS][PARTS];
};

/* Notes the key in the reader's word, and skips its value. */
static int find_value(struct jsonl *j, struct found *found, struct err *err)
{
    int64_t at = j->jin.at;

    for (int f = 0; f < FORMATS; f++)
        for (int p = 0; p < PARTS && formats[f].part[p].key; p++)
            if (strcmp(formats[f].part[p].key, j->jin.word) == 0)
                found->at[f][p] = found->at[f][p] ? -1 : at;
    return jin_skip(&j->jin) ? fail(j, err) : 0;
}

/* The line's format, or -1. */
static int choose_format(struct jsonl *j, const struct found *found, struct err *err)
{
    int first = -1, alone = 0;

    for (int f = 0; f < FORMATS; f++) {
        int whole = 1, own = 0;
        for (int p = 0; p < PARTS && formats[f].part[p].key; p++) {
            whole &= found->at[f][p] || formats[f].part[p].flags & OPTIONAL;
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

static int parse_line(struct jsonl *j, const char *text, int64_t bytes, struct err *err)
{
    struct found found = {0};
    int keys = 0, more;

    j->jin.text = text;
    j->jin.bytes = bytes;
    j->jin.at = 0;
    if (jin_take(&j->jin, '{'))
        return fail(j, err);
    while ((more = jin_item(&j->jin, '}', &keys)) > 0)
        if (take_key(j, err) || find_value(j, &found, err))
            return -1;
    if (more < 0 || jin_end(&j->jin))
        return fail(j, err);
    int f = choose_format(j, &found, err);
    for (int p = 0; f >= 0 && p < PARTS && formats[f].part[p].key; p++) {
        const struct part *part = &formats[f].part[p];
        if (found.at[f][p] < 0)
            return fail_second(j, part->key, err);
        j->jin.at = found.at[f][p];
        if (j->jin.at && parse_part(j, part, err))
            return -1;
    }
    return f < 0 ? -1 : 0;
}

int jsonl_next(struct jsonl *j, struct err *err)
{
    const char *text;
    int64_t bytes;
    int rc;

    drop_messages(j);
    while ((rc = (j->list ? next_object : next_line)(j, &text, &bytes, err)) > 0) {
        int64_t blank = 0;
        while (blank < bytes && strchr(" \t\r", text[blank]) && text[blank])
            blank++;
        if (blank < bytes)
            return parse_line(j, text, bytes, err) ? -1 : 1;
    }
    return rc;
}
