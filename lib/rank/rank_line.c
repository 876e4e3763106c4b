/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parses a step and its loss from a line in a trainer's format.  Independent of the source of
 * lines.
 */
#include "rank/rank_line.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "value/value_tree.h"

static int is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

/* Letters, digits, dot and underline continue a word. */
static int line_is_word(char c)
{
    return is_digit(c) || (unsigned char)((c | 32) - 'a') < 26 || c == '.' || c == '_';
}

/*
 * Most losses have a few digits with a point; one division gives the nearest double, because
 * both numbers are exact.  strtod takes 100 ns, as long as the rest of reading a line.
 */
static inline const char *short_decimal(const char *p, double *out)
{
    static const double power_of_10[] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8};
    const char *from = p, *point;
    int64_t m = 0;

    for (; is_digit(*p) && p - from < 7; p++)
        m = m * 10 + (*p - '0');
    if (p == from || *p != '.')
        return NULL;
    for (point = ++p; is_digit(*p) && p - point < 8; p++)
        m = m * 10 + (*p - '0');
    *out = (double)m / power_of_10[p - point];
    return line_is_word(*p) ? NULL : p;
}

/* strtod would also accept leading blanks, hexadecimal and "nan(...)". */
const char *rank_line_number(const char *p, double *out)
{
    const char *at = p + (*p == '-' || *p == '+'), *quick = short_decimal(p, out);
    char first = (char)(*at | 32), *end = NULL;

    if (quick)
        return quick;
    if ((!is_digit(*at) && *at != '.' && first != 'n' && first != 'i') || (at[1] | 32) == 'x')
        return NULL;
    *out = strtod(p, &end);
    return end == p || end[-1] == ')' || line_is_word(*end) ? NULL : end;
}

const char *rank_line_step(const char *p, int64_t *out)
{
    const char *from = p;
    int64_t v = 0;

    for (; is_digit(*p) && p - from < 18; p++) /* 18 digits fit 64 bits */
        v = v * 10 + (*p - '0');
    *out = v;
    return p == from || p - from > 17 || v > RANK_STEP_MAX ? NULL : p;
}

static const char *line_skip_blanks(const char *p)
{
    while (*p == ' ' || *p == '\t')
        p++;
    return p;
}

/* Returns p after a word, NULL if there is another; p NULL stays NULL. */
static inline const char *skip_word(const char *p, const char *word)
{
    size_t n = strlen(word);

    return p && strncmp(p, word, n) == 0 ? p + n : NULL;
}

/* Parses "N/M" or "N". */
static const char *parse_steps(const char *p, struct rank_point *out)
{
    p = rank_line_step(p, &out->step);
    if (p && *p == '/')
        p = rank_line_step(p + 1, &out->planned);
    return p;
}

/* Parses the number of a loss; p is its position or NULL. */
static enum rank_said parse_loss(const char *p, struct rank_point *out)
{
    if (!p)
        return RANK_NOTHING;
    p = rank_line_number(p, &out->loss);
    /* "1,5" is a decimal comma, or two numbers: ambiguous. */
    return p && !(*p == ',' && is_digit(p[1])) ? RANK_LOSS : RANK_BROKEN;
}

/* Parses "step N/M | train loss X", "step N/M | loss X", "step N: train loss X"; p is after
   "step ". */
static enum rank_said parse_console(const char *p, struct rank_point *out)
{
    p = parse_steps(line_skip_blanks(p), out);
    p = p ? line_skip_blanks(p) : NULL;
    if (!p || (*p != '|' && *p != ':'))
        return RANK_NOTHING;
    p = line_skip_blanks(p + 1);
    const char *train = skip_word(p, "train ");
    p = skip_word(train ? train : p, "loss ");
    return parse_loss(p ? line_skip_blanks(p) : NULL, out);
}

/*
 * Parses the beginning of a line in paro-train's form, which must end with its object.  With
 * another brace the strict parser decides: the start of a line that overwrote this one has it.
 */
static int parse_json_head(const char *p, const char *end, struct rank_point *out)
{
    const char *q = skip_word(p, "{\"step\":");

    q = skip_word(q ? rank_line_step(q, &out->step) : NULL, ",\"loss\":");
    q = q ? rank_line_number(q, &out->loss) : NULL;
    if (!q || !is_digit(q[-1]) || ((*q != ',' || q[1] != '"') && *q != '}'))
        return 0;
    end -= end[-1] == '\r';
    return end[-1] == '}' && !memchr(q, '{', (size_t)(end - q));
}

/* Accepts 0 to RANK_STEP_MAX. */
static int json_step(const struct tree_node *n, int64_t *out)
{
    int64_t v;

    if (!tree_is_whole(n, &v) || v < 0 || v > RANK_STEP_MAX)
        return 0;
    *out = v;
    return 1;
}

/* null is no number, nor are NaN and Infinity, which Python writes. */
static int json_loss(const struct tree_node *n, double *out)
{
    *out = NAN;
    return n &&
           (n->kind == TREE_NULL || (n->text && !n->quoted && rank_line_number(n->text, out)));
}

/* Parses any JSON object; a value that is no number belongs to another program's key. */
static enum rank_said line_parse_json(const char *p, int64_t bytes, struct rank_point *out)
{
    struct tree t = {0};
    struct err err;

    *out = (struct rank_point){0};
    if (tree_parse_loose(&t, "", 0, p, bytes, &err))
        return RANK_BROKEN;
    json_step(tree_get(t.root, "tokens"), &out->tokens);
    int both = json_step(tree_get(t.root, "step"), &out->step) &&
               json_loss(tree_find(t.root, "loss"), &out->loss);
    tree_release(&t);
    return both ? RANK_LOSS : RANK_NOTHING;
}

enum rank_said rank_line(const char *p, int64_t bytes, int tokens, struct rank_point *out)
{
    const char *q;

    *out = (struct rank_point){0};
    if (*p == '{')
        return !tokens && parse_json_head(p, p + bytes, out) ? RANK_LOSS
                                                             : line_parse_json(p, bytes, out);
    if (*p != 's')
        return RANK_NOTHING;
    if ((q = skip_word(p, "s:"))) {
        q = rank_line_step(q, &out->step);
        return parse_loss(skip_word(q, " trl:"), out);
    }
    if ((q = skip_word(p, "step:"))) {
        q = parse_steps(q, out);
        return parse_loss(skip_word(q, " train_loss:"), out);
    }
    return (q = skip_word(p, "step ")) ? parse_console(q, out) : RANK_NOTHING;
}

int rank_line_mark(const char *p, int64_t bytes, const char *name, struct err *err)
{
    if (bytes >= 2 && (memcmp(p, "\xff\xfe", 2) == 0 || memcmp(p, "\xfe\xff", 2) == 0))
        return err_at(err, name, 1, NULL,
                      "is UTF-16, expected UTF-8 (iconv -f UTF-16 -t UTF-8)");
    return bytes >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}
