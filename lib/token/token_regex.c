/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Translates regular expressions from Oniguruma's syntax, which tokenizer.json uses, to
 * PCRE2's: the common features, and those that differ only in spelling.  Other features are
 * errors.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "token/token_parts.h"

/* Oniguruma's \w; PCRE2's lacks marks, or has others, depending on its version. */
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"

struct translation {
    const char *at; /* position in the pattern */
    int in_class;
    FILE *out;
    struct err *err;
};

static int fail_at(struct translation *t, int bytes)
{
    return err_set(t->err, ERR_INPUT,
                   "has '%.*s', which is not supported in a regular expression", bytes, t->at);
}

/* For a script PCRE2 also matches characters that are used with the script. */
static int put_property(struct translation *t)
{
    const char *name = t->at + 3, *end = t->at[2] == '{' ? strchr(name, '}') : NULL;
    int no = end && *name == '^', bytes = end ? (int)(end - name) - no : 0;

    if (bytes < 1 ||
        strspn(name + no, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_") <
            (size_t)bytes)
        return fail_at(t, 3);
    int script = bytes > 2 && strncmp(name + no, "Alphabetic}", (size_t)bytes + 1);
    fprintf(t->out, "\\%c{%s%s%.*s}", t->at[1], no ? "^" : "", script ? "sc:" : "", bytes,
            name + no);
    t->at = end + 1;
    return 0;
}

/* Translates \xHH, \x{H...}, \uHHHH: one character. */
static int regex_put_code(struct translation *t)
{
    int brace = t->at[1] == 'x' && t->at[2] == '{', most = t->at[1] == 'u' ? 4 : brace ? 6 : 2;
    const char *digits = t->at + 2 + brace;
    int n = 0;

    while (n < most && isxdigit((unsigned char)digits[n]))
        n++;
    /* To Oniguruma two digits are a byte, not a character. */
    if (n == 0 || (brace ? digits[n] != '}' : n != most) ||
        (most == 2 && !strchr("01234567", digits[0])))
        return fail_at(t, 2);
    fprintf(t->out, "\\x{%.*s}", n, digits);
    t->at = digits + n + brace;
    return 0;
}

static int put_escape(struct translation *t)
{
    unsigned char c = (unsigned char)t->at[1];

    switch (c) {
    case 's':
    case 'S':
        fprintf(t->out, "\\%c{White_Space}", c == 's' ? 'p' : 'P');
        break;
    case 'w':
    case 'W':
        if (c == 'W' && t->in_class)
            return fail_at(t, 2);
        fprintf(t->out, t->in_class ? WORD : "[%s" WORD "]", c == 'W' ? "^" : "");
        break;
    case 'p':
    case 'P':
        return put_property(t);
    case 'x':
    case 'u':
        return regex_put_code(t);
    case 'v':
        fputs("\\x{b}", t->out);
        break;
    case 'd':
    case 'D':
    case 'n':
    case 'r':
    case 't':
    case 'f':
        fprintf(t->out, "\\%c", c);
        break;
    default:
        if (c == 0 || isalnum(c))
            return fail_at(t, 1 + (c != 0));
        fprintf(t->out, c < 0x80 ? "\\%c" : "%c", c);
    }
    t->at += 2;
    return 0;
}

/* Translates the part after "(?". */
static int regex_put_group(struct translation *t)
{
    static const char *const kinds[] = {
        "(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!", "(?i:", "(?i)", "(?-i:", "(?-i)"};

    for (int i = 0; i < (int)(sizeof kinds / sizeof *kinds); i++) {
        size_t n = strlen(kinds[i]);
        if (strncmp(t->at, kinds[i], n))
            continue;
        fputs(kinds[i], t->out);
        t->at += n;
        return 0;
    }
    return fail_at(t, 3);
}

/* Translates {n}, {n,} or {n,m}; a suffix may have another meaning in PCRE2. */
static int put_interval(struct translation *t)
{
    size_t n = 1 + strspn(t->at + 1, "0123456789");
    int range = t->at[n] == ',';

    n += range ? 1 + strspn(t->at + n + 1, "0123456789") : 0;
    if (t->at[n] != '}' || !isdigit((unsigned char)t->at[1]) || t->at[n + 1] == '+' ||
        (!range && t->at[n + 1] == '?'))
        return fail_at(t, (int)strnlen(t->at, n + 2));
    fwrite(t->at, 1, n + 1, t->out);
    t->at += n + 1;
    return 0;
}

static int put_class_byte(struct translation *t)
{
    if (*t->at == '[' || strncmp(t->at, "&&", 2) == 0)
        return fail_at(t, 2);
    t->in_class = *t->at != ']';
    putc(*t->at++, t->out);
    return 0;
}

static int put_next(struct translation *t)
{
    if (*t->at == '\\')
        return put_escape(t);
    if (t->in_class)
        return put_class_byte(t);
    if (strncmp(t->at, "(?", 2) == 0)
        return regex_put_group(t);
    if (strncmp(t->at, "(*", 2) == 0)
        return fail_at(t, 2);
    if (*t->at == '{')
        return put_interval(t);
    if (*t->at == '[') {
        t->in_class = 1;
        size_t n = t->at[1] == '^' ? 2 : 1;
        fwrite(t->at, 1, n, t->out);
        t->at += n;
        return *t->at == ']' ? fail_at(t, 1) : 0;
    }
    putc(*t->at++, t->out);
    return 0;
}

static int translate(const char *pattern, char **out, struct err *err)
{
    struct translation t = {.at = pattern, .err = err};
    size_t bytes;
    int rc = 0;

    t.out = mem_stream(out, &bytes);
    while (rc == 0 && *t.at)
        rc = put_next(&t);
    fclose(t.out);
    return rc;
}

int token_regex_compile(struct token_regex *r, const char *pattern, int literal,
                        struct err *err)
{
    uint32_t how = literal ? PCRE2_UTF | PCRE2_LITERAL
                           : PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
    int code = 0;
    PCRE2_SIZE at = 0;
    PCRE2_UCHAR why[120];
    char *text = NULL;

    if (literal)
        text = mem_dup(pattern);
    else if (translate(pattern, &text, err)) {
        mem_free(text);
        return -1;
    }
    r->code = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, how, &code, &at, NULL);
    if (!r->code) {
        pcre2_get_error_message(code, why, sizeof why);
        err_set(err, ERR_INPUT, "is no regular expression: %s", (char *)why);
    } else {
        /* If code cannot be generated (a kernel may forbid it), matching is slower. */
        pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE);
    }
    mem_free(text);
    return r->code ? 0 : -1;
}

