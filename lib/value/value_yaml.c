/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reads a YAML text into structs, and writes scalars.  libcyaml fills the structs.  The schema
 * is checked before, because libcyaml 1.3.1 keeps no positions, names the mapping and not the
 * key, accepts an empty document and expands aliases without bound.
 */
#include "value/value_yaml.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/utf8.h"

int yaml_read(struct yaml *y, const char *path, struct err *err)
{
    char *text = NULL;
    int64_t bytes = 0;

    if (io_read_text(path, YAML_BYTES_MAX, &text, &bytes, err))
        return -1;
    yaml_take(y, strcmp(path, "-") ? path : "stdin", text, bytes);
    return 0;
}

/*
 * Skips the byte order mark that some editors put before UTF-8: libyaml would count it as a
 * column, and the first key would be indented more than the others.
 */
void yaml_take(struct yaml *y, const char *name, char *text, int64_t bytes)
{
    if (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        bytes -= 3;
        memmove(text, text + 3, (size_t)bytes);
        text[bytes] = 0;
    }
    *y = (struct yaml){.text = text, .bytes = bytes, .name = mem_dup(name)};
    tree_parse(&y->tree, name, text, bytes, &y->why);
}

void yaml_release(struct yaml *y)
{
    tree_release(&y->tree);
    mem_free(y->text);
    mem_free(y->name);
    *y = (struct yaml){0};
}

/* ---- a schema ---- */

static int check_value(const struct tree *t, const struct tree_node *n,
                       const cyaml_schema_value_t *s, struct err *err);

static int check_mapping(const struct tree *t, const struct tree_node *n,
                         const cyaml_schema_field_t *fields, struct err *err)
{
    char *keys = NULL;
    size_t bytes = 0;
    FILE *out = mem_stream(&keys, &bytes);

    for (const cyaml_schema_field_t *f = fields; f->key; f++)
        fprintf(out, "%s%s ", f->key, f->value.flags & CYAML_FLAG_OPTIONAL ? "?" : "");
    fclose(out);
    int rc = tree_keys(t, n, keys, err);
    mem_free(keys);
    for (const struct tree_node *c = n->child; rc == 0 && c; c = c->next) {
        const cyaml_schema_field_t *f = fields;
        while (strcmp(f->key, c->key))
            f++;
        rc = check_value(t, c, &f->value, err);
    }
    return rc;
}

static int check_value(const struct tree *t, const struct tree_node *n,
                       const cyaml_schema_value_t *s, struct err *err)
{
    const char *text = NULL;
    int rc = 0;

    switch (s->type) {
    case CYAML_MAPPING:
        return check_mapping(t, n, s->mapping.fields, err);
    case CYAML_SEQUENCE:
        rc = tree_list(t, n, s->sequence.min, s->sequence.max, err);
        for (const struct tree_node *c = n->child; rc == 0 && c; c = c->next)
            rc = check_value(t, c, s->sequence.entry, err);
        return rc;
    default:
        assert(s->type == CYAML_STRING);
        return tree_text(t, n, s->string.min, s->string.max, &text, err);
    }
}

/* ---- loading ---- */

struct first_line {
    char text[200];
};

/* libcyaml's first error is the cause; the lines after it are its backtrace. */
static void keep_first(cyaml_log_t level, void *ctx, const char *fmt, va_list args)
{
    struct first_line *first = ctx;

    if (level == CYAML_LOG_ERROR && first->text[0] == 0)
        vsnprintf(first->text, sizeof first->text, fmt, args);
    first->text[strcspn(first->text, "\n")] = 0;
}

int yaml_load(const struct yaml *y, const cyaml_schema_value_t *schema, void **out,
              struct err *err)
{
    struct first_line why = {""};
    const cyaml_config_t config = {
        .log_fn = keep_first,
        .log_ctx = &why,
        .mem_fn = cyaml_mem,
        .log_level = CYAML_LOG_ERROR,
        .flags = CYAML_CFG_NO_ALIAS,
    };
    cyaml_data_t *data = NULL;

    if (!y->tree.root) {
        *err = y->why;
        return -1;
    }
    if (check_value(&y->tree, y->tree.root, schema, err))
        return -1;
    cyaml_err_t rc = cyaml_load_data((const uint8_t *)y->text, (size_t)y->bytes, &config,
                                     schema, &data, NULL);
    if (rc == CYAML_ERR_OOM)
        return err_set(err, ERR_SYS, "out of memory loading '%s'", y->name);
    if (rc)
        return err_at(err, y->name, 0, NULL, "cannot be loaded: %s (%s)", cyaml_strerror(rc),
                      why.text);
    /* A mapping with only optional keys, none of them present, loads as NULL. */
    if (!data)
        return err_at(err, y->name, 0, NULL, "has no keys, expected at least one");
    *out = data;
    return 0;
}

