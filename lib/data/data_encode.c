/* SPDX-License-Identifier: BSD-3-Clause */
/* Encodes documents as tokens, and writes Megatron's files. */
#include "data/data_encode.h"

#include <inttypes.h>
#include <omp.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "data/data_chat.h"
#include "data/data_jsonl.h"

struct encoder {
    const char *path;            /* borrowed */
    struct tokenizer *tokenizer; /* borrowed */
    FILE *out;
    int threads, size; /* size: bytes of a token */
    int64_t tokens;
    int kind; /* kind of the last span; -1: none of this document yet */
    struct spans *spans;
    int held;
    unsigned char buffer[1 << 14]; /* [held] */
};

enum source_type encode_type(const struct tokenizer *t)
{
    return !t ? SOURCE_U8 : tokenizer_count(t) <= 1 << 16 ? SOURCE_U16 : SOURCE_I32;
}

static int put_le(FILE *out, uint64_t value, int bytes)
{
    unsigned char le[8];

    for (int b = 0; b < bytes; b++)
        le[b] = (unsigned char)(value >> 8 * b);
    return fwrite(le, 1, (size_t)bytes, out) != (size_t)bytes;
}

static int flush(struct encoder *e, struct err *err)
{
    int held = e->held;

    e->held = 0;
    return fwrite(e->buffer, 1, (size_t)held, e->out) == (size_t)held
               ? 0
               : err_sys(err, "cannot write the tokens of '%s'", e->path);
}

static int encode_put_tokens(struct encoder *e, const int32_t *ids, int64_t count, int trained,
                             struct err *err)
{
    int kind = trained ? 0 : SPAN_CONTEXT;

    if (kind != e->kind &&
        spans_add(e->spans, e->tokens, e->kind < 0 ? kind | SPAN_DOCUMENT : kind, err))
        return -1;
    e->kind = kind;
    for (int64_t i = 0; i < count; i++) {
        for (int b = 0; b < e->size; b++)
            e->buffer[e->held++] = (unsigned char)((uint32_t)ids[i] >> 8 * b);
        if (e->held > (int)sizeof e->buffer - 4 && flush(e, err))
            return -1;
    }
    e->tokens += count;
    return 0;
}

/* ---- JSON Lines ---- */

/* Bytes of text that each thread gets at a time; they are encoded document by document. */
enum { BATCH = 1 << 20, DOCUMENTS_MAX = 1 << 10 };

/*
 * A document, or a part of a text; after encoding its tokens: spans of {trained, count, tokens
 * ...}.
 */
struct document {
    struct jsonl_message *message; /* [messages]; NULL: a part of a text */
    int messages, rc;
    const char *text; /* the part, borrowed */
    int continued;    /* not the first part */
    int64_t bytes, line, held;
    int32_t *ids; /* [held] */
    size_t space;
    struct err err;
};

/* The tokenizer and template of a thread. */
struct worker {
    struct tokenizer *tokenizer; /* NULL: bytes */
    struct chat *chat;           /* NULL: no conversation so far */
};

static int hold_tokens(void *arg, const int32_t *ids, int64_t count, int trained,
                       struct err *err)
{
    enum { SPAN_MAX = 1 << 30 };
    struct document *d = arg;

    for (int64_t n; count > 0; ids += n, count -= n) {
        n = count < SPAN_MAX ? count : SPAN_MAX;
        d->ids = mem_grow(d->ids, &d->space, (size_t)(d->held + 2 + n), sizeof *d->ids);
        d->ids[d->held++] = trained;
        d->ids[d->held++] = (int32_t)n;
        memcpy(d->ids + d->held, ids, (size_t)n * sizeof *ids);
        d->held += n;
    }
    (void)err;
    return 0;
}

/* Bytes are their own tokens: no memory beyond the texts. */
static int encode_put_bytes(struct encoder *e, const struct document *d, struct err *err)
{
    int rc = 0;

    for (int m = 0; m < d->messages; m++)
        for (int64_t i = 0; rc == 0 && i < d->message[m].bytes; i++)
            rc = encode_put_tokens(e, &(int32_t){(unsigned char)d->message[m].text[i]}, 1,
                                   m + 1 == d->messages, err);
    return rc;
}

/* Encodes a text as a document; if there are two messages the first is context. */
static int hold_whole(struct worker *w, struct document *d, struct err *err)
{
    const struct jsonl_message *m = d->message;
    int32_t end = tokenizer_end(w->tokenizer), *ids = NULL;
    int after = 0, rc = 0;
    const int32_t *suffix = tokenizer_suffix(w->tokenizer, &after);

    for (int i = 0; rc == 0 && i < d->messages; i++) {
        int last = i + 1 == d->messages;
        int64_t count = tokenizer_encode(w->tokenizer, m[i].text, m[i].bytes,
                                         i ? TOKENIZER_CONTINUED : TOKENIZER_WRAP, &ids, err);
        rc = count < 0 ? -1
                       : hold_tokens(d, ids, count - (i == 0 && !last ? after : 0), last, err);
        mem_free(ids);
        ids = NULL;
    }
    if (rc == 0 && d->messages > 1)
        rc = hold_tokens(d, suffix, after, 1, err);
    if (rc || end < 0 || (after && suffix[after - 1] == end))
        return rc;
    return hold_tokens(d, &end, 1, 1, err);
}

