/* SPDX-License-Identifier: BSD-3-Clause */
/* Knows how values stand in a config.json, and what is said of those that do not fit. */
#include "model/model_keys.h"

#include <string.h>

int keys_line(const char *text, const char *key)
{
    size_t n = strlen(key);
    int line = 1, depth = 0;

    for (const char *p = text; *p; p++) {
        if (*p == '\n')
            line++;
        depth += (*p == '{' || *p == '[') - (*p == '}' || *p == ']');
        if (*p != '"')
            continue;
        const char *start = p + 1;
        for (p++; *p && *p != '"'; p++)
            p += *p == '\\' && p[1];
        if (!*p)
            break;
        size_t after = 1 + strspn(p + 1, " \t\r\n");
        if (depth == 1 && (size_t)(p - start) == n && memcmp(start, key, n) == 0 &&
            p[after] == ':')
            return line;
    }
    return 0;
}

int keys_int(const struct config *c, const char *key, int64_t hi, int null_ok, int64_t *out)
{
    json_t *v = json_object_get(c->root, key);

    if (!v || (null_ok && json_is_null(v)))
        return 0;
    if (json_is_real(v) && !jtree_odd(v))
        return KEY_FAIL(c, key, "is %.17g, expected a whole number from 1 to %" PRId64,
                        json_real_value(v), hi);
    if (!json_is_integer(v))
        return KEY_FAIL(c, key, "is %s, expected a whole number from 1 to %" PRId64,
                        jtree_kind(v), hi);
    int64_t n = json_integer_value(v);
    if (n < 1 || n > hi)
        return KEY_FAIL(c, key, "is %" PRId64 ", expected a whole number from 1 to %" PRId64, n,
                        hi);
    *out = n;
    return 0;
}

int keys_num(const struct config *c, const char *key, int zero_ok, double *out)
{
    json_t *v = json_object_get(c->root, key);

    if (!v)
        return 0;
    const char *want = zero_ok ? "a number, 0 or above" : "a number above 0";
    if (!jtree_is_number(v))
        return KEY_FAIL(c, key, "is %s, expected %s", jtree_kind(v), want);
    double d = json_number_value(v);
    if (d < 0 || (d == 0 && !zero_ok) || d > 1e30)
        return KEY_FAIL(c, key, "is %g, expected %s", d, want);
    *out = d;
    return 0;
}

int keys_bool(const struct config *c, const char *key, int *out)
{
    json_t *v = json_object_get(c->root, key);

    if (!v)
        return 0;
    if (!json_is_boolean(v))
        return KEY_FAIL(c, key, "is %s, expected true or false", jtree_kind(v));
    *out = json_is_true(v);
    return 0;
}

/* "a, b or c" */
static void print_words(const char *const *words, char *text, size_t room)
{
    size_t used = 0;

    for (int i = 0; words[i] && used < room; i++)
        used += (size_t)snprintf(text + used, room - used, "%s%s",
                                 i == 0         ? ""
                                 : words[i + 1] ? ", "
                                                : " or ",
                                 words[i]);
}

int keys_word(const struct config *c, const char *key, const char *const *words, int *out)
{
    json_t *v = json_object_get(c->root, key);
    char want[128];

    if (!v)
        return 0;
    for (int i = 0; json_is_string(v) && words[i]; i++)
        if (strcmp(words[i], json_string_value(v)) == 0) {
            *out = i;
            return 0;
        }
    print_words(words, want, sizeof want);
    return KEY_FAIL(c, key, "is %.60s, expected %s",
                    json_is_string(v) ? json_string_value(v) : jtree_kind(v), want);
}
