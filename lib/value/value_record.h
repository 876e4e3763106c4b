/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VALUE_VALUE_RECORD_H
#define VALUE_VALUE_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "value/value_json_out.h"
#include "value/value_tree.h"

/*
 * Converts between C structs and text.  A table of struct record, one row for each member,
 * gives the member's offset, key, type and range.  With this table record_read reads the struct
 * from a YAML or JSON mapping, and record_put... writes it as YAML, JSON or a line of CSV.
 *
 *     struct port { char host[64]; int ranks; double out_Bps; };
 *
 *     static const struct record port[] = {
 *         RECORD(TEXT, struct port, host, "host"),
 *         RECORD_INT(struct port, ranks, "ranks", 1, INT32_MAX),
 *         RECORD_NUM(struct port, out_Bps, "out_Bps", 1, 1e25, .flags = RECORD_OPTIONAL),
 *         {0}};
 *     record_read(&tree, node, port, "", &p, err);         p is initialized: an absent key
 *     record_put(&j, port, &p);                            leaves its member unchanged
 *
 * A member with RECORD_OPTIONAL or RECORD_NULLABLE can be unknown: a number out of its range
 * (with RECORD_ZERO also 0), an empty text, a word without a name, an object whose first member
 * is unknown.  YAML omits unknown members, JSON writes null.
 */
enum record_type {
    RECORD_END,
    RECORD_WHOLE,  /* int or int64_t, by the member's size */
    RECORD_REAL,   /* double */
    RECORD_BOOL,   /* int 0 or 1: true or false, in YAML yes or no */
    RECORD_TEXT,   /* char[] without control characters; size of the array: `space` */
    RECORD_CHOICE, /* int or enum: an index into `words` */
    RECORD_WORD,   /* any member: `parse` reads it from a text, `name` writes it */
    RECORD_OWN,    /* any member: read and written by `read` and `put` */
    /* Members listed in table `of`, as an object; key NULL: as part of the enclosing object */
    RECORD_OBJECT,
};

enum {
    RECORD_OPTIONAL = 1, /* the key may be absent or null */
    RECORD_NULLABLE = 2, /* the key must be present; its value may be null */
    RECORD_ABSENT = 4,   /* JSON omits an unknown member too */
    RECORD_ZERO = 8,     /* 0 means unknown */
    RECORD_BRIEF = 16,   /* YAML omits the first choice */
    RECORD_OTHER = 256,  /* first flag for the table's own use */
};

struct record {
    const char *key;
    enum record_type type;
    size_t at, space;
    int flags;
    /* Range of whole numbers; of a text lo is the minimum length in bytes */
    int64_t lo, hi;
    double least, most; /* range of reals */
    /* The member is a list of `numbers` items, each of `each` numbers.  The int at offset
       count_at is the number of items in use; count_at 0: all. */
    int numbers, each;
    size_t count_at;
    const char *const *words; /* ends with NULL */
    const struct record *of;
    /* Functions replace the type's default behaviour; NULL: the default. */
    /* why: error text "'x', expected ..." */
    int (*parse)(const char *text, void *out, struct err *why);
    int (*read)(const struct record *f, const struct tree *t, const struct tree_node *n,
                void *at, struct err *err); /* must report errors with tree_fail */
    void (*put)(const struct record *f, struct jout *j, const void *at);
    const char *(*name)(const void *value); /* text of a word; NULL: unknown */
    const char *column;                     /* CSV heading, if it is not the key */
};

/* One row: RECORD(TEXT, struct port, host, "host") */
#define RECORD(type_, struct_, member_, key_, ...)                                             \
    {                                                                                          \
        .key = (key_), .type = RECORD_##type_, .at = offsetof(struct_, member_),               \
        .space = sizeof((struct_ *)0)->member_, __VA_ARGS__                                    \
    }
#define RECORD_INT(struct_, member_, key_, lo_, hi_, ...)                                      \
    RECORD(WHOLE, struct_, member_, key_, .lo = (lo_), .hi = (hi_), __VA_ARGS__)
#define RECORD_NUM(struct_, member_, key_, least_, most_, ...)                                 \
    RECORD(REAL, struct_, member_, key_, .least = (least_), .most = (most_), __VA_ARGS__)
/* A row for a word; uses the functions that RECORD_WORDS defines. */
#define RECORD_TERM(struct_, member_, key_, words_, ...)                                       \
    RECORD(WORD, struct_, member_, key_, .parse = parse_##words_, .name = name_of_##words_,    \
           __VA_ARGS__)
#define RECORD_WORDS(words_, type_, parser_, namer_)                                           \
    static int parse_##words_(const char *text, void *out, struct err *why)                    \
    {                                                                                          \
        return parser_(text, out, why);                                                        \
    }                                                                                          \
    static const char *name_of_##words_(const void *value)                                     \
    {                                                                                          \
        return namer_(*(const type_ *)value);                                                  \
    }
/* A part of the same struct as an object of its own; key NULL: as members of the enclosing
   object. */
#define RECORD_PART(key_, of_, ...)                                                            \
    {                                                                                          \
        .key = (key_), .type = RECORD_OBJECT, .of = (of_), __VA_ARGS__                         \
    }

/* The value of a RECORD_REAL member. */
double record_real(const struct record *f, const void *from);
/* Checks that n is a mapping whose keys are those of the table and of `more` (format:
   tree_keys); required keys must be present. */
int record_keys(const struct tree *t, const struct tree_node *n, const struct record *f,
                const char *more, struct err *err);
/* Reads the members from n, whose keys record_keys has checked, into the struct `out`.  Members
   of absent keys are unchanged.  Returns -1 and ERR_INPUT with file, line and key. */
int record_values(const struct tree *t, const struct tree_node *n, const struct record *f,
                  void *out, struct err *err);
/* record_keys, then record_values. */
int record_read(const struct tree *t, const struct tree_node *n, const struct record *f,
                const char *more, void *out, struct err *err);
/* Writes the members only; the caller has opened their object. */
void record_put(struct jout *j, const struct record *f, const void *from);
/* Write an object with the members, and a list of `count` such objects, `size` bytes apart. */
void record_put_object(struct jout *j, const char *key, const struct record *f,
                       const void *from);
void record_put_list(struct jout *j, const char *key, const struct record *f, const void *from,
                     int count, size_t size);
/* Writes one line of JSON, with newline. */
void record_put_line(FILE *out, const struct record *f, const void *from);
/* Writes one line of CSV (RFC 4180); from NULL: the headings of the columns. */
void record_put_csv(FILE *out, const struct record *f, const void *from);

#endif