/* Whether it is a text, or a prompt and its completion. */
static int encode_is_plain(const struct document *d)
{
    const struct jsonl_message *m = d->message;

    return !m->role || (d->messages == 2 && strcmp(m[0].role, JSONL_PROMPT) == 0 &&
                        strcmp(m[1].role, JSONL_COMPLETION) == 0);
}

static int encode_document(struct worker *w, struct document *d, const char *template,
                           struct err *err)
{
    const struct jsonl_message *m = d->message;

    if (!m) {
        int32_t *ids = NULL;
        int64_t count = tokenizer_encode(w->tokenizer, d->text, d->bytes,
                                         d->continued ? TOKENIZER_CONTINUED : 0, &ids, err);

        if (count < 0)
            return -1;
        hold_tokens(d, ids, count, 1, err);
        mem_free(ids);
        return 0;
    }
    if (!w->tokenizer)
        return !encode_is_plain(d)
                   ? err_set(err, ERR_INPUT,
                             "a conversation and no tokenizer, expected --tokenizer DIR")
                   : 0;
    if (encode_is_plain(d))
        return hold_whole(w, d, err);
    if (!w->chat && chat_open(&w->chat, w->tokenizer, template, err))
        return -1;
    return chat_encode(w->chat, m, d->messages, 0, hold_tokens, d, err);
}

/* Reads documents of at least `bytes` bytes of text, or the remaining ones; returns
   jsonl_next's result. */
static int encode_read_batch(struct jsonl *lines, int64_t bytes, struct document *d, int *count,
                             struct err *err)
{
    int rc = 1;

    for (*count = 0; bytes > 0 && *count < DOCUMENTS_MAX; ++*count) {
        if ((rc = jsonl_next(lines, err)) <= 0)
            break;
        struct document *new = &d[*count];
        new->line = lines->line;
        new->message = jsonl_take(lines, &new->messages);
        for (int i = 0; i < new->messages; i++)
            bytes -= new->message[i].bytes;
    }
    return rc;
}

struct crew {
    struct worker *worker; /* [threads] */
    struct document *document;
};

static struct crew start_crew(const struct encoder *e, int documents)
{
    struct crew c = {mem_new((size_t)e->threads, sizeof *c.worker),
                     mem_new((size_t)documents, sizeof *c.document)};

    for (int i = 0; e->tokenizer && i < e->threads; i++)
        c.worker[i].tokenizer = tokenizer_share(e->tokenizer);
    return c;
}

static int encode_batch(struct encoder *e, struct crew *c, int count, const char *template,
                        struct err *err)
{
    struct document *d = c->document;

#pragma omp parallel for num_threads(e->threads) schedule(dynamic, 1) if (count > 1)
    for (int i = 0; i < count; i++)
        d[i].rc = encode_document(&c->worker[omp_get_thread_num()], &d[i], template, &d[i].err);
    /* In order, so that the error reported is that of the first bad line. */
    int rc = 0;
    for (int i = 0; i < count; i++) {
        if (rc == 0 && d[i].rc) {
            *err = d[i].err;
            if (err->code == ERR_INPUT && d[i].message)
                err_prefix(err, "%s:%" PRId64 ": ", e->path, d[i].line);
            rc = -1;
        }
        e->kind = d[i].message ? -1 : 0;
        if (rc == 0 && !e->tokenizer)
            rc = encode_put_bytes(e, &d[i], err);
        for (int64_t at = 0; rc == 0 && at < d[i].held; at += 2 + d[i].ids[at + 1])
            rc = encode_put_tokens(e, d[i].ids + at + 2, d[i].ids[at + 1], d[i].ids[at], err);
        jsonl_free(d[i].message, d[i].messages);
        mem_free(d[i].ids);
        d[i] = (struct document){0};
    }
    return rc;
}

static void end_crew(const struct encoder *e, struct crew *c)
{
    for (int i = 0; i < e->threads; i++) {
        chat_close(c->worker[i].chat);
        tokenizer_close(c->worker[i].tokenizer);
    }
    mem_free(c->worker);
    mem_free(c->document);
}

static int encode_lines(struct encoder *e, const char *path, const char *template,
                        struct encode_done *done, struct err *err)
{
    struct jsonl lines;
    int rc = 1, count = 0;

