/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rewrites TOML and command-line flags as YAML, line by line, and parses that.  Texts, arrays
 * and comments of TOML are YAML as they stand.
 */
#include "value/value_flat.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define FLAT_KEY                                                                               \
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-." /* its characters */

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
    size_t bytes = 0, n;
    FILE *out = mem_stream(&yaml, &bytes);
    int rc = 0;

    for (int line = 1; rc == 0 && *text; line++, text += n + (text[n] == '\n')) {
        text += strspn(text, " \t");
        n = strcspn(text, "\n");
        size_t key = strspn(text, FLAT_KEY), equals = key + strspn(text + key, " \t");
        size_t name_n = *text == '[' ? strspn(text + 1, FLAT_KEY) : 0;
        const char *rest = text + name_n + 2, *value = text + equals + 1;
        if (name_n && name_n < sizeof table - 1 && text[name_n + 1] == ']' &&
            strchr("#\r\n", rest[strspn(rest, " \t")])) {
            snprintf(table, sizeof table, "%.*s.", (int)name_n, text + 1);
        } else if (key && text[equals] == '=' &&
                   !strchr("{\r\n", *(value += strspn(value, " \t"))) &&
                   strncmp(value, "\"\"\"", 3) != 0 && strncmp(value, "'''", 3) != 0) {
            int number = isdigit((unsigned char)*value) || strchr("+-", *value); /* 8_192 */
            fprintf(out, "%s%.*s: ", table, (int)key, text);
            for (; value < text + n; value++)
                if (*value != '_' || !number)
                    putc(*value, out);
        } else if (*text == '[' || isalpha((unsigned char)*text)) {
            rc = err_at(err, name, line, NULL,
                        "is '%.*s', expected a table as [training], or a key with a text of one"
                        " line, a number, true, false or an array",
                        (int)(n < 40 ? n : 40), text);
        } else {
            fwrite(text, 1, n, out); /* of an array */
        }
        putc('\n', out);
    }
    return flat_parse(t, name, out, &yaml, &bytes, rc, err);
}

int flat_parse_flags(struct tree *t, const char *name, const char *text, struct err *err)
{
    static const char ends[] = " \t\r\n\\\"'";
    char *yaml = NULL;
    size_t bytes = 0, n;
    FILE *out = mem_stream(&yaml, &bytes);
    int flags = 0, words = 0, line = 1, written = 1, rc = 0;

    putc('{', out);
    for (; rc == 0; text += n) {
        char quote[2] = {0};
        for (;
             *text && (*text == '#' || (*text != '"' && *text != '\'' && strchr(ends, *text)));
             text += *text == '#' ? strcspn(text, "\n") : 1)
            line += *text == '\n';
        if (!*text)
            break;
        if (*text == '"' || *text == '\'')
            *quote = *text++;
        int flag = !*quote && strncmp(text, "--", 2) == 0;
        n = *quote ? strcspn(text, quote) : strcspn(text, flag ? " \t\r\n\\\"'=" : ends);
        if (*quote && !text[n])
            rc = err_at(err, name, line, NULL, "has a quote that does not end, expected %s",
                        quote);
        if (flag && flags++)
            fputs(words ? "'," : "true',", out);
        for (; flag && written < line; written++)
            putc('\n', out);
        if (flag)
            fprintf(out, "'%.*s': '", (int)n, text);
        else if (words++)
            putc(' ', out);
        for (size_t i = 0; !flag && i < n; i++)
            fputs((char[]){text[i], text[i] == '\'' ? '\'' : 0, 0}, out);
        words = flag ? 0 : words;
        n += *quote ? text[n] == *quote : flag && text[n] == '=';
    }
    fputs(!flags ? "}" : words ? "'}" : "true'}", out);
    return flat_parse(t, name, out, &yaml, &bytes, rc, err);
}
