/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes JSON and YAML.  Independent of the document's meaning. */
#include "value/value_json_out.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "value/value_yaml.h"

static void string(FILE *f, const char *text, int64_t bytes)
{
    putc('"', f);
    for (const char *p = text, *end = text + bytes; p < end;) {
        uint32_t code = 0;
        int n = *p ? utf8_next(p, &code) : 1;
        if (n == 0) {
            fputs("\\ufffd", f);
            p++;
        } else if (*p == '"' || *p == '\\') {
            fprintf(f, "\\%c", *p++);
        } else if (utf8_steers(code)) { /* they are all at most U+FFFF */
            fprintf(f, "\\u%04x", (unsigned)code);
            p += n;
        } else {
            fwrite(p, 1, (size_t)n, f);
            p += n;
        }
    }
    putc('"', f);
}

static void indent(struct jout *j)
{
    if (!j->pretty)
        return;
    putc('\n', j->file);
    for (int i = 0; i < j->depth; i++)
        fputs("  ", j->file);
}

/*
 *     format: x         A key begins a line, except an item's first key, which is after "-".
 *     levels:           A list is in brackets if its first item is a scalar.
 *       - name: a
 *         ranks: [0, 1]
 */
static void before_yaml(struct jout *j, const char *key, int is_scalar)
{
    uint64_t bit = (uint64_t)1 << j->depth;
    int is_first = !(j->filled & bit), in_list = (j->list & bit) != 0;
    int follows = j->depth == 1 || (j->depth > 1 && (j->list & bit >> 1));

    if (in_list && is_first && is_scalar) {
        fputs(follows && j->depth > 1 ? "[" : " [", j->file); /* after "- " or after a key */
        j->flow |= bit;
    } else if (j->flow & bit) {
        fputs(", ", j->file);
    } else if (j->depth && !(is_first && follows)) {
        fprintf(j->file, "\n%*s", 2 * (j->depth - 1), "");
    }
    if (in_list && !(j->flow & bit))
        fputs("- ", j->file);
    if (key)
        fprintf(j->file, "%s:%s", key, is_scalar ? " " : "");
}

/* Writes the text before a value, including its key. */
static void before(struct jout *j, const char *key, int is_scalar)
{
    uint64_t bit = (uint64_t)1 << j->depth;

    if (j->yaml) {
        before_yaml(j, key, is_scalar);
        j->filled |= bit;
        return;
    }
    if (j->depth) {
        if (j->filled & bit)
            putc(',', j->file);
        indent(j);
    }
    j->filled |= bit;
    if (key) {
        string(j->file, key, (int64_t)strlen(key));
        fputs(j->pretty ? ": " : ":", j->file);
    }
}

void jout_open(struct jout *j, const char *key, char bracket)
{
    before(j, key, 0);
    if (!j->yaml)
        putc(bracket, j->file);
    j->depth++;
    assert(j->depth < 64);
    uint64_t bit = (uint64_t)1 << j->depth;
    j->filled &= ~bit;
    j->flow &= ~bit;
    j->list = bracket == '[' ? j->list | bit : j->list & ~bit;
}

void jout_close(struct jout *j, char bracket)
{
    uint64_t bit = (uint64_t)1 << j->depth;
    int filled = (j->filled & bit) != 0;

    assert(j->depth > 0);
    j->depth--;
    if (!j->yaml) {
        if (filled)
            indent(j);
        putc(bracket, j->file);
    } else if (!filled) {
        fputs(bracket == ']' ? " []" : " {}", j->file);
    } else if (j->flow & bit) {
        putc(']', j->file);
    }
    if (j->depth == 0) {
        putc('\n', j->file);
        j->filled = 0;
    }
}

void jout_end(struct jout *j)
{
    while (j->depth)
        jout_close(j, j->list >> j->depth & 1 ? ']' : '}');
}

void jout_text(struct jout *j, const char *key, const char *text)
{
    if (!text) {
        jout_null(j, key);
        return;
    }
    before(j, key, 1);
    if (j->yaml)
        yaml_put_text(j->file, text);
    else
        string(j->file, text, (int64_t)strlen(text));
}

void jout_plain(struct jout *j, const char *key, const char *text)
{
    before(j, key, 1);
    if (j->yaml)
        fputs(text, j->file);
    else
        string(j->file, text, (int64_t)strlen(text));
}

/*
 * Writes a literal block, indented by two spaces more than its key.  The header has an
 * indicator where needed: "2" if the text begins with a space, "-" if it has no final newline,
 * "+" if it has several.
 */
static void literal(struct jout *j, const char *text)
{
    size_t bytes = strlen(text);
    int ends = bytes > 0 && text[bytes - 1] == '\n';

    fputs(strchr(" \t\n", text[0]) ? "|2" : "|", j->file);
    fputs(!ends ? "-" : bytes > 1 && text[bytes - 2] == '\n' ? "+" : "", j->file);
    while (*text) {
        size_t line = strcspn(text, "\n");
        fprintf(j->file, "\n%*s%.*s", line ? 2 * j->depth : 0, "", (int)line, text);
        text += line + (text[line] == '\n');
    }
}

void jout_block(struct jout *j, const char *key, const char *text)
{
    const char *p = text;

    /* A literal block keeps tabs and printable ASCII untouched. */
    while (p && (*p == '\n' || *p == '\t' || (*p >= ' ' && *p <= '~')))
        p++;
    if (!j->yaml || !p || *p) {
        jout_text(j, key, text);
        return;
    }
    before(j, key, 1);
    literal(j, text);
}

void jout_bytes(struct jout *j, const char *key, const char *text, int64_t bytes)
{
    before(j, key, 1);
    string(j->file, text, bytes);
}

void jout_int(struct jout *j, const char *key, int64_t value)
{
    before(j, key, 1);
    fprintf(j->file, "%" PRId64, value);
}

void jout_num(struct jout *j, const char *key, double value)
{
    char text[40];

    if (j->yaml) {
        before(j, key, 1);
        yaml_put_f64(j->file, value);
        return;
    }
    if (!isfinite(value)) {
        jout_null(j, key);
        return;
    }
    before(j, key, 1);
    /* Whole numbers print as integers, for readers that distinguish them. */
    int whole = fabs(value) <= 9007199254740992.0 && value == floor(value);
    for (int digits = whole ? 16 : 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    char *comma = strchr(text, ','); /* decimal comma of the locale */
    if (comma)
        *comma = '.';
    fputs(text, j->file);
}

void jout_bool(struct jout *j, const char *key, int value)
{
    before(j, key, 1);
    fputs(value ? "true" : "false", j->file);
}

void jout_null(struct jout *j, const char *key)
{
    before(j, key, 1);
    fputs("null", j->file);
}

void jout_known(struct jout *j, const char *key, int64_t value)
{
    if (value < 0)
        jout_null(j, key);
    else
        jout_int(j, key, value);
}

struct jout jout_begin(FILE *file, const char *schema)
{
    struct jout j = {.file = file, .pretty = 1};

    jout_open(&j, NULL, '{');
    jout_text(&j, "schema", schema);
    return j;
}