    if (jsonl_open(&lines, path, err))
        return -1;
    struct crew c = start_crew(e, DOCUMENTS_MAX);
    while (rc > 0) {
        struct err why;
        rc = encode_read_batch(&lines, (int64_t)e->threads * BATCH, c.document, &count, err);
        if (encode_batch(e, &c, count, template, &why)) {
            *err = why;
            rc = -1;
        }
    }
    done->bytes = lines.bytes;
    for (int i = 0; i < e->threads; i++)
        if (c.worker[i].chat)
            done->guess = chat_guess(c.worker[i].chat);
    end_crew(e, &c);
    jsonl_close(&lines);
    return rc;
}

/* ---- text ---- */

/* Bytes of text per thread, which also holds the normalized text and the tokens */
enum { PART = 4 << 20 };

static int encode_parts(struct encoder *e, char *text, int64_t bytes, struct err *err)
{
    struct crew c = start_crew(e, e->threads);
    int64_t page = sysconf(_SC_PAGESIZE), at = 0, to;
    int rc = 0;

    while (rc == 0 && at < bytes) {
        int count = 0;
        for (; count < e->threads && at < bytes; count++, at = to) {
            to =
                bytes - at > PART ? tokenizer_cut(e->tokenizer, text, at + PART, bytes) : bytes;
            c.document[count] =
                (struct document){.text = text + at, .bytes = to - at, .continued = at > 0};
        }
        rc = encode_batch(e, &c, count, NULL, err);
        madvise(text, (size_t)(at / page * page), MADV_DONTNEED); /* read again if needed */
    }
    end_crew(e, &c);
    return rc;
}

/* Maps the text while it is encoded, since it may be larger than memory. */
static int encode_text(struct encoder *e, const char *path, struct encode_done *done,
                       struct err *err)
{
    int64_t bytes = 0;
    int fd = -1, rc = 0;

    e->spans = NULL;
    if (io_open(path, &fd, &bytes, err))
        return -1;
    rc = io_check_pointer(fd, path, bytes, err);
    if (rc == 0 && bytes) {
        char *text = mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        rc = text == MAP_FAILED ? err_sys(err, "cannot map data '%s'", path)
                                : encode_parts(e, text, bytes, err);
        if (text != MAP_FAILED)
            munmap(text, (size_t)bytes);
    }
    close(fd);
    done->bytes = bytes;
    return rc;
}

int encode_file(const char *path, struct tokenizer *t, const char *template, FILE *out,
                struct spans *spans, struct encode_done *done, struct err *err)
{
    struct encoder *e = mem_new(1, sizeof *e);
    int lines = jsonl_is(path);

    done->guess = (struct chat_guess){0};
    e->path = path;
    e->tokenizer = t;
    e->threads = omp_get_num_procs(); /* few if ranks are bound to processors */
    e->out = out;
    e->spans = spans;
    e->size = source_type_bytes(encode_type(t));
    int rc =
        lines ? encode_lines(e, path, template, done, err) : encode_text(e, path, done, err);
    if (rc == 0)
        rc = flush(e, err);
    done->tokens = e->tokens;
    mem_free(e);
    return rc;
}

static int64_t length_of(const struct spans *s, int64_t i, int64_t tokens)
{
    return (i + 1 < s->count ? s->begin[i + 1] : tokens) - s->begin[i];
}

/*
 * Sequences are spans; mode 1 is context.  Bounds of documents are the sequences that begin
 * one, and the number of sequences.
 */
int encode_idx(const struct spans *s, int64_t tokens, enum source_type type, FILE *out,
               struct err *err)
{
    static const unsigned char code[] = {[SOURCE_U8] = 1, [SOURCE_U16] = 8, [SOURCE_I32] = 4};
    int bad = fwrite("MMIDIDX\0", 1, 9, out) != 9, contexts = 0;
    int64_t documents = 1, size = source_type_bytes(type);

    for (int64_t i = 0; i < s->count; i++) {
        documents += (s->kind[i] & SPAN_DOCUMENT) != 0;
        contexts |= s->kind[i] & SPAN_CONTEXT;
        if (length_of(s, i, tokens) > INT32_MAX)
            return err_set(err, ERR_INPUT,
                           "%" PRId64 " tokens of one document, expected at most %d",
                           length_of(s, i, tokens), INT32_MAX);
    }
    bad |= put_le(out, 1, 8) || put_le(out, code[type], 1) ||
           put_le(out, (uint64_t)s->count, 8) || put_le(out, (uint64_t)documents, 8);
    for (int64_t i = 0; i < s->count; i++)
        bad |= put_le(out, (uint64_t)length_of(s, i, tokens), 4);
    for (int64_t i = 0; i < s->count; i++)
        bad |= put_le(out, (uint64_t)(s->begin[i] * size), 8);
    for (int64_t i = 0; i < s->count; i++)
        if (s->kind[i] & SPAN_DOCUMENT)
            bad |= put_le(out, (uint64_t)i, 8);
    bad |= put_le(out, (uint64_t)s->count, 8);
    for (int64_t i = 0; contexts && i < s->count; i++)
        bad |= put_le(out, s->kind[i] & SPAN_CONTEXT, 1);
    return bad ? err_sys(err, "cannot write the bounds of documents") : 0;
}