void yaml_drop(const cyaml_schema_value_t *schema, void *data)
{
    const cyaml_config_t config = {.mem_fn = cyaml_mem};

    if (data)
        cyaml_free(&config, schema, data, 0);
}

/* Reports a file of another format by its first line, which is clearer than a parser's
   error. */
static int yaml_fail_format(const struct yaml *y, int line, const char *format, struct err *err)
{
    const char *begin = y->text + strspn(y->text, " \t\r\n");
    size_t n = strcspn(begin, "\r\n");

    return err_at(err, y->name, line, "format",
                  "is missing, expected 'format: %s'; the text begins with '%.*s'", format,
                  n < 40 ? (int)n : 40, begin);
}

int yaml_format(const struct yaml *y, const char *format, struct err *err)
{
    const struct tree_node *n = tree_get(y->tree.root, "format");

    if (n && n->kind == TREE_SCALAR)
        return strcmp(n->text, format) ? tree_fail(&y->tree, n, NULL, err,
                                                   "is '%.60s', expected '%s'", n->text, format)
                                       : 0;
    if (y->tree.root || (y->bytes && !memmem(y->text, (size_t)y->bytes, "format:", 7)))
        return yaml_fail_format(y, y->tree.root ? y->tree.root->line : 1, format, err);
    *err = y->why;
    return -1;
}

/* ---- places and numbers ---- */

/* The node at "a.b[2].c", or its closest existing parent. */
static const struct tree_node *yaml_find(const struct yaml *y, const char *path)
{
    const struct tree_node *n = y->tree.root, *next = n;

    while (next && *path) {
        char *end = NULL;
        n = next;
        if (*path == '[') {
            next = n->kind == TREE_LIST ? n->child : NULL;
            for (long i = strtol(path + 1, &end, 10); next && i > 0; i--)
                next = next->next;
            path = end + (*end == ']');
        } else {
            char key[96];
            path += *path == '.';
            size_t bytes = strcspn(path, ".[");
            snprintf(key, sizeof key, "%.*s", (int)bytes, path);
            next = tree_get(n, key);
            path += bytes;
        }
    }
    return next ? next : n;
}

int yaml_fail(const struct yaml *y, const char *path, struct err *err, const char *fmt, ...)
{
    char text[sizeof err->text];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    const struct tree_node *n = yaml_find(y, path);
    return err_at(err, y->name, n ? n->line : 0, path[0] ? path : NULL, "%s", text);
}

/* ---- output ---- */

/* Whether every YAML reader, 1.1 or 1.2, reads the unquoted text as this text. */
static int yaml_is_plain(const char *text)
{
    static const char *const words[] = {"true", "false", "yes", "no", "on",
                                        "off",  "null",  "y",   "n"};

    if (!((*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z')))
        return 0;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcasecmp(text, words[i]) == 0)
            return 0;
    for (const char *p = text; *p; p++)
        if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
              (*p >= '0' && *p <= '9') || strchr("_-./", *p)))
            return 0;
    return 1;
}

static void yaml_put_code(FILE *f, const char *p, int n, uint32_t code)
{
    if (code == '"' || code == '\\')
        fprintf(f, "\\%c", (char)code);
    else if (code == '\n')
        fputs("\\n", f);
    else if (code < 0x20 || (code >= 0x7f && code < 0xa0))
        fprintf(f, "\\x%02" PRIx32, code);
    else if (code == 0x2028 || code == 0x2029 || code == 0xfeff || code == 0xfffe ||
             code == 0xffff)
        /* Line breaks, marks, and characters that readers reject */
        fprintf(f, "\\u%04" PRIx32, code);
    else
        fwrite(p, 1, (size_t)n, f);
}

void yaml_put_text(FILE *f, const char *text)
{
    if (yaml_is_plain(text)) {
        fputs(text, f);
        return;
    }
    putc('"', f);
    while (*text) {
        uint32_t code = 0xfffd; /* the replacement character, for invalid UTF-8 */
        int n = utf8_next(text, &code);
        yaml_put_code(f, n ? text : "\xef\xbf\xbd", n ? n : 3, code);
        text += n ? n : 1;
    }
    putc('"', f);
}

/*
 * Prints whole numbers up to 1e15 without an exponent.  Otherwise YAML 1.1 readers need a point
 * and the exponent's sign to see a number: to them 1e-06 is a text, 1.0e-06 is not.
 */
void yaml_put_f64(FILE *f, double v)
{
    char text[40];

    if (v == floor(v) && fabs(v) < 1e15) {
        fprintf(f, "%.0f", v);
        return;
    }
    if (!isfinite(v)) {
        fputs(isnan(v) ? ".nan" : v > 0 ? ".inf" : "-.inf", f);
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break;
    }
    char *comma = strchr(text, ','); /* decimal comma of the locale */
    if (comma)
        *comma = '.';
    char *e = strchr(text, 'e');
    if (e && !strchr(text, '.'))
        fprintf(f, "%.*s.0%s", (int)(e - text), text, e);
    else
        fputs(text, f);
}
