/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Normalizes texts: Unicode's forms with utf8proc, and replacements.  Most texts are in form C
 * already, or differ from it in few characters: only these go through utf8proc.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/mem.h"
#include "token/token_parts.h"

void token_buffer_add(struct token_buffer *b, const char *text, int64_t bytes)
{
    b->text = mem_grow(b->text, &b->space, (size_t)(b->bytes + bytes) + 1, 1);
    if (bytes)
        memcpy(b->text + b->bytes, text, (size_t)bytes);
    b->bytes += bytes;
}

static int compare_marks(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Sorts each run of marks by combining class, equal ones in the order of the text. */
static void sort_marks(utf8proc_int32_t *code, int64_t count)
{
    uint64_t *mark = NULL, class;
    size_t space = 0;

    for (int64_t from = 0, to; from < count; from = to + 1) {
        for (to = from; to < count; to++) {
            class = (uint64_t)utf8proc_get_property(code[to])->combining_class;
            if (class == 0)
                break;
            mark = mem_grow(mark, &space, (size_t)(to - from) + 1, sizeof *mark);
            mark[to - from] = class << 56 | (uint64_t)(to - from) << 21 | (uint32_t)code[to];
        }
        if (to - from < 2)
            continue;
        qsort(mark, (size_t)(to - from), sizeof *mark, compare_marks);
        for (int64_t i = from; i < to; i++)
            code[i] = (utf8proc_int32_t)(mark[i - from] & 0x1fffff);
    }
    mem_free(mark);
}

/* Converts a text to a form.  utf8proc_map would need n * n steps to sort a run of n marks. */
static void add_form(struct token_buffer *to, const char *text, int64_t bytes, int how)
{
    enum { LONGEST = 32 }; /* longest result of a character: 18 in Unicode 15 */
    utf8proc_option_t options = UTF8PROC_STABLE | (utf8proc_option_t)how;
    utf8proc_int32_t *code = NULL;
    size_t space = 0;
    utf8proc_ssize_t count = 0;
    int n, class = 0;

    for (const char *p = text; p < text + bytes; p += n) {
        /* one more: utf8proc_reencode adds a final zero */
        code = mem_grow(code, &space, (size_t)count + LONGEST + 1, sizeof *code);
        utf8proc_ssize_t parts = utf8proc_decompose_char(
            (utf8proc_int32_t)token_code_at(p, &n), code + count, LONGEST, options, &class);
        assert(parts >= 0 && parts <= LONGEST);
        count += parts;
    }
    if (count > 0) {
        sort_marks(code, count);
        count = utf8proc_reencode(code, count, options);
        assert(count > 0);
    }
    token_buffer_add(to, (const char *)code, count);
    mem_free(code);
}

/*
 * Whether form C neither changes the character nor joins it to the previous one: it is not a
 * mark, not composed, and not a vowel or final consonant of Hangul.
 */
static int begins_part(uint32_t code)
{
    if (code < 0x300)
        return 1;
    const utf8proc_property_t *p = utf8proc_get_property((utf8proc_int32_t)code);
    int mark = p->category >= UTF8PROC_CATEGORY_MN && p->category <= UTF8PROC_CATEGORY_ME;

    return !mark && p->combining_class == 0 && p->decomp_seqindex == UINT16_MAX &&
           (code < 0x1100 || code > 0x11ff);
}

/* Returns 0 and adds nothing if the text is in form C. */
static int add_nfc(struct token_buffer *to, const char *text, int64_t bytes)
{
    const char *end = text + bytes, *done = text, *start = text, *p = text;
    int n;

    while (p < end) {
        if (token_is_ascii(p, end)) {
            start = p + 7;
            p += 8;
            continue;
        }
        if ((unsigned char)*p < 0xcc) { /* below U+0300 */
            start = p;
            p += (unsigned char)*p < 0x80 ? 1 : 2;
            continue;
        }
        if (begins_part(token_code_at(p, &n))) {
            start = p;
            p += n;
            continue;
        }
        do
            p += n;
        while (p < end && !begins_part(token_code_at(p, &n)));
        token_buffer_add(to, done, start - done);
        add_form(to, start, p - start, UTF8PROC_COMPOSE);
        done = start = p;
    }
    if (done > text)
        token_buffer_add(to, done, end - done);
    return done > text;
}

/* Lowercases: simple mappings, and the one character that becomes two. */
static void add_lower(struct token_buffer *to, const char *text, int64_t bytes)
{
    char out[4];
    int n;

    for (const char *p = text; p < text + bytes; p += n) {
        utf8proc_int32_t code = (utf8proc_int32_t)token_code_at(p, &n);
        if (code == 0x130)
            token_buffer_add(to, "i\xcc\x87", 3);
        else
            token_buffer_add(
                to, out, utf8proc_encode_char(utf8proc_tolower(code), (utf8proc_uint8_t *)out));
    }
}

static int add_replaced(struct tokenizer *t, const struct token_step *s,
                        struct token_buffer *to, const char *text, int64_t bytes,
                        struct err *err)
{
    size_t from_bytes = s->from ? strlen(s->from) : 0, to_bytes = strlen(s->to);
    int64_t at = 0, from, end;
    int found;

    while (from_bytes) {
        const char *p = memmem(text + at, (size_t)(bytes - at), s->from, from_bytes);
        if (!p)
            break;
        token_buffer_add(to, text + at, p - text - at);
        token_buffer_add(to, s->to, (int64_t)to_bytes);
        at = p - text + (int64_t)from_bytes;
    }
    while (!s->from &&
           (found = token_regex_next(t, &s->regex, text, bytes, at, &from, &end, err)) != 0) {
        if (found < 0)
            return -1;
        token_buffer_add(to, text + at, from - at);
        token_buffer_add(to, s->to, (int64_t)to_bytes);
        at = end;
    }
    token_buffer_add(to, text + at, bytes - at);
    return 0;
}

static void strip(const struct token_step *s, const char **text, int64_t *bytes)
{
    const char *p = *text, *end = p + *bytes;
    int n;

    while (s->left && p < end && token_is_space(token_code_at(p, &n)))
        p += n;
    while (s->right && end > p) {
        const char *last = token_code_before(p, end);
        if (!token_is_space(token_code_at(last, &n)))
            break;
        end = last;
    }
    *text = p;
    *bytes = end - p;
}

/* A normalizer always adds its prefix; a pre-tokenizer only if it is missing. */
static int needs_prefix(const struct token_step *s, enum token_begins begins, const char *text,
                        int64_t bytes)
{
    size_t n = strlen(s->to);

    if (!bytes || begins == TOKEN_MIDDLE || (s->add == TOKEN_FIRST && begins != TOKEN_TEXT))
        return 0;
    return !(s->add && (size_t)bytes >= n && memcmp(text, s->to, n) == 0);
}

int token_normalize(struct tokenizer *t, const struct token_steps *steps,
                    struct token_buffer buffer[2], enum token_begins begins, const char **text,
                    int64_t *bytes, struct err *err)
{
    static const int forms[] = {[TOKEN_NFD] = UTF8PROC_DECOMPOSE,
                                [TOKEN_NFKC] = UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
                                [TOKEN_NFKD] = UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT};
    int written = 0;

    for (int i = 0; i < steps->count; i++) {
        const struct token_step *s = &steps->step[i];
        struct token_buffer *to = &buffer[written % 2];
        to->bytes = 0;
        token_buffer_add(to, "", 0); /* allocates, in case all is removed */
        switch (s->kind) {
        case TOKEN_NFC:
            if (!add_nfc(to, *text, *bytes))
                continue;
            break;
        case TOKEN_LOWERCASE:
            add_lower(to, *text, *bytes);
            break;
        case TOKEN_REPLACE:
            if (add_replaced(t, s, to, *text, *bytes, err))
                return -1;
            break;
        case TOKEN_STRIP:
            strip(s, text, bytes);
            continue;
        case TOKEN_PREPEND:
            if (!needs_prefix(s, begins, *text, *bytes))
                continue;
            token_buffer_add(to, s->to, (int64_t)strlen(s->to));
            token_buffer_add(to, *text, *bytes);
            break;
        default:
            add_form(to, *text, *bytes, forms[s->kind]);
        }
        *text = to->text;
        *bytes = to->bytes;
        written++; /* the other buffer is free now */
    }
    return 0;
}
