/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Knows how trainers write a step and its loss.  Does not know where lines come from.
 *
 * Logs have tens of millions of lines: the usual ones are told by their first bytes and read
 * without a call per digit.  What a line says behind its loss is never looked at, but for the
 * braces of JSON: the last one says that it was written whole, another one that it is for the
 * strict reader to say, since a line that was written over this one begins with it.
 */
#include "rank/rank_line.h"

#include <endian.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/jin.h"

static int is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

/*
 * The digits at p, up to eight, into *v behind what is there, all at once: which of 8 bytes are
 * no digits, the first one's place, then pairs, fours and eights of what is before it.
 */
static inline const char *eight_digits(const char *p, uint64_t *v)
{
    static const uint64_t power[] = {1,      10,      100,      1000,     10000,
                                     100000, 1000000, 10000000, 100000000};
    const uint64_t high = 0x8080808080808080u;
    uint64_t t;
    memcpy(&t, p, sizeof t);
    t = le64toh(t) ^ 0x3030303030303030u;
    /* A digit is 0 to 9 now: 0x76 more stays below 0x80; what is above has the bit already. */
    uint64_t other = (((t & ~high) + 0x7676767676767676u) | t) & high;
    int n = other ? __builtin_ctzll(other) / 8 : 8;

    if (n == 0)
        return p;
    t <<= 64 - 8 * n; /* zeros before */
    t = t * 10 + (t >> 8);
    t = ((t & 0x000000ff000000ffu) * (100 + (UINT64_C(1000000) << 32)) +
         (t >> 16 & 0x000000ff000000ffu) * (1 + (UINT64_C(10000) << 32))) >>
        32;
    *v = *v * power[n] + t;
    return p + n;
}

/* Letters, digits, dot and underline go on with a word. */
static int is_word(char c)
{
    return is_digit(c) || (unsigned char)((c | 32) - 'a') < 26 || c == '.' || c == '_';
}

/*
 * m / 10^k, to nearest even, m of 2^53 and above, k up to 18: the quotient of m 2^63 has 56
 * bits or more (53 + 63 - 60); 55 of them with the last one set where anything is lost round
 * like the whole.
 */
__attribute__((noinline)) static double divide(uint64_t m, int k)
{
    static const uint64_t ten[] = {1,
                                   10,
                                   100,
                                   1000,
                                   10000,
                                   100000,
                                   1000000,
                                   10000000,
                                   100000000,
                                   1000000000,
                                   10000000000,
                                   100000000000,
                                   1000000000000,
                                   10000000000000,
                                   100000000000000,
                                   1000000000000000,
                                   10000000000000000,
                                   100000000000000000,
                                   1000000000000000000};
    unsigned __int128 n = (unsigned __int128)m << 63, q = n / ten[k];
    int lost = n % ten[k] != 0;
    uint64_t high = (uint64_t)(q >> 64);
    int bits = high ? 128 - __builtin_clzll(high) : 64 - __builtin_clzll((uint64_t)q);
    int drop = bits - 55;

    lost |= (q & (((unsigned __int128)1 << drop) - 1)) != 0;
    return ldexp((double)((uint64_t)(q >> drop) | (unsigned)lost), drop - 63);
}

/* Not a decimal: nan, inf, infinity; NULL: nor these. */
__attribute__((noinline)) static const char *word(const char *p, double *out)
{
    static const struct {
        const char *name;
        double value;
    } words[] = {{"nan", NAN}, {"infinity", INFINITY}, {"inf", INFINITY}};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t n = strlen(words[i].name);
        if (strncasecmp(p, words[i].name, n) == 0 && !is_word(p[n])) {
            *out = words[i].value;
            return p + n;
        }
    }
    return NULL;
}

/* Of more digits than 64 bits hold, or a far exponent; *out is without its sign. */
static const char *unusual(const char *p, const char *end, double *out)
{
    char *to = NULL;

    *out = strtod(p, &to);
    return to == end ? end : NULL;
}

/* The exponent behind "e", if there is one; NULL: "e" and no number. */
static const char *exponent(const char *p, int *ten)
{
    int minus, v = 0;

    if ((*p | 32) != 'e')
        return p;
    p++;
    minus = *p == '-';
    p += *p == '-' || *p == '+';
    if (!is_digit(*p))
        return NULL;
    for (; is_digit(*p); p++)
        v = v < 100000 ? v * 10 + (*p - '0') : v; /* beyond that it is 0 or infinite anyway */
    *ten += minus ? -v : v;
    return p;
}

