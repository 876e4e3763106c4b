/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how documents become tokens, and how these lie in Megatron's files. */
#include "data/encode.h"

#include <inttypes.h>
#include <omp.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "data/chat.h"
#include "data/jsonl.h"

struct encoder {
    const char *path;            /* borrowed */
    struct tokenizer *tokenizer; /* borrowed */
    FILE *out;
    int threads, size; /* bytes of a token */
    int64_t tokens;
    int kind; /* of the last span; -1: none of this document */
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

static int put_tokens(void *arg, const int32_t *ids, int64_t count, int trained,
                      struct err *err)
{
    struct encoder *e = arg;
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

static int put_trained(void *arg, const int32_t *ids, int64_t count, struct err *err)
{
    return put_tokens(arg, ids, count, 1, err);
}

/* ---- JSON Lines ---- */

/* So much text is read at once, for each thread, and encoded by document. */
enum { BATCH = 1 << 20, DOCUMENTS_MAX = 1 << 10 };

/*
 * A document, and once it is encoded its tokens: spans of {trained, count, tokens ...}.  A line
 * has fewer tokens than an int counts.
 */
struct document {
    struct jsonl_message *message; /* [messages] */
    int messages, rc;
    int64_t line, held;
    int32_t *ids; /* [held] */
    size_t room;
    struct err err;
};

/* What a thread encodes with. */
struct worker {
    struct tokenizer *tokenizer; /* NULL: bytes */
    struct chat *chat;           /* NULL: no conversation so far */
};

static int hold_tokens(void *arg, const int32_t *ids, int64_t count, int trained,
                       struct err *err)
{
    struct document *d = arg;

    (void)err;
    d->ids = mem_grow(d->ids, &d->room, (size_t)(d->held + 2 + count), sizeof *d->ids);
    d->ids[d->held++] = trained;
    d->ids[d->held++] = (int32_t)count;
    memcpy(d->ids + d->held, ids, (size_t)count * sizeof *ids);
    d->held += count;
    return 0;
}

static int hold_trained(void *arg, const int32_t *ids, int64_t count, struct err *err)
{
    return hold_tokens(arg, ids, count, 1, err);
}

/* Bytes are their own tokens: the text is all the memory they need. */
static int put_bytes(struct encoder *e, const char *text, int64_t bytes, struct err *err)
{
    int rc = 0;

    for (int64_t i = 0; rc == 0 && i < bytes; i++)
        rc = put_tokens(e, &(int32_t){(unsigned char)text[i]}, 1, 1, err);
    return rc;
}

static int encode_document(struct worker *w, struct document *d, const char *template,
                           struct err *err)
{
    const struct jsonl_message *m = d->message;

    if (!w->tokenizer)
        return m->role ? err_set(err, ERR_INPUT,
                                 "a conversation and no tokenizer, expected --tokenizer DIR")
                       : 0;
    if (!m->role) {
        int32_t end = tokenizer_end(w->tokenizer);
        int after = 0;
        const int32_t *suffix = tokenizer_suffix(w->tokenizer, &after);
        if (tokenizer_each(w->tokenizer, m->text, m->bytes, TOKENIZER_WRAP, 1, hold_trained, d,
                           err))
            return -1;
        return end < 0 || (after && suffix[after - 1] == end) ? 0
                                                              : hold_tokens(d, &end, 1, 1, err);
    }
    if (!w->chat && chat_open(&w->chat, w->tokenizer, template, err))
        return -1;
    return chat_encode(w->chat, m, d->messages, 0, hold_tokens, d, err);
}

/* Documents of so much text at least, or those that are left; returns what jsonl_next does. */
static int read_batch(struct jsonl *lines, int64_t bytes, struct document *d, int *count,
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

/* In their order; the first error is that of the first line that has one. */
static int put_batch(struct encoder *e, struct document *d, int count, struct err *err)
{
    int rc = 0;

    for (int i = 0; i < count; i++) {
        if (rc == 0 && d[i].rc) {
            *err = d[i].err;
            if (err->code == ERR_INPUT)
                err_prefix(err, "%s:%" PRId64 ": ", e->path, d[i].line);
            rc = -1;
        }
        e->kind = -1;
        if (rc == 0 && !e->tokenizer)
            rc = put_bytes(e, d[i].message->text, d[i].message->bytes, err);
        for (int64_t at = 0; rc == 0 && at < d[i].held; at += 2 + d[i].ids[at + 1])
            rc = put_tokens(e, d[i].ids + at + 2, d[i].ids[at + 1], d[i].ids[at], err);
        jsonl_free(d[i].message, d[i].messages);
        mem_free(d[i].ids);
        d[i] = (struct document){0};
    }
    return rc;
}

/* That this process may use: where ranks are bound, few of many. */
static int processors(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}

static int encode_lines(struct encoder *e, const char *path, const char *template,
                        struct encode_done *done, struct err *err)
{
    int threads = e->threads, rc = 1, count = 0;
    struct jsonl lines;

    if (jsonl_open(&lines, path, err))
        return -1;
    struct document *d = mem_new(DOCUMENTS_MAX, sizeof *d);
    struct worker *w = mem_new((size_t)threads, sizeof *w);
    for (int i = 0; e->tokenizer && i < threads; i++)
        w[i].tokenizer = tokenizer_share(e->tokenizer);
    while (rc > 0) {
        struct err why;
        rc = read_batch(&lines, (int64_t)threads * BATCH, d, &count, err);
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1) if (count > 1)
        for (int i = 0; i < count; i++)
            d[i].rc = encode_document(&w[omp_get_thread_num()], &d[i], template, &d[i].err);
        if (put_batch(e, d, count, &why)) {
            *err = why;
            rc = -1;
        }
    }
    done->bytes = lines.bytes;
    for (int i = 0; i < threads; i++) {
        chat_close(w[i].chat);
        tokenizer_close(w[i].tokenizer);
    }
    mem_free(w);
    mem_free(d);
    jsonl_close(&lines);
    return rc;
}

/* ---- text ---- */

/* Mapped for as long as it is encoded: it may be larger than memory. */
static int encode_text(struct encoder *e, const char *path, struct encode_done *done,
                       struct err *err)
{
    int64_t bytes = 0;
    int fd = -1, rc = 0;

    e->spans = NULL;
    e->kind = 0;
    if (io_open(path, &fd, &bytes, err))
        return -1;
    if (bytes) {
        char *text = mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        rc = text == MAP_FAILED ? err_sys(err, "cannot map data '%s'", path)
                                : tokenizer_each(e->tokenizer, text, bytes, TOKENIZER_MAPPED,
                                                 e->threads, put_trained, e, err);
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

    e->path = path;
    e->tokenizer = t;
    e->threads = processors();
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
 * Sequences are spans, modes are 1 of contexts; bounds of documents are the sequences that
 * begin one, and the count of sequences.
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
