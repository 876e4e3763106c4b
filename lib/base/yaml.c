/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how a YAML text becomes structs and how scalars are written.  The strictness is
 * yaml_walk.c's, the storing libcyaml's.
 */
#include "base/yaml.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"
#include "base/yaml_walk.h"

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
 * The mark that some editors put before UTF-8 is none of the text: libyaml would count it as a
 * column, so that the first key alone stood further in than the others.
 */
void yaml_take(struct yaml *y, const char *name, char *text, int64_t bytes)
{
    if (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        bytes -= 3;
        memmove(text, text + 3, (size_t)bytes);
        text[bytes] = 0;
    }
    *y = (struct yaml){.text = text, .bytes = bytes, .name = mem_dup(name)};
}

void yaml_release(struct yaml *y)
{
    mem_free(y->text);
    mem_free(y->name);
    *y = (struct yaml){0};
}

/* ---- loading ---- */

struct first_line {
    char text[200];
};

/* libcyaml's first error is the cause; the lines behind it are its backtrace. */
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

    if (yaml_walk_check(y, schema, err))
        return -1;
    cyaml_err_t rc = cyaml_load_data((const uint8_t *)y->text, (size_t)y->bytes, &config,
                                     schema, &data, NULL);
    if (rc == CYAML_ERR_OOM)
        return err_set(err, ERR_SYS, "out of memory loading '%s'", y->name);
    if (rc)
        return err_at(err, y->name, 0, NULL, "cannot be loaded: %s (%s)", cyaml_strerror(rc),
                      why.text);
    /* A mapping of optional keys, none of them given, loads as nothing. */
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

/* Some other file: its beginning says more than a parser's complaint about it. */
static int fail_format(const struct yaml *y, int line, const char *format, struct err *err)
{
    const char *begin = y->text + strspn(y->text, " \t\r\n");
    size_t n = strcspn(begin, "\r\n");

    return err_at(err, y->name, line, "format",
                  "is missing, expected 'format: %s'; the text begins with '%.*s'", format,
                  n < 40 ? (int)n : 40, begin);
}

int yaml_format(const struct yaml *y, const char *format, struct err *err)
{
    struct err why = {0};
    char *text = NULL;
    int line = 0;
    int rc = yaml_walk_seek(y, "format", &line, &text, &why);

    if (text && strcmp(text, format) == 0)
        rc = 0;
    else if (text)
        rc = err_at(err, y->name, line, "format", "is '%.60s', expected '%s'", text, format);
    else if (rc && (y->bytes == 0 || memmem(y->text, (size_t)y->bytes, "format:", 7)))
        *err = why;
    else
        rc = fail_format(y, line, format, err);
    mem_free(text);
    return rc;
}

/* ---- places and numbers ---- */

int yaml_line(const struct yaml *y, const char *path)
{
    struct err ignored;
    int line = 0;

    yaml_walk_seek(y, path, &line, NULL, &ignored);
    return line;
}

int yaml_fail(const struct yaml *y, const char *path, struct err *err, const char *fmt, ...)
{
    char text[sizeof err->text];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return err_at(err, y->name, yaml_line(y, path), path[0] ? path : NULL, "%s", text);
}

int yaml_f64(const struct yaml *y, const char *path, const char *text, double lo, double hi,
             double *out, struct err *err)
{
    struct err why;

    if (!text)
        return yaml_fail(y, path, err, "is missing, expected a number");
    if (num_f64(text, lo, hi, out, &why))
        return yaml_fail(y, path, err, "is %s", why.text);
    return 0;
}

int yaml_i64(const struct yaml *y, const char *path, const char *text, int64_t lo, int64_t hi,
             int64_t *out, struct err *err)
{
    struct err why;

    if (!text)
        return yaml_fail(y, path, err, "is missing, expected a whole number");
    int rc = hi > INT32_MAX ? num_count(text, lo, hi, out, &why)
                            : num_i64(text, lo, hi, out, &why);
    return rc ? yaml_fail(y, path, err, "is %s", why.text) : 0;
}

/* ---- output ---- */

/* Plain where no YAML reader, 1.1 or 1.2, could take it for anything but this text. */
static int is_plain(const char *text)
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

static void put_code(FILE *f, const char *p, int n, uint32_t code)
{
    if (code == '"' || code == '\\')
        fprintf(f, "\\%c", (char)code);
    else if (code == '\n')
        fputs("\\n", f);
    else if (code < 0x20 || (code >= 0x7f && code < 0xa0))
        fprintf(f, "\\x%02" PRIx32, code);
    else if (code == 0x2028 || code == 0x2029 || code == 0xfeff || code == 0xfffe ||
             code == 0xffff)
        fprintf(f, "\\u%04" PRIx32, code); /* breaks, marks and what a reader refuses */
    else
        fwrite(p, 1, (size_t)n, f);
}

void yaml_put_text(FILE *f, const char *text)
{
    if (is_plain(text)) {
        fputs(text, f);
        return;
    }
    putc('"', f);
    while (*text) {
        uint32_t code = 0xfffd; /* the replacement character, for a byte that is no UTF-8 */
        int n = utf8_next(text, &code);
        put_code(f, n ? text : "\xef\xbf\xbd", n ? n : 3, code);
        text += n ? n : 1;
    }
    putc('"', f);
}

/*
 * Whole numbers up to 1e15 without an exponent.  Else YAML 1.1 readers want both a point and
 * the exponent's sign to see a number: 1e-06 is text to them, 1.0e-06 is not.
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
    char *comma = strchr(text, ','); /* a locale's decimal comma */
    if (comma)
        *comma = '.';
    char *e = strchr(text, 'e');
    if (e && !strchr(text, '.'))
        fprintf(f, "%.*s.0%s", (int)(e - text), text, e);
    else
        fputs(text, f);
}