/* Powers of 10 that are doubles: with m below 2^53 one operation rounds once. */
static const double power_of_10[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                     1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                     1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* Any decimal. */
__attribute__((noinline)) static const char *decimal(const char *p, double *out)
{
    const char *from = p;
    uint64_t m = 0; /* wraps around where digits are too many */
    int ten = 0;

    for (; is_digit(*p); p++)
        m = m * 10 + (uint64_t)(*p - '0');
    long digits = p - from;
    if (*p == '.') {
        const char *point = ++p;
        for (; is_digit(*p); p++)
            m = m * 10 + (uint64_t)(*p - '0');
        ten = p - point > 9999 ? -9999 : -(int)(p - point);
        digits += p - point;
    }
    p = digits ? exponent(p, &ten) : NULL;
    if (!p || is_word(*p))
        return NULL;
    if (digits > 19) /* 10^19 is below 2^64 */
        return unusual(from, p, out);
    if (m < UINT64_C(1) << 53 && ten <= 22 && ten >= -22)
        *out = ten < 0 ? (double)m / power_of_10[-ten] : (double)m * power_of_10[ten];
    else if (m >= UINT64_C(1) << 53 && ten <= 0 && ten >= -18)
        *out = divide(m, -ten);
    else
        return unusual(from, p, out);
    return p;
}

/* A sign, a word, or more digits than number() takes. */
__attribute__((noinline)) static const char *any_number(const char *p, double *out)
{
    int minus = *p == '-';

    p += *p == '-' || *p == '+';
    const char *end = is_digit(*p) || *p == '.' ? decimal(p, out) : word(p, out);
    if (end && minus)
        *out = -*out;
    return end;
}

/* As rank_line_number, and quickly where it is as usual: "3.2958", "11.031900". */
static inline const char *number(const char *p, double *out)
{
    const char *from = p;

    if (!is_digit(*p))
        return any_number(p, out);
    uint64_t m = (uint64_t)(*p++ - '0');
    if (is_digit(*p))
        m = m * 10 + (uint64_t)(*p++ - '0');
    if (*p != '.')
        return any_number(from, out);
    const char *point = p + 1;
    p = eight_digits(point, &m);
    if (p == point || p == point + 8 || (*p != ' ' && is_word(*p)))
        return any_number(from, out);
    *out = (double)(int64_t)m / power_of_10[p - point]; /* 9 digits at most */
    return p;
}

const char *rank_line_number(const char *p, double *out)
{
    return number(p, out);
}

/* Digits; NULL: none, or too many. */
static inline const char *whole(const char *p, int64_t *out)
{
    const char *from = p;
    uint64_t v = 0;

    p = eight_digits(p, &v);
    if (p == from + 8)
        for (; is_digit(*p); p++)
            v = v * 10 + (uint64_t)(*p - '0');
    *out = (int64_t)v;
    /* 17 digits cannot pass 64 bits. */
    return p == from || p - from > 17 || v > (uint64_t)RANK_STEP_MAX ? NULL : p;
}

const char *rank_line_step(const char *p, int64_t *out)
{
    return whole(p, out);
}

static const char *blanks(const char *p)
{
    while (*p == ' ' || *p == '\t')
        p++;
    return p;
}

/* p behind a word of n bytes, NULL where there is another; p NULL stays NULL. */
static const char *behind(const char *p, const char *what, size_t n)
{
    return p && memcmp(p, what, n) == 0 ? p + n : NULL;
}

#define BEHIND(p, what) behind(p, what, sizeof(what) - 1)

/* "N/M" or "N". */
static const char *steps(const char *p, struct rank_point *out)
{
    p = whole(p, &out->step);
    if (p && *p == '/')
        p = whole(p + 1, &out->planned);
    return p;
}

/* The number of a loss, p its place or NULL. */
static inline enum rank_said loss(const char *p, struct rank_point *out, const char **at)
{
    if (!p)
        return RANK_NOTHING;
    p = number(p, &out->loss);
    /* "1,5" is a number of another country's, or two numbers: which is not for us to say. */
    *at = p && *p == ',' && is_digit(p[1]) ? NULL : p;
    return *at ? RANK_LOSS : RANK_BROKEN;
}

/* "step N/M | train loss X", "step N/M | loss X", "step N: train loss X", p behind "step ". */
__attribute__((noinline)) static enum rank_said console(const char *p, struct rank_point *out,
                                                        const char **at)
{
    p = steps(blanks(p), out);
    p = p ? blanks(p) : NULL;
    if (!p || (*p != '|' && *p != ':'))
        return RANK_NOTHING;
    p = blanks(p + 1);
    const char *train = BEHIND(p, "train ");
    p = BEHIND(train ? train : p, "loss ");
    return loss(p ? blanks(p) : NULL, out, at);
}

enum rank_said rank_line_quick(const char *p, struct rank_point *out, const char **at,
                               int *json)
{
    const char *q;

    *out = (struct rank_point){0};
    *json = *p == '{';
    *at = p;
    if (*p == '{') {
        *at = NULL;
        q = BEHIND(p, "{\"step\":");
        q = BEHIND(q ? whole(q, &out->step) : NULL, ",\"loss\":");
        q = q ? number(q, &out->loss) : NULL;
        if (!q || !is_digit(q[-1]) || ((*q != ',' || q[1] != '"') && *q != '}'))
            return RANK_NOTHING;
        *at = q;
        return RANK_LOSS;
    }
    if (*p != 's')
        return RANK_NOTHING;
    if ((q = BEHIND(p, "s:"))) {
        q = whole(q, &out->step);
        return loss(BEHIND(q, " trl:"), out, at);
    }
    if ((q = BEHIND(p, "step:"))) {
        q = steps(q, out);
        return loss(BEHIND(q, " train_loss:"), out, at);
    }
    return (q = BEHIND(p, "step ")) ? console(q, out, at) : RANK_NOTHING;
}

/* null, NaN and Infinity are no numbers, and Python writes the latter two. */
static int json_number(struct jin *j, double *out)
{
    char c = jin_next(j);
    const char *p = j->text + j->at, *end;

    if (c == 'n' && j->bytes - j->at >= 4 && memcmp(p, "null", 4) == 0) {
        *out = NAN;
        j->at += 4;
        return 0;
    }
    if (c == 0 || c == '\n' || !(end = rank_line_number(p, out)))
        return -1;
    j->at += end - p;
    return 0;
}

/* Skips a value, the bare words of Python among them. */
static int json_skip(struct jin *j)
{
    char c = jin_next(j);
    double v;

    return c == '-' || c == 'N' || c == 'I' ? json_number(j, &v) : jin_skip(j);
}

/* The value of a key; what is no number where one is wanted is another program's key. */
static int json_value(struct jin *j, struct rank_point *out, int *has_step, int *has_loss)
{
    struct jin value = {.text = j->text, .bytes = j->bytes};
    int step = strcmp(j->word, "step") == 0, loss_here = strcmp(j->word, "loss") == 0;
    int tokens = strcmp(j->word, "tokens") == 0;
    int64_t v = 0;

    if (jin_take(j, ':'))
        return -1;
    value.at = j->at;
    if (step || tokens) {
        int got = jin_whole(&value, &v) == 0 && v <= RANK_STEP_MAX;
        if (step) {
            *has_step = got;
            out->step = v;
        } else {
            out->tokens = got ? v : 0;
        }
    } else if (loss_here) {
        *has_loss = json_number(&value, &out->loss) == 0;
    }
    return json_skip(j);
}

enum rank_said rank_line_json(const char *p, int64_t bytes, struct rank_point *out)
{
    struct jin j = {.text = p, .bytes = bytes};
    int n = 0, more = -1, has_step = 0, has_loss = 0;

    *out = (struct rank_point){0};
    if (jin_take(&j, '{') == 0)
        while ((more = jin_item(&j, '}', &n)) > 0)
            if (jin_text(&j) || json_value(&j, out, &has_step, &has_loss)) {
                more = -1;
                break;
            }
    int whole_line = more == 0 && jin_end(&j) == 0;
    jin_release(&j);
    if (!whole_line)
        return RANK_BROKEN;
    return has_step && has_loss ? RANK_LOSS : RANK_NOTHING;
}

int rank_line_mark(const char *p, int64_t bytes, const char *name, struct err *err)
{
    if (bytes >= 2 && (memcmp(p, "\xff\xfe", 2) == 0 || memcmp(p, "\xfe\xff", 2) == 0))
        return err_at(err, name, 1, NULL,
                      "is UTF-16, expected UTF-8 (iconv -f UTF-16 -t UTF-8)");
    return bytes >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}
