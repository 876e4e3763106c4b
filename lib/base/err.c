/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Formats an error as one printable line, even if a hostile file supplies parts of it.  Leaves
 * printing it to cli.
 */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

int err_set(struct err *err, enum err_code code, const char *fmt, ...)
{
    va_list ap;

    *err = (struct err){.code = code};
    va_start(ap, fmt);
    vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    utf8_clean(err->text);
    return -1;
}

int err_sys(struct err *err, const char *fmt, ...)
{
    int saved = errno;
    va_list ap;

    *err = (struct err){.code = saved == ENOENT ? ERR_ABSENT : ERR_SYS,
                        .scarce = saved == EMFILE || saved == ENFILE || saved == ENOMEM};
    va_start(ap, fmt);
    int used = vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    if (used >= 0 && (size_t)used < sizeof err->text)
        snprintf(err->text + used, sizeof err->text - (size_t)used, ": %s", strerror(saved));
    utf8_clean(err->text);
    return -1;
}

static int put_at(struct err *err, enum err_code code, const char *file, int line,
                  const char *key, const char *fmt, va_list ap)
{
    int used = 0;

    *err = (struct err){.code = code, .line = line};
    snprintf(err->file, sizeof err->file, "%s", file);
    snprintf(err->key, sizeof err->key, "%s", key ? key : "");
    char where[16] = "";
    if (line > 0)
        snprintf(where, sizeof where, ":%d", line);
    used = snprintf(err->text, sizeof err->text, "%s%s: ", err->file, where);
    if (key)
        used += snprintf(err->text + used, sizeof err->text - (size_t)used, "'%s' ", err->key);
    vsnprintf(err->text + used, sizeof err->text - (size_t)used, fmt, ap);
    utf8_clean(err->text);
    return -1;
}

int err_at(struct err *err, const char *file, int line, const char *key, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    put_at(err, ERR_INPUT, file, line, key, fmt, ap);
    va_end(ap);
    return -1;
}

int err_mismatch(struct err *err, const char *file, const char *key, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    put_at(err, ERR_MISMATCH, file, 0, key, fmt, ap);
    va_end(ap);
    return -1;
}

int err_prefix(struct err *err, const char *fmt, ...)
{
    char rest[sizeof err->text];
    va_list ap;

    memcpy(rest, err->text, sizeof rest);
    va_start(ap, fmt);
    int used = vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    if (used >= 0 && (size_t)used < sizeof err->text)
        snprintf(err->text + used, sizeof err->text - (size_t)used, "%.*s",
                 (int)(sizeof err->text - (size_t)used - 1), rest);
    utf8_clean(err->text);
    return -1;
}

int err_suffix(struct err *err, const char *fmt, ...)
{
    size_t used = strlen(err->text);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(err->text + used, sizeof err->text - used, fmt, ap);
    va_end(ap);
    utf8_clean(err->text);
    return -1;
}

const char *err_code_name(enum err_code code)
{
    static const char *const names[] = {
        [ERR_NONE] = "none",         [ERR_INPUT] = "input",   [ERR_SYS] = "system",
        [ERR_MISMATCH] = "mismatch", [ERR_ABSENT] = "absent", [ERR_PEER] = "peer",
        [ERR_DEVICE] = "device",
    };

    return names[code];
}
