/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows lines of JSON that are texts or conversations.  Does not know what roles there are. */
#include "data/jsonl.h"

#include <inttypes.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"

enum { BLOCK = 1 << 16 };

int jsonl_is(const char *path)
{
    static const char *const ends[] = {".jsonl",  ".jsonl.gz",  ".jsonl.zst",
                                       ".ndjson", ".ndjson.gz", ".ndjson.zst"};

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (io_ends_with(path, ends[i]))
            return strlen(path) > strlen(ends[i]);
    return 0;
}

int jsonl_open(struct jsonl *j, const char *path, struct err *err)
{
    *j = (struct jsonl){.path = path};
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

static int fail(const struct jsonl *j, struct err *err)
{
    return err_set(err, ERR_INPUT, "%s:%" PRId64 ": byte %" PRId64 ": expected %s", j->path,
                   j->line, j->jin.at, j->jin.wrong);
}

static int fail_line(const struct jsonl *j, struct err *err, const char *what)
{
    return err_set(err, ERR_INPUT, "%s:%" PRId64 ": %s", j->path, j->line, what);
}

/* The value of a key: a copy of its text in *out, which must not be there yet. */
static int take_text(struct jsonl *j, const char **out, int64_t *bytes, const char *key,
                     struct err *err)
{
    char what[64];

    if (*out) {
        snprintf(what, sizeof what, "a second '%s', expected one", key);
        return fail_line(j, err, what);
    }
    if (jin_text(&j->jin))
        return fail(j, err);
    *bytes = j->jin.word_bytes;
    char *copy = mem_new((size_t)*bytes + 1, 1);
    memcpy(copy, j->jin.word, (size_t)*bytes);
    *out = copy;
    return 0;
}

/* A key and its ':'; the key is then in the reader's word. */
static int take_key(struct jsonl *j, struct err *err)
{
    return jin_text(&j->jin) || jin_take(&j->jin, ':') ? fail(j, err) : 0;
}

static struct jsonl_message *add_message(struct jsonl *j)
{
    j->message =
        mem_grow(j->message, &j->messages_room, (size_t)j->messages + 1, sizeof *j->message);
    struct jsonl_message *m = &j->message[j->messages++];
    *m = (struct jsonl_message){0};
    return m;
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
        int rc = strcmp(j->jin.word, "role") == 0
                     ? take_text(j, &m->role, &role_bytes, "role", err)
                 : strcmp(j->jin.word, "content") == 0
                     ? take_text(j, &m->text, &m->bytes, "content", err)
                 : jin_skip(&j->jin) ? fail(j, err)
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

static int parse_messages(struct jsonl *j, struct err *err)
{
    int items = 0, more;

    if (j->messages)
        return fail_line(j, err, "'text' and 'messages', or two of them, expected one");
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
    return j->messages ? 0 : fail_line(j, err, "no messages, expected one at least");
}

static int parse_text(struct jsonl *j, struct err *err)
{
    if (j->messages)
        return fail_line(j, err, "'text' and 'messages', or two of them, expected one");
    struct jsonl_message *m = add_message(j);
    return take_text(j, &m->text, &m->bytes, "text", err);
}

static int parse_line(struct jsonl *j, const char *text, int64_t bytes, struct err *err)
{
    int keys = 0, more;

    j->jin.text = text;
    j->jin.bytes = bytes;
    j->jin.at = 0;
    if (jin_take(&j->jin, '{'))
        return fail(j, err);
    while ((more = jin_item(&j->jin, '}', &keys)) > 0) {
        if (take_key(j, err))
            return -1;
        int rc = strcmp(j->jin.word, "text") == 0       ? parse_text(j, err)
                 : strcmp(j->jin.word, "messages") == 0 ? parse_messages(j, err)
                 : jin_skip(&j->jin)                    ? fail(j, err)
                                                        : 0;
        if (rc)
            return -1;
    }
    if (more < 0 || jin_end(&j->jin))
        return fail(j, err);
    return j->messages ? 0 : fail_line(j, err, "neither 'text' nor 'messages', expected one");
}

int jsonl_next(struct jsonl *j, struct err *err)
{
    const char *text;
    int64_t bytes;
    int rc;

    drop_messages(j);
    while ((rc = next_line(j, &text, &bytes, err)) > 0) {
        int64_t blank = 0;
        while (blank < bytes && strchr(" \t\r", text[blank]) && text[blank])
            blank++;
        if (blank < bytes)
            return parse_line(j, text, bytes, err) ? -1 : 1;
    }
    return rc;
}
