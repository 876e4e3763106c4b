/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rewrites TOML and command-line flags as YAML, line by line, and parses that.  Texts and
 * arrays of TOML are YAML as they stand.
 */
#include "value/value_flat.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "value/value_yaml.h"

#define FLAT_WORD                                                                              \
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-." /* of a key */

/* The bytes of a line up to its comment or end; adds its brackets to *depth. */
static size_t flat_length(const char *p, int *depth)
{
    char quote = 0;
    size_t n = 0;

    for (; p[n] && p[n] != '\n' && (quote || p[n] != '#'); n++) {
        if (quote == '"' && p[n] == '\\' && p[n + 1] && p[n + 1] != '\n')
            n++;
        else if (quote)
            quote = p[n] == quote ? 0 : quote;
        else if (p[n] == '"' || p[n] == '\'')
            quote = p[n];
        else
            *depth += (p[n] == '[') - (p[n] == ']');
    }
    while (n && strchr(" \t\r", p[n - 1]))
        n--;
    return n;
}

static int flat_fail(const char *name, int line, const char *p, size_t n, const char *expected,
                     struct err *err)
{
    return err_at(err, name, line, NULL, "has '%.*s', expected %s", (int)(n < 40 ? n : 40), p,
                  expected);
}

/* Rewrites a line that begins with a table or a key. */
static int flat_toml_line(const char *name, int line, const char *p, size_t n, char table[128],
                          FILE *out, struct err *err)
{
    size_t key = strspn(p, FLAT_WORD), equals = key + strspn(p + key, " \t");

    if (*p == '[') {
        size_t word = strspn(p + 1, FLAT_WORD);
        if (!word || word + 2 != n || p[n - 1] != ']' || word > 120)
            return flat_fail(name, line, p, n, "a table as [training]", err);
        snprintf(table, 128, "%.*s.", (int)word, p + 1);
        return 0;
    }
    if (!key || equals >= n || p[equals] != '=')
        return flat_fail(name, line, p, n, "[table] or key = value", err);
    const char *value = p + equals + 1 + strspn(p + equals + 1, " \t");
    size_t bytes = value < p + n ? n - (size_t)(value - p) : 0;
    if (!bytes || *value == '{' || strncmp(value, "\"\"\"", 3) == 0 ||
        strncmp(value, "'''", 3) == 0)
        return flat_fail(name, line, p, n,
                         "a text of one line, a number, true, false or an array", err);
    fprintf(out, "%s%.*s: ", table, (int)key, p);
    for (size_t i = 0; i < bytes; i++) /* 1_000 is a number */
        if (value[i] != '_' || strchr("\"'[", *value) || *value > '9')
            putc(value[i], out);
    return 0;
}

static int flat_parse(struct tree *t, const char *name, FILE *out, char **yaml, size_t *bytes,
                      int rc, struct err *err)
{
    fclose(out);
    rc = rc ? rc : tree_parse(t, name, *yaml, (int64_t)*bytes, err);
    mem_free(*yaml);
    return rc;
}

int flat_parse_toml(struct tree *t, const char *name, const char *text, struct err *err)
{
    char table[128] = "", *yaml = NULL;
    size_t bytes = 0;
    FILE *out = mem_stream(&yaml, &bytes);
    int depth = 0, rc = 0;

    for (int line = 1; rc == 0 && *text; line++) {
        int inside = depth > 0;
        text += strspn(text, " \t\r");
        size_t n = flat_length(text, &depth);
        if (inside)
            fprintf(out, " %.*s", (int)n, text);
        else if (n)
            rc = flat_toml_line(name, line, text, n, table, out, err);
        putc('\n', out);
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    return flat_parse(t, name, out, &yaml, &bytes, rc, err);
}

/* Cuts off the next word of a command line, without its quotes; NULL: the text ends. */
static char *flat_word(const char **text, int *line, FILE *out)
{
    const char *p = *text;
    char *word = NULL, quote = 0;
    size_t bytes = 0;

    for (;; p++) {
        if (*p == '#')
            p += strcspn(p, "\n");
        if (*p == '\n') {
            putc('\n', out);
            ++*line;
        } else if (!*p || (!strchr(" \t\r", *p) && strncmp(p, "\\\n", 2) != 0)) {
            break;
        }
    }
    FILE *f = *p ? mem_stream(&word, &bytes) : NULL;
    for (; *p && *p != '\n' && (quote || !strchr(" \t\r", *p)); p++) {
        if (quote ? *p == quote : *p == '"' || *p == '\'')
            quote = quote ? 0 : *p;
        else
            putc(*p, f);
    }
    if (f)
        fclose(f);
    *text = p;
    return word;
}

int flat_parse_flags(struct tree *t, const char *name, const char *text, struct err *err)
{
    char *yaml = NULL, *word = NULL, *values = NULL; /* of the last flag */
    size_t bytes = 0, used = 0, space = 0;
    FILE *out = mem_stream(&yaml, &bytes);
    int line = 1, rc = 0, flags = 0;

    putc('{', out);
    for (; rc == 0 && (word = flat_word(&text, &line, out)); mem_free(word)) {
        size_t n = strcspn(word, "="), more = strlen(word);
        int flag = strncmp(word, "--", 2) == 0 && n > 2;
        if (!flag && !flags)
            rc = flat_fail(name, line, word, more, "a flag as --bf16", err);
        if (flag && flags++)
            yaml_put_text(out, used ? values : "true");
        if (flag) {
            fprintf(out, "%s'%.*s': ", flags > 1 ? ", " : "", (int)n, word);
            used = 0;
        }
        const char *value = !flag ? word : word[n] ? word + n + 1 : "";
        values = mem_grow(values, &space, used + more + 2, 1);
        used += (size_t)sprintf(values + used, "%s%s", used ? " " : "", value);
    }
    if (flags)
        yaml_put_text(out, used ? values : "true");
    putc('}', out);
    mem_free(values);
    return flat_parse(t, name, out, &yaml, &bytes, rc, err);
}