void token_regex_release(struct token_regex *r)
{
    pcre2_code_free(r->code);
    *r = (struct token_regex){0};
}

const char *token_window(const char *p, const char *end)
{
    return end - p > TOKEN_WORD_MAX ? token_code_before(p, p + TOKEN_WORD_MAX + 1) : end;
}

int token_regex_next(struct tokenizer *t, const struct token_regex *r, const char *text,
                     int64_t bytes, int64_t at, int64_t *from, int64_t *to, struct err *err)
{
    /* Words lie inside the window; a match that begins later, or reaches its end, needs the
       whole text. */
    int64_t window = token_window(text + at, text + bytes) - text;

    for (token_state_prepare(t);; window = bytes) {
        int rc = pcre2_match(r->code, (PCRE2_SPTR)text, (PCRE2_SIZE)window, (PCRE2_SIZE)at,
                             PCRE2_NO_UTF_CHECK, t->match, t->limits);
        const PCRE2_SIZE *range = pcre2_get_ovector_pointer(t->match);
        if (rc < 0 && rc != PCRE2_ERROR_NOMATCH)
            return err_set(err, ERR_INPUT,
                           "a pattern of the tokenizer needs too many steps at byte %" PRId64
                           " of a piece of text, expected at most %d",
                           at, TOKEN_STEPS_MAX);
        if (rc >= 0 &&
            (window == bytes || (int64_t)range[0] == at || (int64_t)range[1] < window)) {
            *from = (int64_t)range[0];
            *to = (int64_t)range[1];
            return 1;
        }
        if (window == bytes)
            return 0;
    }
}
