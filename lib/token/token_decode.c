/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decodes token by token.  Returns bytes that are not UTF-8 (or not yet: a character may span
 * several tokens) unchanged, where other decoders return U+FFFD.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "token/token_parts.h"

/* The byte of "<0x00>" to "<0xFF>", or -1. */
static int fallback_byte(const char *text, int64_t bytes)
{
    if (bytes != 6 || memcmp(text, "<0x", 3) || text[5] != '>' ||
        !isxdigit((unsigned char)text[3]) || !isxdigit((unsigned char)text[4]))
        return -1;
    return (int)strtol((const char[]){text[3], text[4], 0}, NULL, 16);
}

static int begins_with(const char *text, int64_t bytes, const char *with, size_t n)
{
    return n && (size_t)bytes >= n && memcmp(text, with, n) == 0;
}

/* Strips each token, or with fused decoding only the whole text's beginning. */
static void strip_left(const struct token_step *s, int fused, struct tokenizer_stream *stream,
                       struct token_buffer *b)
{
    size_t n = strlen(s->from);
    int cut = fused ? stream->stripped : 0;
    int64_t at = 0;

    if (cut < 0)
        return;
    while (cut < s->left && begins_with(b->text + at, b->bytes - at, s->from, n)) {
        at += (int64_t)n;
        cut++;
    }
    memmove(b->text, b->text + at, (size_t)(b->bytes -= at));
    if (fused)
        stream->stripped = b->bytes || cut == s->left ? -1 : cut;
}

static void strip_right(const struct token_step *s, struct token_buffer *b)
{
    size_t n = strlen(s->from);

    for (int cut = 0; cut < s->right; cut++) {
        if (b->bytes < (int64_t)n || memcmp(b->text + b->bytes - n, s->from, n))
            break;
        b->bytes -= (int64_t)n;
    }
}

static void replace(const char *from, const char *to, struct token_buffer *b,
                    struct token_buffer *scratch)
{
    size_t n = strlen(from);

    scratch->bytes = 0;
    for (int64_t at = 0; at < b->bytes;) {
        int here = begins_with(b->text + at, b->bytes - at, from, n);
        token_buffer_add(scratch, here ? to : b->text + at, here ? (int64_t)strlen(to) : 1);
        at += here ? (int64_t)n : 1;
    }
    b->bytes = 0;
    token_buffer_add(b, scratch->text, scratch->bytes);
}

const char *tokenizer_decode(struct tokenizer *t, struct tokenizer_stream *stream, int32_t id,
                             int64_t *count)
{
    const struct token_tables *a = t->tables;
    struct token_buffer *b = &t->decoded;
    int64_t bytes = 0, n;
    int fused = 0, byte;
    const char *piece = tokenizer_piece(t, id, &bytes);

    if (!piece)
        return NULL;
    b->bytes = 0;
    if (!a->has_decoder && stream->tokens)
        token_buffer_add(b, " ", 1);
    token_buffer_add(b, piece, bytes);
    for (int i = 0; i < a->decode.count; i++) {
        const struct token_step *s = &a->decode.step[i];
        switch (s->kind) {
        case TOKEN_BYTE_LEVEL:
            replace("", "", b, &t->prefixed);
            n = token_bytes_of(a, t->prefixed.text, b->bytes, b->text);
            if (n < 0) /* a token with literal spelling */
                memcpy(b->text, t->prefixed.text, (size_t)b->bytes);
            b->bytes = n < 0 ? b->bytes : n;
            fused = 1;
            break;
        case TOKEN_BYTE_FALLBACK:
            if ((byte = fallback_byte(b->text, b->bytes)) >= 0) {
                b->text[0] = (char)byte;
                b->bytes = 1;
            }
            break;
        case TOKEN_REPLACE:
            replace(s->from, s->to, b, &t->prefixed);
            break;
        case TOKEN_METASPACE: /* the first token gets no space */
            replace(s->to, s->add && !stream->tokens ? "" : " ", b, &t->prefixed);
            break;
        case TOKEN_STRIP:
            strip_left(s, fused, stream, b);
            strip_right(s, b);
            break;
        default:
            fused = 1;
        }
    }
    stream->tokens++;
    *count = b->bytes;
    return b->text;
}
